"""Which stretches of time the charts shade, and the words in them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product, starmap

import pytest
from syrupy.assertion import SnapshotAssertion

from replexplorer.core.server.exposure import Exposure, Loss, Unknown, silent
from replexplorer.ui.picture import Picture
from replexplorer.ui.widgets.lines import Chart
from replexplorer.ui.words.states import exposure_line
from tests.ticks import change_event, make_tick, tick_of, ticks_of
from tests.typed import table_of
from tests.ui.driving import bench, folded, page


def windows(picture: Picture, chart: str = "tps") -> list[str]:
    """`START..END KIND: WORD (SHORT)` each; without an end while it is open."""
    return [
        f"{one.start_s:g}..{'' if one.end_s is None else f'{one.end_s:g}'} {one.kind.name}: {one.word}"
        + (f" ({one.short})" if one.short else "")
        for one in picture.chart(chart).page.windows
    ]


KILLED = "5.7 down=db2 fault=kill@db2 since=5"
POWER_CUT = "fault=power_cut=strict@db1 since=5"
DROPS = ";".join(
    f"{at / 2} load.mode=open load.dropped={5 * (4 <= at < 8 or at == 10 or at >= 30)}" for at in range(40)
)
WINDOWS = f"""\
4.5; 5 partition@db2=ack; 5.5 partition@db2=ack; 14 healing; 14.9 | \
5..14.9 PARTITION: partition ack 9.9 s (partition ack)
5 partition@db2=ack; 9 partition@db2=both; 12 | \
5..9 PARTITION: partition ack 4.0 s (partition ack); 9..12 PARTITION: partition both 3.0 s (partition both)
5 partition@db2=ack; 6 links.values=None links.fault='an agent does not answer' | 5.. PARTITION: partition ack
6 links.values=None links.fault='an agent does not answer' |
5 partition@db2=ack; 6 partition@db2=ack state=blocked; 16 partition@db2=ack state=degraded; \
20 state=degraded; 20.5 | \
5..20 PARTITION: partition ack 15.0 s (partition ack); 6..16 BLOCKED: blocked 10.0 s (blocked); \
16..20.5 DEGRADED: degraded 4.5 s (degraded)
5; 6.5 state=blocked protection.since_s=5.2; 7 state=blocked protection.since_s=5.2; \
15.5 state=degraded protection.since_s=15.2; 16 protection.since_s=15.9 | \
5.2..15.2 BLOCKED: blocked 10.0 s (blocked); 15.2..15.9 DEGRADED: degraded 0.7 s (degraded)
5.5 state=degraded protection.settled=False; 6 |
5; 8 db2.restarted_s=7.4; 9 db2.restarted_s=7.4 | 7.4..7.4 RESTART: db2 restarted
5.2 fault=kill@db2 since=5; {KILLED}; 9 | 5..9 FAULT: kill@db2 4.0 s (kill@db2)
5 fault=pause@db2 since=-300 | -300.. FAULT: pause@db2 (pause)
5.5 partition@db2=both fault=isolate since=5; 9 healing; 10 | 5..10 FAULT: isolate@db1 5.0 s (isolate@db1)
5.5 partition@db2=both down=db1 {POWER_CUT}; 14 partition@db2=both {POWER_CUT}; \
14.5 healing {POWER_CUT}; 15 | 5..15 FAULT: power_cut=strict@db1 10.0 s (power_cut=strict@db1)
5.5 partition@db2=ack fault=partition=ack@db2 since=5 | 5.5.. PARTITION: partition ack
5.5 fault=kill since=5; 7; 8.5 fault=kill since=8 | \
5..7 FAULT: kill@db1 2.0 s (kill@db1); 8.. FAULT: kill@db1 (kill)
{DROPS} | 1.5..5 DROPPED: dropped 3.5 s (dropped); 14.5.. DROPPED: dropped
"""
"""What is shaded after these ticks.

A partition lasts until events flow again, and an agent that does not answer ends none; what it brings is
shaded as well. A state begins when the first commit waited, and is none while a change passes through it. A
fault lasts from its injection on, also one from before the dashboard; of an isolated node and of a power cut
until the links flow, for one of a link is its partition; numbers begin again once no fault is in force. At
last arrivals that an open loop drops.
"""


@pytest.mark.parametrize(("ticks", "told"), table_of(WINDOWS))
def test_a_window_is_as_long_as_what_it_is_of(ticks: str, told: str) -> None:
    picture = folded(ticks_of(ticks))
    assert windows(picture) == windows(picture, "latency") == windows(picture, "exposure")
    assert "; ".join(windows(picture)) == told


def test_a_mark_stands_where_its_fault_begins() -> None:
    """It comes when all is done; what is drawn by then stays where it is."""
    begun = tick_of(KILLED, events=(change_event(5.4, 1, "fault kill@db2"),))
    over = make_tick(9.5, events=(change_event(9.0, 2, "fault over: kill@db2"),))
    picture = folded([*ticks_of("4.5; 5.2 fault=kill@db2 since=5"), begun, over])
    assert [(mark.number, mark.at_s) for mark in picture.marks] == [(1, 5.0), (2, 9.0)]
    assert picture.chart("exposure").page == picture.chart("tps").page


@pytest.mark.parametrize(
    ("tick", "held"),
    [("5 partition@db2=ack", "5.. PARTITION: partition ack"), (KILLED, "5.. FAULT: kill@db2 (kill)")],
)
def test_a_held_picture_keeps_its_open_window(tick: str, held: str) -> None:
    picture = folded(ticks_of(tick))
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
EXTREMES = Loss(0, 0, 0), Loss(10**7, 10**7, 2 * 10**7, 1e8), Unknown("x" * 80)
EXPOSURES = (
    HIDDEN,
    WIDE_SPREAD,
    silent("the source was not reached"),
    replace(HIDDEN, read_ago_s=0.9),
    replace(HIDDEN, read_ago_s=1.4),
    replace(WIDE_SPREAD, read_ago_s=1.4),
    None,
    *starmap(Exposure, product(EXTREMES, repeat=3)),
)


def test_the_line_has_as_much_as_fits_and_what_is_unknown_is_never_a_figure(
    snapshot: SnapshotAssertion,
) -> None:
    rows = []
    for exposure, width in product(EXPOSURES, (75, 80, 120)):
        rows.append("".join(text for text, _ in exposure_line(exposure, width)))
        assert len(rows[-1]) <= width
    assert page(rows) == snapshot


VIEWS = """\
80 24  e | tps; exposure; tps
80 24  v | tps; latency; exposure; lag; tps
80 40  e | tps latency; tps exposure; tps latency
120 36 v | tps latency; tps exposure; tps lag; tps latency
160 45 e | tps latency exposure; tps latency exposure
160 45 v | tps latency exposure; tps latency lag; tps latency exposure
"""
"""The charts that are seen, by their titles, before and after each time that a key is pressed."""


@pytest.mark.parametrize(("pressed", "views"), table_of(VIEWS))
async def test_a_key_shows_the_chart_in_place_of_another_and_a_large_screen_has_all(
    pressed: str, views: str
) -> None:
    width, height, key = pressed.split()
    async with bench(size=(int(width), int(height))) as app:
        for view in views.split("; "):
            charts = (chart for chart in app.dashboard.query(Chart) if chart.region.area)
            assert [chart.rows[0].strip(" ─").split()[0].lower() for chart in charts] == view.split()
            await app.press(key)
            await app.pilot.pause()


def test_unknown_is_a_gap_and_no_zero() -> None:
    found = folded(make_tick(at_s, exposure=risk) for at_s, risk in ((1.5, HIDDEN), (2.0, None))).chart(
        "exposure"
    )
    assert [[value for _, value in one.points] for one in found.series] == [
        [0.0, None],
        [312.0, None],
        [None, None],
    ]
