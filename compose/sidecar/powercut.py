"""What a power cut would have left of a node's files: what no fsync had made durable is rolled back.

Run as the server's user, on the datadir's volume of a server that was killed and not started again:

    powercut.py [--mode strict|aged|torn]

prints one JSON document, or fails in one line (exit 1) and has changed nothing. Harmless twice: what was
rolled back is no longer in the journal.

- strict: nothing survives that was not fsynced
- aged: what was written more than 30 s before the cut survives, as where the kernel had written it back
- torn: each block of 4096 bytes survives up to a moment of its own, and so does the size, drawn from a seed
  that is always the same

The layout of the journal is that of undojournal.c, which also says what is not kept.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import mmap
import os
import random
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import fsyncpage

HEADER = struct.Struct("=9Q")
SLOT = struct.Struct("=8Q")
CHUNK = struct.Struct("=4Q")
ENTRY = struct.Struct("=4Q")
HEADER_BYTES, BLOCK_BYTES = 4096, 4096
MODES = ("strict", "aged", "torn")
DATA, AGE_S, SEED = Path("/var/lib/replexplorer/data"), 30.0, 0


class Unusable(Exception):
    """Nothing can be rolled back here; in words."""


@dataclass(frozen=True)
class Entry:
    """One write that no fsync had followed: what stood there before it."""

    offset: int
    old: bytes
    """Nothing where the file only grew."""
    size_before: int
    wall_s: float


@dataclass(frozen=True)
class Kept:
    """One file's writes since its last fsync, oldest first."""

    identity: tuple[int, int, int, int]
    """Device (major, minor), inode, time of birth in ns; 0 where the file system has none."""
    kind: str
    entries: tuple[Entry, ...]


_LIBC = ctypes.CDLL(None, use_errno=True)


_STATX = struct.Struct("=32xQ40xqI44xII")
"""Of `struct statx` (statx(2)): inode, time of birth in s and ns, device."""
_STATX_BYTES, _AT_FDCWD, _AT_SYMLINK_NOFOLLOW, _STATX_INO_BTIME = 256, -100, 0x100, 0x900


def identity_of(path: Path) -> tuple[int, int, int, int] | None:
    """Device, inode and time of birth, as the shim sees them; None where there is no such file."""
    about = ctypes.create_string_buffer(_STATX_BYTES)
    if _LIBC.statx(_AT_FDCWD, os.fsencode(path), _AT_SYMLINK_NOFOLLOW, _STATX_INO_BTIME, about) != 0:
        return None
    inode, seconds, nanoseconds, major, minor = _STATX.unpack_from(about)
    return major, minor, inode, seconds * 10**9 + nanoseconds


def read(journal: mmap.mmap) -> list[Kept]:
    """All that a journal holds; raises Unusable where it is none of ours."""
    magic, version, size, _, slots, chunks, chunk_bytes, _, _ = HEADER.unpack_from(journal, 0)
    first_chunk = HEADER_BYTES + slots * SLOT.size
    ours = (fsyncpage.JOURNAL_MAGIC, fsyncpage.JOURNAL_VERSION, len(journal))
    if (magic, version, size) != ours or first_chunk + chunks * chunk_bytes > size:
        raise Unusable("the journal has another layout")
    found = []
    for slot in range(slots):
        used, device, inode, birth_ns, kind, first, _, _ = SLOT.unpack_from(
            journal, HEADER_BYTES + slot * SLOT.size
        )
        if not used or not first:
            continue
        entries: list[Entry] = []
        seen: set[int] = set()
        while first and first <= chunks and first not in seen:
            seen.add(first)
            at = first_chunk + (first - 1) * chunk_bytes
            first, filled, _, _ = CHUNK.unpack_from(journal, at)
            entries += _entries(journal, at + CHUNK.size, min(filled, chunk_bytes - CHUNK.size))
        identity = (device >> 32, device & 0xFFFFFFFF, inode, birth_ns)
        found.append(Kept(identity, fsyncpage.KINDS[kind], tuple(entries)))
    return found


def _entries(journal: mmap.mmap, at: int, filled: int) -> Iterator[Entry]:
    end = at + filled
    while at + ENTRY.size <= end:
        offset, length, size_before, wall_ns = ENTRY.unpack_from(journal, at)
        at += ENTRY.size
        yield Entry(offset, journal[at : at + length], size_before, wall_ns / 1e9)
        at += -(-length // 8) * 8


def roll_back(fd: int, kept: Kept, lost: list[Entry], rng: random.Random | None) -> int:
    """Undo what is lost of one file, newest first; with `rng` block by block. Answers how many bytes were
    put back or cut off."""
    if rng is not None:
        return _tear(fd, kept, rng)
    size = os.fstat(fd).st_size
    undone = 0
    for entry in reversed(lost):
        if entry.old:
            os.pwrite(fd, entry.old, entry.offset)
            undone += len(entry.old)
    if lost:
        undone += max(0, size - lost[0].size_before)
        os.ftruncate(fd, lost[0].size_before)
    return undone


def _tear(fd: int, kept: Kept, rng: random.Random) -> int:
    size = os.fstat(fd).st_size
    survived: dict[int, int] = {}
    """By block: how many of the entries, the oldest first, it has."""
    count = len(kept.entries)
    undone = 0
    for index in range(count - 1, -1, -1):
        entry = kept.entries[index]
        at, end = entry.offset, entry.offset + len(entry.old)
        while at < end:
            block = at // BLOCK_BYTES
            upto = min(end, (block + 1) * BLOCK_BYTES)
            if index >= survived.setdefault(block, rng.randint(0, count)):
                os.pwrite(fd, entry.old[at - entry.offset : upto - entry.offset], at)
                undone += upto - at
            at = upto
    sizes = [*(entry.size_before for entry in kept.entries), size]
    drawn = rng.choice(sizes)
    undone += max(0, size - drawn)
    os.ftruncate(fd, drawn)
    _blank_new_blocks(fd, sizes[0], drawn, rng)
    return undone


def _blank_new_blocks(fd: int, durable: int, size: int, rng: random.Random) -> None:
    """A file may have got its new length and not all of its new blocks: those read as zeroes."""
    first = -(-durable // BLOCK_BYTES)
    for block in range(first, -(-size // BLOCK_BYTES)):
        if rng.random() < 0.5:
            at = block * BLOCK_BYTES
            os.pwrite(fd, bytes(min(BLOCK_BYTES, size - at)), at)


def files_below(directory: Path) -> dict[tuple[int, int, int, int], Path]:
    """Every file of a datadir by what the journal knows it as, whatever its name is now."""
    found = {}
    for where, _, names in os.walk(directory):
        for name in names:
            path = Path(where, name)
            identity = identity_of(path)
            if identity is not None:
                found[identity] = path
                found[(*identity[:3], 0)] = path
    return found


def cut(data: Path, mode: str, *, age_s: float, seed: int, now_s: float) -> dict[str, object]:
    """Roll back a volume; answers what was done. Raises Unusable, OSError."""
    journal_path = data / "disk.page.journal"
    with ExitStack() as stack:
        try:
            page = stack.enter_context(fsyncpage.opened(data / "disk.page"))
            descriptor = os.open(journal_path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError as error:
            raise Unusable(f"no journal was kept: {Path(error.filename).name} is not there") from None
        except fsyncpage.Unreadable as error:
            raise Unusable(str(error)) from None
        stack.callback(os.close, descriptor)
        if page.held():
            raise Unusable("the server still runs")
        if os.fstat(descriptor).st_size < HEADER_BYTES:
            raise Unusable("the journal is no journal")
        journal = stack.enter_context(mmap.mmap(descriptor, 0))
        files = files_below(data)
        rng = random.Random(seed) if mode == "torn" else None
        rows = []
        for kept in read(journal):
            path = files.get(kept.identity)
            if path is None:
                continue
            lost = [entry for entry in kept.entries if mode != "aged" or entry.wall_s >= now_s - age_s]
            fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                undone = roll_back(fd, kept, lost, rng)
                os.fsync(fd)
            finally:
                os.close(fd)
            rows.append(
                {
                    "file": str(path.relative_to(data)),
                    "kind": kept.kind,
                    "writes": len(kept.entries),
                    "writes_lost": len(lost),
                    "bytes": undone,
                }
            )
        *_, slots, _, _, overflows, _ = HEADER.unpack_from(journal, 0)
        journal[HEADER_BYTES : HEADER_BYTES + slots * SLOT.size] = bytes(slots * SLOT.size)
        journal.flush()
    return {"mode": mode, "seed": seed, "files": rows, "overflows": overflows}


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="roll a killed server's files back to what was fsynced")
    parser.add_argument("--mode", choices=MODES, default="strict")
    try:
        done = cut(DATA, parser.parse_args().mode, age_s=AGE_S, seed=SEED, now_s=time.time())
    except (Unusable, OSError) as error:
        sys.stderr.write(f"powercut: {error}\n")
        return 1
    sys.stdout.write(json.dumps(done) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
