"""A server that had ended and runs again: what it lost, and which nodes differ from it since.

docs/explanation/failure-loss.md, "What comes back". GTID sets say it, where the rows of a GTID cannot be
missing.

Law: what the server executed at its start counts, not what it has by now, for a source gives the numbers that
it lost to other transactions at once. Where that is not known a lost transaction may look like one that is
there, never the other way round.

Why a server ended while it started, by what it wrote into its log.

Law: the first error is the cause; those after it are what came of it, down to `Aborting`.

What stood in the way of commits within a window of time, and its words.

Law: a window that holds an outage claims no gain and no loss. Seconds and commits are what was seen of
the window itself, and until commits were protected again it counts from the outage's beginning, as the log
and the charts do.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from replexplorer.core.json_keys import json_keys
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import SOURCE, KnobName, KnobView, Value
from replexplorer.core.records import field, frozen
from replexplorer.core.server.gtid import (
    common_gtids,
    gtid_count,
    numbered_by,
    subtract_gtids,
    transactions,
    unite_gtids,
)
from replexplorer.core.text import command, one_line

if TYPE_CHECKING:
    from replexplorer.core.fault import Had

_REDO_FSYNCS: Final = {1: 1, 3: 2}
"""Value of innodb_flush_log_at_trx_commit to the fsyncs that a commit waits for: MariaDB's 3 also waits for
one after it was committed (MariaDB knowledge base, "innodb_flush_log_at_trx_commit")."""


def redo_fsyncs(flush: object) -> int:
    """Fsyncs of the redo log that each commit waits for, by innodb_flush_log_at_trx_commit; 0: none."""
    return _REDO_FSYNCS.get(flush, 0) if isinstance(flush, int) else 0


def waits_for_both(sync_binlog: object, flush: object) -> bool:
    """Whether each commit waits until redo log and binlog are on the disk."""
    return sync_binlog == 1 and redo_fsyncs(flush) > 0


def lax_knobs(knobs: Mapping[KnobName, KnobView]) -> tuple[tuple[KnobName, Value], ...]:
    """The primary's knobs that let a power cut lose commits, with the value in force (the requested one
    while that is unknown); none: commits are durable."""
    found: list[tuple[KnobName, Value]] = []
    for key in (keys.SYNC_BINLOG, keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT):
        if (view := knobs.get(KnobName(key, SOURCE))) is not None:
            value = view.requested if view.effective is None else view.effective
            if value != 1 if key == keys.SYNC_BINLOG else redo_fsyncs(value) == 0:
                found.append((view.name, value))
    return tuple(found)


class Replication(StrEnum):
    """What became of a replica's stream after its source came back."""

    WHOLE = "whole"
    BROKEN = "broken 1236"
    """It lacks what no binlog of the source holds any more: the IO thread ends with error 1236."""
    DIVERGED = "diverged"
    """It has what the source lost, or rows that the source lost though its GTIDs are there."""


class Acknowledged:
    """What the clients of one load were answered, as GTID sets.

    Law: a server that runs again may give the numbers that it lost to other commits, so what was answered
    until no client had a connection is kept apart from what came later.
    """

    def __init__(self) -> None:
        self.before = ""
        """Until no client had a connection, the last time that this was so."""
        self._since = ""
        self._judged: set[str | None] = set()

    def add(self, gtids: str, *, connected: int) -> None:
        """What clients were answered in an interval, at whose end this many of them had a connection."""
        self._since = unite_gtids(self._since, gtids)
        if not connected:
            self.pause()

    def pause(self) -> None:
        """No client has a connection now."""
        if self._since:
            for uuid in self._judged:
                told = self.before if uuid is None else numbered_by(uuid, self.before)
                self.before = subtract_gtids(self.before, told)
            self._judged.clear()
            self.before, self._since = unite_gtids(self.before, self._since), ""

    def judged(self, server_uuid: str | None) -> None:
        """What this server came back without has been said: what its clients were answered until then counts
        until they lose it again. None: the source, where servers have no UUID."""
        self._judged.add(server_uuid)


def loses_rows(fault: str, values: Mapping[str, Value]) -> bool:
    """Whether a failure takes redo of commits that clients were told of, under these settings: without power
    all that was not flushed, and where mysqld dies what it did not even write."""
    flush = values.get(keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT, 1)
    return redo_fsyncs(flush) == 0 if fault == "power_cut" else flush == 0


@frozen
class LostTransactions:
    """What a server had numbered and lacked at its start; of MariaDB its binlogs, whatever its rows are."""

    transactions: int
    is_all: bool
    """False: it committed until it ended, and its last moment is not counted."""
    gtids: str
    acknowledged: int | None
    """How many of them clients of the load were answered; None: no load kept account."""
    only_on: Mapping[str, int]
    """By node: how many of them it has."""


@frozen
class BinlogLost:
    """What a power cut took of binlogs."""

    transactions: int | None
    """That InnoDB has kept; None: not known."""
    bytes: int


@json_keys(
    hide="is_source lost only_on binlog_lost binlog_bytes acknowledged wrote_to_the_end",
    show="lost_transactions lost_binlog",
    lost_transactions="lost",
    rows="rows_lost",
    lost_binlog="binlog_lost",
    replication="replication_after",
    differs="diverged",
)
@frozen
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
    """At least and at most how many commits' rows are gone while their GTIDs are there; None: not known."""
    acknowledged: str | None = None
    """Those of `lost` that clients of the load were answered, all of them; None: no load kept account."""
    wrote_to_the_end: bool = False
    """It committed until it ended, and can have lost the last commits, which are in no set."""
    rows_apart: bool = False
    """`lost` is what its binlogs have lost: MariaDB's InnoDB keeps no GTIDs, and may have the rows."""

    @property
    def lost_transactions(self) -> LostTransactions:
        """`lost`, counted."""
        return LostTransactions(
            gtid_count(self.lost),
            not self.wrote_to_the_end,
            self.lost,
            None if self.acknowledged is None else gtid_count(self.acknowledged),
            {node: gtid_count(gtids) for node, gtids in self.only_on.items()},
        )

    @property
    def lost_binlog(self) -> BinlogLost:
        """What its binlogs have lost, counted."""
        count = None if self.binlog_lost is None else gtid_count(self.binlog_lost)
        return BinlogLost(count, self.binlog_bytes)

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

    @property
    def losses(self) -> tuple[str, ...]:
        """What it lost, a line each; empty for nothing."""
        lines = []
        if self.lost and self.rows_apart:
            told = "" if self.acknowledged is None else f" ({gtid_count(self.acknowledged):,} acknowledged)"
            lines.append(f"the binlog of {self.node} lost {lost_words(self.lost, self.only_on)}{told}")
            lines.append(
                f"how many of their rows {self.node} lost is not known: MariaDB keeps no GTID with its rows"
            )
            return tuple(lines)
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
        if self.binlog_lost:
            gone = f"{transactions(self.binlog_lost)} ({self.binlog_bytes:,} bytes)"
            lines.append(f"the binlog of {self.node} lost {gone} that InnoDB has kept")
        return tuple(lines)

    def words(self, stack: str) -> tuple[str, ...]:
        """What it came to on this stack, and the remedy, a line each; empty where all is whole."""
        remedies = (
            f"{node} {why}: {command('role rejoin', stack, node, '--copy')} makes it a copy of the source"
            for node, why in self.differs.items()
        )
        return (*self.losses, *remedies)


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
    rows_apart: bool = False,
) -> Comeback:
    """What a server came back without: `others` have these sets while it was away, it had executed `at_start`
    at its start, and of that `purged` is in no binlog of its own; clients were answered `acknowledged`.
    Without a UUID it has numbered all there is. `since` is what the others have by now: what was on its way
    when the server ended may have come. `rows_apart`: only its binlogs have GTIDs, not its rows."""
    answered = numbered_by(uuid, acknowledged) if uuid else acknowledged
    seen = (had.executed.get(node, ""), *others.values(), answered)
    before = numbered_by(uuid, *seen) if uuid else unite_gtids(*seen)
    lost = subtract_gtids(before, at_start)
    only_on = {name: common_gtids(lost, gtids) for name, gtids in others.items()}
    binlog_lost = None if had.purged is None else subtract_gtids(purged, had.purged)
    of_lost = common_gtids(lost, answered) if answered else None
    wrote = had.first is not None and bool(subtract_gtids(had.executed.get(node, ""), had.first))
    # InnoDB keeps the GTIDs of what it has: where these are more than the binlog's, all their rows are there.
    rows = None if (lost if rows_apart else had.loses_rows and not binlog_lost) else (0, 0)
    differs = {node: NOT_KNOWN} if rows is None and not is_source else {}
    replication: dict[str, Replication] = {}
    for name, gtids in others.items() if is_source else ():
        lacks = subtract_gtids(purged, gtids, (since or {}).get(name, ""))
        replication[name] = Replication.DIVERGED
        if only_on[name]:
            differs[name] = (
                f"has {transactions(only_on[name])} that {node} lost and whose numbers it uses again"
            )
        elif rows is None:
            differs[name] = f"has or gets transactions whose rows {node} may have lost"
        elif lacks:
            replication[name] = Replication.BROKEN
            differs[name] = f"lacks {transactions(lacks)} found in no binlog of {node} (error 1236)"
        else:
            replication[name] = Replication.WHOLE
    return Comeback(
        node, is_source, lost, {name: gtids for name, gtids in only_on.items() if gtids and is_source},
        binlog_lost, had.binlog_bytes, replication, differs, rows, of_lost, wrote and is_source, rows_apart,
    )  # fmt: skip


_ERROR: Final = re.compile(r"\[ERROR\]\s*(.+)")
_NO_AIO: Final = "io_setup() failed with EAGAIN"
"""InnoDB's words, whatever number they have: asked five times, the kernel had too few requests of
asynchronous I/O left."""
_WITHOUT: Final = "Native AIO disabled"
"""It was refused even the first one, by which it asks whether there is any, and goes on without (measured on
9.7.4)."""
_SHOWN: Final = 200
"""Characters of a line of the log."""


def why_it_ended(lines: Iterable[str]) -> str | None:
    """The first error of these lines, else the last of them; None if there is none."""
    written = [line for line in lines if line.strip()]
    does_without = any(_WITHOUT in line for line in written)
    errors = (
        found[1]
        for line in written
        if (found := _ERROR.search(line)) and not (does_without and _NO_AIO in line)
    )
    said = next(errors, written[-1] if written else None)
    return None if said is None else one_line(said, _SHOWN).rstrip(".")


def lacked_aio(said: str) -> bool:
    """Whether it ended for want of asynchronous I/O."""
    return _NO_AIO in said


@frozen
class Outage:
    """Stalls, fallbacks and restarts within a window; falsy if there were none."""

    blocked_s: float = 0.0
    """Commits waited for an acknowledgement that did not come."""
    unprotected_s: float = 0.0
    """Semi-sync was asked for and commits did not wait."""
    down_s: float = 0.0
    """No login to the source succeeded."""
    unprotected: int = 0
    """Commits confirmed to clients without an acknowledgement, while semi-sync was asked for."""
    restarts: tuple[str, ...] = ()
    """Servers that restarted, in order."""
    lasts: bool = False
    """Still so at the window's end."""
    again_s: float | None = None
    """From the outage's beginning, which may lie before the window, until commits were protected again;
    None: they are not, or never were."""
    fell_first: bool = False
    """It began unprotected, and stalls came after."""

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return self != Outage()


def outage_words(outage: Outage) -> tuple[str, ...]:
    """What happened, longest first: `blocked 10.0 s, then 18,678 commits unprotected, protected again
    after 29.4 s`, with less of it, and with short figures; empty for nothing."""
    if not outage:
        return ()
    stalls = [
        f"{word} {_length(seconds)}"
        for word, seconds in (("down", outage.down_s), ("blocked", outage.blocked_s))
        if seconds > 0
    ]
    commits = f"{outage.unprotected:,} commit{'' if outage.unprotected == 1 else 's'} unprotected"
    if outage.unprotected_s > 0 and not outage.unprotected:
        commits = f"fell back to async for {_length(outage.unprotected_s)}"
    restarts = [f"{' and '.join(outage.restarts)} restarted"] if outage.restarts else []
    fell = outage.unprotected > 0 or outage.unprotected_s > 0
    again = [] if outage.again_s is None else [f"protected again after {_length(outage.again_s)}"]
    lasts = ", not over yet" if outage.lasts and not again else ""
    parts = [", ".join([*restarts, *stalls]), commits if fell else ""]
    told = ", then ".join(filter(None, reversed(parts) if outage.fell_first else parts))
    full = ", ".join(part for part in (told, *again) if part)
    brief = ", ".join(
        [*restarts, *stalls, *([f"{outage.unprotected:,} unprotected"] if outage.unprotected else [])]
    )
    return tuple(dict.fromkeys([f"{full}{lasts}", full, told or full, brief or told or full]))


def _length(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 99.95 else f"{seconds:.0f} s"
