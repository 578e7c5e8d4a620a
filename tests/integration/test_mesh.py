"""Links between any two of three real servers: measured, cut with a node, and going down and up."""

from __future__ import annotations

import asyncio

import pytest

from replexplorer.adapters.docker.provider import DockerProvider
from replexplorer.core.link import LinkView
from replexplorer.engine.session import Session
from replexplorer.ports import UpOptions
from tests.integration.conftest import bring_up
from tests.integration.sessions import connected, inject
from tests.turning import turn
from tests.waiting import until

pytestmark = pytest.mark.docker

PAIR = "db2:db3"


async def link(session: Session, name: str) -> LinkView:
    """As both agents have it now."""
    await session.state.look_at_links([PAIR])
    found = session.state.link(name)
    assert found is not None
    return found


async def test_a_link_between_two_replicas_is_as_real_as_the_source_s(own_stack: DockerProvider) -> None:
    live = await bring_up(own_stack, UpOptions(replicas=2))
    async with connected(live, "set") as session:
        [change] = (await turn(session, f"rtt@{PAIR}=20ms")).changed
        assert change.measured_ms is not None
        assert change.measured_ms >= 19.0
        await until(
            lambda: link(session, PAIR),
            "it is slowed by what was asked",
            holds=lambda found: 19.0 <= (found.rtt_measured_ms or 0.0) <= 21.0,
        )
        await until(
            lambda: link(session, "db2"),
            "no other link is slowed",
            holds=lambda found: found.rtt_measured_ms is not None and found.rtt_measured_ms < 19.0,
        )

        await inject(session, "isolate@db3")
        assert [(await link(session, name)).partition for name in ("db2", "db3", PAIR)] == [
            "none", "both", "both",
        ]  # fmt: skip
        assert (await link(session, PAIR)).rtt_measured_ms is None
        await session.console.clear()
        await until(lambda: link(session, PAIR), holds=lambda found: found.rtt_measured_ms is not None)
        assert ((await link(session, PAIR)).rtt_measured_ms or 0) >= 19.0, "the delay is as it was"

        await inject(session, "flap=1/1@db2")
    async with connected(live, "fault") as session:  # nobody is left who injected it
        seen: list[bool] = []
        while len(seen) < 4:
            found = await link(session, "db2")
            if not seen or found.is_down != seen[-1]:
                seen.append(found.is_down)
            await asyncio.sleep(0.05)
        agent = session.state.fleet.member("db1").agent
        # The cuts are real: probes are lost, and answered in between.
        await until(lambda: agent.link("db2"), holds=lambda state: state.lost > 0 and state.probes > 0)
        assert (await link(session, "db3")).partition == "none"
        await until(lambda: link(session, "db2"), "both ends flap", holds=lambda found: found.fault is None)
        [cleared] = await session.console.clear("flap")
        assert str(cleared.fault) == "flap=1/1@db2"
        await live.ready()
        await until(lambda: link(session, "db2"), holds=lambda found: found.rtt_measured_ms is not None)
        assert (await link(session, "db2")).flap is None
