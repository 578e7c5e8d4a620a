"""Which stretches of time the charts shade, and the words in them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from replexplorer.core.fault import Fault
from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.server.exposure import Exposure, Loss, Unknown, silent
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.tick import Tick
from replexplorer.ui.picture import Picture
from replexplorer.ui.widgets.lines import Chart
from replexplorer.ui.words.states import exposure_line
from tests.fakes.facade import WALL_S, altered, change_event, down, make_tick
from tests.ui.driving import Bench, bench, folded, page

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
        (
            (make_tick(4.5), cut(5.0), cut(5.5), HEALED, make_tick(14.9)),
            ["5..14.9 PARTITION: partition ack 9.9 s (partition ack)"],
        ),
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
        (
            (under(make_tick(5.2), "kill", "db2"), KILLED, make_tick(9.0)),
            ["5..9 FAULT: kill@db2 4.0 s (kill@db2)"],
        ),
        ((under(make_tick(5.0), "pause", "db2", since_s=-300.0),), ["-300.. FAULT: pause@db2 (pause)"]),
        ((*ISOLATED, make_tick(10.0)), ["5..10 FAULT: isolate@db1 5.0 s (isolate@db1)"]),
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


# The exposure: its line at every size, its chart, and which charts a screen has

HIDDEN = Exposure(Loss(0, 0, 0), Loss(312, 300, 340, 413.0), Unknown("no replica"))
WIDE_SPREAD = Exposure(
    Loss(0, 0, 0), Loss(11_013, 11_002, 11_031, 65_000.0), Loss(128_400, 90_000, 130_000, 3_600_000.0)
)


def text_of(exposure: Exposure | None, width: int) -> str:
    return "".join(text for text, _ in exposure_line(exposure, width))


LINES = (
    HIDDEN,
    WIDE_SPREAD,
    silent("the source was not reached"),
    replace(HIDDEN, read_ago_s=0.9),
    replace(HIDDEN, read_ago_s=1.4),
    replace(WIDE_SPREAD, read_ago_s=1.4),
    None,
)


def test_the_line_has_as_much_as_fits(snapshot: SnapshotAssertion) -> None:
    assert page(text_of(exposure, width) for exposure in LINES for width in (75, 80, 120)) == snapshot


EXTREMES = (
    Loss(0, 0, 0), Loss(10**7, 10**7, 2 * 10**7, 1e8), Unknown("no replica"), Unknown("x" * 80),
)  # fmt: skip


@pytest.mark.parametrize("width", [75, 80, 111])
@pytest.mark.parametrize("losses", product(EXTREMES, repeat=3))
def test_whatever_is_at_risk_fits_and_what_is_unknown_is_never_a_figure(
    losses: tuple[Any, Any, Any], width: int
) -> None:
    exposure = Exposure(*losses)
    text = text_of(exposure, width)
    assert len(text) <= width
    if "unknown (" in text and " · " not in text:
        assert isinstance(exposure.process_dies, Unknown)
        assert exposure.process_dies == exposure.power_cut == exposure.source_lost
        return
    for part, loss in zip(text.split(" · "), losses, strict=True):
        figure = part.partition(" (")[0].split()[-1]
        assert (figure in ("unknown", "-")) is isinstance(loss, Unknown)


def shown(app: Bench) -> str:
    """The charts that are seen, by their titles."""
    charts = app.dashboard.query(Chart)
    return " ".join(chart.rows[0].strip(" ─").split()[0].lower() for chart in charts if chart.region.area)


@pytest.mark.parametrize(
    ("size", "key", "views"),
    [
        ((80, 24), "e", ["tps", "exposure", "tps"]),
        ((80, 24), "v", ["tps", "latency", "exposure", "lag", "tps"]),
        ((80, 40), "e", ["tps latency", "tps exposure", "tps latency"]),
        ((120, 36), "v", ["tps latency", "tps exposure", "tps lag", "tps latency"]),
        ((160, 45), "e", ["tps latency exposure"] * 2),
        ((160, 45), "v", ["tps latency exposure", "tps latency lag", "tps latency exposure"]),
    ],
)
async def test_a_key_shows_the_chart_in_place_of_another_and_a_large_screen_has_all(
    size: tuple[int, int], key: str, views: list[str]
) -> None:
    async with bench(size=size) as app:
        seen = [shown(app)]
        for _ in views[1:]:
            await app.press(key)
            await app.pilot.pause()
            seen.append(shown(app))
        assert seen == views


def test_unknown_is_a_gap_and_no_zero() -> None:
    ticks = (make_tick(1.0), make_tick(1.5, exposure=HIDDEN), make_tick(2.0, exposure=None))
    found = folded(ticks).chart("exposure")
    assert [list(one.points) for one in found.series] == [
        [(1.0, 0.0), (1.5, 0.0), (2.0, None)],
        [(1.0, 312.0), (1.5, 312.0), (2.0, None)],
        [(1.0, 8.0), (1.5, None), (2.0, None)],
    ]
