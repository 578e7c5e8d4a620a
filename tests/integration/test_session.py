"""The session on real servers: what is asked becomes effective, measured and true."""

from __future__ import annotations

import math
from functools import partial

import pytest

from replexplorer.core.errors import UsageError
from replexplorer.core.knobs.catalogue import Backing
from replexplorer.core.knobs.names import SOURCE, KnobName
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.tick import Tick
from replexplorer.engine.load import measure
from replexplorer.ports import LoadSettings
from tests.integration.conftest import LiveStack
from tests.integration.sessions import attached
from tests.turning import turn
from tests.waiting import load_runs, until, until_tick

pytestmark = pytest.mark.docker

RTT = KnobName("rtt", "db2")


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


async def test_the_link_takes_as_long_as_asked(live_stack: LiveStack) -> None:
    async with attached(live_stack) as session:

        async def measured_ms() -> float:
            await session.state.look_at_links()
            return session.state.links["db2"].rtt_measured_ms or math.inf

        for asked_ms in (2.0, 85.0):
            await turn(session, f"rtt={asked_ms}")
            assert session.state.effective_value(RTT) == asked_ms
            near = partial(math.isclose, asked_ms, rel_tol=0.02, abs_tol=0.5)
            await until(measured_ms, holds=near)
        await turn(session, "rtt=0")
        await until(measured_ms, "it is bare again", holds=lambda ms: ms < 1.0)


async def test_clients_share_the_round_trip_that_a_commit_takes_under_semi_sync(
    live_stack: LiveStack,
) -> None:
    """docs/reference/labs.md "tour": for 32 clients at least 8 times the TPS of one."""
    async with attached(live_stack) as session:
        clock = session.outside.clock
        await turn(session, "rtt=85ms", "semi_sync=on")
        await session.drive(LoadSettings(1, "update_index"))
        one = await measure(session.load, clock, duration_s=2, from_s=clock.monotonic() + 1)
        await turn(session, "clients=32")

        async def many_tps() -> float:
            return (await measure(session.load, clock, duration_s=2, from_s=clock.monotonic() + 1)).tps

        await until(many_tps, "32 clients share it", holds=lambda tps: tps >= 8 * one.tps)


async def test_a_killed_primary_is_restored_and_marked(live_stack: LiveStack) -> None:
    """SET GLOBAL does not survive: what was requested is re-applied, and the chart says so."""
    async with attached(live_stack) as session:
        await turn(session, "semi_sync=on", "rtt=20ms", "sync_binlog=10")
        await session.start(lambda *_: None)
        await until_tick(session, load_runs, "the load commits")
        server = session.fleet.server_process(session.fleet.source_name)
        await server.kill()
        events: list[str] = []

        def becomes(state: ProtectionState, tick: Tick) -> bool:
            events.extend(event.text for event in tick.events)
            return tick.protection.state is state

        await until_tick(session, partial(becomes, ProtectionState.DOWN))
        await server.start()
        await until_tick(session, partial(becomes, ProtectionState.PROTECTED))
        assert any("re-applied" in text for text in events), events
        assert session.state.effective_value(KnobName("sync_binlog", SOURCE)) == 10
        link = session.state.links["db2"]
        assert link.values is not None
        assert link.values["rtt"] == 20.0
        await until_tick(session, load_runs, "the load commits again")
        await session.close()
