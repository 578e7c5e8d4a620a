"""What somebody does to real servers by hand: it is mended where it is asked for, and said in any case."""

from __future__ import annotations

import asyncio

import pytest

from replexplorer.core.knobs.names import SOURCE, KnobName
from replexplorer.core.server.gtid import gtid_count
from replexplorer.core.server.protection import ProtectionState
from replexplorer.engine.observe.samples import errant_gtids
from replexplorer.engine.session import Session
from tests.integration.conftest import LiveStack
from tests.integration.sessions import attached
from tests.turning import turn
from tests.waiting import until

pytestmark = pytest.mark.docker

SWITCH_OFF = "SET GLOBAL rpl_semi_sync_replica_enabled = OFF"
FAR_AHEAD = 10**12
"""A transaction of the primary's own name that it never made: as after RESET BINARY LOGS AND GTIDS."""


async def by_hand(session: Session, node: str, *statements: str) -> None:
    """Statements that no app of ours knows of."""
    for statement in statements:
        await session.fleet.member(node).kick.query(statement, deadline_s=10.0)


async def test_an_unregistered_replica_is_registered_again_when_semi_sync_is_asked_again(
    live_stack: LiveStack,
) -> None:
    async with attached(live_stack) as session:
        await turn(session, "semi_sync=on")
        for mend in (lambda: turn(session, "semi_sync=on"), lambda: session.up(lambda *_: None)):
            await by_hand(session, "db2", SWITCH_OFF, "STOP REPLICA IO_THREAD", "START REPLICA IO_THREAD")

            async def is_armed() -> bool:
                await session.state.refresh()
                return session.state.protection().state is ProtectionState.ARMED

            await until(is_armed)
            await mend()
            await session.state.refresh()
            assert session.state.protection().state is ProtectionState.PROTECTED
            assert session.state.protection().replicas_acking == 1


async def test_flushed_counters_are_counted_from_zero(live_stack: LiveStack) -> None:
    async with attached(live_stack) as session:
        # What the tests before have committed need not be committed once more.
        await by_hand(session, SOURCE, "FLUSH NO_WRITE_TO_BINLOG STATUS")
        await turn(session, "semi_sync=on")
        for _ in range(5):
            await by_hand(session, SOURCE, session.fleet.source.dialect.kick)
        await turn(session, "semi_sync=off")
        await turn(session, "semi_sync=on")
        kept = session.state.requested.yes_tx_at_enabling
        assert kept
        await asyncio.sleep(3.0)  # the server tells its uptime in whole seconds
        await by_hand(session, SOURCE, "FLUSH NO_WRITE_TO_BINLOG STATUS")
        for _ in range(kept):
            await by_hand(session, SOURCE, session.fleet.source.dialect.kick)
        await session.state.refresh()
        status = session.state.samples[session.fleet.source_name].status
        assert status.since_flush_s is not None
        assert status.uptime_s is not None
        assert status.since_flush_s < status.uptime_s
        assert session.state.protection().state is ProtectionState.PROTECTED


async def test_a_variable_set_by_hand_is_a_mark(live_stack: LiveStack) -> None:
    heard: list[str] = []
    async with attached(live_stack) as session, session.observed(lambda event: heard.append(event.text)):
        source = session.fleet.source_name
        attached_s = session.state.samples[source].at_s

        async def is_watched() -> bool:
            return session.state.samples[source].at_s > attached_s

        async def is_told() -> bool:
            return f"sync_binlog 1 → 7, by hand on {source}" in heard

        await until(is_watched, "the first look, which takes everything as it is")
        await by_hand(session, source, "SET GLOBAL sync_binlog = 7")
        await until(is_told)
        assert session.state.requested_value(KnobName("sync_binlog", SOURCE)) == 1


async def test_transactions_that_the_primary_lacks_are_found(live_stack: LiveStack) -> None:
    async with attached(live_stack) as session:
        primary, replica = session.fleet.source, session.fleet.member("db2")
        assert await errant_gtids(primary, replica) == ""
        rows = await primary.control.query("SELECT @@GLOBAL.server_uuid AS uuid")
        foreign = f"{rows[0]['uuid']}:{FAR_AHEAD}"
        await by_hand(session, "db2", f"SET GTID_NEXT = '{foreign}'", "BEGIN", "COMMIT")
        try:
            found = await errant_gtids(primary, replica)
            assert found == foreign
            assert gtid_count(found) == 1
            status = await session.status()
            assert [node.errant_gtids for node in status.nodes] == [None, foreign]
        finally:
            await by_hand(session, "db2", "SET GTID_NEXT = 'AUTOMATIC'")
            # The primary gets it too, as an operator would mend it.
            await by_hand(
                session,
                SOURCE,
                f"SET GTID_NEXT = '{foreign}'",
                "BEGIN",
                "COMMIT",
                "SET GTID_NEXT = 'AUTOMATIC'",
            )
        assert await errant_gtids(primary, replica) == ""
