"""Captions: two moments in, one sentence out."""

from __future__ import annotations

from dataclasses import replace

from replexplorer.core.fault import KINDS, Fault
from replexplorer.core.history.caption import MOST_CHARACTERS, caption, headline
from replexplorer.core.knobs.names import BY_KEY, KnobName, Value, parse_value
from replexplorer.core.server.exposure import Unknown
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.tick import Tick
from tests.ticks import EXPOSED, down, make_tick

NODES = {"rtt": "db2", "partition": "db2", "clients": "load"}
"""Where a knob is by itself, if not at the source."""


def moment(words: str) -> Tick:
    """`protected replicas=2 sync_binlog=0`: a state, and what is not at its default; rtt is 85 ms."""
    state, *changed = words.split()
    given = dict(each.split("=") for each in changed)
    rtt_ms, replicas = float(given.pop("rtt", "85")), int(given.pop("replicas", "1"))
    values = {
        KnobName(key, NODES.get(key, "primary")): parse_value(BY_KEY[key], text)
        for key, text in given.items()
    }
    rtt = rtt_ms, rtt_ms + 0.2
    return make_tick(1.0, state=ProtectionState(state), rtt=rtt, replicas=replicas, values=values)


PROTECTED, ENDED = moment("protected"), down(moment("down"), "db1")


def with_knobs(moment: Tick, **effective: Value | None) -> Tick:
    """The same where these knobs, by name, have another value in effect; `all`: every knob."""
    knobs = {
        name: replace(view, effective=effective.get(name.key, effective.get("all", view.effective)))
        for name, view in moment.knobs.items()
    }
    return replace(moment, knobs=knobs)


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
    assert [caption(PROTECTED, ENDED), caption(ENDED, moment("armed"))] == snapshot
    assert caption(with_knobs(PROTECTED, clients=0), PROTECTED) == ""


def test_another_source_is_said_before_anything_else() -> None:
    now = moment("blocked")
    now = replace(now, nodes=tuple(replace(node, is_source=node.name == "db2") for node in now.nodes))
    assert caption(PROTECTED, now) == "db2 is the source now: clients write there, not to db1"


def test_every_fault_has_words_of_its_own() -> None:
    for kind, value in ((each, value) for each in KINDS for value in each.values or ("500",)):
        begun = Fault(1, kind.key, value, "db1", 100.0, None, "tui (pid 1)", {}, ())
        struck = replace(PROTECTED, faults=(begun,))
        said = caption(PROTECTED, struck)
        assert said.partition(" ")[0] != "fault"
        assert "db1" in said
        assert caption(struck, PROTECTED) == f"fault cleared: {begun}"


def test_any_turn_of_any_knob_is_one_short_sentence() -> None:
    before = moment("off")
    for name, view in before.knobs.items():
        for value in {*name.knob.steps} - {view.effective}:
            turned = replace(view, requested=value, effective=value)
            said = caption(before, replace(before, knobs={**before.knobs, name: turned}))
            assert 0 < len(said) <= MOST_CHARACTERS
            assert said.isprintable()
            assert "None" not in said


def test_what_is_not_known_is_no_change() -> None:
    unknown = with_knobs(PROTECTED, all=None)
    assert caption(PROTECTED, unknown) == caption(unknown, PROTECTED) == ""
    assert caption(PROTECTED, replace(PROTECTED, knobs={})) == ""


def test_the_number_that_matters(snapshot: object) -> None:
    blocked, degraded = moment("blocked"), moment("degraded")
    waits = replace(blocked.protection, since_s=12.0, oldest_wait_s=9.5)
    uncounted = replace(degraded, exposure=replace(EXPOSED, source_lost=Unknown("it was not counted")))
    told = [
        headline(PROTECTED, 528.0),
        headline(PROTECTED, None),
        headline(replace(blocked, at_s=20.0, protection=waits), 0.0),
        headline(degraded, 900.0),
        headline(uncounted, 900.0),
    ]
    assert told == snapshot
