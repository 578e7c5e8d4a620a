"""The page that mysqld's fsync shim maps: the figures that it counts, the delays that it reads, its lock.

Layout, as shim.h has it: 512 words of 64 bits in the machine's byte order. A header of 32 (magic, version,
size in bytes, attaches, wall clock of the last one in ns, then what is asked of the undo journal: its number,
its bytes, a bit for each kind of file; a bit for each kind that finds the disk full), then 32 of each kind of
file: fsyncs, ns in the real call, ns of delay after it, delay asked in us. Only what is asked is written.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PAGE_BYTES = 4096
MAGIC, VERSION = int.from_bytes(b"RXFSYNC\0", "little"), 1
JOURNAL_MAGIC, JOURNAL_VERSION = int.from_bytes(b"RXUNDO\0\0", "little"), 1
KINDS = ("redo", "binlog", "relay", "data", "index", "directory", "other")
FSYNCS, FSYNC_NS, DELAYED_NS, DELAY_US = range(4)
JOURNAL, JOURNAL_BYTES, JOURNAL_KINDS, FULL = 5, 6, 7, 8
COMMIT_KINDS = ("redo", "binlog")
"""What a commit waits for."""
OTHER_LAYOUT = "the fsync shim's page has another layout"
LOCK = struct.Struct("@hhqqi4x")
"""The kernel's `struct flock`."""


class Unreadable(Exception):
    """The page is there and cannot be used; in words."""


@dataclass(frozen=True)
class Figures:
    """The page at one time."""

    fsyncs: dict[str, int]
    """By kind of file."""
    delay_us: int
    journal: int
    """The number of the undo journal that is asked for; 0: none."""
    full: bool
    """Files may not grow."""
    commit_fsyncs: int
    commit_ns: int
    """In the real calls of redo and binlog, and in the delays after them."""


def word(kind: str, figure: int) -> int:
    """Where a figure of a kind stands."""
    return 32 + 32 * KINDS.index(kind) + figure


class Page:
    """The page while it is mapped; each word is read and written in one access."""

    def __init__(self, fd: int, words: memoryview) -> None:
        self._fd = fd
        self.words = words

    def held(self) -> bool:
        """A server holds the lock of the page's open file description, so it is attached."""
        asked = LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        return bool(LOCK.unpack(fcntl.fcntl(self._fd, fcntl.F_OFD_GETLK, asked))[0] != fcntl.F_UNLCK)

    def figures(self) -> Figures:
        """What it says now."""
        return Figures(
            {kind: self.words[word(kind, FSYNCS)] for kind in KINDS},
            self.words[word(COMMIT_KINDS[0], DELAY_US)],
            self.words[JOURNAL],
            bool(self.words[FULL]),
            sum(self.words[word(kind, FSYNCS)] for kind in COMMIT_KINDS),
            sum(self.words[word(kind, figure)] for kind in COMMIT_KINDS for figure in (FSYNC_NS, DELAYED_NS)),
        )

    def set_delay(self, delay_us: int) -> None:
        """Delay the fsyncs of every kind."""
        for kind in KINDS:
            self.words[word(kind, DELAY_US)] = delay_us

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


def _bits(kinds: tuple[str, ...]) -> int:
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
