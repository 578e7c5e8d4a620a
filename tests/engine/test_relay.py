"""A driver's connection behind a plain socket: bytes pass both ways, and either end ends both."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from types import SimpleNamespace

from replexplorer.generator.relay import near_end


@dataclass
class Echo:
    """A server with one client at the other end of a relay."""

    near: socket.socket
    writer: asyncio.StreamWriter
    ended: asyncio.Event


@asynccontextmanager
async def echoing() -> AsyncIterator[Echo]:
    """A server that answers what it hears in capitals."""
    ended = asyncio.Event()
    met: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        met.set_result(writer)
        while heard := await reader.read(1 << 16):
            writer.write(heard.upper())
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    transport, _ = await asyncio.get_running_loop().create_connection(asyncio.Protocol, host, port)
    near = await near_end(SimpleNamespace(_transport=transport))
    try:
        yield Echo(near, await met, ended)
    finally:
        near.close()
        await asyncio.wait_for(ended.wait(), 10)
        server.close()
        await asyncio.sleep(0)  # transports that were closed say so in the loop's next turn


async def test_bytes_pass_both_ways_however_many() -> None:
    async with echoing() as echo:
        loop = asyncio.get_running_loop()
        sent = b"ab" * 500_000
        sending = asyncio.create_task(loop.sock_sendall(echo.near, sent))
        received = b""
        while len(received) < len(sent):
            received += await loop.sock_recv(echo.near, 1 << 16)
        await sending
        assert received == sent.upper()


async def test_who_closes_the_near_end_ends_the_connection() -> None:
    async with echoing() as echo:
        echo.near.close()
        await asyncio.wait_for(echo.ended.wait(), 10)


async def test_a_server_that_goes_away_is_seen_at_the_near_end() -> None:
    async with echoing() as echo:
        echo.writer.transport.abort()
        assert await asyncio.wait_for(asyncio.get_running_loop().sock_recv(echo.near, 10), 10) == b""
