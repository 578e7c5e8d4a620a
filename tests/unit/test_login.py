"""A login that is cancelled stays cancelled, whatever the driver makes of it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from itertools import product
from typing import Any

import asyncmy
import pytest
from asyncmy.errors import OperationalError
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from replexplorer.adapters.mysql import Tls, log_in
from replexplorer.core.dialect.attaching import WHO
from replexplorer.core.errors import ServerUnreachable
from replexplorer.generator.connection import Connection as TheLoads
from replexplorer.ports import LoadTarget
from tests.typed import table_of


class Connection:
    """One that the driver has made."""

    closed = False

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("refuses", [False, True])
async def test_a_driver_that_forgets_the_cancel_is_cancelled_all_the_same(
    refuses: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = Connection()

    async def connect(**_: Any) -> Connection:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        if refuses:
            raise OperationalError(2003, "Can't connect")
        return connection

    monkeypatch.setattr(asyncmy, "connect", connect)

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
    assert connection.closed is not refuses


@contextlib.asynccontextmanager
async def rogue(
    plugin: bytes, pem: bytes = b"", version: bytes = b"9.7.4"
) -> AsyncIterator[tuple[int, list[bytes]]]:
    """A server without TLS that greets as MySQL does and asks for the password by a plugin, or sends a key to
    encrypt it by: its port, and what it was sent after it had asked."""
    got: list[bytes] = []

    def packet(number: int, content: bytes) -> bytes:
        return len(content).to_bytes(3, "little") + bytes([number]) + content

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greets_by = plugin if pem else b"caching_sha2_password"
        # 0F A2 and 0B 00, the flags: protocol 4.1, plugins by name, and no TLS
        flags = b"12345678\0\x0f\xa2\xff\x02\0\x0b\0\x15" + bytes(10) + b"123456789012\0"
        writer.write(packet(0, b"\x0a" + version + b"\0" + bytes(4) + flags + greets_by + b"\0"))
        await reader.read(4096)
        asked = [(2, b"\x01" + pem)] if pem else [(2, b"\xfe" + plugin + b"\0Password: ")]
        if pem and plugin == b"caching_sha2_password":
            asked = [(2, b"\x01\x04"), (4, b"\x01" + pem)]
        for number, content in asked:
            writer.write(packet(number, content))
            got.append(await reader.read(4096))
            if got[-1][4:] != b"\x02":  # the key is not asked for
                break
        writer.close()

    serving: list[asyncio.Task[None]] = []

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        serving.append(asyncio.create_task(serve(reader, writer)))

    async with await asyncio.start_server(accept, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], got
        await asyncio.wait_for(asyncio.gather(*serving), 10)


def pem() -> bytes:
    key = rsa.generate_private_key(65537, 2048).public_key()
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


PLUGINS = """\
mysql_clear_password  | asks for the password in clear text
dialog                | asks for the password in clear text
caching_sha2_password | an RSA key that is not known here
sha256_password       | an RSA key that is not known here
"""


async def test_without_tls_no_password_goes_in_clear_text_or_by_a_key_that_the_other_end_has_sent() -> None:
    """The stack's own servers, which have no mode, are not asked for their key."""
    for (plugin, why), mode in product(table_of(PLUGINS), ("PREFERRED", "DISABLED", None)):
        by_key = "RSA" in why
        async with rogue(plugin.encode(), pem() if by_key else b"") as (port, got):
            with pytest.raises(ServerUnreachable) as caught:
                await log_in("127.0.0.1", port, "u", "topsecret", tls=Tls(mode) if mode else None)
            if not by_key:
                target = LoadTarget("127.0.0.1", port, "u", "topsecret", "direct")
                with pytest.raises(ServerUnreachable, match=why):
                    await TheLoads.open(target, "d", timeout_s=5)
        sends = by_key and mode is None
        assert (why in caught.value.message) is not sends, (plugin, mode)
        assert ("--ssl-mode=REQUIRED" in (caught.value.hint or "")) is (by_key and not sends)
        assert b"topsecret" not in b"".join(got)
        assert [len(each) for each in got if len(each) > 4 + 20] == [4 + 256] * sends, (plugin, mode)


async def test_a_greeting_in_another_protocol_and_figures_that_are_text_are_one_line() -> None:
    async with rogue(b"x", version=b"none.at.all") as (port, _):
        with pytest.raises(ServerUnreachable, match="is not a MySQL server"):
            await log_in("127.0.0.1", port, "u", "p")
    with pytest.raises(ServerUnreachable, match="db does not answer like a MySQL server") as caught:
        WHO.answer([{"server_id": f"one{'x' * 5000}", "hostname": "h"}], "db")
    assert len(str(caught.value)) < 250
