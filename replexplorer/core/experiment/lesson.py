"""A lesson: what is said to a room, asked of it, done on live servers, and compared with what was measured.

Law: a lesson names no server and does nothing by itself; the dashboard, the run without a terminal and the
handout are made of the same data. Nothing that answers an open question is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, isfinite, nan
from typing import ClassVar, Final

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.drill import Doing, DrillStep
from replexplorer.core.experiment.experiment import (
    ExperimentGroup,
    ExperimentResult,
    NamedExperiment,
    Relation,
    Stage,
)
from replexplorer.core.experiment.relations import Found
from replexplorer.core.json_keys import json_keys
from replexplorer.core.knobs.names import find
from replexplorer.core.records import field, frozen, printed
from replexplorer.core.system import System

FIGURES: Final = (
    "unprotected", "acks", "lag_s", "lag_max_s", "applied_tps", "drain_s", "source_lost",
    "process_dies", "power_cut", "rto_ms", "binlog_bytes",
)  # fmt: skip
"""What a question may name of a measured step besides the figures of a lab's phase."""
_AROUND_S: Final = 3.0
"""The load settles, the link is measured."""


@frozen
class LessonChoice:
    """One answer to choose: it is right while the figure lies in its range."""

    text: str
    least: float = -inf
    most: float = inf
    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}


@frozen
class LessonQuestion:
    """What is asked before a step is done."""

    text: str
    figure: str
    """What it asks for, as a relation names figures: `tps`, `tps / local.tps`, `lost`."""
    answer: float | str
    """What the lesson expects: a number, figures that give it (`round_trip_tps`), or a choice's text."""
    within: float = 0.15
    """A number is right when it differs from what was measured by this share at most."""
    unit: str = ""
    choices: tuple[LessonChoice, ...] = ()
    """Empty: a number is asked for."""
    seconds: float = 8.0
    """How long the load is measured for it, once the step is done."""
    sql: str = ""
    """What one would type in `mysql` to see the figure; for the handout."""
    __pydantic_config__: ClassVar = {"extra": "forbid", "allow_inf_nan": False}

    def read(self, given: float | str) -> float | str:
        """An answer as it was typed or chosen; raises UsageError for what cannot be one."""
        if self.choices:
            texts = [each.text for each in self.choices]
            if given not in texts:
                raise UsageError(f"{given!r} is not one of the choices", f"choose {', '.join(texts)}")
            return given
        try:
            number = float(given)
        except ValueError:
            number = nan
        if not isfinite(number):
            raise UsageError(f"{given!r} is not a number", f"type one{f' in {self.unit}' * bool(self.unit)}")
        return number

    def answered(self, step: str, given: float | str | None, found: Found) -> Answered:
        """An answer, None where it was revealed, compared with what was measured."""
        expected = self.answer if self.choices else found.known(self.answer)
        measured, judged = found.known(self.figure), expected if given is None else given
        is_right = None
        if measured is not None and judged is not None:
            is_right = any(
                each.text == judged and each.least <= measured <= each.most for each in self.choices
            )
            if isinstance(judged, float):
                is_right = abs(judged - measured) <= self.within * abs(measured)
        return Answered(step, self.text, self.unit, given, expected, measured, is_right)

    @property
    def words(self) -> str:
        """The question with its choices, each with the number to type."""
        return " ".join([self.text, *(f"({at}) {each.text}" for at, each in enumerate(self.choices, 1))])


@frozen
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
    ask: LessonQuestion | None = None

    @property
    def runs(self) -> bool:
        """A lab or a drill, whose figures are asked for: no load is measured."""
        return any(each.doing in (Doing.LAB, Doing.DRILL) for each in self.do)

    @property
    def seconds(self) -> float:
        """About how long it takes to do it and to measure."""
        measured_s = _AROUND_S + self.ask.seconds if self.ask and not self.runs else 0.0
        return measured_s + sum(each.seconds(quick=False) for each in self.do)


@frozen
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

    @property
    def turns(self) -> tuple[str, ...]:
        """Keys of the knobs that its steps name."""
        texts = (text for step in self.steps for each in step.do for text in each.settings)
        return tuple(dict.fromkeys(text.partition("=")[0] for text in texts))

    def seconds(self, *, quick: bool) -> float:
        """How long it takes with a class; `quick` about how long without one."""
        return sum(step.seconds for step in self.steps) if quick else 60.0 * self.minutes

    def unfit(self, system: System) -> str:
        """What it turns that the system lacks; empty: nothing."""
        lacking = [key for key in self.turns if not system.has(find(key.partition("@")[0]))]
        return f"turns {', '.join(lacking)}, which {system.title} lacks" if lacking else ""


@frozen
class Answered:
    """What became of one question."""

    step: str
    asked: str
    unit: str
    given: float | str | None
    """By the class; None: it was revealed, or no one was there to answer."""
    expected: float | str | None
    """By the lesson; None where a figure for it was not measured."""
    measured: float | None
    """On these servers; None: it could not be."""
    is_right: bool | None
    """The given answer, or the lesson's own where none was given; None: nothing was measured."""

    @property
    def evidence(self) -> str:
        """`expected 11.6 TPS, measured 11.5 TPS`, choices in quotes."""
        told = {"given": self.given, "expected": self.expected, "measured": self.measured}
        return ", ".join(
            f'{name} "{each}"' if isinstance(each, str) else f"{name} {figure_text(each, self.unit)}"
            for name, each in told.items()
            if each is not None
        )

    @property
    def words(self) -> str:
        """`right: expected ..., measured ...`."""
        return f"{_VERDICTS[self.is_right]}: {self.evidence}"

    @property
    def short(self) -> str:
        """`semi-sync 12 TPS, right`; one that was revealed has a dash."""
        return f"{self.step} {figure_text(self.given, self.unit)}, {_VERDICTS[self.is_right]}"

    @property
    def relation(self) -> Relation:
        """That the answer is right."""
        return Relation(f"{self.step}: {self.asked}", bool(self.is_right), self.evidence)


def figure_text(value: float | str | None, unit: str) -> str:
    """`11.6 TPS`; a choice as it is, and `-` for what is not known."""
    if value is None or isinstance(value, str):
        return value or "-"
    digits = 0 if value == int(value) or abs(value) >= _WHOLE else 2
    return f"{value:,.{digits}f} {unit}".rstrip()


_VERDICTS: Final = {True: "right", False: "wrong", None: "not measured"}
_WHOLE: Final = 100
"""From here on a figure is told without decimals."""


@frozen
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
    question: str = ""
    """With its choices; empty where the step asks nothing."""
    answers: tuple[Answered, ...] = ()


@json_keys(
    hide="lesson started_wall_s relations", show="lesson=lesson.name title=lesson.title started verdict"
)
@printed
class LessonResult(ExperimentResult):
    """What a lesson came to; of a run without a terminal each question's own answer, judged."""

    judged: ClassVar = "answers"
    lesson: Lesson
    answers: list[Answered] = field(default_factory=list)
    figures: Mapping[str, float] = field(default_factory=dict)
    """All that was measured, `STEP.FIGURE`."""

    @property
    def experiment(self) -> NamedExperiment:
        """What was given."""
        return self.lesson
