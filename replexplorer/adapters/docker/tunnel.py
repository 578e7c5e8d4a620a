"""Ways into the network of a node on another host, each through an exec in its sidecar.

Nothing of the host but its daemon has to be reached: no port is opened beside the one on its loopback.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Final

from replexplorer.adapters.docker.bridge import STDOUT, Exec, frames
from replexplorer.core.errors import StackUnavailable

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


@dataclass(frozen=True, slots=True)
class ClockDifference:
    """Another host's clocks against this one's, by the shortest of some round trips."""

    ahead_ms: float
    """How far its time of day is ahead of ours."""
    within_ms: float
    """Half of that round trip: so far off may it be."""
    monotonic_s: float
    """Its monotonic clock less ours."""


def clock_of(
    asked_s: float, answered_s: float, wall_s: float, theirs: tuple[float, float]
) -> ClockDifference:
    """What one answer says: asked and answered on our monotonic clock, our time of day when it came, and the
    two clocks of the host in between."""
    half_s = (answered_s - asked_s) / 2
    return ClockDifference(
        (theirs[0] - (wall_s - half_s)) * 1000, half_s * 1000, theirs[1] - (answered_s - half_s)
    )


async def clock(started: Exec, host: str) -> ClockDifference:
    """Ask a host's clocks some times; raises StackUnavailable."""
    reader, writer = await started.start(f"a sidecar on {host}")
    found: list[ClockDifference] = []
    try:
        answers = _lines(reader)
        for _ in range(_ASKED):
            asked_s = time.monotonic()
            writer.write(b"\n")
            line = await anext(answers, None)
            answered_s, wall_s = time.monotonic(), time.time()
            if line is None:
                break
            wall, monotonic = line.split()
            found.append(clock_of(asked_s, answered_s, wall_s, (float(wall), float(monotonic))))
    except (OSError, ValueError):
        pass
    finally:
        writer.close()
    if not found:
        raise StackUnavailable(f"no clock answers on {host}", "replexplorer up")
    return min(found, key=lambda each: each.within_ms)


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    rest = b""
    async for stream, content in frames(reader):
        if stream == STDOUT:
            *whole, rest = (rest + content).split(b"\n")
            for line in whole:
                yield line


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
