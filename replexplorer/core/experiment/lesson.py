"""A lesson: what is said to a room, asked of it, done on live servers, and compared with what was measured.

Law: a lesson names no server and does nothing by itself; the dashboard, the run without a terminal and the
handout are made of the same data. Nothing that answers an open question is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import ClassVar

from replexplorer.core.experiment.drill import DrillStep
from replexplorer.core.experiment.experiment import ExperimentGroup, ExperimentResult, Stage
from replexplorer.core.experiment.relations import Found


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer to choose: it is right while the figure lies in its range."""

    text: str
    least: float = -inf
    most: float = inf


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked before a step is done."""

    text: str
    figure: str
    """What it asks for, as a relation names figures: `tps`, `tps / local.tps`, `lost`."""
    answer: float | str
    """What the lesson expects: a number, figures that give it (`round_trip_tps`), or a choice's text."""
    within: float = 0.15
    """A number is right when it differs from what was measured by this share at most."""
    unit: str = ""
    choices: tuple[Choice, ...] = ()
    """Empty: a number is asked for."""
    seconds: float = 8.0
    """How long the load is measured for it, once the step is done."""
    sql: str = ""
    """What one would type in `mysql` to see the figure; for the handout."""

    def is_right(self, given: float | str, measured: float) -> bool:
        """Whether an answer is, by what was measured."""
        if self.choices:
            chosen = next((each for each in self.choices if each.text == given), None)
            return chosen is not None and chosen.least <= measured <= chosen.most
        return isinstance(given, float) and abs(given - measured) <= self.within * abs(measured)

    def expected(self, found: Found) -> float | str:
        """The lesson's own answer; of figures what they give."""
        return self.answer if self.choices else found.value(self.answer)


@dataclass(frozen=True, slots=True)
class LessonStep:
    """One step: what is said, then what is asked, then what is done."""

    name: str
    """In a few words; later steps name its figures by it: `local.tps`."""
    say: str
    """To the room."""
    note: str = ""
    """To the trainer alone."""
    do: tuple[DrillStep, ...] = ()
    """Done once the question is answered; of a step without one at its beginning."""
    ask: Question | None = None


@dataclass(frozen=True, slots=True)
class Lesson:
    """A named lesson."""

    kind: ClassVar = "lesson"
    """The command that gives it."""
    name: str
    title: str
    teaches: str
    minutes: int
    steps: tuple[LessonStep, ...]

    @property
    def group(self) -> ExperimentGroup:
        """Lessons stand before all else."""
        return ExperimentGroup.LESSONS

    @property
    def stages(self) -> Sequence[Stage]:
        """Its steps."""
        return [Stage(step.name, step.say) for step in self.steps]


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of one question."""

    step: str
    asked: str
    unit: str
    given: float | str | None
    """By the class; None: it was revealed, or nobody was there to answer."""
    expected: float | str | None
    """By the lesson; None where a figure for it was not measured."""
    measured: float | None
    """On these servers; None: it could not be."""
    is_right: bool | None
    """The given answer, or the lesson's own where none was given; None: nothing was measured."""


@dataclass(frozen=True, slots=True)
class LessonState:
    """Where a lesson is, as a trainer's second terminal and the class's list see it."""

    lesson: str
    title: str
    minutes: int
    began_wall_s: float
    number: int
    """Of the step, from 1."""
    of: int
    step: str
    note: str
    is_open: bool
    """Its question waits for an answer."""
    answers: tuple[Answered, ...] = ()


@dataclass(slots=True, kw_only=True)
class LessonResult(ExperimentResult):
    """What a run without a terminal came to: each question's own answer, judged."""

    lesson: Lesson
    answers: list[Answered] = field(default_factory=list)
    figures: Mapping[str, float] = field(default_factory=dict)
    """All that was measured, `STEP.FIGURE`."""
