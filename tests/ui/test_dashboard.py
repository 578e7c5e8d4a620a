"""The dashboard driven by keys: what is drawn, what the facade is asked, in which order."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import pytest
from rich.cells import cached_cell_len
from textual import events
from textual.geometry import Offset, Region

from replexplorer.core.dialect.dialect import Capabilities, Range
from replexplorer.core.epochs.epochs import Epoch
from replexplorer.core.errors import ServerRefused, StackUnavailable
from replexplorer.core.event import Event, Severity
from replexplorer.core.knobs.catalogue import CATALOGUE, Knob
from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.server.comeback import lax_knobs
from replexplorer.core.server.node_view import ThreadError
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.server.truth import ReplicaTruth
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.system import ASYNC
from replexplorer.core.tick import Tick
from replexplorer.core.topology import SOURCE, Role
from replexplorer.core.wire import Flap
from replexplorer.engine.outcome import Preview
from replexplorer.formats.themes import BUILT_IN
from replexplorer.ui.app import ExplorerApp
from replexplorer.ui.charts.chart_model import ChartModel
from replexplorer.ui.screens.dashboard import CommandDone, CommandFailed
from replexplorer.ui.settings import Settings
from replexplorer.ui.style.theme import Layout, layout_for
from replexplorer.ui.terminal.crash import forget_what_was_drawn
from replexplorer.ui.widgets.knob_panel import KnobPanel
from replexplorer.ui.widgets.lines import Chart, Lines
from replexplorer.ui.widgets.statement import Intent, ladder, risky
from replexplorer.ui.widgets.strips import big_rows, solid_rows
from replexplorer.ui.words import figures
from replexplorer.ui.words.states import KnobEffect, contradiction_of
from tests.fakes.facade import WALL_S, FakeFacade, change_event, down, explained, make_tick
from tests.fakes.servers import MYSQL_9
from tests.ui.driving import Bench, ManualClock, bench

RTT = KnobName("rtt", "db2")
SYNC = KnobName("sync_binlog", SOURCE)


def chart(app: Bench, name: str) -> ChartModel:
    model = app.dashboard.query_one(name, Chart).shown
    assert model is not None
    return model


def toasts(app: Bench) -> str:
    return "\n".join(f"{note.title}: {note.message}" for note in app.app._notifications)


async def test_the_start_ends_in_a_drawn_tick_by_one_message_each() -> None:
    async with bench(make_tick(1.0), fresh=True) as app:
        assert "● PROTECTED" in app.text("#header")
        assert "1/1 ack" in app.text("#header")
        assert "RTT 85.4" in app.text("#header")
        assert "db1 primary 9.7.4 :33061 ──▸ db2 replica" in app.text("#topology")


@pytest.mark.parametrize(
    ("size", "layout"),
    [
        ((160, 45), Layout.WIDE),
        ((150, 42), Layout.WIDE),
        ((150, 41), Layout.NORMAL),
        ((118, 33), Layout.NORMAL),
        ((117, 33), Layout.COMPACT),
        ((80, 24), Layout.COMPACT),
        ((79, 24), Layout.TINY),
        ((80, 23), Layout.TINY),
    ],
)
def test_the_layout_is_decided_by_size_alone(size: tuple[int, int], layout: Layout) -> None:
    assert layout_for(*size) is layout


@pytest.mark.parametrize(
    ("size", "shown", "hidden"),
    [
        ((160, 45), "big-strip knobs statement tps-chart latency-chart epochs", "value-strip tiny"),
        ((120, 36), "knobs statement tps-chart latency-chart epochs", "big-strip knob-line tiny"),
        ((80, 24), "tps-chart value-strip epoch-strip knob-line", "left latency-chart epochs drawer"),
        ((80, 40), "tps-chart latency-chart value-strip knob-line", "left drawer"),
        ((60, 16), "tiny", "header body events footer"),
    ],
)
async def test_each_size_shows_its_widgets(size: tuple[int, int], shown: str, hidden: str) -> None:
    async with bench(size=size) as app:
        find = app.dashboard.query_one
        assert [name for name in shown.split() if not find(f"#{name}").region.area] == []
        assert [name for name in hidden.split() if find(f"#{name}").display] == []


async def test_a_terminal_that_is_too_small_says_so_and_comes_back() -> None:
    async with bench(size=(60, 16)) as app:
        assert "needs 80 x 24" in app.text("#tiny")
        assert "this terminal is 60 x 16" in app.text("#tiny")
        assert "528 TPS" in app.text("#tiny")
        await app.pilot.resize_terminal(120, 36)
        await app.until(lambda: app.dashboard.has_class("-normal"))
        await app.until(lambda: "sync_binlog" in app.text("#knobs"))


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (ProtectionState.PROTECTED, "● PROTECTED"),
        (ProtectionState.ARMED, "◐ ARMED"),
        (ProtectionState.OFF, "○ ASYNC"),
        (ProtectionState.BLOCKED, "◼ BLOCKED"),
        (ProtectionState.DEGRADED, "▲ DEGRADED"),
        (ProtectionState.DOWN, "✖ DOWN"),
    ],
)
@pytest.mark.parametrize("width", [160, 120, 80])
async def test_the_header_fits_and_names_the_state_at_every_width(
    state: ProtectionState, word: str, width: int
) -> None:
    tick = make_tick(1.0, state=state, viewer=True)
    assert tick.load is not None
    tick = replace(tick, load=replace(tick.load, errors=12, unknown=3, reconnects=4, driver="load (pid 123)"))
    async with bench(tick, size=(width, 42)) as app:
        [row] = app.rows("#header")
        assert len(row) == width
        assert word in row
        assert "VIEWER" in row
        assert "TPS" in row


async def test_a_measured_round_trip_that_is_not_the_asked_one_stands_out() -> None:
    async with bench(make_tick(1.0, rtt=(85.0, 95.0))) as app:
        drawn = app.painted("#header")[0]
        assert ("95.0", "warn b") in drawn
        await app.play(make_tick(2.0, rtt=(85.0, None)))
        assert "RTT none" in app.text("#header")
        assert "none" in app.rows("#knobs")[1]


async def test_arrows_select_and_stage_and_the_rest_applies() -> None:
    async with bench() as app:
        await app.press("down", "j", "up")
        assert app.dashboard.board.selected == KnobName("partition", "db2")
        await app.press("k", "left", "left", "right")
        assert app.dashboard.board.staged == {RTT: 50}
        assert "◂ 50 ms ▸" in app.text("#knobs")
        assert "Will run on the sidecars" in app.text("#statement")
        assert app.facade.called("set") == []
        app.clock.now_s += 0.5
        await app.pilot.pause(0.25)
        assert app.facade.called("set") == []
        app.clock.now_s += 0.2
        await app.until(lambda: app.facade.called("set") == [[("rtt@db2", 50)]])
        await app.until(lambda: any(isinstance(message, CommandDone) for message in app.messages))


async def test_enter_applies_at_once_and_escape_drops() -> None:
    async with bench() as app:
        await app.press("right", "escape")
        assert app.dashboard.board.staged == {}
        await app.press("shift+left", "enter")
        await app.until(lambda: app.facade.called("set") == [[("rtt@db2", 25)]])


async def test_a_change_under_way_is_shown_as_such() -> None:
    facade = FakeFacade()
    gate = facade.hold["set"] = asyncio.Event()
    async with bench(facade=facade) as app:
        await app.press("right", "enter")
        await app.until(lambda: "applying…" in app.text("#knobs"))
        gate.set()
        await app.until(lambda: any(isinstance(message, CommandDone) for message in app.messages))
        await app.play(make_tick(2.0, rtt=(150.0, 150.2)))
        assert "applying…" not in app.text("#knobs")
        assert "150 ms" in app.text("#knobs")


async def test_a_refusal_is_one_toast_and_the_value_goes_back() -> None:
    facade = FakeFacade()
    facade.failures["set"] = ServerRefused(1227, "access denied", "grant SYSTEM_VARIABLES_ADMIN")
    async with bench(facade=facade) as app:
        await app.press("right", "enter")
        await app.until(lambda: any(isinstance(message, CommandFailed) for message in app.messages))
        await app.pilot.pause()
        assert "set failed: access denied: grant SYSTEM_VARIABLES_ADMIN" in toasts(app)
        assert "◂ 85 ms ▸" in app.text("#knobs")


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
async def test_digits_type_a_value_with_its_unit(size: tuple[int, int]) -> None:
    async with bench(size=size) as app:
        await app.press("2", "full_stop", "5", "m", "s")
        assert "◂ 2.5ms " in app.text("#knobs" if size[0] > 80 else "#knob-line")
        await app.press("enter")
        await app.until(lambda: app.facade.called("set") == [[("rtt@db2", 2.5)]])
        assert app.dashboard.board.typed is None


async def test_what_is_pasted_goes_into_the_open_field_alone() -> None:
    async with bench() as app:
        app.app.post_message(events.Paste("s 9"))
        await app.press("2")
        app.app.post_message(events.Paste("5\nx"))
        await app.until(lambda: app.dashboard.board.typed == "25")
        assert app.facade.called("set") == []


async def test_a_wrong_value_is_told_in_one_line_and_nothing_is_asked() -> None:
    async with bench() as app:
        await app.press("9", "k", "g", "enter")
        assert "✖ rtt=9kg has the wrong unit" in app.text("#statement")
        assert app.dashboard.board.typed is None
        await app.press("escape")
        assert "✖" not in app.text("#statement")
        assert app.facade.called("set") == []
        await app.press("9", "k", "g", "enter", "w")
        await app.until(lambda: app.facade.called("set") == [[("wait_point", "after_commit")]])


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
async def test_a_digit_on_a_knob_of_words_is_refused(size: tuple[int, int]) -> None:
    async with bench(size=size) as app:
        app.dashboard.select_knob(KnobName("semi_sync", SOURCE))
        await app.press("8", "enter")
        told = app.text("#statement" if size[0] > 80 else "#knob-line")
        assert "✖ semi_sync=8" in " ".join(told.split())
        assert app.dashboard.board.typed is None
        await app.press("up")
        assert "✖" not in app.text("#statement")
        assert app.facade.called("set") == []


async def test_a_bare_number_has_the_unit_that_is_shown() -> None:
    async with bench(make_tick(1.0, values={KnobName("semi_sync_timeout", SOURCE): 10_000})) as app:
        app.dashboard.select_knob(KnobName("semi_sync_timeout", SOURCE))
        await app.press("5", "enter")
        await app.until(lambda: app.facade.called("set") == [[("semi_sync_timeout", 5000)]])
        assert "500ms  1s  3s" in app.text("#statement")
        await app.until(lambda: any(isinstance(message, CommandDone) for message in app.messages))
        app.dashboard.select_knob(KnobName("rtt", "db2"))
        await app.press("2", "5", "enter")
        await app.until(lambda: app.facade.called("set")[1:] == [[("rtt@db2", 25.0)]])


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
async def test_a_filter_that_comes_in_one_burst_turns_no_knob(size: tuple[int, int]) -> None:
    """`s` turns semi-sync and `x` the load: on a slow line `/` may come with what is typed after it."""
    async with bench(size=size) as app:
        for key, character in (("slash", "/"), *((one, one) for one in "sxdelay"), ("backspace", "\x7f")):
            app.app.post_message(events.Key(key, character))
        await app.until(lambda: app.dashboard.board.filter == "sxdela")
        assert [name for name, _ in app.facade.calls] == ["start"]


@pytest.mark.parametrize("size", [(120, 36), (80, 24)])
async def test_the_filter_narrows_while_it_is_typed(size: tuple[int, int]) -> None:
    async with bench(size=size) as app:
        await app.press("slash")
        await app.until(lambda: app.dashboard.board.typed is not None)
        await app.press("g", "r", "o", "u", "p", "space", "d", "e", "l")
        panel = "#drawer" if size[0] == 80 else "#knobs"
        await app.until(lambda: "clients" not in app.text(panel))
        assert "group delay" in app.text(panel)
        await app.press("enter")
        assert app.dashboard.board.filter == "group del"
        await app.press("escape")
        assert app.dashboard.board.filter == ""


async def test_the_panel_scrolls_to_the_last_knob_under_its_heading() -> None:
    async with bench() as app:
        board = app.dashboard.board
        await app.press("enter", *["down"] * len(board.views))
        assert board.place == (len(board.views), len(board.views))
        rows = app.rows("#knobs")
        assert rows[0].split()[1:4] == ["asked", "in", "effect"]
        assert f"▸ {board.names[-1].knob.label}" in rows[-1]


async def test_toggles_ask_for_what_is_not_in_force_and_leave_the_selection() -> None:
    async with bench(make_tick(1.0, values={KnobName("semi_sync", SOURCE): "on"})) as app:
        selected = app.dashboard.board.selected
        await app.press("s")
        await app.until(lambda: app.facade.called("set") == [[("semi_sync", "off")]])
        await app.until(lambda: any(isinstance(message, CommandDone) for message in app.messages))
        await app.press("w")
        await app.until(lambda: app.facade.called("set")[1:] == [[("wait_point", "after_commit")]])
        await app.press("p", "x")
        await app.until(lambda: len(app.facade.called("set")) == 3)
        assert app.dashboard.board.selected == selected


async def test_one_key_pulls_every_cable_and_one_plugs_them_in() -> None:
    names = ["partition@db2", "partition@db3"]
    two = make_tick(1.0, replicas=2, values={KnobName("partition", "db3"): "ack"})
    async with bench(two) as app:
        await app.press("p")
        await app.until(lambda: app.facade.called("set") == [[(name, "both") for name in names]])
        await app.until(lambda: any(isinstance(message, CommandDone) for message in app.messages))
        await app.press("r")
        await app.until(lambda: app.facade.called("set")[1:] == [[(name, "none") for name in names]])


async def test_the_other_keys_ask_their_calls_in_order() -> None:
    async with bench() as app:
        await app.press("x", "m", "u", "R", "u")
        await app.until(lambda: len(app.facade.calls) >= 6)
        assert [name for name, _ in app.facade.calls] == [
            "start",
            "toggle_load",
            "mark",
            "undo",
            "reset",
            "undo",
        ]
        assert "undo failed: nothing to undo" in toasts(app)


async def test_repair_is_offered_while_something_is_down_or_stopped_and_says_what_it_did() -> None:
    async with bench() as app:
        await app.press("f")
        await app.until(lambda: "nothing to repair: every server answers" in toasts(app))
        await app.play(down(make_tick(2.0), "db2"))
        assert "f repair" in app.text("#footer")
        assert "db2 ✖ down" in app.text("#topology")
        app.facade.repaired = ("db2: server started", "db2: SQL thread started")
        await app.press("f")
        await app.until(lambda: "repaired: db2: server started; db2: SQL thread" in toasts(app))
        assert len(app.facade.called("repair")) == 2
        await app.play(make_tick(2.5))
        assert "repair" not in app.text("#footer")
        await app.play(threads(make_tick(3.0), "db2", sql="off"))
        assert "f repair" in app.text("#footer")


def threads(tick: Tick, node: str, io: str = "on", sql: str = "on", **more: object) -> Tick:
    nodes = tuple(
        replace(one, io_thread=io, sql_thread=sql, **more) if one.name == node else one  # type: ignore[arg-type]
        for one in tick.nodes
    )
    return replace(tick, nodes=nodes)


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (160, 45)])
async def test_broken_replication_stands_in_a_row_of_its_own_at_every_size(size: tuple[int, int]) -> None:
    """One replica's SQL thread stopped, the other's IO thread: semi-sync says 1/1, and both are named."""
    async with bench(make_tick(1.0, replicas=2), size=size) as app:
        strip = app.dashboard.query_one("#replica-strip")
        assert not strip.display
        broken = threads(threads(make_tick(1.5, replicas=2), "db2", sql="off"), "db3", io="off")
        await app.play(broken)
        await app.until(lambda: bool(app.rows("#replica-strip")))
        [row] = app.rows("#replica-strip")
        assert row.startswith(" ▲ db2: SQL thread stopped   ▲ db3: IO thread stopped ")
        assert row.rstrip().endswith("f repair  N nodes")
        assert len(row) <= size[0]
        late = threads(threads(broken, "db2", sql="off", lag_s=625.0), "db3", io="off", lag_s=714.0)
        await app.play(replace(late, at_s=1.8))
        assert "SQL" in app.rows("#replica-strip")[0]
        assert "db3: IO" in app.rows("#replica-strip")[0]
        assert "…" not in app.rows("#replica-strip")[0]
        await app.play(threads(make_tick(2.0, replicas=2), "db3", lag_s=12.0))
        assert app.rows("#replica-strip")[0].startswith(" ▲ db3: 12 s behind ")
        assert "repair" not in app.rows("#replica-strip")[0]
        await app.play(make_tick(3.0, replicas=2))
        assert not strip.display
        await app.play(replace(broken, at_s=4.0, state="starting"))
        assert not strip.display, "a stack that starts has no trouble yet"


@pytest.mark.parametrize("width", [80, 160])
async def test_the_nodes_are_listed_with_their_threads_and_lag(width: int) -> None:
    fault = "Worker 1 failed executing transaction: Duplicate entry '7' for key 'SOURCE'"
    tick = threads(
        explained(make_tick(1.0, replicas=2)), "db2", "on", "error", sql_error=ThreadError(1062, fault)
    )
    tick = threads(tick, "db3", "connecting", "on", lag_s=75.0)
    async with bench(tick, size=(width, 24)) as app:
        await app.press("N")
        await app.until(lambda: bool(app.whole))
        rows = app.whole
        found = {row.split()[0]: row.split() for row in rows if row.strip()}
        assert found["db1"][1:2] == ["up"]
        assert found["db2"][1:8] == ["up", "on", "error", "12", "ms", "3", "mysql"]
        assert found["db3"][1:6] == ["up", "connecting", "on", "75.0", "s"]
        assert "Duplicate entry '7' for key 'SOURCE'" in " ".join(" ".join(rows).split())
        assert sum("link: asked 85 ms, measured 85.4 ms" in row for row in rows) == 2
        assert all(len(row) <= width for row in rows)


async def test_a_round_trip_that_is_not_as_asked_stands_once_in_the_nodes() -> None:
    tick = make_tick(1.0, rtt=(40.0, 49.25))
    apart = contradiction_of(tick.links[0])
    assert apart
    async with bench(replace(tick, links=(replace(tick.links[0], fault=apart),)), size=(80, 24)) as app:
        await app.press("N")
        await app.until(lambda: bool(app.whole))
        row = next(row for row in app.whole if "link:" in row)
        assert row.strip() == "link: asked 40 ms, measured 49.2 ms"


async def test_a_link_between_two_replicas_and_one_that_flaps_stand_below_their_nodes() -> None:
    tick = explained(make_tick(1.0, replicas=2))
    flapping = replace(tick.links[0], flap=Flap(2.0, 0.5, 0.0), is_down=True)
    pair = replace(tick.links[1], replica="db2:db3")
    async with bench(replace(tick, links=(flapping, tick.links[1]), pairs=(pair,)), size=(100, 24)) as app:
        await app.press("N")
        await app.until(lambda: bool(app.whole))
        rows = app.whole
        at = {row.split()[0]: number for number, row in enumerate(rows) if row.startswith(" db")}
        assert rows[at["db2"] + 1].rstrip().endswith("measured 85.4 ms, flaps 2 s down, 0.5 s up, down now")
        assert rows[at["db3"] + 1].startswith("   link: asked 85 ms")
        assert rows[at["db3"] + 2].startswith("   link to db2: asked 85 ms, measured 85.4 ms")


EPOCH = Epoch(0, 0.0, "baseline", None, 619.0, p50_ms=25.2, p95_ms=29.0, p99_ms=35.0, n=28_500)


async def test_freezing_holds_everything_and_a_badge_says_what_is_so_meanwhile() -> None:
    """Ten minutes of talk over a held picture: nothing on it moves but the badge, which shows the outage."""
    begun = [explained(make_tick(1 + at / 2, epochs=(EPOCH,))) for at in range(6)]
    async with bench(*begun, size=(160, 45)) as app:
        widgets = (
            "#big-strip",
            "#topology",
            "#anatomy",
            "#epochs",
            "#events",
            "#tps-chart",
            "#latency-chart",
        )
        before = {name: app.text(name) for name in widgets if "chart" not in name}
        await app.press("space")
        held = chart(app, "#tps-chart")
        header = app.text("#header")
        assert "FROZEN  live ● same        528 TPS" in header
        assert header.count("PROTECTED") == 1
        later = make_tick(
            9.0, state=ProtectionState.BLOCKED, tps=0.0, rtt=(85.0, 99.0),
            events=(Event(9.0, WALL_S, Severity.BAD, "commits wait"),), epochs=(EPOCH, EPOCH),
        )  # fmt: skip
        await app.play(replace(later, nodes=down(later, "db2").nodes))
        assert {name: app.text(name) for name in before} == before
        assert chart(app, "#tps-chart") == held
        assert "FROZEN  live ◼ BLOCKED     0.0 TPS" in app.text("#header")
        assert app.text("#header").partition("FROZEN")[0] == header.partition("FROZEN")[0]
        assert app.text("#header").partition("p50")[2] == header.partition("p50")[2]
        assert "f repair" in app.text("#footer")
        await app.press("space")
        assert "FROZEN" not in app.text("#header")
        assert "◼ BLOCKED" in app.text("#header")
        assert "commits wait" in app.text("#events")
        assert chart(app, "#tps-chart").series != held.series


async def test_a_held_picture_is_held_in_the_log_and_the_ledger_as_well() -> None:
    async with bench(make_tick(1.0, epochs=(EPOCH,)), make_tick(1.5, epochs=(EPOCH,))) as app:
        await app.press("space")
        event = Event(2.0, WALL_S, Severity.BAD, "commits wait")
        await app.play(
            make_tick(2.0, epochs=(EPOCH, replace(EPOCH, number=1, title="later")), events=(event,))
        )
        for key, title, told in (("L", "Events", "commits wait"), ("g", "Epochs", "later")):
            await app.press(key)
            await app.until(lambda title=title: title in app.shown[0])  # type: ignore[misc]
            assert told not in "\n".join(app.shown)
            await app.press("escape")


async def test_a_knob_that_is_turned_behind_a_held_picture_shows_what_it_does() -> None:
    async with bench(make_tick(1.0, rtt=(85.0, 85.4))) as app:
        await app.press("space")
        await app.play(make_tick(1.5, rtt=(85.0, 85.9)))
        assert "85.4" in app.rows("#knobs")[1]
        await app.play(make_tick(2.0, rtt=(20.0, 20.3)))
        assert "20 ms" in app.rows("#knobs")[1]
        assert "20.3" in app.rows("#knobs")[1]


def of_window(at_s: float, *counts_and_ms: tuple[int, float]) -> Tick:
    """A tick whose interval of half a second had so many commits of so many ms."""
    tick = make_tick(at_s)
    assert tick.load is not None
    service = Histogram()
    for count, ms in counts_and_ms:
        service.record_all([round(1000 * ms)] * count)
    return replace(tick, load=replace(tick.load, tps=2.0 * service.count, n=service.count, service=service))


@pytest.mark.parametrize("size", [(160, 45), (120, 36), (80, 24)])
async def test_every_figure_of_the_load_is_of_one_window(size: tuple[int, int]) -> None:
    """A slow commit a second ago, fast ones since: header, big digits, strip and charts say the same."""
    slow, fast = of_window(1.0, (39, 34.0), (1, 375.0)), of_window(1.5, (30, 34.0), (10, 171.0))
    async with bench(slow, fast, of_window(2.0, (30, 34.0)), size=size) as app:
        recent = app.dashboard.picture.recent
        shown = {name: figures.millis(recent.latency_ms(name)) for name in ("p50", "p95", "p99", "max")}
        assert (recent.n, recent.length_s, figures.rate(recent.tps)) == (110, 1.5, "73.3")
        assert shown == {"p50": "34", "p95": "171", "p99": "171", "max": "375"}
        latency = app.dashboard.picture.chart("latency")
        labels = {one.ink: one.labels[0] for one in latency.series if one.labels}
        assert labels == {name: f"{name} {value}" for name, value in shown.items()}
        assert "73.3 now" in chart(app, "#tps-chart").series[1].labels
        assert "TPS  73.3" in app.text("#header")
        if size[0] > 80:
            assert "in 1.5 s" in app.text("#header")
        else:
            assert "p50   34  p95  171  p99  171  max  375  ms in 1.5 s" in app.text("#value-strip")


@pytest.mark.parametrize("size", [(160, 45), (120, 36), (80, 24)])
async def test_each_figure_of_now_is_one_figure_wherever_it_is_shown(size: tuple[int, int]) -> None:
    """Header, big digits, the room's number and the line's end, tick by tick and after keys between them."""
    async with bench(of_window(1.0, (400, 8.0)), size=size) as app:
        shown = set()
        for at in range(2, 16):
            if is_presenting := at >= 9:
                await app.press(*["z"] * (at == 9))
            await app.play(of_window(at / 2, (100 + 37 * at, 5.0 + at)))
            for key in ("", "down", "plus", "1", "escape")[: 1 + 4 * (at % 3 == 0)]:
                await app.press(*([key] if key else []))
                [header] = re.findall(r"TPS +(\S+)", app.text("#header"))
                figures_of = {header, chart(app, "#tps-chart").series[1].labels[0].removesuffix(" now")}
                assert figures_of == {header}, (at, key)
                if is_presenting:
                    row = app.rows("#presenter")[2].strip()
                    digits = solid_rows(header) if size[1] >= 36 else big_rows(header)
                    assert row.startswith(digits[1].strip()), (at, key)
                elif size[0] == 160:
                    assert big_rows(header)[1] in app.rows("#big-strip")[2], (at, key)
                if size[0] > 80:
                    labels = [each.labels[0] for each in chart(app, "#latency-chart").series[1:]]
                    [p50, p99] = re.findall(r"p50(?:/95/99)? +(\S+).*? (\S+) ms", app.text("#header"))[0]
                    assert (labels[-1], labels[1]) == (f"p50 {p50}", f"p99 {p99}"), (at, key)
            shown.add(header)
        assert len(shown) > 6, "it moves"


@pytest.mark.parametrize("width", [150, 160])
@pytest.mark.parametrize("rtt", [158.3, 5000.3])
async def test_the_big_digits_fit_whatever_they_are_and_stay_where_they_are(width: int, rtt: float) -> None:
    async with bench(of_window(1.0, (400, 8888.0)), size=(width, 45)) as app:
        begins = [app.rows("#big-strip")[1].index(word) for word in ("TPS", "ceiling", "p50", "p99", "RTT")]
        await app.play(replace(make_tick(1.5, rtt=(int(rtt), rtt), tps=9999.0), predicted=None))
        rows = app.rows("#big-strip")
        assert "in 0.5 s" in rows[3]
        assert [rows[1].index(word) for word in ("TPS", "ceiling", "p50", "p99", "RTT")] == begins
        assert not any(row.endswith("…") for row in rows)
        digits = big_rows(figures.round_trip(rtt))
        assert [row.endswith(part) for row, part in zip(rows[1:4], digits, strict=True)] == [True] * 3


async def test_too_few_commits_are_told_by_their_number() -> None:
    async with bench(of_window(1.0, (4, 90.0)), of_window(1.5, (7, 90.0)), size=(200, 45)) as app:
        assert "n 11 in 1.0 s" in app.text("#header")
        drawn = app.painted("#header")[0]
        assert ("  90", "p50 b") in drawn
        assert ("  90", "faint") in drawn


async def test_marks_windows_and_events_come_from_the_ticks_and_none_is_lost() -> None:
    ticks = [make_tick(1.0)]
    ticks += [
        make_tick(1.5 + at / 2, events=(change_event(1.5 + at / 2, at + 1, f"change {at + 1}"),))
        for at in range(9)
    ]
    ticks += [
        make_tick(8.0, state=ProtectionState.BLOCKED),
        make_tick(8.5, state=ProtectionState.BLOCKED),
        make_tick(9.0),
    ]
    async with bench(*ticks) as app:
        model = chart(app, "#tps-chart")
        assert [mark.number for mark in model.page.marks] == list(range(1, 10))
        assert [(one.word, one.start_s, one.end_s) for one in model.page.windows] == [
            ("blocked 1.0 s", 8.0, 9.0)
        ]
        assert model.notes[0] == "ceiling 8 ÷ (85.4 + 3.0 ms) = 90.5/s"
        assert [event.text for event in app.dashboard.picture.log] == [
            f"change {number}" for number in range(1, 10)
        ]
        assert "⑨ change 9" in app.rows("#events")[1]


def length_of(model: ChartModel) -> float:
    return model.page.end_s - model.page.start_s


async def test_zoom_and_scale_change_the_page() -> None:
    async with bench() as app:
        length = length_of(chart(app, "#tps-chart"))
        await app.press("plus")
        assert length_of(chart(app, "#tps-chart")) < length
        await app.press("minus", "minus")
        assert length_of(chart(app, "#tps-chart")) > length
        assert not chart(app, "#tps-chart").log
        await app.press("y")
        assert chart(app, "#tps-chart").log
        await app.press("y")
        assert not chart(app, "#tps-chart").log


async def test_epochs_are_coloured_only_when_the_interval_excludes_zero() -> None:
    epochs = (
        Epoch(0, 0.0, "baseline", None, 619.0, n=28_500, p50_ms=25, p95_ms=29, p99_ms=35),
        Epoch(
            1,
            5.0,
            "rtt 20 → 85 ms",
            619.0,
            173.0,
            -72.1,
            "slower",
            90,
            94,
            99,
            7433,
            low_percent=-72.2,
            high_percent=-72.0,
        ),
        Epoch(
            2,
            9.0,
            "sync_binlog 1 → 0",
            173.0,
            174.0,
            0.4,
            "no difference shown",
            89,
            93,
            98,
            3339,
            low_percent=-0.2,
            high_percent=1.0,
        ),
        Epoch(3, 12.0, "clients 16 → 48", 174.0, None),
    )
    async with bench(make_tick(20.0, epochs=epochs)) as app:
        newest, same, slower, baseline = app.rows("#epochs")[2:6]
        assert "measuring…" in newest
        assert "≈ x1.004" in same
        assert "173 → 174" in same
        assert "▾ x0.279" in slower
        assert "28.5k" in baseline
        painted = app.painted("#epochs")
        assert ("▾ x0.279", "bad b") in painted[4]
        assert ("≈ x1.004", "muted") in painted[3]


async def test_the_small_screen_switches_its_chart_and_opens_the_drawer() -> None:
    async with bench(size=(80, 24)) as app:
        await app.press("v")
        assert app.dashboard.query_one("#latency-chart").display
        assert not app.dashboard.query_one("#tps-chart").display
        await app.press("down", "down", "enter")
        await app.until(lambda: "SEMI-SYNC" in app.text("#drawer"))
        drawer = app.dashboard.query_one("#drawer")
        assert (drawer.region.width, drawer.region.bottom) == (58, 19)
        assert "▸ semi-sync" in app.text("#drawer")
        total = len(app.dashboard.board.views)
        assert f"Knob 8 of {total}, SEMI-SYNC" in app.text("#knob-line")
        await app.press("escape")
        assert not drawer.display


async def test_the_mouse_selects_steps_and_scrolls() -> None:
    async with bench() as app:
        panel = app.dashboard.query_one("#knobs", KnobPanel)
        row = panel._rows.index(SYNC)
        await app.pilot.click("#knobs", offset=(5, row))
        assert app.dashboard.board.selected == SYNC
        await app.pilot.pause()
        await app.pilot.click("#knobs", offset=(16, row))
        assert app.dashboard.board.staged == {SYNC: 0}
        await app.pilot.pause()
        await app.pilot.click("#knobs", offset=(20, row))
        assert app.dashboard.board.staged == {}
        panel.post_message(KnobPanel.Scrolled(1))
        await app.until(
            lambda: app.dashboard.board.selected == KnobName("innodb_flush_log_at_trx_commit", SOURCE)
        )


@pytest.mark.parametrize(
    "knob", [knob for knob in CATALOGUE if knob.risk and ASYNC.has(knob)], ids=lambda knob: knob.key
)
def test_a_risk_is_said_of_some_values_and_not_of_all(knob: Knob) -> None:
    name = KnobName(knob.key, "db2")
    assert any(risky(name, step) for step in knob.steps)
    assert not all(risky(name, step) for step in knob.steps)


@pytest.mark.parametrize(("most", "words"), [(2, ["0", "1", "2"]), (3, ["0", "1", "2", "3"])])
def test_the_ladder_has_what_the_server_takes(most: int, words: list[str]) -> None:
    """MySQL has no innodb_flush_log_at_trx_commit=3, MariaDB has."""
    name = KnobName("innodb_flush_log_at_trx_commit", SOURCE)
    here = Capabilities.of(MYSQL_9, {name.key: Range(0, most)}).narrowed(name.key)
    intent = Intent(
        name, "innodb_flush", 1, 1, Preview((), (), ()), (1, 1), KnobEffect(), KnobEffect(), here=here
    )
    assert "".join(text for text, _ in ladder(intent, 40)).split() == words


async def test_a_name_that_is_longer_than_the_panel_has_its_value_beside_its_end() -> None:
    async with bench() as app:
        app.dashboard.select_knob(KnobName("semi_sync_replicas", SOURCE))
        rows = [row.strip() for row in app.rows("#statement")]
        assert rows[1:3] == ["SET GLOBAL rpl_semi_sync_source_wait_for", "_replica_count = 1"]


async def test_the_statement_tells_risk_and_ladder() -> None:
    async with bench() as app:
        app.dashboard.select_knob(SYNC)
        assert "SET GLOBAL sync_binlog = 1" in app.text("#statement")
        assert "▲" not in app.text("#statement")
        await app.press("left")
        assert "SET GLOBAL sync_binlog = 0" in app.text("#statement")
        assert "▲ not 1: a power cut takes commits" in app.text("#statement")
        assert app.rows("#statement")[-1].split() == ["0", "1", "10", "100", "1000"]


async def test_copying_gives_the_statement_and_its_undo() -> None:
    async with bench() as app:
        app.dashboard.select_knob(SYNC)
        await app.press("left", "Y")
        assert app.app.clipboard == (
            "-- sync_binlog = 0, runs on the primary\n"
            "SET GLOBAL sync_binlog = 0;\n"
            "-- undo: SET GLOBAL sync_binlog = 1;"
        )


async def test_help_ledger_and_log_open_over_the_dashboard_and_close() -> None:
    event = Event(1.0, WALL_S, Severity.WARN, "one commit waited")
    baseline = Epoch(0, 0.0, "baseline", None, 619.0)
    async with bench(make_tick(1.0, events=(event,), epochs=(baseline,))) as app:
        for key, name in (("question_mark", "help"), ("g", "epochs"), ("L", "log")):
            await app.press(key)
            await app.until(partial(lambda wanted: app.app.screen.name == wanted, name))
            await app.until(lambda: bool(app.whole))
            await app.press("escape")
            await app.until(lambda: app.app.screen is app.dashboard)


async def test_the_palette_finds_an_action_by_area_and_verb() -> None:
    async with bench() as app:
        await app.press("ctrl+p")
        await app.until(lambda: type(app.app.screen).__name__ == "CommandPalette")
        await app.press(*"put a numbered".replace(" ", "_"))
        await app.press(*["backspace"] * 20)
        await app.press("m", "a", "r", "k", "colon")
        await app.until(lambda: app.app.screen.query_one("CommandList").option_count == 1)  # type: ignore[attr-defined]
        await app.press("down", "enter")
        await app.until(lambda: app.facade.called("mark") == ["mark"])


async def test_themes_walk_round_and_repaint() -> None:
    async with bench(theme="dark") as app:
        seen = [app.app.theme]
        for _ in BUILT_IN:
            await app.press("t")
            seen.append(app.app.theme)
        assert seen == [*BUILT_IN, BUILT_IN[0]]


async def test_a_keymap_moves_a_key_and_the_footer_tells_it() -> None:
    async with bench(keymap={"mark.add": "f5"}) as app:
        await app.press("m")
        assert app.facade.called("mark") == []
        await app.press("f5")
        await app.until(lambda: len(app.facade.called("mark")) == 1)
        assert "f5 mark" in app.text("#footer")


async def test_a_viewer_is_told_who_drives() -> None:
    tick = make_tick(1.0, viewer=True)
    assert tick.load is not None
    tick = replace(tick, load=replace(tick.load, state="viewer", driver="lab tour (pid 7)"))
    async with bench(tick, size=(160, 45)) as app:
        assert "VIEWER: lab tour (pid 7) drives the load" in app.text("#header")


async def test_ticks_that_break_off_are_told() -> None:
    class Broken(FakeFacade):
        async def ticks(self) -> AsyncIterator[Tick]:
            yield make_tick(1.0)
            raise StackUnavailable("the stack is gone", "start it again with `replexplorer up`")

    app = ExplorerApp(Broken(), Settings())
    async with app.run_test(size=(120, 36)) as pilot:
        running = Bench(app, pilot, FakeFacade(), ManualClock())
        await running.until(lambda: "watching failed: the stack is gone" in toasts(running))
        assert "PROTECTED" in running.text("#header")


@pytest.mark.parametrize(
    ("keys", "called"),
    [("123\r", "rtt@db2=123"), ("jk85.5\r", "rtt@db2=85.5"), ("jjkk7\x7f9\r", "rtt@db2=9")],
)
async def test_a_burst_of_keys_acts_in_the_order_in_which_it_was_typed(keys: str, called: str) -> None:
    """A slow line and a paste deliver many keys at once: none may overtake another."""
    named = {"\r": "enter", "\x7f": "backspace", ".": "full_stop"}
    async with bench() as running:
        for key in keys:
            running.app.post_message(events.Key(named.get(key, key), key))
        await running.until(lambda: bool(running.facade.called("set")))
        assert running.facade.called("set") == [[(called.partition("=")[0], float(called.partition("=")[2]))]]


async def test_an_open_loop_shows_its_rate_its_response_and_what_it_dropped() -> None:
    tick = make_tick(1.0)
    assert tick.load is not None
    response = Histogram()
    for _ in range(200):
        response.record(512_000)
    load = replace(
        tick.load, mode="open", rate_asked_tps=500.0, response=response, response_p50_ms=512.0, dropped=0
    )
    async with bench(replace(tick, load=load), size=(160, 45)) as app:
        assert "open 500/s ×" in app.text("#header")
        assert "512" in app.text("#header")
        assert "from when each was due" in chart(app, "#latency-chart").subtitles[0]
        later = replace(load, response=Histogram.merged([response]), dropped=7)
        await app.play(replace(tick, at_s=2.0, load=later))
        assert "dropped 14.0/s" in app.text("#header")


@pytest.mark.terminal
async def test_what_was_drawn_is_forgotten() -> None:
    """An hour of ticks must not stay behind as regions that once changed, nor as texts and regions that
    the libraries remember."""
    async with bench(make_tick(1.0), fresh=True) as app:
        for second in range(2, 14):
            await app.play(make_tick(float(second), tps=100.0 + 37.7 * second, rtt=(85.0, 85.0 + second)))
        kept = {
            widget.id: len(widget._dirty_regions)
            for widget in app.dashboard.query(Lines)
            if widget.is_mounted and widget.display
        }
        assert kept
        assert set(kept.values()) == {0}
        remembered = [cached_cell_len, Region.intersection, Region.translate]
        cached_cell_len("drawn"), Region(0, 0, 2, 2).intersection(Region(1, 1, 2, 2)).translate(Offset(1, 1))
        assert all(each.cache_info().currsize for each in remembered)
        forget_what_was_drawn()
        assert not any(each.cache_info().currsize for each in remembered)


CUT: dict[KnobName, Value] = {KnobName("partition", "db2"): "both"}
LAX: dict[KnobName, Value] = {SYNC: 0}
CHIPS: dict[KnobName, Value] = {**LAX, **CUT}


@pytest.mark.parametrize("width", [200, 160, 120, 80])
async def test_nothing_of_the_header_moves_when_chips_come_and_go(width: int) -> None:
    """The title has one form at a width, and every figure that is not covered stands where it stood."""
    names = ("rx" if width == 80 else "replexplorer", "p99" if width == 80 else "p50", "00:00:", "TPS")
    places: dict[str, set[int]] = {name: set() for name in names}
    async with bench(make_tick(1.0), size=(width, 42)) as app:
        states = (ProtectionState.PROTECTED, ProtectionState.BLOCKED, ProtectionState.OFF)
        for at_s, (changes, state) in enumerate(product((CUT, CHIPS, None, LAX), states), 2):
            await app.play(make_tick(float(at_s), state=state, values=changes))
            [row] = app.rows("#header")
            assert len(row) == width
            assert ("replexplorer default" in row) == (width >= 150)
            assert (" both " in row) == (changes in (CUT, CHIPS))
            row = re.sub(r"00:00:\d\d", "00:00:__", row)
            for name, found in places.items():
                found.update({row.find(name)} - {-1})
    assert {name: len(found) for name, found in places.items()} == dict.fromkeys(names, 1)


@pytest.mark.parametrize(
    ("width", "names"),
    [
        (200, ("RTT", "fsync", "TPS", "p50", "closed", "00:00:")),
        (160, ("RTT", "TPS", "p50", "closed", "00:00:")),
        (120, ("RTT", "TPS", "p50", "00:00:")),
        (80, ("RTT", "TPS", "p99", "00:00:")),
    ],
)
async def test_the_header_stays_where_it_is_when_a_digit_comes_or_goes(
    width: int, names: tuple[str, ...]
) -> None:
    """9.9 ms becomes 10, TPS 99.9 becomes 1240, RTT 9.9 becomes 158.3: no column moves."""
    places: set[tuple[int, ...]] = set()
    figures_now = [(9.9, 99.9), (85.4, 1240.0), (158.3, 15_700.0), (0.1, 0.4)]
    async with bench(make_tick(1.0, rtt=(85.0, 9.9), tps=99.9), size=(width, 42)) as app:
        for at_s, (measured, tps) in enumerate(figures_now, 2):
            await app.play(make_tick(float(at_s), rtt=(85.0, measured), tps=tps, fsync_ms=measured))
            [row] = app.rows("#header")
            places.add(tuple(row.index(word) for word in names))
    assert len(places) == 1


SYNC_OFF: dict[KnobName, Value] = {SYNC: 0}
FLUSH_2: dict[KnobName, Value] = {KnobName("innodb_flush_log_at_trx_commit", SOURCE): 2}


@pytest.mark.parametrize("size", [(160, 45), (120, 36), (80, 24)])
@pytest.mark.parametrize("values", [SYNC_OFF, FLUSH_2, SYNC_OFF | FLUSH_2])
async def test_commits_that_are_not_durable_are_told_at_every_size(
    size: tuple[int, int], values: dict[KnobName, Value]
) -> None:
    async with bench(make_tick(1.0), size=size) as app:
        assert "NOT DURABLE" not in app.text("#header")
        await app.play(make_tick(1.5, values=values))
        assert " ▲ NOT DURABLE " in app.text("#header")
        assert "TPS" in app.text("#header")
        assert len(app.rows("#header")[0]) == size[0]


async def test_a_tiny_terminal_says_what_is_not_durable() -> None:
    async with bench(make_tick(1.0, values=SYNC_OFF), size=(60, 16)) as app:
        assert "not durable: sync_binlog 0" in app.text("#tiny")


def test_what_is_in_force_decides_and_not_what_was_asked() -> None:
    views = make_tick(1.0).knobs
    by_hand = {**views, SYNC: replace(views[SYNC], effective=0)}
    assert lax_knobs(by_hand) == ((SYNC, 0),)
    assert lax_knobs(views) == ()
    assert lax_knobs({**views, SYNC: replace(views[SYNC], requested=0, effective=None)}) == ((SYNC, 0),)


async def test_a_held_outage_keeps_its_badge_at_80_columns_whatever_else_is_wrong() -> None:
    cut: dict[KnobName, Value] = {SYNC: 0, KnobName("partition", "db2"): "both"}
    async with bench(make_tick(1.0, state=ProtectionState.BLOCKED, values=cut), size=(80, 24)) as app:
        await app.press("space")
        await app.play(make_tick(1.5, state=ProtectionState.DEGRADED, values=cut, tps=1889.0))
        assert " FROZEN  ▲  1889" in app.text("#header")
        assert "◼ BLOCKED" in app.text("#header")


async def test_the_strip_of_a_stall_keeps_all_its_words() -> None:
    async with bench(make_tick(1.0, values=SYNC_OFF | FLUSH_2), size=(80, 24)) as app:
        assert "…" not in app.text("#value-strip")
        assert "×8" in app.text("#value-strip")
        assert "sync_binlog 0  innodb_flush 2" in app.text("#value-strip")


@pytest.mark.parametrize(
    ("nodes", "rows"),
    [
        # After a failover: the old source is down, the other replica follows the new one.
        (
            {
                "db2": {"role": Role.PRIMARY},
                "db1": {"role": Role.DOWN, "reachable": False},
                "db3": {"follows": "db2"},
            },
            ["db2 primary 9.7.4 :33061 ╌✖╌ db1 ✖ down", "──▸ db3 replica"],
        ),
        # It is back, and follows nobody until it rejoins.
        (
            {"db2": {"role": Role.PRIMARY}, "db1": {"role": Role.DETACHED}, "db3": {"follows": "db2"}},
            ["db2 primary 9.7.4 :33061     db1 detached", "──▸ db3 replica"],
        ),
        # A replica that could not be pointed at the new source still follows the old one.
        (
            {
                "db2": {"role": Role.PRIMARY},
                "db1": {"role": Role.DETACHED},
                "db3": {"follows": "db1", "io_thread": "connecting"},
            },
            ["db2 primary 9.7.4 :33061     db1 detached", "db1 ╌╌▸ db3 replica"],
        ),
        # A chain.
        (
            {"db1": {"role": Role.PRIMARY}, "db2": {"follows": "db3"}, "db3": {"follows": "db1"}},
            ["db1 primary 9.7.4 :33061  db3 ──▸ db2 replica", "──▸ db3 replica"],
        ),
    ],
)
async def test_an_arrow_is_a_stream_whoever_it_comes_from(
    nodes: dict[str, dict[str, Any]], rows: list[str]
) -> None:
    tick = make_tick(1.0, replicas=2)
    source, replica, _ = tick.nodes
    views = [
        replace(source if "PRIMARY" in str(each) else replica, name=name, is_source=not at, **each)
        for at, (name, each) in enumerate(nodes.items())
    ]
    async with bench(replace(tick, nodes=tuple(views)), size=(160, 45)) as app:
        assert [row.strip() for row in app.rows("#topology")[:2]] == rows


@pytest.mark.parametrize("size", [(120, 36), (160, 45)])
async def test_the_lags_of_several_replicas_are_not_cut(size: tuple[int, int]) -> None:
    tick = explained(make_tick(1.0, replicas=2))
    assert tick.truth is not None
    lags = (ReplicaTruth("db3", 4300.0, 985, 1.0), ReplicaTruth("db2", 3100.0, 59_850, 1.0))
    async with bench(replace(tick, truth=replace(tick.truth, replicas=lags)), size=size) as app:
        assert app.rows("#topology")[2].strip() == "db2 lag 3.1 s  db3 lag 4.3 s"
