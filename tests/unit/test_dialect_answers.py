"""What is read out of the rows that servers of each flavor were seen to answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.dialect.attaching import (
    DUMPED_TO,
    FOLLOWED,
    REGISTERED,
    Followed,
    Whereabouts,
)
from replexplorer.core.dialect.dialect import (
    Copying,
    Position,
    Range,
    ServerSettings,
    Threads,
    Waits,
)
from replexplorer.core.dialect.flavours import flavour_of
from replexplorer.core.dialect.group import GroupMySql
from replexplorer.core.dialect.mariadb import Galera, MariaDb, gtids_of, position_of
from replexplorer.core.dialect.mysql import MySql
from replexplorer.core.dialect.question import Question
from replexplorer.core.event import Severity
from replexplorer.core.server.counters import Sent, ServerStatus, Source, Total
from replexplorer.core.server.exposure import LogState
from replexplorer.core.server.gtid import subtract_gtids
from replexplorer.core.server.node_view import Membership, ThreadError, judge_group, member_news
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.server.truth import Behind, Workers
from replexplorer.core.system import GALERA
from replexplorer.core.topology import Belonging
from tests.fakes.servers import (
    GALERA_11,
    GROUP_9,
    MARIADB,
    MYSQL_9,
    MYSQL_57,
    RANGES_9,
    mysql_9,
    rows,
)

NEW = mysql_9()
OLD = MySql.of(MYSQL_57, {})
BARE = MySql.of({name: text for name, text in MYSQL_9.items() if not name.startswith("rpl_semi_sync")}, {})
"""Without the semi-sync plugins."""
MARIA = MariaDb.of(MARIADB, {})
IN_GROUP, IN_CLUSTER = (flavour_of(variables).of(variables, {}) for variables in (GROUP_9, GALERA_11))

RUNNING = {
    "Source_Log_File": "binlog.000007",
    "Read_Source_Log_Pos": 1234,
    "Relay_Source_Log_File": "binlog.000006",
    "Exec_Source_Log_Pos": "1200",
    "Replica_IO_Running": "Yes",
    "Replica_SQL_Running": "Yes",
    "Last_IO_Errno": 0,
    "Last_SQL_Errno": 0,
    "Last_IO_Error": "",
    "Last_SQL_Error": "",
    "Seconds_Behind_Source": 3,
}
PLACES: dict[str, Any] = {
    "reads": "binlog.000007",
    "received_to": "binlog.000007:1234",
    "applied_to": "binlog.000006:1200",
}
STOPPED = {
    **RUNNING,
    "Source_Log_File": "",
    "Relay_Source_Log_File": "",
    "Replica_IO_Running": "No",
    "Replica_SQL_Running": "No",
    "Last_SQL_Errno": 1062,
    "Last_SQL_Error": "Duplicate entry",
}
CONNECTING = {
    **RUNNING,
    "Replica_IO_Running": "Connecting",
    "Last_IO_Errno": 2003,
    "Last_IO_Error": "error connecting to master\n 'x'",
    "Seconds_Behind_Source": None,
}
BEHIND = {
    "queued": "u:4-5", "missing": "u:4-9", "applying_us": None, "waiting_us": None, "applied_us": None,
    "busy": 1, "workers": 4,
}  # fmt: skip
BEHIND_MARIADB = {"gtid_io_pos": "0-1-9", "gtid_slave_pos": "0-1-7", "executed": "0-1-7,0-1-7"}
COUNTERS = {
    "Uptime": "123",
    "Binlog_cache_use": "77",
    "Rpl_semi_sync_source_status": "ON",
    "Rpl_semi_sync_source_clients": "2",
    "Rpl_semi_sync_source_yes_tx": "10",
    "Rpl_semi_sync_source_no_tx": "3",
    "Rpl_semi_sync_source_no_times": "1",
    "Rpl_semi_sync_source_tx_waits": "9",
    "Rpl_semi_sync_source_tx_wait_time": "1000",
    "Rpl_semi_sync_replica_status": "OFF",
}
STATUS = ServerStatus(
    uptime_s=123, binlog_cache_use=77, operational=True, clients=2, yes_tx=10, no_tx=3, no_times=1,
    tx_waits=9, tx_wait_time_us=1000, replica_registered=False,
)  # fmt: skip
LOGS = {
    "Innodb_redo_log_current_lsn": "5000",
    "Innodb_redo_log_flushed_to_disk_lsn": "4000",
    "Innodb_os_log_written": "99",
    "Innodb_os_log_fsyncs": "12",
    "Threads_running": "3",
    "Threads_connected": "9",
    "Connections": "40",
    "Uptime": "123",
    "Rpl_semi_sync_source_status": "ON",
    "Rpl_semi_sync_source_no_tx": "7",
}
LOG_STATE = LogState(
    5000, 4000, 99, 2, 1000, running=3, connected=9, connections=40, waits=True, not_waited=7, uptime_s=123,
    fsyncs=12,
)  # fmt: skip
POOL = "Innodb_buffer_pool_resize_status"
REDO = "wait/io/file/innodb/innodb_log_file"
ACK_STAGE = "stage/semisync/Waiting for semi-sync ACK from "
MEMBER = {
    "state": "ONLINE", "role": "PRIMARY", "view": "17953718703993631:3", "size": 3, "answering": 3,
    "queued": 2, "to_apply": 5, "conflicts": 7, "certified": 100, "held_us": "1500000", "holds": "9",
}  # fmt: skip
COUNTED = Membership(
    Belonging.MEMBER, "ONLINE", size=3, answering=3, view="17953718703993631:3", queued=2, to_apply=5,
    conflicts=7, certified=100, held_ms=1500.0, holds=9,
)  # fmt: skip
WSREP = {
    "wsrep_local_state_comment": "Synced",
    "wsrep_cluster_status": "Primary",
    "wsrep_cluster_size": "3",
    "wsrep_cluster_conf_id": "7",
    "wsrep_connected": "ON",
    "wsrep_local_send_queue": "2",
    "wsrep_local_recv_queue": "5",
    "wsrep_local_cert_failures": "3",
    "wsrep_local_bf_aborts": "4",
    "wsrep_replicated": "100",
    "wsrep_flow_control_paused_ns": "1500000000",
    "wsrep_flow_control_recv": "9",
}
SYNCED = Membership(
    Belonging.MEMBER, "Synced", size=3, view="7", queued=2, to_apply=5, conflicts=3, gave_way=4,
    certified=100, held_ms=1500.0, holds=9,
)  # fmt: skip


def in_old_words(values: Mapping[str, Any]) -> dict[str, Any]:
    """Names as a server before 8.0.26 has them."""
    pairs = (("source", "master"), ("Source", "Master"), ("replica", "slave"), ("Replica", "Slave"))
    found = {}
    for name, value in values.items():
        for new, old in pairs:
            name = name.replace(new, old)
        found[name] = value
    return found


def logs(values: Mapping[str, str], flush: int = 2, sync: int = 1000) -> list[dict[str, object]]:
    """With the settings in each row."""
    return [{**row, "flush_at_commit": flush, "sync_binlog": sync} for row in rows(values)]


def counted(
    event: str, times: int, ms: float, fsyncs: int = 0, fsync_ms: float = 0, kind: str = "account"
) -> dict[str, Any]:
    """As it is summed up, in picoseconds."""
    ps, fsync_ps = (Decimal(round(each * 10**9)) for each in (ms, fsync_ms))
    return {
        "kind": kind, "event": event, "times": times, "ps": ps, "fsyncs": fsyncs, "fsync_ps": fsync_ps,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("question", "answer", "value"),
    [
        (
            NEW.ledger_rows(7),
            [
                {"client": 7_000_000_002, "low": 5, "high": 9},
                {"client": 7_000_000_001, "low": 1, "high": 4},
                {"client": 7_000_000_002, "low": 1, "high": 3},
            ],
            {1: ((1, 4),), 2: ((1, 3), (5, 9))},
        ),
        (NEW.threads, [], None),
        (NEW.threads, [RUNNING], Threads("on", "on", 3.0, **PLACES)),
        (
            NEW.threads,
            [STOPPED],
            Threads("off", "error", 3.0, sql_error=ThreadError(1062, "Duplicate entry")),
        ),
        (
            OLD.threads,
            [in_old_words(CONNECTING)],
            Threads(
                "connecting",
                "on",
                io_error=ThreadError(2003, "error connecting to master 'x'"),
                **PLACES,
            ),
        ),
        (MARIA.executed, [{"executed": "0-1-57,0-2-60,0-2-60"}], "0-1:1-57, 0-2:1-60"),
        (MARIA.purged, [{"Event_type": "Gtid_list", "Info": "[0-1-57,\n0-2-60]"}], "0-1:1-57, 0-2:1-60"),
        (MARIA.purged, [{"Event_type": "Gtid_list", "Info": "[]"}], ""),
        (NEW.position, [{"owned": "u:5#12", "executed": "u:1-4,\nv:1"}], Position("u:5#12", "u:1-4,v:1")),
        (MARIA.position, [{"executed": "0-1-57,"}], Position("", "0-1:1-57")),
        (OLD.setting("semi_sync"), [{"value": 1}], "on"),
        (MARIA.received, [{"Slave_received_heartbeats": 2, "Gtid_IO_Pos": "0-1-1"}], ((2, "0-1-1"),)),
        (NEW.received_gtids, [{"executed": "u:1-3,\nv:1", "received": "u:4-5"}], "u:4-5, u:1-3,v:1"),
        (NEW.received_gtids, [{"executed": "u:1", "received": None}], "u:1"),
        (MARIA.received_gtids, [{"executed": "0-1-7,", "received": "0-1-9"}], "0-1:1-9"),
        (MARIA.received_gtids, [{"executed": "0-1-7", "received": None}], "0-1:1-7"),
        (MARIA.reached("0-1:1-5", 2.5), [{"late": -1}], False),
        (IN_CLUSTER.reached("0-1:1-57", 5.0), [{"executed": "0-2-31"}], True),
        (
            NEW.binlogs,
            [{"Log_name": "b.1", "File_size": "1000", "Encrypted": "No"}],
            (("b.1", 1000),),
        ),
        (NEW.waits, [{"oldest_wait_s": Decimal("1.25"), "waiting": 3}], Waits(1.25, 3)),
        (NEW.waits, [{"oldest_wait_s": None, "waiting": 0}], Waits(None, 0)),
        (MARIA.timeouts, [{"timeouts": None}], None),
        (NEW.sent("h"), [{"executed": "u:1", "dump_thread": 41, "sent": "99"}], Sent("u:1", 41, 99)),
        (NEW.sent("h"), [{"executed": "u:1", "dump_thread": None, "sent": None}], Sent("u:1", None, None)),
        (MARIA.sent("h"), [{"executed": "0-1-2", "dump_thread": 41, "sent": "99"}], Sent("0-1:1-2", 41, 99)),
        (NEW.behind(""), [], None),
        (NEW.behind("u:1-9"), [BEHIND], Behind("u:4-5", "u:4-9", workers=Workers(1, 4))),
        (
            NEW.behind("u:1-9"),
            [{**BEHIND, "applying_us": 3, "waiting_us": 8, "applied_us": 20}],
            Behind("u:4-5", "u:4-9", applying_us=8, applied_us=20, workers=Workers(1, 4)),
        ),
        (MARIA.behind(""), [], None),
        (
            MARIA.behind("0-1:1-12"),
            [{**BEHIND_MARIADB, "applied_us": 1500}],
            Behind("0-1:8-9", "0-1:8-12", applied_us=1500, by_heartbeat=True),
        ),
        (  # before 11.6, without ages
            MARIA.behind("0-1:1-12").instead,
            [{"Gtid_IO_Pos": "0-1-9", "Gtid_Slave_Pos": "0-1-7"}],
            Behind("0-1:8-9", "0-1:8-12", by_heartbeat=True),
        ),
        (NEW.table_bytes("sandbox", "title"), [], 0),
        (NEW.table_bytes("sandbox", "title"), [{"bytes": 4096}], 4096),
        (
            NEW.copying,
            [{"stage": "FILE COPY", "copied": Decimal(5), "estimated": Decimal(9), "fault": None}],
            Copying("FILE COPY", 5, 9),
        ),
        (
            NEW.copying,
            [{"stage": None, "copied": Decimal(0), "estimated": Decimal(0), "fault": "Donor ended"}],
            Copying(None, 0, 0, "Donor ended"),
        ),
        (NEW.copying, [{"stage": None, "copied": 0, "estimated": 0, "fault": ""}], Copying(None, 0, 0)),
        (NEW.status, rows(COUNTERS), STATUS),
        (OLD.status, rows(in_old_words(COUNTERS)), STATUS),
        (BARE.status, rows({"Uptime": "7"}), ServerStatus(uptime_s=7)),
        (MARIA.status, rows({"Rpl_semi_sync_master_clients": "1"}), ServerStatus(clients=1)),
        (NEW.log_state, logs(LOGS), LOG_STATE),
        (OLD.log_state, logs(in_old_words(LOGS)), LOG_STATE),
        (
            MARIA.log_state,
            logs({"Innodb_lsn_current": "9", "Innodb_lsn_flushed": "7"}, 1, 1),
            LogState(9, 7, None, 1, 1),
        ),
        (BARE.log_state, logs({"Uptime": "7"}, 1, 1), LogState(None, None, None, 1, 1, uptime_s=7)),
        (BARE.log_state, [], LogState(None, None, None, None, None)),
        (NEW.settings, [], ServerSettings({})),
        (NEW.settings, rows({"rpl_semi_sync_replica_enabled": "OFF"}), ServerSettings({}, registers=False)),
        (
            MARIA.settings,
            rows({"rpl_semi_sync_slave_enabled": "ON", "read_only": "ON"}),
            ServerSettings({}, registers=True, refuses_writes=True),
        ),
        (
            OLD.settings,
            rows({"rpl_semi_sync_master_enabled": "OFF", "rpl_semi_sync_master_wait_point": "AFTER_SYNC"}),
            ServerSettings({"semi_sync": "off", "wait_point": "after_sync"}),
        ),
        (
            IN_CLUSTER.settings,
            rows({"wsrep_provider_evs_suspect_timeout": "7.000000"}),
            ServerSettings({"wsrep_provider_evs_suspect_timeout": 7}),
        ),
        (
            NEW.unfinished("innodb_buffer_pool_size"),
            rows({POOL: "withdrawing blocks. (7/9)", f"{POOL}_code": "3", f"{POOL}_progress": "0"}),
            "withdrawing blocks. (7/9): 0 %",
        ),
        (
            NEW.unfinished("innodb_buffer_pool_size"),
            rows({POOL: "Completed.", f"{POOL}_code": "0", f"{POOL}_progress": "100"}),
            None,
        ),
        (NEW.unfinished("innodb_buffer_pool_size"), [], None),
        (NEW.unfinished("innodb_redo_log_capacity"), rows({"Innodb_redo_log_resize_status": "OK"}), None),
        (
            NEW.unfinished("innodb_redo_log_capacity"),
            rows({"Innodb_redo_log_resize_status": "Resizing down"}),
            "Resizing down",
        ),
        (NEW.timed.question("sandbox"), [], {}),
        (
            NEW.timed.question("sandbox"),
            [counted("wait/io/file/sql/binlog", 10, 1.5, 4, 8, "file")],
            {Source.BINLOG_WRITE: Total(10, 1.5), Source.BINLOG_FSYNC: Total(4, 8)},
        ),
        (  # the redo log is also what the account's own sessions did to it
            NEW.timed.question("sandbox"),
            [counted(REDO, 20, 2, 12, 30, "file"), counted(REDO, 28, 25)],
            {
                Source.REDO_WRITE: Total(20, 2),
                Source.REDO_FSYNC: Total(12, 30),
                Source.OWN_REDO: Total(28, 25),
            },
        ),
        (  # statements of all kinds are one sum, and so are both names of the stage
            NEW.timed.question("sandbox"),
            [
                counted("statement/com/Execute", 5, 10),
                counted("statement/sql/begin", 1, 2),
                counted(f"{ACK_STAGE}replica", 3, 6),
                counted(f"{ACK_STAGE}slave", 0, 0),
            ],
            {Source.STATEMENT: Total(6, 12), Source.ACK_STAGE: Total(3, 6)},
        ),
        (
            NEW.timed.question(None),
            [counted("statement/sql/commit", 4, 12, kind="all")],
            {Source.COMMIT_STATEMENT: Total(4, 12)},
        ),
        (MySql.ranges, RANGES_9[:1], {"replica_parallel_workers": Range(1, 1024)}),
        (MySql.ranges, RANGES_9[3:], {"innodb_doublewrite": Range(None, None)}),
        (
            MariaDb.ranges,
            [{"name": "SYNC_BINLOG", "low": "0", "high": "3", "fixed": "NO", "words": None}],
            {"sync_binlog": Range(0, 3)},
        ),
        (
            MariaDb.ranges,
            [{"name": "X", "low": None, "high": None, "fixed": "YES", "words": "OFF,ON,FAST"}],
            {"x": Range(None, None, is_fixed=True, words=("off", "on", "fast"))},
        ),
        (IN_GROUP.membership, [MEMBER], COUNTED),
        (
            IN_GROUP.membership,
            [{**MEMBER, "state": "RECOVERING", "held_us": None, "holds": None}],
            replace(COUNTED, belongs=Belonging.JOINING, state="RECOVERING", held_ms=None, holds=None),
        ),
        (IN_CLUSTER.membership, rows(WSREP), SYNCED),
        # who follows whom, in the words of both generations
        (FOLLOWED, [], None),
        (FOLLOWED, [{"Source_Host": "a", "Source_Server_Id": 7}], Followed("a", 7)),
        (FOLLOWED, [{"Master_Host": "a", "Master_Server_Id": "7"}], Followed("a", 7)),
        (REGISTERED, [{"Server_Id": 2, "Host": "", "Port": 3307}], (Whereabouts("", 3307),)),
        (
            DUMPED_TO,
            [
                {"Command": "Binlog Dump GTID", "Host": "10.0.0.3:51234"},
                {"Command": "Binlog Dump", "Host": "10.0.0.3:51235"},
                {"Command": "Query", "Host": "10.0.0.9:1"},
                {"Command": "Daemon", "Host": None},
            ],
            ("10.0.0.3",),
        ),
        (
            GroupMySql.members,
            [{"Host": "db2", "Port": 3306}, {"Host": "", "Port": None}],
            (Whereabouts("db2", 3306),),
        ),
        (
            Galera.members,
            rows({"wsrep_incoming_addresses": "db1:3306,[::1]:3307,AUTO"}),
            (Whereabouts("db1", 3306), Whereabouts("::1", 3307)),
        ),
        (Galera.members, rows({"wsrep_incoming_addresses": "AUTO,AUTO"}), ()),
        (Galera.members, [], ()),
    ],
)
def test_a_question_and_what_its_rows_say(
    question: Question[Any], answer: Sequence[Mapping[str, Any]], value: object
) -> None:
    """Variables that it reads are those that it asks for."""
    assert question.read(answer) == value
    assert all(f"'{row['Variable_name']}'" in question.statement for row in answer if "Variable_name" in row)


def belonging(dialect: MySql, answer: Sequence[Mapping[str, object]]) -> Membership:
    """What a member says of itself."""
    question = dialect.membership
    assert question is not None
    return question.read(answer)


@pytest.mark.parametrize(
    ("change", "belongs"),
    [
        ({"answering": 2}, Belonging.MEMBER),
        ({"answering": 1}, Belonging.CUT_OFF),
        ({"size": 2, "answering": 1}, Belonging.CUT_OFF),
        ({"state": "ERROR", "answering": 0}, Belonging.OUTSIDE),
        ({"state": "OFFLINE"}, Belonging.OUTSIDE),
        ({"state": None}, Belonging.OUTSIDE),
    ],
)
def test_how_a_node_stands_to_its_group(change: dict[str, object], belongs: Belonging) -> None:
    found = belonging(IN_GROUP, [{**MEMBER, **change}])
    assert (found.belongs, found.state) == (belongs, change.get("state", "ONLINE") or "OFFLINE")


STATES = """\
Donor/Desynced | Primary | ON | member
Joined | Primary | ON | joining
Joining: receiving State Transfer | Primary | ON | joining
Initialized | non-Primary | ON | cut off
Initialized | Disconnected | OFF | outside
 | | | outside"""
"""What a member of a cluster says of its own state, the cluster's and its connection, and what it is then."""


@pytest.mark.parametrize("line", STATES.splitlines())
def test_how_a_node_stands_to_its_cluster(line: str) -> None:
    state, status, connected, belongs = map(str.strip, line.split("|"))
    said = {
        "wsrep_local_state_comment": state, "wsrep_cluster_status": status, "wsrep_connected": connected,
    }  # fmt: skip
    assert belonging(IN_CLUSTER, rows(said)).belongs.value == belongs


def test_a_commit_waits_for_all_others_of_the_cluster() -> None:
    three = dict.fromkeys(("db1", "db2", "db3"), SYNCED)
    two = {name: three[name] for name in ("db1", "db3")}
    alone = {"db1": replace(SYNCED, belongs=Belonging.CUT_OFF, size=1)}
    for answering, nodes, state, acking in (
        (three, set(three), ProtectionState.PROTECTED, 2),
        (two, set(three), ProtectionState.PROTECTED, 1),  # its view has the dead one still
        (alone, {"db1"}, ProtectionState.BLOCKED, 0),
    ):
        seen = judge_group(GALERA, answering, nodes, requested_size=3)
        assert (seen.state, seen.replicas_acking, seen.replicas_required) == (state, acking, 2)


def test_a_change_of_members_is_told_once() -> None:
    whole = Membership(Belonging.MEMBER, "ONLINE", size=3, answering=3)
    fewer = replace(whole, size=2, answering=2)
    cut = Membership(Belonging.CUT_OFF, "ONLINE", size=2, answering=1)
    joins = replace(whole, belongs=Belonging.JOINING, state="RECOVERING")
    for before, now, told in (
        (None, whole, []),
        (whole, None, []),
        (whole, whole, []),
        (whole, fewer, [(Severity.WARN, "db2 sees a group of 2")]),
        (fewer, cut, [(Severity.BAD, "db2: ONLINE, and no majority answers: 1 of 2")]),
        (cut, joins, [(Severity.INFO, "db2: RECOVERING")]),
        (joins, whole, [(Severity.GOOD, "db2: ONLINE")]),
    ):
        assert member_news("db2", before, now) == told


# -- MariaDB's positions as sets


@pytest.mark.parametrize(
    ("position", "gtids", "again"),
    [
        (None, "", ""),
        ("0-1-57", "0-1:1-57", "0-1-57"),
        ("0-1-57,0-2-60", "0-1:1-57, 0-2:1-60", "0-2-60"),
        ("0-1-5,7-3-9,0-1-6", "0-1:1-6, 7-3:1-9", "0-1-6,7-3-9"),
    ],
)
def test_a_position_is_a_set_a_domain_and_server(position: object, gtids: str, again: str) -> None:
    assert gtids_of(position) == gtids
    assert position_of(gtids) == again


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5)), min_size=1, max_size=12), st.integers(0, 11))
def test_a_replica_of_the_same_history_has_nothing_of_its_own(
    turns: list[tuple[int, int]], seen: int
) -> None:
    """Whoever was the source in between: what a replica has is within what its source has."""
    history = [server for server, commits in turns for _ in range(commits)]

    def state(commits: int) -> str:
        last = {server: number for number, server in enumerate(history[:commits], start=1)}
        return gtids_of(",".join(f"0-{server}-{number}" for server, number in last.items()))

    assert subtract_gtids(state(min(seen, len(history))), state(len(history))) == ""


def test_what_only_a_lost_source_committed_is_found_though_its_numbers_were_used_again() -> None:
    lost, promoted = gtids_of("0-1-60"), gtids_of("0-1-57,0-2-90")
    assert subtract_gtids(lost, promoted) == "0-1:58-60"
