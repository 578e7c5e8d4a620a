"""The session on real servers: what is asked becomes effective, measured and true."""

from __future__ import annotations

import pytest

from replexplorer.core.errors import UsageError
from replexplorer.core.knobs.catalogue import Backing
from tests.integration.conftest import LiveStack
from tests.integration.sessions import attached
from tests.turning import turn

pytestmark = pytest.mark.docker


async def test_every_rung_of_every_server_knob_becomes_effective(
    live_stack: LiveStack, in_full: bool
) -> None:
    """In a usual run the first and the last of each."""
    async with attached(live_stack) as session:
        for name in session.state.names():
            if name.knob.backing is not Backing.SERVER or name.key == "semi_sync":
                continue
            refused = {"off"} if name.key == "innodb_doublewrite" else set()
            member = session.fleet.member(name.node)
            assert member.capabilities is not None
            rungs = member.capabilities.knob(name.key).steps
            for rung in rungs if in_full else (rungs[0], rungs[-1]):
                if rung in refused:
                    with pytest.raises(UsageError, match="restart"):
                        await turn(session, f"{name}={rung}")
                    continue
                await turn(session, f"{name}={rung}")
                assert session.state.requested_value(name) == rung
                await session.state.look(member.name)
                assert session.state.effective_value(name) == rung, name
        await session.console.reset()
        await session.state.refresh()
        for name, view in session.state.views().items():
            if name.knob.backing is not Backing.LOAD:
                assert view.effective == name.knob.default, name
