"""A server that had ended and runs again: what it lost, and which nodes differ from it since.

docs/facts.md, "What comes back". GTID sets say it, where the rows of a GTID cannot be missing.

Law: what the server executed at its start counts, not what it has by now, for a source gives the numbers that
it lost to other transactions at once. Where that is not known a lost transaction may look like one that is
there, never the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final, Self

from replexplorer.core.hints import command
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import Value
from replexplorer.core.server.durability import redo_fsyncs
from replexplorer.core.server.gtid import (
    common_gtids,
    gtid_count,
    numbered_by,
    subtract_gtids,
    transactions,
    unite_gtids,
)


class Replication(StrEnum):
    """What became of a replica's stream after its source came back."""

    WHOLE = "whole"
    BROKEN = "broken 1236"
    """It lacks what no binlog of the source holds any more: the IO thread ends with error 1236."""
    DIVERGED = "diverged"
    """It has what the source lost, or rows that the source lost though its GTIDs are there."""


@dataclass(frozen=True, slots=True)
class Had:
    """What the nodes had right before one of them ended."""

    executed: Mapping[str, str] = field(default_factory=dict)
    """GTID set by node that answered; of a replica with what it has received."""
    purged: str | None = None
    """What the node that ended had in no binlog; None: it was not asked."""
    binlog_bytes: int = 0
    """Of its binlogs, taken by a power cut."""
    loses_rows: bool = False
    """Its redo log was not flushed at each commit: rows can be missing whose GTIDs its binlog has kept."""
    rows_low: int | None = None
    """How many commits the redo log would lose, at least; None: it was not counted."""
    rows_high: int | None = None
    first: str | None = None
    """What the node had executed a moment before, where it can lose commits: that it went on says that there
    are some in no set; None: it cannot."""

    def record(self) -> dict[str, Any]:
        """As a fault's record keeps it."""
        return asdict(self)

    @classmethod
    def read(cls, content: object) -> Self | None:
        """The inverse; None for none."""
        return cls(**content) if isinstance(content, dict) else None


class Acknowledged:
    """What the clients of one load were answered, as GTID sets.

    Law: a server that runs again may give the numbers that it lost to other commits, so what was answered
    until no client had a connection is kept apart from what came later.
    """

    def __init__(self) -> None:
        self.before = ""
        """Until no client had a connection, the last time that this was so."""
        self._since = ""
        self._judged: set[str] = set()

    def add(self, gtids: str, *, connected: int) -> None:
        """What clients were answered in an interval, at whose end this many of them had a connection."""
        self._since = unite_gtids(self._since, gtids)
        if not connected:
            self.pause()

    def pause(self) -> None:
        """No client has a connection now."""
        if self._since:
            for uuid in self._judged:
                self.before = subtract_gtids(self.before, numbered_by(uuid, self.before))
            self._judged.clear()
            self.before, self._since = unite_gtids(self.before, self._since), ""

    def judged(self, server_uuid: str | None) -> None:
        """What this server came back without has been said: what its clients were answered until then counts
        until they lose it again."""
        if server_uuid is not None:
            self._judged.add(server_uuid)


def loses_rows(fault: str, values: Mapping[str, Value]) -> bool:
    """Whether a failure takes redo of commits that clients were told of, under these settings: without power
    all that was not flushed, and where mysqld dies what it did not even write."""
    flush = values.get(keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT, 1)
    return redo_fsyncs(flush) == 0 if fault == "power_cut" else flush == 0


@dataclass(frozen=True, slots=True)
class Comeback:
    """What a server came back without."""

    node: str
    is_source: bool
    lost: str = ""
    """GTIDs that it had numbered itself and lacked at its start."""
    only_on: Mapping[str, str] = field(default_factory=dict)
    """Those of them that another node has, by node."""
    binlog_lost: str | None = None
    """GTIDs that it executed and that its binlogs have lost; None: what they held is not known."""
    binlog_bytes: int = 0
    replication: Mapping[str, Replication] = field(default_factory=dict)
    """By replica; empty where the node is not the source."""
    differs: Mapping[str, str] = field(default_factory=dict)
    """By node why it is to be copied, said of the node."""
    rows: tuple[int, int] | None = None
    """Bounds of the number of commits whose rows are gone while their GTIDs are there; None: not known."""

    acknowledged: str | None = None
    """Those of `lost` that clients of the load were answered, all of them; None: no load kept account."""
    wrote_to_the_end: bool = False
    """It committed until it ended, and can have lost the last commits, which are in no set."""

    @property
    def is_whole(self) -> bool:
        """No commit of the load was lost, as far as is known none of others, and nothing differs."""
        uncounted = self.wrote_to_the_end and self.acknowledged is None
        return not (self.lost or self.binlog_lost or uncounted or self.rows != (0, 0) or self.differs)

    @property
    def after(self) -> Replication:
        """The worst of its replicas' streams."""
        found = self.replication.values()
        order = (Replication.DIVERGED, Replication.BROKEN)
        return next((each for each in order if each in found), Replication.WHOLE)

    @property
    def ahead(self) -> Mapping[str, str]:
        """`only_on`, where the node is the source."""
        return self.only_on if self.is_source else {}

    def words(self, stack: str) -> tuple[str, ...]:
        """What it came to on this stack, and the remedy, a line each; empty where all is whole."""
        lines = []
        if self.lost and self.acknowledged is not None:
            lines.append(
                f"{self.node} lost {lost_words(self.acknowledged, self.only_on, 'acknowledged commit')}"
            )
        if rest := subtract_gtids(self.lost, self.acknowledged or ""):
            what = "transaction" if self.acknowledged is None else "other transaction"
            lines.append(f"{self.node} lost at least {lost_words(rest, self.only_on, what)}")
        elif self.wrote_to_the_end and self.acknowledged is None:
            lines.append(
                f"{self.node} may have lost its last commits: those of its last moment are not counted"
            )
        if self.rows is None:
            lines.append(f"{self.node} may have lost rows whose GTIDs it has: how many is not known")
        elif self.rows[1]:
            low, high = self.rows
            lines.append(f"{self.node} lost the rows of {low:,} to {high:,} commits and has their GTIDs")
        if self.binlog_lost:
            gone = f"{transactions(self.binlog_lost)} ({self.binlog_bytes:,} bytes)"
            lines.append(f"the binlog of {self.node} lost {gone} that InnoDB has kept")
        remedies = (
            f"{node} {why}: {command('rejoin', stack, node, '--copy')} makes it a copy of the source"
            for node, why in self.differs.items()
        )
        return (*lines, *remedies)


def lost_words(lost: str, only_on: Mapping[str, str], what: str = "transaction") -> str:
    """`508 transactions, 508 of them only on db2`."""
    there = {node: gtid_count(common_gtids(lost, gtids)) for node, gtids in only_on.items()}
    where = [f"{count:,} of them only on {node}" for node, count in there.items() if count]
    return ", ".join([transactions(lost, f"no {what}s", what), *(where or ["on no other node"] * bool(lost))])


def binlog_bytes(files: Iterable[str]) -> int:
    """Of what a power cut took, a file and its bytes each (`binlog.000002 454,575 bytes`), the binlogs'."""
    return sum(int(line.split()[1].replace(",", "")) for line in files if line.startswith("binlog."))


NOT_KNOWN: Final = "may lack rows of its GTIDs: its redo log was not flushed at each commit"


def compare(
    node: str,
    uuid: str | None,
    had: Had,
    others: Mapping[str, str],
    at_start: str,
    purged: str,
    acknowledged: str = "",
    *,
    is_source: bool,
    since: Mapping[str, str] | None = None,
) -> Comeback:
    """What a server came back without: `others` have these sets while it was away, it had executed `at_start`
    at its start, and of that `purged` is in no binlog of its own; clients were answered `acknowledged`.
    Without a UUID it has numbered all there is. `since` is what the others have by now: what was on its way
    when the server ended may have come."""
    answered = numbered_by(uuid, acknowledged) if uuid else acknowledged
    seen = (had.executed.get(node, ""), *others.values(), answered)
    before = numbered_by(uuid, *seen) if uuid else unite_gtids(*seen)
    lost = subtract_gtids(before, at_start)
    only_on = {name: common_gtids(lost, gtids) for name, gtids in others.items()}
    binlog_lost = None if had.purged is None else subtract_gtids(purged, had.purged)
    of_lost = common_gtids(lost, answered) if answered else None
    wrote = had.first is not None and bool(subtract_gtids(had.executed.get(node, ""), had.first))
    rows: tuple[int, int] | None = (0, 0)
    # InnoDB keeps the GTIDs of what it has: where these are more than the binlog's, all their rows are there.
    if had.loses_rows and not binlog_lost:
        rows = None if had.rows_low is None or had.rows_high is None else (had.rows_low, had.rows_high)
        if rows is not None and lost:
            rows = (0, max(0, rows[1] - gtid_count(lost)))
    if not is_source:
        differs = {} if rows == (0, 0) else {node: NOT_KNOWN}
        return Comeback(node, False, lost, {}, binlog_lost, had.binlog_bytes, {}, differs, rows, of_lost)
    replication, differs = dict[str, Replication](), dict[str, str]()
    for name, gtids in others.items():
        lacks = subtract_gtids(purged, gtids, (since or {}).get(name, ""))
        replication[name] = Replication.WHOLE
        if only_on[name]:
            differs[name] = (
                f"has {transactions(only_on[name])} that {node} lost and whose numbers it uses again"
            )
        elif rows is None or rows[1]:
            differs[name] = f"has or gets transactions whose rows {node} may have lost"
        if differs.get(name):
            replication[name] = Replication.DIVERGED
        elif lacks:
            replication[name] = Replication.BROKEN
            differs[name] = f"lacks {transactions(lacks)} that are in no binlog of {node} (error 1236)"
    return Comeback(
        node, True, lost, {name: gtids for name, gtids in only_on.items() if gtids}, binlog_lost,
        had.binlog_bytes, replication, differs, rows, of_lost, wrote,
    )  # fmt: skip
