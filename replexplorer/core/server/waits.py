"""Who waits for what on a server: sessions by what they wait for, who holds the locks, what statements cost.

Law: a wait is what the server says that it is: InnoDB's word for the transaction, else the wait event where
those are recorded, else the state of the processlist. What none of them says is not guessed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from operator import sub
from typing import Final, Literal, NamedTuple

from replexplorer.core.records import frozen, printed, replace
from replexplorer.core.text import number, table

MOST_STATEMENTS: Final = 10
"""That are shown."""


class Wait(StrEnum):
    """What a session waits for."""

    ACK = "semi-sync acknowledgement"
    BEHIND_ACK = "acknowledgement of another"
    """Under AFTER_SYNC the leader of a commit group alone waits for its replicas. All others wait behind it,
    or will once their own binlog fsync has ended (docs/explanation/semi-sync.md)."""
    GROUP = "certification by the group"
    ROW_LOCK = "row lock"
    METADATA_LOCK = "metadata or table lock"
    FLUSH = "binlog flush stage"
    SYNC = "binlog sync stage"
    ORDER = "commit order"
    LEADER = "leader of its commit group"
    BINLOG = "binlog write or fsync"
    REDO = "redo log write or fsync"
    COMMIT = "commit"
    """In which stage, and for which fsync, the server does not say."""
    NETWORK = "network"
    NOTHING = "nothing: it runs"
    OPEN = "its client, in a transaction"
    CLIENT = "its client"
    EVENTS = "new binlog events"


_IDLE: Final = (Wait.CLIENT, Wait.EVENTS)
_SAID: Final = tuple(
    (wait, re.compile(said, re.IGNORECASE))
    for wait, said in (
        (Wait.ACK, "semi-sync ACK|/cond/semisync/"),
        (Wait.GROUP, "certif|/group_rpl/"),
        (Wait.METADATA_LOCK, "^waiting for .*(lock|flush)|^user lock|^wait/lock/metadata/"),
        (Wait.FLUSH, "LOCK_log$"),
        (Wait.SYNC, "LOCK_sync$"),
        (Wait.ORDER, "(prior|preceding) transaction|commit ticket|LOCK_(after_)?commit$"),
        (Wait.LEADER, "COND_done$"),
        (Wait.BINLOG, "file/sql/binlog$|^writing to binlog"),
        (Wait.REDO, "innodb_log_file$"),
        (Wait.COMMIT, "^waiting for handler commit|^commit"),
        (Wait.EVENTS, "waiting for more updates"),
        (
            Wait.NETWORK,
            "^(sending|writing) .*(client|net|replica|slave)|^(reading|receiving) from|/io/socket/",
        ),
    )
)
"""States of the processlist (manual, "General Thread States", "Replication Source Thread States"; MariaDB
knowledge base, "Thread States") and wait events (docs/explanation/commit-cost.md, "Commit anatomy")."""


class SessionNow(NamedTuple):
    """A session as the server shows it."""

    id: int
    """Of the processlist: what KILL takes."""
    command: str
    state: str
    statement: str | None
    """That it runs, or ran last where the server keeps that."""
    age_s: float | None
    """Of the statement; of an idle session since its last one."""
    event: str | None = None
    """The wait event that goes on; None where there is none, or none is recorded."""
    in_transaction: bool = False
    """InnoDB has one open for it."""
    waits_for_row: bool = False
    """InnoDB says that it waits for a row lock."""

    @property
    def wait(self) -> Wait:
        """What it waits for."""
        if self.waits_for_row:
            return Wait.ROW_LOCK
        if self.command == "Sleep":
            return Wait.OPEN if self.in_transaction else Wait.CLIENT
        said = (wait for text in (self.event, self.state) for wait, of in _SAID if of.search(text or ""))
        return next(said, Wait.NOTHING)


@frozen
class WaitGroup:
    """Sessions that wait for the same in the same state."""

    wait: Wait
    state: str
    """Of the processlist."""
    sessions: int
    longest_s: float | None
    """Age of the oldest one's statement; of an idle session since its last one."""
    oldest: int
    """That session, as KILL takes it."""
    statement: str | None
    """That it runs, or ran last; shortened."""


def grouped(sessions: Iterable[SessionNow], *, after_sync: bool) -> tuple[WaitGroup, ...]:
    """Those with most sessions first, idle ones last. `after_sync`: who is in a commit waits behind those
    that wait for an acknowledgement."""
    found: dict[tuple[Wait, str], list[SessionNow]] = {}
    for each in sessions:
        wait = Wait.BEHIND_ACK if after_sync and each.wait is Wait.COMMIT else each.wait
        found.setdefault((wait, each.state), []).append(each)
    groups = []
    for (wait, state), members in found.items():
        oldest = max(members, key=lambda each: each.age_s or 0.0)
        groups.append(WaitGroup(wait, state, len(members), oldest.age_s, oldest.id, oldest.statement))
    return tuple(sorted(groups, key=lambda each: (each.wait in _IDLE, -each.sessions)))


_UNKNOWN: Final = SessionNow(0, "", "", None, None)
"""What is known of a session that is not among those looked at."""


@frozen
class LockWait:
    """A session that waits for a lock; the server has a row of it for each session that it waits for."""

    kind: Literal["row", "metadata"]
    waiter: int
    blocker: int | None
    """Of those that it waits for the one that waits for no lock itself, where there is one."""
    table: str | None
    """`database.table`."""
    index: str | None = None
    key: str | None = None
    """The index record, as InnoDB writes it (data_locks.LOCK_DATA)."""
    mode: str | None = None
    """That it asks for."""
    waited_s: float | None = None
    """Of a metadata lock the age of its statement."""
    statement: str | None = None
    """Of the session that waits."""
    blockers: int = 0
    """Sessions that it waits for."""
    blocker_command: str | None = None
    """`Sleep`: its transaction is open, and its client sends nothing."""
    blocker_statement: str | None = None
    """That it runs, or ran last."""


def lock_waits(rows: Iterable[LockWait], sessions: Iterable[SessionNow]) -> tuple[LockWait, ...]:
    """One a waiting session, with what is known of both sides; the longest wait first."""
    known = {each.id: each for each in sessions}
    by_waiter: dict[int, list[LockWait]] = {}
    for row in rows:
        by_waiter.setdefault(row.waiter, []).append(row)
    waits_too = {each.id for each in known.values() if each.wait in (Wait.ROW_LOCK, Wait.METADATA_LOCK)}
    waits_too |= by_waiter.keys()
    found = []
    for waiter, same in by_waiter.items():
        blockers = list(dict.fromkeys(row.blocker for row in same if row.blocker is not None))
        blocker = min(blockers, key=lambda each: each in waits_too, default=None)
        itself, holder = (
            _UNKNOWN if each is None else known.get(each, _UNKNOWN) for each in (waiter, blocker)
        )
        waited_s = itself.age_s if same[0].waited_s is None else same[0].waited_s
        found.append(
            replace(
                same[0], waited_s=waited_s, statement=itself.statement,
                blocker=blocker, blockers=len(blockers),
                blocker_command=holder.command or None, blocker_statement=holder.statement,
            )
        )  # fmt: skip
    return tuple(sorted(found, key=lambda each: -(each.waited_s or 0.0)))


class StatementTotals(NamedTuple):
    """What a server has counted of a statement digest since it started."""

    times: int
    ms: float
    examined: int
    sent: int
    affected: int


Digest = tuple[str, str, str]
"""Database, hash and text, each empty where the server has none."""


@frozen
class StatementRate:
    """A statement digest between two looks."""

    database: str
    statement: str
    """Without literals, shortened; empty: all that found no place in the server's table."""
    per_s: float
    mean_ms: float
    rows_examined: float
    """Mean of one execution, as the next two."""
    rows_sent: float
    rows_affected: float


def statement_rates(
    before: Mapping[Digest, StatementTotals], now: Mapping[Digest, StatementTotals], over_s: float
) -> tuple[StatementRate, ...]:
    """Those that took most of the server's time. What was never counted before has no difference yet."""
    rates = []
    for digest, totals in now.items():
        times, *sums = map(sub, totals, before.get(digest, totals))
        if times > 0 and over_s > 0:
            rates.append(
                StatementRate(digest[0], digest[2], times / over_s, *(each / times for each in sums))
            )
    return tuple(sorted(rates, key=lambda each: -each.per_s * each.mean_ms)[:MOST_STATEMENTS])


@printed
class ServerWaits:
    """What the sessions of a server wait for."""

    node: str
    sessions: int | None
    """Client sessions and those that send binlogs; null where the server shows none."""
    groups: tuple[WaitGroup, ...]
    locks: tuple[LockWait, ...]
    """The longest waits."""
    statements: tuple[StatementRate, ...] | None
    """Null at the first look, and where the server does not count them."""
    over_s: float | None
    """Between the two looks whose difference they are."""
    unseen: tuple[str, ...]
    """What the server does not record, or does not show to this account."""

    @property
    def title(self) -> str:
        """Whose they are."""
        return f"{self.node}: {'unknown' if self.sessions is None else self.sessions} sessions"


def not_recorded(consumers: frozenset[str]) -> tuple[str, ...]:
    """What a server does not record, by the consumers of its performance schema that are on (manual,
    "Performance Schema Filtering by Consumer"). None is turned on for it."""
    if "global_instrumentation" not in consumers:
        return ("the performance schema is off: no statements, no stages of a commit",)
    lacks = {
        "events_waits_current": "stages and fsyncs of a commit",
        "statements_digest": "statements",
    }
    return tuple(
        f"{what}: the consumer {name} is off" for name, what in lacks.items() if name not in consumers
    )


def pages(found: ServerWaits) -> Iterator[tuple[str, Sequence[str]]]:
    """The parts that there are, each with its heading, for a terminal."""
    if found.groups:
        rows = [
            (str(each.sessions), number(each.longest_s, 3), each.wait, each.state) for each in found.groups
        ]
        below = [[_said(each.oldest, "oldest", each.statement)] for each in found.groups]
        yield "SESSIONS", _hung(("sessions", "longest s", "wait for", "state"), rows, below, (0, 1))
    if found.locks:
        heads = ("waits s", "lock", "table", "index", "key", "mode")
        rows_of_locks = [
            (
                number(each.waited_s),
                each.kind,
                *(text or "" for text in (each.table, each.index, each.key, each.mode)),
            )
            for each in found.locks
        ]
        yield "LOCKS", _hung(heads, rows_of_locks, map(_parties, found.locks), (0,))
    if found.statements:
        heads = ("per s", "mean ms", "examined", "sent", "affected", "statement")
        costs = [
            (
                number(each.per_s),
                number(each.mean_ms, 3),
                *map(number, (each.rows_examined, each.rows_sent, each.rows_affected)),
                each.statement or "all others",
            )
            for each in found.statements
        ]
        yield "STATEMENTS (rows: mean of one execution)", table(costs, heads, range(5)).splitlines()
    if found.unseen:
        yield "NOT SEEN", found.unseen


def _parties(lock: LockWait) -> Sequence[str]:
    holds = f"holds it ({lock.blocker_command or 'unknown'})"
    if lock.blockers > 1:
        holds += f", one of {lock.blockers}"
    held = (
        "who holds it is unknown"
        if lock.blocker is None
        else _said(lock.blocker, holds, lock.blocker_statement)
    )
    return [_said(lock.waiter, "waits", lock.statement), held]


def _said(session: int, does: str, statement: str | None) -> str:
    return f"id {session}, {does}: {statement or 'no statement'}"


def _hung(
    heads: Sequence[str], rows: Sequence[Sequence[str]], below: Iterable[Sequence[str]], right: Sequence[int]
) -> Sequence[str]:
    """A table with further lines below each row."""
    head, *lines = table(rows, heads, right).splitlines()
    hung = zip(lines, below, strict=True)
    return [head, *(part for line, more in hung for part in (line, *(f"      {text}" for text in more)))]
