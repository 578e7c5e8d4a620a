"""Ways over a daemon's exec: a clock, a connection, a load process. The daemon is a small one of the test's
own that runs the command here."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from replexplorer.adapters.docker.execs import CLOCK_COMMAND, DockerBridge, Exec, clock, dial, relay_command
from replexplorer.core.errors import StackUnavailable
from tests.known import known

pytestmark = pytest.mark.real_time

TWICE = ("python3", "-c", "import sys\nfor line in sys.stdin: print(line.strip() * 2, flush=True)")
FAILS = ("python3", "-c", "import sys; sys.exit('no such module')")


async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """All that comes, to its end."""
    while content := await reader.read(1 << 16):
        writer.write(content)
        await writer.drain()
    writer.close()


@asynccontextmanager
async def daemon(path: Path, command: tuple[str, ...], status: str = "101 UPGRADED") -> AsyncIterator[Exec]:
    """A daemon whose one exec is this command; it ends with the context, and its connections with it."""
    tasks: list[asyncio.Task[Any]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(known(asyncio.current_task()))
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(known(re.search(rb"Content-Length: (\d+)", head))[1]))
        writer.write(f"HTTP/1.1 {status}\r\n\r\n".encode())
        if not status.startswith("101"):
            writer.close()
            return
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *command, stdin=pipe, stdout=pipe, stderr=pipe, env={**os.environ, "RX_NODE": "127.0.0.1"}
        )

        async def tell(number: int, stream: asyncio.StreamReader | None) -> None:
            while content := await known(stream).read(1 << 16):
                writer.write(bytes((number, 0, 0, 0)) + len(content).to_bytes(4, "big") + content)
                await writer.drain()

        feeding = asyncio.create_task(carry(reader, known(process.stdin)))
        try:
            await asyncio.gather(tell(1, process.stdout), tell(2, process.stderr), process.wait())
        finally:
            feeding.cancel()
            writer.close()
            if process.returncode is None:
                process.kill()
                await process.wait()

    async with await asyncio.start_unix_server(serve, path / "sock"):
        yield Exec(str(path / "sock"), "1")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def test_the_clock_of_this_machine_is_its_own_and_without_python_there_is_none(tmp_path: Path) -> None:
    async with daemon(tmp_path, CLOCK_COMMAND) as started:
        found = await clock(started, "far")
    assert found.within_ms > 0
    assert max(abs(found.ahead_ms), abs(found.monotonic_s * 1000)) <= found.within_ms + 1
    async with daemon(tmp_path, FAILS) as started:
        with pytest.raises(StackUnavailable, match="no clock answers on far"):
            await clock(started, "far")


async def test_a_connection_carries_bytes_both_ways_and_ends_at_both_ends_or_where_its_server_is_away(
    tmp_path: Path,
) -> None:
    content = os.urandom(300_000)
    heard = asyncio.get_running_loop().create_future()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.readexactly(len(content)))[::-1])
        heard.set_result(await reader.read() == b"")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    command = relay_command(server.sockets[0].getsockname()[1])
    async with asyncio.timeout(20):
        async with server, daemon(tmp_path, command) as started:
            reader, writer = await asyncio.open_connection(sock=await dial(started, "db1"))
            writer.write(content)
            assert await reader.readexactly(len(content)) == content[::-1]
            writer.close()
            assert await heard
        async with daemon(tmp_path, command) as started:
            reader, writer = await asyncio.open_connection(sock=await dial(started, "db1"))
            assert await reader.read() == b""
            writer.close()


async def test_a_daemon_that_refuses_is_said(tmp_path: Path) -> None:
    async with daemon(tmp_path, TWICE, status="409 Conflict") as started:
        with pytest.raises(StackUnavailable, match="the sidecar of db1 does not accept commands"):
            await dial(started, "db1")
    with pytest.raises(StackUnavailable, match="no answer from the sidecar of db1"):
        await dial(started, "db1")


async def test_a_process_elsewhere_ends_with_its_stdin_and_what_it_complains_is_kept(tmp_path: Path) -> None:
    async with daemon(tmp_path, TWICE) as started:
        process = await DockerBridge.start(started, "far")
        process.send("one")
        lines = process.lines()
        assert await anext(lines) == "oneone"
        process.end_input()
        assert ([line async for line in lines], process.complaint) == ([], "")
        await process.close()
    async with daemon(tmp_path, FAILS) as started:
        process = await DockerBridge.start(started, "far")
        assert ([line async for line in process.lines()], process.complaint) == ([], "no such module")
        await process.close()
