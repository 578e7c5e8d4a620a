"""What is done to real servers by hand: it is repaired where it is asked for."""

from __future__ import annotations

import pytest

from replexplorer.core.server.protection import ProtectionState
from tests.conformance.scenarios import becomes
from tests.integration.conftest import LiveStack
from tests.integration.sessions import attached
from tests.turning import turn

pytestmark = pytest.mark.docker

SWITCH_OFF = "SET GLOBAL rpl_semi_sync_replica_enabled = OFF"


async def test_an_unregistered_replica_is_registered_again_when_semi_sync_is_asked_again(
    live_stack: LiveStack,
) -> None:
    async with attached(live_stack) as session:
        await turn(session, "semi_sync=on")
        for repair in (lambda: turn(session, "semi_sync=on"), lambda: session.up(lambda *_: None)):
            for statement in (SWITCH_OFF, "STOP REPLICA IO_THREAD", "START REPLICA IO_THREAD"):
                await session.fleet.member("db2").kick.query(statement, deadline_s=10.0)
            await becomes(session, ProtectionState.ARMED)
            await repair()
            await session.state.refresh()
            assert session.state.protection().state is ProtectionState.PROTECTED
            assert session.state.protection().replicas_acking == 1
