"""What one can do with a stack: the one surface behind the dashboard, the verbs and the labs.

`session.Session` is it on live servers; a replayer is it over a recording; tests use a fake.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from replexplorer.core.experiment.sweep import Cell, Sweep
from replexplorer.core.experiment.sweep_runs import SweptRun
from replexplorer.core.knobs.names import Assignment, KnobName, Value
from replexplorer.core.tick import Tick
from replexplorer.engine.experiment.labs.lab import Lab, LabResult
from replexplorer.engine.experiment.labs.step import Conductor, LabWatch


@dataclass(frozen=True, slots=True)
class Progress:
    """A step of long work, for a line on stderr or the start-up screen."""

    text: str
    """What is being done now, in the present tense: `building the MySQL image`."""
    done: float | None = None
    """0..1 when it can be told."""


ProgressCallback = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class Changed:
    """One knob that a `set` turned."""

    name: KnobName
    before: Value | None
    requested: Value
    effective: Value | None
    took_ms: float
    statements: tuple[str, ...] = ()
    note: str | None = None
    measured_ms: float | None = None
    """What is measured since: the round trip of a link, an fsync of a disk; None where neither is
    turned, or nothing could be measured."""


@dataclass(frozen=True, slots=True)
class SetResult:
    """What a `set`, `reset` or `undo` did."""

    changed: tuple[Changed, ...]
    warnings: tuple[str, ...] = ()
    rolled_back: bool = False
    dry_run: bool = False
    unchanged: tuple[KnobName, ...] = ()
    """Asked, and already so."""
    unmet: tuple[str, ...] = ()
    """Asked again, set, and without effect: what could not be mended, each in a line."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What a value would do, told before it is applied; computed from what is known, no I/O."""

    statements: tuple[str, ...]
    """As they would run, each with its node's name when it is not the primary's."""
    undo: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SweepProgress:
    """A sweep under way."""

    sweep: Sweep
    runs: tuple[SweptRun, ...]
    """All that were made so far, failed ones too."""
    done: int
    """Of `sweep.total`."""
    cell: Cell | None
    """The one that begins or has just ended."""
    run: SweptRun | None
    """What it measured; None while it runs."""
    left_s: float
    """About how long the rest takes."""
    note: str | None = None
    """Something that happened beside the runs."""


SweepReport = Callable[[SweepProgress], None]


@dataclass(frozen=True, slots=True)
class Swept:
    """A finished sweep."""

    sweep: Sweep
    seed: int
    runs: tuple[SweptRun, ...]
    server: str
    started_wall_s: float
    """Its first run, maybe before a kill."""
    ended_wall_s: float
    resumed: int
    """Runs that were made before this call."""
    journal: str | None
    """The file that has all of it."""


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
