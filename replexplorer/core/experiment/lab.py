"""What a lab is: phases, what was published, what must hold, and what a run of it found.

A lab is data and, where its phases are not just a load, a short script (`Phase.play`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from statistics import fmean, median, stdev
from typing import Any, ClassVar, Final

from replexplorer.core.experiment.experiment import ExperimentGroup, ExperimentResult, Relation, Stage
from replexplorer.core.json_keys import json_keys
from replexplorer.core.knobs.names import KnobName, Value, find, parse_value
from replexplorer.core.records import dataclass, field, frozen, replace
from replexplorer.core.server.counters import CommitCost
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.stats.histogram import Histogram, Latency
from replexplorer.core.stats.measured import t_quantile_975
from replexplorer.core.stats.ratio import Ratio, repeated
from replexplorer.core.system import System

RETRIED: Final = "rolled back and tried again"
REFUSED: Final = "refused by certification"
GAVE_WAY: Final = "gave way before certification"
"""Figures of a phase in a group that rolled transactions back: as clients were told, as members counted."""
REPEATS: Final = 3
"""Runs of each phase in full mode: as many as an interval needs."""
_TURNING_S: Final = 4.0
STACK_S: Final = 20.0
"""A stack of the lab's own: brought up, its load made ready, removed."""
_SAME_ROWS: Final = 0.02
"""A load that counts its commits once an interval makes a few more than were asked for."""
_ROWS_PER_S: Final = 20_000
"""That a load's table is made with, about, where servers and load share two cores."""


@frozen
class Publication:
    """The published experiment that a lab reruns."""

    title: str
    author: str
    url: str | None = None
    setup: str = ""
    """Servers, link and load of then, in a line."""


@frozen
class Published:
    """A published figure, in its author's own unit and digits."""

    value: float
    unit: str = "tps"
    """`tps`, `s`, `ms`."""
    rows: int | None = None
    """Rows that these seconds were taken for; None: it does not depend on a number of rows."""


@frozen
class InAuthorsUnit:
    """Our figure in the unit of a published one."""

    value: float
    unit: str
    rows: int | None = None
    """Of another number of rows than was published, and the value is what those would have taken at the
    same pace; None: nothing was scaled."""


@frozen
class Reference:
    """A line to compare all phases with, which nothing measured here."""

    name: str
    tps: float


@frozen
class SummaryRow:
    """A row of a summary: what it is, and a value for each column; None where there is none."""

    name: str
    values: tuple[float | str | None, ...]


@frozen
class Summary:
    """What a lab comes to, in one table that can be read from afar."""

    title: str
    columns: tuple[str, ...]
    """What is compared: a heading each."""
    rows: tuple[SummaryRow, ...]


@frozen
class Length:
    """How long a phase is measured."""

    seconds: float
    """About how long it takes; exactly so where no commits are counted."""
    commits: int | None = None
    """Measured until this many commits are acknowledged."""


Play = Callable[[Any], Awaitable[Any]]
"""The script of a phase that does more than let the load run, called by what runs it
(`engine.experiment.phase`)."""
Figures = Mapping[str, float | str]
"""What a phase found besides its load: name with unit to value."""


@frozen
class Phase:
    """One stretch of a lab."""

    name: str
    settings: tuple[str, ...]
    """`KEY=VALUE` as they are typed; what is not named stays as the phase before left it."""
    full: Length
    quick: Length
    """Under --quick: shorter, never another method."""
    state: ProtectionState
    """The protection state that is asked for."""
    shows: str
    """One sentence: what to watch."""
    published: Published | None = None
    replicas: int | None = None
    """How many replicas are attached; the others' IO threads are stopped. None: all there are."""
    faults: tuple[str, ...] = ()
    """In force while it is measured, as they are typed: `applier_stop@replica`."""
    published_figures: Mapping[str, Published] = field(default_factory=dict, hash=False)
    """What was published of its figures, by the figure's name."""
    table_size: int | None = None
    """Rows of the load's table; None: the session's."""
    play: Play | None = None
    """What it does instead of letting the load run."""
    is_optional: bool = False
    """Left out on a server that lacks what it sets."""
    otherwise: tuple[str, ...] = ()
    """In place of `settings` on a server that lacks one of those; empty: there is nothing else."""
    system: str | None = None
    """The system of which the lab makes a stack of its own for it; None: it runs on the stack that is there.
    A lab names one for all of its phases or for none."""

    def length(self, *, quick: bool) -> Length:
        """How long this run of it measures."""
        return self.quick if quick else self.full

    def takes_s(self, *, quick: bool) -> float:
        """About how long it takes, with turning its knobs and measuring the link."""
        return self.length(quick=quick).seconds + _TURNING_S


@frozen
class Rtt:
    """A round trip as measured before a phase, with its 95 % interval; milliseconds."""

    ms: float
    low_ms: float
    high_ms: float
    n: int

    @property
    def interval_ms(self) -> tuple[float, float]:
        """Its bounds."""
        return self.low_ms, self.high_ms

    @classmethod
    def of(cls, seen_ms: Sequence[float], n: int) -> Rtt:
        """The median of some with a Student interval of their mean; they count as `n` looks."""
        count, mean_ms = len(seen_ms), fmean(seen_ms)
        half_ms = t_quantile_975(count - 1) * stdev(seen_ms) / count**0.5 if count > 1 else 0.0
        return cls(median(seen_ms), max(0.0, mean_ms - half_ms), mean_ms + half_ms, n)


@frozen
class PhaseRepeat:
    """One of the runs that a phase's figures are merged of."""

    tps: float | None
    mean_ms: float | None
    rtt_measured_ms: float | None
    n: int
    duration_s: float
    machine_cpu_percent: float | None
    figures: Figures


@json_keys(
    hide="phase service tps protection rtt rows retried readings_tps protection_before repeats",
    show="name tps=measured_tps latency_ms n=service.count rtt_interval_ms=rtt.interval_ms"
    " published=phase.published published_figures=phase.published_figures measured tps_interval=tps_bounds"
    " protection=protection.state fallbacks unacknowledged=unprotected repeats=runs system=phase.system",
    busy_percent="generator_cpu_percent",
    machine_percent="machine_cpu_percent",
    cost="commit_cost",
)
@frozen
class PhaseResult:
    """A phase's figures: what its load did or its script found, and what it ran under."""

    phase: Phase
    settings: Mapping[KnobName, Value] = field(default_factory=dict)
    """The knobs that the phase set, as effective."""
    rtt_measured_ms: float | None = None
    service: Histogram = field(default_factory=Histogram)
    tps: float = 0.0
    ceiling_tps: float | None = None
    protection: Protection = field(default_factory=lambda: Protection(ProtectionState.OFF, requested=False))
    """At the end of the phase."""
    clients: int = 0
    errors: int = 0
    """Transactions that came to nothing, or whose outcome is unknown."""
    fsync_measured_ms: float | None = None
    """What the primary pays for an fsync of redo or binlog, the shim's delay included."""
    disk_probe_ms: float | None = None
    """The primary's bare disk: the median synchronous write."""
    predicted_tps: float | None = None
    """The fitted model's answer for these settings."""
    rtt: Rtt | None = None
    """Before the load; None if no probe was answered or sent."""
    duration_s: float = 0.0
    rows: int = 0
    """Rows that a script worked on; 0 where commits say it all."""
    busy_percent: float | None = None
    """CPU of the generator, of one core."""
    machine_percent: float | None = None
    """CPU of the source's machine, of all its cores, whoever used it, warm-up included; None where a script
    ran or no agent tells."""
    limited: str | None = None
    """What besides the settings may have been the limit, in words: why a relation may deviate."""
    invalid: str | None = None
    """What was changed meanwhile, so that the figures do not count. None: nothing."""
    figures: Figures = field(default_factory=dict)
    finding: str | None = None
    """What contradicts what is known, in words: commits that beat the ceiling. None: nothing."""
    protection_before: Protection | None = None
    """When its measurement began; None where that was not seen."""
    cost: CommitCost | None = None
    """What a commit cost the servers, in the last of its runs; None where a script ran, or it is unknown."""
    server: str | None = None
    """What it was measured on, of a lab that makes several stacks; None: the lab's server."""
    retried: int = 0
    """Times that a transaction was rolled back by the server and tried again by its client."""
    readings_tps: tuple[float, ...] = ()
    """Of its intervals, in order."""
    repeats: tuple[PhaseResult, ...] = ()
    """The runs that these figures are merged of; empty for a single run."""

    @property
    def name(self) -> str:
        """The phase's name."""
        return self.phase.name

    @property
    def latency_ms(self) -> Latency | None:
        """Of its commits; None where a script ran instead of a load."""
        return None if self.measured_tps is None else self.service.latency

    @property
    def tps_bounds(self) -> tuple[float | None, float | None] | None:
        """95 % interval over the repeats, by their logarithms; None: one run."""
        return None if self.tps_interval is None else (self.tps_interval.low, self.tps_interval.high)

    @property
    def runs(self) -> Sequence[PhaseRepeat]:
        """Each run; empty for a single one."""
        return [
            PhaseRepeat(
                each.measured_tps,
                each.service.mean_ms,
                each.rtt_measured_ms,
                each.service.count,
                each.duration_s,
                each.machine_percent,
                each.figures,
            )
            for each in self.repeats
        ]

    @property
    def fallbacks(self) -> int | None:
        """Fallbacks to asynchronous replication within the phase; None where they are not counted."""
        return self._grown(lambda seen: seen.fallbacks)

    @property
    def unprotected(self) -> int | None:
        """Commits within the phase that were confirmed without an acknowledgement although semi-sync was
        asked for; None if not counted."""
        return self._grown(lambda seen: seen.unprotected)

    def _grown(self, counter: Callable[[Protection], int | None]) -> int | None:
        """How far a counter came in all runs; None where one is unknown."""
        total = 0
        for run in self.repeats or (self,):
            before = None if run.protection_before is None else counter(run.protection_before)
            after = counter(run.protection)
            if before is None or after is None:
                return None
            total += after - before
        return total

    @property
    def tps_interval(self) -> Ratio | None:
        """TPS of the repeats with their 95 % interval; None for a single run."""
        return repeated([each.tps for each in self.repeats])

    @property
    def measured(self) -> InAuthorsUnit | None:
        """In the unit in which something was published; None where nothing was, or nothing measured."""
        published = self.phase.published
        if published is None:
            return None
        if published.unit != "s":
            return None if self.measured_tps is None else InAuthorsUnit(self.measured_tps, "tps")
        rows = self.rows or self.service.count
        runs = max(1, len(self.repeats))
        if not rows or not self.duration_s:
            return None
        if published.rows is None or abs(rows / runs / published.rows - 1) < _SAME_ROWS:
            return InAuthorsUnit(self.duration_s / runs, "s")
        return InAuthorsUnit(self.duration_s / rows * published.rows, "s", rows // runs)

    @property
    def measured_tps(self) -> float | None:
        """Commits per second; None where a script ran instead of a load."""
        return self.tps if self.service.count or self.phase.play is None else None

    @property
    def mean_ms(self) -> float:
        """Mean latency; infinite when nothing was committed."""
        return self.service.mean_ms or float("inf")


Phases = Mapping[str, PhaseResult]
"""The results by the phase's name."""
Judge = Callable[[Phases], Sequence[Relation]]


@frozen
class Lab:
    """A named experiment."""

    kind: ClassVar = "lab"
    """The verb that runs it."""
    name: str
    title: str
    teaches: str
    phases: tuple[Phase, ...]
    judge: Judge = lambda _: ()
    source: Publication | None = None
    replicas: int = 1
    """Replicas that it needs; those that are missing are brought up for it and removed again."""
    references: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Lines that are drawn across its phases, by name: at one commit a round trip of this phase."""
    summary: Callable[[Phases], Summary | None] = lambda _: None
    """Its phases in one table; of a run that ended early, of those that were measured."""
    group: ExperimentGroup = ExperimentGroup.COST
    """What it is about."""
    failure: str = ""
    """What a failure loses in the modes that it compares, counted by the matrix of failures
    (docs/explanation/failure-loss.md), beginning with the server that it was counted on; empty where nothing
    was counted."""

    def runs(self, *, quick: bool, repeats: int | None) -> int:
        """How often each phase is measured: as often as asked, else once under --quick."""
        return repeats or (1 if quick else REPEATS)

    def seconds(self, *, quick: bool, repeats: int | None = None) -> float:
        """About how long it takes, where its table has to be made first."""
        if self.systems:
            parts = map(self.on, self.systems)
            return sum(STACK_S + part.seconds(quick=quick, repeats=repeats) for part in parts)
        rows = max((phase.table_size or 0 for phase in self.phases), default=0)
        once_s = sum(phase.takes_s(quick=quick) for phase in self.phases)
        return rows / _ROWS_PER_S + self.runs(quick=quick, repeats=repeats) * once_s

    def unfit(self, system: System) -> str:
        """That it makes stacks of its own, or what it turns that the system lacks; empty: nothing."""
        if self.systems:
            return f"makes stacks of its own: in a shell, replexplorer lab run {self.name}"
        lacking = dict.fromkeys(
            knob.key
            for phase in self.phases
            if not (phase.is_optional or phase.otherwise)
            for key, _, value in (text.partition("=") for text in phase.settings)
            if not system.has(knob := find(key.partition("@")[0]))
            and (knob.lacking is None or parse_value(knob, value) != knob.lacking)
        )
        return f"turns {', '.join(lacking)}, which {system.title} lacks" if lacking else ""

    @property
    def systems(self) -> tuple[str, ...]:
        """Names of the systems of which it makes stacks of its own, in order; none for a lab that runs on the
        stack that is there."""
        return tuple(dict.fromkeys(phase.system for phase in self.phases if phase.system is not None))

    def on(self, system: str) -> Lab:
        """The phases that run on a stack of this system, as a lab that judges nothing."""
        phases = tuple(replace(phase, system=None) for phase in self.phases if phase.system == system)
        return Lab(self.name, self.title, self.teaches, phases, replicas=self.replicas)

    @property
    def stages(self) -> Sequence[Stage]:
        """Its phases."""
        return [Stage(phase.name, phase.shows) for phase in self.phases]

    @property
    def turns(self) -> tuple[str, ...]:
        """Keys of the knobs that it turns."""
        settings = (text.partition("=")[0] for phase in self.phases for text in phase.settings)
        return tuple(dict.fromkeys(settings))


@json_keys(
    hide="lab started_wall_s", show="lab=lab.name source=lab.source failure=lab.failure started verdict"
)
@dataclass(slots=True)
class LabResult(ExperimentResult):
    """A run lab."""

    lab: Lab
    phases: list[PhaseResult] = field(default_factory=list)
    repeats: int = 1
    """Runs of each phase."""
    references: tuple[Reference, ...] = ()
    summary: Summary | None = None
    judged = "relations"

    @property
    def experiment(self) -> Lab:
        """What was run."""
        return self.lab
