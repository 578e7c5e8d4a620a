"""What one does with a stack: commands as data, given to a console by a named actor.

Law: whoever wants something done - a key, a verb, a browser, a second shell - says it in a command, and
who may do what when is decided by the console alone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from replexplorer.core.fault import FaultRequest
from replexplorer.core.knobs.names import Assignment, KnobName
from replexplorer.core.role_change import RoleChange
from replexplorer.engine.experiment.rig import Procedure
from replexplorer.engine.outcome import Cleared, Injected, Preview, SetResult
from replexplorer.engine.progress import ProgressCallback

R = TypeVar("R")
Consent = Callable[[str, str], Awaitable[bool]]
"""Whether a node may lose these transactions: called with its name and their GTID set."""


class Command(Generic[R]):
    """Something to be done; the console answers an R."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Turn(Command[SetResult]):
    """Turn knobs in the safe order and wait until they are effective, or take all back; can be undone."""

    assignments: tuple[Assignment, ...]
    dry_run: bool = False
    """Say what would be done."""
    anyway: bool = False
    """Also under somebody's experiment, which is marked in its result."""


@dataclass(frozen=True, slots=True)
class Reset(Command[SetResult]):
    """All knobs to their defaults; one undo takes all of it back."""

    anyway: bool = False


@dataclass(frozen=True, slots=True)
class Undo(Command[SetResult]):
    """Take back the actor's last turn or reset that was not rolled back yet; cannot be undone itself."""

    anyway: bool = False


@dataclass(frozen=True, slots=True)
class Inject(Command[tuple[Injected, ...]]):
    """Do a fault to its nodes; it stays until it is cleared."""

    request: FaultRequest
    for_s: float | None = None
    """How long whoever injects it will leave it, for the record."""
    anyway: bool = False
    """Also under somebody's experiment."""


@dataclass(frozen=True, slots=True)
class Clear(Command[tuple[Cleared, ...]]):
    """Take back the faults that this text means, `KIND[@NODE]`, all for None; answers which."""

    text: str | None = None


@dataclass(frozen=True, slots=True)
class Failover(Command[RoleChange]):
    """Promote a replica in place of a source that is gone."""

    to: str | None = None
    """Name or alias of the node; None: the one that lacks least."""
    since_s: float | None = None
    """When the source was lost, on the monotonic clock; None: now."""
    anyway: bool = False
    """Also under somebody's experiment."""
    accept_loss: bool = False
    """Promote `to` without what it lacks and cannot fetch."""


@dataclass(frozen=True, slots=True)
class Switchover(Command[RoleChange]):
    """Let the source and a replica change places."""

    to: str | None = None
    """Name or alias of the node; None: the nearest."""
    anyway: bool = False


@dataclass(frozen=True, slots=True)
class Rejoin(Command[RoleChange]):
    """Let a node that follows nobody follow the source again."""

    node: str
    consent: Consent | None = None
    """Asked before it loses transactions that the source lacks; None: it may."""
    anyway: bool = False
    copy: bool = False
    """It gets a copy of the source's data in any case, also where it follows the source."""


@dataclass(frozen=True, slots=True)
class Mark(Command[None]):
    """Put a numbered mark on the charts and into the log; it begins an epoch as a change does."""

    text: str


@dataclass(frozen=True, slots=True)
class Select(Command[None]):
    """Show who watches which knob is selected here; None: none."""

    knob: KnobName | None


@dataclass(frozen=True, slots=True)
class ToggleLoad(Command[bool]):
    """Stop or start the actor's load; answers whether it runs now."""


@dataclass(frozen=True, slots=True)
class Repair(Command[tuple[str, ...]]):
    """Bring dead nodes back, start stopped threads, re-apply what was requested; answers what was done,
    nothing when all was well."""

    progress: ProgressCallback = lambda _: None


@dataclass(frozen=True, slots=True)
class Scale(Command[None]):
    """Bring replicas up, or remove the last ones with their data, until there are this many."""

    replicas: int
    progress: ProgressCallback = lambda _: None


@dataclass(frozen=True, slots=True)
class GiveBack(Command[None]):
    """The answer to `Tick.lost`: re-apply what restarts took, or leave it."""

    yes: bool


@dataclass(frozen=True, slots=True)
class Run(Command[R]):
    """Run an experiment: nobody else turns a knob meanwhile, and what it takes is restored whatever
    happens."""

    experiment: Procedure[R]


class Console(Protocol):
    """Where one actor's commands are taken."""

    def parse(self, text: str) -> Assignment:
        """`KEY[@NODE]=VALUE` checked against this stack; raise UsageError in one line."""
        ...

    def preview(self, assignments: Sequence[Assignment]) -> Preview:
        """What a turn would run and warn of, from what is known, without I/O."""
        ...

    def preview_fault(self, request: FaultRequest) -> Preview:
        """What injecting it would run and why it would be refused, from what is known, without I/O."""
        ...

    async def do(self, command: Command[R]) -> R:
        """Carry a command out and answer what it found or did.

        Raise UsageError for what makes no sense here, StackUnavailable for what cannot be now,
        ExperimentUnderWay while somebody's lab or sweep turns the knobs.
        """
        ...
