"""What servers of each flavor are asked and told in their own words, and what their answers say."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

from replexplorer.core.dialect.attaching import DUMPED_TO, FOLLOWED, REGISTERED
from replexplorer.core.dialect.dialect import Capabilities, Range, SourceAddress, flavor_name, version_tuple
from replexplorer.core.dialect.flavours import IDENTITY, flavour_of
from replexplorer.core.dialect.group import GroupMySql
from replexplorer.core.dialect.mariadb import Galera, MariaDb, gtids_of, position_of
from replexplorer.core.dialect.mysql import MySql
from replexplorer.core.dialect.question import from_server, literal
from replexplorer.core.knobs.names import BY_KEY, CATALOGUE, Backing, describe_range, find
from replexplorer.core.server.gtid import subtract_gtids
from replexplorer.core.server.node_view import Membership, member_news
from replexplorer.core.system import ASYNC, GALERA, GROUP
from replexplorer.core.topology import Belonging
from tests.fakes.servers import GALERA_11, GROUP_9, MARIADB, MYSQL_9, MYSQL_57, RANGES_9, mysql_9, rows
from tests.known import known, refused
from tests.typed import fields, table_of

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
    (OLD.settings, {"rpl_semi_sync_master_enabled": "OFF", "rpl_semi_sync_master_wait_point": "AFTER_SYNC"}),
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


HISTORIES = """\
0-1-5        | 0-1-5,0-2-9   |
0-1-12,0-2-9 | 0-1-12,0-2-14 |
0-1-60       | 0-1-57,0-2-90 | 0-1:58-60
"""
"""Positions of a replica and of its source, whichever server was the source in between; and what only the
replica has, though its numbers were used again."""


def test_what_only_a_lost_source_committed_is_found_and_a_replica_of_the_same_history_has_none() -> None:
    for replica, source, own in table_of(HISTORIES):
        assert subtract_gtids(gtids_of(replica), gtids_of(source)) == own, replica


# -- what they are asked and told, and what a server has: names, ranges, versions and values

ADDRESS = SourceAddress("10.9.0.2", "replication", "it's")


def test_a_server_s_dialect_follows_from_its_variables() -> None:
    bare = {name: value for name, value in GROUP_9.items() if "group_replication" not in name}
    percona, alone = {**MYSQL_9, "version_comment": "Percona Server"}, {**GALERA_11, "wsrep_on": "OFF"}
    for dialect, *servers in (
        (MySql, MYSQL_9, MYSQL_57, percona, bare),
        (MariaDb, MARIADB, alone),
        (Galera, GALERA_11),
        (GroupMySql, GROUP_9),
    ):
        assert {flavour_of(IDENTITY.read(rows(variables))) for variables in servers} == {dialect}


def test_the_first_question_is_for_every_name_of_every_knob() -> None:
    for knob in CATALOGUE:
        assert all(f"'{name}'" in IDENTITY.statement for name in knob.variables)


SERVERS = {"9.7": NEW, "5.7": OLD, "mariadb": MARIA, "galera": IN_CLUSTER, "group": IN_GROUP, "bare": BARE}
SET = """\
9.7     | semi_sync=on                | SET GLOBAL rpl_semi_sync_source_enabled = ON
5.7     | semi_sync=on                | SET GLOBAL rpl_semi_sync_master_enabled = ON
5.7     | wait_point=after_commit     | SET GLOBAL rpl_semi_sync_master_wait_point = 'AFTER_COMMIT'
5.7     | semi_sync_replicas=2        | SET GLOBAL rpl_semi_sync_master_wait_for_slave_count = 2
5.7     | replica_parallel_workers=8  | SET GLOBAL slave_parallel_workers = 8
mariadb | semi_sync=on                | SET GLOBAL rpl_semi_sync_master_enabled = ON
galera  | gcs.fc_limit=32             | SET GLOBAL wsrep_provider_gcs_fc_limit = 32
group   | sync_binlog=0               | SET GLOBAL sync_binlog = 0
"""


def test_a_knob_is_set_in_a_servers_own_words() -> None:
    for server, assignment, statement in table_of(SET):
        key, value = assignment.split("=")
        typed = int(value) if value.isdigit() else value
        assert SERVERS[server].set(find(key).key, typed) == statement, server


LACKING = """\
mariadb semi_sync_replicas
mariadb binlog_group_commit_sync_delay
5.7     innodb_redo_log_capacity
bare    semi_sync
group   semi_sync
group   replica_parallel_workers
galera  semi_sync
9.7     group_replication_consistency
mariadb wsrep_sync_wait
"""


def test_a_knob_that_a_server_lacks_is_neither_set_nor_asked_for_and_who_has_it_is_said(
    snapshot: object,
) -> None:
    told = []
    for server, key in table_of(LACKING, None):
        told.append(refused(SERVERS[server].set, key, 1))
        assert refused(SERVERS[server].setting, key) == told[-1], server
    assert told == snapshot


def test_a_member_s_system_is_its_group_s_or_cluster_s() -> None:
    assert [server.capabilities.system for server in (IN_GROUP, IN_CLUSTER)] == [GROUP, GALERA]
    assert IN_CLUSTER.capabilities.flavor == "mariadb"
    assert IN_CLUSTER.semi_sync is None
    assert NEW.membership is None


def test_each_server_is_told_in_its_own_words(snapshot: object) -> None:
    """One without the plugins is asked nothing of semi-sync; what cannot be copied is emptied."""
    told = {}
    for name, server in SERVERS.items():
        told[name] = (
            server.threads.statement, server.start_threads, server.stop_threads, server.start_io,
            server.stop_io, server.start_applier, server.stop_applier, server.follow_nobody, server.register,
            server.copies, server.empty(("sandbox", "my`own")),
        )  # fmt: skip
    assert told == snapshot
    assert "semi_sync" not in BARE.status.statement.lower()


def test_a_replica_follows_its_source_as_that_of_a_new_stack_does() -> None:
    """The start script configures a replica before the app can ask it anything."""
    script = (Path(__file__).parents[2] / "compose/mysql/start-mysqld").read_text()
    for server, word in ((NEW, "SOURCE"), (OLD, "MASTER")):
        (line,) = (line for line in script.splitlines() if f"{word}_AUTO_POSITION=1" in line)
        scripted = line.split('"')[1].replace("$source_host", "10.9.0.2").replace("'$replication'", "%s")
        assert server.follow(ADDRESS).statement == scripted.rstrip(";")


def test_passwords_are_arguments_and_shown_nowhere() -> None:
    donor, copy = NEW.copy_from(ADDRESS)
    assert donor.statement == "SET GLOBAL clone_valid_donor_list = '10.9.0.2:3306'"
    assert copy.statement == "CLONE INSTANCE FROM 'replication'@'10.9.0.2':3306 IDENTIFIED BY %s"
    assert [NEW.ended_to_restart(number) for number in (3707, 1290)] == [True, False]
    for question in (copy, NEW.follow(ADDRESS), MARIA.follow(ADDRESS)):
        assert question.arguments == ("it's",)
        assert "it's" not in repr(question) + repr(ADDRESS)


def test_what_mariadb_waits_for_has_a_number_and_in_a_cluster_none() -> None:
    """Members number the same transactions each in its own way."""
    assert MARIA.reached("0-1:1-5, 0-2:1-9", 2.5).arguments == ("0-2-9",)
    in_cluster = IN_CLUSTER.reached("0-1:1-57", 5.0)
    assert "wsrep_sync_wait = 1" in in_cluster.statement
    assert "57" not in in_cluster.statement


# -- what a server has: names, ranges, versions, and values in its words and in ours


def test_a_new_server_has_every_knob_but_those_that_mariadb_alone_has() -> None:
    server = NEW.capabilities
    assert (server.flavor, server.version, server.title) == ("mysql", (9, 7, 4), "mysql 9.7.4")
    lacking = {knob.key for knob in CATALOGUE if ASYNC.has(knob) and not server.has(knob.key)}
    assert lacking == {"slave_parallel_mode", "binlog_commit_wait_count", "binlog_commit_wait_usec"}


VARIABLES = {"5.7": MYSQL_57, "mariadb": MARIADB, "9.7": MYSQL_9}


def test_a_knob_that_a_server_cannot_change_while_it_runs_is_refused() -> None:
    server = Capabilities.of(MARIADB, {"innodb_doublewrite": Range(None, None, is_fixed=True)})
    assert (server.flavor, server.version) == ("mariadb", (10, 11, 19))
    assert "cannot change it while it runs" in refused(server.knob, "innodb_doublewrite")


NARROWED = """\
5.7     innodb_flush_log_at_trx_commit
mariadb innodb_flush_log_at_trx_commit 0 3
mariadb innodb_doublewrite             None None words=("off","on","fast")
9.7     replica_parallel_workers       1 1024
9.7     semi_sync_timeout              0 9223372036854775808
9.7     sync_binlog                    1 50
"""
"""Servers, knobs, and the range or the words that the server says: MySQL before 9.0 has no table of ranges,
and cuts a 3 to 2 with a warning. The server itself would take a timeout of 0."""


def test_metadata_narrows_a_range_or_choice_and_never_widens_it(snapshot: object) -> None:
    told = {}
    for line in NARROWED.splitlines():
        server, key, *bounds = (each for each in line.split() if "=" not in each)
        variable = SERVERS[server].capabilities.variables[key]
        ranges = {variable: Range(*map(literal_eval, bounds), **fields(line))} if bounds else {}
        variables = VARIABLES[server]
        knob = flavour_of(variables).of(variables, ranges).capabilities.knob(key)
        told[line] = describe_range(knob), knob.steps
    assert told == snapshot


VERSIONS = """\
9.7.4-2              | (Debian)                        | mysql   | 9 7 4
26.10                |                                 | mysql   | 26 10
8.0.36-28.1          | Percona Server (GPL), Release 3 | percona | 8 0 36
10.11.19-MariaDB-log |                                 | mariadb | 10 11 19
11.4.2               | MariaDB Server                  | mariadb | 11 4 2
unknown              |                                 | mysql   |
"""


def test_versions_compare_as_numbers_and_flavors_are_in_them_or_in_the_comment() -> None:
    for version, comment, flavor, numbers in table_of(VERSIONS):
        assert version_tuple(version) == tuple(map(int, numbers.split())), version
        assert flavor_name({"version": version, "version_comment": comment}) == flavor, version


ANSWERED = """\
semi_sync ON
semi_sync 0
wait_point AFTER_SYNC
innodb_doublewrite DETECT_ONLY
innodb_doublewrite 1
innodb_doublewrite DETECT_AND_RECOVER
sync_binlog 100
binlog_row_image FULL_NODUP
sync_binlog what"""


def test_a_servers_value_becomes_ours(snapshot: object) -> None:
    found = {}
    for line in ANSWERED.splitlines():
        key, text = line.split()
        found[line] = from_server(BY_KEY[key], text)
    assert found == snapshot


def test_what_is_set_reads_back() -> None:
    for knob in CATALOGUE:
        if knob.backing is Backing.SERVER:
            for value in (knob.default, *knob.steps):
                assert from_server(knob, literal(knob, value).strip("'")) == value
