"""A long-lived `docker exec` as lines of text in both directions.

The SDK makes the exec; its stream is taken over a connection of our own, because the SDK's
socket blocks and hides what its HTTP reader has already swallowed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from replexplorer.core.errors import StackUnavailable

BRIDGE_COMMAND: Final = ("python3", "/opt/replexplorer/agent.py", "bridge")
"""What runs in the sidecar: the agent's socket on stdin and stdout."""

STDOUT: Final = 1
"""The stream's number in the daemon's frames."""
_START_TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
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
                reader, writer = await self._connect()
                writer.write(request.encode())
                head = await reader.readuntil(b"\r\n\r\n")
            status = head.split(b" ", 2)[1]
            if status not in (b"101", b"200"):
                raise StackUnavailable(f"{whose} takes no command", "replexplorer up")
        except BaseException as error:
            if writer is not None:
                writer.close()
            if isinstance(error, OSError | asyncio.IncompleteReadError | TimeoutError):
                raise StackUnavailable(f"no answer from {whose}", "replexplorer up") from None
            raise
        return reader, writer

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.daemon.startswith("/"):
            return await asyncio.open_unix_connection(self.daemon)
        place = urlsplit(self.daemon)
        return await asyncio.open_connection(place.hostname, place.port)


async def frames(reader: asyncio.StreamReader) -> AsyncIterator[tuple[int, bytes]]:
    """What the process wrote, with the number of the stream (1: stdout, 2: stderr), until it ends."""
    while True:
        try:
            head = await reader.readexactly(8)
            content = await reader.readexactly(int.from_bytes(head[4:], "big"))
        except (asyncio.IncompleteReadError, OSError):
            return
        yield head[0], content


class DockerBridge:
    """`ports.Bridge` over one exec."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, node: str) -> None:
        self._reader = reader
        self._writer = writer
        self._node = node
        self.complaint = ""
        """The last line that the process wrote to stderr."""

    @classmethod
    async def start(cls, started: Exec, node: str) -> DockerBridge:
        """Start an exec that was created and take its stream; raises StackUnavailable."""
        reader, writer = await started.start(f"the sidecar of {node}")
        return cls(reader, writer, node)

    async def send(self, line: str) -> None:
        """Write one line; raises StackUnavailable when the other side has ended."""
        try:
            self._writer.write(line.encode() + b"\n")
            await self._writer.drain()
        except (OSError, RuntimeError):
            raise StackUnavailable(f"the agent of {self._node} is gone", "replexplorer up") from None

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

    async def close(self) -> None:
        """End the process's stdin and let go of the stream; harmless when repeated."""
        with contextlib.suppress(OSError, RuntimeError):
            if self._writer.can_write_eof() and not self._writer.is_closing():
                self._writer.write_eof()
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
