"""What a server has counted of its statements until a moment, and what came between two of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple


class DigestKey(NamedTuple):
    """A digest, and the database that its session was in."""

    database: str
    """Empty: none."""
    text: str


@dataclass(frozen=True, slots=True)
class DigestCount:
    """What a server counted of one digest."""

    times: int = 0
    ms: float = 0.0
    """Time that the server took for all of them."""
    examined: int = 0
    """Rows of its tables that it looked at; as the next two, of all of them."""
    sent: int = 0
    affected: int = 0
    prepared: int = 0
    """How many of the times as prepared statements."""
    first_seen: str = ""
    """A clock time that sorts."""

    def __add__(self, other: DigestCount) -> DigestCount:
        """Both together."""
        return DigestCount(
            self.times + other.times,
            self.ms + other.ms,
            self.examined + other.examined,
            self.sent + other.sent,
            self.affected + other.affected,
            self.prepared + other.prepared,
            min(filter(None, (self.first_seen, other.first_seen)), default=""),
        )

    def since(self, before: DigestCount | None) -> DigestCount:
        """What came after; a server that counts less than before has begun to count from zero."""
        if before is None or self.times < before.times:
            return self
        return replace(
            self,
            times=self.times - before.times,
            ms=max(0.0, self.ms - before.ms),
            examined=max(0, self.examined - before.examined),
            sent=max(0, self.sent - before.sent),
            affected=max(0, self.affected - before.affected),
            prepared=max(0, self.prepared - before.prepared),
        )


@dataclass(frozen=True, slots=True)
class PreparedCount:
    """One prepared statement of one session."""

    key: DigestKey
    count: DigestCount


@dataclass(frozen=True, slots=True)
class StatementLook:
    """One look at a server's counters."""

    at_s: float
    digests: Mapping[DigestKey, DigestCount] = field(default_factory=dict)
    """Without text: what found no place in the server's table of digests."""
    executions: int = 0
    """Of prepared statements, whatever they are."""
    transactions: int | None = None
    """All that ended, autocommit ones as well; None where the server does not count them."""


def growth(
    before: Mapping[DigestKey, DigestCount], after: Mapping[DigestKey, DigestCount]
) -> dict[DigestKey, DigestCount]:
    """What came between two looks; only what did come."""
    found = {key: count.since(before.get(key)) for key, count in after.items()}
    return {key: count for key, count in found.items() if count.times}


class PreparedTally:
    """Adds up what prepared statements did over several looks: they vanish with their sessions."""

    def __init__(self) -> None:
        self._last: Mapping[str, PreparedCount] | None = None
        self.counts: dict[DigestKey, DigestCount] = {}
        """Until the last look."""

    def add(self, look: Mapping[str, PreparedCount]) -> None:
        """Take a look at every prepared statement, by what tells one from another."""
        before = self._last
        self._last = look
        if before is None:
            return
        for name, now in look.items():
            last = before.get(name)
            is_same = last is not None and last.key == now.key
            grown = now.count.since(last.count if is_same and last is not None else None)
            if grown.times:
                grown = replace(grown, prepared=grown.times)
                self.counts[now.key] = self.counts.get(now.key, DigestCount()) + grown
