"""The journal of what was changed on servers that somebody else made: one file for each source.

Laws: an entry is on the disk when `append` answers. Who changes holds the file's lock, which dies with the
process: so two never change the same servers, and what a killed one left is told from what is under way. No
password is ever in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from replexplorer.core.change.journalled import Outstanding, outstanding
from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.formats.small_file import read_bytes

SUFFIX: Final = ".jsonl"
VERSION: Final = 1
_MOST_BYTES: Final = 1 << 24


def file_of(directory: Path, place: str) -> Path:
    """The journal of the source at this `host:port`."""
    return directory / f"{re.sub(r'[^A-Za-z0-9.-]', '_', place)}{SUFFIX}"


def journals(directory: Path) -> list[Path]:
    """All that are there, by name."""
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return [directory / name for name in sorted(names) if name.endswith(SUFFIX)]


class ChangeJournal:
    """One source's journal, held by this process until it is closed."""

    def __init__(self, file: Path, descriptor: int) -> None:
        self.file = file
        self._descriptor = descriptor
        self._entries: list[Mapping[str, Any]] = _entries(file)

    @classmethod
    def open(cls, file: Path) -> Self:
        """Hold it, made where it is not there. Raises StackUnavailable naming who holds it, UsageError naming
        a file that cannot be written or read."""
        try:
            file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            descriptor = os.open(file, flags, 0o600)
        except OSError as error:
            raise _unusable(file, error) from None
        held = cls._held(file, descriptor)
        return cls.open(file) if held is None else held

    @classmethod
    def _held(cls, file: Path, descriptor: int) -> Self | None:
        """The journal that is open here, locked; None where who held it has removed it meanwhile."""
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not _is_at(file, descriptor):
                os.close(descriptor)
                return None
            _sync(file.parent)
            _drop_torn_line(file, descriptor)
            return cls(file, descriptor)
        except BlockingIOError:
            os.close(descriptor)
            head = next(iter(_entries(file)), {})
            raise StackUnavailable(
                f"another `attach --allow-changes` (pid {head.get('pid', 'unknown')}) changes these servers",
                "end it first: it undoes its changes as it ends",
            ) from None
        except OSError as error:
            os.close(descriptor)
            raise _unusable(file, error) from None
        except BaseException:
            os.close(descriptor)
            raise

    @property
    def head(self) -> Mapping[str, Any]:
        """Who wrote it, and how one logs in to the servers; empty before anything was written."""
        return self._entries[0] if self._entries else {}

    @property
    def outstanding(self) -> Sequence[Outstanding]:
        """What is to be undone, the newest first; raises UsageError where it cannot be read."""
        try:
            return outstanding(self._entries)
        except (KeyError, TypeError):
            raise _broken(self.file) from None

    def begin(self, head: Mapping[str, Any]) -> None:
        """Start over, where nothing is to be undone; on the disk when this returns. Raises UsageError naming
        the file."""
        try:
            os.ftruncate(self._descriptor, 0)
        except OSError as error:
            raise _unusable(self.file, error) from None
        self._entries.clear()
        self.append(head)

    def append(self, entry: Mapping[str, Any]) -> None:
        """Add an entry; on the disk when this returns. Raises UsageError naming the file."""
        try:
            size = os.fstat(self._descriptor).st_size
            try:
                _write_all(self._descriptor, json.dumps(entry, allow_nan=False).encode() + b"\n")
                os.fsync(self._descriptor)
            except OSError:
                os.ftruncate(self._descriptor, size)  # the next entry begins a line of its own
                raise
        except OSError as error:
            raise _unusable(self.file, error) from None
        self._entries.append(dict(entry))

    async def note(self, entry: Mapping[str, Any]) -> None:
        """As `append`, beside the event loop."""
        await asyncio.to_thread(self.append, entry)

    def remove(self) -> None:
        """There is nothing to be undone any more; a file that somebody else has made there since stays."""
        with contextlib.suppress(OSError):
            if _is_at(self.file, self._descriptor):
                self.file.unlink(missing_ok=True)

    def close(self) -> None:
        """Let others hold it; one that says nothing goes. Harmless twice."""
        if self._descriptor >= 0 and not self._entries:
            self.remove()
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _entries(file: Path) -> list[Mapping[str, Any]]:
    """All whole lines; one that a kill cut off was not followed by its statement."""
    try:
        content = read_bytes(file, _MOST_BYTES)
    except OSError as error:
        raise _unusable(file, error) from None
    try:
        found = [json.loads(line) for line in content[: content.rfind(b"\n") + 1].splitlines()]
    except (ValueError, RecursionError):
        raise _broken(file) from None
    if not all(isinstance(entry, dict) for entry in found):
        raise _broken(file)
    return found


def _drop_torn_line(file: Path, descriptor: int) -> None:
    """Let the next entry begin a line of its own."""
    content = read_bytes(file, _MOST_BYTES)
    if content and not content.endswith(b"\n"):
        os.ftruncate(descriptor, content.rfind(b"\n") + 1)


def _write_all(descriptor: int, content: bytes) -> None:
    """Write all of it: a disk that is nearly full takes a part without an error."""
    while content:
        content = content[os.write(descriptor, content) :]


def _is_at(file: Path, descriptor: int) -> bool:
    """Whether this descriptor's file is the one that has the name."""
    try:
        return os.path.samestat(os.stat(file, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _broken(file: Path) -> UsageError:
    return UsageError(f"the journal of changes {file} is broken", "look at it, then remove it")


def _unusable(file: Path, error: OSError) -> UsageError:
    reason = (error.strerror or str(error)).lower()
    return UsageError(f"the journal of changes {file}: {reason}", "make room, or make it writable")


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
