"""What a lab tells while it runs, and a presenter's hand on it."""

from __future__ import annotations

import asyncio
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

    @property
    def phase(self) -> Phase | None:
        """The phase under way."""
        return self.lab.phases[self.number - 1] if self.number else None


LabWatch = Callable[[LabStep], None]


class Conductor:
    """A presenter's hand on a lab: pause and next."""

    def __init__(self, *, by_hand: bool = False) -> None:
        """`by_hand`: each phase waits for `next`, its load running on meanwhile."""
        self.by_hand = by_hand
        self.paused = False
        self.waits = False
        """The next phase waits for somebody now."""
        self.aborted: str | None = None
        """Why somebody ended the lab; the cancel that follows ends it as aborted."""
        self._go = asyncio.Event()

    def abort(self, why: str) -> None:
        """Say why, before the lab's task is cancelled: it then answers with what it has."""
        self.aborted = why

    def toggle(self) -> bool:
        """Pause before the next phase, or go on; whether it is paused now."""
        self.paused = not self.paused
        self._go.set()
        return self.paused

    def next(self) -> None:
        """Begin the next phase now."""
        self.paused = False
        self._go.set()

    @property
    def holds(self) -> bool:
        """Whether the next phase waits for somebody."""
        return self.paused or self.by_hand

    async def gate(self) -> None:
        """Wait until the next phase may begin."""
        self._go.clear()
        self.waits = True
        try:
            while self.holds:
                await self._go.wait()
                self._go.clear()
                if not self.paused:
                    return
        finally:
            self.waits = False
