"""One client's connection, from login to commit, at the least cost a commit.

Law: one command is under way at most. asyncmy logs in; then the socket is read by the event loop
directly, since the driver's own result objects cost twice the CPU of a commit and 256 KiB of
buffer a connection. Rows are received and never looked at.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from replexplorer.adapters.mysql import LOST_NUMBERS, log_in, tls_of
from replexplorer.core.errors import ServerRefused, ServerUnreachable
from replexplorer.core.load.workload import Statement, Values
from replexplorer.generator.relay import near_end
from replexplorer.generator.reply import ERR, Refusal, Reply, refusal
from replexplorer.ports import LoadTarget

_PING: Final = 0x0E
_STMT_PREPARE: Final = 0x16
_STMT_EXECUTE: Final = 0x17
_STMT_CLOSE: Final = 0x19
_INIT_DB: Final = 0x02
_TYPES: Final = {"i": b"\x03\x80", "l": b"\x08\x00", "s": b"\xfd\x00"}
"""An unsigned 4-byte integer; a signed one of 8 bytes; a text behind its length."""
_PACKED: Final = {"i": "I", "l": "q"}
_LENGTH_IN_ONE: Final = 251
_RECEIVE_BYTES: Final = 16_384
_TRACK: Final = "SET SESSION session_track_gtids = OWN_GTID"
_KEEPALIVE: Final = (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3))
"""Seconds, seconds, probes: a host that vanished is noticed in 11 s; a paused server still answers."""


class Connection:
    """A logged-in connection in autocommit mode."""

    def __init__(self, sock: socket.socket, *, tracks_gtids: bool = False) -> None:
        self._sock = sock
        self._tracks_gtids = tracks_gtids
        self._loop = asyncio.get_running_loop()
        self._unsent = b""
        self._reading = False

    @classmethod
    async def open(cls, target: LoadTarget, database: str, *, timeout_s: float) -> Connection:
        """Log in; raises ServerRefused or ServerUnreachable.

        The driver logs in on one descriptor of the socket and closes it; the connection lives on
        in the other.
        """
        if target.ssl_mode is not None:
            return await cls._open_elsewhere(target, database, timeout_s)
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
                    target.host, target.port, target.user, target.password, database=database, sock=sock,
                    first=_TRACK if target.tracks_gtids else None, tracks=target.tracks_gtids,
                )  # fmt: skip
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
        return cls(twin, tracks_gtids=target.tracks_gtids)

    @classmethod
    async def _open_elsewhere(cls, target: LoadTarget, database: str, timeout_s: float) -> Connection:
        """Log in as any client does, with TLS where that is wanted, behind a socket of this process."""
        where = f"{target.host}:{target.port}"
        tls = tls_of(target.ssl_mode, target.ssl_ca)
        logged_in: Any = None
        try:
            async with asyncio.timeout(timeout_s):
                logged_in = await log_in(
                    target.host, target.port, target.user, target.password, database=database, tls=tls
                )
                return cls(await near_end(logged_in))
        except TimeoutError:
            _abandon(logged_in)
            raise ServerUnreachable(f"no login at {where} within {timeout_s:g} s") from None
        except BaseException:
            _abandon(logged_in)
            raise

    async def prepare(self, statement: Statement, *, timeout_s: float) -> Prepared:
        """Prepare a statement; answers what builds its executions.

        Raises ServerRefused or ServerUnreachable. A ping sent along marks the end of the reply,
        whose number of packets depends on what the login negotiated.
        """
        text = statement.text.replace(statement.mark, "?")
        reply = await self._ask(bytes((_STMT_PREPARE,)) + text.encode(), timeout_s)
        (number,) = struct.unpack_from("<I", reply, 1)
        return Prepared(number, execution(number, statement.parameters))

    async def use(self, database: str, *, timeout_s: float) -> None:
        """Go on in another database; raises ServerRefused or ServerUnreachable."""
        await self._ask(bytes((_INIT_DB,)) + database.encode(), timeout_s)

    async def roll_back(self, *, timeout_s: float) -> None:
        """End a transaction that was refused; raises ServerRefused or ServerUnreachable."""
        await self._ask(b"\x03ROLLBACK", timeout_s)

    def forget(self, prepared: Iterable[Prepared]) -> None:
        """Let the server free prepared statements; it does not answer that."""
        for each in prepared:
            self.send(packet(struct.pack("<BI", _STMT_CLOSE, each.number)))

    async def _ask(self, command: bytes, timeout_s: float) -> bytes:
        """The first packet of the reply to a command outside a transaction."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._loop.sock_sendall(self._sock, packet(command) + packet(bytes((_PING,))))
                reply = await self._read_until_ping()
        except TimeoutError:
            raise ServerUnreachable(f"no answer to a statement within {timeout_s:g} s") from None
        except OSError as error:
            raise ServerUnreachable(f"the connection was lost ({error})") from None
        if reply[0] == ERR:
            raise ServerRefused(*refusal(reply))
        return reply

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
        self,
        on_end: Callable[[], None],
        on_refused: Callable[[Refusal], None],
        on_lost: Callable[[], None],
        on_gtid: Callable[[bytes], None],
    ) -> None:
        """From now on call one of these at the end of each reply, until `unwatch`; before that `on_gtid` with
        each OK packet that may carry a GTID."""
        reply = Reply(on_gtid if self._tracks_gtids else None)
        feed, receive = reply.feed, self._sock.recv

        def readable() -> None:
            try:
                received = receive(_RECEIVE_BYTES)
            except (BlockingIOError, InterruptedError):
                return
            except OSError:
                received = b""
            if not received:
                on_lost()
                return
            ended = feed(received)
            if ended is True:
                on_end()
            elif ended is not False:
                if ended.number in LOST_NUMBERS:
                    on_lost()
                else:
                    on_refused(ended)

        self._loop.add_reader(self._sock.fileno(), readable)
        self._reading = True

    def unwatch(self) -> None:
        """Stop calling back."""
        if self._reading:
            self._loop.remove_reader(self._sock.fileno())
            self._reading = False

    def send(self, packets: bytes) -> bool:
        """Send a command; False when the connection is gone.

        What does not fit the send buffer follows by itself.
        """
        if self._unsent:
            self._unsent += packets
            return True
        try:
            sent = self._sock.send(packets)
        except (BlockingIOError, InterruptedError):
            sent = 0
        except OSError:
            return False
        if sent != len(packets):
            self._unsent = packets[sent:]
            self._loop.add_writer(self._sock.fileno(), self._send_on)
        return True

    def _send_on(self) -> None:
        """Send what is left of a large command; a lost connection is found by the reader."""
        try:
            self._unsent = self._unsent[self._sock.send(self._unsent) :]
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            self._unsent = b""
        if not self._unsent:
            self._loop.remove_writer(self._sock.fileno())

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
        if self._unsent:
            self._loop.remove_writer(self._sock.fileno())
            self._unsent = b""
        self._sock.close()


def packet(command: bytes) -> bytes:
    """A command as it goes over the wire (up to 16 MiB)."""
    return len(command).to_bytes(4, "little") + command


def query_packet(statement: bytes) -> bytes:
    """A text statement as it goes over the wire."""
    return (len(statement) + 1).to_bytes(4, "little") + b"\x03" + statement


Build = Callable[[Values], bytes]
"""Makes the packet of one execution from the parameters' values."""


class Prepared(NamedTuple):
    """A statement that the server has prepared."""

    number: int
    build: Build


def execution(number: int, parameters: str) -> Build:
    """What executes the prepared statement of this number with parameters of these types."""
    body = struct.pack("<BIBI", _STMT_EXECUTE, number, 0, 1)
    if not parameters:
        whole = packet(body)
        return lambda _: whole
    body += bytes((len(parameters) + 7) // 8) + b"\x01" + b"".join(_TYPES[each] for each in parameters)
    if "s" not in parameters:
        layout = struct.Struct("<" + "".join(_PACKED[each] for each in parameters))
        head = (len(body) + layout.size).to_bytes(4, "little") + body
        pack = layout.pack
        return lambda values: head + pack(*values)
    sizes = [8 if each == "l" else 4 for each in parameters]

    def build(values: Values) -> bytes:
        return packet(body + b"".join(map(_value, values, sizes)))

    return build


def _value(value: int | bytes, size: int) -> bytes:
    """One parameter's value: this many bytes, or a text behind its length."""
    if isinstance(value, int):
        return value.to_bytes(size, "little", signed=size == 8)
    length = len(value)
    if length < _LENGTH_IN_ONE:
        return bytes((length,)) + value
    if length < 1 << 16:
        return b"\xfc" + length.to_bytes(2, "little") + value
    return b"\xfd" + length.to_bytes(3, "little") + value


def text_query(statement: Statement) -> Build:
    """What sends a statement as text, its values written in."""
    form = statement.format
    if not statement.parameters:
        whole = query_packet(statement.text.encode())
        return lambda _: whole
    return lambda values: query_packet(form % values)


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


def _abandon(logged_in: Any) -> None:
    """Close a driver's connection, if there is one."""
    if logged_in is not None:
        logged_in.close()


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
