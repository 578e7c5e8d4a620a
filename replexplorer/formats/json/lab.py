"""`lab`: the result of a lab, and the labs that there are."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from replexplorer.formats.json.experiment import ExperimentEntry
from replexplorer.formats.json.measured import CommitCostJson, Conditions, Latency
from replexplorer.formats.json.model import JsonObject, Scalar


class LabSource(JsonObject):
    """The published experiment that a lab reruns; null fields for our own."""

    title: str | None
    author: str | None
    url: str | None


class Published(JsonObject):
    """A published figure in its author's own unit and digits."""

    value: float
    unit: str
    rows: int | None = Field(default=None, description="that these seconds were taken for")


class Measured(JsonObject):
    """Our figure in the unit of a published one."""

    value: float
    unit: str
    rows: int | None = Field(
        default=None,
        description="measured over this many, fewer or more than were published, and scaled to those; null: "
        "nothing was scaled",
    )


class Reference(JsonObject):
    """A line to compare phases with, which nothing measured here."""

    name: str
    tps: float


class SummaryRow(JsonObject):
    """A row of a summary: what it is, and a value for each column."""

    name: str
    values: list[Scalar | None]


class Summary(JsonObject):
    """What a lab comes to, in one table."""

    title: str
    columns: list[str]
    rows: list[SummaryRow]


class LabRepeat(JsonObject):
    """One of the runs that a phase's figures are merged of."""

    tps: float | None
    mean_ms: float | None
    rtt_measured_ms: float | None
    n: int
    duration_s: float
    machine_cpu_percent: float | None = None
    figures: dict[str, Scalar] = Field(default={})


class LabPhase(JsonObject):
    """One phase of a lab with what was measured in it."""

    name: str
    settings: dict[str, Scalar]
    rtt_measured_ms: float | None
    fsync_measured_ms: float | None = None
    disk_probe_ms: float | None = None
    published: Published | None = None
    ceiling_tps: float | None
    predicted_tps: float | None = None
    tps: float | None
    latency_ms: Latency | None
    n: int
    clients: int | None = None
    errors: int | None = None
    protection: str | None = None
    rtt_interval_ms: tuple[float, float] | None = Field(
        default=None, description="95 % interval of the round trip measured before the load"
    )
    duration_s: float | None = None
    generator_cpu_percent: float | None = None
    machine_cpu_percent: float | None = Field(
        default=None, description="of all cores of the source's machine, by any process"
    )
    limited: str | None = Field(
        default=None,
        description="what beside the settings may have been the limit, so that a relation deviates",
    )
    invalid: str | None = Field(
        default=None, description="what somebody changed meanwhile, so that the figures are of no settings"
    )
    figures: dict[str, Scalar] = Field(default={}, description="what the phase found beside its load")
    finding: str | None = Field(
        default=None, description="what contradicts what is known: commits that beat the ceiling"
    )
    measured: Measured | None = Field(default=None, description="in the unit of `published`")
    tps_interval: tuple[float | None, float | None] | None = Field(
        default=None, description="95 % interval over the repeats, by their logarithms; null: one run"
    )
    fallbacks: int | None = Field(default=None, description="to asynchronous replication, within the phase")
    unacknowledged: int | None = Field(
        default=None,
        description="commits within it that were confirmed without an acknowledgement under semi-sync",
    )
    commit_cost: CommitCostJson | None = Field(
        default=None, description="null where a script ran, and where it is not known"
    )
    published_figures: dict[str, Published] = Field(default={}, description="by the name in `figures`")
    repeats: list[LabRepeat] = Field(default=[], description="each run; empty for a single one")
    system: str | None = Field(
        default=None, description="whose stack the lab made for it; null: it ran on the stack that was there"
    )
    server: str | None = Field(default=None, description="of that stack; null: the lab's")


class Relation(JsonObject):
    """A relation that must hold, with the measured evidence."""

    name: str
    holds: bool
    evidence: str
    checked: bool = Field(default=True, description="false: a figure to look at, nothing was checked")
    open: bool = Field(
        default=False, description="the repeats leave it open; `holds` is true, for nothing speaks against it"
    )

    @property
    def word(self) -> str:
        """`holds`, `deviates`, `open` where the repeats leave it open, `shown` where nothing was checked."""
        if not self.checked:
            return "shown"
        return "open" if self.open else "holds" if self.holds else "deviates"


class LabResult(JsonObject):
    """`lab run --json`."""

    lab: str
    source: LabSource | None
    server: str | None
    started: str
    phases: list[LabPhase]
    relations: list[Relation]
    verdict: Literal["holds", "deviates", "aborted"]
    failure: str = Field(default="", description="what a failure loses in these modes, as drills counted it")
    quick: bool = False
    repeats: int = Field(default=1, description="runs of each phase; they take turns")
    references: list[Reference] = Field(default=[], description="lines that are drawn across the phases")
    summary: Summary | None = Field(default=None, description="null where the phases are table enough")
    aborted: str | None = Field(
        default=None,
        description="why nothing is judged: it ended before its last phase, or a phase is invalid",
    )
    unrestored: list[str] = Field(default=[], description="what could not be restored yet")
    conditions: Conditions | None = Field(default=None, description="before its first phase")
    again: list[str] = Field(default=[], description="the commands that run the same elsewhere")


class LabEntry(ExperimentEntry):
    """A lab in `lab list --json`."""

    systems: list[str] = Field(
        default=[],
        description="of which it makes stacks of its own; empty: it runs on the stack that is there",
    )


DOCUMENTS: Final[dict[str, Any]] = {"lab run": LabResult, "lab list": list[LabEntry]}
