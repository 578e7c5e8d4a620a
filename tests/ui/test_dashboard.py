"""The dashboard driven by keys: what is drawn, what the facade is asked, in which order."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cached_cell_len
from syrupy.assertion import SnapshotAssertion
from textual.geometry import Offset, Region

from replexplorer.core.epochs.epochs import Epoch
from replexplorer.core.errors import StackUnavailable
from replexplorer.core.event import Event, Severity
from replexplorer.core.server.counters import Binlogs
from replexplorer.core.server.node_view import ThreadError
from replexplorer.core.tick import Tick
from replexplorer.core.wire import Flap
from replexplorer.ui.charts.chart_model import ChartModel
from replexplorer.ui.style.theme import layout_for
from replexplorer.ui.terminal.crash import forget_what_was_drawn
from replexplorer.ui.widgets.lines import Cadence, Chart, Lines
from replexplorer.ui.widgets.strips import block_rows
from tests.fakes.facade import FakeFacade
from tests.known import known
from tests.ticks import WALL_S, altered, change_event, make_tick, tick_of
from tests.typed import table_of
from tests.ui.driving import EVERY_SIZE, Bench, Size, bench, page


def chart(app: Bench, name: str) -> ChartModel:
    return known(app.dashboard.query_one(name, Chart).shown)


LAYOUTS = """\
150 42 wide
150 41 normal
118 33 normal
117 33 compact
80  24 compact
79  24 tiny
80  23 tiny
"""


async def test_the_layout_is_decided_by_size_alone_and_a_terminal_that_is_too_small_comes_back() -> None:
    for width, height, layout in table_of(LAYOUTS, None):
        assert layout_for(int(width), int(height)).value == layout
    async with bench(size=(60, 16)) as app:
        await app.pilot.resize_terminal(120, 36)
        await app.until(lambda: app.dashboard.has_class("-normal"))
        await app.shows("sync_binlog")


async def test_keys_start_the_load_set_a_mark_take_back_and_reset_each_where_the_keymap_has_it() -> None:
    async with bench(keymap={"mark.add": "f5"}) as app:
        assert "f5 mark" in app.text("#footer")
        await app.press("x m f5 u R u")
        await app.asked("undo", None, None)
        asked = [name for name, _ in app.facade.calls]
        assert asked == ["start", "toggle_load", "mark", "undo", "reset", "undo"]
        assert "undo failed: nothing to undo" in app.notices
        await app.press("ctrl+p")
        await app.until(lambda: type(app.app.screen).__name__ == "CommandPalette")
        await app.press("mark:")
        await app.until(lambda: app.app.screen.query_one("CommandList").option_count == 1)  # type: ignore[attr-defined]
        await app.press("down enter")
        await app.asked("mark", "mark", "mark")


async def test_repair_is_offered_while_something_is_down_or_stopped_and_says_what_it_did() -> None:
    async with bench() as app:
        strip = app.dashboard.query_one("#replica-strip")
        await app.press("f")
        await app.told("nothing to repair: every server answers")
        await app.play("2 down=db2")
        await app.until(lambda: strip.display)
        app.facade.repaired = ("db2: server started", "db2: SQL thread started")
        await app.press("f")
        await app.told("repaired: db2: server started; db2: SQL thread started")
        await app.asked("repair", None, None)
        await app.play("2.5")
        assert not strip.display
        await app.play(replace(tick_of("3 down=db2"), state="starting"))
        assert not strip.display, "a stack that starts has no trouble yet"


@pytest.mark.parametrize("width", [80, 160])
async def test_the_nodes_are_listed_with_their_threads_lag_and_links(
    width: int, snapshot: SnapshotAssertion
) -> None:
    """A round trip that is not as asked is shown once. While the list is open they say what each has: a
    set that is longer than a row goes on below; what another replica has too is said of it."""
    fault = "Worker 1 failed executing transaction: Duplicate entry '7' for key 'SOURCE'"
    tick = altered(
        tick_of("replicas=2 rtt=40,49.25 explained db3.io_thread=connecting db3.lag_s=75.0"),
        db2={
            "sql_thread": "error",
            "sql_error": ThreadError(1062, fault),
            "diverged": "it lacks 2 transactions",
        },
    )
    first, second = (replace(each, fault=each.contradiction) for each in tick.links)
    flapping = replace(first, flap=Flap(2.0, 0.5, 0.0), is_down=True)
    tick = replace(tick, links=(flapping, second), pairs=(replace(second, replica="db2:db3", fault=None),))
    server, other = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "5d2f1e8c-71ca-11e1-9e33-c80aa9429562"
    errant: dict[str, Any] = {"errant_gtids": f"{other}:1-2", "received_to": "binlog.000002:500"}
    db1, db2, db3 = tick.nodes
    async with bench(tick, size=(width, 24)) as app:
        await app.opened("N")
        pages = app.whole
        await app.closed()
        app.facade.in_full = (
            replace(
                db1,
                gtid_executed=f"{server}:1-1234",
                binlogs=Binlogs(2, 1_500_000, "binlog.000002:500", 12_345.6),
            ),
            replace(
                db2,
                **errant,
                gtid_executed=f"{server}:1-1200:1205:1210-1230, {other}:1-2",
                retrieved_gtids=f"{server}:900-1234",
                missing_gtids=f"{server}:1201-1204:1206-1209:1231-1234",
                applied_to="binlog.000002:400",
                binlogs=Binlogs(1, 900, "binlog.000001:900"),
            ),
            replace(db3, **errant, gtid_executed=f"{server}:1-1234, {other}:1-2", missing_gtids=""),
        )
        await app.opened("N")
        await app.until(lambda: any("missing" in row for row in app.whole), "what they have")
        assert all(len(row) <= width for row in app.whole)
        assert page(pages, app.whole) == snapshot


EPOCH = Epoch(0, 0.0, "baseline", None, 619.0, p50_ms=25.2, p95_ms=29.0, p99_ms=35.0, n=28_500)


async def test_freezing_holds_everything_and_a_badge_says_what_is_so_meanwhile(
    snapshot: SnapshotAssertion,
) -> None:
    """Ten minutes of talk over a held picture: nothing on it moves but the badge, which shows the outage, and
    a knob that is turned."""
    told = (change_event(1.0, 1, "begun"),)
    begun = [tick_of(f"{1 + at / 2} explained", epochs=(EPOCH,), events=told[: 1 - at]) for at in range(6)]
    event = Event(9.0, WALL_S, Severity.BAD, "commits wait")

    def held() -> list[object]:
        names = "#big-strip", "#topology", "#anatomy", "#epochs", "#events"
        return [*map(app.text, names), chart(app, "#tps-chart")]

    async with bench(*begun, size=(160, 45)) as app:
        before = held()
        await app.press("space")
        headers = app.rows("#header")
        outage = "9 state=blocked tps=0.0 rtt=85.0,99.0 down=db2"
        epochs = EPOCH, replace(EPOCH, number=1, title="later")
        await app.play(tick_of(outage, events=(event,), epochs=epochs))
        assert held() == before
        headers = [*headers, *app.rows("#header")]
        assert "f repair" in app.text("#footer")
        for key, words in (("L", "commits wait"), ("g", "later")):
            assert words not in await app.opened(key)
            await app.closed()
        assert "85.4" in app.rows("#knobs")[1]
        await app.play(replace(tick_of("9.5 rtt=20.0,20.3"), epochs=(EPOCH,)))
        assert re.search(r"20 ms.*20\.3", app.rows("#knobs")[1])
        await app.press("space")
        assert page(headers, app.rows("#header")) == snapshot
        assert "commits wait" in app.text("#events")
        assert chart(app, "#tps-chart") != before[-1]


async def test_a_held_picture_moves_through_the_session_and_turns_nothing() -> None:
    def newest() -> float | None:
        series = chart(app, "#tps-chart").series
        return next(each for each in series if each.ink == "tps").points[-1][1]

    session = [make_tick(float(at), tps=30.0 + at) for at in range(1, 30)]
    async with bench(*session, size=(160, 45)) as app:
        await app.press("space")
        await app.play("40 tps=100.0")
        for key, at_s in (("left", 24), ("shift+left", 1), ("right", 6), ("shift+right", 29)):
            await app.press(key)
            await app.shows(f" FROZEN -{40 - at_s} s ")
            assert newest() == 30 + at_s
        app.facade.recorded = app.facade.recorded[10:]
        await app.press("shift+left")
        await app.told("this session is not recorded")
        await app.press("space")
        assert newest() == 100
        assert not app.dashboard.board.staged


@EVERY_SIZE
async def test_each_figure_of_now_is_one_figure_wherever_it_is_shown(size: Size) -> None:
    """Header, big digits and the line's end, tick by tick and after keys between them."""
    async with bench("window=400x8", size=size) as app:
        shown = set()
        for at in range(2, 9):
            await app.play(f"{at / 2} window={100 + 37 * at}x{5 + at}")
            for key in ("", "down", "+", "1", "escape")[: 1 + 4 * (at % 3 == 0)]:
                await app.press(key)
                tps = chart(app, "#tps-chart").series[1].labels[0].removesuffix(" now")
                if size[0] == 160:
                    assert block_rows(tps)[1] in app.rows("#big-strip")[2], (at, key)
                else:
                    assert re.findall(r"TPS +(\S+)", app.text("#header")) == [tps], (at, key)
                if size[0] == 120:
                    labels = [each.labels[0] for each in chart(app, "#latency-chart").series[1:]]
                    [p50, p99] = re.findall(r"p50(?:/95/99)? +(\S+).*? (\S+) ms", app.text("#header"))[0]
                    assert (labels[-1], labels[1]) == (f"p50 {p50}", f"p99 {p99}"), (at, key)
            shown.add(tps)
        assert len(shown) > 3, "it moves"


async def test_ticks_that_break_off_are_told() -> None:
    class Broken(FakeFacade):
        async def ticks(self) -> AsyncIterator[Tick]:
            async for tick in super().ticks():
                yield tick
                raise StackUnavailable("the stack is gone", "start it again with `replexplorer up`")

    async with bench("1", facade=Broken()) as app:
        await app.told("watching failed: the stack is gone")
        assert "PROTECTED" in app.text("#header")


@pytest.mark.terminal
async def test_what_was_drawn_is_forgotten() -> None:
    """An hour of ticks must not stay behind as regions that once changed, nor as texts and regions that
    the libraries remember."""
    async with bench("1") as app:
        for second in range(2, 14):
            await app.play(f"{second} tps={100 + 37.7 * second} rtt=85,{85 + second}")
        widgets = [each for each in app.dashboard.query(Lines) if each.is_mounted and each.display]
        assert {len(widget._dirty_regions) for widget in widgets} == {0}
        remembered = [cached_cell_len, Region.intersection, Region.translate]
        cached_cell_len("drawn"), Region(0, 0, 2, 2).intersection(Region(1, 1, 2, 2)).translate(Offset(1, 1))
        assert all(each.cache_info().currsize for each in remembered)
        forget_what_was_drawn()
        assert not any(each.cache_info().currsize for each in remembered)


async def test_a_held_outage_keeps_its_badge_at_80_columns_whatever_else_is_wrong() -> None:
    cut = "sync_binlog=0 partition@db2=both"
    async with bench(f"state=blocked {cut}", size=(80, 24)) as app:
        await app.press("space")
        await app.play(f"1.5 state=degraded {cut} tps=1889.0")
        await app.shows(" FROZEN -0 s   1889 ▲", "◼ BLOCKED")


async def test_the_screen_is_saved_as_a_picture_that_needs_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the dashboard and in a list; what is there is kept, and why nothing is written is told once."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("replexplorer.ui.app.time.strftime", lambda *_: "20260708-091011")
    async with bench(stack="of db1:3306") as app:
        picture = tmp_path / "replexplorer-of-db1-3306-20260708-091011.svg"
        await app.press("ctrl+s")
        await app.told(str(picture))
        saved = picture.read_text("utf-8")
        assert "PROTECTED" in saved
        assert not [one for one in ("@font-face", "url(http", "Fira", "arial") if one in saved]
        await app.opened("N")
        await app.press("ctrl+s")
        await app.told("file exists")
        assert picture.read_text("utf-8") == saved
        picture.unlink()
        await app.press("ctrl+s")
        await app.until(lambda: picture.exists() and "Nodes" in picture.read_text("utf-8"))


# Figures that all move with each tick are drawn less often; words at once


STORY = """\
10.0 armed     True
10.5 armed     False
10.6 protected True   # other words
10.9 protected False
11.4 protected True   # in the next second, whenever it was last drawn
11.4 protected True   # the same moment: drawn again at another size
11.9 protected False
3.2  protected True   # a jump back in a recording
3.7  protected False
"""


def test_figures_stand_and_words_do_not() -> None:
    cadence = Cadence(1.0)
    for at_s, words, is_due, *why in table_of(STORY, None):
        assert str(cadence.is_due(float(at_s), words)) == is_due, (at_s, why)


async def test_charts_that_only_grow_are_drawn_once_a_second_and_an_event_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench("1") as app:
        drawn: list[str] = []
        original = Chart.show

        def counted(chart: Chart, model: ChartModel) -> None:
            drawn.append(str(chart.id))
            original(chart, model)

        monkeypatch.setattr(Chart, "show", counted)
        both = ["tps-chart", "latency-chart"]
        for at_s, events, wanted in (
            (1.5, (), []),
            (2.0, (), both),
            (2.5, (change_event(2.5, 1, "rtt 85"),), both),
        ):
            drawn.clear()
            await app.play(make_tick(at_s, events=events))
            assert (at_s, drawn) == (at_s, wanted)
        drawn.clear()
        await app.press("+")
        assert drawn == both
