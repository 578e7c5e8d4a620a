"""Long-lived `docker exec`s: lines to a node's agent, a connection to its server, a host's clocks.

The SDK makes the exec; its stream is taken over a connection of our own, because the SDK's
socket blocks and hides what its HTTP reader has already swallowed. Nothing of another host but its daemon has
to be reached: no port is opened besides the one on its loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.records import dataclass, frozen

BRIDGE_COMMAND: Final = ("python3", "-I", "-S", "/opt/replexplorer/agent.py", "bridge")
"""What runs in the sidecar: the agent's socket on stdin and stdout. It needs no installed package, and looks
for none."""

STDOUT: Final = 1
"""The stream's number in the daemon's frames."""
_START_TIMEOUT_S: Final = 10.0


@frozen
class Exec:
    """An exec that a daemon was asked for and that is not started yet."""

    daemon: str
    """Where the daemon listens: the path of its socket, or `http://HOST:PORT`."""
    id: str

    @classmethod
    def create(cls, client: Any, container: str, command: Sequence[str], **options: Any) -> Exec:
        """Ask for one with its three streams, in a container of this client's daemon."""
        made = client.exec_create(container, list(command), stdin=True, stdout=True, stderr=True, **options)
        adapter = getattr(client, "_custom_adapter", None)
        return cls(adapter.socket_path if adapter is not None else client.base_url, made["Id"])

    async def start(self, whose: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Start it and take its stream, whose answers are `frames`; raises StackUnavailable naming whose
        it is."""
        body = json.dumps({"Detach": False, "Tty": False})
        request = (
            f"POST /exec/{self.id}/start HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        )
        writer = None
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                if self.daemon.startswith("/"):
                    reader, writer = await asyncio.open_unix_connection(self.daemon)
                else:
                    place = urlsplit(self.daemon)
                    reader, writer = await asyncio.open_connection(place.hostname, place.port)
                writer.write(request.encode())
                head = await reader.readuntil(b"\r\n\r\n")
            if head.split(b" ", 2)[1] not in (b"101", b"200"):
                raise StackUnavailable(f"{whose} does not accept commands", "run `replexplorer up`")
        except BaseException as error:
            if writer is not None:
                writer.close()
            if isinstance(error, OSError | asyncio.IncompleteReadError | TimeoutError):
                raise StackUnavailable(f"no answer from {whose}", "run `replexplorer up`") from None
            raise
        return reader, writer


async def frames(reader: asyncio.StreamReader) -> AsyncIterator[tuple[int, bytes]]:
    """What the process wrote, with the number of the stream (1: stdout, 2: stderr), until it ends."""
    while True:
        try:
            head = await reader.readexactly(8)
            content = await reader.readexactly(int.from_bytes(head[4:], "big"))
        except (asyncio.IncompleteReadError, OSError):
            return
        yield head[0], content


@dataclass(eq=False)
class DockerBridge:
    """`ports.Bridge` over one exec; its process ends with its stdin."""

    pid = 0
    """It is not a process of this machine."""

    _reader: asyncio.StreamReader
    _writer: asyncio.StreamWriter
    _whose: str
    complaint: str = ""
    """The last line that the process wrote to stderr."""

    @classmethod
    async def start(cls, started: Exec, whose: str) -> DockerBridge:
        """Start an exec that was created and take its stream; raises StackUnavailable."""
        return cls(*await started.start(whose), whose)

    def send(self, line: str) -> None:
        """Write one line; raises StackUnavailable when the other side has ended."""
        if self._writer.is_closing():
            raise StackUnavailable(f"{self._whose} is gone", "run `replexplorer up`")
        self._writer.write(line.encode() + b"\n")

    async def lines(self) -> AsyncIterator[str]:
        """Lines of the process's stdout until it ends; the daemon frames what it wrote."""
        rest = b""
        async for stream, content in frames(self._reader):
            if stream != STDOUT:
                self.complaint = (
                    content.decode(errors="replace").strip().rpartition("\n")[2] or self.complaint
                )
                continue
            *whole, rest = (rest + content).split(b"\n")
            for line in whole:
                yield line.decode(errors="replace")

    def end_input(self) -> None:
        """End the process's stdin; harmless when repeated."""
        with contextlib.suppress(OSError, RuntimeError):
            if self._writer.can_write_eof() and not self._writer.is_closing():
                self._writer.write_eof()

    async def close(self) -> None:
        """End the process's stdin and let go of the stream; harmless when repeated."""
        self.end_input()
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


_RELAY: Final = """
import os, socket, sys, threading
s = socket.create_connection((os.environ["RX_NODE"], int(sys.argv[1])), 3)
s.settimeout(None)
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
def up():
    while content := os.read(0, 65536):
        s.sendall(content)
    s.shutdown(socket.SHUT_WR)
threading.Thread(target=up, daemon=True).start()
while content := s.recv(65536):
    while content:
        content = content[os.write(1, content):]
"""


def relay_command(port: int) -> tuple[str, ...]:
    """Runs in a sidecar: its stdin and stdout are a connection to this port of the node, by the address that
    the node has for others, so that its server's accounts are the same."""
    return ("python3", "-I", "-S", "-c", _RELAY, str(port))


_CLOCK: Final = """
import sys, time
for line in sys.stdin:
    print(time.time(), time.monotonic(), flush=True)
"""
CLOCK_COMMAND: Final = ("python3", "-I", "-S", "-c", _CLOCK)
"""Runs in a sidecar: answers each line with its clocks."""

_ASKED: Final = 8
_CHUNK_BYTES: Final = 1 << 16

_pumps: set[asyncio.Task[None]] = set()


@frozen
class ClockDifference:
    """Another host's clocks against this one's, by the shortest of some round trips."""

    ahead_ms: float
    """How far its time of day is ahead of ours."""
    within_ms: float
    """Half of that round trip: so far off may it be."""
    monotonic_s: float
    """Its monotonic clock less ours."""


async def clock(started: Exec, host: str) -> ClockDifference:
    """Ask a host's clocks some times; raises StackUnavailable."""
    bridge = await DockerBridge.start(started, f"a sidecar on {host}")
    answers, found = bridge.lines(), list[ClockDifference]()
    try:
        for _ in range(_ASKED):
            asked_s = time.monotonic()
            bridge.send("")
            wall_s, monotonic_s = map(float, (await anext(answers)).split())
            answered_s, here_s = time.monotonic(), time.time()
            half_s = (answered_s - asked_s) / 2  # what it said was so in the middle
            found.append(
                ClockDifference(
                    (wall_s - (here_s - half_s)) * 1000, half_s * 1000, monotonic_s - (answered_s - half_s)
                )
            )
    except (StopAsyncIteration, StackUnavailable, ValueError):
        pass
    finally:
        await bridge.close()
    if not found:
        raise StackUnavailable(f"no clock answers on {host}", "run `replexplorer up`")
    return min(found, key=lambda each: each.within_ms)


async def dial(started: Exec, node: str) -> socket.socket:
    """The near end of a connection to a node's server; raises StackUnavailable. Both ends close together."""
    reader, writer = await started.start(f"the sidecar of {node}")
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
    pump = asyncio.create_task(_pump(reader, writer, ours), name=f"tunnel to {node}")
    _pumps.add(pump)
    pump.add_done_callback(_pumps.discard)
    return theirs


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, end: socket.socket) -> None:
    """Carry bytes both ways until either side closes."""
    loop = asyncio.get_running_loop()

    async def there() -> None:
        while content := await loop.sock_recv(end, _CHUNK_BYTES):
            writer.write(content)
            await writer.drain()

    async def back() -> None:
        async for stream, content in frames(reader):
            if stream == STDOUT:
                await loop.sock_sendall(end, content)

    tasks = [asyncio.create_task(way()) for way in (there, back)]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        writer.close()
        end.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
