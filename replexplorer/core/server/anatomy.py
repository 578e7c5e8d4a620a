"""Where the time of one commit goes, from the server's own counters (docs/explanation/commit-cost.md).

Law: a part is what was measured; what no counter explains is `other`, never spread over the rest.

A commit in a group waits for the whole fsync of its group and for the whole acknowledgement of its
queue, whoever of the group does it: so a part is time per group, not time per commit. Groups are
counted by the locks that their leaders take, once each: LOCK_log for the flush group (redo fsync),
LOCK_sync for the sync group (binlog fsync), LOCK_commit for the commit queue (under after_sync the
leader waits once, for its queue's last position), LOCK_after_commit for the queue behind it (under
after_commit its leader waits for each thread of its queue in turn, and all of them wait for that).

What kept a load from more transactions: its generator, the machine, the link, the server, or the rate.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal

from replexplorer.core.json_keys import json_keys
from replexplorer.core.load.interval import Interval, processes_that_help
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.machine import short_of_cpu
from replexplorer.core.records import field, frozen
from replexplorer.core.server.counters import CommitGrowth, Source


class Part(StrEnum):
    """One part of a commit's time, as a client waits for it."""

    WIRE = "wire"
    """Client and network: in the closed loop how long the server waited for the next statement (its
    `idle` event: reply under way, client, statement under way); in the open loop, where a connection
    waits for arrivals as well, the clients' mean less the server's time for their statements."""
    EXECUTE = "execute"
    """The statements, up to the commit: the server's time for them less that in the handler's commit."""
    GROUP = "group"
    """Waiting until the group has ordered and certified the transaction: for a majority of the members, or
    for all (`core.system.WaitsFor`)."""
    QUEUE = "queue"
    """The leader's sleep for others to come (binlog_group_commit_sync_delay), which nothing times, as long as
    it was set; and queueing for stages that wait for neither fsync nor acknowledgement. In a recording from
    before the queues were told apart all of them."""
    FSYNC_QUEUE = "fsync_queue"
    """Waiting while the groups before fsync: see `_queued`."""
    REDO = "redo"
    """Writing and fsync of the redo log; none where a commit does not wait for it (flush 0 and 2)."""
    BINLOG = "binlog"
    """Binlog fsync."""
    ACK_QUEUE = "ack_queue"
    """Waiting while the groups before wait for their acknowledgement. This commit's events are on their way
    meanwhile, so that with `ACK` it is what a commit waits for an acknowledgement: a round trip or more."""
    ACK = "ack"
    """Waiting for the replicas' acknowledgement of one's own group."""
    ENGINE = "engine"
    """The rest of the handler's commit: writing to redo log and binlog, making the transaction visible."""
    OTHER = "other"
    """What no counter explains. Where the server times neither queue nor redo log, these and `engine` are in
    it."""

    @property
    def words(self) -> str:
        """`fsync queue`."""
        return self.value.replace("_", " ")


_BEFORE: Final = (
    Part.WIRE, Part.EXECUTE, Part.GROUP, Part.QUEUE, Part.FSYNC_QUEUE, Part.REDO, Part.BINLOG,
)  # fmt: skip
_ORDER: Final = {
    "after_sync": (*_BEFORE, Part.ACK_QUEUE, Part.ACK, Part.ENGINE),
    "after_commit": (*_BEFORE, Part.ENGINE, Part.ACK_QUEUE, Part.ACK),
}
FSYNCS: Final = (Part.FSYNC_QUEUE, Part.REDO, Part.BINLOG)
"""What a commit waits for the disk."""
ACKS: Final = (Part.ACK_QUEUE, Part.ACK)
"""What it waits for the replicas."""
_BY_THE_QUEUE: Final = (Part.QUEUE, Part.REDO, Part.ENGINE)
"""What is shown only where the locks of group commit are in some instrument."""
_OTHERS_SHARE: Final = 0.05
"""So far the account's statements may be off the load's own before they count as somebody else's."""


@json_keys(parts="parts_ms")
@frozen
class Anatomy:
    """One commit's time, as clients saw it over a stretch; milliseconds a commit."""

    duration_s: float
    commits: int
    mean_ms: float
    """The clients' mean service time, to which the parts are held; of `dissect_at_server` the server's for
    the commit alone."""
    parts: Mapping[Part, float] = field(default_factory=dict)
    """In the order in which a commit meets them (after_commit: engine before ack); only those that
    could be measured, `other` last."""
    excess_ms: float = 0.0
    """By how much the parts together exceed the mean: 0 when they fit within."""
    untimed: tuple[Part, ...] = ()
    """Parts that this server times nothing of: they are in `other`."""

    def ms_of(self, *parts: Part) -> float:
        """Several parts together."""
        return sum(self.parts.get(part, 0.0) for part in parts)

    @property
    def named(self) -> dict[Part, float]:
        """The parts as they are named to people: under `ACK` all that a commit waits for an acknowledgement,
        which is never less than the round trip."""
        whole: dict[Part, float] = {}
        for part, ms in self.parts.items():
            name = Part.ACK if part in ACKS else part
            whole[name] = whole.get(name, 0.0) + ms
        return whole

    @property
    def untimed_words(self) -> str:
        """`queue, redo, engine are not timed here: in other`; empty where every part is timed."""
        names = ", ".join(part.value for part in self.untimed)
        return f"{names} are not timed here: in other" if names else ""


@frozen
class Served:
    """What the load's clients saw over the same stretch."""

    duration_s: float
    commits: int
    queries: int
    mean_ms: float
    clients: int
    is_closed: bool
    queries_open: int = 0
    """Of intervals that lie only partly within the stretch: by how much the count may be off."""


@frozen
class CommitPath:
    """The settings that say what a commit waits for."""

    wait_point: str = "after_sync"
    redo_fsync: bool = True
    """The commit waits for the redo log's fsync (innodb_flush_log_at_trx_commit 1 or 3)."""
    sync_delay_ms: float = 0.0
    """How long each sync group's leader sleeps (binlog_group_commit_sync_delay)."""
    binlog_fsync: bool = True
    """Commits wait for the binlog's fsync, each one or every n-th (sync_binlog > 0)."""
    in_group: bool = False
    """The server is a member of a group, which certifies each commit."""


def dissect(counted: CommitGrowth, served: Served, path: CommitPath) -> Anatomy | None:
    """Take the mean commit apart; None where no commit was seen."""
    if not served.commits or not served.queries:
        return None
    parts = _parts(counted, served, path)
    untimed = () if Source.FLUSH_LOCK in counted.totals else _BY_THE_QUEUE
    if path.in_group and Source.GROUP not in counted.totals:
        untimed = (Part.GROUP, *untimed)
    return _held_to(served.mean_ms, parts, path, served.duration_s, served.commits, untimed)


def _held_to(
    mean_ms: float,
    parts: Mapping[Part, float],
    path: CommitPath,
    duration_s: float,
    commits: int,
    untimed: tuple[Part, ...],
) -> Anatomy:
    """The parts in their order, with what they leave of the mean or exceed it by."""
    order = _ORDER.get(path.wait_point, _ORDER["after_sync"])
    ordered = {part: parts[part] for part in order if part in parts}
    rest_ms = mean_ms - sum(ordered.values())
    ordered[Part.OTHER] = max(0.0, rest_ms)
    return Anatomy(duration_s, commits, mean_ms, ordered, max(0.0, -rest_ms), untimed)


def commit_at_server_ms(counted: CommitGrowth, commits: int | None) -> tuple[int, float] | None:
    """How many commits of all clients the server timed, and their mean: all that went to the binlog by the
    stage of the handler's commit where that is timed, which servers do only when told to, else those by the
    statement COMMIT, in which autocommit is not. None where none was timed."""
    if commits and counted.has(Source.COMMIT_STAGE):
        return commits, (_commit_ms(counted) or 0.0) / commits
    timed = counted.total(Source.COMMIT_STATEMENT)
    return None if timed.mean_ms is None else (timed.times, timed.mean_ms)


def dissect_at_server(
    counted: CommitGrowth, path: CommitPath, *, commits: int | None = None, ack_ms: float | None = None
) -> Anatomy | None:
    """Take the mean commit of all clients apart by what the server counts unless told otherwise; None where
    none was timed.

    No clock of a client is in it: neither the wire nor the statements before. `commits` went to the binlog;
    `ack_ms` is the mean wait for an acknowledgement that semi-sync's own counters say, taken where no
    instrument times it.
    """
    timed = commit_at_server_ms(counted, commits)
    if timed is None:
        return None
    times, mean_ms = timed
    parts = {part: wait.each_ms for part, wait in _waits(counted, path).items() if wait.each_ms > 0}
    if ack_ms:
        parts.setdefault(Part.ACK, ack_ms)
    redo = () if Source.REDO_FSYNC in counted.totals else (Part.REDO,)
    untimed = (Part.QUEUE, *redo, Part.ENGINE)
    return _held_to(mean_ms, parts, path, counted.duration_s, times, untimed)


def _parts(counted: CommitGrowth, served: Served, path: CommitPath) -> dict[Part, float]:
    """What can be told, in no order."""
    # A group is as many as there are clients at most: with fewer groups these are others' commits.
    commits = _groups(counted) * served.clients >= served.commits / 2
    waits = _waits(counted, path) if commits else {}
    parts = {part: wait.each_ms for part, wait in waits.items() if wait.each_ms > 0}
    if not _is_alone(counted, served):
        return parts
    transactions = counted.total(Source.STATEMENT).times * served.commits / served.queries
    statements_ms = counted.total(Source.STATEMENT).ms / transactions
    wire_ms = _wire_ms(counted, served, transactions, statements_ms)
    if wire_ms is not None:
        parts[Part.WIRE] = wire_ms
    asleep_ms = sum(counted.total(source).ms for source in _QUEUEING) / transactions
    followed_ms = sum(wait.each_ms * max(0.0, 1 - wait.groups / transactions) for wait in waits.values())
    queue_ms = max(0.0, asleep_ms - followed_ms)
    group_ms = counted.total(Source.GROUP).ms / transactions
    if group_ms:
        parts[Part.GROUP] = group_ms
    commit_ms, slept_ms = _commit_ms(counted), 0.0
    if commit_ms is not None:
        commit_ms /= transactions
        parts[Part.EXECUTE] = max(0.0, statements_ms - commit_ms)
        if commits:
            rest_ms = max(0.0, commit_ms - group_ms - queue_ms - sum(wait.each_ms for wait in waits.values()))
            slept_ms = min(rest_ms, path.sync_delay_ms * _groups(counted, Source.SYNC_LOCK) / transactions)
            if counted.has(Source.FLUSH_LOCK):
                parts[Part.ENGINE] = rest_ms - slept_ms
    if commits and counted.has(Source.FLUSH_LOCK):
        parts |= _queued(counted, path, waits, queue_ms)
        if slept_ms:
            parts[Part.QUEUE] = parts.get(Part.QUEUE, 0.0) + slept_ms
    return parts


def _queued(
    counted: CommitGrowth, path: CommitPath, waits: Mapping[Part, _Wait], queue_ms: float
) -> dict[Part, float]:
    """The queue by what the groups before wait for.

    The queue is what is slept in the locks of the stages and by followers for their leader, less what a
    follower waited for of its own group's fsyncs and acknowledgement. It is shared out as a group's leader
    sleeps in each lock: LOCK_log is held over the redo log's fsync, LOCK_sync over the binlog's, LOCK_commit
    (under after_commit LOCK_after_commit) over the acknowledgement.
    """
    after_commit = path.wait_point == "after_commit"
    held = {
        Source.FLUSH_LOCK: (Part.REDO, Part.FSYNC_QUEUE),
        Source.SYNC_LOCK: (Part.BINLOG, Part.FSYNC_QUEUE),
        Source.AFTER_COMMIT_LOCK if after_commit else Source.COMMIT_LOCK: (Part.ACK, Part.ACK_QUEUE),
    }
    slept: dict[Part, float] = {}
    for lock, (wait, queue) in held.items():
        if wait in waits:
            slept[queue] = slept.get(queue, 0.0) + (counted.total(lock).mean_ms or 0.0)
    if not slept:
        return {Part.QUEUE: queue_ms}
    whole_ms = sum(slept.values())
    return {queue: queue_ms * (ms / whole_ms if whole_ms else 1 / len(slept)) for queue, ms in slept.items()}


_QUEUEING: Final = (
    Source.FLUSH_LOCK,
    Source.SYNC_LOCK,
    Source.COMMIT_LOCK,
    Source.AFTER_COMMIT_LOCK,
    Source.FOLLOWING,
)


@frozen
class _Wait:
    """Something that a whole group waits for."""

    each_ms: float
    groups: float


def _groups(counted: CommitGrowth, *locks: Source) -> int:
    """How many groups there were, by the first of these locks that was seen at work: a stage that is
    left out (binlog_order_commits = OFF) goes with the one before it."""
    for source in (*locks, Source.FLUSH_LOCK, Source.BINLOG_WRITE):
        if counted.has(source):
            return counted.total(source).times
    return 0


def _waits(counted: CommitGrowth, path: CommitPath) -> dict[Part, _Wait]:
    """Fsyncs and acknowledgements, a group."""
    waits: dict[Part, _Wait] = {}
    flushes = _groups(counted, Source.FLUSH_LOCK)
    redo_ms = _redo_ms(counted, flushes)
    if path.redo_fsync and redo_ms:
        waits[Part.REDO] = _Wait(redo_ms, flushes)
    binlog, syncs = counted.total(Source.BINLOG_FSYNC), _groups(counted, Source.SYNC_LOCK)
    if path.binlog_fsync and binlog.times and syncs:
        waits[Part.BINLOG] = _Wait(binlog.ms / syncs, syncs)
    after_commit = path.wait_point == "after_commit"
    locks = (Source.AFTER_COMMIT_LOCK,) if after_commit else ()
    queues = _groups(counted, *locks, Source.COMMIT_LOCK, Source.SYNC_LOCK)
    ack = counted.total(Source.ACK)
    if Source.ACK not in counted.totals:
        # Without an instrument of the sleep (MariaDB) the stage tells: each commit's own wait after it.
        ack = counted.total(Source.ACK_STAGE)
        queues = ack.times if after_commit else queues
    if ack.times and queues:
        waits[Part.ACK] = _Wait(ack.ms / queues, queues)
    return waits


def _redo_ms(counted: CommitGrowth, flushes: int) -> float:
    """A flush group's redo log. Where sessions write it themselves their own time tells; else the mean
    fsync, of which a group waits for one: what is beyond that is the background's, on nobody's path."""
    own, fsyncs = counted.total(Source.OWN_REDO), counted.total(Source.REDO_FSYNC)
    if not flushes:
        return 0.0
    if own.times >= flushes:
        return own.ms / flushes
    return (fsyncs.mean_ms or 0.0) * min(1.0, fsyncs.times / flushes)


def _commit_ms(counted: CommitGrowth) -> float | None:
    """Time in the handler's commit, all transactions together; None where the stage is not timed."""
    if not counted.has(Source.COMMIT_STAGE):
        return None if _groups(counted) else 0.0
    waited = Source.ACK_STAGE if counted.has(Source.ACK_STAGE) else Source.ACK
    return counted.total(Source.COMMIT_STAGE).ms + counted.total(waited).ms


def _is_alone(counted: CommitGrowth, served: Served) -> bool:
    """Whether the account's statements are the load's own: as many, but for those under way at the
    ends. Else nothing that is asked by account says anything of the load."""
    ends = 2 * served.clients * max(1.0, served.queries / served.commits) + served.queries_open
    counted_times = counted.total(Source.STATEMENT).times
    return counted_times > 0 and abs(counted_times - served.queries) <= _OTHERS_SHARE * served.queries + ends


def _wire_ms(
    counted: CommitGrowth, served: Served, transactions: float, statements_ms: float
) -> float | None:
    """A transaction's time outside the server; None where other sessions' idling is in the counter: all
    clients together cannot have had more time than has passed."""
    if not served.is_closed:
        return max(0.0, served.mean_ms - statements_ms)
    if not counted.has(Source.IDLE):
        return None
    idle_ms = counted.total(Source.IDLE).ms
    # A statement counts when it ends, so one a client may have begun before.
    passed_ms = served.clients * (1000 * counted.duration_s + served.mean_ms)
    if idle_ms + counted.total(Source.STATEMENT).ms > passed_ms * (1 + _OTHERS_SHARE):
        return None
    return idle_ms / transactions


LimitedBy = Literal["generator", "host", "link", "server", "rate"]

_LINK: Final = (Part.WIRE, *ACKS)
"""Parts of a commit that are waited for on the way, to the clients and to the replicas."""


@frozen
class Limit:
    """One of them, and what says so."""

    by: LimitedBy
    words: str


def limit_of(
    total: Interval, *, limited: str | None, machine_percent: float | None, anatomy: Anatomy | None
) -> Limit | None:
    """What was the limit of a load over all of `total`: the first that shows; None where nothing does.

    `limited` is what the load's own intervals say (`Interval.limited`), `machine_percent` the CPU of all
    cores of the source's machine. A machine that has no CPU left comes first: more generator processes would
    take theirs from the server.
    """
    if (short := short_of_cpu(machine_percent)) is not None:
        return Limit("host", f"{short}; the generator has {total.cpu_percent:.0f} % of a core of it")
    if limited is not None:
        more = processes_that_help(limited, total.processes, total.clients)
        return Limit(
            "generator", limited if more is None else f"{limited}; `--processes {more}` shares it out"
        )
    if total.mode == OPEN and not total.backlog and not total.dropped:
        return Limit("rate", "the requested rate, and no arrival waits")
    if anatomy is None or not anatomy.mean_ms:
        return None
    whole_ms = sum(anatomy.parts.values())
    is_link = anatomy.ms_of(*_LINK) > whole_ms / 2
    parts = {part: ms for part, ms in anatomy.named.items() if (part in _LINK) is is_link and ms > 0}
    if not parts:
        return None
    share = 100 * sum(parts.values()) / whole_ms
    named = ", ".join(
        f"{part.words} {ms:.2f} ms" for part, ms in sorted(parts.items(), key=lambda each: -each[1])[:3]
    )
    return Limit("link" if is_link else "server", f"{share:.0f} % of a commit's time: {named}")
