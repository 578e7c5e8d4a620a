"""What is read out of the rows that servers of each flavor were seen to answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import count, pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.dialect.attaching import DUMPED_TO, FOLLOWED, REGISTERED
from replexplorer.core.dialect.flavours import flavour_of
from replexplorer.core.dialect.group import GroupMySql
from replexplorer.core.dialect.mariadb import Galera, MariaDb, gtids_of, position_of
from replexplorer.core.dialect.mysql import MySql
from replexplorer.core.server.gtid import subtract_gtids
from replexplorer.core.server.node_view import Membership, member_news
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
from tests.known import known
from tests.typed import table_of

NEW = mysql_9()
OLD = MySql.of(MYSQL_57, {})
BARE = MySql.of({name: text for name, text in MYSQL_9.items() if not name.startswith("rpl_semi_sync")}, {})
"""Without the semi-sync plugins."""
MARIA = MariaDb.of(MARIADB, {})
IN_GROUP, IN_CLUSTER = (flavour_of(variables).of(variables, {}) for variables in (GROUP_9, GALERA_11))
GROUP_VIEW, CLUSTER_VIEW = (known(each.membership) for each in (IN_GROUP, IN_CLUSTER))
"""What a member says of itself."""


def said(text: str) -> dict[str, str]:
    """Names and values, one a line."""
    return dict(line.split(maxsplit=1) for line in text.split("\n") if line)


RUNNING = said("""
Source_Log_File binlog.000007
Read_Source_Log_Pos 1234
Relay_Source_Log_File binlog.000006
Exec_Source_Log_Pos 1200
Replica_IO_Running Yes
Replica_SQL_Running Yes
Last_IO_Errno 0
Last_SQL_Errno 0
Seconds_Behind_Source 3
""")
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
COUNTERS = said("""
Uptime 123
Binlog_cache_use 77
Rpl_semi_sync_source_status ON
Rpl_semi_sync_source_clients 2
Rpl_semi_sync_source_yes_tx 10
Rpl_semi_sync_source_no_tx 3
Rpl_semi_sync_source_no_times 1
Rpl_semi_sync_source_tx_waits 9
Rpl_semi_sync_source_tx_wait_time 1000
Rpl_semi_sync_replica_status OFF
""")
LOGS = said("""
Innodb_redo_log_current_lsn 5000
Innodb_redo_log_flushed_to_disk_lsn 4000
Innodb_os_log_written 99
Innodb_os_log_fsyncs 12
Threads_running 3
Threads_connected 9
Connections 40
Uptime 123
Rpl_semi_sync_source_status ON
Rpl_semi_sync_source_no_tx 7
""")
POOL = "Innodb_buffer_pool_resize_status"
REDO_SIZE = "Innodb_redo_log_resize_status"
LACKS = "queued=u:4-5; missing=u:4-9; busy=1; workers=4"
REDO = "wait/io/file/innodb/innodb_log_file"
ACK_STAGE = "stage/semisync/Waiting for semi-sync ACK from "
MEMBER = said("""
state ONLINE
role PRIMARY
view 17953718703993631:3
size 3
answering 3
queued 2
to_apply 5
conflicts 7
certified 100
held_us 1500000
holds 9
""")
WSREP = said("""
wsrep_local_state_comment Synced
wsrep_cluster_status Primary
wsrep_cluster_size 3
wsrep_cluster_conf_id 7
wsrep_connected ON
wsrep_local_send_queue 2
wsrep_local_recv_queue 5
wsrep_local_cert_failures 3
wsrep_local_bf_aborts 4
wsrep_replicated 100
wsrep_flow_control_paused_ns 1500000000
wsrep_flow_control_recv 9
""")


def row(text: str) -> dict[str, str | None]:
    """`executed=u:1; received=NULL`."""
    pairs = (each.partition("=") for each in text.split("; "))
    return {name: None if value == "NULL" else value for name, _, value in pairs}


def in_old_words(values: Mapping[str, Any]) -> dict[str, Any]:
    """Names as a server before 8.0.26 has them."""
    for new, old in (("source", "master"), ("Source", "Master"), ("replica", "slave"), ("Replica", "Slave")):
        values = {name.replace(new, old): value for name, value in values.items()}
    return dict(values)


def logs(values: Mapping[str, str]) -> list[dict[str, object]]:
    """With the settings in each row."""
    return [{**row, "flush_at_commit": 2, "sync_binlog": 1000} for row in rows(values)]


def counted(
    event: str, times: int, ms: float, fsyncs: int = 0, fsync_ms: float = 0, kind: str = "account"
) -> dict[str, Any]:
    """As it is summed up, in picoseconds."""
    ps, fsync_ps = (Decimal(round(each * 10**9)) for each in (ms, fsync_ms))
    return {
        "kind": kind, "event": event, "times": times, "ps": ps, "fsyncs": fsyncs, "fsync_ps": fsync_ps,
    }  # fmt: skip


ANSWERS: list[tuple[Any, ...]] = [
    (
        NEW.ledger_rows(7),
        """client=7000000002; low=5; high=9
client=7000000001; low=1; high=4
client=7000000002; low=1; high=3""",
    ),
    (NEW.threads, "", [RUNNING], [STOPPED]),
    (OLD.threads, [in_old_words(CONNECTING)]),
    (MARIA.executed, "executed=0-1-57,0-2-60,0-2-60"),
    (MARIA.purged, [row("Event_type=Gtid_list; Info=[0-1-57,\n0-2-60]")]),
    (NEW.position, [row("owned=u:5#12; executed=u:1-4,\nv:1")]),
    (MARIA.position, "executed=0-1-57,"),
    (OLD.setting("semi_sync"), "value=1"),
    (MARIA.received, "Slave_received_heartbeats=2; Gtid_IO_Pos=0-1-1"),
    (NEW.received_gtids, [row("executed=u:1-3,\nv:1; received=u:4-5")], "executed=u:1; received=NULL"),
    (MARIA.received_gtids, "executed=0-1-7,; received=0-1-9"),
    (MARIA.reached("0-1:1-5", 2.5), "late=-1"),
    (IN_CLUSTER.reached("0-1:1-57", 5.0), "executed=0-2-31"),
    (NEW.binlogs, "Log_name=b.1; File_size=1000; Encrypted=No"),
    (NEW.waits, "oldest_wait_s=1.25; waiting=3", "oldest_wait_s=NULL; waiting=0"),
    (MARIA.timeouts, "timeouts=NULL"),
    (NEW.sent("h"), "executed=u:1; dump_thread=41; sent=99"),
    (MARIA.sent("h"), "executed=0-1-2; dump_thread=NULL; sent=NULL"),
    (NEW.behind(""), ""),
    (
        NEW.behind("u:1-9"),
        f"{LACKS}; applying_us=NULL; waiting_us=NULL; applied_us=NULL",
        f"{LACKS}; applying_us=3; waiting_us=8; applied_us=20",
    ),
    (MARIA.behind(""), ""),
    (
        MARIA.behind("0-1:1-12"),
        "gtid_io_pos=0-1-9; gtid_slave_pos=0-1-7; executed=0-1-7,0-1-7; applied_us=1500",
    ),
    # before 11.6, without ages
    (known(MARIA.behind("0-1:1-12").instead), "Gtid_IO_Pos=0-1-9; Gtid_Slave_Pos=0-1-7"),
    (NEW.table_bytes("sandbox", "title"), "", "bytes=4096"),
    (
        NEW.copying,
        "stage=FILE COPY; copied=5; estimated=9; fault=",
        "stage=NULL; copied=0; estimated=0; fault=Donor ended",
    ),
    (NEW.status, COUNTERS),
    (OLD.status, in_old_words(COUNTERS)),
    (BARE.status, {"Uptime": "7"}),
    (MARIA.status, {"Rpl_semi_sync_master_clients": "1"}),
    (NEW.log_state, logs(LOGS)),
    (MARIA.log_state, logs({"Innodb_lsn_current": "9", "Innodb_lsn_flushed": "7"})),
    (BARE.log_state, ""),
    (NEW.settings, {"rpl_semi_sync_replica_enabled": "OFF"}),
    (MARIA.settings, {"rpl_semi_sync_slave_enabled": "ON", "read_only": "ON"}),
    (
        OLD.settings,
        {"rpl_semi_sync_master_enabled": "OFF", "rpl_semi_sync_master_wait_point": "AFTER_SYNC"},
    ),
    (IN_CLUSTER.settings, {"wsrep_provider_evs_suspect_timeout": "7.000000"}),
    (
        known(NEW.unfinished("innodb_buffer_pool_size")),
        {POOL: "withdrawing blocks. (7/9)", f"{POOL}_code": "3", f"{POOL}_progress": "0"},
        {POOL: "Completed.", f"{POOL}_code": "0", f"{POOL}_progress": "100"},
        "",
    ),
    (known(NEW.unfinished("innodb_redo_log_capacity")), {REDO_SIZE: "OK"}, {REDO_SIZE: "Resizing down"}),
    (
        NEW.timed.question("sandbox"),
        "",
        [counted("wait/io/file/sql/binlog", 10, 1.5, 4, 8, "file")],
        # the redo log is also what the account's own sessions did to it
        [counted(REDO, 20, 2, 12, 30, "file"), counted(REDO, 28, 25)],
        # statements of all kinds are one sum, and so are both names of the stage
        [
            counted("statement/com/Execute", 5, 10),
            counted("statement/sql/begin", 1, 2),
            counted(f"{ACK_STAGE}replica", 3, 6),
            counted(f"{ACK_STAGE}slave", 0, 0),
        ],
    ),
    (NEW.timed.question(None), [counted("statement/sql/commit", 4, 12, kind="all")]),
    (MySql.ranges, RANGES_9),
    (
        MariaDb.ranges,
        """name=SYNC_BINLOG; low=0; high=3; fixed=NO; words=NULL
name=X; low=NULL; high=NULL; fixed=YES; words=OFF,ON,FAST""",
    ),
    (
        GROUP_VIEW,
        [MEMBER],
        [{**MEMBER, "state": "RECOVERING", "held_us": None, "holds": None}],
        # how it belongs to the group goes by its state, and by how many members answer
        *(
            [{**MEMBER, "state": state, "answering": n}]
            for state, n in (("ONLINE", 1), ("ERROR", 0), (None, 3))
        ),
    ),
    (CLUSTER_VIEW, WSREP),
    # who follows whom, in the words of both generations
    (FOLLOWED, "", "Source_Host=a; Source_Server_Id=7", "Master_Host=a; Master_Server_Id=7"),
    (REGISTERED, "Server_Id=2; Host=; Port=3307"),
    (
        DUMPED_TO,
        """Command=Binlog Dump GTID; Host=10.0.0.3:51234
Command=Binlog Dump; Host=10.0.0.3:51235
Command=Query; Host=10.0.0.9:1
Command=Daemon; Host=NULL""",
    ),
    (GroupMySql.members, "Host=db2; Port=3306\nHost=; Port=NULL"),
    (Galera.members, {"wsrep_incoming_addresses": "db1:3306,[::1]:3307,AUTO"}, ""),
]
"""What is asked, and answers: a row a line, variables by name, or the rows as they are."""


def rows_of(answer: str | dict[str, str] | list[dict[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """What the server sends."""
    if isinstance(answer, str):
        return [row(line) for line in answer.splitlines()]
    return rows(answer) if isinstance(answer, dict) else answer


def test_a_question_and_what_its_rows_say(snapshot: object) -> None:
    """Variables that it reads are those that it asks for."""
    asked = [(question, rows_of(answer)) for question, *answers in ANSWERS for answer in answers]
    assert [(answer, question.read(answer)) for question, answer in asked] == snapshot
    for question, answer in asked:
        assert all(
            f"'{row['Variable_name']}'" in question.statement for row in answer if "Variable_name" in row
        )


STATES = """\
Donor/Desynced | Primary | ON | member
Joined | Primary | ON | joining
Joining: receiving State Transfer | Primary | ON | joining
Initialized | non-Primary | ON | cut off
Initialized | Disconnected | OFF | outside
 | | | outside"""
"""What a member of a cluster says of its own state, the cluster's and its connection, and what it is then."""


def test_how_a_node_stands_to_its_cluster() -> None:
    for state, status, connected, belongs in table_of(STATES):
        views = {
            "wsrep_local_state_comment": state, "wsrep_cluster_status": status, "wsrep_connected": connected,
        }  # fmt: skip
        assert CLUSTER_VIEW.read(rows(views)).belongs.value == belongs, state


def test_a_change_of_members_is_told_once(snapshot: object) -> None:
    whole = Membership(Belonging.MEMBER, "ONLINE", size=3, answering=3)
    fewer = replace(whole, size=2, answering=2)
    cut = Membership(Belonging.CUT_OFF, "ONLINE", size=2, answering=1)
    joins = replace(whole, belongs=Belonging.JOINING, state="RECOVERING")
    looks = [None, whole, whole, fewer, cut, joins, whole, None]
    assert [member_news("db2", *between) for between in pairwise(looks)] == snapshot


# -- MariaDB's positions as sets


POSITIONS = """\
                   |                     |
0-1-57             | 0-1:1-57            | 0-1-57
0-1-57,0-2-60      | 0-1:1-57, 0-2:1-60  | 0-2-60
0-1-5,7-3-9,0-1-6  | 0-1:1-6, 7-3:1-9    | 0-1-6,7-3-9
"""


def test_a_position_is_a_set_a_domain_and_server() -> None:
    for position, gtids, again in table_of(POSITIONS):
        assert gtids_of(position or None) == gtids
        assert position_of(gtids) == again, position


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 5)), min_size=1, max_size=12), st.integers(0, 60))
def test_a_replica_of_the_same_history_has_nothing_of_its_own(
    turns: list[tuple[int, int]], seen: int
) -> None:
    """Whichever server was the source in between: what a replica has is within what its source has."""
    history = [server for server, commits in turns for _ in range(commits)]
    replica, source = (
        gtids_of(",".join(f"0-{server}-{last}" for server, last in zip(each, count(1), strict=False)))
        for each in (history[:seen], history)
    )
    assert subtract_gtids(replica, source) == ""


def test_what_only_a_lost_source_committed_is_found_though_its_numbers_were_used_again() -> None:
    lost, promoted = gtids_of("0-1-60"), gtids_of("0-1-57,0-2-90")
    assert subtract_gtids(lost, promoted) == "0-1:58-60"
