"""Captions: two moments in, one sentence out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.fault import KINDS, Fault, FaultKind, begun_words
from replexplorer.core.history.caption import MOST_CHARACTERS, Matters, caption, headline
from replexplorer.core.knobs.names import KnobName, Value
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


TURNED = (
    (tick(OFF), tick(OFF), ""),
    (
        tick(OFF, semi_sync="off"), tick(ARMED, semi_sync="on"),
        "semi-sync on: every commit now waits for db2, 85 ms away",
    ),
    (tick(ARMED, semi_sync="on"), tick(ON, semi_sync="on"), ""),
    (
        tick(OFF, rtt=(0, 0.1), semi_sync="off"), tick(ON, rtt=(0, 0.1), semi_sync="on"),
        "semi-sync on: every commit now waits for db2, next door",
    ),
    (
        tick(OFF, replicas=2, semi_sync="off"), tick(ON, replicas=2, semi_sync="on"),
        "semi-sync on: every commit now waits for the nearest of db2 and db3, 85 ms away",
    ),
    (
        tick(ON, replicas=3), tick(ON, replicas=3, semi_sync_replicas=2),
        "a commit needs 2 acknowledgements: it waits for the nearest 2 of db2, db3 and db4, 85 ms away",
    ),
    (
        tick(ON, semi_sync="on"), tick(OFF, semi_sync="off"),
        "semi-sync off: a commit waits for no replica, and its loss with the source is silent",
    ),
    (
        tick(ON, (0.0, 0.1)), tick(ON, (25.0, 25.2)),
        "db2 is 25 ms away now: a commit pays that round trip",
    ),
    (
        tick(OFF, (0.0, 0.1)), tick(OFF, (25.0, 25.2)),
        "db2 is 25 ms away now: a commit does not wait for it",
    ),
    (tick(ON, partition="both"), tick(ON), "the line between db1 and db2 is whole again"),
    (resting(tick(ON, clients=32)), tick(ON, clients=32), ""),
    (tick(ON), tick(BLOCKED), "every commit waits: no acknowledgement from db2"),
    (
        tick(ON, replicas=2), tick(BLOCKED, replicas=2),
        "every commit waits: no acknowledgement from db2 or db3",
    ),
    (
        tick(BLOCKED), tick(DEGRADED),
        "semi-sync has given up waiting: a commit is answered with its row on db1 alone",
    ),
    (tick(DEGRADED), tick(ON), "protected again: every commit waits for db2, 85 ms away"),
    (tick(BLOCKED), tick(OFF), "commits get through again"),
    (tick(ON), down(tick(ProtectionState.DOWN), "db1"), "db1 is down: no commit gets through"),
    (down(tick(ProtectionState.DOWN), "db1"), tick(ARMED), "db1 answers again: commits get through"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("before", "now", "said"), TURNED, ids=[said[:60] or "nothing" for *_, said in TURNED]
)
def test_what_happened_in_a_sentence(before: Tick, now: Tick, said: str) -> None:
    assert caption(before, now) == said


SET: list[dict[str, Any]] = [
    {"semi_sync_replicas": 2},
    {"sync_binlog": 0},
    {"sync_binlog": 1000},
    {"innodb_flush_log_at_trx_commit": 2},
    {"innodb_flush_log_at_trx_commit": 0},
    {"sync_binlog": 0, "innodb_flush_log_at_trx_commit": 2},
    {"wait_point": "after_commit"},
    {"partition": "ack"},
    {"clients": 1},
    {"clients": 0},
]


def test_what_was_set_in_a_sentence(snapshot: object) -> None:
    assert [(values, caption(tick(ON), tick(ON, **values))) for values in SET] == snapshot


def test_another_source_is_said_before_anything_else() -> None:
    now = tick(BLOCKED)
    now = replace(now, nodes=tuple(replace(node, is_source=node.name == "db2") for node in now.nodes))
    assert caption(tick(ON), now) == "db2 is the source now: clients write there, not to db1"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.key)
def test_every_fault_has_words_of_its_own(kind: FaultKind) -> None:
    for value in kind.values or ("500",):
        begun = fault(kind.key, value)
        said = caption(tick(ON), replace(tick(ON), faults=(begun,)))
        assert said == begun_words(begun.row, begun.value, begun.node, "db1")
        assert not said.startswith("fault ")
        assert "db1" in said
        assert caption(replace(tick(ON), faults=(begun,)), tick(ON)) == f"mended: the fault {begun} is over"


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


def test_the_number_that_matters() -> None:
    blocked, degraded = tick(BLOCKED), tick(DEGRADED)
    waits = replace(blocked.protection, since_s=12.0, oldest_wait_s=9.5)
    unknown = replace(EXPOSED, source_lost=Unknown("nobody counted"))
    for moment, tps, said in (
        (tick(ON), 528.0, (Matters.TPS, 528.0, "commits a second")),
        (tick(ON), None, (Matters.TPS, None, "commits a second")),
        (replace(blocked, at_s=20.0, protection=waits), 0.0, (Matters.WAIT, 9.5, "seconds without a commit")),
        (degraded, 900.0, (Matters.AT_RISK, 8, "commits lost if db1 were lost")),
        (replace(degraded, exposure=unknown), 900.0, (Matters.TPS, 900.0, "commits a second")),
    ):
        assert headline(moment, tps) == said
