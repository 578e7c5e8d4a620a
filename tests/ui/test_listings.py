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
from tests.ticks import WALL_S, change_event, make_tick
from tests.typed import table_of
from tests.ui.driving import EVERY_SIZE, bench, page
from tests.ui.test_replay import playing


@pytest.mark.parametrize("width", [80, 120])
async def test_the_help_is_not_cut(width: int) -> None:
    async with bench(size=(width, 24)) as app:
        told = " ".join((await app.opened("?")).split())
        assert all(len(row) <= width for row in app.whole)
        meanings = [*(state[3] for state in STATES.values()), *(chip[2] for chip in CHIPS)]
        assert not [
            words for words in (*meanings, *(action.title for action in ACTIONS)) if words not in told
        ]


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
LAST_ROWS = """\
L | q      | esc q back   ↑↓ scroll              | q
L | ctrl+x | esc ^x back   ↑↓ scroll             | ctrl+x
o | q      | esc q back   ↑↓ choose  tab read on | q
g | q      | esc q back   ↑↓ scroll              | q
? | q      | esc q back   ↑↓ scroll              | q
S | q      | esc back   ↑↓ scroll                | escape
"""
"""What opens a list, the key that quits, its last row, and what closes it."""


@pytest.mark.parametrize(("key", "quits", "last", "closes"), table_of(LAST_ROWS))
async def test_the_last_row_names_the_keys_that_work_and_they_close_the_list_alone(
    key: str, quits: str, last: str, closes: str
) -> None:
    """A letter is one while a sweep is typed, and closes the screen else."""
    events, epochs = (Event(1.0, WALL_S, Severity.WARN, LONG),), (Epoch(0, 0.0, "baseline", None, 619.0),)
    tick = make_tick(1.0, events=events, epochs=epochs)
    async with bench(tick, size=(80, 24), keymap={"app.quit": quits}) as app:
        told = " ".join((await app.opened(key)).split())
        assert (LONG in told) is (key == "L")
        await app.until(lambda: app.shown[-1].strip() == last, f"{app.shown[-1]!r}")
        if key == "S":
            await app.press("q")
            assert app.app.screen.query_one(Input).value.endswith("q")
            app.app.screen.set_focus(None)
            await app.closed("q")
            await app.opened(key)
        await app.closed(closes)
        assert app.app.is_running
        await app.asked("close")


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


async def test_the_waits_are_asked_for_while_they_are_open_and_again_where_a_server_does_not_answer() -> None:
    async with bench() as app:
        app.facade.waited = (WAITS,)
        app.facade.failures["waits"] = ServerUnreachable("db1 did not answer within 5 s")
        await app.asked("waits")
        assert "db1 did not answer within 5 s" in await app.opened("W")
        await app.until(lambda: "row lock" in "\n".join(app.whole), "the next look")
        for words in (
            "64      0.080  commit",
            "id 71, holds it (Sleep): UPDATE orders",
            "619.0   12.500",
            "NOT SEEN",
        ):
            assert words in "\n".join(app.whole)
        await app.shows("Waits db1: 66 sessions")
        await app.press("escape")
        await app.asked("waits no more", *[None] * len(app.facade.called("waits")))


async def test_a_recording_has_none() -> None:
    async with playing() as player:
        await player.press("W")
        await player.told("does not include what sessions waited for")
        assert player.app.screen is player.dashboard
