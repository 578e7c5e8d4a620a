"""What a failure at this moment would lose: commits that a client was told are committed, and are not safe.

Law: `low` and `high` enclose the truth given when each number was read, and `commits` lies between them.
What cannot be said is Unknown with its reason, never 0.

From looks at a source and its replicas to what a failure would lose now.

docs/explanation/failure-loss.md has what survives what.

A commit has no LSN of its own. What is known of the redo log is counted in commits by the looks before: all
that was committed when an earlier look was made lies before an LSN that the server set down later, so it is
safe once that LSN is flushed: `high` counts the rest. What began after a look since which no fsync of the
redo log has begun is not safe: `low`. The numbers of GTIDs are read right before and right after each.

The server sets its LSNs down from time to time, not when they are asked for. A look whose LSN differs from
the one before it has an LSN that was set down between the two.

Law: nothing here reads a clock or a server; each answer holds for the moment of the last look.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from typing import Final

from replexplorer.core.json_keys import json_keys
from replexplorer.core.records import field, frozen, replace
from replexplorer.core.server.comeback import Replication, redo_fsyncs, waits_for_both
from replexplorer.core.server.gtid import gtid_count, subtract_gtids


@frozen
class Loss:
    """How many commits one kind of failure would lose now."""

    commits: int
    """The likeliest number."""
    low: int
    high: int
    age_ms: float | None = None
    """Since the oldest of them was committed; None where none is at risk, or that is not known."""

    @property
    def short(self) -> str:
        """`455`."""
        return f"{self.commits:,}"

    @property
    def words(self) -> str:
        """`455 commits (443 to 470), the oldest 413 ms old`; `nothing`."""
        if not self.high:
            return "nothing"
        commits = "1 commit" if self.commits == 1 else f"{self.commits:,} commits"
        age = "" if self.age_ms is None else f", the oldest {self.age_ms:,.0f} ms old"
        return f"{commits} ({self.low:,} to {self.high:,}){age}"


@json_keys(why="unknown")
@frozen
class Unknown:
    """It cannot be said how many."""

    why: str
    low: int = 0
    """Commits that are known to be lost at least."""

    @property
    def short(self) -> str:
        """`?`, or the least."""
        return f">={self.low:,}" if self.low else "?"

    @property
    def words(self) -> str:
        """What is known at least, and why no more is."""
        return f"{f'at least {self.low:,} commits; ' if self.low else 'not known: '}{self.why}"


@json_keys(hide="read_ago_s")
@frozen
class Exposure:
    """What each kind of failure would lose now."""

    process_dies: Loss | Unknown
    """Missing on the source after mysqld is killed and started again on the same machine."""
    power_cut: Loss | Unknown
    """Missing on the source after its machine lost power and came back."""
    source_lost: Loss | Unknown
    """Missing on the best reachable replica after its relay log is applied, the source never coming back."""
    read_ago_s: float = 0.0
    """How old that was when it was said: a busy source answers late."""
    binlog_lost: Loss | Unknown = Loss(0, 0, 0)
    """Transactions that a power cut takes of the source's binlog, at these settings."""
    replication_after: Replication | None = Replication.WHOLE
    """What may become of a replica's stream after a power cut of the source; None: unknown."""

    @property
    def losses(self) -> Sequence[Loss | Unknown]:
        """Of each kind of failure, in the order of `FAILURES`."""
        return self.process_dies, self.power_cut, self.source_lost


FAILURES: Final[Mapping[str, str]] = {
    "process_dies": "mysqld dies",
    "power_cut": "power cut",
    "source_lost": "source lost",
}
"""The fields of an exposure that are a kind of failure, each in words."""


def silent(why: str) -> Exposure:
    """Nothing can be said of any failure."""
    unknown = Unknown(why)
    return Exposure(unknown, unknown, unknown, binlog_lost=unknown, replication_after=None)


def after_power_cut(
    sync_binlog: int | None, flush: int | None, *, waits: bool, clients: int
) -> tuple[Loss | Unknown, Replication | None]:
    """What a power cut takes of the binlog of a source with these settings, and what may become of its
    replicas; `waits`: commits wait for a replica. A fsync is due after `sync_binlog` groups of commits, each
    of one commit of each client at most.

    Where the binlog is not fsynced at each commit events are sent before, and InnoDB may keep what the binlog
    loses: a replica that had not received it never can. Where the source loses rows its replicas have them.
    """
    if sync_binlog is None or flush is None:
        return Unknown("the server does not say how it flushes"), None
    if sync_binlog == 1:
        return Loss(0, 0, 0), Replication.WHOLE if redo_fsyncs(flush) else Replication.DIVERGED
    lost: Loss | Unknown = Unknown("the kernel decides when the binlog is written back")
    if sync_binlog > 1:
        lost = Loss(sync_binlog // 2, 0, sync_binlog * max(1, clients))
    return lost, Replication.DIVERGED if waits or not redo_fsyncs(flush) else Replication.BROKEN


NOT_REACHED: Final = silent("the source was not reached")


SET_DOWN_WITHIN_S: Final = 1.0
"""An LSN that was read so long after a look was set down after it: a thread of InnoDB does that a hundred
times a second where it gets CPU (InnoDB's source: log_files_governor)."""
LATE_S: Final = 2.0
"""A replica whose last answer is older is not reachable."""
_MOST_LOOKS: Final = 400
_MOST_COUNTS: Final = 600
_AT_INTERVALS: Final = 0
"""The value of innodb_flush_log_at_trx_commit with which a commit does not even write its redo."""


@frozen
class LogState:
    """A source's logs and sessions, as one statement answers them; None where it does not say."""

    current_lsn: int | None = None
    """Up to here redo was made, when the server last set that down."""
    flushed_lsn: int | None = None
    """Up to here it was fsynced then, at least: a checkpoint, and going to the next file, fsync more."""
    written_bytes: int | None = None
    """Of redo, by all writes since the server's start, until now."""
    flush_at_commit: int | None = None
    """innodb_flush_log_at_trx_commit."""
    sync_binlog: int | None = None
    running: int = 0
    """Sessions at work: each has at most one commit that is done and that its client was not told of yet."""
    connected: int = 0
    """Sessions."""
    connections: int = 0
    """That were begun since the server's start."""
    waits: bool = False
    """Semi-sync is in force: a client is told only after the acknowledgement."""
    not_waited: int | None = None
    """Commits that did not wait for one, since the server's start (no_tx)."""
    uptime_s: int | None = None
    fsyncs: int | None = None
    """Of redo that were begun since the server's start, until now."""

    @property
    def is_strict(self) -> bool:
        """A client is told only after both fsyncs."""
        return waits_for_both(self.sync_binlog, self.flush_at_commit)


@frozen
class SourceLook:
    """A source at one moment: its logs between two readings of what it has executed."""

    at_s: float
    """When its logs were read, on the session's monotonic clock."""
    before: str
    """GTIDs executed, read before the logs, after the replicas."""
    after: str
    """The same, read after the logs."""
    log: LogState
    asked_s: float | None = None
    """When `before` was asked for: commits that were told of later may be in no number; None: at once."""
    first: str = ""
    """The same, read before the replicas were asked."""
    committed_before: int = field(init=False)
    committed_after: int = field(init=False)

    def __post_init__(self) -> None:
        """Count the GTIDs, once."""
        object.__setattr__(self, "committed_before", gtid_count(self.before))
        object.__setattr__(self, "committed_after", gtid_count(self.after))


@frozen
class Received:
    """What a replica had when it was asked."""

    at_s: float
    """When its answer was in, on the session's monotonic clock."""
    gtids: str
    """In its relay log or executed."""
    in_turn: bool = True
    """It was read between `first` and `before` of the source's look; else it is older."""


@frozen
class Alone:
    """A source when no replica answered any more: none has what it told clients of since."""

    executed: str
    """GTIDs."""
    running: int
    """Sessions at work: what they were about to commit a replica may have."""
    source: str = ""
    """The node's name, where it is kept for others."""
    since_wall_s: float = 0.0
    """The moment in seconds since 1970, where it is kept."""

    def lost(self, now: SourceLook) -> int:
        """Commits that surely began since, and were surely told by now."""
        since = gtid_count(subtract_gtids(now.before, self.executed))
        return max(0, since - now.log.running - self.running)


# -- the source comes back


def disk_exposure(looks: Sequence[SourceLook]) -> tuple[Loss | Unknown, Loss | Unknown]:
    """What the last of these looks, oldest first, would lose when the process dies, and by a power cut."""
    now = looks[-1]
    flushed = now.log.flushed_lsn
    if flushed is None or any(look.log.current_lsn is None for look in looks):
        unknown = Unknown("the server does not say how far its redo log is flushed")
        strict = all(look.log.is_strict for look in looks)
        return (Loss(0, 0, 0), Loss(0, 0, 0)) if strict else (unknown, unknown)
    at = _last_below(looks, flushed)
    if at is not None and all(look.log.is_strict for look in looks):
        return Loss(0, 0, 0), Loss(0, 0, 0)
    covered = None if at is None else _covered(looks, at)
    if at is None or covered is None:
        waited_s = now.at_s - looks[0].at_s
        unknown = Unknown(f"no flush of the redo log was seen yet in {waited_s:.1f} s of looking")
        return unknown, unknown
    likely = _likely(looks[at:], flushed)
    return _process_dies(looks[covered:], likely), _power_cut(looks[covered:], likely)


def _power_cut(window: Sequence[SourceLook], likely: _Likely) -> Loss:
    """Since a look before which all is flushed by now. Settings may have changed meanwhile: the weakest
    count."""
    now, log = window[-1], window[-1].log
    if all(look.log.is_strict for look in window):
        return Loss(0, 0, 0)
    high = now.committed_after - window[0].committed_before
    if all(redo_fsyncs(look.log.flush_at_commit) for look in window):
        # The next commit of a session flushes the redo of the one before: one a session is at risk.
        begun = log.connections - window[0].log.connections
        return likely.within(0, min(high, max(look.log.connected for look in window) + max(0, begun)))
    return likely.within(_while_still(window, [look.log.fsyncs for look in window]), high)


def _process_dies(window: Sequence[SourceLook], likely: _Likely) -> Loss:
    """What was written is in the page cache and survives; the binlog is written before a client is told."""
    if all(look.log.flush_at_commit not in (_AT_INTERVALS, None) for look in window):
        return Loss(0, 0, 0)
    low = _while_still(window, [look.log.written_bytes for look in window])
    return likely.within(low, window[-1].committed_after - window[0].committed_before)


def _while_still(window: Sequence[SourceLook], counts: Sequence[int | None]) -> int:
    """Commits that surely began, and were told, while a count of what would have saved them stood still."""
    if counts[-1] is None:
        return 0
    still, now = window[counts.index(counts[-1])], window[-1]
    if still is now:
        return 0
    return now.committed_before - now.log.running - still.committed_after - still.log.running


@frozen
class _Likely:
    """The likeliest number, and how old the oldest of them is."""

    commits: int
    age_ms: float

    def within(self, low: int, high: int) -> Loss:
        """As a loss between these bounds."""
        high = max(0, high)
        low = min(max(0, low), high)
        commits = min(max(low, self.commits), high)
        return Loss(commits, low, high, self.age_ms if commits else None)


def _likely(window: Sequence[SourceLook], flushed_lsn: int) -> _Likely:
    """By the LSN, between the first two looks, which lie on both sides of it."""
    now = window[-1]
    first, then = window[0], window[1] if len(window) > 1 else window[0]
    made = _lsn(then) - _lsn(first)
    share = min(1.0, max(0.0, (flushed_lsn - _lsn(first)) / made)) if made else 1.0
    safe = first.committed_before + share * (then.committed_before - first.committed_before)
    since_s = first.at_s + share * (then.at_s - first.at_s)
    return _Likely(round(now.committed_before - safe), 1000 * (now.at_s - since_s))


def _lsn(look: SourceLook) -> int:
    return look.log.current_lsn or 0


def _last_below(looks: Sequence[SourceLook], flushed_lsn: int) -> int | None:
    """Index of the last look whose LSN is flushed; None where there is none."""
    return next((at for at in reversed(range(len(looks))) if _lsn(looks[at]) <= flushed_lsn), None)


def _covered(looks: Sequence[SourceLook], at: int) -> int | None:
    """Index of the last look before which all that was committed lies below the LSN of the one `at`."""
    lsn, at_s = _lsn(looks[at]), looks[at].at_s
    return next(
        (
            each
            for each in reversed(range(at))
            if _lsn(looks[each]) != lsn or at_s - looks[each].at_s >= SET_DOWN_WITHIN_S
        ),
        None,
    )


# -- the source does not come back


def replica_exposure(
    now: SourceLook,
    received: Mapping[str, Received | None],
    before: SourceLook | None = None,
    alone: Alone | None = None,
) -> Loss | Unknown:
    """What the best replica that answers would lack, had the source gone at the last look; `before` is
    the look before it, `alone` the source since when none answered. By replica its last answer, None: it gave
    none. No age: see `ExposureMeter`."""
    if not received:
        return Unknown("there is no replica")
    answers = [each for each in received.values() if each is not None]
    there = [each for each in answers if now.at_s - each.at_s <= LATE_S]
    if not there:
        counts = alone is not None and not now.log.waits
        return Unknown(_silent_replicas(now, answers), alone.lost(now) if alone and counts else 0)
    # A client that waits for an acknowledgement is told once a replica has the commit; with all replicas
    # asked since, only what was executed before that was in force can be lacking.
    waited = (
        before is not None
        and before.log.waits
        and now.log.waits
        and before.log.not_waited == now.log.not_waited is not None
        and all(each is not None and each.in_turn for each in received.values())
    )
    told_by = before.after if waited and before is not None else now.before
    high = min(_lacking(told_by, each) for each in there)
    likely = min(_lacking(now.first, each) for each in there)
    # At most one commit a session was done and not told when the replica was asked.
    low = min(_lacking(now.first, each) - now.log.connected if each.in_turn else 0 for each in there)
    low = min(max(0, low), high)
    return Loss(min(max(low, likely), high), low, high)


def _silent_replicas(now: SourceLook, answers: Sequence[Received]) -> str:
    if not answers:
        return "no replica has answered yet"
    newest = max(answers, key=lambda each: each.at_s)
    lacking = _lacking(now.before, newest)
    commits = "1 commit" if lacking == 1 else f"{lacking:,} commits"
    return f"no replica answers; {commits} since the last answer, {now.at_s - newest.at_s:.0f} s ago"


def _lacking(executed: str, received: Received) -> int:
    return gtid_count(subtract_gtids(executed, received.gtids))


# -- the history


class ExposureMeter:
    """Takes looks and answers with the exposure at the last one; keeps no more of them than it needs."""

    def __init__(self) -> None:
        self._looks: list[SourceLook] = []
        """The first is the last one before which all redo is flushed, if any."""
        self._counts: list[tuple[float, int]] = []
        """When the source had executed how many commits, ever fewer the older they are."""
        self._received: dict[str, Received | None] = {}
        self.alone: Alone | None = None
        """The source at the first look since which no replica has answered and semi-sync has not waited."""
        self.is_answered = False
        """A replica answered at the last look."""
        self._kept: Alone | None = None
        """What somebody else knows of that."""

    def forget(self) -> None:
        """Another source, or another life of it: nothing that was seen says anything of it."""
        self._looks.clear()
        self._counts.clear()
        self._received.clear()
        self.alone = self._kept = None
        self.is_answered = False

    @property
    def looked_s(self) -> float | None:
        """When the last look was: each commit that was told of before is in its numbers; None before one."""
        if not self._looks:
            return None
        now = self._looks[-1]
        return now.at_s if now.asked_s is None else now.asked_s

    def take(
        self, look: SourceLook, received: Mapping[str, Received | None], kept: Alone | None = None
    ) -> None:
        """Take a look, and the last answer of each replica that there is, None: it gave none; `kept` is since
        when none answers, where somebody else has seen that."""
        if self._looks and _is_another_life(self._looks[-1], look):
            self.forget()
        self._received = dict(received)
        self._looks.append(look)
        answered_s = max((each.at_s for each in received.values() if each is not None), default=-inf)
        self.is_answered = look.at_s - answered_s <= LATE_S
        self._kept = None if self.is_answered else kept
        if self.is_answered or look.log.waits:
            self.alone = None
        elif self.alone is None:
            self.alone = Alone(look.after, look.log.running)
        flushed = look.log.flushed_lsn
        if flushed is not None and (at := _last_below(self._looks, flushed)):
            # One before the last is kept for what changed between the two.
            del self._looks[: min(_covered(self._looks, at) or 0, len(self._looks) - 2)]
        if len(self._looks) > _MOST_LOOKS:
            half = len(self._looks) // 2
            self._looks[1:half] = self._looks[1:half:2]
        self._counts.append((look.at_s, look.committed_before))
        if len(self._counts) > _MOST_COUNTS:
            half = len(self._counts) // 2
            self._counts[1:half] = self._counts[1:half:2]

    def exposure(self) -> Exposure | None:
        """At the last look; None before one."""
        if not self._looks:
            return None
        process_dies, power_cut = disk_exposure(self._looks)
        before = self._looks[-2] if len(self._looks) > 1 else None
        lost = replica_exposure(self._looks[-1], self._received, before, self._kept or self.alone)
        if isinstance(lost, Loss) and lost.commits:
            lost = replace(lost, age_ms=self._age_ms(lost.commits))
        log = self._looks[-1].log
        binlog, after = after_power_cut(
            log.sync_binlog, log.flush_at_commit, waits=log.waits, clients=log.connected
        )
        return Exposure(process_dies, power_cut, lost, binlog_lost=binlog, replication_after=after)

    def _age_ms(self, commits: int) -> float | None:
        """How long ago the oldest of the newest `commits` was made; None where that is before all looks."""
        at_s, now = self._counts[-1]
        oldest = now - commits
        earlier = [(s, count) for s, count in self._counts if count <= oldest]
        if not earlier:
            return None
        later = next((s, count) for s, count in self._counts if count > oldest)
        from_s, made = earlier[-1]
        share = (oldest - made) / (later[1] - made)
        return 1000 * (at_s - from_s - share * (later[0] - from_s))


def _is_another_life(before: SourceLook, now: SourceLook) -> bool:
    """The server restarted in between, or its positions were reset."""
    pairs = (
        (before.committed_after, now.committed_before),
        (before.log.current_lsn, now.log.current_lsn),
        (before.log.written_bytes, now.log.written_bytes),
        (before.log.uptime_s, now.log.uptime_s),
    )
    return any(old is not None and new is not None and new < old for old, new in pairs)


def over_time(seen: Sequence[Exposure]) -> Exposure | None:
    """Many looks as one, each kind for itself: the median number and age, from the least low to the greatest
    high; Unknown where most looks were; None for no look."""
    if not seen:
        return None
    return Exposure(
        _over_time([each.process_dies for each in seen]),
        _over_time([each.power_cut for each in seen]),
        _over_time([each.source_lost for each in seen]),
        binlog_lost=_over_time([each.binlog_lost for each in seen]),
        replication_after=seen[-1].replication_after,
    )


def _over_time(seen: Sequence[Loss | Unknown]) -> Loss | Unknown:
    known = sorted((each for each in seen if isinstance(each, Loss)), key=lambda each: each.commits)
    if 2 * len(known) < len(seen):
        return next(each for each in reversed(seen) if isinstance(each, Unknown))
    middle = known[len(known) // 2]
    low, high = min(each.low for each in known), max(each.high for each in known)
    return Loss(middle.commits, low, high, middle.age_ms)
