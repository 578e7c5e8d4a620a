"""What the scenario is made of: the guest's network, agents in it, and packets of a third party's.

    primary (10.77.0.2) --+
    replica (10.77.0.3) --+-- bridge        each node's end of its veth pair is its eth0
    client  (10.77.0.4) --+
    spare   (10.77.0.5) --+

An agent gets the capability that the sidecar's container has and no other. The observer has sockets in
the namespaces of both ends of a packet's way, and one clock for both.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import importlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ADDRESSES = {"primary": "10.77.0.2", "replica": "10.77.0.3", "client": "10.77.0.4", "spare": "10.77.0.5"}
NODES = Path("/nodes")
"""Directories that stand for each sidecar's /run/replexplorer."""
AGENT = "/opt/replexplorer"
"""Where the image has the agent."""
HEADERS_BYTES = 14 + 20 + 8
"""In front of a datagram's payload, as a queueing discipline counts a packet."""
_CLONE_NEWNET = 0x40000000
_SO_TIMESTAMPNS, _SO_RCVBUFFORCE = 35, 33

Fields = dict[str, Any]


def protocol_version() -> int:
    """What the image's own agent speaks: links are looked at here, not versions."""
    sys.path.append(AGENT)
    version: int = importlib.import_module("replexplorer.core.wire").PROTOCOL_VERSION
    return version


def run(*argv: str) -> str:
    """Run a tool that has to succeed."""
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr or done.stdout}")
    return done.stdout


def inside(node: str, *argv: str) -> str:
    """Run a tool in a node's namespace."""
    return run("ip", "netns", "exec", node, *argv)


def build_network() -> None:
    """A bridge, and a namespace on it for each node."""
    run("ip", "link", "add", "br0", "type", "bridge", "stp_state", "0", "forward_delay", "0")
    run("ip", "link", "set", "br0", "up")
    for node in ADDRESSES:
        run("ip", "netns", "add", node)
        inside(node, "ip", "link", "set", "lo", "up")
        connect(node)


def connect(node: str) -> None:
    """Give a node its eth0."""
    run("ip", "link", "add", f"to-{node}", "type", "veth", "peer", "name", "eth0", "netns", node)
    run("ip", "link", "set", f"to-{node}", "master", "br0", "up")
    inside(node, "ip", "link", "set", "eth0", "up")
    inside(node, "ip", "address", "add", f"{ADDRESSES[node]}/24", "dev", "eth0")


@contextlib.contextmanager
def namespace(node: str) -> Iterator[None]:
    """Sockets made meanwhile are in the node's namespace."""
    setns = ctypes.CDLL(None, use_errno=True).setns
    with open("/proc/self/ns/net") as home, open(f"/run/netns/{node}") as there:
        if setns(there.fileno(), _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "setns")
        try:
            yield
        finally:
            setns(home.fileno(), _CLONE_NEWNET)


def disciplines(node: str) -> list[Fields]:
    """The queueing disciplines of a node's interface, with their counters."""
    rows: list[Fields] = json.loads(inside(node, "tc", "-s", "-j", "qdisc", "show", "dev", "eth0"))
    return rows


def kinds(node: str) -> list[str]:
    """Their names; `noqueue` alone is an interface without any."""
    return sorted(row["kind"] for row in disciplines(node))


def band_packets(node: str) -> int:
    """How many packets took a band of ours."""
    return sum(row["packets"] for row in disciplines(node) if row["kind"] == "netem")


def filters(node: str) -> int:
    """How many filters send packets into a band of ours."""
    return inside(node, "tc", "filter", "show", "dev", "eth0").count("flowid 1:")


def retransmitted(node: str) -> int:
    """TCP segments that a node sent again, ever."""
    names, values = (
        line.split() for line in inside(node, "cat", "/proc/net/snmp").splitlines() if line.startswith("Tcp:")
    )
    return int(values[names.index("RetransSegs")])


class Agent:
    """An agent's processes, and a connection to it."""

    def __init__(self, node: str, process: asyncio.subprocess.Process) -> None:
        self.node = node
        self._process = process
        self._number = 0
        self._path = str(NODES / node / "agent.sock")
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    @classmethod
    async def start(cls, node: str, capabilities: str = "+net_admin") -> Agent:
        """Start it as a sidecar does: PID 1 of its own namespaces."""
        state = NODES / node
        state.mkdir(parents=True, exist_ok=True)
        for file in state.iterdir():
            file.unlink()
        script = (
            f"mount --bind {state} /run/replexplorer && mount -t tmpfs data /var/lib/replexplorer/tools"
            f" && exec setpriv --bounding-set={','.join(filter(None, ('-all', capabilities)))} --no-new-privs"
            f" python3 {AGENT}/agent.py serve"
        )
        process = await asyncio.create_subprocess_exec(
            "ip", "netns", "exec", node,
            "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", script,
            env={**os.environ, "RX_NODE": "primary" if node == "primary" else "replica"}, stdout=sys.stderr,
        )  # fmt: skip
        agent = cls(node, process)
        await agent.connect()
        return agent

    async def connect(self, seconds: float = 20.0) -> None:
        """Connect, when it answers, and say hello."""
        ends_s = time.monotonic() + seconds
        while True:
            try:
                self._streams = await asyncio.open_unix_connection(self._path, limit=1 << 20)
                break
            except OSError:
                if time.monotonic() > ends_s:
                    raise
                await asyncio.sleep(0.05)
        answer = await self.ask("hello", version=protocol_version(), token=f"guest {self.node}")
        assert "ok" in answer, answer

    async def ask(self, op: str, **fields: Any) -> Fields:
        """Ask, and answer the whole line."""
        assert self._streams is not None
        reader, writer = self._streams
        self._number += 1
        writer.write(json.dumps({"id": self._number, "op": op, **fields}).encode() + b"\n")
        answer: Fields = json.loads(await reader.readline())
        assert answer["id"] == self._number, answer
        return answer

    async def must(self, op: str, **fields: Any) -> Fields:
        """Ask what has to succeed."""
        answer = await self.ask(op, **fields)
        if "ok" not in answer:
            raise RuntimeError(f"{self.node}: {op}: {answer}")
        done: Fields = answer["ok"]
        return done

    async def try_set(self, peer: str, **fields: Any) -> Fields:
        """Shape our side of a link; what is not named is plain. Answers the whole line."""
        return await self.ask("set_link", peer=peer, address=ADDRESSES[peer], shape=fields)

    async def set(self, peer: str, **fields: Any) -> Fields:
        """The same, and it has to succeed."""
        return await self.must("set_link", peer=peer, address=ADDRESSES[peer], shape=fields)

    async def cost(self) -> Fields:
        """What all links carried since the agent started."""
        cost: Fields = (await self.must("health"))["packets"]
        return cost

    async def watch(self, peer: str) -> Fields:
        """Let it probe."""
        return await self.must("watch", peer=peer, address=ADDRESSES[peer])

    async def link(self, peer: str, *, anew: bool = False) -> Fields:
        """The link's state; `anew` forgets what was measured until now."""
        return await self.must("link", peer=peer, anew=anew)

    async def measured(self, peer: str, probes: int = 8) -> Fields:
        """The link's state when so many probes were answered since its last change."""
        ends_s = time.monotonic() + 30
        while (state := await self.link(peer))["probes"] < probes:
            assert time.monotonic() < ends_s, state
            await asyncio.sleep(0.2)
        return state

    def server_pid(self) -> int:
        """The process that answers; its parent is the PID 1 that starts it again."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(self._path)
            credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        return int(struct.unpack("3i", credentials)[0])

    def first_pid(self) -> int:
        """That PID 1, by the number that it has here."""
        stat = Path(f"/proc/{self.server_pid()}/stat").read_text()
        return int(stat.rpartition(")")[2].split()[1])

    async def stop(self) -> None:
        """End it as Docker does."""
        os.kill(self.first_pid(), signal.SIGTERM)
        await self._process.wait()


class Arrival(NamedTuple):
    """A datagram that came; times in ms since its stream began."""

    number: int
    sent_ms: float
    came_ms: float


class Observer:
    """Datagrams of our own between two nodes."""

    def __init__(self, here: str, there: str) -> None:
        self.ends = (_udp(here), _udp(there))

    def __enter__(self) -> Observer:
        return self

    def __exit__(self, *_: object) -> None:
        for sock in self.ends:
            sock.close()

    async def round_trips_ms(self, count: int, gap_s: float = 0.005) -> list[float]:
        """One after another, from the sending to the answer's stamp; the turn-round there is taken off."""
        near, far = self.ends
        times_ms = []
        for number in range(count):
            sent_ns = time.time_ns()
            near.sendto(number.to_bytes(8, "big"), far.getsockname())
            text, there_ns = await _next(far)
            back_ns = time.time_ns()
            far.sendto(text, near.getsockname())
            _, came_ns = await _next(near)
            times_ms.append((came_ns - back_ns + there_ns - sent_ns) / 1e6)
            await asyncio.sleep(gap_s)
        return times_ms

    async def stream(
        self,
        count: int,
        *,
        gap_ms: float = 1.0,
        burst: int = 1,
        bytes_each: int = 64,
        backwards: bool = False,
        silence_s: float = 0.5,
        meanwhile: Callable[[], Awaitable[None]] | None = None,
    ) -> list[Arrival]:
        """Send datagrams one way, some at a time; those that came, until none does for a while."""
        source, target = reversed(self.ends) if backwards else self.ends
        sent_ns: list[int] = []
        came: list[Arrival] = []
        start_ns = time.time_ns()

        def take() -> None:
            for text, stamp_ns in _waiting(target):
                number = int.from_bytes(text[:8], "big")
                came.append(Arrival(number, (sent_ns[number] - start_ns) / 1e6, (stamp_ns - start_ns) / 1e6))

        loop = asyncio.get_running_loop()
        loop.add_reader(target.fileno(), take)
        task = asyncio.ensure_future(meanwhile()) if meanwhile else None
        next_s = time.monotonic()
        try:
            while len(sent_ns) < count:
                for _ in range(burst):
                    number = len(sent_ns)
                    sent_ns.append(time.time_ns())
                    source.sendto(number.to_bytes(8, "big").ljust(bytes_each), target.getsockname())
                next_s += gap_ms / 1000
                await asyncio.sleep(max(0.0, next_s - time.monotonic()))
            if task:
                await task
            before = -1
            while before < len(came) < count:
                before = len(came)
                await asyncio.sleep(silence_s)
        finally:
            loop.remove_reader(target.fileno())
        return came


def _udp(node: str) -> socket.socket:
    """A socket whose packets the kernel stamps when they come."""
    with namespace(node):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
    sock.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, 8 << 20)
    sock.bind((ADDRESSES[node], 0))
    sock.setblocking(False)
    return sock


def _waiting(sock: socket.socket) -> Iterator[tuple[bytes, int]]:
    """What waits in a socket: payload and when it came, in ns since 1970."""
    while True:
        try:
            text, notes, _, _ = sock.recvmsg(2048, 64)
        except BlockingIOError:
            return
        [stamp] = [data for *kind, data in notes if kind == [socket.SOL_SOCKET, _SO_TIMESTAMPNS]]
        seconds, nanoseconds = struct.unpack("qq", stamp)
        yield text, seconds * 1_000_000_000 + nanoseconds


async def _next(sock: socket.socket) -> tuple[bytes, int]:
    """The one datagram that comes next."""
    readable = asyncio.Event()
    asyncio.get_running_loop().add_reader(sock.fileno(), readable.set)
    try:
        async with asyncio.timeout(10):
            await readable.wait()
    finally:
        asyncio.get_running_loop().remove_reader(sock.fileno())
    [datagram] = _waiting(sock)
    return datagram


async def tcp(count_bytes: int, *, chunk_bytes: int = 1 << 20, gap_ms: float = 0.0) -> tuple[float, bool]:
    """A stream from primary to replica: seconds from its first to its last byte, and whether it is whole."""
    with namespace("replica"):
        listener = socket.create_server((ADDRESSES["replica"], 5555))
    with namespace("primary"):
        source = socket.socket()
    text = bytes(range(251)) * (count_bytes // 251)
    loop = asyncio.get_running_loop()
    with listener, source:
        listener.setblocking(False)
        source.setblocking(False)
        await loop.sock_connect(source, listener.getsockname())
        target, _ = await loop.sock_accept(listener)

        async def send() -> None:
            for start in range(0, len(text), chunk_bytes):
                await loop.sock_sendall(source, text[start : start + chunk_bytes])
                await asyncio.sleep(gap_ms / 1000)

        with target:
            target.setblocking(False)
            sending = asyncio.create_task(send())
            came, first_s = bytearray(), 0.0
            while len(came) < len(text):
                came += await loop.sock_recv(target, 1 << 16)
                first_s = first_s or time.monotonic()
            seconds = time.monotonic() - first_s
            await sending
            return seconds, bytes(came) == text
