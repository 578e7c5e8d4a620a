"""The page that mysqld's fsync shim maps: the figures that it counts, the delays that it reads, its lock.

Layout, as shim.h has it: 512 words of 64 bits in the machine's byte order. A header of 32 (magic, version,
size in bytes, attaches, wall clock of the last one in ns, then what is asked of the undo journal: its number,
its bytes, a bit for each kind of file; a bit for each kind that finds the disk full; for the agent alone a
bit for each kind with a delay of its own, and what of the delays is a fault's), then 32 of each kind of file:
fsyncs, ns in the real call, ns of delay after it, delay asked in us, its jitter in us. Only what is asked is
written.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import struct
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PAGE_BYTES = 4096
MAGIC, VERSION = int.from_bytes(b"RXFSYNC\0", "little"), 1
JOURNAL_MAGIC, JOURNAL_VERSION = int.from_bytes(b"RXUNDO\0\0", "little"), 1
KINDS = ("redo", "binlog", "relay", "data", "index", "directory", "other")
FSYNCS, FSYNC_NS, DELAYED_NS, DELAY_US, JITTER_US = range(5)
JOURNAL, JOURNAL_BYTES, JOURNAL_KINDS, FULL, OWN_DELAYS, STALL_US = 5, 6, 7, 8, 9, 10
COMMIT_KINDS = ("redo", "binlog")
"""What a commit waits for; these can have delays of their own."""
_WITHOUT_OWN = "other"
"""A kind that has never a delay of its own."""
OTHER_LAYOUT = "the fsync shim's page has another layout"
LOCK = struct.Struct("@hhqqi4x")
"""The kernel's `struct flock`."""


class Unreadable(Exception):
    """The page is there and cannot be used; in words."""


@dataclass(frozen=True)
class Delays:
    """What is asked of the time that an fsync takes."""

    all_us: int
    """Of the kinds that have no delay of their own, without a fault's part."""
    own_us: dict[str, int]
    """By kind of file, where it is not that of all others."""
    jitter_us: int
    stall_us: int
    """What a fault adds to each."""

    def own_ms(self, kind: str) -> float | Literal["auto"]:
        """What one kind of file is delayed by in place of the others' delay."""
        return self.own_us[kind] / 1000 if kind in self.own_us else "auto"


@dataclass(frozen=True)
class Figures:
    """The page at one time."""

    fsyncs: dict[str, int]
    """By kind of file."""
    delays: Delays
    journal: int
    """The number of the undo journal that is asked for; 0: none."""
    full: bool
    """Files may not grow."""
    paid_ns: dict[str, int]
    """By kind of file: in the real calls, and in the delays after them."""


def word(kind: str, figure: int) -> int:
    """Where a figure of a kind stands."""
    return 32 + 32 * KINDS.index(kind) + figure


@dataclass(eq=False)
class Page:
    """The page while it is mapped; each word is read and written in one access."""

    _fd: int
    words: memoryview

    def held(self) -> bool:
        """A server holds the lock of the page's open file description, so it is attached."""
        asked = LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        return bool(LOCK.unpack(fcntl.fcntl(self._fd, fcntl.F_OFD_GETLK, asked))[0] != fcntl.F_UNLCK)

    def figures(self) -> Figures:
        """What it says now."""
        return Figures(
            {kind: self.words[word(kind, FSYNCS)] for kind in KINDS},
            self.delays(),
            self.words[JOURNAL],
            bool(self.words[FULL]),
            {
                kind: self.words[word(kind, FSYNC_NS)] + self.words[word(kind, DELAYED_NS)]
                for kind in COMMIT_KINDS
            },
        )

    def delays(self) -> Delays:
        """What is asked now."""
        stall_us = self.words[STALL_US]
        delays_us = {kind: max(self.words[word(kind, DELAY_US)] - stall_us, 0) for kind in KINDS}
        own_us = {kind: delays_us[kind] for at, kind in enumerate(KINDS) if self.words[OWN_DELAYS] >> at & 1}
        return Delays(delays_us[_WITHOUT_OWN], own_us, self.words[word(_WITHOUT_OWN, JITTER_US)], stall_us)

    def delay(self, asked: Delays) -> None:
        """Delay fsyncs like this from now on."""
        self.words[OWN_DELAYS] = _bits(asked.own_us)
        self.words[STALL_US] = asked.stall_us
        for kind in KINDS:
            self.words[word(kind, DELAY_US)] = asked.own_us.get(kind, asked.all_us) + asked.stall_us
            self.words[word(kind, JITTER_US)] = asked.jitter_us

    def ask_for_journal(self, number: int, most_bytes: int, kinds: tuple[str, ...]) -> None:
        """Begin an undo journal of the writes to these kinds of files, at the server's next write; `number`
        is another one each time, and 0 ends it."""
        self.words[JOURNAL_BYTES] = most_bytes
        self.words[JOURNAL_KINDS] = _bits(kinds)
        self.words[JOURNAL] = number

    def keep_journal(self, on: bool, most_bytes: int, kinds: tuple[str, ...]) -> None:
        """Keep an undo journal from now on, or none; one that is kept already goes on."""
        if not on:
            self.ask_for_journal(0, most_bytes, kinds)
        elif not self.words[JOURNAL]:
            self.ask_for_journal(time.time_ns(), most_bytes, kinds)

    def fill_disk(self, kinds: tuple[str, ...]) -> None:
        """No file of these kinds may grow from now on, as on a full disk; none: all may."""
        self.words[FULL] = _bits(kinds)


def journal_of(page_path: Path) -> int | None:
    """The number of the undo journal that the shim keeps beside the page; None where there is none."""
    try:
        with open(f"{page_path}.journal", "rb") as file:
            magic, version, _, number = struct.unpack("=4Q", file.read(32))
    except (OSError, struct.error):
        return None
    return number if (magic, version) == (JOURNAL_MAGIC, JOURNAL_VERSION) else None


def _bits(kinds: Iterable[str]) -> int:
    return sum(1 << KINDS.index(kind) for kind in kinds)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[Page]:
    """Map the page; raises FileNotFoundError where no server ever attached, Unreadable for all else."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Unreadable(f"the fsync shim's page cannot be opened: {error.strerror}") from None
    try:
        try:
            mapped = mmap.mmap(fd, PAGE_BYTES)
        except ValueError:
            raise Unreadable(OTHER_LAYOUT) from None
        with mapped, memoryview(mapped) as octets, octets.cast("Q") as words:
            if words[:3].tolist() != [MAGIC, VERSION, PAGE_BYTES]:
                raise Unreadable(OTHER_LAYOUT)
            yield Page(fd, words)
    finally:
        os.close(fd)
