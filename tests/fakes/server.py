"""A small model of a MySQL server: variables, counters, semi-sync, replication threads, crashes.

What it knows is what the engine sends, and a statement that it does not know fails the test.
The facts are those of docs/explanation/semi-sync.md.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from replexplorer.core.dialect.flavours import ALIVE
from replexplorer.core.errors import ServerRefused, ServerUnreachable
from tests.fakes.clock import later, now_s
from tests.fakes.servers import MYSQL_9, RANGES_9, mysql_9, rows

if TYPE_CHECKING:
    from tests.fakes.world import World

STATEMENT_S = 0.0004
"""From the client's send to its reply."""
REDO_A_COMMIT = 500
"""Bytes of redo log."""
SWITCH_OFF_S = 0.8
"""How long the server takes to end its acknowledgement receiver."""
ROUND_TRIPS_TO_REGISTER = 17
RECONNECT_S = 1.0
"""After its source came back, until a replica's IO thread tries again."""

Rows = Sequence[Mapping[str, Any]]
SWITCHES = "rpl_semi_sync_source_"


ASKED = mysql_9()
"""The dialect in which the engine speaks to it."""
_COMMITS, _COMMITS_OF_ALL = ASKED.timed.question("sandbox"), ASKED.timed.question(None)
_SENT, _BEHIND, _LEDGER, _REACHED = (
    ASKED.sent(""),
    ASKED.behind(""),
    ASKED.ledger_rows(0),
    ASKED.reached("", 0),
)


def _named(names: Sequence[str], values: Mapping[str, str]) -> list[dict[str, Any]]:
    """Those of these names that there are."""
    return [*rows({name: values[name] for name in names if name in values})]


@dataclass(eq=False)
class Session:
    """A client's connection as the server sees it."""

    lost: bool = False
    busy: bool = False


class FakeServer:
    """One mysqld."""

    follows = "db1"
    """The host that a replica replicates from."""
    silent = False
    """A replica that its source does not count and that acknowledges nothing."""
    acknowledges = True
    """On the source: acknowledgements arrive; otherwise they are lost on the way."""
    has_heartbeat_table = True
    beats = 0
    """Heartbeats that were written."""
    stale_connections = 0
    """On the source: of replicas that are connected anew, or gone, and were not missed yet."""
    lags = False
    """A replica that does not catch up."""
    purged = ""
    """What it has executed and has in no binlog any more."""
    can_copy = False
    """Its clone plugin is loaded."""
    errant = ""
    """On a replica: GTIDs that its source lacks."""
    has: str | None = None
    """Its GTID set, whatever was committed; None: what its source has, as below."""
    missing = 0
    """On a replica: how many of its source's commits it has not executed."""
    received: int | None = None
    """On a replica: how many of its source's commits it has, None for all."""
    reading_refused: int | None = None
    """The error number that answers who asks for its logs' state."""
    owned = ""
    """GTIDs that are on their way."""
    commits = 0
    loses = 0
    """How many of its commits the next start lacks."""
    reads = "binlog.000001"
    """On a replica: the source's binlog that it reads."""
    statement_s = STATEMENT_S
    """What a statement takes."""
    slow_s = 0.0
    """How late it greets who logs in; for ever where it hangs."""
    starting = False
    """Its container runs, and no login succeeds yet."""
    running = False
    logins = 0

    def __init__(self, node: str, number: int, world: World) -> None:
        self.node = node
        self._world = world
        self.startup: dict[str, str] = {
            **MYSQL_9,
            "server_uuid": f"uuid-{number}",
            "super_read_only": "OFF",
            "read_only": "OFF",
        }
        """What a restart brings back: SET GLOBAL does not survive it."""
        self.is_replica = node != "db1"
        if self.is_replica:
            self.startup["super_read_only"] = "ON"
        self.refusals: dict[str, int] = {}
        """Beginning of a statement to the error number that answers it."""
        self.answers: dict[str, Rows] = {}
        """Statements that are asked alone, with the rows that answer each."""
        self.stuck: set[str] = set()
        """Variables whose SET is accepted and changes nothing."""
        self.ledger: list[tuple[int, int, int]] = []
        """Rows of the `ledger` load, of whatever run: client, first, last."""
        self.commit_counters: list[dict[str, Any]] = []
        """Rows of performance_schema that say what commits wait for."""
        self.applied: dict[str, Any] = {"queued": "", "missing": ""}
        """What a replica says of its applier."""
        self.binlogs: list[tuple[str, int]] = [("binlog.000001", 1000)]
        """Name and size in bytes, oldest first."""
        self.tasks: set[asyncio.Task[Rows]] = set()
        self.sessions: set[Session] = set()
        self.boot()

    # -- life

    def boot(self) -> None:
        """Start mysqld with its own defaults and all counters at zero."""
        self.running = True
        self.variables = dict(self.startup)
        self.pool_resize_looks = 0
        roles = self._world.boot_roles
        if roles is not None:
            self.variables["super_read_only"] = "OFF" if self.node == roles.source else "ON"
        replicates = self.is_replica and (roles is None or self.node not in roles.detached)
        self.started_s = self.flushed_s = now_s()
        self.operational = False
        self.counters = dict.fromkeys(("yes_tx", "no_tx", "no_times", "tx_waits", "tx_wait_time"), 0)
        self.commits -= self.loses
        self.loses = 0
        self.logged_before = f"{self.variables['server_uuid']}:1-{self.commits + 1}"
        """By the binlogs before the one that this start began."""
        self.redo_flushed, self.redo_flushed_s = 0, self.started_s
        self.redo_fsyncs = 0
        self.timeouts = 0
        self.waits: dict[asyncio.Future[None], float] = {}
        """Commits that wait for their acknowledgement, and since when."""
        self.load_waits_from_s: float | None = None
        """Since when the load's commits wait for an acknowledgement that does not come."""
        self._reads_to_timeout: int | None = None
        """How many more statements it answers before the oldest commit has waited long enough."""
        self.setting = asyncio.Lock()
        self.io = self.sql = "Yes" if replicates else "No"
        self._stopped_at: int | None = None
        """How many of its source's commits it had when its applier was stopped; None while it applies."""
        self.io_errno = self.sql_errno = 0
        self.registered = False
        if replicates:
            self.registered = True
            later(0, lambda: self._world.primary.replica_came())

    @property
    def executed(self) -> str:
        """Its GTID set: the source's, on a replica with what it has beside."""
        source = self._world.primary
        if self.has is not None or source.has is not None:
            return self.has or str(source.has)
        commits = source.commits if self._stopped_at is None else self._stopped_at
        of_source = f"{source.variables['server_uuid']}:1-{commits + 1 - self.missing}"
        return f"{of_source},\n{self.errant}" if self.errant else of_source

    def flush_status(self) -> None:
        """FLUSH NO_WRITE_TO_BINLOG STATUS, by somebody."""
        self.flushed_s = now_s()
        self.counters.update(yes_tx=0, no_tx=0, no_times=0)

    def unregister(self) -> None:
        """Somebody switches a replica's semi-sync off and restarts its IO thread."""
        self.variables["rpl_semi_sync_replica_enabled"] = "OFF"
        self.registered = False

    def crash(self) -> None:
        """kill -9: connections and waits are gone."""
        self.running = False
        for task in self.tasks:
            task.cancel()
        for session in self.sessions:
            session.lost = True
        self.sessions.clear()

    def log_in(self) -> Session:
        """A new connection; raises ServerUnreachable."""
        if not self.running or self.starting:
            raise ServerUnreachable(f"{self.node}: no MySQL server answers")
        self.logins += 1
        session = Session()
        self.sessions.add(session)
        return session

    def send(self, session: Session, statement: str) -> asyncio.Future[Rows]:
        """Take a statement; it runs to its end whether or not the client still waits for it."""
        assert not session.lost, "a statement on a closed connection"
        assert not session.busy, "two statements at once on one connection"
        session.busy = True
        task = asyncio.create_task(self._serve(session, statement), name=f"server {self.node}")
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return asyncio.shield(task)

    async def _serve(self, session: Session, statement: str) -> Rows:
        try:
            await asyncio.sleep(self.statement_s / 2)
            answer = await self._execute(statement)
            await asyncio.sleep(self.statement_s / 2)
        except asyncio.CancelledError:
            raise ServerUnreachable(f"{self.node}: the connection was lost") from None
        finally:
            session.busy = False
        return answer

    # -- statements

    async def _execute(self, statement: str) -> Rows:
        if statement.startswith(("SELECT", "SHOW", "WITH")):
            return self._read(statement)
        await self._change(statement)
        return []

    def _read(self, statement: str) -> Rows:
        if self._reads_to_timeout is not None:
            self._reads_to_timeout -= 1
            if self._reads_to_timeout < 0:
                self._reads_to_timeout = None
                self.time_out()
        if statement in self.answers:
            return self.answers[statement]
        names = re.findall(r"'([^']+)'", statement)
        match statement:
            case ASKED.ranges.statement:
                return RANGES_9
            case ASKED.timeouts.statement:
                return [{"timeouts": self.timeouts}]
            case ASKED.waits.statement:
                began_s = [*self.waits.values(), *filter(None, [self.load_waits_from_s])]
                oldest = now_s() - min(began_s) if began_s else None
                return [{"oldest_wait_s": oldest, "waiting": len(began_s)}]
            case ASKED.log_state.statement:
                if self.reading_refused is not None:
                    raise self._refusal(self.reading_refused, "refused by the test")
                return self._log_state(names)
            case ASKED.received_gtids.statement:
                source = self._world.primary
                received = source.commits if self.received is None else self.received
                of_source = f"{source.variables['server_uuid']}:1-{received + 1}"
                return [{"executed": self.errant, "received": of_source}]
            case _COMMITS.statement | _COMMITS_OF_ALL.statement:
                return self.commit_counters
            case ASKED.position.statement:
                return [{"owned": self.owned, "executed": self.executed}]
            case _SENT.statement:
                return [{"executed": self.executed, "dump_thread": 41, "sent": "0"}]
            case _BEHIND.statement:
                unknown = dict.fromkeys(("applying_us", "waiting_us", "applied_us", "busy", "workers"))
                return [{**unknown, **self.applied}]
            case ASKED.binlogs.statement:
                return [{"Log_name": name, "File_size": size} for name, size in self.binlogs]
            case ASKED.can_copy.statement:
                return [{"loaded": int(self.can_copy)}]
            case ASKED.copying.statement:
                return [{"stage": None, "copied": 0, "estimated": 0, "fault": None}]
            case ALIVE.statement:
                return [{"1": 1}]
            case ASKED.received.statement:
                heartbeats = self._world.links[self._world.link_of(self.node)].heartbeats()
                return [{"heartbeats": heartbeats, "received": "uuid-0:1"}]
            case ASKED.threads.statement:
                return [self._replica_status()] if self.is_replica else []
            case _LEDGER.statement:
                return [{"client": client, "low": low, "high": high} for client, low, high in self.ledger]
        is_of_variables = statement.startswith("SHOW GLOBAL VARIABLES WHERE Variable_name IN")
        if is_of_variables or "FROM performance_schema.global_status WHERE variable_name IN" in statement:
            return _named(names, self.variables if is_of_variables else self._status())
        if found := re.fullmatch(r"SELECT @@GLOBAL\.(\w+) AS (\w+)", statement):
            return [{found[2]: self._as_selected(found[1])}]
        if statement == ASKED.logged_before(self.binlogs[-1][0]).statement:
            return [{"Event_type": "Previous_gtids", "Info": self.logged_before}]
        if statement == _REACHED.statement or statement.startswith("SELECT WAIT_FOR_EXECUTED_GTID_SET"):
            self.applied["queued"] = ""
            return [{"late": int(self.lags or self.sql != "Yes")}]
        raise AssertionError(f"the engine sent {statement!r}")

    def _as_selected(self, name: str) -> object:
        if name == "gtid_executed":
            return self.executed
        if name == "gtid_purged":
            return self.purged
        value = self.variables[name]
        if value in ("ON", "OFF") and not name.startswith("innodb_doublewrite"):
            return int(value == "ON")
        return int(value) if value.isdigit() else value

    @property
    def _flush_at_commit(self) -> int:
        return int(self.variables["innodb_flush_log_at_trx_commit"])

    def _status(self) -> dict[str, str]:
        counted = 0 if self.is_replica else len(self._world.acknowledging_s()) + self.stale_connections
        own = {"status": "ON" if self.operational else "OFF", "clients": counted, **self.counters}
        is_resizing = self.pool_resize_looks > 0
        self.pool_resize_looks -= is_resizing
        values = {
            "Uptime": int(now_s() - self.started_s),
            "Uptime_since_flush_status": int(now_s() - self.flushed_s),
            "Binlog_cache_use": self.commits,
            **{f"Rpl_semi_sync_source_{name}": value for name, value in own.items()},
            "Rpl_semi_sync_replica_status": "ON" if self.registered else "OFF",
            "Innodb_buffer_pool_resize_status": "withdrawing blocks." if is_resizing else "Completed.",
            "Innodb_buffer_pool_resize_status_code": 3 if is_resizing else 0,
            "Innodb_buffer_pool_resize_status_progress": 40 if is_resizing else 100,
            "Innodb_redo_log_current_lsn": REDO_A_COMMIT * self.commits,
            "Innodb_redo_log_flushed_to_disk_lsn": REDO_A_COMMIT * self.redo_flushed,
            "Innodb_os_log_written": REDO_A_COMMIT
            * (self.commits if self._flush_at_commit else self.redo_flushed),
            "Innodb_os_log_fsyncs": self.redo_fsyncs,
            "Threads_running": 1,
            "Threads_connected": len(self.sessions),
            "Connections": self.logins,
        }
        return {name: str(value) for name, value in values.items()}

    def _log_state(self, names: Sequence[str]) -> Rows:
        """Its redo log: a commit makes some, and what no commit flushes is flushed each full second."""
        flush = self._flush_at_commit
        if flush == 1 or int(now_s()) != int(self.redo_flushed_s):
            self.redo_fsyncs += self.redo_flushed != self.commits
            self.redo_flushed, self.redo_flushed_s = self.commits, now_s()
        settings = {"flush_at_commit": flush, "sync_binlog": int(self.variables["sync_binlog"])}
        return [row | settings for row in _named(names, self._status())]

    def _replica_status(self) -> dict[str, object]:
        return {
            "Source_Host": self.follows,
            "Source_Log_File": self.reads,
            "Replica_IO_Running": self.io,
            "Replica_SQL_Running": self.sql,
            "Last_IO_Errno": self.io_errno,
            "Last_SQL_Errno": self.sql_errno,
            "Last_IO_Error": "",
            "Last_SQL_Error": "",
            "Seconds_Behind_Source": 0 if self.io == self.sql == "Yes" else None,
        }

    def _refusal(self, number: int, why: str) -> ServerRefused:
        return ServerRefused(number, f"{self.node}: {number} {why}")

    async def _change(self, statement: str) -> None:
        if (trouble := self._world.changing(self.node, statement)) is not None:
            raise self._refusal(1290, trouble)
        for beginning, number in self.refusals.items():
            if statement.startswith(beginning):
                raise self._refusal(number, "refused by the test")
        match statement.split():
            case ["SET", "GLOBAL", "clone_valid_donor_list", "=", _]:
                assert self.can_copy
            case ["INSTALL", "PLUGIN", "clone", "SONAME", _]:
                assert self.variables["super_read_only"] == "OFF"
                self.can_copy = True
            case ["CLONE", "INSTANCE", *_]:
                assert self.variables["super_read_only"] == "OFF"
                self.errant, self.missing = "", 0
                self.is_replica, self.has = False, None
                later(0.5, self.crash)
                raise self._refusal(3707, "Restart server failed")
            case ["FLUSH", "NO_WRITE_TO_BINLOG", "STATUS"]:
                self.flush_status()
            case ["STOP", "REPLICA", *which]:
                if which == ["SQL_THREAD"]:
                    await asyncio.sleep(0.01)
                else:
                    await asyncio.sleep(self._world.rtt_ms(self.node) / 1000)
                    self.io, self.registered = "No", False
                if which != ["IO_THREAD"]:
                    self.sql, self._stopped_at = "No", self._world.primary.commits
            case ["START", "REPLICA", *which]:
                if which == ["SQL_THREAD"]:
                    await asyncio.sleep(0.01)
                else:
                    self.start_io()
                if which != ["IO_THREAD"]:
                    self.sql, self._stopped_at = "Yes", None
            case ["RESET", "REPLICA", "ALL"]:
                assert (self.io, self.sql) == ("No", "No")
                self.is_replica, self._stopped_at = False, None
            case ["CHANGE", "REPLICATION", "SOURCE", "TO", first, *_]:
                assert (self.io, self.sql) == ("No", "No")
                self.is_replica, self.follows = True, first.split("'")[1]
            case ["SET", "GLOBAL", name, "=", value]:
                async with self.setting:
                    await self._set(name, value.strip("'"))
            case ["DROP", "TABLE", *_]:
                await self.commit()
            case ["PURGE", "BINARY", "LOGS", "TO", first]:
                self.binlogs = [log for log in self.binlogs if log[0] >= first.strip("'")]
            case _ if statement == ASKED.heartbeat_table:
                self.has_heartbeat_table = True
                await self.commit()
            case _ if statement == ASKED.beat:
                if not self.has_heartbeat_table:
                    raise self._refusal(1146, "no such table")
                self.beats += 1
                await self.commit()
            case _ if statement == ASKED.kick:
                if self.variables["super_read_only"] == "ON":
                    raise self._refusal(1290, "--super-read-only")
                await self.commit()
            case _:
                raise AssertionError(f"the engine sent {statement!r}")

    async def _set(self, name: str, value: str) -> None:
        if name not in self.variables:
            raise self._refusal(1193, f"Unknown system variable '{name}'")
        if name == "replica_preserve_commit_order" and self.sql == "Yes":
            raise self._refusal(3017, "the applier is running")
        if name in self.stuck:
            return
        if name == f"{SWITCHES}enabled":
            await self._switch(value == "ON")
        if (name, value) == ("super_read_only", "ON"):
            self.variables["read_only"] = "ON"
        self.variables[name] = value

    # -- replication

    def start_io(self) -> None:
        """The IO thread connects, crossing the link many times."""
        self.io, self.io_errno = "Connecting", 0
        later(ROUND_TRIPS_TO_REGISTER * self._world.rtt_ms(self.node) / 1000 + 0.01, self._register)

    def _register(self) -> None:
        if not self.running or self.io == "No":
            return
        source = self._world.primary
        if not source.running:
            self.io, self.registered = "Connecting", False
            later(RECONNECT_S, self._register)
            return
        self.io = "Yes"
        self._world.reconnected(self.node)
        self.registered = self.variables["rpl_semi_sync_replica_enabled"] == "ON"
        source.replica_came()

    def source_went(self) -> None:
        """The IO thread lost its source and tries again."""
        if self.io == "Yes":
            self.io, self.registered = "Connecting", False
            later(RECONNECT_S, self._register)

    # -- semi-sync on the source

    @property
    def enabled(self) -> bool:
        """The switch."""
        return self.variables[f"{SWITCHES}enabled"] == "ON"

    @property
    def required(self) -> int:
        """Acknowledgements that a commit needs."""
        return int(self.variables[f"{SWITCHES}wait_for_replica_count"])

    @property
    def _are_enough(self) -> bool:
        """As many replicas acknowledge as a commit needs."""
        return len(self._world.acknowledging_s()) >= self.required

    @property
    def _waits_alone(self) -> bool:
        return self.variables[f"{SWITCHES}wait_no_replica"] == "ON"

    async def _switch(self, on: bool) -> None:
        if on and not self.enabled:
            self.operational = self._waits_alone or self._are_enough
        elif self.enabled and not on:
            self._switch_off()
            await asyncio.sleep(SWITCH_OFF_S)

    def time_out_before(self, statements: int) -> None:
        """Time out when this many more statements have been read."""
        self._reads_to_timeout = statements

    def time_out(self) -> None:
        """The load's oldest commit has waited long enough."""
        self.timeouts += 1
        self._switch_off()

    def _time_out_of(self, done: asyncio.Future[None]) -> None:
        if done in self.waits:
            self.time_out()

    def _switch_off(self) -> None:
        self.operational = False
        self.counters["no_times"] += 1
        self.counters["no_tx"] += len(self.waits)
        for done in self.waits:
            done.set_result(None)
        self.waits.clear()
        self.load_waits_from_s = None

    def replica_came(self) -> None:
        """A replica registered: what waits is sent to it."""
        for done in self.waits:
            self._send_out(done)

    async def commit(self) -> None:
        """One transaction: it returns when it is acknowledged, or when nobody waits for that."""
        if self.is_replica:
            self.errant = f"{self.variables['server_uuid']}:1"
            return
        self.commits += 1
        if not self.enabled:
            return
        if self.operational and not (self._waits_alone or self._are_enough):
            self._switch_off()
        if not self.operational:
            self.counters["no_tx"] += 1
            if times := self._world.acknowledging_s():
                later(times[0], self._caught_up)
            return
        done = asyncio.get_running_loop().create_future()
        self.waits[done] = now_s()
        self._send_out(done)
        timer = later(int(self.variables[f"{SWITCHES}timeout"]) / 1000, self._time_out_of, done)
        try:
            await done
        finally:
            timer.cancel()

    def _caught_up(self) -> None:
        if self.running and self.enabled and self._are_enough:
            self.operational = True

    def _send_out(self, done: asyncio.Future[None]) -> None:
        if self._are_enough:
            later(self._world.acknowledging_s()[self.required - 1], self._acknowledge, done)

    def _acknowledge(self, done: asyncio.Future[None]) -> None:
        if self.acknowledges and done in self.waits and self._are_enough:
            waited_s = now_s() - self.waits.pop(done)
            self.counters["yes_tx"] += 1
            self.counters["tx_waits"] += 1
            self.counters["tx_wait_time"] += int(waited_s * 1e6)
            done.set_result(None)
