"""A sweep under way, and a finished one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from replexplorer.core.experiment.sweep import Cell, Sweep
from replexplorer.core.experiment.sweep_runs import SweptRun


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
