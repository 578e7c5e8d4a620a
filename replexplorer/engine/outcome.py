"""What a change did, or would do, or why it was not made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from replexplorer.core.errors import ReplexplorerError, StackUnavailable
from replexplorer.core.fault import Fault
from replexplorer.core.knobs.common import KeptChange
from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.server.comeback import Comeback
from replexplorer.core.wire import Experiment


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class SetResult:
    """What a `set`, `reset` or `undo` did."""

    changed: tuple[Changed, ...]
    warnings: tuple[str, ...] = ()
    rolled_back: bool = False
    dry_run: bool = False
    before: Mapping[KnobName, Value] = field(default_factory=dict)
    """What was requested of these until the change's turn came: what an undo asks for."""
    before_everywhere: KeptChange = field(default_factory=dict)
    """What was kept for nodes that join until then, of the keys whose keeping it changed."""
    unchanged: tuple[KnobName, ...] = ()
    """Asked, and already so."""
    unmet: tuple[str, ...] = ()
    """Asked again, set, and without effect: what could not be mended, each in a line."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What a value would do, told before it is applied; computed from what is known, no I/O."""

    statements: tuple[str, ...]
    """As they would run, each with its node's name when it is not the primary's."""
    undo: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Injected:
    """What was done to one node."""

    fault: Fault
    lost_files: tuple[str, ...] = ()
    """Of a power cut: the files that lost anything, in words."""


@dataclass(frozen=True, slots=True)
class Cleared:
    """A fault that was taken back."""

    fault: Fault
    comeback: Comeback | None = None
    """What the server that it had ended came back without; None where it ended none, or a group's."""


class RolledBack(ReplexplorerError):
    """A step failed and those before it were rolled back; code and exit code are the cause's."""

    def __init__(self, cause: ReplexplorerError, not_undone: Sequence[str]) -> None:
        state = "nothing is changed" if not not_undone else f"not rolled back: {'; '.join(not_undone)}"
        super().__init__(cause.message, f"{cause.hint}; {state}" if cause.hint else state)
        self.exit_code = cause.exit_code
        self.code = cause.code
        self.complete = not not_undone
        """Everything is as it was before."""


class ExperimentUnderWay(StackUnavailable):
    """A lab or a sweep turns the knobs, and nobody else does meanwhile."""

    def __init__(self, experiment: Experiment, *, is_own: bool = False) -> None:
        kind, holder = experiment.kind, experiment.holder
        whose = "" if holder.startswith(kind) else f"{holder}, "
        others = "wait for its end; `--anyway` does it all the same and makes what it measures invalid"
        super().__init__(
            f"the {kind} {experiment.name} ({whose}pid {experiment.pid} on {experiment.host})"
            " turns the knobs",
            "end it first" if is_own else others,
        )
        self.experiment = experiment
        self.is_own = is_own
        """Whether it is run by this app."""
