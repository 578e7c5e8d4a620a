"""MariaDB's dialect: 10.5 and later, whose words are those of MySQL before 8.0.26 where nothing stands here.

A position is one number a domain, and each server of a domain goes on where the others stopped. It is
written here as a set of its own a domain and server, `0-1:1-57` for 0-1-57: so a later position holds the
earlier one, and what a server committed after another took its place is in no other's set. What stands
here was measured on 11.8 (docs/facts.md, "MariaDB").
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from replexplorer.core.dialect.dialect import (
    KNOB_VARIABLES,
    MARIADB_TIMED,
    Capabilities,
    Position,
    Range,
    SourceAddress,
    Waits,
)
from replexplorer.core.dialect.mysql import OLD_NAMES, MySql, read_waits
from replexplorer.core.dialect.question import Question, Row, listed, whole
from replexplorer.core.knobs import keys
from replexplorer.core.server.counters import Sent
from replexplorer.core.server.gtid import parse_gtids, subtract_gtids, unite_gtids
from replexplorer.core.server.truth import Behind

_COMMITS_END_WITHIN_S: Final = 9
_POSITION: Final = re.compile(r"(\d+)-(\d+)-(\d+)")
_ACK_STATE: Final = "Waiting for semi-sync ACK from slave"
_COMMIT_STATES: Final = ("Commit", "Waiting for prior transaction to commit", "Commit implicit")
_STATE_EVENT: Final = "Gtid_list"
_HAS: Final = "CONCAT_WS(',', @@GLOBAL.gtid_binlog_state, @@GLOBAL.gtid_slave_pos)"
"""All that a server has executed: its binlog's state, and what a replica took over with a copy."""
EXECUTED: Final = f"SELECT {_HAS} AS executed"


def gtids_of(position: object) -> str:
    """A position as the server writes it, `0-1-57,0-2-60`, as a GTID set: `0-1:1-57, 0-2:1-60`."""
    found = (match.groups() for match in _POSITION.finditer(str(position or "")))
    return unite_gtids(*(f"{domain}-{server}:1-{number}" for domain, server, number in found))


def position_of(gtids: str) -> str:
    """The newest transaction of each domain in such a set, as the server wants a position."""
    newest: dict[str, tuple[int, str]] = {}
    for key, spans in parse_gtids(gtids).items():
        domain, _, server = key.partition("-")
        newest[domain] = max(newest.get(domain, (0, "")), (spans[-1][1], server))
    return ",".join(f"{domain}-{server}-{number}" for domain, (number, server) in newest.items())


@dataclass(frozen=True, slots=True)
class MariaDb(MySql):
    """One server's dialect; see `mysql.MySql` for what each question is."""

    probed: ClassVar = ("rpl_semi_sync_slave_enabled",)
    refuses: ClassVar = "read_only"
    counters: ClassVar = "information_schema.global_status"
    timed: ClassVar = MARIADB_TIMED
    tablespaces: ClassVar = "innodb_sys_tablespaces"
    lsns: ClassVar = {"current_lsn": "Innodb_lsn_current", "flushed_lsn": "Innodb_lsn_flushed"}

    @classmethod
    def of(cls, variables: Mapping[str, str], ranges: Mapping[str, Range]) -> MariaDb:
        """From a server's variables by lower-case name, and its answer to `ranges`."""
        return cls(
            capabilities=Capabilities.of(variables, ranges),
            semi_sync=OLD_NAMES if "rpl_semi_sync_master_enabled" in variables else None,
            registers=next((name for name in cls.probed if name in variables), None),
            word="SLAVE",
        )

    @staticmethod
    def ranges() -> Question[Mapping[str, Range]]:
        """With what cannot change while the server runs."""
        return Question(
            "SELECT variable_name AS name, numeric_min_value AS low, numeric_max_value AS high,"
            " read_only AS fixed, enum_value_list AS words FROM information_schema.system_variables"
            f" WHERE variable_name IN ({listed(KNOB_VARIABLES)})",
            lambda rows: {
                str(row["name"]).lower(): Range(
                    whole(row["low"]),
                    whole(row["high"]),
                    row["fixed"] == "YES",
                    tuple(str(row["words"] or "").lower().split(",")) if row["words"] else (),
                )
                for row in rows
            },
        )

    # -- semi-sync and commits

    def waits(self) -> Question[Waits]:
        """A statement's age is that of its wait: a commit does little before it."""
        return Question(
            f"SELECT MAX(CASE WHEN state = '{_ACK_STATE}' THEN time_ms END) / 1e3 AS oldest_wait_s,"
            " COUNT(*) AS waiting, MAX(time_ms) / 1e3 AS oldest_commit_s FROM information_schema.processlist"
            f" WHERE command IN ('Query', 'Execute') AND state IN ({listed((_ACK_STATE, *_COMMIT_STATES))})",
            read_waits,
        )

    def timeouts(self) -> Question[int | None]:
        """It has no table of its error log."""
        return Question("SELECT NULL AS timeouts", lambda _: None)

    # -- positions

    @property
    def tracks_gtids(self) -> str:
        """The variable is told whenever it changes."""
        return "SET SESSION session_track_system_variables = 'last_gtid'"

    def purged(self) -> Question[str]:
        """The oldest binlog that is there begins with the state in which it was begun (MariaDB knowledge
        base, "SHOW BINLOG EVENTS": without a name the first is meant)."""
        return Question(
            "SHOW BINLOG EVENTS LIMIT 4",
            lambda rows: gtids_of(
                next((row["Info"] for row in rows if row["Event_type"] == _STATE_EVENT), "")
            ),
        )

    def logged_before(self, binlog: str) -> Question[str]:
        """The state with which it begins."""
        return replace(self.purged(), statement=f"SHOW BINLOG EVENTS IN '{binlog}' LIMIT 4")

    def executed(self) -> Question[str]:
        """Under after_sync with what waits for its acknowledgement: that is in the binlog."""
        return Question(EXECUTED, lambda rows: gtids_of(rows[0]["executed"]))

    def position(self) -> Question[Position]:
        """What is about to be committed has no number yet."""
        return Question(EXECUTED, lambda rows: Position("", gtids_of(rows[0]["executed"])))

    def sent(self, replica_host: str) -> Question[Sent]:
        """Bytes where the performance schema is on."""
        return Question(
            f"SELECT {_HAS} AS executed, p.id AS dump_thread, s.variable_value AS sent"
            " FROM (SELECT 1) AS always"
            " LEFT JOIN information_schema.processlist p"
            " ON p.command LIKE 'Binlog Dump%%' AND SUBSTRING_INDEX(p.host, ':', 1) = %s"
            " LEFT JOIN performance_schema.threads t ON t.processlist_id = p.id"
            " LEFT JOIN performance_schema.status_by_thread s"
            " ON s.thread_id = t.thread_id AND s.variable_name = 'Bytes_sent'"
            " ORDER BY p.id DESC LIMIT 1",
            _read_sent,
            (replica_host,),
        )

    def behind(self, executed: str) -> Question[Behind | None]:
        """Transactions carry whole seconds only, so ages are the heartbeat's; a server before 11.6 has
        no table of its threads, and no ages."""

        def read(rows: Sequence[Row]) -> Behind | None:
            if not rows:
                return None
            row = {name.lower(): value for name, value in rows[0].items()}
            has = gtids_of(row.get("executed") or row["gtid_slave_pos"])
            return Behind(
                queued=subtract_gtids(gtids_of(row["gtid_io_pos"]), has),
                missing=subtract_gtids(executed, has),
                applied_us=whole(row.get("applied_us")),
                by_heartbeat=True,
            )

        return Question(
            f"SELECT gtid_io_pos, gtid_slave_pos, {_HAS} AS executed,"
            " (SELECT TIMESTAMPDIFF(MICROSECOND, MAX(beaten_at), NOW(6)) FROM replexplorer.heartbeat)"
            " AS applied_us FROM information_schema.slave_status",
            read,
            instead=Question("SHOW ALL SLAVES STATUS", read),
        )

    def received_gtids(self) -> Question[str]:
        """Before 11.6 only what was executed of it: less than there is."""

        def read(rows: Sequence[Row]) -> str:
            return unite_gtids(*(gtids_of(value) for row in rows for value in row.values()))

        return Question(
            f"SELECT {_HAS} AS executed,"
            " (SELECT GROUP_CONCAT(gtid_io_pos) FROM information_schema.slave_status) AS received",
            read,
            instead=Question(EXECUTED, read),
        )

    def received(self) -> Question[tuple[object, ...]]:
        """Heartbeats come once a second while there are no events."""
        return Question(
            "SHOW ALL SLAVES STATUS",
            lambda rows: tuple((row["Slave_received_heartbeats"], row["Gtid_IO_Pos"]) for row in rows),
        )

    def reached(self, executed: str, within_s: float) -> Question[bool]:
        """The server answers 0 when it has, -1 past the time."""
        return Question(
            f"SELECT MASTER_GTID_WAIT(%s, {within_s:g}) AS late",
            lambda rows: int(rows[0]["late"]) == 0,
            (position_of(executed),),
        )

    # -- roles

    def follow(self, source: SourceAddress) -> Question[None]:
        """From what it has executed, as a source too: its own commits count as received ones."""
        return Question(
            f"CHANGE MASTER TO MASTER_HOST='{source.host}', MASTER_PORT={source.port},"
            f" MASTER_USER='{source.user}', MASTER_PASSWORD=%s, MASTER_DEMOTE_TO_SLAVE=1, MASTER_SSL=0,"
            " MASTER_SSL_VERIFY_SERVER_CERT=0, MASTER_CONNECT_RETRY=1, MASTER_HEARTBEAT_PERIOD=1",
            lambda _: None,
            (source.password,),
        )

    def open_for_writes(self) -> tuple[str, ...]:
        """One switch."""
        return ("SET GLOBAL read_only = OFF",)

    def refuse_writes(self) -> tuple[str, ...]:
        """Of all accounts without READ_ONLY ADMIN, which in a stack the program's own alone has."""
        return ("SET GLOBAL read_only = ON",)

    def refuse_clients(self) -> tuple[str, ...]:
        """The same."""
        return self.refuse_writes()

    def holding_commits(self, key: str) -> tuple[Sequence[str], Sequence[str]]:
        """A commit under way as the wait point becomes AFTER_COMMIT may miss its acknowledgement, and waits
        for the whole timeout: 8 timeouts in 15 changes under 32 clients at 80 ms (11.8.9), none in 45 that
        held commits back. Those under way end first, or the change is refused."""
        if key != keys.WAIT_POINT:
            return (), ()
        stage = f"SET STATEMENT lock_wait_timeout={_COMMITS_END_WITHIN_S} FOR BACKUP STAGE BLOCK_COMMIT"
        return ("BACKUP STAGE START", stage), ("BACKUP STAGE END",)

    # -- copying a whole server

    @property
    def copies(self) -> bool:
        """It has no clone plugin."""
        return False

    def empty(self, databases: Sequence[str]) -> tuple[str, ...]:
        """A replica's position is no part of its binlogs."""
        return (*MySql.empty(self, databases), "SET GLOBAL gtid_slave_pos = ''")


def _read_sent(rows: Sequence[Row]) -> Sent:
    (row,) = rows
    return Sent(gtids_of(row["executed"]), whole(row["dump_thread"]), whole(row["sent"]))
