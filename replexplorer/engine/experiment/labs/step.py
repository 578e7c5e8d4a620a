"""What a lab says while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from replexplorer.engine.experiment.labs.lab import Lab, Phase, PhaseResult


@dataclass(frozen=True, slots=True)
class LabStep:
    """What a lab does now."""

    lab: Lab
    number: int
    """Of the phase, from 1; 0 before the first."""
    doing: str
    """In the present tense: `measuring`, `waiting for n`."""
    done: float | None = None
    """0..1 of the phase, when it is known."""
    left_s: float | None = None
    """About until the lab's end."""
    results: tuple[PhaseResult, ...] = ()
    """Of each phase so far, its repeats merged."""
    repeat: int = 1
    """Which time the phases are gone through."""
    repeats: int = 1
    """Of how many."""

    @property
    def phase(self) -> Phase | None:
        """The phase under way."""
        return self.lab.phases[self.number - 1] if self.number else None


LabWatch = Callable[[LabStep], None]
