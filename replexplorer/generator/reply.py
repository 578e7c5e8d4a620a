"""Where the server's reply to one command ends, whatever it holds and however it is cut.

Law: only headers are read; rows are skipped unread. Both forms of a result's end are known (an
EOF packet, and the OK packet that newer servers send instead), so it does not matter which the
login negotiated (MySQL protocol, "Text Resultset", CLIENT_DEPRECATE_EOF).
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from enum import Enum, auto
from typing import Final, NamedTuple

from replexplorer.core.server.gtid import runs, unite_gtids, write_gtids

OK: Final = 0x00
ERR: Final = 0xFF
_END: Final = 0xFE
_EOF_BYTES: Final = 5
_LARGEST: Final = 0xFFFFFF
_MORE_RESULTS: Final = 0x08
_LEAST_WITH_GTID: Final = 50
"""Bytes of an OK packet: 7, an empty text's length, 5 that say what follows, and a UUID, a colon, a digit."""
_UUID: Final = 36
_GTIDS: Final = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}:[0-9a-z_:, -]+")


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
    """The GTID set that OK packets tell of, where they do (MySQL protocol, "OK_Packet", SESSION_TRACK_GTIDS):
    a text behind its length, and behind it at most the transaction's state. Most have the same UUID and a
    number, and nothing else of those is read."""
    uuid, numbers, others = b"-", set[int](), list[str]()
    for each in packets:
        at = each.rfind(b":")
        begins = at - _UUID
        if each[begins:at] == uuid and (number := each[at + 1 : begins + each[begins - 1]]).isdigit():
            numbers.add(int(number))
        elif (found := _GTIDS.search(each)) is not None:
            others.append(found[0].decode())
            uuid = found[0][:_UUID] if uuid == b"-" else uuid
    return unite_gtids(*others, write_gtids({uuid.decode(): runs(numbers)}))
