"""The agent in two real sidecars on a private network: delays, probes, document, lease, takeover."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import socket
import statistics
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import docker
import pytest

from replexplorer.adapters.agent import BridgedAgent
from replexplorer.adapters.docker import images
from replexplorer.adapters.docker.execs import BRIDGE_COMMAND, DockerBridge, Exec
from replexplorer.core.errors import MissingPiece
from replexplorer.core.wire import LinkState, Shape
from replexplorer.ports import Bridge
from tests.sidecar import DIRECTORY, load
from tests.waiting import until

pytestmark = pytest.mark.docker

LABELS = {"dev.replexplorer.stack": f"itest-agent-{os.getpid()}"}
TOOLS = "/var/lib/replexplorer/tools"
LISTEN = """
import socket, time
listener = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
listener.setsockopt(socket.SOL_SOCKET, 33, 16 << 20)  # SO_RCVBUFFORCE: what waits to be read is not lost
listener.bind(("0.0.0.0", 5556))
listener.settimeout(3)
came, heard = 0, False
try:
    while True:
        number = int.from_bytes(listener.recv(65536)[:4], "big")
        if not heard:
            heard = True
            listener.settimeout(1)
        came += number > 0
except TimeoutError:
    pass
print(came)
"""
"""Number 0 says that the talker is there."""
TALK = """
import socket, sys, time
host, count, rate = sys.argv[1], *map(int, sys.argv[2:])
talker = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
talker.connect((host, 5556))
for _ in range(20):
    try:
        talker.send(bytes(4))
    except OSError:
        pass  # nobody listens yet
    time.sleep(0.02)
begin = time.monotonic()
for number in range(1, count + 1):
    while time.monotonic() < begin + number / rate:
        time.sleep(0.0005)
    talker.send(number.to_bytes(4, "big") + bytes(60))
"""

KILL_LOOP = """
import os, pathlib
for process in pathlib.Path("/proc").glob("[0-9]*"):
    if (process / "comm").read_text().strip() == "delayqueue":
        os.kill(int(process.name), 9)
"""


@dataclass
class Pair:
    """Two sidecars and bridges to them."""

    client: Any
    containers: dict[str, Any]
    bridges: list[DockerBridge] = field(default_factory=list)

    def address(self, node: str) -> str:
        self.containers[node].reload()
        [network] = self.containers[node].attrs["NetworkSettings"]["Networks"].values()
        return str(network["IPAddress"])

    async def open_bridge(self, node: str) -> Bridge:
        api = self.client.api
        made = await asyncio.to_thread(
            api.exec_create, self.containers[node].id, list(BRIDGE_COMMAND), stdin=True
        )
        bridge = await DockerBridge.start(Exec(api._custom_adapter.socket_path, made["Id"]), node)
        self.bridges.append(bridge)
        return bridge

    @contextlib.asynccontextmanager
    async def agents(self) -> AsyncIterator[tuple[BridgedAgent, BridgedAgent]]:
        primary, replica = (
            BridgedAgent("db1", self.open_bridge),
            BridgedAgent("db2", self.open_bridge),
        )
        try:
            await primary.watch("db2", self.address("db2"))
            yield primary, replica
            for agent, peer in ((primary, "db2"), (replica, "db1")):
                await agent.set_link(peer, self.address(peer), Shape())
        finally:
            await primary.close()
            await replica.close()

    async def shape(self, primary: BridgedAgent, replica: BridgedAgent, *shapes: Shape) -> None:
        """The first for the primary's side of the link, the last for the replica's."""
        await primary.set_link("db2", self.address("db2"), shapes[0])
        await replica.set_link("db1", self.address("db1"), shapes[-1])
        await primary.link("db2", anew=True)

    async def stream(self, count: int, rate: int) -> int:
        """How many datagrams from the primary arrived at the replica."""
        receiving = asyncio.create_task(asyncio.to_thread(self.run, "db2", "python3", "-c", LISTEN))
        await asyncio.to_thread(
            self.run,
            "db1",
            "python3",
            "-c",
            TALK,
            self.address("db2"),
            *map(str, (count, rate)),
        )
        return int(await receiving)

    def run(self, node: str, *command: str) -> str:
        status, output = self.containers[node].exec_run(list(command))
        assert status == 0, output
        return str(output.decode())


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    image = images.ensure([images.SIDECAR], DIRECTORY.parent, lambda *_: None)["sidecar"]
    client = docker.from_env(version="auto")
    network = client.networks.create(f"rx-{LABELS['dev.replexplorer.stack']}", labels=LABELS)
    tools = client.volumes.create(labels=LABELS)
    containers: dict[str, Any] = {}
    try:
        for node in ("db1", "db2"):
            containers[node] = client.containers.run(
                image,
                detach=True,
                network=network.name,
                labels=LABELS,
                environment={"RX_NODE": node},
                cap_drop=["ALL"],
                cap_add=["NET_ADMIN"],
                security_opt=["no-new-privileges:true"],
                volumes=[f"{tools.name}:{TOOLS}"],
            )
        yield Pair(client, containers)
    finally:
        for container in containers.values():
            container.remove(force=True, v=True)
        network.remove()
        tools.remove()
        client.close()


async def set_rtt(pair: Pair, primary: BridgedAgent, replica: BridgedAgent, rtt_ms: float) -> LinkState:
    """Half on each side, base subtracted; then wait for a full window."""
    base_ms = (await primary.link("db2")).base_ms
    assert base_ms is not None
    delay_ms = max(0.0, rtt_ms - base_ms) / 2
    await pair.shape(primary, replica, Shape(delay_ms))
    return await until(lambda: primary.link("db2"), holds=lambda link: link.probes >= 8)


async def is_measured(primary: BridgedAgent, rtt_ms: float, within_ms: float) -> None:
    """Wait until the probes say what was asked."""
    await until(
        lambda: primary.link("db2"),
        holds=lambda link: abs((link.measured_ms or math.inf) - rtt_ms) <= within_ms,
    )


async def test_asked_is_measured_and_zero_takes_all_rules_away(pair: Pair) -> None:
    async with pair.agents() as (primary, replica):
        # The least of the last bare probes: on a busy machine it takes some until one was not delayed.
        link = await until(
            lambda: primary.link("db2"),
            holds=lambda link: (link.base_ms or 99) < 2,
            within_s=30,
        )
        assert link.backend in ("netem", "nfqueue")
        assert link.backend == "netem" or "no netem" in link.backend_reason
        for rtt_ms in (85.0, 5.0):
            await set_rtt(pair, primary, replica, rtt_ms)
            await is_measured(primary, rtt_ms, 1.7)
        link = await set_rtt(pair, primary, replica, 0)
        assert link.shape.delay_ms == 0
        await until(lambda: primary.link("db2"), holds=lambda link: (link.measured_ms or math.inf) < 5)
        assert link.dropped == link.lost == 0
        for node in ("db1", "db2"):
            assert "NFQUEUE" not in pair.run(node, "iptables-nft", "-t", "mangle", "-S")
            assert "netem" not in pair.run(node, "tc", "qdisc", "show", "dev", "eth0")


async def test_others_than_the_peer_are_not_delayed(pair: Pair) -> None:
    probe = load("probe")
    async with pair.agents() as (primary, replica):
        await set_rtt(pair, primary, replica, 200)
        times_ms = []
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(2)
            for number in range(9):
                started_s = time.monotonic()
                client.sendto(
                    probe.LAYOUT.pack(b"RXP1", 0, number, 1, 0, 0, 0, 0), (pair.address("db1"), probe.PORT)
                )
                client.recv(256)
                times_ms.append((time.monotonic() - started_s) * 1000)
        assert statistics.median(times_ms) < 90, "each side would hold it for 100 ms"
        health = await primary.health()
        assert not health.packets.get("strangers")
        assert health.packets["packets"] > 0
        assert health.volumes["tools"].free_bytes > 0


async def test_packets_are_lost_as_asked_and_not_otherwise(pair: Pair) -> None:
    async with pair.agents() as (primary, replica):
        await pair.shape(primary, replica, Shape(loss_percent=10))
        arrived = await pair.stream(2000, 4000)
        # 5 standard deviations of a binomial: it fails once in two million runs.
        assert abs(2000 - arrived - 200) < 5 * math.sqrt(2000 * 0.1 * 0.9)
        link = await until(lambda: primary.link("db2"), holds=lambda link: link.lost > 0, within_s=60)
        assert link.shape.loss_percent == 10
        health = [await agent.health() for agent in (primary, replica)]
        assert sum(one.packets["lost"] for one in health) >= 100
        assert sum(one.packets["dropped"] for one in health) == 0
        await pair.shape(primary, replica, Shape())
        assert await pair.stream(500, 4000) == 500


@pytest.mark.parametrize(("cut_to_replica", "cut_to_primary"), [(True, False), (False, True), (True, True)])
async def test_a_partition_cuts_the_asked_direction_and_only_that(
    pair: Pair, cut_to_replica: bool, cut_to_primary: bool
) -> None:
    async with pair.agents() as (primary, replica):
        holds = (await primary.link("db2")).holds
        of_primary, of_replica = Shape(cut=cut_to_replica), Shape(cut=cut_to_primary)
        if holds == "received":
            of_primary, of_replica = of_replica, of_primary
        await pair.shape(primary, replica, of_primary, of_replica)
        assert await pair.stream(50, 1000) == (0 if cut_to_replica else 50)
        link = await until(lambda: primary.link("db2"), holds=lambda link: link.lost >= 2)
        assert link.measured_ms is None
        await pair.shape(primary, replica, Shape())
        assert (await until(lambda: primary.link("db2"), holds=lambda link: link.probes >= 3)).lost == 0


async def test_a_killed_packet_loop_fails_open_and_takes_its_queues_back(pair: Pair) -> None:
    async with pair.agents() as (primary, replica):
        if (await primary.link("db2")).backend != "nfqueue":
            pytest.skip("the kernel holds the packets here")
        await set_rtt(pair, primary, replica, 60)
        pair.run("db1", "python3", "-c", KILL_LOOP)
        await pair.shape(primary, replica, (await primary.link("db2")).shape)
        await until(lambda: primary.link("db2"), holds=lambda link: link.probes >= 5)
        await is_measured(primary, 60, 2)


async def test_the_lease_dies_with_its_bridge(pair: Pair) -> None:
    async with pair.agents() as (primary, _):
        other = BridgedAgent("db1", pair.open_bridge)
        try:
            assert await primary.take_lease("tui") is None
            holder = await other.take_lease("load", load={"clients": 9})
            assert holder is not None
            assert (holder.holder, holder.pid, holder.load) == ("tui", os.getpid(), None)
            running: dict[str, int | float | str] = {"clients": 3, "rate": 2.5, "workload": "insert"}
            assert await primary.take_lease("tui", load=running, selected="rtt@db2") is None
            assert (await other.lease()) == replace(holder, load=running, selected="rtt@db2")
            *earlier, _other = pair.bridges
            for bridge in earlier:
                bridge._writer.transport.abort()
            await until(other.lease, holds=lambda lease: lease is None)
            assert await other.take_lease("load") is None
        finally:
            await other.close()


async def test_a_crashed_server_is_started_again_without_a_rule(pair: Pair) -> None:
    async with pair.agents() as (primary, replica):
        await set_rtt(pair, primary, replica, 60)
        find = "import os;print(*open('/proc/1/task/1/children').read().split())"
        [server] = pair.run("db1", "python3", "-c", find).split()
        pair.run("db1", "python3", "-c", f"import os;os.kill({server}, 9)")
        link = await until(lambda: primary.link("db2"), holds=lambda link: link.backend is not None)
        assert link.shape == Shape()
        await pair.shape(primary, replica, Shape())
        await primary.watch("db2", pair.address("db2"))
        await set_rtt(pair, primary, replica, 60)
        await is_measured(primary, 60, 2)


async def test_a_sidecar_that_may_not_shape_packets_says_why_and_refuses(pair: Pair) -> None:
    """Without NET_ADMIN neither netem nor iptables work; what is not asked of them still does."""
    image = pair.containers["db1"].image.id
    container = pair.client.containers.run(
        image,
        detach=True,
        labels=LABELS,
        environment={"RX_NODE": "bare"},
        cap_drop=["ALL"],
        volumes=[TOOLS],
    )
    pair.containers["bare"] = container
    agent = BridgedAgent("bare", pair.open_bridge)
    try:
        link = await agent.link("db1")
        assert link.backend is None
        assert "no NET_ADMIN" in link.backend_reason or "no netem" in link.backend_reason
        assert "no NFQUEUE either" in link.backend_reason
        with pytest.raises(MissingPiece, match="the sidecar of bare cannot do that"):
            await agent.set_link("db1", "10.9.8.7", Shape(5))
        assert (await agent.link("db1")).shape == Shape()
    finally:
        await agent.close()
        del pair.containers["bare"]
        container.remove(force=True, v=True)


async def test_the_document_outlives_the_sidecar(pair: Pair) -> None:
    agent = BridgedAgent("db1", pair.open_bridge)
    other = BridgedAgent("db1", pair.open_bridge)
    try:
        before = await agent.document()
        assert await agent.write_document(before.version, {"rtt@db2": 85}) is not None
        assert await other.write_document(before.version, {"rtt@db2": 1}) is None
        pair.containers["db1"].kill()
        pair.containers["db1"].start()
        after = await agent.document()
        assert (after.version, after.content) == (before.version + 1, {"rtt@db2": 85})
    finally:
        await agent.close()
        await other.close()


def test_an_agent_that_is_told_to_stop_ends_at_once(pair: Pair) -> None:
    container = pair.containers["db2"]
    container.kill(signal="SIGTERM")
    assert container.wait(timeout=60)["StatusCode"] == 0
    container.start()
