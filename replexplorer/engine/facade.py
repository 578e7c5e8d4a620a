"""What one can do with a stack: the one surface behind the dashboard, the verbs and the labs.

`session.Session` is it on live servers; a replayer is it over a recording; tests use a fake.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

from replexplorer.core.experiment.sweep import Sweep
from replexplorer.core.experiment.swept import SweepReport, Swept
from replexplorer.core.knobs.names import Assignment
from replexplorer.core.tick import Tick
from replexplorer.engine.change.outcome import Preview, SetResult
from replexplorer.engine.experiment.labs.lab import Lab, LabResult
from replexplorer.engine.experiment.labs.step import Conductor, LabWatch
from replexplorer.engine.view import ProgressCallback


class Facade(Protocol):
    """A stack that can be watched and turned."""

    async def start(self, progress: ProgressCallback) -> None:
        """Bring the stack up or attach to it, and start the load; raise ReplexplorerError."""
        ...

    def ticks(self) -> AsyncIterator[Tick]:
        """The picture, twice a second, until `close`; a slow reader skips, it never queues."""
        ...

    def parse(self, text: str) -> Assignment:
        """`KEY[@NODE]=VALUE` checked against this stack; raise UsageError in one line."""
        ...

    def preview(self, assignments: Sequence[Assignment]) -> Preview:
        """What `set` would run and warn of."""
        ...

    async def set(self, assignments: Sequence[Assignment], *, dry_run: bool = False) -> SetResult:
        """Turn knobs in the safe order and wait until they are effective, or roll back and raise."""
        ...

    async def reset(self) -> SetResult:
        """All knobs to their defaults."""
        ...

    async def undo(self) -> SetResult:
        """Take the last `set` or `reset` back that was not taken back yet, one at each call.

        An undo itself cannot be undone. Raise UsageError when there is nothing left.
        """
        ...

    async def toggle_load(self) -> bool:
        """Stop or start the background load; answers whether it runs now."""
        ...

    async def mark(self, text: str) -> None:
        """Put a numbered mark of the operator's own on the charts and into the log."""
        ...

    async def sweep(self, wanted: Sweep, report: SweepReport, *, fresh: bool = False) -> Swept:
        """Measure every combination, continuing an unfinished sweep of the same unless `fresh`; the
        knobs are given back whatever happens. Raise UsageError, StackUnavailable."""
        ...

    async def lab(self, lab: Lab, *, quick: bool, watch: LabWatch, conductor: Conductor) -> LabResult:
        """Run a lab; everything it turned is given back whatever happens. Raise UsageError,
        StackUnavailable; a server that dies meanwhile is the result's `aborted`."""
        ...

    async def repair(self, progress: ProgressCallback) -> tuple[str, ...]:
        """Bring dead nodes back, start stopped threads, re-apply what was requested; answers what was
        done, nothing when all was well. Raise StackUnavailable."""
        ...

    async def give_back(self, yes: bool) -> None:
        """Answer `Tick.lost`: re-apply what restarts took, or leave it."""
        ...

    async def close(self, *, keep: bool = False) -> str:
        """Stop the load and disconnect; answers in one line what is left behind.

        `keep` leaves the stack whatever is configured: a dropped terminal never removes one.
        """
        ...
