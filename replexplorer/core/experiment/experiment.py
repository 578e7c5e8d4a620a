"""What labs, drills and the matrix have in common: stages that are gone through, and how one ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from math import inf
from typing import ClassVar, NamedTuple, Protocol

from replexplorer.core.json_keys import json_keys
from replexplorer.core.records import frozen, printed
from replexplorer.core.system import Conditions, System
from replexplorer.core.text import utc_ms


class Stage(NamedTuple):
    """A phase of a lab, a step of a drill, or a cell of the matrix."""

    name: str
    shows: str
    """What to watch."""


class ExperimentGroup(StrEnum):
    """What experiments are about, in the order of lists."""

    LESSONS = "lessons"
    """Explained step by step, with questions."""
    COST = "cost"
    """What a setting costs."""
    PROTECTION = "protection"
    """What an acknowledgement is worth."""
    FAILURES = "failures"
    """What is lost, of a source and its replicas."""
    SYSTEMS = "systems"
    """Group Replication and Galera."""


class NamedExperiment(Protocol):
    """Something that can be run by its name."""

    @property
    def kind(self) -> str:
        """`lab` or `drill`: the verb that runs it."""

    @property
    def name(self) -> str:
        """As it is typed."""

    @property
    def title(self) -> str:
        """In a line."""

    @property
    def teaches(self) -> str:
        """What it shows, in a sentence."""

    @property
    def group(self) -> ExperimentGroup:
        """What it is about."""

    @property
    def stages(self) -> Sequence[Stage]:
        """All of them, in order."""

    @property
    def turns(self) -> tuple[str, ...]:
        """Keys of the knobs that it turns, `KEY@NODE` where the node is named."""

    def seconds(self, *, quick: bool) -> float:
        """About how long it takes."""

    def unfit(self, system: System) -> str:
        """What keeps it from running on a stack of this system, as what it `needs` or `turns`; empty:
        nothing."""


@json_keys(hide="ratio least most", is_open="open")
@frozen
class Relation:
    """What must hold between the figures, and what was found."""

    name: str
    holds: bool
    evidence: str
    checked: bool = True
    """False: a figure to look at, which nothing depends on."""
    ratio: float | None = None
    """What was found, divided by what it is compared with; None where that is no number."""
    least: float = 0.0
    most: float = inf
    """It holds while the ratio lies between these."""
    is_open: bool = False
    """The repeats' interval includes a bound: neither was shown, that it holds or that it does not."""

    @property
    def word(self) -> str:
        """`holds`, `deviates`, `open` where the repeats leave it open, `shown` where nothing was checked."""
        if not self.checked:
            return "shown"
        return "open" if self.is_open else "holds" if self.holds else "deviates"


@printed
class ExperimentResult:
    """What a run of one came to."""

    server: str = ""
    """What ran there."""
    started_wall_s: float = 0.0
    """When its first stage began; seconds since 1970, UTC."""
    quick: bool = False
    aborted: str | None = None
    """Why it ended before its last stage; None: it did not."""
    unrestored: tuple[str, ...] = ()
    """What could not be returned yet, and what becomes of it."""
    relations: Sequence[Relation] = ()
    """What must hold, and what was found."""
    conditions: Conditions | None = None
    """Before it began."""
    again: Sequence[str] = ()
    """The commands that run the same elsewhere."""
    judged: ClassVar[str] = ""
    """What `held` are."""

    @property
    def experiment(self) -> NamedExperiment:
        """What was run."""
        raise NotImplementedError

    @property
    def held(self) -> Sequence[bool | None]:
        """Whether each of what must hold does; None: it was not judged."""
        return [each.holds for each in self.relations]

    @property
    def told(self) -> str:
        """What else its end says."""
        return ""

    @property
    def started(self) -> str:
        """When its first stage began, UTC."""
        return utc_ms(self.started_wall_s)

    @property
    def verdict(self) -> str:
        """holds, deviates, or aborted where it was and nothing deviates."""
        if False in self.held:
            return "deviates"
        return "aborted" if None in self.held or self.aborted is not None else "holds"

    @property
    def ending(self) -> str:
        """The end in a line: `lab tour: deviates, 2 of 13 relations`."""
        text = f"{self.experiment.kind} {self.experiment.name}: {self.verdict}{self.told}"
        if self.aborted is not None:
            text += f", {self.aborted}"
        elif False in self.held:
            text += f", {self.held.count(False)} of {len(self.held)} {self.judged}"
        if self.unrestored:
            text += f"; not restored: {'; '.join(self.unrestored)}"
        return text


@frozen
class Try:
    """One try of a writer and a reader: when the row was seen, when its COMMIT returned. Milliseconds since
    the writer's statement was sent."""

    phase: str
    number: int
    """Within the phase, from 1."""
    lasts_ms: float
    """So far."""
    seen_ms: float | None = None
    """None: the reader does not see the row yet."""
    returned_ms: float | None = None
    """None: the writer still waits."""
    apart_ms: float = 0.0
    """The reply to the writer and the reader's next look are never so far apart."""

    @property
    def is_early(self) -> bool:
        """The row is seen before its COMMIT returns."""
        until_ms = self.lasts_ms if self.returned_ms is None else self.returned_ms
        return self.seen_ms is not None and until_ms - self.seen_ms > self.apart_ms


@frozen
class ExperimentProgress:
    """What an experiment does now."""

    experiment: NamedExperiment
    number: int
    """Of the stage, from 1; 0 before the first and after the last."""
    doing: str
    """In the present tense: `measuring`, `comparing rows`."""
    done: float | None = None
    """0..1 of the stage, when it is known."""
    left_s: float | None = None
    """About until the experiment's end."""
    repeat: int = 1
    """Which time the stages are gone through."""
    repeats: int = 1
    """Of how many."""
    run_stages: Sequence[Stage] | None = None
    """Those of this run, where it is of some of them; None: all."""
    ended: str = ""
    """What the stage has just come to, in a line."""
    kept: int = 0
    """Stages of this run that the next one need not run again, if this ends now."""
    tries: Sequence[Try] = ()
    """Where stages are tries of a writer and a reader; the last one may be under way."""

    @property
    def stages(self) -> Sequence[Stage]:
        """Those of this run."""
        return self.experiment.stages if self.run_stages is None else self.run_stages

    @property
    def stage(self) -> Stage | None:
        """The one under way."""
        return self.stages[self.number - 1] if self.number else None


Watch = Callable[[ExperimentProgress], None]
