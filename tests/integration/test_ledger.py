"""The loss ledger on real servers: what clients were told, and the rows that are there after a failure."""

from __future__ import annotations

import pytest

from replexplorer.core.loss.client_log import LedgerStanding
from replexplorer.core.server.protection import ProtectionState
from replexplorer.engine.session import Session
from tests.integration.conftest import LiveStack
from tests.integration.sessions import attached, inject
from tests.known import known
from tests.turning import turn
from tests.waiting import until

pytestmark = pytest.mark.docker

CLIENTS, ROWS = 8, 400


async def begin(session: Session, *settings: str, state: ProtectionState) -> None:
    """Turn knobs, and let clients write so many rows that are acknowledged."""
    await turn(session, *settings)
    await session.rig.load.keep_ledger(clients=CLIENTS)
    await acknowledged(session)
    await until_state(session, state)


async def until_state(session: Session, state: ProtectionState) -> None:
    """Wait until this is how the stack is protected."""

    async def protection() -> ProtectionState:
        return (await session.rig.look()).protection.state

    await until(protection, holds=lambda found: found is state)


async def acknowledged(session: Session) -> LedgerStanding:
    """Wait for enough rows that clients were told of."""

    async def standing() -> LedgerStanding:
        return (await session.rig.load.client_log()).standing

    return await until(standing, holds=lambda found: found.acknowledged >= ROWS, within_s=60)


async def all_whole(session: Session, live: LiveStack) -> None:
    """Take every fault back and wait until all replicates again."""
    await session.console.clear()
    await live.ready()


async def test_what_a_failure_loses_is_named_row_by_row(live_stack: LiveStack) -> None:
    async with attached(live_stack, "drill") as session:
        rig = session.rig

        # A source that is protected dies, for good: whatever a client was told is on the replica.
        lossless = ("semi_sync=on", "wait_point=after_sync", "semi_sync_timeout=60s", "rtt=20ms")
        await begin(session, *lossless, state=ProtectionState.PROTECTED)
        await inject(session, "kill")
        failed_at_s = session.outside.clock.monotonic()
        ledger = await rig.count_losses("db2", failed_at_s=failed_at_s)
        assert (ledger.lost, ledger.failed, list(ledger.nodes)) == (0, 0, ["db2"])
        assert ledger.acknowledged >= ROWS
        assert ledger.unknown <= CLIENTS, "one row of each client was under way"
        assert ledger.nodes["db2"].rows == ledger.acknowledged + ledger.unknown_present
        await all_whole(session, live_stack)

        # An asynchronous one whose line is cut first: what was on the way is lost, of every client.
        await begin(session, "semi_sync=off", "rtt=85ms", state=ProtectionState.OFF)
        await inject(session, "partition=both", "kill")
        failed_at_s = session.outside.clock.monotonic()
        ledger = await rig.count_losses("db2", failed_at_s=failed_at_s)
        assert ledger.lost > 0
        assert ledger.nodes["db2"].missing == ledger.lost
        assert known(ledger.oldest_lost_age_ms) >= known(ledger.newest_lost_age_ms), "a single row is both"
        await all_whole(session, live_stack)
        ledger = await rig.count_losses("db1", failed_at_s=failed_at_s)
        assert ledger.lost == 0, "the old source still has them all"

        # AFTER_COMMIT shows rows to others that no replica has: they were read, and are gone.
        shown = ("semi_sync=on", "wait_point=after_commit", "rtt=0")
        await begin(session, *shown, state=ProtectionState.PROTECTED)
        await inject(session, "partition=dump")
        await until_state(session, ProtectionState.BLOCKED)  # acknowledgements on their way have come

        async def read() -> int:
            log = await rig.load.client_log()
            seen = log.seen.get("db1", {})
            return sum(
                client in seen and seen[client][-1][1] >= each.attempted[-1][1]
                for client, each in log.clients.items()
            )

        await until(read, "each client's row that waits was read", holds=lambda found: found == CLIENTS)
        await inject(session, "kill")
        ledger = await rig.count_losses("db2")
        # The cut may fall amid a group: its first rows have arrived, and only its last is acknowledged.
        assert (ledger.lost, ledger.unknown_absent + ledger.unknown_present) == (0, CLIENTS)
        assert ledger.phantom_reads == ledger.unknown_absent > 0
        await all_whole(session, live_stack)
