"""What somebody does to real servers by hand: it is mended where it is asked for, and said in any case."""

from __future__ import annotations

import pytest

from replexplorer.core.server.protection import ProtectionState
from replexplorer.engine.session import Session
from tests.integration.conftest import LiveStack
from tests.integration.sessions import attached
from tests.turning import turn
from tests.waiting import until

pytestmark = pytest.mark.docker

SWITCH_OFF = "SET GLOBAL rpl_semi_sync_replica_enabled = OFF"


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
