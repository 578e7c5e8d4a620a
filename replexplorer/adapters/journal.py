"""The journal of a sweep or a matrix as a file: a JSON line an entry, on the disk before the next begins."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NoReturn, TypeVar

from replexplorer.core.errors import UsageError
from replexplorer.core.records import dataclass
from replexplorer.formats.files import read_bytes

_T = TypeVar("_T")

MOST_BYTES: Final = 1 << 24
"""Of a journal that is continued: some ten thousand runs, read in less than 200 MB."""


@dataclass(eq=False)
class FileJournal:
    """`ports.Journal` in one file; a last line that a kill cut off does not count."""

    kind: str
    """`sweep` or `matrix`."""
    file: Path

    async def read(self) -> Sequence[Mapping[str, Any]]:
        """See `ports.Journal`."""
        return await self._done(self._read)

    async def begin(self, head: Mapping[str, Any]) -> None:
        """See `ports.Journal`."""
        await self._done(lambda: self._begin(head))

    async def append(self, entry: Mapping[str, Any]) -> None:
        """See `ports.Journal`."""
        await self._done(lambda: self._append(entry))

    async def set_aside(self) -> str | None:
        """See `ports.Journal`; the name gets the moment."""
        return await self._done(self._set_aside)

    async def _done(self, work: Callable[[], _T]) -> _T:
        """Run it off the event loop; an operating system's error names the file."""
        try:
            return await asyncio.to_thread(work)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise UsageError(
                f"the {self.kind}'s journal {self.file}: {reason}", "make room, or make it writable"
            ) from None

    def _read(self) -> Sequence[Mapping[str, Any]]:
        try:
            content = read_bytes(self.file, MOST_BYTES)
        except FileNotFoundError:
            return ()
        whole = content[: content.rfind(b"\n") + 1]
        if len(whole) < len(content):
            os.truncate(self.file, len(whole))
        try:
            entries = [json.loads(line, parse_constant=_refuse) for line in whole.splitlines()]
            if not all(isinstance(entry, dict) for entry in entries):
                raise ValueError
        except (ValueError, RecursionError):
            raise UsageError(
                f"the {self.kind}'s journal {self.file} is broken", "remove it to start over"
            ) from None
        return entries

    def _begin(self, head: Mapping[str, Any]) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.unlink(missing_ok=True)
        self._append(head)
        directory = os.open(self.file.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _append(self, entry: Mapping[str, Any]) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self.file, flags, 0o600), "ab") as stream:
            stream.write(json.dumps(entry, allow_nan=False).encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())

    def _set_aside(self) -> str | None:
        if not self.file.exists():
            return None
        moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        kept = self.file.with_name(f"{self.file.stem}-{moment}.jsonl")
        self.file.rename(kept)
        return str(kept)


def _refuse(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a number")
