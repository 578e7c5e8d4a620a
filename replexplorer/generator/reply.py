"""Where the server's reply to one command ends, whatever it holds and however it is cut.

Law: only headers are read; rows are skipped unread. Both forms of a result's end are known (an
EOF packet, and the OK packet that newer servers send instead), so it does not matter which the
login negotiated (MySQL protocol, "Text Resultset", CLIENT_DEPRECATE_EOF).
"""

from __future__ import annotations

import struct
from enum import Enum, auto
from typing import Final, NamedTuple

OK: Final = 0x00
ERR: Final = 0xFF
_END: Final = 0xFE
_EOF_BYTES: Final = 5
_LARGEST: Final = 0xFFFFFF
_MORE_RESULTS: Final = 0x08


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

    __slots__ = ("_columns", "_rest", "_stage")

    def __init__(self) -> None:
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
