"""The lists over the whole terminal lose no word, and their last row names the keys that work there."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion
from textual.widgets import Input

from replexplorer.core.epochs.epochs import Epoch
from replexplorer.core.errors import ServerUnreachable
from replexplorer.core.event import Event, Severity
from replexplorer.core.server.waits import (
    LockWait,
    ServerWaits,
    SessionNow,
    StatementRate,
    grouped,
    lock_waits,
)
from replexplorer.ui.actions import ACTIONS
from replexplorer.ui.words.states import CHIPS, STATES
from tests.fakes.facade import WALL_S, FakeFacade, change_event, make_tick
from tests.ui.driving import EVERY_SIZE, bench, page
from tests.ui.test_replay import playing


@pytest.mark.parametrize("width", [80, 120])
async def test_the_help_is_not_cut(width: int) -> None:
    async with bench(size=(width, 24)) as app:
        await app.opened("question_mark")
        assert all(len(row) <= width for row in app.whole)
        told = " ".join(" ".join(app.whole).split())
        for title in (action.title for action in ACTIONS):
            assert title in told
        for meaning in (*(state[3] for state in STATES.values()), *(chip[2] for chip in CHIPS)):
            assert meaning in told


@pytest.mark.usefixtures("utc")
@EVERY_SIZE
async def test_an_event_has_the_time_of_the_charts_and_the_local_time(
    size: tuple[int, int], snapshot: SnapshotAssertion
) -> None:
    """The mark of an event, its epoch and its place on the axis are found by one and the same time."""
    ticks = [make_tick(100.0), make_tick(140.0, events=(change_event(140.0, 1, "rtt 20 → 85 ms"),))]
    ticks += [make_tick(3_850.0, events=(change_event(3_850.0, 21, "clients 8 → 48"),))]
    async with bench(*ticks, size=size) as app:
        pages = app.rows("#events")
        await app.opened("L")
        assert page(pages, app.shown[:1], app.whole) == snapshot


LONG = "semi-sync timed out: " + "commits are asynchronous " * 8 + "until a replica acknowledges"


@pytest.mark.parametrize(
    ("key", "keymap", "last", "closes"),
    [
        ("L", {}, "esc q back   ↑↓ scroll", "q"),
        ("L", {"app.quit": "ctrl+x"}, "esc ^x back   ↑↓ scroll", "ctrl+x"),
        ("o", {}, "esc q back   ↑↓ choose  tab read on", "q"),
        ("g", {}, "esc q back   ↑↓ scroll", "q"),
        ("question_mark", {}, "esc q back   ↑↓ scroll", "q"),
        ("S", {}, "esc back   ↑↓ scroll", "escape"),
    ],
)
async def test_the_last_row_names_the_keys_that_work_and_they_close_the_list_alone(
    key: str, keymap: dict[str, str], last: str, closes: str
) -> None:
    events, epochs = (Event(1.0, WALL_S, Severity.WARN, LONG),), (Epoch(0, 0.0, "baseline", None, 619.0),)
    async with bench(make_tick(1.0, events=events, epochs=epochs), size=(80, 24), keymap=keymap) as app:
        told = " ".join(" ".join(await app.opened(key)).split())
        assert (LONG in told) is (key == "L")
        await app.until(lambda: app.shown[-1].strip() == last, f"{app.shown[-1]!r}")
        await app.press(closes)
        await app.until(lambda: app.app.screen is app.dashboard)
        assert app.app.is_running
        assert app.facade.called("close") == []


async def test_q_is_a_letter_while_a_sweep_is_typed_and_closes_the_screen_else() -> None:
    async with bench(size=(80, 24)) as app:
        await app.opened("S")
        await app.press("q")
        assert app.app.screen.query_one(Input).value.endswith("q")
        app.app.screen.set_focus(None)
        await app.press("q")
        await app.until(lambda: app.app.screen is app.dashboard)


# The sheet of who waits for what: asked while it is open, and no longer

_SESSIONS = [
    *(SessionNow(each, "Execute", "waiting for handler commit", "UPDATE t", 0.08) for each in range(64)),
    SessionNow(70, "Query", "updating", "UPDATE orders SET state = 3 WHERE id = 7", 4.0, None, True, True),
    SessionNow(71, "Sleep", "", "UPDATE orders SET state = 2 WHERE id = 7", 31.0, None, True),
]
WAITS = ServerWaits(
    node="db1",
    sessions=len(_SESSIONS),
    groups=grouped(_SESSIONS, after_sync=False),
    locks=lock_waits(
        [LockWait("row", 70, 71, "shop.orders", "PRIMARY", "7", "X,REC_NOT_GAP", 4.0)], _SESSIONS
    ),
    statements=(
        StatementRate("sandbox", "UPDATE `sbtest1` SET `k` = `k` + ? WHERE `id` = ?", 619.0, 12.5, 1, 0, 1),
    ),
    over_s=1.0,
    unseen=("stages and fsyncs of a commit: the consumer events_waits_current is off",),
)


async def test_the_waits_are_asked_for_while_they_are_open() -> None:
    facade = FakeFacade()
    facade.waited = (WAITS,)
    async with bench(facade=facade) as app:
        assert not facade.called("waits")
        whole = "\n".join(await app.opened("W"))
        for words in (
            "64      0.080  commit",
            "id 71, holds it (Sleep): UPDATE orders",
            "619.0   12.500",
            "NOT SEEN",
        ):
            assert words in whole
        assert "Waits db1: 66 sessions" in "\n".join(app.sheet)
        await app.press("escape")
        await app.until(lambda: bool(facade.called("waits no more")), "the end of asking")
        assert facade.called("waits") == [None]


async def test_a_server_that_does_not_answer_is_said_and_asked_again() -> None:
    facade = FakeFacade()
    facade.failures["waits"] = ServerUnreachable("db1 did not answer within 5 s")
    facade.waited = (WAITS,)
    async with bench(facade=facade) as app:
        assert "db1 did not answer within 5 s" in (await app.opened("W"))[0]
        await app.until(lambda: "row lock" in "\n".join(app.whole), "the next look")


async def test_a_recording_has_none() -> None:
    async with playing() as player:
        await player.press("W")
        await player.told("does not include what sessions waited for")
        assert player.app.screen is player.dashboard
