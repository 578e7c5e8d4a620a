"""A group as its members see it: who takes part, whether a majority answers, what waits and what was refused.

Law: each figure is one member's own; two members may differ, and one that is cut off does not know it yet.
A group is protected while a member that takes writes has a majority: a commit is confirmed only when most
members have it. What nobody says is None.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from replexplorer.core.event import Severity
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.system import System
from replexplorer.core.topology import Belonging


@dataclass(frozen=True, slots=True)
class Membership:
    """One node's view of its group at one look."""

    belongs: Belonging
    state: str
    """In the server's word: ONLINE, RECOVERING, Synced, ..."""
    size: int | None = None
    """Members in its view, those that do not answer it included."""
    answering: int | None = None
    """Of these, how many answer it, itself counted; None where it does not say."""
    view: str | None = None
    """Names the view: another one after each change of members."""
    queued: int | None = None
    """Transactions that wait here to be certified."""
    to_apply: int | None = None
    """Transactions of other members that wait here to be applied."""
    conflicts: int | None = None
    """Transactions that certification refused, since this node became a member: its own, or those of all
    members (`System.counts_alike`)."""
    gave_way: int | None = None
    """Its own transactions that were rolled back for one of another member before they were certified."""
    certified: int | None = None
    """Transactions that were checked, since then."""
    held_ms: float | None = None
    """How long flow control has held commits back here, in all, since the server's start."""
    holds: int | None = None
    """Commits that it held back."""
    donor: str | None = None
    """The host from which it gets what it lacks now; None where it gets nothing, or does not say."""

    @property
    def is_ready(self) -> bool:
        """It takes part and has all that the others have."""
        return self.belongs is Belonging.MEMBER


@dataclass(frozen=True, slots=True)
class Conflicts:
    """Transactions of a group that lost against one of another member that changed the same row."""

    refused: int | None = None
    """By certification; None where no member says."""
    gave_way: int | None = None
    """Rolled back before that, as the other's was applied; None where the servers do not count them."""

    def since(self, before: Conflicts) -> Conflicts:
        """Those that came after `before`; unknown where a member's count began again meanwhile."""
        return Conflicts(
            _grown(before.refused, self.refused),
            _grown(before.gave_way, self.gave_way),
        )


def conflicts_of(system: System, members: Iterable[Membership | None]) -> Conflicts:
    """What has been lost in all, by what each node says: members that count alike have each counted all."""
    told = [each for each in members if each is not None]
    refused = [each.conflicts for each in told if each.conflicts is not None]
    gave_way = [each.gave_way for each in told if each.gave_way is not None]
    together = max if system.counts_alike else sum
    return Conflicts(together(refused) if refused else None, sum(gave_way) if gave_way else None)


def _grown(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None or after < before else after - before


def majority_of(size: int) -> int:
    """How many members of a group of this size are a majority."""
    return size // 2 + 1


def judge_group(
    system: System,
    members: Mapping[str, Membership | None],
    writers: Collection[str],
    *,
    requested_size: int,
) -> Protection:
    """The protection state of a group from what each node that answers says of it; `writers` take writes.

    `protected`: a majority of the members answers, and one of them takes writes; `blocked`: it does not, no
    node is a member, or none is elected yet; `down`: no node answers. Acknowledgements are those of the other
    members that can be reached: as many are needed as the system waits for, a member that is gone among them
    until the others' view is without it.
    """
    if not members:
        return Protection(ProtectionState.DOWN, requested=True, by_majority=True)
    quorate = {name: each for name, each in members.items() if each is not None and each.is_ready}
    best = max(quorate.values(), key=lambda each: each.answering or each.size or 0, default=None)
    size = best.size if best is not None and best.size else requested_size
    answering = len(quorate) if best is None or best.answering is None else best.answering
    takes = any(name in writers for name in quorate)
    return Protection(
        ProtectionState.PROTECTED if takes else ProtectionState.BLOCKED,
        requested=True,
        operational=bool(quorate),
        replicas_acking=max(0, min(answering, len(quorate)) - 1),
        replicas_required=system.others_needed(size),
        by_majority=True,
    )


class MemberWatch:
    """Follows what one node says of its group, look by look."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._last: Membership | None = None

    def seen(self, now: Membership | None) -> list[tuple[Severity, str]]:
        """What is new since the last look, in words; nothing at the first, and while the node is away."""
        if now is None:
            return []
        last, self._last = self._last, now
        if last is None:
            return []
        told: list[tuple[Severity, str]] = []
        if now.state != last.state or now.belongs is not last.belongs:
            told.append((_severity(now.belongs), f"{self._node}: {_words(now)}"))
        if now.is_ready and last.size != now.size and now.size is not None:
            severity = Severity.WARN if now.size < (last.size or 0) else Severity.INFO
            told.append((severity, f"{self._node} sees a group of {now.size}"))
        return told


def _severity(belongs: Belonging) -> Severity:
    match belongs:
        case Belonging.MEMBER:
            return Severity.GOOD
        case Belonging.JOINING:
            return Severity.INFO
        case _:
            return Severity.BAD


def _words(now: Membership) -> str:
    if now.belongs is Belonging.CUT_OFF:
        heard = "" if now.answering is None else f": {now.answering} of {now.size}"
        return f"{now.state}, and no majority answers{heard}"
    return now.state
