"""What servers answer, whatever their flavour; `mysql.py` has the questions, each other flavour one module.

Laws: who asks never sees a statement except to show it; a question asks only for what the server was
found to have. Positions are GTID sets as `core.server.gtid` writes them: a flavour whose server writes
them otherwise translates.

What one server has: its flavour, its names for our knobs, its ranges. Probed, never guessed.

Law: names are found by asking which of a knob's variables exist; a version is for showing and is
compared as a tuple only (MySQL goes from 9.7 to 26.7).

What a server's performance schema times of commits: which of its names is which of our counters.

docs/explanation/commit-cost.md, "Commit anatomy". What a flavour does not time is absent, never zero.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final

from replexplorer.core.dialect.question import Question, Row, listed
from replexplorer.core.errors import UsageError
from replexplorer.core.knobs.catalogue import BY_KEY, CATALOGUE, Backing, Kind, Knob, Value
from replexplorer.core.records import field, frozen, replace
from replexplorer.core.server.counters import Source, Total, Totals
from replexplorer.core.server.node_view import ThreadError
from replexplorer.core.system import ASYNC, System, who_has

KNOB_VARIABLES: Final = tuple(variable for knob in CATALOGUE for variable in knob.variables)
"""Every name that any server has for any knob."""
IDENTIFYING: Final = ("version", "version_comment", "server_uuid")
"""Variables that say what a server is; all flavours have the first two."""


@frozen
class Range:
    """What a server says of one of its variables."""

    low: int | None
    high: int | None
    is_fixed: bool = False
    """It cannot change while the server runs."""
    words: tuple[str, ...] = ()
    """The words that it takes, lower-case; empty where the server lists none."""


@frozen
class Capabilities:
    """What one server has, from its answers."""

    flavor: str
    """mysql, percona or mariadb."""
    version: tuple[int, ...]
    """The leading numbers, for comparing: (9, 7, 4)."""
    version_text: str
    """As the server writes it."""
    server_uuid: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    """Knob key to the name of the variable that carries it here; a key that is absent is lacking."""
    ranges: Mapping[str, Range] = field(default_factory=dict)
    """Knob key to this server's own range."""
    system: System = ASYNC
    """What it can be a node of, as it was started."""

    @classmethod
    def of(
        cls, variables: Mapping[str, str], ranges: Mapping[str, Range], system: System = ASYNC
    ) -> Capabilities:
        """From a server's variables by lower-case name, and what it says of their ranges; what means nothing
        in its system it does not have."""
        names = {
            knob.key: next(name for name in knob.variables if name in variables)
            for knob in CATALOGUE
            if system.has(knob) and any(name in variables for name in knob.variables)
        }
        version_text = variables.get("version", "")
        return cls(
            flavor=flavor_name(variables),
            version=version_tuple(version_text),
            version_text=version_text,
            server_uuid=variables.get("server_uuid"),
            variables=names,
            ranges={key: ranges[name] for key, name in names.items() if name in ranges},
            system=system,
        )

    @property
    def title(self) -> str:
        """Flavour and version for people: `mysql 9.7.4`."""
        return f"{self.flavor} {'.'.join(map(str, self.version))}"

    def has(self, key: str) -> bool:
        """Whether a server's knob can be turned here; a knob of the link or the load always can."""
        return BY_KEY[key].backing is not Backing.SERVER or (
            key in self.variables and not self._is_fixed(key)
        )

    def _why_not(self, knob: Knob) -> str:
        """Why a knob cannot be turned here, and where it can be."""
        if self._is_fixed(knob.key):
            return f"{self.title} cannot change it while it runs"
        if not self.system.has(knob):
            return f"{self.system.title} does not have it; {who_has(knob)}"
        return f"{self.title} does not have it"

    def _is_fixed(self, key: str) -> bool:
        return key in self.ranges and self.ranges[key].is_fixed

    def knob(self, key: str) -> Knob:
        """The catalogue's row, narrowed to this server's range; raise UsageError when it lacks it."""
        knob = BY_KEY[key]
        if not self.has(key):
            raise UsageError(f"{key} is not available", self._why_not(knob))
        return self.narrowed(key) or knob

    def narrowed(self, key: str) -> Knob | None:
        """The catalogue's row with this server's range or words; None where it says nothing of it."""
        known = self.ranges.get(key)
        return None if known is None else _narrowed(BY_KEY[key], known)


@cache
def _narrowed(knob: Knob, known: Range) -> Knob:
    if knob.kind is Kind.CHOICE:
        return _with_words(knob, known.words)
    if known.high is None or known.high <= 0:
        return knob
    minimum = max(knob.minimum or 0, known.low or 0)
    maximum = known.high if knob.maximum is None else min(knob.maximum, known.high)
    ladder = tuple(r for r in knob.ladder if not isinstance(r, str) and minimum <= r <= maximum)
    return replace(knob, minimum=minimum, maximum=maximum, ladder=ladder, range_note="")


def _with_words(knob: Knob, words: Sequence[str]) -> Knob:
    """A choice narrowed to what the server lists, where that leaves any."""
    choices = tuple(choice for choice in knob.choices if choice in words)
    if not choices:
        return knob
    ladder = tuple(rung for rung in knob.ladder if rung in choices)
    return replace(knob, choices=choices, ladder=ladder if len(ladder) > 1 else ())


def version_tuple(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: `9.7.4-2` is (9, 7, 4), `26.7.0` is (26, 7, 0)."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def flavor_name(variables: Mapping[str, str]) -> str:
    """The kind of server, from its version and its version comment."""
    words = f"{variables.get('version', '')} {variables.get('version_comment', '')}".lower()
    return next((flavor for flavor in ("mariadb", "percona") if flavor in words), "mysql")


@frozen
class ServerSettings:
    """A server's variables, as far as they are knobs."""

    values: Mapping[str, Value]
    """Knob key to effective value."""
    registers: bool | None = None
    """Whether it registers for semi-sync when it next connects to its source; None where it has no such
    switch."""
    refuses_writes: bool | None = None
    """Whether it refuses the writes of its clients; None where it does not say."""


@frozen
class Threads:
    """A replica's replication threads."""

    io: str
    """on, connecting, error (stopped by one) or off (stopped by hand)."""
    sql: str
    """As `io`, never connecting."""
    lag_s: float | None = None
    """As the server says it, in whole seconds; None while a thread does not run."""
    io_error: ThreadError | None = None
    """Its last one; None without any."""
    sql_error: ThreadError | None = None
    reads: str | None = None
    """The source's binlog that it reads now."""
    received_to: str | None = None
    """Where in the source's binlogs it received to: `binlog.000003:1234` (refman, SHOW REPLICA STATUS)."""
    applied_to: str | None = None
    """Where in them it has applied to."""
    source_host: str | None = None
    """Whom it follows, as it was configured."""
    source_uuid: str | None = None
    """That server's own, once it was connected to it; None where the server does not say."""
    retrieved: str | None = None
    """Transactions that are in its relay log or were; of MariaDB the position that it has read to."""

    @property
    def fault(self) -> str | None:
        """The last error in one line, the applier's before the IO thread's; None without any."""
        error = self.sql_error or self.io_error
        return None if error is None else error.text


@frozen
class Waits:
    """Commits under way on a source."""

    oldest_s: float | None
    """Age of the oldest that waits for an acknowledgement; None when none waits."""
    number: int | None
    """Under way, waiting or not; None where the server does not say."""
    oldest_commit_s: float | None = None
    """Age of the oldest, whatever it waits for; None when there is none."""


@frozen
class Position:
    """What is on its way to be committed and what is committed, read in this order."""

    owned: str
    executed: str


@frozen
class SourceAddress:
    """Where a replica gets its events from."""

    host: str
    user: str
    password: str
    port: int = 3306

    def __repr__(self) -> str:
        """Without the password."""
        return f"SourceAddress({self.user!r}, {self.host!r}, {self.port})"


@frozen
class Copying:
    """How far a server's copy of another one's data is."""

    stage: str | None
    """In the server's words; None before the first begins."""
    copied_bytes: int
    estimated_bytes: int
    """Of all stages that have begun."""
    fault: str | None = None
    """Why the last copy failed; None where it did not, or goes on."""


_PS_PER_MS: Final = 1e9
_REDO: Final = "wait/io/file/innodb/innodb_log_file"
_IDLE: Final = "idle"
_BINLOG: Final = "wait/io/file/sql/binlog"
ACK_STAGES: Final = ("Waiting for semi-sync ACK from replica", "Waiting for semi-sync ACK from slave")
HANDLER_COMMIT: Final = "waiting for handler commit"
_STATEMENTS: Final = tuple(
    f"statement/{name}"
    for name in (
        "com/Execute",
        "sql/begin",
        "sql/commit",
        "sql/rollback",
        "sql/select",
        "sql/insert",
        "sql/update",
        "sql/delete",
        "sql/replace",
        "sql/call_procedure",
        "sql/set_option",
    )
)
"""Prepared statements are all `Execute`; the rest is what a user's file sends as text."""
_COMMIT: Final = "statement/sql/commit"
_OF_ALL: Final = "all"
_NOT_OF_A_COMMIT: Final = (Source.IDLE, Source.OWN_REDO)
"""Waits that say something of one account's sessions alone."""


@frozen
class Timed:
    """The names of one flavour, each with what it is counted as."""

    files: Mapping[str, tuple[Source, Source]]
    """File to its writes and fsyncs, by whomever."""
    waits: Mapping[str, Source]
    stages: Mapping[str, Source]

    def question(self, account: str | None) -> Question[Totals]:
        """A few names by index, no table of events. Files have no account; all else is asked for the
        account alone, so that the poller, the acknowledgement receiver and dump threads are not in it.

        None: of all sessions together, where nobody's are the load's. Of statements those that are COMMIT
        alone, which every server times unless its performance schema is off.
        """
        waits, statements, kind = tuple(self.waits), _STATEMENTS, "account"
        table, where = "by_user_by_event_name", f"user = '{account}' AND "
        if account is None:
            waits = tuple(name for name, source in self.waits.items() if source not in _NOT_OF_A_COMMIT)
            statements, kind, table, where = (_COMMIT,), _OF_ALL, "global_by_event_name", ""
        parts = (("waits", waits), ("stages", tuple(self.stages)), ("statements", statements))
        return Question(
            "SELECT 'file' AS kind, event_name AS event, count_write AS times, sum_timer_write AS ps,"
            " count_misc AS fsyncs, sum_timer_misc AS fsync_ps"
            " FROM performance_schema.file_summary_by_event_name"
            f" WHERE event_name IN ({listed(self.files)})"
            + "".join(
                f" UNION ALL SELECT '{kind}', event_name, count_star, sum_timer_wait, 0, 0"
                f" FROM performance_schema.events_{what}_summary_{table}"
                f" WHERE {where}event_name IN ({listed(names)})"
                for what, names in parts
                if names
            ),
            self._read,
        )

    def _read(self, rows: Sequence[Row]) -> Totals:
        totals: dict[Source, Total] = {}

        def count(source: Source, times: object, ps: object) -> None:
            total = Total(int(str(times)), int(str(ps)) / _PS_PER_MS)
            totals[source] = totals.get(source, Total()) + total

        for row in rows:
            event = str(row["event"])
            if row["kind"] == "file":
                write, fsync = self.files[event]
                count(write, row["times"], row["ps"])
                count(fsync, row["fsyncs"], row["fsync_ps"])
                continue
            source = self.waits.get(event) or self.stages.get(event) or Source.STATEMENT
            if row["kind"] == _OF_ALL and event == _COMMIT:
                source = Source.COMMIT_STATEMENT
            count(source, row["times"], row["ps"])
        return totals


MYSQL_TIMED: Final = Timed(
    files={
        _REDO: (Source.REDO_WRITE, Source.REDO_FSYNC),
        _BINLOG: (Source.BINLOG_WRITE, Source.BINLOG_FSYNC),
    },
    waits={
        "wait/synch/cond/semisync/COND_binlog_send_": Source.ACK,
        "wait/synch/mutex/sql/MYSQL_BIN_LOG::LOCK_log": Source.FLUSH_LOCK,
        "wait/synch/mutex/sql/MYSQL_BIN_LOG::LOCK_sync": Source.SYNC_LOCK,
        "wait/synch/mutex/sql/MYSQL_BIN_LOG::LOCK_commit": Source.COMMIT_LOCK,
        "wait/synch/mutex/sql/MYSQL_BIN_LOG::LOCK_after_commit": Source.AFTER_COMMIT_LOCK,
        "wait/synch/cond/sql/MYSQL_BIN_LOG::COND_done": Source.FOLLOWING,
        "wait/synch/cond/group_rpl/COND_count_down_latch": Source.GROUP,
        _IDLE: Source.IDLE,
        _REDO: Source.OWN_REDO,
    },
    stages={
        f"stage/sql/{HANDLER_COMMIT}": Source.COMMIT_STAGE,
        **{f"stage/semisync/{stage}": Source.ACK_STAGE for stage in ACK_STAGES},
    },
)
MARIADB_TIMED: Final = Timed(
    files={_BINLOG: (Source.BINLOG_WRITE, Source.BINLOG_FSYNC)},
    waits={_IDLE: Source.IDLE},
    stages={
        **{
            f"stage/sql/{stage}": Source.COMMIT_STAGE
            for stage in (
                "Commit",
                "Commit implicit",
                "Writing to binlog",
                "Waiting for prior transaction to commit",
                "Waiting for prior transaction to start commit",
            )
        },
        f"stage/sql/{ACK_STAGES[1]}": Source.ACK_STAGE,
    },
)
"""The redo log is in no instrument, and of the locks of group commit none tells the queue: who waits for
the group before sleeps in the same place as who waits for its own. A wait for a Galera cluster is within the
commit's stages: of 36 ms at 20 ms between all, the stage `Waiting for certification` had 1 (measured)."""
