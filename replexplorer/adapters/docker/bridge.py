"""A long-lived `docker exec` as lines of text in both directions.

The SDK makes the exec; its stream is taken over a connection of our own, because the SDK's
socket blocks and hides what its HTTP reader has already swallowed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Final

from replexplorer.core.errors import StackUnavailable

BRIDGE_COMMAND: Final = ("python3", "/opt/replexplorer/agent.py", "bridge")
"""What runs in the sidecar: the agent's socket on stdin and stdout."""

_STDOUT: Final = 1
_START_TIMEOUT_S: Final = 10.0


class DockerBridge:
    """`ports.Bridge` over one exec."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, node: str) -> None:
        self._reader = reader
        self._writer = writer
        self._node = node
        self.complaint = ""
        """The last line that the process wrote to stderr."""

    @classmethod
    async def start(cls, socket_path: str, exec_id: str, node: str) -> DockerBridge:
        """Start an exec that was created and take its stream; raises StackUnavailable."""
        body = json.dumps({"Detach": False, "Tty": False})
        request = (
            f"POST /exec/{exec_id}/start HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        )
        writer = None
        try:
            async with asyncio.timeout(_START_TIMEOUT_S):
                reader, writer = await asyncio.open_unix_connection(socket_path)
                writer.write(request.encode())
                head = await reader.readuntil(b"\r\n\r\n")
            status = head.split(b" ", 2)[1]
            if status not in (b"101", b"200"):
                raise StackUnavailable(f"the sidecar of {node} takes no command", "replexplorer up")
        except BaseException as error:
            if writer is not None:
                writer.close()
            if isinstance(error, OSError | asyncio.IncompleteReadError | TimeoutError):
                raise StackUnavailable(f"no answer from the sidecar of {node}", "replexplorer up") from None
            raise
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
        while True:
            try:
                head = await self._reader.readexactly(8)
                content = await self._reader.readexactly(int.from_bytes(head[4:], "big"))
            except (asyncio.IncompleteReadError, OSError):
                return
            if head[0] != _STDOUT:
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
