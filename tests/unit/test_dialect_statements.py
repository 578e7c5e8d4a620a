"""Statements in each flavor's words, and what a server has: names, ranges, versions and values."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from replexplorer.core.dialect.dialect import (
    Capabilities,
    Range,
    SourceAddress,
    flavor_name,
    version_tuple,
)
from replexplorer.core.dialect.flavours import IDENTITY, flavour_of
from replexplorer.core.dialect.group import GroupMySql
from replexplorer.core.dialect.mariadb import Galera, MariaDb
from replexplorer.core.dialect.mysql import MySql
from replexplorer.core.dialect.question import from_server, literal
from replexplorer.core.knobs.names import (
    BY_KEY,
    CATALOGUE,
    Backing,
    describe_range,
    find,
)
from replexplorer.core.system import ASYNC, GALERA, GROUP
from tests.fakes.servers import GALERA_11, GROUP_9, MARIADB, MYSQL_9, MYSQL_57, rows
from tests.known import refused
from tests.typed import table_of
from tests.unit.test_dialect_answers import BARE, IN_CLUSTER, IN_GROUP, MARIA, NEW, OLD

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


FLUSH = "innodb_flush_log_at_trx_commit"


def test_a_knob_that_a_server_cannot_change_while_it_runs_is_refused() -> None:
    server = Capabilities.of(MARIADB, {"innodb_doublewrite": Range(None, None, is_fixed=True)})
    assert (server.flavor, server.version) == ("mariadb", (10, 11, 19))
    assert "cannot change it while it runs" in refused(server.knob, "innodb_doublewrite")


NARROWED: list[tuple[Mapping[str, str], dict[str, Range], str]] = [
    # MySQL before 9.0 has no table of ranges, and cuts a 3 to 2 with a warning.
    (MYSQL_57, {}, FLUSH),
    (MARIADB, {FLUSH: Range(0, 3)}, FLUSH),
    (MARIADB, {"innodb_doublewrite": Range(None, None, words=("off", "on", "fast"))}, "innodb_doublewrite"),
    (MYSQL_9, {"replica_parallel_workers": Range(1, 1024)}, "replica_parallel_workers"),
    # the server itself would take 0
    (MYSQL_9, {"rpl_semi_sync_source_timeout": Range(0, 1 << 63)}, "semi_sync_timeout"),
    (MYSQL_9, {"sync_binlog": Range(1, 50)}, "sync_binlog"),
]


def test_metadata_narrows_a_range_or_choice_and_never_widens_it(snapshot: object) -> None:
    told = []
    for variables, ranges, key in NARROWED:
        knob = flavour_of(variables).of(variables, ranges).capabilities.knob(key)
        told.append((ranges, describe_range(knob), knob.steps))
    assert told == snapshot


VERSIONS = """\
9.7.4-2              9 7 4
26.10                26 10
8.0.36-28.1          8 0 36
10.11.19-MariaDB-log 10 11 19
5.7.44-log           5 7 44
unknown
"""


def test_versions_compare_as_numbers() -> None:
    for text, *numbers in table_of(VERSIONS, None):
        assert version_tuple(text) == tuple(map(int, numbers)), text
    assert version_tuple("") == ()


FLAVORS = """\
9.7.4-2          | (Debian)                        | mysql
8.4.3-3          | Percona Server (GPL), Release 3 | percona
10.11.19-MariaDB |                                 | mariadb
11.4.2           | MariaDB Server                  | mariadb
"""


def test_flavors() -> None:
    for version, comment, flavor in table_of(FLAVORS):
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
