"""Where the client logs of one stack's `ledger` loads lie: a directory a run, a file a load process."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from replexplorer.core.errors import MissingPiece, UsageError
from replexplorer.core.loss.client_log import RunLog, read_run

_KEPT_RUNS: Final = 5


def runs_in(directory: Path) -> list[int]:
    """The runs that there are, the oldest first; raises OSError."""
    return sorted(int(each.name) for each in directory.iterdir() if each.name.isdigit())


def make_room(directory: Path) -> list[int]:
    """Let room be for one more run in a stack's directory: the oldest go. Answers those that were there, the
    oldest first; raises OSError."""
    runs = runs_in(directory)
    for old in runs[: 1 - _KEPT_RUNS]:
        shutil.rmtree(directory / str(old), ignore_errors=True)
    return runs


def forget(directory: Path) -> None:
    """Remove the client logs of a stack whose rows are gone; nothing where there are none."""
    shutil.rmtree(directory, ignore_errors=True)


class FileClientLogs:
    """`ports.ClientLogs`: a run is named by the second of its beginning, or by a later one where that is
    taken on this host or on the stack."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def newest(self) -> str | None:
        """See `ports.ClientLogs`."""
        try:
            return (
                str(self._directory / str(runs_in(self._directory)[-1])) if self._directory.exists() else None
            )
        except IndexError:
            return None
        except OSError as error:
            raise self._closed(error) from None

    async def new_run(self, claim: Callable[[int], Awaitable[int]]) -> str:
        """See `ports.ClientLogs`."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            runs = make_room(self._directory)
            # Later than any that there was: the rows of a run that is forgotten are in the table still.
            run = max(int(time.time()), runs[-1] + 1 if runs else 0)
            made = self._directory / str(await claim(run))
            made.mkdir(mode=0o700)
            return str(made)
        except OSError as error:
            raise self._closed(error) from None

    async def read(self, run: str) -> RunLog:
        """See `ports.ClientLogs`."""
        return await asyncio.to_thread(self._read, Path(run))

    def _read(self, run: Path) -> RunLog:
        # Not above: a load process on another host imports this module, and has none of what that needs.
        from replexplorer.formats.files import opened

        try:
            files = sorted(run.glob("*.log"))
            if not files:
                raise UsageError(f"{run} has no client log", "start a load of the workload `ledger`")
            with ExitStack() as streams:
                return read_run((str(file), streams.enter_context(opened(file))) for file in files)
        except OSError as error:
            raise self._closed(error) from None

    def _closed(self, error: OSError) -> MissingPiece:
        """What to raise for a directory that cannot be used."""
        why = (error.strerror or str(error)).lower()
        return MissingPiece(
            f"the client logs in {error.filename or self._directory}: {why}",
            "make room, or name another $XDG_STATE_HOME",
        )
