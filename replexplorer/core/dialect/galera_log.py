"""What a Galera server's log says of a state transfer.

A member accepts no login while it is given a whole copy, and MariaDB has no status variable of either kind of
transfer (`wsrep_ist_receive_*` are Percona's): its log alone says which it is and how far. Lines as of
MariaDB 11.8 with Galera 26.4 (docs/systems.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from replexplorer.core.server.transfer import Transfer, TransferKind

_BEGINS: Final = "WSREP: State transfer required"
_ENDS: Final = "WSREP: Shifting JOINER -> JOINED"
_LOCAL: Final = re.compile(r"Local state: *([0-9a-f-]+):(-?\d+)")
_DONOR: Final = re.compile(r"requested state transfer from .* Selected \S+ \(([^)]+)\)")
_COPIED: Final = re.compile(r"SST succeeded for position ([0-9a-f-]+):(-?\d+)")
_RECEIVES: Final = re.compile(r"Receiving IST: (\d+) writesets, seqnos (\d+)-(\d+)")
_PROGRESS: Final = re.compile(r"Receiving IST\.\.\. *[\d.]+% *\( *(\d+)/ *(\d+) events\)")
_NOTHING: Final = "00000000-0000-0000-0000-000000000000"


def transfer_in(lines: Iterable[tuple[float, str]], now_s: float) -> Transfer | None:
    """The last state transfer of a server's log as it is now, each line with its moment, all in seconds since
    1970; None where it needed none."""
    found: _Found | None = None
    for at_s, line in lines:
        if _BEGINS in line:
            found = _Found(at_s)
        elif found is not None and found.ended_s is None:
            found.take(at_s, line)
    return None if found is None else found.transfer(now_s)


class _Found:
    """What was said of one transfer so far."""

    def __init__(self, began_s: float) -> None:
        self._began_s = began_s
        self.ended_s: float | None = None
        self._had: tuple[str, int] | None = None
        """Cluster and number of the last transaction that the member had itself."""
        self._copied: tuple[str, int] | None = None
        """Those of the last one that it has by what came before any transactions."""
        self._first: int | None = None
        self._done: int | None = None
        self._total: int | None = None
        self._donor: str | None = None

    def take(self, at_s: float, line: str) -> None:
        """A line of the log."""
        if _ENDS in line:
            self.ended_s = at_s
        elif match := _LOCAL.search(line):
            self._had = match[1], int(match[2])
        elif match := _COPIED.search(line):
            self._copied = match[1], int(match[2])
        elif match := _RECEIVES.search(line):
            self._total, self._first, self._done = int(match[1]), int(match[2]), 0
        elif match := _PROGRESS.search(line):
            self._done, self._total = int(match[1]), int(match[2])
        elif self._donor is None and (match := _DONOR.search(line)):
            self._donor = match[1]

    def transfer(self, now_s: float) -> Transfer:
        """As it is by now; transactions that follow a whole copy are part of that."""
        kind = self._kind()
        counted = kind is TransferKind.IST
        return Transfer(
            kind,
            self._began_s,
            max(0.0, (now_s if self.ended_s is None else self.ended_s) - self._began_s),
            runs=self.ended_s is None,
            donor=self._donor,
            done=self._done if counted else None,
            total=self._total if counted else None,
        )

    def _kind(self) -> TransferKind | None:
        """A donor that still has what the member lacks sends that alone, from where the member's end."""
        if self._had is not None and self._had[0] == _NOTHING:
            return TransferKind.SST
        if self._had is not None and self._first is not None and self._first <= self._had[1] + 1:
            return TransferKind.IST
        if self._copied is None:
            return None
        return TransferKind.IST if self._copied == self._had else TransferKind.SST
