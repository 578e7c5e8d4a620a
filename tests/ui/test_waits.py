"""The sheet of who waits for what: asked while it is open, and no longer."""

from __future__ import annotations

from replexplorer.core.errors import ServerUnreachable
from replexplorer.core.server.waits import (
    LockWait,
    ServerWaits,
    SessionNow,
    StatementRate,
    grouped,
    lock_waits,
)
from tests.fakes.facade import FakeFacade
from tests.ui.driving import bench
from tests.ui.test_replay import playing

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
