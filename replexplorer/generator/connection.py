"""One client's connection, from login to commit, at the least cost a commit.

Law: one command is under way at most. asyncmy logs in; then the socket is read by the event loop
directly, since the driver's own result objects cost twice the CPU of a commit and 256 KiB of
buffer a connection. Rows are received and never looked at.

Finds the end of the server's reply to a command, however it is cut.

Law: only headers are read; rows are skipped unread. Both forms of a result's end are known (an
EOF packet, and the OK packet that newer servers send instead), so it does not matter which the
login negotiated (MySQL protocol, "Text Resultset", CLIENT_DEPRECATE_EOF).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import socket
import struct
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Final, NamedTuple

from replexplorer.adapters.mysql import LOST_NUMBERS, log_in
from replexplorer.core.errors import ServerRefused, ServerUnreachable
from replexplorer.core.load.workload import Statement, Values
from replexplorer.core.server.gtid import spans_of, unite_gtids, write_gtids
from replexplorer.ports import LoadTarget

OK: Final = 0x00
ERR: Final = 0xFF
_END: Final = 0xFE
_EOF_BYTES: Final = 5
_LARGEST: Final = 0xFFFFFF
_MORE_RESULTS: Final = 0x08
_LEAST_WITH_GTID: Final = 27
"""Bytes of MariaDB's OK packet: 7, an empty text's length, 3 that say what follows, `last_gtid` and `0-1-1`
each behind its length. MySQL's has a UUID."""
_UUID: Final = 36
_GTIDS: Final = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9a-z_:, -]+")
_LAST_GTID: Final = b"\x09last_gtid"


class Refusal(NamedTuple):
    """An ERR packet."""

    number: int
    text: str


class _Stage(Enum):
    HEAD = auto()
    COLUMNS = auto()
    FIRST = auto()
    """Behind the columns: an EOF packet may stand here that ends them, not the rows."""
    ROWS = auto()


class Reply:
    """Follows one reply; `feed` until it answers."""

    __slots__ = ("_columns", "_on_gtid", "_rest", "_stage")

    def __init__(self, on_gtid: Callable[[bytes], None] | None = None) -> None:
        """`on_gtid` hears each OK packet that is large enough to carry a GTID (`acknowledged_gtids`)."""
        self._on_gtid = on_gtid
        self._begin()

    def _begin(self) -> None:
        """Wait for the next reply."""
        self._rest = b""
        self._stage = _Stage.HEAD
        self._columns = 0

    def feed(self, received: bytes) -> bool | Refusal:
        """Take what was received: True at the end, False while more must come, or the refusal.

        After an end or a refusal the next reply can be fed.
        """
        if self._stage is _Stage.HEAD and not self._rest:
            # A commit's whole reply in one piece, which is nearly every reply there is.
            size = len(received) - 4
            if size > 0 and received[4] == OK and received[:3] == size.to_bytes(3, "little"):
                if size >= _LEAST_WITH_GTID and self._on_gtid is not None:
                    self._on_gtid(received)
                return True
            data = received
        else:
            data = self._rest + received
        at, end = 0, len(data)
        is_among_rows = self._stage is _Stage.ROWS
        while at + 4 < end:
            size = data[at] | data[at + 1] << 8 | data[at + 2] << 16
            after = at + 4 + size
            if after > end:
                break
            if is_among_rows and data[at + 4] < _END:  # a row: most packets of a reply are
                at = after
                continue
            ended = self._take(data, at + 4, size)
            if ended is not False:
                self._begin()
                return ended
            is_among_rows = self._stage is _Stage.ROWS
            at = after
        self._rest = data[at:]
        return False

    def _take(self, data: bytes, at: int, size: int) -> bool | Refusal:
        """One whole packet."""
        first, stage = data[at], self._stage
        if stage is _Stage.COLUMNS:
            self._columns -= 1
            if not self._columns:
                self._stage = _Stage.FIRST
            return False
        if first == ERR:
            return refusal(data[at : at + size])
        if stage is _Stage.HEAD:
            if first == OK:
                if size >= _LEAST_WITH_GTID and self._on_gtid is not None:
                    self._on_gtid(data[at : at + size])
                return True
            self._columns = first if first < 0xFB else int.from_bytes(data[at + 1 : at + 3], "little")
            self._stage = _Stage.COLUMNS
            return False
        self._stage = _Stage.ROWS
        if first != _END or size == _LARGEST or (size == _EOF_BYTES and stage is _Stage.FIRST):
            return False
        if data[at + 3] & _MORE_RESULTS:
            self._stage = _Stage.HEAD
            return False
        return True


def refusal(payload: bytes) -> Refusal:
    """Number and text of an ERR packet's payload, on one line."""
    (number,) = struct.unpack_from("<H", payload, 1)
    text = payload[9:] if payload[3:4] == b"#" else payload[3:]
    return Refusal(number, " ".join(text.decode("utf-8", "replace").split()))


def acknowledged_gtids(packets: Iterable[bytes]) -> str:
    """The GTID set that OK packets tell of (MySQL protocol, "OK_Packet"): of MySQL a text behind its length,
    and behind it at most the transaction's state; of MariaDB the variable `last_gtid`, written here as
    `core.dialect.mariadb` does. Most have the same UUID, or domain and server, and a number, and nothing else
    of those is read."""
    key, numbers, others = b"-", set[int](), list[str]()
    for each in packets:
        if (at := each.rfind(_LAST_GTID)) >= 0:
            begins = at + len(_LAST_GTID) + 1
            source, _, number = each[begins : begins + each[begins - 1]].rpartition(b"-")
            if source == key:
                numbers.add(int(number))
            elif source:
                others.append(f"{source.decode()}:{int(number)}")
                key = source if key == b"-" else key
            continue
        at = each.rfind(b":")
        begins = at - _UUID
        if each[begins:at] == key and (number := each[at + 1 : begins + each[begins - 1]]).isdigit():
            numbers.add(int(number))
        elif (found := _GTIDS.search(each)) is not None:
            others.append(found[0].decode())
            key = found[0][:_UUID] if key == b"-" else key
    return unite_gtids(*others, write_gtids({key.decode(): spans_of((number, number) for number in numbers)}))


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
                    first=target.tracking, tracks=target.tracking is not None,
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
        return cls(twin, tracks_gtids=target.tracking is not None)

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
