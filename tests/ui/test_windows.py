"""Which stretches of time the charts shade, and the words in them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replexplorer.core.fault import Fault
from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.tick import Tick
from replexplorer.ui.picture import Picture
from tests.fakes.facade import WALL_S, altered, change_event, down, make_tick
from tests.ui.driving import folded

BLOCKED, DEGRADED = ProtectionState.BLOCKED, ProtectionState.DEGRADED


def cut(at_s: float, how: str = "ack", state: ProtectionState = ProtectionState.PROTECTED) -> Tick:
    values: dict[KnobName, Value] = {KnobName("partition", "db2"): how}
    return make_tick(at_s, values=values, state=state)


def waits(at_s: float, state: ProtectionState, since_s: float) -> Tick:
    return altered(make_tick(at_s, state=state), protection={"since_s": since_s})


def under(tick: Tick, kind: str, node: str = "db1", value: str | None = None, since_s: float = 5.0) -> Tick:
    """The tick with a fault in force."""
    return replace(tick, faults=(Fault(1, kind, value, node, WALL_S + since_s, None, "fault (pid 12)", {}),))


def dropping(at_s: float, dropped: int) -> Tick:
    return altered(make_tick(at_s), load={"mode": "open", "dropped": dropped})


def windows(picture: Picture, chart: str = "tps") -> list[str]:
    """`START..END KIND: WORD (SHORT)` each; without an end while it is open."""
    return [
        f"{one.start_s:g}..{'' if one.end_s is None else f'{one.end_s:g}'} {one.kind.name}: {one.word}"
        + (f" ({one.short})" if one.short else "")
        for one in picture.chart(chart).page.windows
    ]


HEALED = make_tick(14.0, healing=True)
KILLED = under(down(make_tick(5.7), "db2"), "kill", "db2")
ISOLATED = (under(cut(5.5, "both"), "isolate"), make_tick(9.0, healing=True))
OUT = (cut(5.0), cut(6.0, state=BLOCKED), cut(16.0, state=DEGRADED))
POWER_CUT = tuple(
    under(tick, "power_cut", value="strict")
    for tick in (down(cut(5.5, "both"), "db1"), cut(14.0, "both"), make_tick(14.5, healing=True))
)
NO_ANSWER = altered(make_tick(6.0), links={"values": None, "fault": "an agent does not answer"})
RESTARTED = altered(make_tick(8.0), db2={"restarted_s": 7.4})


@pytest.mark.parametrize(
    ("ticks", "told"),
    [
        # A partition, until events flow again; an agent that does not answer ends none.
        ((make_tick(4.5), cut(5.0), cut(5.5), HEALED), ["5.. PARTITION: partition ack"]),
        ((cut(5.0), HEALED, make_tick(14.9)), ["5..14.9 PARTITION: partition ack 9.9 s (partition ack)"]),
        (
            (cut(5.0), cut(9.0, "both"), make_tick(12.0)),
            [
                "5..9 PARTITION: partition ack 4.0 s (partition ack)",
                "9..12 PARTITION: partition both 3.0 s (partition both)",
            ],
        ),
        ((cut(5.0), NO_ANSWER), ["5.. PARTITION: partition ack"]),
        ((NO_ANSWER,), []),
        # What it brings is shaded beside it.
        (
            (*OUT, make_tick(20.0, state=DEGRADED), make_tick(20.5)),
            [
                "5..20 PARTITION: partition ack 15.0 s (partition ack)",
                "6..16 BLOCKED: blocked 10.0 s (blocked)",
                "16..20.5 DEGRADED: degraded 4.5 s (degraded)",
            ],
        ),
        # A state begins when the first commit waited, and is none while a change passes through it.
        (
            (
                make_tick(5.0), waits(6.5, BLOCKED, 5.2), waits(7.0, BLOCKED, 5.2),
                waits(15.5, DEGRADED, 15.2), waits(16.0, ProtectionState.PROTECTED, 15.9),
            ),
            ["5.2..15.2 BLOCKED: blocked 10.0 s (blocked)", "15.2..15.9 DEGRADED: degraded 0.7 s (degraded)"],
        ),
        ((altered(make_tick(5.5, state=DEGRADED), protection={"settled": False}), make_tick(6.0)), []),
        ((make_tick(5.0), RESTARTED, replace(RESTARTED, at_s=9.0)), ["7.4..7.4 RESTART: db2 restarted"]),
        # A fault, from its injection on, also one from before the dashboard; of an isolated node and of a
        # power cut until the links flow, for one of a link is its partition.
        ((under(make_tick(5.2), "kill", "db2"), KILLED), ["5.. FAULT: kill@db2 (kill)"]),
        ((KILLED, make_tick(9.0)), ["5..9 FAULT: kill@db2 4.0 s (kill@db2)"]),
        ((under(make_tick(5.0), "pause", "db2", since_s=-300.0),), ["-300.. FAULT: pause@db2 (pause)"]),
        (ISOLATED, ["5.. FAULT: isolate@db1 (isolate)"]),
        ((*ISOLATED, make_tick(10.0)), ["5..10 FAULT: isolate@db1 5.0 s (isolate@db1)"]),
        (POWER_CUT, ["5.. FAULT: power_cut=strict@db1 (power_cut)"]),
        ((*POWER_CUT, make_tick(15.0)), ["5..15 FAULT: power_cut=strict@db1 10.0 s (power_cut=strict@db1)"]),
        ((under(cut(5.5), "partition", "db2", "ack"),), ["5.5.. PARTITION: partition ack"]),
        # Numbers begin again once no fault is in force.
        (
            (
                under(make_tick(5.5), "kill"), make_tick(7.0), under(make_tick(8.5), "kill", since_s=8.0),
            ),
            ["5..7 FAULT: kill@db1 2.0 s (kill@db1)", "8.. FAULT: kill@db1 (kill)"],
        ),
        # Arrivals that an open loop drops
        (
            [dropping(at / 2, 5 if 4 <= at < 8 or at == 10 or at >= 30 else 0) for at in range(40)],
            ["1.5..5 DROPPED: dropped 3.5 s (dropped)", "14.5.. DROPPED: dropped"],
        ),
    ],
)  # fmt: skip
def test_a_window_is_as_long_as_what_it_is_of(ticks: list[Tick], told: list[str]) -> None:
    picture = folded(ticks)
    assert windows(picture) == windows(picture, "latency") == windows(picture, "exposure") == told


def test_a_mark_stands_where_its_fault_begins() -> None:
    """It comes when all is done; what is drawn by then stays where it is."""
    begun = replace(KILLED, events=(change_event(5.4, 1, "fault kill@db2"),))
    over = make_tick(9.5, events=(change_event(9.0, 2, "fault over: kill@db2"),))
    picture = folded([make_tick(4.5), under(make_tick(5.2), "kill", "db2"), begun, over])
    assert [(mark.number, mark.at_s) for mark in picture.marks] == [(1, 5.0), (2, 9.0)]
    assert picture.chart("exposure").page == picture.chart("tps").page


@pytest.mark.parametrize(
    ("tick", "held"),
    [(cut(5.0), "5.. PARTITION: partition ack"), (KILLED, "5.. FAULT: kill@db2 (kill)")],
)
def test_a_held_picture_keeps_its_open_window(tick: Tick, held: str) -> None:
    picture = folded([tick])
    picture.freeze()
    picture.fold(make_tick(9.0))
    assert windows(picture) == [held]
    picture.freeze()
    [ended] = windows(picture)
    assert ended.startswith("5..9 ")
