"""What a lab is: phases, what was published, what must hold, and what a run of it found.

A lab is data and, where its phases are not just a load, a short script (`Phase.play`). One module a lab.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.stats.histogram import Histogram
from replexplorer.engine.experiment.rig import Rig
from replexplorer.ports import Report

_TURNING_S: Final = 4.0
_ROWS_PER_S: Final = 20_000
"""That a load's table is made with, about, where servers and load share two cores."""


@dataclass(frozen=True, slots=True)
class Publication:
    """The published experiment that a lab reruns."""

    title: str
    author: str
    url: str | None = None
    setup: str = ""
    """Servers, link and load of then, in a line."""


@dataclass(frozen=True, slots=True)
class Published:
    """A published figure, in its author's own unit and digits."""

    value: float
    unit: str
    """`tps`, `s`, `ms`."""


@dataclass(frozen=True, slots=True)
class Length:
    """How long a phase is measured."""

    seconds: float
    """About how long it takes; exactly so where no commits are counted."""
    commits: int | None = None
    """Measured until this many commits are acknowledged."""


Figures = Mapping[str, float | str]
"""What a phase found beside its load: name with unit to value."""


@dataclass(frozen=True, slots=True)
class Played:
    """What a phase's load did, or its script found."""

    figures: Figures = field(default_factory=dict)
    service: Histogram = field(default_factory=Histogram)
    """Of its commits."""
    duration_s: float = 0.0
    """How long it made them."""
    errors: int = 0
    """Transactions that came to nothing, or whose outcome is unknown."""
    busy_percent: float | None = None
    """CPU of the generator, of one core."""
    machine_percent: float | None = None
    """CPU of the source's machine, of all its cores, whoever used it, warm-up included."""
    limited: str | None = None
    """What beside the settings may have been the limit, in words."""
    readings_tps: tuple[float, ...] = ()
    """Of its intervals, in order."""

    @property
    def tps(self) -> float:
        """Acknowledged transactions per second."""
        return self.service.count / self.duration_s if self.duration_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
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
    table_size: int | None = None
    """Rows of the load's table; None: the session's."""
    play: Play | None = None
    """What it does instead of letting the load run."""

    def length(self, *, quick: bool) -> Length:
        """How long this run of it measures."""
        return self.quick if quick else self.full

    def takes_s(self, *, quick: bool) -> float:
        """About how long it takes, with turning its knobs and measuring the link."""
        return self.length(quick=quick).seconds + _TURNING_S


@dataclass(frozen=True, slots=True)
class Act:
    """A phase's script at work."""

    rig: Rig
    phase: Phase
    quick: bool
    tell: Report
    """What is done now, with how much of the phase that is."""


Play = Callable[[Act], Awaitable[Played]]
"""The script of a phase that does more than let the load run."""


@dataclass(frozen=True, slots=True)
class Rtt:
    """A round trip as measured before a phase, with its 95 % interval; milliseconds."""

    ms: float
    low_ms: float
    high_ms: float
    n: int


@dataclass(frozen=True, slots=True)
class PhaseResult:
    """A phase's figures."""

    phase: Phase
    settings: Mapping[KnobName, Value]
    """The knobs that the phase set, as effective."""
    rtt_measured_ms: float | None
    service: Histogram
    tps: float
    ceiling_tps: float | None
    protection: Protection
    """At the end of the phase."""
    clients: int
    errors: int
    fsync_measured_ms: float | None = None
    """What the primary pays for an fsync of redo or binlog, the shim's delay included."""
    disk_probe_ms: float | None = None
    """The primary's bare disk: the median synchronous write."""
    predicted_tps: float | None = None
    """The fitted model's answer for these settings."""
    rtt: Rtt | None = None
    """Before the load; None where no probe was answered, or nobody asked."""
    duration_s: float = 0.0
    busy_percent: float | None = None
    """CPU of the generator, of one core."""
    machine_percent: float | None = None
    """CPU of the source's machine, of all its cores, whoever used it; None where a script ran or no agent
    tells."""
    limited: str | None = None
    """What beside the settings may have been the limit, in words: why a relation may deviate."""
    invalid: str | None = None
    """What somebody changed meanwhile: the figures are of no one's settings. None: nothing."""
    figures: Figures = field(default_factory=dict)
    finding: str | None = None
    """What contradicts what is known, in words: commits that beat the ceiling. None: nothing."""

    @property
    def measured_tps(self) -> float | None:
        """Commits per second; None where a script ran instead of a load."""
        return self.tps if self.service.count or self.phase.play is None else None

    @property
    def mean_ms(self) -> float:
        """Mean latency; infinite when nothing was committed."""
        return self.service.mean_ms or float("inf")


@dataclass(frozen=True, slots=True)
class Relation:
    """What must hold between the figures, and what was found."""

    name: str
    holds: bool
    evidence: str
    checked: bool = True
    """False: a figure to look at, which nothing depends on."""

    @property
    def word(self) -> str:
        """`holds`, `deviates`, or `shown` where nothing was checked."""
        return ("holds" if self.holds else "deviates") if self.checked else "shown"


Phases = Mapping[str, PhaseResult]
"""The results by the phase's name."""
Judge = Callable[[Phases], Sequence[Relation]]


@dataclass(frozen=True, slots=True)
class Lab:
    """A named experiment."""

    name: str
    title: str
    teaches: str
    phases: tuple[Phase, ...]
    judge: Judge
    source: Publication | None = None
    replicas: int = 1
    """Replicas that it needs; those that are missing are brought up for it and removed again."""

    def seconds(self, *, quick: bool) -> float:
        """About how long it takes, where its table has to be made first."""
        rows = max((phase.table_size or 0 for phase in self.phases), default=0)
        return rows / _ROWS_PER_S + sum(phase.takes_s(quick=quick) for phase in self.phases)

    @property
    def turns(self) -> tuple[str, ...]:
        """Keys of the knobs that it turns."""
        settings = (text.partition("=")[0] for phase in self.phases for text in phase.settings)
        return tuple(dict.fromkeys(settings))


@dataclass(slots=True)
class LabResult:
    """A run lab."""

    lab: Lab
    server: str
    started_wall_s: float
    quick: bool = False
    phases: list[PhaseResult] = field(default_factory=list)
    relations: tuple[Relation, ...] = ()
    aborted: str | None = None
    """Why nothing is judged: it ended before its last phase, or a phase is invalid; None when neither."""
    unrestored: tuple[str, ...] = ()
    """Knobs that could not be restored yet, and what becomes of them."""

    @property
    def verdict(self) -> str:
        """holds, deviates or aborted."""
        if self.aborted is not None:
            return "aborted"
        return "holds" if all(relation.holds for relation in self.relations) else "deviates"
