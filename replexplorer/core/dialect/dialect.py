"""What the engine asks of a server and lets it do, whatever its flavour; each flavour is one module.

Laws: who asks never sees a statement except to show it; a question asks only for what the server was
found to have. Positions are GTID sets as `core.server.gtid` writes them: a flavour whose server writes
them otherwise translates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from replexplorer.core.dialect.capabilities import Capabilities
from replexplorer.core.dialect.question import Question
from replexplorer.core.dialect.table_questions import Description
from replexplorer.core.knobs.catalogue import Value
from replexplorer.core.loss.client_log import Rows
from replexplorer.core.server.commit_counters import Totals
from replexplorer.core.server.counters import ServerStatus
from replexplorer.core.server.exposure_meter import LogState
from replexplorer.core.server.membership import Membership
from replexplorer.core.server.node_view import ThreadError
from replexplorer.core.tables.check import Remedy
from replexplorer.core.tables.table import TableName


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """A server's variables, as far as they are knobs."""

    values: Mapping[str, Value]
    """Knob key to effective value."""
    registers: bool | None = None
    """Whether it registers for semi-sync when it next connects to its source; None where it has no such
    switch."""
    refuses_writes: bool | None = None
    """Whether it refuses the writes of its clients; None where it does not say."""


@dataclass(frozen=True, slots=True)
class Threads:
    """A replica's replication threads."""

    io: str
    """on, connecting, error (stopped by one) or off (stopped by somebody)."""
    sql: str
    """As `io`, never connecting."""
    lag_s: float | None = None
    """As the server says it, in whole seconds; None while a thread does not run."""
    io_error: ThreadError | None = None
    """Its last one; None without any."""
    sql_error: ThreadError | None = None
    reads: str | None = None
    """The source's binlog that it reads now."""
    source_host: str | None = None
    """Whom it follows, as it was configured."""
    source_uuid: str | None = None
    """That server's own, once it was connected to it; None where the server does not say."""

    @property
    def fault(self) -> str | None:
        """The last error in one line, the applier's before the IO thread's; None without any."""
        error = self.sql_error or self.io_error
        return None if error is None else error.text


@dataclass(frozen=True, slots=True)
class Waits:
    """Commits under way on a source."""

    oldest_s: float | None
    """Age of the oldest that waits for an acknowledgement; None when none waits."""
    number: int | None
    oldest_commit_s: float | None = None
    """Age of the oldest, whatever it waits for; None when there is none."""
    """Under way, waiting or not; None where the server does not say."""


@dataclass(frozen=True, slots=True)
class Position:
    """What is on its way to be committed and what is committed, read in this order."""

    owned: str
    executed: str


@dataclass(frozen=True, slots=True)
class Sent:
    """A source's side of one replica's stream."""

    executed: str
    """All that the source has executed."""
    dump_thread: int | None
    """The thread that sends; None while the replica is not connected."""
    sent_bytes: int | None
    """By that thread."""


@dataclass(frozen=True, slots=True)
class Behind:
    """What a replica lacks, with ages by the source's clock as it stands in the transactions, in us."""

    queued: str | None
    """Received and not executed."""
    missing: str | None
    """Executed by the source and not here."""
    applying_us: int | None = None
    """Age of the oldest transaction that is applied or waits to be; None when there is none."""
    applied_us: int | None = None
    """Age of the newest that was applied; None when unknown."""
    by_heartbeat: bool = False
    """Transactions carry no time: that age is the newest heartbeat's, and none is written without a load."""


@dataclass(frozen=True, slots=True)
class SourceAddress:
    """Where a replica gets its events from."""

    host: str
    user: str
    password: str
    port: int = 3306

    def __repr__(self) -> str:
        """Without the password."""
        return f"SourceAddress({self.user!r}, {self.host!r}, {self.port})"


@dataclass(frozen=True, slots=True)
class Copying:
    """How far a server's copy of another one's data is."""

    stage: str | None
    """In the server's words; None before the first begins."""
    copied_bytes: int
    estimated_bytes: int
    """Of all stages that have begun."""
    fault: str | None = None
    """Why the last copy failed; None where it did not, or goes on."""


class Dialect(Protocol):
    """One server's dialect: questions with their readers, and statements in the order in which they run."""

    @property
    def capabilities(self) -> Capabilities:
        """What the server has."""
        ...

    # -- settings

    def settings(self) -> Question[ServerSettings]:
        """All knobs' values at once."""
        ...

    def setting(self, key: str) -> Question[Value]:
        """One knob's value; raises UsageError where the server lacks it."""
        ...

    def set(self, key: str, value: Value) -> str:
        """The statement that sets a knob while the server runs; raises UsageError where it lacks it."""
        ...

    def unfinished(self, key: str) -> Question[str | None] | None:
        """What the server still does, in words with its progress, of a setting that its variable shows
        already; None as the answer where it has done all, as the question where there is no such work."""
        ...

    # -- semi-sync and commits

    def status(self) -> Question[ServerStatus]:
        """Counters and gauges; what the server does not have is None."""
        ...

    def waits(self) -> Question[Waits]:
        """What commits wait for on a source."""
        ...

    def timeouts(self) -> Question[int | None]:
        """Falls to async by timeout since the server's start; None where it does not count them."""
        ...

    def commits(self, account: str | None) -> Question[Totals] | None:
        """What is counted and timed of the commits of one account's sessions, of everybody's for None; None
        where nothing is."""
        ...

    def register(self) -> tuple[str, ...]:
        """Lets a replica register for semi-sync when it next connects; nothing where it has no switch."""
        ...

    # -- membership in a group

    def membership(self) -> Question[Membership] | None:
        """How a server stands to its group; None where it was started for none."""
        ...

    def found(self) -> tuple[str, ...]:
        """Makes a server the first member of a new group; none where that is not done by statements."""
        ...

    def after_founding(self) -> tuple[str, ...]:
        """Runs whenever `found` or `go_on_with` ran, also when a statement of it failed."""
        ...

    def go_on_with(self, members: Sequence[str]) -> tuple[str, ...]:
        """Makes these (`NODE:PORT`) the whole group of a member whose majority is gone; `after_founding` runs
        afterwards."""
        ...

    def join(self, seeds: Sequence[str]) -> tuple[str, ...]:
        """Makes a server a member of the group that any of these (`NODE:PORT`) is in, whatever it was before;
        none where it joins by itself as it starts."""
        ...

    def leave(self) -> tuple[str, ...]:
        """Lets a server leave its group and stay up; none where it cannot."""
        ...

    def elect(self, server_uuid: str) -> str | None:
        """Makes the member with this id the one that takes writes; None where all do."""
        ...

    # -- positions

    def executed(self) -> Question[str]:
        """All that a server has executed."""
        ...

    def purged(self) -> Question[str]:
        """What it has executed and has in no binlog any more: whoever lacks it cannot follow from there."""
        ...

    def position(self) -> Question[Position]:
        """That, and what its sessions are about to commit."""
        ...

    def sent(self, replica_host: str) -> Question[Sent]:
        """A source's side of the stream to the replica at this address."""
        ...

    def behind(self, executed: str) -> Question[Behind | None]:
        """What a replica lacks of what its source has executed; None where it follows none."""
        ...

    def log_state(self) -> Question[LogState]:
        """How far a source's redo log is made and flushed, and what its commits wait for."""
        ...

    def received_gtids(self) -> Question[str]:
        """All that a replica has in its relay log or has executed; on any server, what it has executed."""
        ...

    def received(self) -> Question[tuple[object, ...]]:
        """What a replica has received, heartbeats included, only to be compared with an earlier answer."""
        ...

    def reached(self, executed: str, within_s: float) -> Question[bool]:
        """Waits in a replica until it has executed this; False when it has not in time."""
        ...

    # -- replication threads

    def threads(self) -> Question[Threads | None]:
        """A replica's threads; None where replication is not configured."""
        ...

    def start_threads(self) -> str:
        """Starts both."""
        ...

    def stop_threads(self) -> str:
        """Stops both."""
        ...

    def start_io(self) -> str:
        """Starts receiving."""
        ...

    def stop_io(self) -> str:
        """Stops receiving."""
        ...

    def start_applier(self) -> str:
        """Starts applying."""
        ...

    def stop_applier(self) -> str:
        """Stops applying."""
        ...

    def holding_commits(self, key: str) -> tuple[Sequence[str], Sequence[str]]:
        """What keeps commits from being under way while this variable changes, and what lets them go on; both
        empty where the server needs no such care."""
        ...

    # -- roles

    def follow(self, source: SourceAddress) -> Question[None]:
        """Points a replica whose threads are stopped at a source, by its position; the password is not
        in the statement's text."""
        ...

    def follow_nobody(self) -> tuple[str, ...]:
        """Makes a replica whose threads are stopped forget its source and its relay log."""
        ...

    def open_for_writes(self) -> tuple[str, ...]:
        """Lets everybody write."""
        ...

    def refuse_writes(self) -> tuple[str, ...]:
        """Lets nobody write but the applier."""
        ...

    def refuse_clients(self) -> tuple[str, ...]:
        """Lets nobody write but accounts that administer the server, and the applier."""
        ...

    # -- copying a whole server

    @property
    def copies(self) -> bool:
        """Whether a server can take a copy of another one's data. One that cannot is emptied, and receives
        all that its source ever logged."""
        ...

    def databases(self) -> Question[tuple[str, ...]]:
        """Those that are not the server's own."""
        ...

    def empty(self, databases: Sequence[str]) -> tuple[str, ...]:
        """Makes a server whose threads are stopped and that follows nobody what a new node is before it
        receives anything; on one connection, in this order, and out of the binlog."""
        ...

    def can_copy(self) -> Question[bool]:
        """Whether a server is ready to send or take a copy; `allow_copy` makes it so."""
        ...

    def allow_copy(self) -> tuple[str, ...]:
        """Makes it ready; refused where the server has no means to copy, and while nobody may write."""
        ...

    def copy_from(self, source: SourceAddress) -> tuple[Question[None], ...]:
        """Replaces all that a server has by what the other one has, in this order; the password is not in
        a statement's text. The server ends, and has the copy when it is started again."""
        ...

    def ended_to_restart(self, number: int) -> bool:
        """Whether a refusal of this number says that the copy is done and the server ends."""
        ...

    def copying(self) -> Question[Copying]:
        """How far that is."""
        ...

    # -- binlogs

    def binlogs(self) -> Question[tuple[tuple[str, int], ...]]:
        """Name and size in bytes, oldest first."""
        ...

    def logged_before(self, binlog: str) -> Question[str]:
        """All that the binlogs before this one have ever held: of the newest one after a start, what the
        server had logged by then."""
        ...

    def purge_binlogs(self, first_kept: str) -> str:
        """Removes all binlogs before this one."""
        ...

    # -- small commits of the program's own

    def kick(self) -> str:
        """One commit, to see it acknowledged or synced."""
        ...

    def beat(self) -> str:
        """One commit that carries the time, in a table that `heartbeat_table` makes."""
        ...

    def heartbeat_table(self) -> str:
        """Makes that table through the binlog, where it is not there yet."""
        ...

    # -- tables

    def describe(self, databases: Sequence[str]) -> Description:
        """All tables of these databases, with columns, indexes and foreign keys."""
        ...

    def holds_null(self, table: TableName, column: str) -> Question[bool]:
        """Whether a column holds a NULL now; it may take a look at the whole table."""
        ...

    def mend(self, table: TableName, remedy: Remedy) -> str:
        """What is to be done about a finding of `core.tables.check`, as a statement to be run or put into
        a job by whoever owns the table."""
        ...

    def table_bytes(self, database: str, table: str) -> Question[int]:
        """Size of a table's file; 0 where there is none."""
        ...

    def ledger_rows(self, run: int) -> Question[Rows]:
        """The rows that the clients of one run of the `ledger` load have here, as runs of numbers."""
        ...
