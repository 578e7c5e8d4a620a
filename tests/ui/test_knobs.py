"""Knobs on the dashboard: found, turned, typed and told, by keys and by the mouse."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion
from textual import events
from textual.geometry import Region
from textual.keys import _character_to_key
from textual.widget import Widget

from replexplorer.core.dialect.dialect import Capabilities, Range
from replexplorer.core.errors import ServerRefused
from replexplorer.core.knobs.catalogue import CATALOGUE
from replexplorer.core.knobs.names import KnobName, KnobView, parse_name
from replexplorer.core.system import ASYNC
from replexplorer.ui.board import Board
from replexplorer.ui.widgets.knob_panel import KnobPanel
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.widgets.statement import risky
from tests.fakes.facade import FakeFacade
from tests.fakes.servers import MYSQL_9
from tests.ticks import make_tick, tick_of
from tests.typed import table_of
from tests.ui.driving import EVERY_SIZE, TWO_SIZES, Bench, Size, bench, keys_of, page

RTT, PARTITION, LOSS, JITTER, FLUSH = map(
    parse_name, ("rtt@db2", "partition@db2", "loss@db2", "jitter@db2", "innodb_flush_log_at_trx_commit")
)


def panel_of(app: Bench) -> KnobPanel:
    return app.dashboard.query_one("#drawer" if app.app.size.width == 80 else "#knobs", KnobPanel)


def selected(app: Bench) -> str:
    return str(app.dashboard.board.selected)


async def turns(app: Bench, *changes: str) -> None:
    """These were asked for, each as `rtt@db2=2.5 sync_binlog=0`, and no others."""

    def made() -> list[str]:
        found: list[list[tuple[str, object]]] = app.facade.called("set")  # type: ignore[assignment]
        return [" ".join(f"{name}={value}" for name, value in change) for change in found]

    await app.until(lambda: made() == [*changes], f"{changes}")


# Turned


async def test_arrows_select_and_stage_the_rest_applies_and_the_statement_is_copied() -> None:
    async with bench() as app:
        await app.press("right escape")
        assert app.dashboard.board.staged == {}
        await app.press("down j up")
        assert app.dashboard.board.selected == PARTITION
        await app.press("k left left right")
        assert app.dashboard.board.staged == {RTT: 50}
        assert "◂ 50 ms ▸" in app.text("#knobs")
        assert "Will run on the sidecars" in app.text("#statement")
        app.clock.now_s += 0.5
        await app.pilot.pause(0.25)
        await turns(app)
        app.clock.now_s += 0.2
        await turns(app, "rtt@db2=50.0")
        await app.press("/sync_binlog enter left Y")
        assert app.app.clipboard == (
            "-- sync_binlog = 0, runs on the source\n"
            "SET GLOBAL sync_binlog = 0;\n"
            "-- undo: SET GLOBAL sync_binlog = 1;"
        )


async def test_a_refused_value_goes_back_and_a_change_under_way_is_shown_as_such() -> None:
    facade = FakeFacade()
    facade.failures["set"] = ServerRefused(1227, "access denied", "grant SYSTEM_VARIABLES_ADMIN")
    async with bench(facade=facade) as app:
        await app.press("right enter")
        await app.told("set failed: access denied: grant SYSTEM_VARIABLES_ADMIN")
        assert "◂ 85 ms ▸" in app.text("#knobs")
        await app.done()
        gate = facade.hold["set"] = asyncio.Event()
        await app.press("shift+left enter")
        await app.shows("applying…")
        await turns(app, "rtt@db2=150.0", "rtt@db2=25.0")
        await app.play("2")
        assert "applying…" in app.text("#knobs")
        gate.set()
        await app.done()
        assert "◂ 25 ms ▸" in app.text("#knobs"), "until a tick says what is so"
        await app.play("2.5 rtt=150,150.2")
        assert "applying…" not in app.text("#knobs")
        assert "150 ms" in app.text("#knobs")


async def test_toggles_ask_for_what_is_not_in_force_one_after_the_other_and_leave_the_selection() -> None:
    facade = FakeFacade()
    gate = facade.hold["set"] = asyncio.Event()
    async with bench("replicas=2 semi_sync=on partition@db3=ack", facade=facade) as app:
        before = selected(app)
        await app.press("s w p r u")
        gate.set()
        await app.asked("undo", None)
        both = "partition@db2={0} partition@db3={0}"
        await turns(app, "semi_sync=off", "wait_point=after_commit", both.format("both"), both.format("none"))
        assert [method for method, _ in facade.calls][-2:] == ["set", "undo"]
        assert selected(app) == before


async def test_the_mouse_selects_steps_and_scrolls() -> None:
    async with bench() as app:
        panel, sync = panel_of(app), parse_name("sync_binlog")
        for column, staged in ((5, {}), (16, {sync: 0}), (20, {})):
            await app.pilot.click("#knobs", offset=(column, panel._rows.index(sync)))
            assert (app.dashboard.board.selected, app.dashboard.board.staged) == (sync, staged)
            await app.pilot.pause()
        panel.post_message(KnobPanel.Scrolled(1))
        await app.until(lambda: app.dashboard.board.selected == FLUSH)


@TWO_SIZES
async def test_seldom_settings_are_shown_by_a_key(size: Size) -> None:
    async with bench(size=size) as app:
        panel, total = panel_of(app), len(app.dashboard.board.views)
        assert "jitter" not in "\n".join(panel.rows)
        await app.press("enter")
        await app.shows("bandwidth")
        await app.press("down " * total)
        assert app.dashboard.board.place == (total, total)
        assert "effect" in panel.rows[0]
        assert f"▸ {app.dashboard.board.names[-1].knob.label}" in panel.rows[-1]
        await app.press("enter")
        assert "bandwidth" not in "\n".join(panel.rows)
        await app.press("escape")
        assert not app.dashboard.query_one("#drawer").display
        await turns(app)


# Typed


TYPED = """\
rtt@db2=85               | 2.5ms enter                 | rtt@db2=2.5
rtt@db2=85               | jk85.5 enter                | rtt@db2=85.5
rtt@db2=85               | jjkk7 backspace 9 enter     | rtt@db2=9.0
rtt@db2=85               | 9kg enter w                 | wait_point=after_commit
rtt@db2=85               | /clients enter 1 enter      | clients=1
semi_sync_timeout=10s    | 5 enter                     | semi_sync_timeout=5000
delay_to_replica@db2=10  | iauto enter                 | delay_to_replica@db2=auto
loss@db2=0               | 1% enter                    | loss@db2=1.0
partition@db2=none       | iack enter                  | partition@db2=ack
"""
"""A knob with its value, the keys, and what is asked for: in the unit that is shown."""


@TWO_SIZES
@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(("now", "keys", "wanted"), table_of(TYPED))
async def test_what_is_typed_is_asked_for(
    now: str, keys: str, wanted: str, at_once: bool, size: Size
) -> None:
    """Key by key, or as a slow line and a paste deliver them: none may overtake another."""
    async with bench(now, size=size) as app:
        app.dashboard.select_knob(parse_name(now.partition("=")[0]))
        await app.pilot.pause()
        if at_once:
            burst(app, keys)
        else:
            await app.press(keys)
        await turns(app, wanted)
        assert app.dashboard.board.typed is None


def burst(app: Bench, keys: str) -> None:
    """All at once."""
    for key in keys_of(keys):
        character = key if len(key) == 1 else None
        app.app.post_message(events.Key(_character_to_key(key) if character else key, character))


@TWO_SIZES
async def test_a_wrong_value_is_told_in_one_line_and_nothing_is_asked(size: Size) -> None:
    async with bench(size=size) as app:
        where = "#statement" if size[0] > 80 else "#knob-line"
        for keys, told in (("9kg", "✖ rtt=9kg has the wrong unit"), ("/semi_sync enter 8", "✖ semi_sync=8")):
            await app.press(f"{keys} enter")
            assert told in " ".join(app.text(where).split())
            assert app.dashboard.board.typed is None
            await app.press("escape")
            assert "✖" not in app.text(where)
        await turns(app)


async def test_what_is_pasted_goes_into_the_open_field_alone() -> None:
    async with bench() as app:
        app.app.post_message(events.Paste("s 9"))
        await app.press("2")
        app.app.post_message(events.Paste("5\nx"))
        await app.until(lambda: app.dashboard.board.typed == "25")
        await turns(app)


# Found


@pytest.fixture
def board() -> Board:
    board = Board()
    board.fold(make_tick())
    return board


FOUND = """\
clients     | clients
rtt         | rtt@db2
semi-sync   | semi_sync
timeout     | semi_sync_timeout
sync        | sync_binlog
binlog sync | sync_binlog
RATE        | rate
jitter db2  | jitter@db2
"""
"""An exact name comes first and no knob whose help speaks of it; then a label, before a part of another's
name, and a name that begins so, before those that have it within."""


def test_a_filter_finds_the_best_first_and_given_up_puts_the_cursor_back(board: Board) -> None:
    at_first = board.selected
    for keys, best in table_of(FOUND):
        board.search()
        for end in range(1, len(keys) + 1):
            board.narrow(keys[:end])
        assert (str(board.selected), str(board.names[0])) == (best, best)
        if keys == "clients":
            assert len(board.names) > 1
            assert all(keys in name.knob.help.lower() for name in board.names[1:]), (
                "help alone matches as well"
            )
        board.narrow("")
        assert board.selected == at_first
    board.narrow("no such knob")
    assert board.selected is None
    board.drop_search()
    assert (board.filter, board.selected) == ("", at_first)


@EVERY_SIZE
async def test_a_filter_is_typed_above_the_headings_walked_kept_replaced_and_given_up(size: Size) -> None:
    async with bench(size=size) as app:
        board, panel = app.dashboard.board, panel_of(app)
        await app.press("down /")
        before = board.selected
        await app.until(lambda: panel.rows != [] and "words of a name" in panel.rows[0])
        await app.press("clients")
        await app.until(lambda: "clients" in panel.rows[0])
        assert selected(app) == "clients"
        assert "asked" in panel.rows[1], "the headings stand below it"
        await app.press("escape")
        assert (board.typed, board.selected) == (None, before)
        await app.press("/payload enter")
        assert panel.rows[0].split() == ["/", "payload", "esc", "all", "knobs"]
        await app.press("escape")
        assert (board.filter, selected(app)) == ("", "payload")
        assert "/ payload" not in "\n".join(panel.rows)
        await app.press("/payload enter /binlog down")
        assert board.typed is not None
        await app.press("backspace down enter")
        assert (board.filter, board.selected) == ("binlo", board.names[1])


@TWO_SIZES
async def test_a_filter_that_comes_in_one_burst_turns_no_knob(size: Size) -> None:
    """`s` turns semi-sync and `x` the load: on a slow line `/` may come with what is typed after it."""
    async with bench(size=size) as app:
        burst(app, "/sxdelay backspace")
        await app.until(lambda: app.dashboard.board.filter == "sxdela")
        assert [name for name, _ in app.facade.calls] == ["start"]
        await app.quits("ctrl+c")


# Told


def test_a_risk_is_said_of_some_values_and_not_of_all() -> None:
    for knob in CATALOGUE:
        if knob.risk and ASYNC.has(knob):
            assert {risky(KnobName(knob.key, "db2"), step) for step in knob.steps} == {True, False}, knob.key


LADDERS = """\
bandwidth@db2=unlimited bandwidth@db2=3mbit bandwidth@db2=2gbit delay_to_replica@db2=auto \
delay_to_replica@db2=30 loss@db2=100 partition@db2=dump semi_sync_timeout=5s \
innodb_flush_log_at_trx_commit=2 innodb_flush_log_at_trx_commit=3"""


async def test_a_ladder_has_its_words_and_the_value_among_them(snapshot: SnapshotAssertion) -> None:
    """MySQL has no innodb_flush_log_at_trx_commit=3, MariaDB has."""
    pages = []
    async with bench() as app:
        for at_s, value in enumerate(LADDERS.split(), 2):
            name, tick = parse_name(value.partition("=")[0]), tick_of(f"{at_s} {value}")
            if name == FLUSH:
                here = Capabilities.of(MYSQL_9, {FLUSH.key: Range(0, int(value[-1]))}).narrowed(FLUSH.key)
                tick = replace(tick, knobs={**tick.knobs, FLUSH: replace(tick.knobs[FLUSH], here=here)})
            await app.play(tick)
            app.dashboard.select_knob(name)
            marked = [text for text, ink in app.painted("#statement")[-1] if ink == "title b u"]
            pages += [app.rows("#statement")[-1], f"   {marked}"]
    assert page(pages) == snapshot


@EVERY_SIZE
async def test_a_tick_with_the_same_content_draws_nothing(
    size: Size, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[str | None] = []
    refresh = Widget.refresh

    def noted(self: Widget, *regions: Region, repaint: bool = True, **how: bool) -> Widget:
        if repaint and isinstance(self, Lines):
            drawn.append(self.id)
        return refresh(self, *regions, repaint=repaint, **how)

    monkeypatch.setattr(Widget, "refresh", noted)
    tick = "2 state=blocked healing partition@db2=ack fsync_delay=2 loss@db2=1 fsync_ms="
    async with bench("1", f"{tick}2.2", size=size) as app:
        await app.play(f"{tick}2.2")
        drawn.clear()
        await app.play(f"{tick}2.2")
        assert drawn == []
        await app.play(f"{tick}2.3")
        assert drawn != []


# The board: what is selected, staged and shown, without a terminal


def test_every_knob_stands_once_under_a_heading_and_a_link_says_its_ends_where_there_are_several(
    board: Board, snapshot: SnapshotAssertion
) -> None:
    board.shows_all = True
    links = ("rtt", "partition", "delay_to_replica", "delay_to_primary")
    names = [KnobName(key, "db2:db3") for key in links]
    pairs = {name: KnobView(name, name.knob.default, name.knob.default) for name in names}
    tick, pages = make_tick(replicas=2), []
    for knobs in (board.views, tick.knobs, {**tick.knobs, **pairs}):
        board.fold(replace(tick, knobs=knobs))
        for section in board.sections:
            pages.append(f"{section.title}: {', '.join(map(board.label, section.names))}")
        assert sorted(board.names) == sorted(knobs)
    assert page(pages) == snapshot


def test_nothing_more_is_due_while_a_change_is_under_way(board: Board) -> None:
    board.select(RTT)
    board.step(1, 0.0)
    board.send()
    board.step(1, 1.0)
    assert board.asked(RTT) == 300
    assert not board.due(99.0, 0.6)
    board.confirm(applied=True)
    assert board.due(99.0, 0.6)


def test_a_knob_that_is_gone_is_no_longer_staged_or_selected(board: Board) -> None:
    board.fold(make_tick(replicas=2))
    gone = KnobName("rtt", "db3")
    board.select(gone)
    board.stage(gone, 5, 0.0)
    board.fold(make_tick(replicas=1))
    assert board.staged == {}
    assert board.selected in board.names


def test_a_knob_of_which_there_is_something_to_see_is_shown_until_the_cursor_leaves(board: Board) -> None:
    for asked in ("jitter@db2=1ms", "jitter@db2.effective=1.0"):
        board.fold(tick_of(asked))
        assert board.sections[0].names == (RTT, PARTITION, JITTER)
    board.stage(JITTER, 1.0, 0.0)
    board.fold(make_tick())
    assert JITTER in board.names, "staged"
    board.send()
    board.fold(make_tick())
    assert JITTER in board.names, "sent"
    board.select(JITTER)
    board.confirm(applied=False)
    assert JITTER in board.names, "selected"
    board.move(-1)
    assert board.selected == PARTITION
    assert JITTER not in board.names


async def test_no_heading_stands_at_the_bottom_with_nothing_below() -> None:
    async with bench() as app:
        titles = {section.title for section in app.dashboard.board.sections}
        for height in range(3, 20):
            *_, last = panel_of(app).draw(make_tick(1.0), 44, height)
            assert last[0][0].strip() not in titles
