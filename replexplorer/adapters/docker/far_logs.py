"""Client logs of a stack on several hosts (`ports.ClientLogs`): each is written on the disk beside its load
process, so that an intent costs no way over the wire, and copied to this machine when somebody reads it.

Law: an account is whole or refused. Whose file is on a host that does not answer is known here, by a note
beside the copies that is made before the process begins; times are put on this machine's clock.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from replexplorer.adapters.client_logs import FileClientLogs
from replexplorer.adapters.docker.load_host import LOGS
from replexplorer.core.errors import MissingPiece, StackUnavailable, UsageError
from replexplorer.core.loss.client_log import RunLog, at_another_clock
from replexplorer.formats.small_file import read_bytes
from replexplorer.formats.whole_file import whole_binary_file

_MOST_BYTES: Final = 4096
_US_PER_S: Final = 1_000_000

Fetch = Callable[[str, str], AsyncIterator[bytes]]
"""What a file holds now, by its host and its path there, in pieces: nothing where there is none. Raises
StackUnavailable where the host does not answer."""


@dataclass(frozen=True, slots=True)
class _Far:
    """One process's file."""

    number: int
    host: str
    ahead_s: float
    """The host's monotonic clock less ours."""


class FarClientLogs:
    """The runs are those of this machine's directory."""

    def __init__(self, logs: FileClientLogs, fetch: Fetch) -> None:
        self._logs = logs
        self._fetch = fetch

    def newest(self) -> str | None:
        """See `ports.ClientLogs`."""
        return self._logs.newest()

    async def new_run(self, claim: Callable[[int], Awaitable[int]]) -> str:
        """See `ports.ClientLogs`."""
        return await self._logs.new_run(claim)

    def place(self, run: str, host: str, ahead_s: float) -> tuple[str, int]:
        """Where a process on a host is to write the next file of a run: its directory there, its number.
        Raises MissingPiece."""
        content = json.dumps({"host": host, "ahead_s": ahead_s}).encode()
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        for number in itertools.count():
            note = Path(run) / f"{number}.far"
            try:
                with os.fdopen(os.open(note, flags, 0o600), "wb") as stream:
                    stream.write(content)
            except FileExistsError:
                continue
            except OSError as error:
                why = (error.strerror or str(error)).lower()
                raise MissingPiece(f"{note} cannot be written: {why}", "make room there") from None
            return f"{LOGS}/{Path(run).name}", number
        raise AssertionError("unreachable")

    async def read(self, run: str) -> RunLog:
        """See `ports.ClientLogs`; raises StackUnavailable naming a host that is away."""
        await asyncio.gather(*(self._bring(Path(run), far) for far in _far_files(Path(run))))
        return await self._logs.read(run)

    async def _bring(self, run: Path, far: _Far) -> None:
        """Copy a file as it is now."""
        ahead_us, rest = round(far.ahead_s * _US_PER_S), b""
        try:
            with whole_binary_file(run / f"{far.number}.log", mode=0o600) as copy:
                async for content in self._fetch(far.host, f"{LOGS}/{run.name}/{far.number}.log"):
                    *lines, rest = (rest + content).split(b"\n")
                    copy.writelines(at_another_clock(line + b"\n", ahead_us) for line in lines)
                copy.write(rest)  # not finished yet
        except StackUnavailable as error:
            raise StackUnavailable(
                f"{error.message}; what clients of the load were told is kept there", error.hint
            ) from None


def _far_files(run: Path) -> list[_Far]:
    """The files of a run that are on other hosts; raises UsageError naming a note that is none."""
    return [_noted(note) for note in sorted(run.glob("*.far"))]


def _noted(note: Path) -> _Far:
    try:
        content = json.loads(read_bytes(note, _MOST_BYTES))
        return _Far(int(note.stem), str(content["host"]), float(content["ahead_s"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(f"{note} does not say where a client log is", "reckon another run") from None
