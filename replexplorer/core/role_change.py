"""Changes of roles as data: who can be promoted, what was done, and what an interrupted one left.

Law: a node is promoted only if no other has received what it lacks. A change that was interrupted is
finished where the new source takes writes already, and taken back where it does not: there is never a
second node that takes writes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.server.gtid import gtid_count, subtract_gtids, unite_gtids


class ChangeKind(StrEnum):
    """What is done to the roles."""

    FAILOVER = "failover"
    """The source is gone: a replica takes its place."""
    SWITCHOVER = "switchover"
    """The source and a replica change places, and nothing is lost."""
    REJOIN = "rejoin"
    """A node that follows nobody follows the source again."""


@dataclass(frozen=True, slots=True)
class RoleStep:
    """One step of a change of roles, as it was done."""

    name: str
    """`drain the relay log`."""
    node: str
    statements: tuple[str, ...]
    """What ran on the node's server, in order; empty for what is no statement."""
    took_ms: float


@dataclass(frozen=True, slots=True)
class RecoveryPoint:
    """What clients were told is committed, and the source has not."""

    commits: int | None = None
    """Transactions, or of a failover under the `ledger` load its rows; None where nobody can say."""
    ms: float | None = None
    """Age of the oldest of them when the source was lost; None where unknown."""
    unknown: str | None = None
    """Why nobody can say how many; None where it is known."""


@dataclass(frozen=True, slots=True)
class RecoveryTime:
    """How long there was no source, in its parts; None where a part was not measured."""

    detect_ms: float | None = None
    """Until it was certain that the source is gone; 0 for a switchover."""
    promote_ms: float | None = None
    """From then until the new source was open for writes."""
    first_write_ms: float | None = None
    """From then until a commit there was answered; None when none was within its deadline."""
    total_ms: float | None = None
    """All three."""


@dataclass(frozen=True, slots=True)
class RoleChange:
    """A change of roles that was carried out."""

    kind: ChangeKind
    source_before: str
    """The node that was the source; of a rejoin the node that came back."""
    source: str
    """The node that is the source now."""
    steps: tuple[RoleStep, ...] = ()
    rpo: RecoveryPoint = field(default_factory=RecoveryPoint)
    rto: RecoveryTime = field(default_factory=RecoveryTime)
    errant_gtids: Mapping[str, str] = field(default_factory=dict)
    """By node: what it has executed and the source has not; nodes without any are left out."""
    fenced: bool = False
    """The node that was the source can take no writes, also when its server starts again."""
    warnings: tuple[str, ...] = ()
    in_group: bool = False
    """Its nodes are members of one group, in which nobody follows anybody."""

    @property
    def standing(self) -> str:
        """What a node that came back does: `follows db1`, `is a member of the group`."""
        return "is a member of the group" if self.in_group else f"follows {self.source}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """A replica that might be promoted."""

    node: str
    received: str
    """GTID set of all that it has: executed, or in its relay log."""
    trouble: str | None = None
    """Why it cannot be promoted, in words; None where it can."""


def choose(
    candidates: Sequence[Candidate], wanted: str | None = None, *, catches_up: bool = False
) -> Candidate:
    """The candidate that has received most, or the `wanted` one where no other has received more; one that
    `catches_up` first, because the source is there, may lack what others have.

    Raises StackUnavailable naming the replica that has received most where none can be promoted, or
    where `wanted` cannot be or lacks what another has.
    """
    if not candidates:
        raise StackUnavailable("no replica could be promoted", "the stack has none")
    most = max(candidates, key=lambda each: gtid_count(each.received))
    fit = [each for each in candidates if each.trouble is None]
    if not fit:
        why = "; ".join(f"{each.node} {each.trouble}" for each in candidates)
        raise StackUnavailable(
            f"no replica could be promoted: {why}",
            f"{most.node} has received most" if most.received else "`replexplorer up` repairs what it can",
        )
    if wanted is None:
        return max(fit, key=lambda each: gtid_count(each.received))
    [chosen] = [each for each in candidates if each.node == wanted]
    if chosen.trouble is not None:
        raise StackUnavailable(
            f"{wanted} cannot be promoted: it {chosen.trouble}", f"{most.node} has received most"
        )
    lacking = subtract_gtids(unite_gtids(*(each.received for each in fit)), chosen.received)
    if lacking and not catches_up:
        count = gtid_count(lacking)
        raise StackUnavailable(
            f"{wanted} lacks {count:,} transaction{'' if count == 1 else 's'} that another replica has"
            " received: they would be lost",
            f"{most.node} has received most",
        )
    return chosen


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A change of roles that has begun and is not over, as the stack's document records it."""

    kind: ChangeKind
    source: str
    """The node that was the source when it began; of a rejoin the node that comes back."""
    to: str
    """The node that is to be the source."""
    step: str
    """The step that was about to be done."""
    by: str
    """Who does it: `failover (pid 12)`."""
    since_wall_s: float
    """Seconds since 1970, UTC."""

    def __str__(self) -> str:
        """`failover from db1 to db2`."""
        if self.kind is ChangeKind.REJOIN:
            return f"rejoin of {self.source}"
        return f"{self.kind} from {self.source} to {self.to}"


class Ending(StrEnum):
    """How an interrupted change is ended."""

    FINISH = "finish"
    """The new source takes writes: the rest is done."""
    TAKE_BACK = "take back"
    """It does not: the source of before is the source."""
    LEAVE = "leave"
    """It does not, and the source of before is away: nothing can be done yet."""


def ending_of(change: UnderWay, *, to_takes_writes: bool, source_answers: bool) -> Ending:
    """How what is left of a change is ended, by what its two nodes are now."""
    if change.kind is ChangeKind.REJOIN:
        return Ending.FINISH
    if to_takes_writes:
        return Ending.FINISH
    return Ending.TAKE_BACK if source_answers else Ending.LEAVE


_FIELDS: Final = ("source", "to", "step", "by")


def to_record(change: UnderWay | None) -> dict[str, Any] | None:
    """As the requested document keeps it."""
    if change is None:
        return None
    words = {name: getattr(change, name) for name in _FIELDS}
    return {"kind": str(change.kind), **words, "since_wall_s": change.since_wall_s}


def from_record(content: object) -> UnderWay | None:
    """The inverse of `to_record`; None for what cannot be read."""
    if not isinstance(content, dict):
        return None
    try:
        words = {name: str(content[name]) for name in _FIELDS}
        return UnderWay(
            kind=ChangeKind(content["kind"]), since_wall_s=float(content["since_wall_s"]), **words
        )
    except (KeyError, TypeError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class BootRoles:
    """What the servers of a stack are when they start, whatever they were made as."""

    source: str
    """It takes writes; a node that is made later follows it."""
    detached: frozenset[str] = frozenset()
    """They start, refuse writes and follow nobody until they rejoin."""
    seeds: tuple[str, ...] = ()
    """Of a group: the members, as `NODE:PORT`, that a server which starts asks to let it in."""

    @property
    def text(self) -> str:
        """`name=value` lines, as start-mysqld reads them."""
        lines = [f"source={self.source}", *(f"detached={node}" for node in sorted(self.detached))]
        lines += [f"seeds={','.join(self.seeds)}"] if self.seeds else []
        return "".join(f"{line}\n" for line in lines)
