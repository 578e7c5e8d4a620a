"""A login that is cancelled stays cancelled, whatever the driver makes of it."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import asyncmy
import pytest
from asyncmy.errors import OperationalError

from replexplorer.adapters.mysql import log_in
from replexplorer.core.errors import ServerUnreachable


class Connection:
    """One that the driver has made."""

    closed = False

    def close(self) -> None:
        self.closed = True


async def made(connection: Connection) -> Any:
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(60)
    return connection


async def refused(_: Connection) -> Any:
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(60)
    raise OperationalError(2003, "Can't connect")


@pytest.mark.parametrize("driver", [made, refused])
async def test_a_driver_that_forgets_the_cancel_is_cancelled_all_the_same(
    driver: Callable[[Connection], Awaitable[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = Connection()
    monkeypatch.setattr(asyncmy, "connect", lambda **_: driver(connection))

    async def log_in_for_ever() -> None:
        while True:
            with contextlib.suppress(ServerUnreachable):
                await log_in("127.0.0.1", 1, "u", "p")

    task = asyncio.create_task(log_in_for_ever())
    await asyncio.sleep(0)
    task.cancel()
    done, _ = await asyncio.wait({task}, timeout=5)
    assert done == {task}
    assert task.cancelled()
    assert connection.closed is (driver is made)


async def test_a_login_that_nobody_cancels_says_what_happened() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with pytest.raises(ServerUnreachable, match=f"no MySQL server answers at 127.0.0.1:{port}"):
        await log_in("127.0.0.1", port, "u", "p")
