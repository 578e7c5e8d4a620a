"""Knobs on the dashboard: found, turned, typed and told, by keys and by the mouse."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion
from textual import events
from textual.geometry import Region
from textual.widget import Widget

from replexplorer.core.dialect.dialect import Capabilities, Range
from replexplorer.core.errors import ServerRefused
from replexplorer.core.knobs.catalogue import CATALOGUE, Knob
from replexplorer.core.knobs.names import KnobName, KnobView, Value, expand
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.system import ASYNC
from replexplorer.core.tick import Tick
from replexplorer.core.topology import SOURCE
from replexplorer.engine.outcome import Preview
from replexplorer.ui.board import Board, sections
from replexplorer.ui.widgets.knob_panel import KnobPanel
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.widgets.statement import Intent, ladder, risky
from replexplorer.ui.words.states import KnobEffect
from tests.fakes.facade import FakeFacade, make_tick
from tests.fakes.servers import MYSQL_9
from tests.ui.driving import EVERY_SIZE, TWO_SIZES, Bench, Size, bench, page

RTT, CLIENTS, PAYLOAD = KnobName("rtt", "db2"), KnobName("clients", "load"), KnobName("payload", "load")
SYNC, SEMI_SYNC = KnobName("sync_binlog", SOURCE), KnobName("semi_sync", SOURCE)
TIMEOUT, FLUSH = (KnobName(key, SOURCE) for key in ("semi_sync_timeout", "innodb_flush_log_at_trx_commit"))
PARTITION, BANDWIDTH = KnobName("partition", "db2"), KnobName("bandwidth", "db2")
TO_REPLICA, LOSS = KnobName("delay_to_replica", "db2"), KnobName("loss", "db2")
JITTER = KnobName("jitter", "db2")
KEYS = {"/": "slash", ".": "full_stop", "%": "percent_sign", "\r": "enter", "\x7f": "backspace"}


def panel_of(app: Bench) -> KnobPanel:
    return app.dashboard.query_one("#drawer" if app.app.size.width == 80 else "#knobs", KnobPanel)


def asked(app: Bench) -> list[object]:
    return app.facade.called("set")


async def typed(app: Bench, text: str, *, at_once: bool = False) -> None:
    """Key by key, or as a slow line and a paste deliver them: none may overtake another."""
    for character in text:
        key = KEYS.get(character, character)
        if at_once:
            app.app.post_message(events.Key(key, character))
        else:
            await app.press(key)


# Turned


async def test_arrows_select_and_stage_and_the_rest_applies() -> None:
    async with bench() as app:
        await app.press("right", "escape")
        assert app.dashboard.board.staged == {}
        await app.press("down", "j", "up")
        assert app.dashboard.board.selected == PARTITION
        await app.press("k", "left", "left", "right")
        assert app.dashboard.board.staged == {RTT: 50}
        assert "◂ 50 ms ▸" in app.text("#knobs")
        assert "Will run on the sidecars" in app.text("#statement")
        app.clock.now_s += 0.5
        await app.pilot.pause(0.25)
        assert asked(app) == []
        app.clock.now_s += 0.2
        await app.until(lambda: asked(app) == [[("rtt@db2", 50)]])


async def test_a_refusal_is_one_toast_and_the_value_goes_back_and_a_change_under_way_is_shown_as_such() -> (
    None
):
    facade = FakeFacade()
    facade.failures["set"] = ServerRefused(1227, "access denied", "grant SYSTEM_VARIABLES_ADMIN")
    async with bench(facade=facade) as app:
        await app.press("right", "enter")
        await app.told("set failed: access denied: grant SYSTEM_VARIABLES_ADMIN")
        assert "◂ 85 ms ▸" in app.text("#knobs")
        await app.done()
        gate = facade.hold["set"] = asyncio.Event()
        await app.press("shift+left", "enter")
        await app.until(lambda: "applying…" in app.text("#knobs"))
        assert asked(app)[1:] == [[("rtt@db2", 25)]]
        await app.play(make_tick(2.0))
        assert "applying…" in app.text("#knobs")
        gate.set()
        await app.done()
        assert "◂ 25 ms ▸" in app.text("#knobs"), "until a tick says what is so"
        await app.play(make_tick(2.5, rtt=(150.0, 150.2)))
        assert "applying…" not in app.text("#knobs")
        assert "150 ms" in app.text("#knobs")


async def test_toggles_ask_for_what_is_not_in_force_and_leave_the_selection() -> None:
    names = ["partition@db2", "partition@db3"]
    values: dict[KnobName, Value] = {SEMI_SYNC: "on", KnobName("partition", "db3"): "ack"}
    async with bench(make_tick(1.0, replicas=2, values=values)) as app:
        selected = app.dashboard.board.selected
        for number, (key, wanted) in enumerate(
            (
                ("s", [("semi_sync", "off")]),
                ("w", [("wait_point", "after_commit")]),
                ("p", [(name, "both") for name in names]),
                ("r", [(name, "none") for name in names]),
            )
        ):
            await app.press(key)
            await app.until(lambda: asked(app)[number:] == [wanted])  # noqa: B023
            await app.done()
        assert app.dashboard.board.selected == selected


async def test_keys_typed_at_once_are_changes_one_after_the_other() -> None:
    facade = FakeFacade()
    gate = facade.hold["set"] = asyncio.Event()
    async with bench(facade=facade) as app:
        await app.press("s", "p", "r", "u")
        gate.set()
        await app.until(lambda: bool(facade.called("undo")), "the undo")
        assert asked(app) == [[("semi_sync", "on")], [("partition@db2", "both")], [("partition@db2", "none")]]
        made = [method for method, _ in facade.calls if method in ("set", "undo")]
        assert made == ["set", "set", "set", "undo"]


async def test_the_mouse_selects_steps_and_scrolls() -> None:
    async with bench() as app:
        panel = panel_of(app)
        row = panel._rows.index(SYNC)
        for column, staged in ((5, {}), (16, {SYNC: 0}), (20, {})):
            await app.pilot.click("#knobs", offset=(column, row))
            assert app.dashboard.board.selected == SYNC
            assert app.dashboard.board.staged == staged
            await app.pilot.pause()
        panel.post_message(KnobPanel.Scrolled(1))
        await app.until(lambda: app.dashboard.board.selected == FLUSH)


@TWO_SIZES
async def test_seldom_settings_are_shown_by_a_key(size: Size) -> None:
    async with bench(size=size) as app:
        panel, total = panel_of(app), len(app.dashboard.board.views)
        assert "jitter" not in "\n".join(panel.rows)
        await app.press("enter")
        await app.until(lambda: "bandwidth" in "\n".join(panel.rows))
        await app.press(*["down"] * total)
        assert app.dashboard.board.place == (total, total)
        assert "effect" in panel.rows[0]
        assert f"▸ {app.dashboard.board.names[-1].knob.label}" in panel.rows[-1]
        await app.press("enter")
        assert "bandwidth" not in "\n".join(panel.rows)
        await app.press("escape")
        assert not app.dashboard.query_one("#drawer").display
        assert asked(app) == []


# Typed


@TWO_SIZES
@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(
    ("name", "now", "keys", "wanted"),
    [
        (RTT, 85.0, "2.5ms\r", ("rtt@db2", 2.5)),
        (RTT, 85.0, "jk85.5\r", ("rtt@db2", 85.5)),
        (RTT, 85.0, "jjkk7\x7f9\r", ("rtt@db2", 9.0)),
        (RTT, 85.0, "9kg\rw", ("wait_point", "after_commit")),
        (RTT, 85.0, "/clients\r1\r", ("clients", 1)),
        (TIMEOUT, 10_000, "5\r", ("semi_sync_timeout", 5000)),  # in the unit that is shown
        (TO_REPLICA, 10.0, "iauto\r", ("delay_to_replica@db2", "auto")),
        (LOSS, 0.0, "1%\r", ("loss@db2", 1.0)),
        (PARTITION, "none", "iack\r", ("partition@db2", "ack")),
    ],
)
async def test_what_is_typed_is_asked_for(
    name: KnobName, now: Value, keys: str, wanted: tuple[str, Value], at_once: bool, size: Size
) -> None:
    async with bench(make_tick(1.0, values={name: now}), size=size) as app:
        app.dashboard.select_knob(name)
        await app.pilot.pause()
        await typed(app, keys, at_once=at_once)
        await app.until(lambda: asked(app) == [[wanted]])
        assert app.dashboard.board.typed is None


@TWO_SIZES
@pytest.mark.parametrize(
    ("name", "keys", "told"),
    [(RTT, "9kg\r", "✖ rtt=9kg has the wrong unit"), (SEMI_SYNC, "8\r", "✖ semi_sync=8")],
)
async def test_a_wrong_value_is_told_in_one_line_and_nothing_is_asked(
    name: KnobName, keys: str, told: str, size: Size
) -> None:
    async with bench(size=size) as app:
        app.dashboard.select_knob(name)
        await typed(app, keys)
        where = "#statement" if size[0] > 80 else "#knob-line"
        assert told in " ".join(app.text(where).split())
        assert app.dashboard.board.typed is None
        await app.press("escape")
        assert "✖" not in app.text(where)
        assert asked(app) == []


async def test_what_is_pasted_goes_into_the_open_field_alone() -> None:
    async with bench() as app:
        app.app.post_message(events.Paste("s 9"))
        await app.press("2")
        app.app.post_message(events.Paste("5\nx"))
        await app.until(lambda: app.dashboard.board.typed == "25")
        assert asked(app) == []


# Found


@pytest.fixture
def board() -> Board:
    board = Board()
    board.fold(make_tick())
    return board


@pytest.mark.parametrize(
    ("keys", "best"),
    [
        ("clients", "clients"),  # and no knob whose help speaks of clients
        ("rtt", "rtt@db2"),
        ("semi-sync", "semi_sync"),
        ("timeout", "semi_sync_timeout"),  # the label of that one, a part of another's name
        ("sync", "sync_binlog"),  # a name that begins so, before those that have it within
        ("binlog sync", "sync_binlog"),
        ("RATE", "rate"),
        ("jitter db2", "jitter@db2"),
    ],
)
def test_an_exact_name_stands_first_then_labels_then_help(board: Board, keys: str, best: str) -> None:
    board.search()
    for end in range(1, len(keys) + 1):
        board.narrow(keys[:end])
    assert str(board.selected) == best
    assert board.names[0] == board.selected


def test_help_alone_matches_as_well_and_stands_last(board: Board) -> None:
    board.search()
    board.narrow("clients")
    assert len(board.names) > 1
    assert all("clients" in name.knob.help.lower() for name in board.names[1:])


def test_giving_the_filter_up_puts_the_cursor_back(board: Board) -> None:
    board.search()
    at_first = board.selected
    board.narrow("payload")
    board.narrow("")
    assert board.selected == at_first
    board.narrow("no such knob")
    assert board.selected is None
    board.drop_search()
    assert (board.filter, board.selected) == ("", at_first)


@EVERY_SIZE
async def test_a_filter_is_typed_above_the_headings_kept_replaced_and_given_up(size: Size) -> None:
    async with bench(size=size) as app:
        board = app.dashboard.board
        await app.press("down", "slash")
        before = board.selected
        panel = panel_of(app)
        await app.until(lambda: panel.rows != [] and "words of a name" in panel.rows[0])
        await typed(app, "clients")
        await app.until(lambda: "clients" in panel.rows[0])
        assert board.selected == CLIENTS
        assert "asked" in panel.rows[1], "the headings stand below it"
        await app.press("escape")
        assert (board.typed, board.selected) == (None, before)
        await typed(app, "/payload\r")
        assert panel.rows[0].split() == ["/", "payload", "esc", "all", "knobs"]
        await app.press("escape")
        assert (board.filter, board.selected) == ("", PAYLOAD)
        assert "/ payload" not in "\n".join(panel.rows)
        await typed(app, "/payload\r/")
        await app.until(lambda: board.typed is not None)
        await typed(app, "rate\x7f\r")
        assert board.filter == "rat"


async def test_the_arrows_walk_through_what_the_filter_leaves() -> None:
    async with bench() as app:
        board = app.dashboard.board
        await typed(app, "/binlog")
        first, second = board.names[:2]
        assert board.selected == first
        await app.press("down")
        assert board.selected == second
        assert board.typed is not None
        await app.press("enter")
        assert (board.filter, board.selected) == ("binlog", second)


@TWO_SIZES
async def test_a_filter_that_comes_in_one_burst_turns_no_knob(size: Size) -> None:
    """`s` turns semi-sync and `x` the load: on a slow line `/` may come with what is typed after it."""
    async with bench(size=size) as app:
        await typed(app, "/sxdelay\x7f", at_once=True)
        await app.until(lambda: app.dashboard.board.filter == "sxdela")
        assert [name for name, _ in app.facade.calls] == ["start"]
        app.app.post_message(events.Key("ctrl+c", "\x03"))
        await app.until(lambda: app.app.return_value == app.facade.closing_line)


# Told


@pytest.mark.parametrize(
    "knob", [knob for knob in CATALOGUE if knob.risk and ASYNC.has(knob)], ids=lambda knob: knob.key
)
def test_a_risk_is_said_of_some_values_and_not_of_all(knob: Knob) -> None:
    assert {risky(KnobName(knob.key, "db2"), step) for step in knob.steps} == {True, False}


@pytest.mark.parametrize(("most", "words"), [(2, ["0", "1", "2"]), (3, ["0", "1", "2", "3"])])
def test_the_ladder_has_what_the_server_takes(most: int, words: list[str]) -> None:
    """MySQL has no innodb_flush_log_at_trx_commit=3, MariaDB has."""
    here = Capabilities.of(MYSQL_9, {FLUSH.key: Range(0, most)}).narrowed(FLUSH.key)
    effects = KnobEffect(), KnobEffect()
    intent = Intent(FLUSH, "innodb_flush", 1, 1, Preview((), (), ()), (1, 1), *effects, here=here)
    assert "".join(text for text, _ in ladder(intent, 40)).split() == words


LADDERS: tuple[tuple[KnobName, Value], ...] = (
    (BANDWIDTH, 0), (BANDWIDTH, 3_000_000), (BANDWIDTH, 2_000_000_000), (TO_REPLICA, "auto"),
    (TO_REPLICA, 30.0), (LOSS, 100.0), (PARTITION, "dump"), (TIMEOUT, 5000),
)  # fmt: skip


async def test_a_ladder_has_its_words_and_the_value_among_them(snapshot: SnapshotAssertion) -> None:
    pages = []
    async with bench() as app:
        for at_s, (name, value) in enumerate(LADDERS, 2):
            await app.play(make_tick(float(at_s), values={name: value}))
            app.dashboard.select_knob(name)
            marked = [text for text, ink in app.painted("#statement")[-1] if ink == "title b u"]
            pages += [app.rows("#statement")[-1], f"   {marked}"]
    assert page(pages) == snapshot


async def test_copying_gives_the_statement_and_its_undo() -> None:
    async with bench() as app:
        app.dashboard.select_knob(SYNC)
        await app.press("left", "Y")
        assert app.app.clipboard == (
            "-- sync_binlog = 0, runs on the source\n"
            "SET GLOBAL sync_binlog = 0;\n"
            "-- undo: SET GLOBAL sync_binlog = 1;"
        )


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

    def tick(fsync_ms: float) -> Tick:
        values: dict[KnobName, Value] = {PARTITION: "ack", KnobName("fsync_delay", SOURCE): 2.0, LOSS: 1.0}
        state = ProtectionState.BLOCKED
        return make_tick(2.0, state=state, values=values, fsync_ms=fsync_ms, healing=True)

    monkeypatch.setattr(Widget, "refresh", noted)
    async with bench(make_tick(1.0), tick(2.2), size=size) as app:
        await app.play(tick(2.2))
        drawn.clear()
        await app.play(tick(2.2))
        assert drawn == []
        await app.play(tick(2.3))
        assert drawn != []


# The board: what is selected, staged and shown, without a terminal


def test_every_knob_stands_once_under_a_heading() -> None:
    names = [name for name in expand(CATALOGUE, ["db2", "db3"]) if ASYNC.has(name.knob)]
    found = sections(names)
    assert sorted(name for section in found for name in section.names) == sorted(names)
    assert [section.title for section in found] == [
        "LINK", "SEMI-SYNC", "DURABILITY", "DISK", "LOAD", "BINLOG", "SERVER", "DB2", "DB3",
    ]  # fmt: skip
    assert {name.node for name in found[0].names} == {"db2", "db3"}
    assert [str(name) for name in found[0].names[:4]] == [
        "rtt@db2", "rtt@db3", "partition@db2", "partition@db3",
    ]  # fmt: skip


def test_a_link_says_its_ends_where_there_are_several(board: Board) -> None:
    assert board.label(RTT) == "rtt"
    tick, pair = make_tick(replicas=2), "db2:db3"
    links = {
        "rtt": ("rtt db3", "rtt db2:db3"),
        "partition": ("partition db3", "partition 2:3"),
        "delay_to_replica": ("to replica 3", "replica 2:3"),
        "delay_to_primary": ("to source db3", "to source 2:3"),
    }
    pairs = {
        name: KnobView(name, name.knob.default, name.knob.default)
        for name in (KnobName(key, pair) for key in links)
    }
    board.fold(replace(tick, knobs={**tick.knobs, **pairs}))
    for key, labels in links.items():
        assert (board.label(KnobName(key, "db3")), board.label(KnobName(key, pair))) == labels
    board.shows_all = True
    assert pairs.keys() <= {*board.names}


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


def link_rows(board: Board) -> list[object]:
    return list(board.sections[0].names)


@pytest.mark.parametrize("asked", ["requested", "effective", "staged", "pending", "selected"])
def test_a_knob_of_which_there_is_something_to_see_is_never_folded_away(board: Board, asked: str) -> None:
    tick = make_tick()
    if asked == "requested":
        tick = make_tick(values={JITTER: 1.0})
    elif asked == "effective":
        views = {**tick.knobs, JITTER: replace(tick.knobs[JITTER], effective=1.0)}
        tick = replace(tick, knobs=views)
    elif asked == "selected":
        board.select(JITTER)
    else:
        board.stage(JITTER, 1.0, 0.0)
        if asked == "pending":
            board.send()
    board.fold(tick)
    assert link_rows(board) == [RTT, PARTITION, JITTER]


def test_a_knob_that_is_back_at_its_default_stays_until_the_cursor_leaves(board: Board) -> None:
    board.fold(make_tick(values={LOSS: 1.0}))
    board.select(LOSS)
    board.fold(make_tick())
    assert board.selected == LOSS
    assert LOSS in board.names
    board.move(-1)
    assert board.selected == PARTITION
    assert LOSS not in board.names


async def test_no_heading_stands_at_the_bottom_with_nothing_below() -> None:
    async with bench(size=(120, 36)) as app:
        panel = panel_of(app)
        for height in range(3, 20):
            *_, last = panel.draw(make_tick(1.0), 44, height)
            assert last[0][0].strip() not in {section.title for section in app.dashboard.board.sections}
