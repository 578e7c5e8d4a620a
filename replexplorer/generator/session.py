"""One client's connection, from login to commit, at the least cost a commit.

Law: one command is under way at most. asyncmy logs in; then the socket is read by the event loop
directly, since the driver's own result objects cost twice the CPU of a commit and 256 KiB of
buffer a connection. Replies to commits are OK or ERR packets: nothing else is asked here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Callable
from typing import Final

from replexplorer.adapters.mysql import LOST_NUMBERS, log_in
from replexplorer.core.errors import ServerRefused, ServerUnreachable
from replexplorer.ports import LoadTarget

_PING: Final = 0x0E
_STMT_PREPARE: Final = 0x16
_STMT_EXECUTE: Final = 0x17
_TYPE_LONG: Final = b"\x01\x03\x00"
"""New parameters are bound; the first is a signed 4-byte integer."""
_ERR: Final = 0xFF
_RECEIVE_BYTES: Final = 4096
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3))
"""Seconds, seconds, probes: a host that vanished is noticed in 11 s; a paused server still answers."""


class Session:
    """A logged-in connection in autocommit mode."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._partial = b""
        self._reading = False

    @classmethod
    async def open(cls, target: LoadTarget, database: str, *, timeout_s: float) -> Session:
        """Log in; raises ServerRefused or ServerUnreachable.

        The driver logs in on one descriptor of the socket and closes it; the connection lives on
        in the other.
        """
        where = f"{target.host}:{target.port}"
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        twin: socket.socket | None = None
        try:
            sock.setblocking(False)
            _tune(sock)
            async with asyncio.timeout(timeout_s):
                await asyncio.get_running_loop().sock_connect(sock, (target.host, target.port))
                twin = sock.dup()
                connection = await log_in(
                    target.host, target.port, target.user, target.password, database=database, sock=sock
                )
                connection.close()
        except TimeoutError:
            _close_all(sock, twin)
            raise ServerUnreachable(f"no login at {where} within {timeout_s:g} s") from None
        except OSError as error:
            _close_all(sock, twin)
            # The event loops word it each in their own way.
            reason = os.strerror(error.errno) if error.errno is not None else str(error)
            raise ServerUnreachable(f"no MySQL server answers at {where} ({reason})") from None
        except BaseException:
            _close_all(sock, twin)
            raise
        return cls(twin)

    async def prepare(self, statement: str, *, timeout_s: float) -> Callable[[int], bytes]:
        """Prepare a statement with one `?` for an integer; answers what builds its executions.

        Raises ServerRefused or ServerUnreachable. A ping sent along marks the end of the reply,
        whose number of packets depends on what the login negotiated.
        """
        command = bytes((_STMT_PREPARE,)) + statement.encode()
        try:
            async with asyncio.timeout(timeout_s):
                await self._loop.sock_sendall(self._sock, packet(command) + packet(bytes((_PING,))))
                reply = await self._read_until_ping()
        except TimeoutError:
            raise ServerUnreachable(f"no answer to a statement within {timeout_s:g} s") from None
        except OSError as error:
            raise ServerUnreachable(f"the connection was lost ({error})") from None
        if reply[0] == _ERR:
            raise ServerRefused(*_refusal(reply))
        (statement_id,) = struct.unpack_from("<I", reply, 1)
        body = struct.pack("<BIBIB", _STMT_EXECUTE, statement_id, 0, 1, 0) + _TYPE_LONG
        head = (len(body) + 4).to_bytes(4, "little") + body
        pack = struct.Struct("<I").pack
        return lambda key: head + pack(key)

    async def _read_until_ping(self) -> bytes:
        """The first packet's payload; reads on until the second reply has begun and ended."""
        received = b""
        while True:
            chunk = await self._loop.sock_recv(self._sock, _RECEIVE_BYTES)
            if not chunk:
                raise ServerUnreachable("the connection was lost")
            received += chunk
            packets, whole = _split(received)
            # Sequence numbers of a reply begin at 1.
            if whole and len(packets) > 1 and packets[-1][0] == 1:
                return packets[0][1]

    def watch(
        self, on_ok: Callable[[], None], on_refused: Callable[[int, str], None], on_lost: Callable[[], None]
    ) -> None:
        """From now on call one of these for each reply, until `unwatch`."""

        def readable() -> None:
            try:
                received = self._sock.recv(_RECEIVE_BYTES)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                received = b""
            if not received:
                on_lost()
                return
            if self._partial:
                received = self._partial + received
            length = len(received)
            if length < 5 or length < 4 + int.from_bytes(received[:3], "little"):
                self._partial = received
                return
            self._partial = b""
            if received[4] != _ERR:
                on_ok()
                return
            number, text = _refusal(received[4:])
            if number in LOST_NUMBERS:
                on_lost()
            else:
                on_refused(number, text)

        self._loop.add_reader(self._sock.fileno(), readable)
        self._reading = True

    def unwatch(self) -> None:
        """Stop calling back."""
        if self._reading:
            self._loop.remove_reader(self._sock.fileno())
            self._reading = False

    def send(self, packets: bytes) -> bool:
        """Send a command; False when the connection is gone.

        A command is far smaller than the send buffer, which is empty between commands.
        """
        try:
            return self._sock.send(packets) == len(packets)
        except OSError:
            return False

    def is_alive(self) -> bool:
        """Whether the server has not closed the connection while it was idle."""
        try:
            # Nothing is under way, so anything readable is a goodbye.
            self._sock.recv(_RECEIVE_BYTES)
        except (BlockingIOError, InterruptedError):
            return True
        except OSError:
            pass
        return False

    def close(self) -> None:
        """Close without waiting; a commit under way has an unknown outcome."""
        self.unwatch()
        self._sock.close()


def packet(command: bytes) -> bytes:
    """A command as it goes over the wire (up to 16 MiB)."""
    return len(command).to_bytes(4, "little") + command


def query_packet(statement: bytes) -> bytes:
    """A text statement as it goes over the wire."""
    return (len(statement) + 1).to_bytes(4, "little") + b"\x03" + statement


def _tune(sock: socket.socket) -> None:
    """No delay for small packets; notice a host that vanished."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE:
        if hasattr(socket, name):
            sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _close_all(*socks: socket.socket | None) -> None:
    """Close what is open."""
    for sock in socks:
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.close()


def _split(received: bytes) -> tuple[list[tuple[int, bytes]], bool]:
    """The whole packets as (sequence number, payload), and whether nothing is left over."""
    packets: list[tuple[int, bytes]] = []
    at = 0
    while at + 4 <= len(received):
        end = at + 4 + int.from_bytes(received[at : at + 3], "little")
        if end > len(received):
            break
        packets.append((received[at + 3], received[at + 4 : end]))
        at = end
    return packets, at == len(received)


def _refusal(payload: bytes) -> tuple[int, str]:
    """Number and text of an ERR packet's payload."""
    (number,) = struct.unpack_from("<H", payload, 1)
    text = payload[9:] if payload[3:4] == b"#" else payload[3:]
    return number, " ".join(text.decode("utf-8", "replace").split())
