"""Changes of roles as data: who can be promoted, what was done, and what an interrupted one left.

Law: a node is promoted only where it has, or can fetch, all that any other has of the source's
transactions, by GTID sets and never by their counts, or where somebody accepts the loss by name. A change
that was interrupted is finished where the new source takes writes already, and taken back where it does
not: there is never a second node that takes writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.json_keys import json_keys
from replexplorer.core.records import field, frozen
from replexplorer.core.server.gtid import (
    common_gtids,
    gtid_count,
    hole,
    numbered_by,
    subtract_gtids,
    transactions,
    unite_gtids,
)


class ChangeKind(StrEnum):
    """What is done to the roles."""

    FAILOVER = "failover"
    """The source is gone: a replica takes its place."""
    SWITCHOVER = "switchover"
    """The source and a replica change places, and nothing is lost."""
    REJOIN = "rejoin"
    """A node that follows no source follows the source again."""


@frozen
class RoleStep:
    """One step of a change of roles, as it was done."""

    name: str
    """`drain the relay log`."""
    node: str
    statements: tuple[str, ...]
    """What ran on the node's server, in order; empty if it was not a statement."""
    took_ms: float


@json_keys(show="accepted_transactions", accepted="accepted_gtids")
@frozen
class RecoveryPoint:
    """What clients were told is committed, and the source has not."""

    commits: int | None = None
    """Transactions, or of a failover under the `ledger` load its rows; None if unknown."""
    ms: float | None = None
    """Age of the oldest of them when the source was lost; None where unknown."""
    unknown: str | None = None
    """Why the number is unknown; None if it is known."""
    accepted: str = ""
    """GTID set that other nodes had and the source has not, of a failover whose loss was accepted."""

    @property
    def accepted_transactions(self) -> int:
        """How many these are."""
        return gtid_count(self.accepted)


@frozen
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


@json_keys(hide="kind in_group", source_before="from", source="to")
@frozen
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
    """Its nodes are members of one group, in which no node follows another."""

    @property
    def standing(self) -> str:
        """What a node that came back does: `follows db1`, `is a member of the group`."""
        return "is a member of the group" if self.in_group else f"follows {self.source}"

    @property
    def words(self) -> str:
        """The change in one line, and what it lost in another."""
        lost = self.rpo.commits
        if self.kind is ChangeKind.REJOIN:
            if not self.steps:
                return f"{self.source_before} {self.standing} already: nothing was done"
            lost_words = f", and lost {lost:,} transaction{'' if lost == 1 else 's'}" if lost else ""
            return f"{self.source_before} {self.standing} again{lost_words}"
        rto = self.rto
        parts = (("detect", rto.detect_ms), ("promote", rto.promote_ms), ("first write", rto.first_write_ms))
        times = ", ".join(f"{name} {ms:.0f} ms" for name, ms in parts if ms is not None)
        told = [f"{self.source} is the source, {self.source_before} was: {times}"]
        if self.rpo.accepted:
            told.append(f"{transactions(self.rpo.accepted)} lost, as accepted: {self.rpo.accepted}")
        if lost is not None:
            told.append(f"{lost:,} acknowledged row{'' if lost == 1 else 's'} lost")
        elif self.rpo.unknown is not None:
            told.append(f"how many commits are lost is unknown: {self.rpo.unknown}")
        return "\n".join(told)


@frozen
class Candidate:
    """A node that might be promoted."""

    node: str
    received: str
    """GTID set of all that it has: executed, or in its relay log."""
    trouble: str | None = None
    """Why it cannot be promoted, in words; None where it can."""
    server_uuid: str = ""
    """Its own; empty where it has none or it is not known."""
    diverged: str | None = None
    """Why its rows may not be the source's, in words; None where nothing says so."""


@frozen
class Lineage:
    """Which transactions are the source's, as far as that is known."""

    server_uuid: str = ""
    """The source's own: what it has numbered is the source's. Empty: not known, and all that any node has
    counts."""
    history: str = ""
    """GTID set that a source had when it was opened for writes, or has now where it answers."""

    def of_source(self, gtids: str, others: Iterable[Candidate]) -> str:
        """The source's transactions among these of a node: those that it or another node numbered, those of
        its history, those that another node has as well. Each came through a source, and the rest is errant.
        """
        if not self.server_uuid:
            return gtids
        others = list(others)
        servers = (self.server_uuid, *(each.server_uuid for each in others if each.server_uuid))
        known = unite_gtids(self.history, *(each.received for each in others))
        return unite_gtids(*(numbered_by(each, gtids) for each in servers), common_gtids(gtids, known))


@frozen
class BestCandidate:
    """Who is to be promoted."""

    node: str
    lacks: str
    """GTID set of the source's transactions that others have and it has not."""
    donor: str | None
    """The node that has all of these and could hand them on; None: no node could, or none are lacking."""
    lacking: str
    """What each node lacks, in words: `db2 lacks 3 transactions, db3 lacks none`."""


def choose(
    candidates: Sequence[Candidate],
    lineage: Lineage,
    wanted: str | None = None,
    *,
    catches_up: bool = False,
    accept_loss: bool = False,
) -> BestCandidate:
    """The candidate that lacks least of what any node has of the source's transactions, or the `wanted` one;
    one that `catches_up` first, because the source is there, may lack what others have.

    Raises StackUnavailable saying what each node lacks where none can be promoted, where `wanted` cannot be,
    and where one lacks what no other node can give it, unless somebody is to `accept_loss`.
    """
    if not candidates:
        raise StackUnavailable("no replica could be promoted", "the stack has none")
    theirs = {
        each.node: lineage.of_source(each.received, (other for other in candidates if other is not each))
        for each in candidates
    }
    union = unite_gtids(*theirs.values())
    known = [each for each in candidates if each.received or each.trouble is None]
    holes = {
        each.node: hole(each.server_uuid, each.received, union, lineage.history)
        for each in known
        if each.server_uuid
    }
    lacks = {
        each.node: unite_gtids(subtract_gtids(union, each.received), holes.get(each.node, ""))
        for each in candidates
    }
    lacking = ", ".join(f"{each.node} lacks {transactions(lacks[each.node], 'none')}" for each in known)
    troubles = {each.node: each.trouble for each in candidates if each.trouble is not None}
    differ = {each.node: each.diverged for each in known if each.diverged}
    differ |= {node: hole_words(lost) for node, lost in holes.items() if lost}
    for node, why in differ.items():
        if not (accept_loss and node == wanted):
            troubles.setdefault(node, f"{why}; `replexplorer role rejoin {node}` copies it")

    def rank(each: Candidate) -> tuple[int, int]:
        own = gtid_count(subtract_gtids(each.received, theirs[each.node]))
        missing = gtid_count(lacks[each.node])
        return (own, missing) if catches_up else (missing, own)

    fit = [each for each in candidates if each.node not in troubles]
    if wanted is not None and wanted in troubles:
        raise StackUnavailable(f"{wanted} cannot be promoted: it {troubles[wanted]}", lacking)
    if not fit:
        told = "; ".join(f"{node} {trouble}" for node, trouble in troubles.items())
        last = [
            f"`replexplorer role failover --to {node} --accept-loss` promotes it anyway" for node in differ
        ]
        hints = [*filter(None, [lacking]), *last[:1]] or ["run `replexplorer up` to repair what it can"]
        raise StackUnavailable(f"no replica could be promoted: {told}", "; ".join(hints))
    chosen = min(fit, key=rank) if wanted is None else next(c for c in fit if c.node == wanted)
    missing = lacks[chosen.node]
    donors = [
        each.node
        for each in known
        if missing and not subtract_gtids(missing, each.received) and not holes.get(each.node)
    ]
    donors.sort(key=lambda node: node in troubles)
    found = BestCandidate(chosen.node, missing, next(iter(donors), None), lacking)
    if missing and found.donor is None and not (catches_up or accept_loss):
        raise not_without_loss(found, "no node has all of them and could hand them on")
    return found


def not_without_loss(choice: BestCandidate, why: str) -> StackUnavailable:
    """That no node can be promoted without a loss, with what each node lacks and what would accept it."""
    return StackUnavailable(
        f"promoting {choice.node} would lose {transactions(choice.lacks)}: {why} ({choice.lacking})",
        f"`replexplorer role failover --to {choice.node} --accept-loss` gives them up",
    )


def hole_words(lost: str) -> str:
    """What is wrong with a node that has this hole, said of the node."""
    return f"lost the end of its own log: it lacks {transactions(lost)} that it numbered itself ({lost})"


def outlived_words(lost: str, source: str) -> str:
    """What is wrong with a replica that has these transactions of its source, which the source lost, said
    of the replica. The source goes on from the number before: it gives theirs to others."""
    return f"has {transactions(lost)} that {source} numbered itself and lost ({lost})"


@frozen
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


@frozen
class BootRoles:
    """What the servers of a stack are when they start, whatever they were made as."""

    source: str
    """It takes writes; a node that is made later follows it."""
    detached: frozenset[str] = frozenset()
    """They start, refuse writes and follow no source until they rejoin."""
    seeds: tuple[str, ...] = ()
    """Of a group: the members, as `NODE:PORT`, that a server which starts asks to let it in."""

    @property
    def text(self) -> str:
        """`name=value` lines, as start-mysqld reads them."""
        lines = [f"source={self.source}", *(f"detached={node}" for node in sorted(self.detached))]
        lines += [f"seeds={','.join(self.seeds)}"] if self.seeds else []
        return "".join(f"{line}\n" for line in lines)
