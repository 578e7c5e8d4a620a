"""The session on real servers: what is asked becomes effective, measured and true."""

from __future__ import annotations

from typing import Any

import pytest

from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.knobs.catalogue import Backing
from replexplorer.core.knobs.names import SOURCE, KnobName
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.tick import Tick
from replexplorer.engine.load import measure
from replexplorer.engine.session import Session
from replexplorer.ports import LoadSettings
from tests.integration.conftest import LiveStack
from tests.integration.sessions import attached
from tests.turning import turn
from tests.waiting import patience, until, until_tick

pytestmark = pytest.mark.docker

RTT = KnobName("rtt", "db2")


async def test_every_rung_of_every_server_knob_becomes_effective(live_stack: LiveStack) -> None:
    async with attached(live_stack) as session:
        for name in session.state.names():
            if name.knob.backing is not Backing.SERVER or name.key == "semi_sync":
                continue
            refused = {"off"} if name.key == "innodb_doublewrite" else set()
            member = session.fleet.member(name.node)
            assert member.capabilities is not None
            for rung in member.capabilities.knob(name.key).steps:
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


@pytest.mark.parametrize("asked_ms", [2.0, 85.0])
async def test_the_link_takes_as_long_as_asked(live_stack: LiveStack, asked_ms: float) -> None:
    async with attached(live_stack) as session:
        await turn(session, f"rtt={asked_ms}")
        assert session.state.effective_value(RTT) == asked_ms

        async def is_measured() -> bool:
            await session.state.look_at_links()
            measured = session.state.links["db2"].rtt_measured_ms
            return measured is not None and abs(measured - asked_ms) <= max(0.5, 0.02 * asked_ms)

        await until(is_measured)
        await turn(session, "rtt=0")

        async def is_bare_again() -> bool:
            await session.state.look_at_links()
            measured = session.state.links["db2"].rtt_measured_ms
            return measured is not None and measured < asked_ms / 2

        await until(is_bare_again)


async def test_a_commit_under_semi_sync_takes_one_round_trip_and_clients_share_it(
    live_stack: LiveStack,
) -> None:
    """docs/labs.md "tour": RTT + the local cost for one client, at least 8 times its TPS for 32.

    Medians are compared, so that a machine that stalls for a moment says nothing of the commits.
    """
    async with attached(live_stack) as session:
        await turn(session, "rtt=85ms")
        clock = session.outside.clock
        await session.drive(LoadSettings(1, "update_index"))
        away = await measure(session.load, clock, duration_s=2, from_s=clock.monotonic() + 1)
        await turn(session, "semi_sync=on")
        one = await measure(session.load, clock, duration_s=5, from_s=clock.monotonic() + 1)
        await session.state.look_at_links()
        rtt_ms = session.state.links["db2"].rtt_measured_ms
        local_ms, commit_ms = away.total.service.percentile_ms(50), one.total.service.percentile_ms(50)
        assert local_ms is not None
        assert commit_ms is not None
        assert rtt_ms is not None
        assert await state_of(session) is ProtectionState.PROTECTED
        assert 0.98 * rtt_ms <= commit_ms <= (1 + 0.05 * patience()) * (rtt_ms + local_ms)
        await turn(session, "clients=32")
        many = await measure(session.load, clock, duration_s=3, from_s=clock.monotonic() + 1)
        assert many.tps >= 8 * one.tps / patience()
        busy_s = many.total.service.sum_us / 1e6
        assert busy_s == pytest.approx(32 * many.duration_s, rel=0.1 * patience())  # Little's law
        await turn(session, "rtt=0", "clients=1")
        home = await measure(session.load, clock, duration_s=2, from_s=clock.monotonic() + 1)
        assert (home.total.service.percentile_ms(50) or rtt_ms) < rtt_ms / 2


async def state_of(session: Session) -> ProtectionState:
    await session.state.refresh()
    await session.state.look_twice_if_waiting()
    return session.state.protection().state


async def test_two_apps_see_each_other(live_stack: LiveStack) -> None:
    """The first drives; the second is a viewer, and its knobs are the first's marks."""
    async with attached(live_stack, "first") as first, attached(live_stack, "second") as second:
        await first.start(lambda *_: None)
        await until(lambda: _is(first.load.is_running))
        with pytest.raises(StackUnavailable, match=r"first \(pid"):
            await second.drive(LoadSettings(1, "insert"))
        await turn(second, "sync_binlog=0", "clients=3")
        seen: list[Tick] = []

        async def is_marked() -> bool:
            seen.append(await anext(aiter(first.ticks())))
            return any("by second" in event.text and event.mark for tick in seen for event in tick.events)

        await until(is_marked)
        await until(lambda: _is(first.load.effective().get("clients") == 3))
        await first.close()


async def _is(true: bool) -> bool:
    return true


def commits(tick: Tick) -> bool:
    """The load has begun, and goes on."""
    return tick.load is not None and (tick.load.tps or 0) > 0


async def test_a_killed_primary_is_restored_and_marked(live_stack: LiveStack, docker_client: Any) -> None:
    """SET GLOBAL does not survive: what was requested is re-applied, and the chart says so."""
    async with attached(live_stack) as session:
        await turn(session, "semi_sync=on", "rtt=20ms", "sync_binlog=10")
        await session.start(lambda *_: None)
        await until_tick(session, commits, "the load commits")
        labels = [f"dev.replexplorer.stack={live_stack.stack.name}", "dev.replexplorer.role=mysqld"]
        [server] = docker_client.containers(
            all=True, filters={"label": [*labels, f"dev.replexplorer.node={session.fleet.source_name}"]}
        )
        docker_client.kill(server["Id"], "KILL")
        events: list[str] = []

        def heard(tick: Tick) -> Tick:
            events.extend(event.text for event in tick.events)
            return tick

        await until_tick(session, lambda tick: heard(tick).protection.state is ProtectionState.DOWN)
        docker_client.start(server["Id"])
        await until_tick(session, lambda tick: heard(tick).protection.state is ProtectionState.PROTECTED)
        assert any("re-applied" in text for text in events), events
        assert session.state.effective_value(KnobName("sync_binlog", SOURCE)) == 10
        link = session.state.links["db2"]
        assert link.values is not None
        assert link.values["rtt"] == 20.0
        await until_tick(session, commits, "the load commits again")
        await session.close()
