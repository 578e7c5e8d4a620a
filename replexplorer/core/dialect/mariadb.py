"""MariaDB's dialect: 10.5 and later, whose words are those of MySQL before 8.0.26 where nothing stands here.

A position is one number a domain, and each server of a domain goes on where the others stopped. It is
written here as a set of its own a domain and server, `0-1:1-57` for 0-1-57: so a later position holds the
earlier one, and what a server committed after another took its place is in no other's set. What stands
here was measured on 11.8 (docs/explanation/mariadb.md).

The dialect of MariaDB as a member of a Galera cluster.

A commit is sent to all members in one total order and certified by each of them alike; its client is told
when every member of the component has received it. A member that cannot reach a majority of the component
that it was in refuses to read and write tables (error 1047), but tells its state. What stands here was
measured on MariaDB 11.8 with Galera 26.4 (docs/explanation/groups.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from replexplorer.core.dialect.attaching import IN_SYNC, Whereabouts
from replexplorer.core.dialect.dialect import (
    KNOB_VARIABLES,
    MARIADB_TIMED,
    Capabilities,
    Position,
    Range,
    SourceAddress,
)
from replexplorer.core.dialect.mysql import OLD_NAMES, MySql, read_waits
from replexplorer.core.dialect.question import Question, Row, listed, numbers, read_pairs, whole
from replexplorer.core.dialect.waits import MARIADB_ROW_LOCKS, MARIADB_SESSIONS
from replexplorer.core.knobs import keys
from replexplorer.core.records import frozen, replace
from replexplorer.core.server.counters import Sent
from replexplorer.core.server.gtid import parse_gtids, subtract_gtids, unite_gtids
from replexplorer.core.server.node_view import Membership
from replexplorer.core.server.truth import Behind
from replexplorer.core.system import GALERA
from replexplorer.core.topology import Belonging

_ON: Final = "wsrep_on"
"""MariaDB has it always, and it is on in a cluster."""
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


@frozen
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

    ranges: ClassVar = Question(
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
    """With what cannot change while the server runs."""

    # -- semi-sync and commits

    waits: ClassVar = Question(
        f"SELECT MAX(CASE WHEN state = '{_ACK_STATE}' THEN time_ms END) / 1e3 AS oldest_wait_s,"
        " COUNT(*) AS waiting, MAX(time_ms) / 1e3 AS oldest_commit_s FROM information_schema.processlist"
        f" WHERE command IN ('Query', 'Execute') AND state IN ({listed((_ACK_STATE, *_COMMIT_STATES))})",
        read_waits,
    )
    """A statement's age is that of its wait: a commit does little before it."""

    timeouts: ClassVar = Question("SELECT NULL AS timeouts", lambda _: None)
    """It has no table of its error log."""

    # -- who waits for what

    sessions: ClassVar = MARIADB_SESSIONS
    row_locks: ClassVar = MARIADB_ROW_LOCKS
    metadata_locks: ClassVar = None
    """A plugin that is not loaded by default shows them (MariaDB knowledge base, "METADATA_LOCK_INFO")."""

    untold: ClassVar = ("MariaDB: who holds a metadata lock, what an idle session ran last",)

    # -- positions

    tracks_gtids: ClassVar = "SET SESSION session_track_system_variables = 'last_gtid'"
    """The variable is reported whenever it changes."""

    purged: ClassVar = Question(
        "SHOW BINLOG EVENTS LIMIT 4",
        lambda rows: gtids_of(next((row["Info"] for row in rows if row["Event_type"] == _STATE_EVENT), "")),
    )
    """The oldest binlog that is there begins with the state in which it was begun (MariaDB knowledge
    base, "SHOW BINLOG EVENTS": without a name the first is meant)."""

    def logged_before(self, binlog: str) -> Question[str]:
        """The state with which it begins."""
        return replace(self.purged, statement=f"SHOW BINLOG EVENTS IN '{binlog}' LIMIT 4")

    executed: ClassVar = Question(EXECUTED, lambda rows: gtids_of(rows[0]["executed"]))
    """Under after_sync with what waits for its acknowledgement: that is in the binlog."""

    position: ClassVar = Question(EXECUTED, lambda rows: Position("", gtids_of(rows[0]["executed"])))
    """What is about to be committed has no number yet."""

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

    @property
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

    received: ClassVar = Question(
        "SHOW ALL SLAVES STATUS",
        lambda rows: tuple((row["Slave_received_heartbeats"], row["Gtid_IO_Pos"]) for row in rows),
    )
    """Heartbeats come once a second while there are no events."""

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

    open_for_writes: ClassVar = ("SET GLOBAL read_only = OFF",)
    """One switch."""

    refuse_writes: ClassVar = ("SET GLOBAL read_only = ON",)
    """Of all accounts without READ_ONLY ADMIN, which in a stack the program's own alone has."""

    refuse_clients: ClassVar = refuse_writes
    """The same."""

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
        """A replica's position is not part of its binlogs."""
        return (*MySql.empty(self, databases), "SET GLOBAL gtid_slave_pos = ''")


def _read_sent(rows: Sequence[Row]) -> Sent:
    (row,) = rows
    return Sent(gtids_of(row["executed"]), whole(row["dump_thread"]), whole(row["sent"]))


_STATES: Final = {
    "synced": Belonging.MEMBER,
    "donor/desynced": Belonging.MEMBER,
    "joined": Belonging.JOINING,
    "joining": Belonging.JOINING,
    "joiner": Belonging.JOINING,
}
"""wsrep_local_state_comment by how a member with it stands to its cluster; `Joining: receiving ...` too."""
_APPLIED: Final = f"{IN_SYNC}{EXECUTED}"
"""Answered when all that the cluster had sent before is applied here; refused without a majority."""
_PRIMARY: Final = "primary"
_NS_PER_MS: Final = 1e6
_COUNTS: Final = {
    "size": "wsrep_cluster_size",
    "queued": "wsrep_local_send_queue",
    "to_apply": "wsrep_local_recv_queue",
    "conflicts": "wsrep_local_cert_failures",
    "gave_way": "wsrep_local_bf_aborts",
    "certified": "wsrep_replicated",
    "holds": "wsrep_flow_control_recv",
}
"""Field of a membership to the status variable that is its number."""
_MEMBERSHIP: Final = (
    "wsrep_local_state_comment",
    "wsrep_cluster_status",
    "wsrep_cluster_conf_id",
    "wsrep_connected",
    "wsrep_flow_control_paused_ns",
    *_COUNTS.values(),
)


def _read_membership(rows: Sequence[Row]) -> Membership:
    found = read_pairs(rows)
    state = found.get("wsrep_local_state_comment", "")
    paused_ns = whole(found.get("wsrep_flow_control_paused_ns"))
    counts = numbers(found, _COUNTS)
    return Membership(
        _belongs(found, state),
        state,
        **counts | {"size": counts.get("size") or None},
        view=found.get("wsrep_cluster_conf_id"),
        held_ms=None if paused_ns is None else paused_ns / _NS_PER_MS,
    )


def _belongs(found: Mapping[str, str], state: str) -> Belonging:
    """How a member stands to its cluster."""
    if found.get("wsrep_connected", "").lower() != "on":
        return Belonging.OUTSIDE
    if found.get("wsrep_cluster_status", "").lower() != _PRIMARY:
        return Belonging.CUT_OFF
    if found.get("wsrep_cluster_size") == "0":
        return Belonging.JOINING
    word = state.lower().partition(":")[0]
    return _STATES.get(word, Belonging.JOINING)


def _read_incoming(text: str) -> tuple[Whereabouts, ...]:
    """`db1:3306,db2:3306`; a member without a configured address is `AUTO`."""
    places = (each.strip().rpartition(":") for each in text.split(","))
    return tuple(
        Whereabouts(host.strip("[]"), whole(port) or 3306) for host, sign, port in places if sign and host
    )


@frozen
class Galera(MariaDb):
    """One member's dialect; see `mysql.MySql` for what each question is."""

    system: ClassVar = GALERA
    probed: ClassVar = (_ON,)

    @classmethod
    def is_for(cls, variables: Mapping[str, str]) -> bool:
        """Whether a server with these variables is one that this dialect is for."""
        return variables.get(_ON, "").lower() in ("on", "1")

    # -- finding the members of a cluster that somebody else made

    group_name: ClassVar = Question(
        "SHOW GLOBAL STATUS LIKE 'wsrep_cluster_state_uuid'",
        lambda rows: read_pairs(rows).get("wsrep_cluster_state_uuid", ""),
    )
    """Empty of a server that is in none."""

    members: ClassVar = Question(
        "SHOW GLOBAL STATUS LIKE 'wsrep_incoming_addresses'",
        lambda rows: _read_incoming(read_pairs(rows).get("wsrep_incoming_addresses", "")),
    )
    """Where they may be reached, as one of them knows it."""

    @classmethod
    def of(cls, variables: Mapping[str, str], ranges: Mapping[str, Range]) -> Galera:
        """From a server's variables; MariaDB's semi-sync is built in, and means nothing here."""
        return cls(capabilities=Capabilities.of(variables, ranges, cls.system), word="SLAVE")

    # -- positions

    position: ClassVar = Question(
        _APPLIED,
        lambda rows: Position("", gtids_of(rows[0]["executed"])),
    )
    """Other members may have applied what a session here is about to commit: all that was sent before is
    waited for, a round trip to the farthest member."""

    received_gtids: ClassVar = Question(_APPLIED, lambda rows: gtids_of(rows[0]["executed"]))
    """What was received is nowhere said by its number: it is waited for until it is applied."""

    def reached(self, executed: str, within_s: float) -> Question[bool]:
        """Members number the same transactions each in its own way: what the cluster had sent before is
        waited for, as long as `repl.causal_read_timeout` (30 s), past which the server refuses to answer."""
        return Question(_APPLIED, lambda rows: True)

    # -- membership in a group

    membership: ClassVar = Question(
        f"SHOW GLOBAL STATUS WHERE Variable_name IN ({listed(_MEMBERSHIP)})", _read_membership
    )
    """By SHOW, which a member answers that is cut off."""

    found: ClassVar = ("SET GLOBAL wsrep_provider_pc_bootstrap = ON",)
    """A member that waits for the rest of its cluster becomes the whole of it."""

    def join(self, seeds: Sequence[str]) -> tuple[str, ...]:
        """It tries by itself."""
        return ()
