"""A driver's connection behind a plain socket: what crosses it is TLS, or a way that only the driver finds.

Bytes pass as they come, within this process; one more pair of system calls each way.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from typing import Any


class _Half(asyncio.Protocol):
    """Hands what one transport receives to the other, and closes that one when the first ends."""

    def __init__(self, to: asyncio.WriteTransport) -> None:
        self._to = to

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        self._to.write(data)

    def connection_lost(self, error: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._to.close()


async def near_end(connection: Any) -> socket.socket:
    """A socket that speaks to the server to which an asyncmy connection is logged in; whoever closes it ends
    that connection. The driver does not see it any more."""
    server: asyncio.Transport = connection._transport
    near, far = socket.socketpair()
    try:
        near.setblocking(False)
        loop = asyncio.get_running_loop()
        local, _ = await loop.create_unix_connection(lambda: _Half(server), sock=far)
    except BaseException:
        near.close()
        far.close()
        raise
    server.set_protocol(_Half(local))
    with contextlib.suppress(RuntimeError):  # asyncio's own refuses where nothing was paused
        server.resume_reading()
    if server.is_closing():  # whoever lost it told the driver
        local.close()
    return near
