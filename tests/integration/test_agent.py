"""The agents of two real nodes: delays, probes, others than the peer, what dies and is started again."""

from __future__ import annotations

import math
import socket
import statistics
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest

from replexplorer.adapters.agent import BridgedAgent
from replexplorer.adapters.docker.execs import BRIDGE_COMMAND, DockerBridge, Exec
from replexplorer.core.errors import MissingPiece
from replexplorer.core.wire import LinkState, Shape
from replexplorer.ports import Bridge
from tests.integration.conftest import PREFIX, LiveStack, ids
from tests.sidecar import load
from tests.waiting import until

pytestmark = pytest.mark.docker

KILL_LOOP = """
import os, pathlib
for process in pathlib.Path("/proc").glob("[0-9]*"):
    if (process / "comm").read_text().strip() == "delayqueue":
        os.kill(int(process.name), 9)
"""
KILL_SERVER = """
import os
[server] = open("/proc/1/task/1/children").read().split()
os.kill(int(server), 9)
"""
"""The process that answers: PID 1 starts it again."""


@dataclass
class Pair:
    """Both agents of the shared stack."""

    live: LiveStack
    docker: Any
    primary: BridgedAgent
    replica: BridgedAgent

    async def shape(self, shape: Shape) -> None:
        """At both ends of the link; what was measured before is forgotten."""
        for agent, peer in ((self.primary, "db2"), (self.replica, "db1")):
            await agent.set_link(peer, await self.address(peer), shape)
        await self.primary.link("db2", anew=True)

    async def round_trip(self, rtt_ms: float) -> None:
        """Ask for it, half on each side and the base subtracted, and wait until the probes say so."""
        base_ms = (await self.link(lambda link: link.base_ms is not None)).base_ms or 0.0
        await self.shape(Shape(max(0.0, rtt_ms - base_ms) / 2))
        await self.link(lambda link: link.probes >= 8 and abs((link.measured_ms or math.inf) - rtt_ms) <= 2)

    async def link(self, holds: Callable[[LinkState], object]) -> LinkState:
        return await until(lambda: self.primary.link("db2"), holds=holds, within_s=30)

    async def address(self, node: str) -> str:
        return (await self.live.node(node)).address or ""

    def run(self, node: str, *command: str) -> str:
        """In the node's sidecar."""
        sidecar = ids(self.docker, self.live.stack.name)[node, "sidecar"]
        made = self.docker.exec_create(sidecar, list(command))
        output = self.docker.exec_start(made["Id"]).decode()
        assert self.docker.exec_inspect(made["Id"])["ExitCode"] == 0, output
        return str(output)


@pytest.fixture
async def pair(live_stack: LiveStack, docker_client: Any) -> AsyncIterator[Pair]:
    primary, replica = (BridgedAgent(node, live_stack.stack.open_bridge) for node in ("db1", "db2"))
    both = Pair(live_stack, docker_client, primary, replica)
    try:
        await primary.watch("db2", await both.address("db2"))
        yield both
        await both.shape(Shape())
    finally:
        await primary.close()
        await replica.close()


async def test_what_is_asked_is_measured_and_zero_takes_all_rules_away(pair: Pair) -> None:
    # The least of the last bare probes: on a busy machine it takes some until one was not delayed.
    link = await pair.link(lambda link: (link.base_ms or 99) < 2)
    assert link.backend in ("netem", "nfqueue")
    assert link.backend == "netem" or "no netem" in link.backend_reason
    await pair.round_trip(85)
    await pair.shape(Shape(loss_percent=30))
    await pair.link(lambda link: link.lost >= 3 and link.probes >= 3)
    await pair.shape(Shape())
    link = await pair.link(lambda link: (link.measured_ms or math.inf) < 5)
    assert link.shape.delay_ms == link.dropped == link.lost == 0
    for node in ("db1", "db2"):
        assert "NFQUEUE" not in pair.run(node, "iptables-nft", "-t", "mangle", "-S")
        assert "netem" not in pair.run(node, "tc", "qdisc", "show", "dev", "eth0")


async def test_others_than_the_peer_are_not_delayed(pair: Pair) -> None:
    probe = load("probe")
    await pair.round_trip(200)
    there, times_ms = (await pair.address("db1"), probe.PORT), []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(2)
        for number in range(9):
            began_s = time.monotonic()
            client.sendto(probe.LAYOUT.pack(b"RXP1", 0, number, 1, 0, 0, 0, 0), there)
            client.recv(256)
            times_ms.append((time.monotonic() - began_s) * 1000)
    assert statistics.median(times_ms) < 90, "each side would hold it for 100 ms"
    health = await pair.primary.health()
    assert not health.packets.get("strangers")
    assert health.packets["packets"] > 0
    assert health.volumes["tools"].free_bytes > 0


async def test_what_is_killed_in_a_sidecar_is_started_again(pair: Pair) -> None:
    """The packet loop fails open and gets its queues back; the server that answers comes without a rule."""
    await pair.round_trip(60)
    if (await pair.primary.link("db2")).backend == "nfqueue":
        pair.run("db1", "python3", "-c", KILL_LOOP)
        await pair.shape((await pair.primary.link("db2")).shape)
        await pair.link(lambda link: link.probes >= 5 and abs((link.measured_ms or math.inf) - 60) <= 2)
    pair.run("db1", "python3", "-c", KILL_SERVER)
    assert (await pair.link(lambda link: link.backend is not None)).shape == Shape()
    await pair.shape(Shape())
    await pair.primary.watch("db2", await pair.address("db2"))
    await pair.round_trip(60)


async def test_a_sidecar_that_may_not_shape_packets_says_why_and_refuses(
    live_stack: LiveStack, docker_client: Any
) -> None:
    """Without NET_ADMIN neither netem nor iptables work; what is not asked of them still does."""
    sidecar = docker_client.inspect_container(ids(docker_client, live_stack.stack.name)["db1", "sidecar"])
    made = docker_client.create_container(
        sidecar["Image"],
        name=f"{PREFIX}-bare",
        environment={"RX_NODE": "bare"},
        volumes=["/var/lib/replexplorer/tools"],
        host_config=docker_client.create_host_config(cap_drop=["ALL"]),
    )

    async def open_bridge(node: str) -> Bridge:
        return await DockerBridge.start(Exec.create(docker_client, made["Id"], BRIDGE_COMMAND), node)

    agent = BridgedAgent("bare", open_bridge)
    try:
        docker_client.start(made)
        link = await agent.link("db1")
        assert link.backend is None
        assert "no NET_ADMIN" in link.backend_reason or "no netem" in link.backend_reason
        assert "no NFQUEUE either" in link.backend_reason
        with pytest.raises(MissingPiece, match="the sidecar of bare cannot do that"):
            await agent.set_link("db1", "10.9.8.7", Shape(5))
        assert (await agent.link("db1")).shape == Shape()
    finally:
        await agent.close()
        docker_client.remove_container(made, force=True, v=True)
