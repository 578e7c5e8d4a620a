"""A class: a stack for each student, where it is, and whether a machine has room for all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from replexplorer.core.errors import UsageError
from replexplorer.core.limits import MORE_AIO, ServerLimits, server_aio

MOST_STUDENTS: Final = 200
STUDENT: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,19}")
"""What a student may be called: it becomes part of the stack's name."""
CLASS: Final = re.compile(r"[a-z0-9][a-z0-9_]{0,17}")
"""What a class may be called."""

SERVER_BYTES: Final = 500 << 20
"""Memory of an idle server of a class with its sidecar (docs/classroom.md), and a little more."""
SERVER_DISK_BYTES: Final = 420 << 20
"""Disk of a server: data that is as it was made, redo log, and binlogs of a lesson."""
RESERVED_BYTES: Final = 2 << 30
"""Memory, and disk as well, that is left to the machine itself."""

VERBS: Final = (
    "set",
    "get",
    "reset",
    "scene",
    "fault",
    "load",
    "failover",
    "switchover",
    "rejoin",
    "check-schema",
)
"""What `classroom do` carries out for each student."""


@dataclass(frozen=True, slots=True)
class ClassRoll:
    """The students of a class, and how each one's stack was asked for."""

    name: str
    hosts: Mapping[str, str]
    """Student to Docker host; empty: this machine."""
    replicas: int = 1
    limits: ServerLimits = field(default_factory=ServerLimits)
    flavor: str | None = None
    """Which server the stacks run; None: what the configuration says."""
    settled: frozenset[str] = frozenset()
    """Students whose stack once came up whole and has its small buffer pool."""

    def stack(self, student: str) -> str:
        """The name of a student's stack."""
        return f"{self.name}-{student}"

    def words(self, student: str) -> list[str]:
        """What `up` of a student's stack is told."""
        words = ["--replicas", str(self.replicas)]
        if self.flavor is not None:
            words += ["--flavor", self.flavor]
        if self.limits.cpus is not None:
            words += ["--cpus", f"{self.limits.cpus:g}"]
        if self.limits.memory_bytes is not None:
            words += ["--memory", str(self.limits.memory_bytes >> 20)]
        if self.hosts[student]:
            for number in range(1, self.replicas + 2):
                words += ["--on", f"db{number}={self.hosts[student]}"]
        return words


@dataclass(frozen=True, slots=True)
class Room:
    """What a machine has left for more stacks."""

    memory_bytes: int
    disk_bytes: int | None
    """None: not known from here."""
    aio: int | None = None
    """Requests of asynchronous I/O that nobody has set aside yet; None: not known from here."""


def numbered(count: int) -> list[str]:
    """`student1`, `student2`, ..."""
    return [f"student{number}" for number in range(1, count + 1)]


def names_in(text: str, file: str) -> list[str]:
    """The students of a file, one a line; empty lines and `#` comments are skipped. Raises UsageError that
    names the line."""
    found: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        name = line.partition("#")[0].strip()
        if not name:
            continue
        if STUDENT.fullmatch(name) is None:
            raise UsageError(
                f"{file} line {number}: {name!r} is no name for a student",
                "1 to 20 lower-case letters, digits, - and _, as anna or team-2",
            )
        if name in found:
            raise UsageError(
                f"{file} line {number}: {name} stands there twice", "give each a name of its own"
            )
        found.append(name)
    if not 1 <= len(found) <= MOST_STUDENTS:
        raise UsageError(f"{file} names {len(found)} students", f"1 to {MOST_STUDENTS}, one a line")
    return found


def placed(names: Iterable[str], hosts: Sequence[str], has: Mapping[str, str]) -> dict[str, str]:
    """Student to host: who `has` a place keeps it, each other one goes to the host with the fewest."""
    found = dict(has)
    for name in names:
        if name not in found:
            taken = list(found.values())
            found[name] = min(hosts, key=taken.count) if hosts else ""
    return found


def stack_bytes(replicas: int) -> tuple[int, int]:
    """Memory and disk that an idle stack takes."""
    return SERVER_BYTES * (replicas + 1), SERVER_DISK_BYTES * (replicas + 1)


def fitting(room: Room, replicas: int, flavor: str | None = None) -> int:
    """How many stacks fit a machine beside what runs there; None: of whichever server."""
    memory, disk = stack_bytes(replicas)
    fits = max(room.memory_bytes - RESERVED_BYTES, 0) // memory
    if room.disk_bytes is not None:
        fits = min(fits, max(room.disk_bytes - RESERVED_BYTES, 0) // disk)
    aio = server_aio(flavor) * (replicas + 1)
    if room.aio is not None and aio:
        fits = min(fits, max(room.aio, 0) // aio)
    return fits


def shortage(room: Room, wanted: int, replicas: int, where: str, flavor: str | None = None) -> str | None:
    """Why that number of stacks does not fit, with figures; None where it does."""
    if wanted <= fitting(room, replicas, flavor):
        return None
    memory, disk = stack_bytes(replicas)
    aio = server_aio(flavor) * (replicas + 1) * wanted
    if room.aio is not None and aio > room.aio:
        return (
            f"{wanted} more stacks need {aio} requests of asynchronous I/O, and {where} has {room.aio} left"
            f" of fs.aio-max-nr: `{MORE_AIO}` raises it"
        )
    has = "" if room.disk_bytes is None else f" and {_gib(room.disk_bytes)} of disk"
    needs = [_gib(wanted * each + RESERVED_BYTES) for each in (memory, disk)]
    return (
        f"{wanted} more stacks need {needs[0]} of memory and {needs[1]} of disk, and {where} has"
        f" {_gib(room.memory_bytes)}{has} left"
    )


def worst(codes: Iterable[int]) -> int:
    """The exit code of several: the greatest; of a signal's end 130."""
    return max((130 if code < 0 else code for code in codes), default=0)


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"
