"""What the exposure meter says of real servers, and what failures of them took."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bench.exposure import cut
from replexplorer.core.server.exposure import Exposure, Loss
from replexplorer.core.tick import Tick
from replexplorer.engine.session import Session
from tests.integration.conftest import LiveStack
from tests.integration.sessions import attached
from tests.known import known
from tests.turning import turn
from tests.waiting import until_tick

pytestmark = pytest.mark.docker

NOTHING = Loss(0, 0, 0)


async def exposure(session: Session, holds: Callable[[Exposure], bool], what: str) -> Exposure:
    """Of the first tick for which this holds."""

    def fits(tick: Tick) -> bool:
        return tick.exposure is not None and holds(tick.exposure)

    return known((await until_tick(session, fits, what)).exposure)


def over(loss: object, commits: int) -> bool:
    return isinstance(loss, Loss) and loss.low > commits


async def test_each_setting_moves_the_figure_of_the_failure_that_it_is_about(live_stack: LiveStack) -> None:
    async with attached(live_stack) as session:
        await turn(session, "clients=4", "rtt=0")
        await session.start(lambda *_: None)
        try:
            seen = await exposure(session, lambda seen: seen.power_cut == NOTHING, "nothing at risk at 1/1")
            assert seen.process_dies == NOTHING
            await turn(session, "innodb_flush_log_at_trx_commit=2")
            seen = await exposure(
                session, lambda seen: over(seen.power_cut, 20), "a second's commits at flush 2"
            )
            assert seen.process_dies == NOTHING, "they are in the page cache"
            await turn(session, "innodb_flush_log_at_trx_commit=0")
            await exposure(
                session, lambda seen: over(seen.process_dies, 20), "and of mysqld's own at flush 0"
            )
            await turn(session, "innodb_flush_log_at_trx_commit=1", "sync_binlog=0")
            await exposure(
                session,
                lambda seen: isinstance(seen.power_cut, Loss) and 0 < seen.power_cut.high <= 40,
                "one commit a session at 0/1",
            )
            await turn(session, "sync_binlog=1", "partition=both")
            seen = await exposure(
                session,
                lambda seen: over(seen.source_lost, 200) and seen.power_cut == NOTHING,
                "what a cut link holds back, and nothing else once looks have seen 1/1 alone",
            )
            await turn(session, "partition=none")
            await exposure(session, lambda seen: not over(seen.source_lost, 200), "the replica catching up")
            await turn(session, "semi_sync=on")
            await exposure(session, lambda seen: seen.source_lost == NOTHING, "nothing at risk in semi-sync")
        finally:
            await session.close()


async def test_what_failures_took_is_what_the_meter_had_said(live_stack: LiveStack) -> None:
    async with attached(live_stack, "exposure") as session:
        # The source is isolated before it is killed, so that what the replica lacks grows to the end.
        lost = await cut(session, "source_lost", (1, 1), 10, length_s=1.0)
        assert lost.lost > 0
        assert lost.holds
        lost = await cut(session, "power_cut", (1, 2), 0, length_s=1.0)
        # A flush between the last look and the cut may have saved some.
        assert lost.lost <= lost.said.high + lost.told_since
