"""What a drill says while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from replexplorer.core.experiment.drill import Drill, DrillStep


@dataclass(frozen=True, slots=True)
class DrillProgress:
    """What a drill does now."""

    drill: Drill
    number: int
    """Of the step, from 1; 0 before the first and when rows are compared."""
    doing: str
    """In the present tense: `inject kill`, `comparing rows`."""
    done: float | None = None
    """0..1 of the step, when it is known."""
    left_s: float | None = None
    """About until the drill's end."""

    @property
    def step(self) -> DrillStep | None:
        """The step under way."""
        return self.drill.steps[self.number - 1] if self.number else None


DrillWatch = Callable[[DrillProgress], None]
