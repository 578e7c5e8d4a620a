"""MySQL's and Percona Server's dialect: 8.0 and later, in the old names and the new ones.

Which generation of names a server has is seen from its variables: until 8.0.25 a source is a master.
What stands here was measured or read in the server's source (docs/explanation/semi-sync.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

from replexplorer.core.dialect.dialect import (
    ACK_STAGES,
    HANDLER_COMMIT,
    KNOB_VARIABLES,
    MYSQL_TIMED,
    Capabilities,
    Copying,
    Position,
    Range,
    ServerSettings,
    SourceAddress,
    Threads,
    Timed,
    Waits,
)
from replexplorer.core.dialect.question import (
    Question,
    Row,
    from_server,
    is_on,
    listed,
    literal,
    numbers,
    read_pairs,
    whole,
)
from replexplorer.core.dialect.waits import (
    CONSUMERS,
    METADATA_LOCKS,
    MYSQL_ROW_LOCKS,
    MYSQL_SESSIONS,
    STATEMENT_TOTALS,
)
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.catalogue import BY_KEY, Value
from replexplorer.core.load.workload import LEDGER_TABLE
from replexplorer.core.loss.client_log import CLIENTS_A_RUN, Rows
from replexplorer.core.records import frozen
from replexplorer.core.server.counters import Sent, ServerStatus
from replexplorer.core.server.exposure import LogState
from replexplorer.core.server.gtid import spans_of
from replexplorer.core.server.node_view import Membership, ThreadError
from replexplorer.core.server.truth import Behind, Workers
from replexplorer.core.server.waits import LockWait
from replexplorer.core.system import ASYNC, System


@frozen
class _Generation:
    """One generation's names."""

    status_prefix: str
    """Of the source's semi-sync counters."""
    replica_status: str
    """The replica's own status variable: ON once it registered, also while reconnecting."""


OLD_NAMES: Final = _Generation("Rpl_semi_sync_master_", "Rpl_semi_sync_slave_status")
"""Of a source that is a master."""
_GENERATIONS: Final = {
    "rpl_semi_sync_source_enabled": _Generation("Rpl_semi_sync_source_", "Rpl_semi_sync_replica_status"),
    "rpl_semi_sync_master_enabled": OLD_NAMES,
}
_REGISTERS: Final = ("rpl_semi_sync_replica_enabled", "rpl_semi_sync_slave_enabled")
_NEW_WORDS: Final = "replica_parallel_workers"
"""A server that has this variable says REPLICA, an older one SLAVE."""

_SEMI_SYNC_COUNTERS: Final = {
    "clients": "clients",
    "yes_tx": "yes_tx",
    "no_tx": "no_tx",
    "no_times": "no_times",
    "tx_waits": "tx_waits",
    "tx_wait_time_us": "tx_wait_time",
}
"""Field of a status to the end of the variable's name."""
_UNTOLD_RANGES: Final = {keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT: Range(0, 2)}
"""Of servers that have no table of ranges: a value beyond is cut with a warning, not refused."""
_RESTART_FAILED: Final = 3707
_CLONES_FROM: Final = (8, 0, 17)
_PLAIN_COUNTERS: Final = {
    "uptime_s": "Uptime",
    "since_flush_s": "Uptime_since_flush_status",
    "binlog_cache_use": "Binlog_cache_use",
}
_LOG_COUNTERS: Final = {
    "written_bytes": "Innodb_os_log_written",
    "fsyncs": "Innodb_os_log_fsyncs",
    "running": "Threads_running",
    "connected": "Threads_connected",
    "connections": "Connections",
    "uptime_s": "Uptime",
}

_POOL_RESIZE: Final = (
    "Innodb_buffer_pool_resize_status",
    "Innodb_buffer_pool_resize_status_code",
    "Innodb_buffer_pool_resize_status_progress",
)
"""The code is 0 before and after a resize; older servers have the words alone."""
_REDO_RESIZE: Final = ("Innodb_redo_log_resize_status",)

_AGE: Final = "TIMESTAMPDIFF(MICROSECOND, {}_transaction_original_commit_timestamp, NOW(6))"
_WORKERS: Final = "performance_schema.replication_applier_status_by_worker"
_COORDINATOR: Final = "performance_schema.replication_applier_status_by_coordinator"
_RECEIVER: Final = "performance_schema.replication_connection_status"
_BEHIND: Final = (
    "SELECT GTID_SUBTRACT(c.received_transaction_set, @@GLOBAL.gtid_executed) AS queued,"
    " GTID_SUBTRACT(%s, @@GLOBAL.gtid_executed) AS missing,"
    f" (SELECT MAX({_AGE.format('applying')}) FROM {_WORKERS} WHERE applying_transaction <> '')"
    " AS applying_us,"
    f" (SELECT MAX({_AGE.format('processing')}) FROM {_COORDINATOR} WHERE processing_transaction <> '')"
    " AS waiting_us,"
    f" (SELECT MIN({_AGE.format('last_applied')}) FROM {_WORKERS} WHERE last_applied_transaction <> '')"
    " AS applied_us,"
    f" (SELECT COUNT(*) FROM {_WORKERS} WHERE applying_transaction <> '') AS busy,"
    f" (SELECT COUNT(*) FROM {_WORKERS}) AS workers"
    f" FROM {_RECEIVER} c WHERE c.channel_name = %s"
)
"""Ages are by the time that the source wrote into the transactions."""


_ACKS: Final = listed(ACK_STAGES)
_OWN_DATABASES: Final = ("mysql", "information_schema", "performance_schema", "sys")
"""MariaDB spells one of them in capitals."""


def read_waits(rows: Sequence[Row]) -> Waits:
    """From `oldest_wait_s`, `waiting` and `oldest_commit_s`."""
    (row,) = rows
    oldest_s, commit_s = (
        None if row.get(name) is None else float(str(row[name]))
        for name in ("oldest_wait_s", "oldest_commit_s")
    )
    return Waits(oldest_s, whole(row["waiting"]), commit_s)


def _read_copying(rows: Sequence[Row]) -> Copying:
    (row,) = rows
    return Copying(
        _text(row["stage"]), int(str(row["copied"])), int(str(row["estimated"])), _text(row["fault"]) or None
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)


@frozen
class MySql:
    """One server's dialect: questions with their readers, and statements in the order in which they run.
    Other flavours inherit from it what they share with MySQL."""

    probed: ClassVar[tuple[str, ...]] = (*_REGISTERS, _NEW_WORDS)
    """Variables that say how this flavor is asked, besides those of the knobs."""
    system: ClassVar[System] = ASYNC
    """What a server that is asked so is a node of."""
    refuses: ClassVar = "super_read_only"
    """The variable that refuses the writes of all clients."""
    counters: ClassVar = "performance_schema.global_status"
    """The table of status variables."""
    channel: ClassVar[str] = ""
    """The channel by which a replica receives."""
    timed: ClassVar[Timed] = MYSQL_TIMED
    """What its performance schema times of commits."""
    tablespaces: ClassVar = "innodb_tablespaces"
    """The table of the tables' files in information_schema."""
    lsns: ClassVar[dict[str, str]] = {
        "current_lsn": "Innodb_redo_log_current_lsn",
        "flushed_lsn": "Innodb_redo_log_flushed_to_disk_lsn",
    }
    """Status variables: up to where redo was made, and up to where it is fsynced."""

    capabilities: Capabilities
    semi_sync: _Generation | None = None
    """None when the server has no semi-sync source side."""
    registers: str | None = None
    """The replica side's semi-sync switch; None when the server has none."""
    word: str = "REPLICA"
    """REPLICA, or SLAVE where the server knows only that."""

    @classmethod
    def of(cls, variables: Mapping[str, str], ranges: Mapping[str, Range]) -> MySql:
        """From a server's variables by lower-case name, and its answer to `ranges`."""
        capabilities = Capabilities.of(variables, {**_UNTOLD_RANGES, **ranges}, cls.system)
        return cls(
            capabilities=capabilities,
            semi_sync=_GENERATIONS.get(capabilities.variables.get(keys.SEMI_SYNC, "")),
            registers=next((name for name in _REGISTERS if name in variables), None),
            word="REPLICA" if _NEW_WORDS in variables else "SLAVE",
        )

    ranges: ClassVar = Question(
        "SELECT variable_name AS name, min_value AS low, max_value AS high"
        f" FROM performance_schema.variables_metadata WHERE variable_name IN ({listed(KNOB_VARIABLES)})",
        lambda rows: {str(row["name"]).lower(): Range(whole(row["low"]), whole(row["high"])) for row in rows},
    )
    """What a server says of the knobs' variables, by name; servers before 9.0 refuse it."""

    # -- settings

    @property
    def settings(self) -> Question[ServerSettings]:
        """All knobs' values at once. Knobs, the replica's switch and whether writes are refused in one
        answer."""
        switch = [self.registers] if self.registers else []
        names = [*self.capabilities.variables.values(), *switch, self.refuses]
        return Question(
            f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({listed(names)})", self._read_settings
        )

    def _read_settings(self, rows: Sequence[Row]) -> ServerSettings:
        found = read_pairs(rows)
        values = {
            key: from_server(BY_KEY[key], found[name])
            for key, name in self.capabilities.variables.items()
            if name in found
        }
        switch = found.get(self.registers) if self.registers else None
        return ServerSettings(values, is_on(switch), is_on(found.get(self.refuses)))

    def setting(self, key: str) -> Question[Value]:
        """One knob's value; raises UsageError where the server lacks it. Of the global variable: sessions
        may still have another value."""
        knob = self.capabilities.knob(key)
        return Question(
            f"SELECT @@GLOBAL.{self.capabilities.variables[key]} AS value",
            lambda rows: from_server(knob, str(rows[0]["value"])),
        )

    def set(self, key: str, value: Value) -> str:
        """The statement that sets a knob while the server runs; raises UsageError where it lacks it. It
        does not survive a restart of the server."""
        knob = self.capabilities.knob(key)
        return f"SET GLOBAL {self.capabilities.variables[key]} = {literal(knob, value)}"

    def unfinished(self, key: str) -> Question[str | None] | None:
        """What the server still does, in words with its progress, of a setting that its variable shows
        already; None as the answer where it has done all, as the question where there is no such work. The
        variables of both sizes change at once, and their status follows (measured on 9.7.4)."""
        if key not in _RESIZES:
            return None
        names, reader = _RESIZES[key]
        return Question(
            "SELECT variable_name AS Variable_name, variable_value AS Value"
            f" FROM performance_schema.global_status WHERE variable_name IN ({listed(names)})",
            reader,
        )

    # -- semi-sync and commits

    @property
    def status(self) -> Question[ServerStatus]:
        """Counters and gauges; what the server does not have is None. Only the names that are read: each
        semi-sync counter costs the server a lock that commits take as well (docs/explanation/semi-sync.md,
        "Counters")."""
        names = [*self._counters().values()]
        if self.semi_sync is not None:
            names += [f"{self.semi_sync.status_prefix}status", self.semi_sync.replica_status]
        return Question(
            "SELECT variable_name AS Variable_name, variable_value AS Value"
            f" FROM {self.counters} WHERE variable_name IN ({listed(names)})",
            self._read_status,
        )

    def _counters(self) -> dict[str, str]:
        """The status variable of each counter."""
        if self.semi_sync is None:
            return _PLAIN_COUNTERS
        prefix = self.semi_sync.status_prefix
        return _PLAIN_COUNTERS | {field: f"{prefix}{end}" for field, end in _SEMI_SYNC_COUNTERS.items()}

    def _read_status(self, rows: Sequence[Row]) -> ServerStatus:
        values, names = read_pairs(rows), self.semi_sync
        return ServerStatus(
            **numbers(values, self._counters()),
            operational=is_on(values.get(f"{names.status_prefix}status".lower())) if names else None,
            replica_registered=is_on(values.get(names.replica_status.lower())) if names else None,
        )

    waits: ClassVar = Question(
        f"SELECT MAX(CASE WHEN t.processlist_state IN ({_ACKS}) THEN s.timer_wait END) / 1e12"
        " AS oldest_wait_s, COUNT(*) AS waiting, MAX(s.timer_wait) / 1e12 AS oldest_commit_s"
        " FROM performance_schema.threads t"
        " JOIN performance_schema.events_statements_current s ON s.thread_id = t.thread_id"
        " WHERE t.name = 'thread/sql/one_connection' AND s.end_event_id IS NULL"
        f" AND t.processlist_state IN ({_ACKS}, '{HANDLER_COMMIT}')",
        read_waits,
    )
    """What commits wait for on a source. Under after_sync the leader of one queue alone waits for the
    acknowledgement, and all others stand behind it in their handler's commit. The name of the thread
    leaves the idle acknowledgement receiver out, which shows the same state."""

    timeouts: ClassVar[Question[int | None]] = Question(
        "SELECT COUNT(*) AS timeouts FROM performance_schema.error_log"
        " WHERE error_code = 'MY-011153' AND logged >= NOW(6) - INTERVAL"
        " (SELECT variable_value + 0 FROM performance_schema.global_status"
        " WHERE variable_name = 'Uptime') SECOND",
        lambda rows: int(rows[0]["timeouts"]),
    )
    """Falls to async by timeout since the server's start; None where it does not count them. From the
    table of the error log (8.0.22 and later), which also holds what was logged before the server's
    start."""

    # -- who waits for what (`dialect.waits`)

    sessions: ClassVar = MYSQL_SESSIONS
    """Its clients' sessions, busy ones first."""

    row_locks: ClassVar = MYSQL_ROW_LOCKS
    """Who waits for an InnoDB lock, the oldest waits, with those that have it."""

    metadata_locks: ClassVar[Question[tuple[LockWait, ...]] | None] = METADATA_LOCKS
    """The same of metadata locks; None where the server does not show them."""

    statement_totals: ClassVar = STATEMENT_TOTALS
    """Digests of the statements of the last seconds, with what was counted of each since the server's
    start."""

    consumers: ClassVar = CONSUMERS
    """What its performance schema records."""

    untold: ClassVar[tuple[str, ...]] = ()
    """What no server of this flavour tells, in words."""

    @property
    def register(self) -> tuple[str, ...]:
        """Lets a replica register for semi-sync when it next connects; nothing where it has no switch. The
        dump that runs is not changed by it: the IO thread has to connect once more."""
        return (f"SET GLOBAL {self.registers} = ON",) if self.registers else ()

    # -- membership in a group

    membership: ClassVar[Question[Membership] | None] = None
    """How a server stands to its group; None where it was started for none. A source or a replica is in
    none."""

    found: ClassVar[tuple[str, ...]] = ()
    """Makes a server the first member of a new group; none where that is not done by statements. There
    is no group."""

    after_founding: ClassVar[tuple[str, ...]] = ()
    """Runs whenever `found` or `go_on_with` ran, also when a statement of it failed. There is no
    group."""

    def join(self, seeds: Sequence[str]) -> tuple[str, ...]:
        """Makes a server a member of the group that any of these (`NODE:PORT`) is in, whatever it was
        before; none where it joins by itself as it starts. There is no group."""
        return ()

    def go_on_with(self, members: Sequence[str]) -> tuple[str, ...]:
        """Makes these (`NODE:PORT`) the whole group of a member whose majority is gone; `after_founding`
        runs afterwards. There is no group."""
        return ()

    leave: ClassVar[tuple[str, ...]] = ()
    """Lets a server leave its group and stay up; none where it cannot. There is no group."""

    def elect(self, server_uuid: str) -> str | None:
        """Makes the member with this id the one that takes writes; None where all do. There is no group."""
        return None

    # -- positions

    tracks_gtids: ClassVar = "SET SESSION session_track_gtids = OWN_GTID"
    """The statement after which each reply of a session to a commit tells its GTID. Of what the session
    itself commits."""

    executed: ClassVar = Question(
        "SELECT @@GLOBAL.gtid_executed AS executed", lambda rows: _in_line(rows[0]["executed"])
    )
    """All that a server has executed. In one line."""

    purged: ClassVar = Question(
        "SELECT @@GLOBAL.gtid_purged AS purged", lambda rows: _in_line(rows[0]["purged"])
    )
    """What it has executed and has in no binlog any more: a replica that lacks it cannot follow from there.
    Binlogs that were removed, and what came with a copy of another server's data (refman:
    gtid_purged)."""

    position: ClassVar = Question(
        "SELECT @@GLOBAL.gtid_owned AS owned, @@GLOBAL.gtid_executed AS executed",
        lambda rows: Position(_in_line(rows[0]["owned"]), _in_line(rows[0]["executed"])),
    )
    """That, and what its sessions are about to commit. In this order: what is committed in between is
    in the second."""

    def sent(self, replica_host: str) -> Question[Sent]:
        """A source's side of the stream to the replica at this address. Of two dump threads the newer: the
        older one has not noticed yet that it is alone."""
        return Question(
            "SELECT @@GLOBAL.gtid_executed AS executed, t.thread_id AS dump_thread, s.variable_value AS sent"
            " FROM (SELECT 1) AS always"
            " LEFT JOIN performance_schema.threads t"
            " ON t.processlist_command LIKE 'Binlog Dump%%' AND t.processlist_host = %s"
            " LEFT JOIN performance_schema.status_by_thread s"
            " ON s.thread_id = t.thread_id AND s.variable_name = 'Bytes_sent'"
            " ORDER BY t.thread_id DESC LIMIT 1",
            _read_sent,
            (replica_host,),
        )

    def behind(self, executed: str) -> Question[Behind | None]:
        """What a replica lacks of what its source has executed; None where it follows none. By the times of
        commit that transactions carry."""
        return Question(_BEHIND, _read_behind, (executed, self.channel))

    @property
    def log_state(self) -> Question[LogState]:
        """How far a source's redo log is made and flushed, and what its commits wait for. The LSNs are
        there from 8.0.30 on; with all else they are read within one materialization of the status
        variables."""
        names = [*self.lsns.values(), *_LOG_COUNTERS.values()]
        if self.semi_sync is not None:
            names += [f"{self.semi_sync.status_prefix}{each}" for each in ("status", "no_tx")]
        return Question(
            "SELECT variable_name AS Variable_name, variable_value AS Value,"
            " @@GLOBAL.innodb_flush_log_at_trx_commit AS flush_at_commit, @@GLOBAL.sync_binlog AS sync_binlog"
            f" FROM {self.counters} WHERE variable_name IN ({listed(names)})",
            self._read_log_state,
        )

    def _read_log_state(self, rows: Sequence[Row]) -> LogState:
        values = read_pairs(rows)
        prefix = self.semi_sync.status_prefix.lower() if self.semi_sync else ""
        return LogState(
            **numbers(values, self.lsns | _LOG_COUNTERS),
            flush_at_commit=whole(rows[0]["flush_at_commit"]) if rows else None,
            sync_binlog=whole(rows[0]["sync_binlog"]) if rows else None,
            waits=bool(prefix and is_on(values.get(f"{prefix}status"))),
            not_waited=whole(values.get(f"{prefix}no_tx")) if prefix else None,
        )

    @property
    def received_gtids(self) -> Question[str]:
        """All that a replica has in its relay log or has executed; on any server, what it has executed. The
        received set begins with the relay log; what was executed before is in the other."""
        return Question(
            "SELECT @@GLOBAL.gtid_executed AS executed,"
            f" (SELECT received_transaction_set FROM {_RECEIVER}"
            f" WHERE channel_name = '{self.channel}') AS received",
            lambda rows: ", ".join(
                text for text in (_in_line(rows[0]["received"] or ""), _in_line(rows[0]["executed"])) if text
            ),
        )

    received: ClassVar = Question(
        "SELECT COUNT_RECEIVED_HEARTBEATS AS heartbeats, RECEIVED_TRANSACTION_SET AS received"
        f" FROM {_RECEIVER}",
        lambda rows: tuple((row["heartbeats"], row["received"]) for row in rows),
    )
    """What a replica has received, heartbeats included, only to be compared with an earlier answer.
    Heartbeats come once a second while there are no events."""

    def reached(self, executed: str, within_s: float) -> Question[bool]:
        """Waits in a replica until it has executed this; False when it has not in time. The server answers
        0 when it has, 1 past the time."""
        return Question(
            f"SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, {within_s:g}) AS late",
            lambda rows: int(rows[0]["late"]) == 0,
            (executed,),
        )

    # -- replication threads

    @property
    def threads(self) -> Question[Threads | None]:
        """A replica's threads; None where replication is not configured. Columns of both generations are
        read by their new names."""
        return Question(f"SHOW {self.word} STATUS", _read_threads)

    @property
    def start_threads(self) -> str:
        """Starts both. Answers before the IO thread is connected."""
        return f"START {self.word}"

    @property
    def stop_threads(self) -> str:
        """Stops both. Waits until the applier has ended its transactions."""
        return f"STOP {self.word}"

    @property
    def start_io(self) -> str:
        """Starts receiving. Answers before it is connected; a replica registers for semi-sync as it
        connects."""
        return f"START {self.word} IO_THREAD"

    @property
    def stop_io(self) -> str:
        """Stops receiving. The source notices it late: it counts the replica for a second more."""
        return f"STOP {self.word} IO_THREAD"

    @property
    def start_applier(self) -> str:
        """Starts applying. The statement after a variable that the applier reads when it starts."""
        return f"START {self.word} SQL_THREAD"

    @property
    def stop_applier(self) -> str:
        """Stops applying. The statement before it."""
        return f"STOP {self.word} SQL_THREAD"

    def holding_commits(self, key: str) -> tuple[Sequence[str], Sequence[str]]:
        """What keeps commits from being under way while this variable changes, and what lets them go on;
        both empty where the server needs no such care. It wakes whoever waits (seen on 9.7.4)."""
        return (), ()

    # -- roles

    def follow(self, source: SourceAddress) -> Question[None]:
        """Points a replica whose threads are stopped at a source, by its position; the password is not in
        the statement's text. With the options that a new stack's replica has: it tries again every second,
        for ever."""
        old = self.word == "SLAVE"
        statement = "CHANGE MASTER TO" if old else "CHANGE REPLICATION SOURCE TO"
        name = "MASTER" if old else "SOURCE"
        return Question(
            f"{statement} {name}_HOST='{source.host}', {name}_PORT={source.port},"
            f" {name}_USER='{source.user}', {name}_PASSWORD=%s, {name}_AUTO_POSITION=1,"
            f" GET_{name}_PUBLIC_KEY=1, {name}_SSL=0, {name}_CONNECT_RETRY=1, {name}_RETRY_COUNT=1000000,"
            f" {name}_HEARTBEAT_PERIOD=1",
            lambda _: None,
            (source.password,),
        )

    @property
    def follow_nobody(self) -> tuple[str, ...]:
        """Makes a replica whose threads are stopped forget its source and its relay log. What was received
        and not applied is gone with the relay log."""
        return (f"RESET {self.word} ALL",)

    open_for_writes: ClassVar[tuple[str, ...]] = (
        "SET GLOBAL super_read_only = OFF",
        "SET GLOBAL read_only = OFF",
    )
    """Lets everybody write. read_only stays on when super_read_only goes off."""

    refuse_writes: ClassVar[tuple[str, ...]] = ("SET GLOBAL super_read_only = ON",)
    """Lets only the applier write. It sets read_only as well, and waits for commits that are
    under way."""

    refuse_clients: ClassVar[tuple[str, ...]] = (
        "SET GLOBAL super_read_only = OFF",
        "SET GLOBAL read_only = ON",
    )
    """Lets only the applier and accounts that administer the server write. super_read_only goes
    off when read_only, which it has switched on, stays so. Accounts with CONNECTION_ADMIN still
    write."""

    # -- copying a whole server

    @property
    def copies(self) -> bool:
        """Whether a server can take a copy of another one's data. One that cannot is emptied, and receives
        all that its source ever logged. By the clone plugin (manual, "The Clone Plugin")."""
        return self.capabilities.version >= _CLONES_FROM

    databases: ClassVar[Question[tuple[str, ...]]] = Question(
        "SELECT schema_name AS name FROM information_schema.schemata"
        f" WHERE LOWER(schema_name) NOT IN ({listed(_OWN_DATABASES)})",
        lambda rows: tuple(str(row["name"]) for row in rows),
    )
    """Those that are not the server's own."""

    def empty(self, databases: Sequence[str]) -> tuple[str, ...]:
        """Makes a server whose threads are stopped and that follows no source what a new node is before it
        receives anything; on one connection, in this order, and out of the binlog. The databases and tables
        that a server's first start makes are there again, empty. What it has received and executed is
        forgotten with the binlogs."""
        quoted = [name.replace("`", "``") for name in databases]
        return (
            "SET SESSION sql_log_bin = 0, foreign_key_checks = 0",
            *(f"DROP DATABASE `{name}`" for name in quoted),
            "CREATE DATABASE sandbox",
            "CREATE DATABASE replexplorer",
            "CREATE TABLE replexplorer.kick"
            " (id TINYINT PRIMARY KEY, kicked_at DATETIME(6) NOT NULL) ENGINE=InnoDB",
            self.heartbeat_table,
            "SET SESSION sql_log_bin = 1, foreign_key_checks = 1",
            "RESET MASTER",
        )

    can_copy: ClassVar = Question(
        "SELECT COUNT(*) AS loaded FROM information_schema.plugins"
        " WHERE plugin_name = 'clone' AND plugin_status = 'ACTIVE'",
        lambda rows: int(rows[0]["loaded"]) == 1,
    )
    """Whether a server is ready to send or take a copy; `allow_copy` makes it so. The clone plugin is
    loaded."""

    allow_copy: ClassVar[tuple[str, ...]] = ("INSTALL PLUGIN clone SONAME 'mysql_clone.so'",)
    """Makes it ready; refused where the server has no means to copy, and while nobody may write. It
    writes mysql.plugin, which super_read_only forbids, and nothing to the binlog."""

    def copy_from(self, source: SourceAddress) -> tuple[Question[None], ...]:
        """Replaces all that a server has by what the other one has, in this order; the password is not in a
        statement's text. The server ends, and has the copy when it is started again. The clone plugin
        (8.0.17 and later; manual, "Cloning Remote Data"); refused under super_read_only (measured)."""
        return (
            Question(f"SET GLOBAL clone_valid_donor_list = '{source.host}:{source.port}'", lambda _: None),
            Question(
                f"CLONE INSTANCE FROM '{source.user}'@'{source.host}':{source.port} IDENTIFIED BY %s",
                lambda _: None,
                (source.password,),
            ),
        )

    def ended_to_restart(self, number: int) -> bool:
        """Whether a refusal of this number says that the copy is done and the server ends.
        ER_RESTART_SERVER_FAILED: nobody supervises the process, so it shuts down instead."""
        return number == _RESTART_FAILED

    copying: ClassVar = Question(
        "SELECT (SELECT stage FROM performance_schema.clone_progress WHERE state = 'In Progress'"
        " ORDER BY begin_time DESC LIMIT 1) AS stage,"
        " (SELECT COALESCE(SUM(data), 0) FROM performance_schema.clone_progress) AS copied,"
        " (SELECT COALESCE(SUM(estimate), 0) FROM performance_schema.clone_progress) AS estimated,"
        " (SELECT error_message FROM performance_schema.clone_status WHERE state = 'Failed') AS fault",
        _read_copying,
    )
    """How far that is. What a failed clone says stays until the next begins, also over a restart."""

    # -- binlogs

    binlogs: ClassVar = Question(
        "SHOW BINARY LOGS",
        lambda rows: tuple((str(row["Log_name"]), int(row["File_size"])) for row in rows),
    )
    """Name and size in bytes, oldest first. As the server lists them: in the order of their making."""

    def logged_before(self, binlog: str) -> Question[str]:
        """All that the binlogs before this one have ever held: of the newest one after a start, what the
        server had logged by then. Its second event (manual, "SHOW BINLOG EVENTS"; MySQL's source,
        `Previous_gtids_log_event`)."""
        return Question(
            f"SHOW BINLOG EVENTS IN '{binlog}' LIMIT 2",
            lambda rows: _in_line(
                next((row["Info"] for row in rows if row["Event_type"] == "Previous_gtids"), "")
            ),
        )

    def purge_binlogs(self, first_kept: str) -> str:
        """Removes all binlogs before this one. Not written to the binlog."""
        return f"PURGE BINARY LOGS TO '{first_kept}'"

    # -- small commits of the program's own

    kick: ClassVar = (
        "INSERT INTO replexplorer.kick (id, kicked_at) VALUES (1, NOW(6))"
        " ON DUPLICATE KEY UPDATE kicked_at = NOW(6)"
    )
    """One commit, to see it acknowledged or synced. Into a table that the server's first start
    makes."""

    beat: ClassVar = (
        "INSERT INTO replexplorer.heartbeat (id, beaten_at) VALUES (1, NOW(6))"
        " ON DUPLICATE KEY UPDATE beaten_at = NOW(6)"
    )
    """One commit that carries the time, in a table that `heartbeat_table` makes. The time is the
    source's."""

    heartbeat_table: ClassVar = (
        "CREATE TABLE IF NOT EXISTS replexplorer.heartbeat"
        " (id TINYINT PRIMARY KEY, beaten_at DATETIME(6) NOT NULL) ENGINE=InnoDB"
    )
    """Makes that table through the binlog, where it is not there yet. For a stack that was made before
    the table was: its replicas need it too."""

    # -- tables

    def table_bytes(self, database: str, table: str) -> Question[int]:
        """Size of a table's file; 0 where there is none. Of a table with a file of its own."""
        return Question(
            f"SELECT file_size AS bytes FROM information_schema.{self.tablespaces}"
            f" WHERE name = '{database}/{table}'",
            lambda rows: int(rows[0]["bytes"]) if rows else 0,
        )

    def ledger_rows(self, run: int) -> Question[Rows]:
        """The rows that the clients of one run of the `ledger` load have here, as runs of numbers. A number
        less its rank among the client's is the same for neighbours: a million rows are few."""
        first = run * CLIENTS_A_RUN
        return Question(
            "SELECT client, MIN(seq) AS low, MAX(seq) AS high FROM (SELECT client, seq,"
            " CAST(seq AS SIGNED) - ROW_NUMBER() OVER (PARTITION BY client ORDER BY seq) AS apart"
            f" FROM {LEDGER_TABLE} WHERE client > %s AND client < %s) AS numbered"
            " GROUP BY client, apart",
            lambda rows: _read_ledger(rows, first),
            (first, first + CLIENTS_A_RUN),
        )


def _read_sent(rows: Sequence[Row]) -> Sent:
    (row,) = rows
    return Sent(_in_line(row["executed"]), whole(row["dump_thread"]), whole(row["sent"]))


def _read_behind(rows: Sequence[Row]) -> Behind | None:
    if not rows:
        return None
    row = rows[0]
    ages_us = [age for name in ("applying_us", "waiting_us") if (age := whole(row[name])) is not None]
    workers = whole(row["workers"])
    return Behind(
        queued=_text(row["queued"]),
        missing=_text(row["missing"]),
        applying_us=max(ages_us, default=None),
        applied_us=whole(row["applied_us"]),
        workers=Workers(whole(row["busy"]) or 0, workers) if workers else None,
    )


def in_new_words(row: Row) -> dict[str, Any]:
    """A row by the names that its columns have since 8.0.22, lower-case."""
    return {n.lower().replace("slave", "replica").replace("master", "source"): v for n, v in row.items()}


def _read_threads(rows: Sequence[Row]) -> Threads | None:
    if not rows:
        return None
    row = in_new_words(rows[0])
    lag = row.get("seconds_behind_source")
    return Threads(
        io=_thread_state(str(row["replica_io_running"]), whole(row["last_io_errno"])),
        sql=_thread_state(str(row["replica_sql_running"]), whole(row["last_sql_errno"])),
        lag_s=None if lag is None else float(lag),
        io_error=_thread_error(row, "io"),
        sql_error=_thread_error(row, "sql"),
        reads=_text(row.get("source_log_file")) or None,
        received_to=_place(row, "source_log_file", "read_source_log_pos"),
        applied_to=_place(row, "relay_source_log_file", "exec_source_log_pos"),
        source_host=_text(row.get("source_host")) or None,
        source_uuid=_text(row.get("source_uuid")) or None,
        retrieved=_in_line(row.get("retrieved_gtid_set", row.get("gtid_io_pos")) or "") or None,
    )


def _place(row: Row, file: str, position: str) -> str | None:
    name, at = _text(row.get(file)), whole(row.get(position))
    return f"{name}:{at}" if name and at is not None else None


def _thread_error(row: Row, thread: str) -> ThreadError | None:
    """In one line."""
    text = " ".join(str(row.get(f"last_{thread}_error") or "").split())
    return ThreadError(whole(row.get(f"last_{thread}_errno")) or 0, text) if text else None


def _thread_state(running: str, error_number: int | None) -> str:
    match running.lower():
        case "yes":
            return "on"
        case "connecting" | "preparing":
            return "connecting"
        case _:
            return "error" if error_number else "off"


def _read_ledger(rows: Sequence[Row], first: int) -> Rows:
    found: dict[int, list[tuple[int, int]]] = {}
    for row in rows:
        found.setdefault(int(row["client"]) - first, []).append((int(row["low"]), int(row["high"])))
    return {client: spans_of(pairs) for client, pairs in found.items()}


def _read_pool_resize(rows: Sequence[Row]) -> str | None:
    """`Withdrawing blocks...: 40 %`; None at rest."""
    words, code, progress = (read_pairs(rows).get(name.lower()) for name in _POOL_RESIZE)
    if not words or code in (None, "0"):
        return None
    return f"{words.rstrip('.')}: {progress} %"


def _read_redo_resize(rows: Sequence[Row]) -> str | None:
    """None while it is OK."""
    [words] = (read_pairs(rows).get(name.lower()) for name in _REDO_RESIZE)
    return None if words in (None, "", "OK") else words


_RESIZES: Final[Mapping[str, tuple[tuple[str, ...], Callable[[Sequence[Row]], str | None]]]] = {
    "innodb_buffer_pool_size": (_POOL_RESIZE, _read_pool_resize),
    "innodb_redo_log_capacity": (_REDO_RESIZE, _read_redo_resize),
}
"""Knob to the status variables of its resize, and who reads them."""


def _in_line(gtids: object) -> str:
    """A GTID set, which the server breaks into lines."""
    return str(gtids).replace("\n", "")
