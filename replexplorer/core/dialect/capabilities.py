"""What one server has: its flavour, its names for our knobs, its ranges. Probed, never guessed.

Law: names are found by asking which of a knob's variables exist; a version is for showing and is
compared as a tuple only (MySQL goes from 9.7 to 26.7). All statements that a probe or a poll
needs are data here, so who sends them needs no knowledge (docs/facts.md, names, variables and durability).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from replexplorer.core.errors import UsageError
from replexplorer.core.knobs.catalogue import BY_KEY, CATALOGUE, ON_OFF, Backing, Kind, Knob, Value

Row = Mapping[str, Any]
"""A result row by column name."""


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


_KNOB_VARIABLES: Final = tuple(variable for knob in CATALOGUE for variable in knob.variables)
_REPLICA_ENABLED: Final = ("rpl_semi_sync_replica_enabled", "rpl_semi_sync_slave_enabled")
_PROBED: Final = ("version", "version_comment", "server_uuid", *_REPLICA_ENABLED, *_KNOB_VARIABLES)

VARIABLES_PROBE: Final = f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({_listed(_PROBED)})"
"""Answers `Variable_name`, `Value`; works on every flavour, and leaves out what does not exist."""

METADATA_PROBES: Final = (
    "SELECT variable_name AS name, min_value AS low, max_value AS high, 'NO' AS fixed"
    f" FROM performance_schema.variables_metadata WHERE variable_name IN ({_listed(_KNOB_VARIABLES)})",
    "SELECT variable_name AS name, numeric_min_value AS low, numeric_max_value AS high, read_only AS fixed"
    f" FROM information_schema.system_variables WHERE variable_name IN ({_listed(_KNOB_VARIABLES)})",
)
"""Ranges, by MySQL's table and by MariaDB's: the first that the server accepts; none is fine."""

_STATUS_SUFFIXES: Final = (
    "status",
    "clients",
    "yes_tx",
    "no_tx",
    "no_times",
    "wait_sessions",
    "tx_waits",
    "tx_wait_time",
)
_PLAIN_STATUS: Final = ("Uptime", "Uptime_since_flush_status", "Binlog_cache_use")

TIMEOUTS_STATEMENT: Final = (
    "SELECT COUNT(*) AS timeouts FROM performance_schema.error_log"
    " WHERE error_code = 'MY-011153' AND logged >= NOW(6) - INTERVAL"
    " (SELECT variable_value + 0 FROM performance_schema.global_status WHERE variable_name = 'Uptime') SECOND"
)
"""Falls to async by timeout since server start; the table also holds what older runs logged."""

_ACK_STAGES: Final = "'Waiting for semi-sync ACK from replica', 'Waiting for semi-sync ACK from slave'"

OLDEST_WAIT_STATEMENT: Final = (
    f"SELECT MAX(CASE WHEN t.processlist_state IN ({_ACK_STAGES}) THEN s.timer_wait END) / 1e12"
    " AS oldest_wait_s, COUNT(*) AS waiting FROM performance_schema.threads t"
    " JOIN performance_schema.events_statements_current s ON s.thread_id = t.thread_id"
    " WHERE t.name = 'thread/sql/one_connection' AND s.end_event_id IS NULL"
    f" AND t.processlist_state IN ({_ACK_STAGES}, 'waiting for handler commit')"
)
"""Age of the oldest statement that waits for an acknowledgement, NULL when none waits, and how many
commits are under way: under after_sync the leader of one queue alone waits for it, and all others stand
behind that in their handler's commit. The name of the thread leaves the idle acknowledgement receiver
out, which shows the same state."""


@dataclass(frozen=True, slots=True)
class SemiSyncNames:
    """One generation's names on the source."""

    status_prefix: str
    """`Rpl_semi_sync_source_` or `Rpl_semi_sync_master_`."""
    replica_status: str
    """The replica's own status variable: ON once it registered, also while reconnecting."""


_GENERATIONS: Final = {
    "rpl_semi_sync_source_enabled": SemiSyncNames("Rpl_semi_sync_source_", "Rpl_semi_sync_replica_status"),
    "rpl_semi_sync_master_enabled": SemiSyncNames("Rpl_semi_sync_master_", "Rpl_semi_sync_slave_status"),
}


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What one server has, from its answers to the probes."""

    flavor: str
    """mysql, percona or mariadb."""
    version: tuple[int, ...]
    """The leading numbers, for comparing: (9, 7, 4)."""
    version_text: str
    """As the server writes it."""
    server_uuid: str | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    """Knob key to the name of the variable that carries it here; a key that is absent is lacking."""
    ranges: Mapping[str, tuple[int | None, int | None]] = field(default_factory=dict)
    """Knob key to this server's own least and greatest value."""
    fixed: frozenset[str] = frozenset()
    """Keys whose variable cannot change while the server runs."""
    semi_sync: SemiSyncNames | None = None
    """None when this server has no semi-sync source side."""
    replica_enabled: str | None = None
    """The replica side's switch; None when this server has none."""
    replica_word: str = "REPLICA"
    """REPLICA, or SLAVE where the server knows only that."""

    @classmethod
    def probe(cls, variables: Iterable[Row], metadata: Iterable[Row] = ()) -> Capabilities:
        """Read the answers to `VARIABLES_PROBE` and to one of `METADATA_PROBES`."""
        values = read_pairs(variables)
        names = {
            knob.key: next(name for name in knob.variables if name in values)
            for knob in CATALOGUE
            if any(name in values for name in knob.variables)
        }
        keys = {variable: key for key, variable in names.items()}
        described = {
            keys[str(row["name"]).lower()]: row for row in metadata if str(row["name"]).lower() in keys
        }
        version_text = values.get("version", "")
        return cls(
            flavor=_flavor(version_text, values.get("version_comment", "")),
            version=version_tuple(version_text),
            version_text=version_text,
            server_uuid=values.get("server_uuid"),
            variables=names,
            ranges={key: (_whole(row["low"]), _whole(row["high"])) for key, row in described.items()},
            fixed=frozenset(key for key, row in described.items() if str(row["fixed"]).upper() == "YES"),
            semi_sync=_GENERATIONS.get(names.get("semi_sync", "")),
            replica_enabled=next((name for name in _REPLICA_ENABLED if name in values), None),
            replica_word="REPLICA" if "replica_parallel_workers" in values else "SLAVE",
        )

    @property
    def title(self) -> str:
        """Flavour and version for people: `mysql 9.7.4`."""
        return f"{self.flavor} {'.'.join(map(str, self.version))}"

    def has(self, key: str) -> bool:
        """Whether a server's knob can be turned here; a knob of the link or the load always can."""
        return BY_KEY[key].backing is not Backing.SERVER or (key in self.variables and key not in self.fixed)

    def knob(self, key: str) -> Knob:
        """The catalogue's row, narrowed to this server's range; raise UsageError when it lacks it."""
        knob = BY_KEY[key]
        if not self.has(key):
            why = "cannot change it while it runs" if key in self.fixed else "does not have it"
            raise UsageError(f"{key} is not available", f"{self.title} {why}")
        low, high = self.ranges.get(key, (None, None))
        if knob.kind is Kind.CHOICE or high is None or high <= 0:
            return knob
        minimum = max(knob.minimum or 0, low or 0)
        maximum = high if knob.maximum is None else min(knob.maximum, high)
        ladder = tuple(r for r in knob.ladder if not isinstance(r, str) and minimum <= r <= maximum)
        return replace(knob, minimum=minimum, maximum=maximum, ladder=ladder)

    def set_statement(self, key: str, value: Value) -> str:
        """`SET GLOBAL name = value` with this server's name; raise UsageError when it lacks the knob."""
        knob = self.knob(key)
        return f"SET GLOBAL {self.variables[key]} = {literal(knob, value)}"

    def values_statement(self) -> str:
        """A query for all knobs' values here and the replica's switch: rows `Variable_name`, `Value`."""
        names = [*self.variables.values(), *([self.replica_enabled] if self.replica_enabled else [])]
        return f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({_listed(names)})"

    def read_values(self, rows: Iterable[Row]) -> dict[str, Value]:
        """Knob key to effective value, from the answer to `values_statement`."""
        values = read_pairs(rows)
        return {
            key: from_server(BY_KEY[key], values[name])
            for key, name in self.variables.items()
            if name in values
        }

    def read_replica_switch(self, rows: Iterable[Row]) -> bool | None:
        """Whether this server registers for semi-sync when it next connects to its source, from the
        answer to `values_statement`; None where it has no such switch."""
        value = read_pairs(rows).get(self.replica_enabled) if self.replica_enabled else None
        return None if value is None else value.upper() in ("ON", "1")

    def status_statement(self) -> str:
        """A query for what `read_status` needs. Only these names: each semi-sync counter costs the
        server a lock that commits take as well (docs/facts.md, "Commit anatomy")."""
        names = list(_PLAIN_STATUS)
        if self.semi_sync is not None:
            names += [self.semi_sync.status_prefix + suffix for suffix in _STATUS_SUFFIXES]
            names.append(self.semi_sync.replica_status)
        where = f"variable_name IN ({_listed(names)})"
        if self.flavor == "mariadb":
            return f"SHOW GLOBAL STATUS WHERE {where}"
        columns = "variable_name AS Variable_name, variable_value AS Value"
        return f"SELECT {columns} FROM performance_schema.global_status WHERE {where}"

    def read_status(self, rows: Iterable[Row]) -> ServerStatus:
        """The counters, from the answer to `status_statement`; what is missing is None."""
        values = read_pairs(rows)
        prefix = self.semi_sync.status_prefix.lower() if self.semi_sync else None
        counts = {
            suffix: _whole(values.get(f"{prefix}{suffix}")) if prefix else None for suffix in _STATUS_SUFFIXES
        }
        registered = self.semi_sync and values.get(self.semi_sync.replica_status.lower())
        operational = values.get(f"{prefix}status") if prefix else None
        return ServerStatus(
            uptime_s=_whole(values.get("uptime")),
            since_flush_s=_whole(values.get("uptime_since_flush_status")),
            binlog_cache_use=_whole(values.get("binlog_cache_use")),
            operational=None if operational is None else operational.upper() == "ON",
            clients=counts["clients"],
            yes_tx=counts["yes_tx"],
            no_tx=counts["no_tx"],
            no_times=counts["no_times"],
            wait_sessions=counts["wait_sessions"],
            tx_waits=counts["tx_waits"],
            tx_wait_time_us=counts["tx_wait_time"],
            replica_registered=None if not registered else registered.upper() == "ON",
        )

    def switch_replica_on(self) -> tuple[str, ...]:
        """The statement that lets a replica register when it next connects; none where there is none."""
        return (f"SET GLOBAL {self.replica_enabled} = ON",) if self.replica_enabled else ()

    def restart_io(self) -> tuple[str, ...]:
        """Statements that make a replica register anew with its source's semi-sync (section 1.1)."""
        return (
            *self.switch_replica_on(),
            f"STOP {self.replica_word} IO_THREAD",
            f"START {self.replica_word} IO_THREAD",
        )

    def stop_applier(self) -> str:
        """The statement before a variable that the applier reads when it starts."""
        return f"STOP {self.replica_word} SQL_THREAD"

    def start_applier(self) -> str:
        """The statement after it."""
        return f"START {self.replica_word} SQL_THREAD"


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """One server's counters and gauges (docs/facts.md, "Semi-sync: counters"); None where it has none."""

    uptime_s: int | None = None
    since_flush_s: int | None = None
    """Since FLUSH STATUS last set counters to 0, or since the start."""
    binlog_cache_use: int | None = None
    """Transactions that went to the binlog: the honest count of commits (section 3)."""
    operational: bool | None = None
    """The source's `status`: semi-sync is in force now."""
    clients: int | None = None
    """Semi-sync replicas registered with this source."""
    yes_tx: int | None = None
    """Acknowledged waits: per commit queue under after_sync, so never a TPS."""
    no_tx: int | None = None
    no_times: int | None = None
    """Times switched off, each `enabled=0` of ours included."""
    wait_sessions: int | None = None
    tx_waits: int | None = None
    tx_wait_time_us: int | None = None
    replica_registered: bool | None = None
    """On a replica: it registered for semi-sync when its dump last began."""


def read_pairs(rows: Iterable[Row]) -> dict[str, str]:
    """Rows of `Variable_name`, `Value` as a mapping by lower-case name."""
    return {str(row["Variable_name"]).lower(): str(row["Value"]) for row in rows}


def version_tuple(text: str) -> tuple[int, ...]:
    """The leading numbers of a version: `9.7.4-2` is (9, 7, 4), `26.7.0` is (26, 7, 0)."""
    match = re.match(r"\d+(?:\.\d+)*", text)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


def _flavor(version: str, comment: str) -> str:
    words = f"{version} {comment}".lower()
    return next((flavor for flavor in ("mariadb", "percona") if flavor in words), "mysql")


def from_server(knob: Knob, text: str) -> Value:
    """A server's value as ours: lower-case words, whole numbers; what is neither stays a word."""
    if knob.kind is Kind.CHOICE:
        return knob.word(text)
    number = _whole(text)
    return text.strip().lower() if number is None else number


def literal(knob: Knob, value: Value) -> str:
    """Our value as SQL: numbers bare, on and off as keywords, other words quoted in capitals."""
    if not isinstance(value, str):
        return str(int(value))
    return value.upper() if value in ON_OFF else f"'{value.upper()}'"


def _whole(value: object) -> int | None:
    """A whole number out of a column that may be text, a number, empty or NULL."""
    match = re.fullmatch(r"\s*(-?\d+)(?:\.0*)?\s*", str(value))
    return int(match[1]) if match else None
