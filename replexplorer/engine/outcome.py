"""What a call of the engine returns, or would do, or why it was not made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replexplorer.core.errors import ReplexplorerError, StackUnavailable
from replexplorer.core.fault import Fault
from replexplorer.core.json_keys import json_keys
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import KnobName, KnobView, Value
from replexplorer.core.link import LinkView
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.records import field, frozen, replace
from replexplorer.core.server.comeback import Comeback
from replexplorer.core.server.disk import DiskView
from replexplorer.core.server.exposure import NOT_REACHED, Exposure
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.server.protection import Protection
from replexplorer.core.topology import SOURCE
from replexplorer.core.wire import Experiment, Lease
from replexplorer.ports import HostView


@json_keys(hide="source", show="key node")
@frozen
class Changed:
    """One knob that a `set` turned."""

    name: KnobName
    before: Value | None
    requested: Value
    effective: Value | None
    took_ms: float
    statements: tuple[str, ...] = ()
    note: str | None = None
    measured_ms: float | None = None
    """What is measured since: the round trip of a link, an fsync of a disk; None where neither is
    turned, or nothing could be measured."""
    source: str = SOURCE
    """The node that is the source."""

    @property
    def key(self) -> str:
        """The knob's own key."""
        return self.name.key

    @property
    def node(self) -> str:
        """The node that has it."""
        return self.source if self.name.node == SOURCE else self.name.node


@json_keys(hide="warnings before unchanged unmet", show="all_warnings", all_warnings="warnings")
@frozen
class SetResult:
    """What a `set`, `reset` or `undo` did."""

    changed: tuple[Changed, ...]
    warnings: tuple[str, ...] = ()
    rolled_back: bool = False
    dry_run: bool = False
    before: Mapping[KnobName, Value] = field(default_factory=dict)
    """What was requested of these until the change's turn came: what an undo asks for."""
    unchanged: tuple[KnobName, ...] = ()
    """Asked, and already so."""
    unmet: tuple[str, ...] = ()
    """Asked again, set, and without effect: what could not be repaired, each in a line."""
    took_ms: float | None = None
    """From the verb's start until all was in effect, with connecting and waiting; None: no verb waited."""

    @property
    def all_warnings(self) -> tuple[str, ...]:
        """What to look out for, and what has no effect."""
        return (*self.warnings, *self.unmet)

    def of_verb(self, source: str, took_ms: float) -> SetResult:
        """As the verb prints it on a stack with this source, after so long."""
        return replace(
            self, changed=tuple(replace(each, source=source) for each in self.changed), took_ms=took_ms
        )


@frozen
class Preview:
    """What a value would do, told before it is applied; computed from what is known, no I/O."""

    statements: tuple[str, ...]
    """As they would run, each with its node's name when it is not the primary's."""
    undo: tuple[str, ...]
    warnings: tuple[str, ...]


@frozen
class Injected:
    """What was done to one node."""

    fault: Fault
    lost_files: tuple[str, ...] = ()
    """Of a power cut: the files that lost anything, in words."""


@frozen
class Cleared:
    """A fault that was taken back."""

    fault: Fault
    comeback: Comeback | None = None
    """What the server that it had ended came back without; None where it ended none, or a group's."""


@frozen
class ErrorDetail:
    """What went wrong, for scripts."""

    code: str
    message: str
    hint: str


@frozen
class ErrorDocument:
    """What stdout carries instead of a result when a verb with --json fails."""

    error: ErrorDetail


@frozen
class FailedSet(ErrorDocument):
    """A `set` that failed on the way, and whether what it had done was rolled back (`RolledBack`)."""

    changed: tuple[Changed, ...]
    warnings: tuple[str, ...]
    rolled_back: bool
    """True: nothing is changed; false: something could not be rolled back, the hint names it."""


class RolledBack(ReplexplorerError):
    """A step failed and those before it were rolled back; code and exit code are the cause's."""

    def __init__(self, cause: ReplexplorerError, not_undone: Sequence[str]) -> None:
        state = "nothing is changed" if not not_undone else f"not rolled back: {'; '.join(not_undone)}"
        super().__init__(cause.message, f"{cause.hint}; {state}" if cause.hint else state)
        self.exit_code = cause.exit_code
        self.code = cause.code
        self.complete = not not_undone
        """Everything is as it was before."""
        self.beside = {"changed": [], "warnings": [], "rolled_back": self.complete}


class ExperimentUnderWay(StackUnavailable):
    """A lab or a sweep turns the knobs, and nobody else does meanwhile."""

    def __init__(self, experiment: Experiment, hint: str, *, is_own: bool = False) -> None:
        kind, holder = experiment.kind, experiment.holder
        whose = "" if holder.startswith(kind) else f"{holder}, "
        super().__init__(
            f"the {kind} {experiment.name} ({whose}pid {experiment.pid} on {experiment.host})"
            " turns the knobs",
            hint,
        )
        self.experiment = experiment
        self.is_own = is_own
        """Whether it is run by this app."""


@frozen
class DrivenLoad:
    """The load that runs, as its driver has it; the knobs say what is requested."""

    driver: str | None
    """Who drives it: `name (pid N)`; None when no one does."""
    clients: int | None = None
    """0 when no load runs, None when its driver does not say."""
    workload: str | None = None
    mode: str | None = None
    """closed or open."""
    rate_tps: float | None = None
    """Asked, of an open loop."""

    @classmethod
    def of(cls, driver: Lease | None, load: Mapping[str, Value] | None) -> DrivenLoad:
        """From the knobs of the load that runs, by key: empty when none does, None when nothing says."""
        name = str(driver) if driver is not None else None
        if not load:
            return cls(name, None if load is None else 0)
        mode = str(load[keys.LOAD_MODE])
        rate_tps = float(load[keys.RATE]) if mode == OPEN else None
        return cls(name, int(load[keys.CLIENTS]), str(load[keys.WORKLOAD]), mode, rate_tps)


@frozen
class KnobValues:
    """A knob in `status`: asked and in effect."""

    requested: Value | None
    effective: Value | None
    node: str


@json_keys(hide="knobs is_ours", show="knob_values", knob_values="knobs")
@frozen
class Status:
    """The whole stack at one moment; what is not known is None."""

    stack: str
    system: str
    """async, group or galera: how its nodes keep the same rows."""
    state: str
    """starting, up, partial (some nodes are down) or down."""
    nodes: tuple[NodeView, ...]
    protection: Protection
    links: tuple[LinkView, ...]
    disks: tuple[DiskView, ...]
    load: DrivenLoad
    footprint_bytes: int | None
    knobs: Mapping[KnobName, KnobView]
    faults: tuple[Fault, ...] = ()
    """In force, the oldest first."""
    interrupted: str | None = None
    """The experiment whose app was killed before it gave back what it changed: `drill power-cut`."""
    exposure: Exposure = NOT_REACHED
    oldest_commit_s: float | None = None
    """Age of the oldest commit under way on the source; None for none, or where it is not known."""
    hosts: tuple[HostView, ...] = ()
    """That the nodes are on; none where all are on this machine."""
    is_ours: bool = True
    """False: somebody else's servers, of which nothing is requested."""

    @property
    def knob_values(self) -> Mapping[str, KnobValues]:
        """What is asked and what is in effect, by key, with the node where it is not the source's."""
        return {
            str(name): KnobValues(view.requested if self.is_ours else None, view.effective, view.node)
            for name, view in self.knobs.items()
        }
