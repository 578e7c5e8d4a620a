"""Captions: two moments in, one sentence out."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.fault import KINDS, Fault, begun_words
from replexplorer.core.history.caption import MOST_CHARACTERS, caption, headline
from replexplorer.core.knobs.names import BY_KEY, KnobName, Value, parse_value
from replexplorer.core.server.exposure import Unknown
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.tick import Tick
from tests.fakes.facade import EXPOSED, down, make_tick

OFF, ON, ARMED = ProtectionState.OFF, ProtectionState.PROTECTED, ProtectionState.ARMED
BLOCKED, DEGRADED = ProtectionState.BLOCKED, ProtectionState.DEGRADED


def tick(
    state: ProtectionState = ON, rtt: tuple[float, float | None] = (85.0, 85.4), replicas: int = 1,
    **values: Value,
) -> Tick:  # fmt: skip
    """A moment with these knobs in effect; a knob's node is the one that it is of by itself."""
    nodes = {"rtt": "db2", "partition": "db2", "clients": "load", "load_mode": "load"}
    named = {KnobName(key, nodes.get(key, "primary")): value for key, value in values.items()}
    return make_tick(1.0, state=state, rtt=rtt, replicas=replicas, values=named)


def resting(moment: Tick) -> Tick:
    """The same while the load pauses, as between the stages of a lab."""
    knobs = {
        name: replace(view, effective=0) if name.key == "clients" else view
        for name, view in moment.knobs.items()
    }
    return replace(moment, knobs=knobs)


def fault(kind: str, value: str | None = None, node: str = "db1") -> Fault:
    return Fault(1, kind, value, node, 100.0, None, "tui (pid 1)", {}, ())


def moment(words: str) -> Tick:
    """`protected replicas=2 sync_binlog=0`: a state, and what is not at its default."""
    state, *changed = words.split()
    given = dict(each.split("=") for each in changed)
    rtt_ms, replicas = float(given.pop("rtt", "85")), int(given.pop("replicas", "1"))
    values = {key: parse_value(BY_KEY[key], text) for key, text in given.items()}
    return tick(ProtectionState(state), (rtt_ms, rtt_ms + 0.2), replicas, **values)


TURNED = """\
off                           -> off
off semi_sync=off             -> armed semi_sync=on
armed semi_sync=on            -> protected semi_sync=on
off rtt=0 semi_sync=off       -> protected rtt=0 semi_sync=on
off replicas=2 semi_sync=off  -> protected replicas=2 semi_sync=on
protected replicas=3          -> protected replicas=3 semi_sync_replicas=2
protected                     -> protected semi_sync_replicas=2
protected semi_sync=on        -> off semi_sync=off
protected rtt=0               -> protected rtt=25
off rtt=0                     -> off rtt=25
protected                     -> protected sync_binlog=0
protected                     -> protected sync_binlog=1000
protected                     -> protected innodb_flush_log_at_trx_commit=2
protected                     -> protected innodb_flush_log_at_trx_commit=0
protected                     -> protected sync_binlog=0 innodb_flush_log_at_trx_commit=2
protected                     -> protected wait_point=after_commit
protected                     -> protected partition=ack
protected partition=both      -> protected
protected                     -> protected clients=1
protected                     -> protected clients=0
protected                     -> blocked
protected replicas=2          -> blocked replicas=2
blocked                       -> degraded
degraded                      -> protected
blocked                       -> off
"""


def test_what_happened_in_a_sentence(snapshot: object) -> None:
    assert {line: caption(*map(moment, line.split("->"))) for line in TURNED.splitlines()} == snapshot


def test_a_server_that_ends_and_answers_again_in_a_sentence_and_a_load_that_pauses_in_none(
    snapshot: object,
) -> None:
    ended = down(tick(ProtectionState.DOWN), "db1")
    assert [caption(tick(ON), ended), caption(ended, tick(ARMED))] == snapshot
    assert caption(resting(tick(ON, clients=32)), tick(ON, clients=32)) == ""


def test_another_source_is_said_before_anything_else() -> None:
    now = tick(BLOCKED)
    now = replace(now, nodes=tuple(replace(node, is_source=node.name == "db2") for node in now.nodes))
    assert caption(tick(ON), now) == "db2 is the source now: clients write there, not to db1"


def test_every_fault_has_words_of_its_own() -> None:
    for kind, value in ((each, value) for each in KINDS for value in each.values or ("500",)):
        begun = fault(kind.key, value)
        said = caption(tick(ON), replace(tick(ON), faults=(begun,)))
        assert said == begun_words(begun.row, begun.value, begun.node, "db1")
        assert not said.startswith("fault ")
        assert "db1" in said
        assert caption(replace(tick(ON), faults=(begun,)), tick(ON)) == f"fault cleared: {begun}"


@given(st.data())
def test_any_turn_of_any_knob_is_one_short_sentence(data: st.DataObject) -> None:
    before = tick(OFF)
    names = list(before.knobs)
    name = data.draw(st.sampled_from(names))
    steps = [value for value in name.knob.steps if value != before.knobs[name].effective]
    if not steps:
        return
    value = data.draw(st.sampled_from(steps))
    view = replace(before.knobs[name], requested=value, effective=value)
    said = caption(before, replace(before, knobs={**before.knobs, name: view}))
    assert 0 < len(said) <= MOST_CHARACTERS
    assert said.isprintable()
    assert "None" not in said


def test_what_is_not_known_is_no_change() -> None:
    now = tick(ON)
    knobs = {name: replace(view, effective=None) for name, view in now.knobs.items()}
    assert caption(now, replace(now, knobs=knobs)) == ""
    assert caption(replace(now, knobs=knobs), now) == ""
    assert caption(now, replace(now, knobs={})) == ""


def test_the_number_that_matters(snapshot: object) -> None:
    blocked, degraded = tick(BLOCKED), tick(DEGRADED)
    waits = replace(blocked.protection, since_s=12.0, oldest_wait_s=9.5)
    unknown = replace(EXPOSED, source_lost=Unknown("nobody counted"))
    moments: dict[str, tuple[Tick, float | None]] = {
        "protected": (tick(ON), 528.0),
        "TPS unknown": (tick(ON), None),
        "blocked": (replace(blocked, at_s=20.0, protection=waits), 0.0),
        "degraded": (degraded, 900.0),
        "nobody counts what is at risk": (replace(degraded, exposure=unknown), 900.0),
    }
    assert {case: headline(*moment) for case, moment in moments.items()} == snapshot
