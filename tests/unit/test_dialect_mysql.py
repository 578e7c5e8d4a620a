"""MySQL's dialect: each question's statement, and what is read out of rows as servers were seen to answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pytest

from replexplorer.core.dialect.dialect import (
    MYSQL_TIMED,
    Copying,
    Position,
    ServerSettings,
    SourceAddress,
    Threads,
    Waits,
)
from replexplorer.core.dialect.mysql import MySql
from replexplorer.core.dialect.question import Question
from replexplorer.core.errors import UsageError
from replexplorer.core.server.counters import Sent, ServerStatus, Source, Total, Totals
from replexplorer.core.server.exposure import LogState
from replexplorer.core.server.node_view import ThreadError
from replexplorer.core.server.truth import Behind
from tests.fakes.servers import MYSQL_9, MYSQL_57, mysql_9, rows

NEW = mysql_9()
COMMITS = cast(Question[Totals], NEW.commits("sandbox"))
OLD = MySql.of(MYSQL_57, {})
BARE = MySql.of({name: text for name, text in MYSQL_9.items() if not name.startswith("rpl_semi_sync")}, {})
"""Without the semi-sync plugins."""
SOURCE_ADDRESS = SourceAddress("10.9.0.2", "replication", "it's")

RUNNING = {
    "Source_Log_File": "binlog.000007",
    "Replica_IO_Running": "Yes",
    "Replica_SQL_Running": "Yes",
    "Last_IO_Errno": 0,
    "Last_SQL_Errno": 0,
    "Last_IO_Error": "",
    "Last_SQL_Error": "",
    "Seconds_Behind_Source": 3,
}
BEHIND = {"queued": "u:4-5", "missing": "u:4-9", "applying_us": None, "waiting_us": None, "applied_us": None}


# -- a statement and what is read out of its rows


@pytest.mark.parametrize(
    ("question", "statement", "answer", "value"),
    [
        (
            NEW.ledger_rows(7),
            "SELECT client, MIN(seq) AS low, MAX(seq) AS high FROM (SELECT client, seq,"
            " CAST(seq AS SIGNED) - ROW_NUMBER() OVER (PARTITION BY client ORDER BY seq) AS apart"
            " FROM replexplorer.ledger WHERE client > %s AND client < %s) AS numbered GROUP BY client, apart",
            [
                {"client": 7_000_000_002, "low": 5, "high": 9},
                {"client": 7_000_000_001, "low": 1, "high": 4},
                {"client": 7_000_000_002, "low": 1, "high": 3},
            ],
            {1: ((1, 4),), 2: ((1, 3), (5, 9))},
        ),
        (NEW.threads(), "SHOW REPLICA STATUS", [], None),
        (NEW.threads(), "SHOW REPLICA STATUS", [RUNNING], Threads("on", "on", 3.0, reads="binlog.000007")),
        (
            OLD.threads(),
            "SHOW SLAVE STATUS",
            [
                {
                    "Master_Log_File": "binlog.000001",
                    "Slave_IO_Running": "Connecting",
                    "Slave_SQL_Running": "Yes",
                    "Last_IO_Errno": 2003,
                    "Last_SQL_Errno": 0,
                    "Last_IO_Error": "error connecting to master\n 'x'",
                    "Last_SQL_Error": "",
                    "Seconds_Behind_Master": None,
                }
            ],
            Threads(
                "connecting",
                "on",
                io_error=ThreadError(2003, "error connecting to master 'x'"),
                reads="binlog.000001",
            ),
        ),
        (
            NEW.threads(),
            "SHOW REPLICA STATUS",
            [
                {
                    **RUNNING,
                    "Source_Log_File": "",
                    "Replica_IO_Running": "No",
                    "Replica_SQL_Running": "No",
                    "Last_SQL_Errno": 1062,
                    "Last_SQL_Error": "Duplicate entry",
                }
            ],
            Threads("off", "error", 3.0, sql_error=ThreadError(1062, "Duplicate entry")),
        ),
        (
            NEW.executed(),
            "SELECT @@GLOBAL.gtid_executed AS executed",
            [{"executed": "u:1-3,\nv:1"}],
            "u:1-3,v:1",
        ),
        (
            NEW.position(),
            "SELECT @@GLOBAL.gtid_owned AS owned, @@GLOBAL.gtid_executed AS executed",
            [{"owned": "u:5#12", "executed": "u:1-4,\nv:1"}],
            Position("u:5#12", "u:1-4,v:1"),
        ),
        (
            NEW.setting("wait_point"),
            "SELECT @@GLOBAL.rpl_semi_sync_source_wait_point AS value",
            [{"value": "AFTER_SYNC"}],
            "after_sync",
        ),
        (
            OLD.setting("semi_sync"),
            "SELECT @@GLOBAL.rpl_semi_sync_master_enabled AS value",
            [{"value": 1}],
            "on",
        ),
        (
            NEW.received(),
            "SELECT COUNT_RECEIVED_HEARTBEATS AS heartbeats, RECEIVED_TRANSACTION_SET AS received"
            " FROM performance_schema.replication_connection_status",
            [{"heartbeats": 7, "received": "u:1-3"}],
            ((7, "u:1-3"),),
        ),
        (
            NEW.reached("u:1-3", 2.5),
            "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 2.5) AS late",
            [{"late": 0}],
            True,
        ),
        (
            NEW.reached("u:1-3", 30),
            "SELECT WAIT_FOR_EXECUTED_GTID_SET(%s, 30) AS late",
            [{"late": 1}],
            False,
        ),
        (
            NEW.binlogs(),
            "SHOW BINARY LOGS",
            [{"Log_name": "b.1", "File_size": "1000", "Encrypted": "No"}],
            (("b.1", 1000),),
        ),
    ],
)
def test_a_statement_and_what_its_rows_say(
    question: Question[Any], statement: str, answer: Sequence[Mapping[str, Any]], value: object
) -> None:
    assert question.statement == statement
    assert question.read(answer) == value


@pytest.mark.parametrize(
    ("question", "answer", "value"),
    [
        (NEW.waits(), {"oldest_wait_s": Decimal("1.25"), "waiting": 3}, Waits(1.25, 3)),
        (NEW.waits(), {"oldest_wait_s": None, "waiting": 0}, Waits(None, 0)),
        (NEW.timeouts(), {"timeouts": 2}, 2),
        (NEW.sent("10.9.0.3"), {"executed": "u:1", "dump_thread": 41, "sent": "99"}, Sent("u:1", 41, 99)),
        (
            NEW.sent("10.9.0.3"),
            {"executed": "u:1", "dump_thread": None, "sent": None},
            Sent("u:1", None, None),
        ),
        (NEW.behind("u:1-9"), BEHIND, Behind("u:4-5", "u:4-9")),
        (
            NEW.behind("u:1-9"),
            {**BEHIND, "applying_us": 3, "waiting_us": 8, "applied_us": 20},
            Behind("u:4-5", "u:4-9", applying_us=8, applied_us=20),
        ),
        (NEW.received_gtids(), {"executed": "u:1-3,\nv:1", "received": "u:4-5"}, "u:4-5, u:1-3,v:1"),
        (NEW.received_gtids(), {"executed": "u:1", "received": None}, "u:1"),
        (NEW.table_bytes("sandbox", "title"), {"bytes": 4096}, 4096),
    ],
)
def test_a_row_and_what_it_says(question: Question[Any], answer: Mapping[str, Any], value: object) -> None:
    assert question.read([answer]) == value


def test_no_row_is_nothing_known() -> None:
    assert NEW.behind("").read([]) is None
    assert NEW.table_bytes("sandbox", "title").read([]) == 0


# -- settings and counters


def test_settings_are_read_by_knob() -> None:
    question = OLD.settings()
    assert question.statement.startswith("SHOW GLOBAL VARIABLES WHERE Variable_name IN (")
    assert "'rpl_semi_sync_master_enabled'" in question.statement
    assert "'rpl_semi_sync_slave_enabled'" in question.statement
    found = question.read(rows(MYSQL_57))
    assert found.values["semi_sync"] == "off"
    assert found.values["wait_point"] == "after_sync"
    assert "binlog_transaction_compression" not in found.values
    assert found.registers is True
    assert NEW.settings().read(rows({**MYSQL_9, "rpl_semi_sync_replica_enabled": "OFF"})).registers is False
    assert NEW.settings().read([]) == ServerSettings({})


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


@pytest.mark.parametrize(
    ("server", "source", "replica"), [(NEW, "source", "replica"), (OLD, "master", "slave")]
)
def test_counters_are_read_under_either_generations_names(server: MySql, source: str, replica: str) -> None:
    answer = {
        name.replace("_source_", f"_{source}_").replace("_replica_", f"_{replica}_"): value
        for name, value in COUNTERS.items()
    }
    question = server.status()
    assert "performance_schema.global_status" in question.statement
    assert all(f"'{name}'" in question.statement for name in answer)
    assert question.read(rows(answer)) == ServerStatus(
        uptime_s=123,
        binlog_cache_use=77,
        operational=True,
        clients=2,
        yes_tx=10,
        no_tx=3,
        no_times=1,
        tx_waits=9,
        tx_wait_time_us=1000,
        replica_registered=False,
    )


LOGS = {
    "Innodb_redo_log_current_lsn": "5000",
    "Innodb_redo_log_flushed_to_disk_lsn": "4000",
    "Innodb_os_log_written": "99",
    "Innodb_os_log_fsyncs": "12",
    "Threads_running": "3",
    "Threads_connected": "9",
    "Connections": "40",
    "Uptime": "123",
}


@pytest.mark.parametrize(("server", "source"), [(NEW, "source"), (OLD, "master")])
def test_the_state_of_the_logs_is_read_with_the_settings(server: MySql, source: str) -> None:
    settings = {"flush_at_commit": 2, "sync_binlog": 1000}
    semi_sync = {f"Rpl_semi_sync_{source}_status": "ON", f"Rpl_semi_sync_{source}_no_tx": "7"}
    question = server.log_state()
    assert all(f"'{name}'" in question.statement for name in (*LOGS, *semi_sync))
    assert question.read([{**row, **settings} for row in rows({**LOGS, **semi_sync})]) == LogState(
        5000, 4000, 99, 2, 1000, running=3, connected=9, connections=40, waits=True, not_waited=7,
        uptime_s=123, fsyncs=12,
    )  # fmt: skip


def test_a_server_before_8_0_30_does_not_say_how_far_its_redo_log_is_flushed() -> None:
    settings = {"flush_at_commit": 1, "sync_binlog": 1}
    found = BARE.log_state().read([{**row, **settings} for row in rows({"Uptime": "7"})])
    assert found == LogState(None, None, None, 1, 1, uptime_s=7)
    assert BARE.log_state().read([]) == LogState(None, None, None, None, None)


def test_a_server_without_the_plugins_is_asked_nothing_of_semi_sync() -> None:
    assert not BARE.capabilities.has("semi_sync")
    assert "semi_sync" not in BARE.status().statement.lower()
    assert BARE.status().read(rows({"Uptime": "7"})) == ServerStatus(uptime_s=7)
    assert BARE.register() == ()
    assert BARE.settings().read([]).registers is None


# -- commits

_MS = 10**9
"""In picoseconds."""


def counted(
    event: str, times: int, ms: float, fsyncs: int = 0, fsync_ms: float = 0, kind: str = "account"
) -> dict[str, Any]:
    return {
        "kind": kind,
        "event": event,
        "times": times,
        "ps": Decimal(round(ms * _MS)),
        "fsyncs": fsyncs,
        "fsync_ps": Decimal(round(fsync_ms * _MS)),
    }


REDO = "wait/io/file/innodb/innodb_log_file"


@pytest.mark.parametrize(
    ("answer", "totals"),
    [
        ([], {}),
        (
            [counted("wait/io/file/sql/binlog", 10, 1.5, 4, 8, "file")],
            {Source.BINLOG_WRITE: Total(10, 1.5), Source.BINLOG_FSYNC: Total(4, 8)},
        ),
        (  # the redo log is also what the account's own sessions did to it
            [counted(REDO, 20, 2, 12, 30, "file"), counted(REDO, 28, 25)],
            {
                Source.REDO_WRITE: Total(20, 2),
                Source.REDO_FSYNC: Total(12, 30),
                Source.OWN_REDO: Total(28, 25),
            },
        ),
        (  # statements of all kinds are one sum, and so are both names of the stage
            [
                counted("statement/com/Execute", 5, 10),
                counted("statement/sql/begin", 1, 2),
                counted("stage/semisync/Waiting for semi-sync ACK from replica", 3, 6),
                counted("stage/semisync/Waiting for semi-sync ACK from slave", 0, 0),
            ],
            {Source.STATEMENT: Total(6, 12), Source.ACK_STAGE: Total(3, 6)},
        ),
    ],
)
def test_what_is_counted_of_commits(answer: list[dict[str, Any]], totals: dict[Source, Total]) -> None:
    assert COMMITS.read(answer) == totals


def test_commits_are_those_of_one_account_by_every_instrument() -> None:
    statement = COMMITS.statement
    assert statement.count("user = 'sandbox'") == 3
    assert all(f"'{name}'" in statement for name in (*MYSQL_TIMED.waits, *MYSQL_TIMED.stages))


def test_commits_of_everybody_are_the_server_s_whole_counters_and_only_its_commit_statements() -> None:
    everybody = NEW.commits(None)
    assert everybody is not None
    assert "user" not in everybody.statement
    assert everybody.statement.count("_global_by_event_name") == 3
    assert f"'{REDO}'" in everybody.statement.partition(" UNION ALL ")[0]
    assert everybody.read([counted("statement/sql/commit", 4, 12, kind="all")]) == {
        Source.COMMIT_STATEMENT: Total(4, 12)
    }


# -- statements


@pytest.mark.parametrize(
    ("key", "value", "new", "old"),
    [
        ("semi_sync", "on", "rpl_semi_sync_source_enabled = ON", "rpl_semi_sync_master_enabled = ON"),
        (
            "wait_point",
            "after_commit",
            "rpl_semi_sync_source_wait_point = 'AFTER_COMMIT'",
            "rpl_semi_sync_master_wait_point = 'AFTER_COMMIT'",
        ),
        (
            "semi_sync_replicas",
            2,
            "rpl_semi_sync_source_wait_for_replica_count = 2",
            "rpl_semi_sync_master_wait_for_slave_count = 2",
        ),
        ("replica_parallel_workers", 8, "replica_parallel_workers = 8", "slave_parallel_workers = 8"),
    ],
)
def test_a_knob_is_set_by_this_servers_name(key: str, value: str | int, new: str, old: str) -> None:
    assert NEW.set(key, value) == f"SET GLOBAL {new}"
    assert OLD.set(key, value) == f"SET GLOBAL {old}"


def test_a_knob_that_a_server_lacks_is_neither_set_nor_asked_for() -> None:
    for question in (
        lambda: OLD.set("binlog_transaction_compression", "on"),
        lambda: BARE.setting("semi_sync"),
    ):
        with pytest.raises(UsageError, match="does not have it"):
            question()


def test_threads_are_started_and_stopped_in_a_servers_own_word() -> None:
    for server, word in ((NEW, "REPLICA"), (OLD, "SLAVE")):
        assert (server.start_threads(), server.stop_threads()) == (f"START {word}", f"STOP {word}")
        assert (server.start_io(), server.stop_io()) == (f"START {word} IO_THREAD", f"STOP {word} IO_THREAD")
        assert server.start_applier() == f"START {word} SQL_THREAD"
        assert server.stop_applier() == f"STOP {word} SQL_THREAD"
        assert server.follow_nobody() == (f"RESET {word} ALL",)


def test_a_server_before_the_clone_plugin_is_emptied() -> None:
    assert NEW.copies
    assert not OLD.copies
    assert OLD.empty(("sandbox",))[-1] == "RESET MASTER"
    assert NEW.databases().read([{"name": "sandbox"}, {"name": "replexplorer"}]) == (
        "sandbox",
        "replexplorer",
    )


def test_a_replica_registers_by_its_own_switch() -> None:
    assert NEW.register() == ("SET GLOBAL rpl_semi_sync_replica_enabled = ON",)
    assert OLD.register() == ("SET GLOBAL rpl_semi_sync_slave_enabled = ON",)


def test_roles_and_binlogs() -> None:
    assert NEW.open_for_writes() == ("SET GLOBAL super_read_only = OFF", "SET GLOBAL read_only = OFF")
    assert NEW.refuse_writes() == ("SET GLOBAL super_read_only = ON",)
    assert NEW.refuse_clients() == ("SET GLOBAL super_read_only = OFF", "SET GLOBAL read_only = ON")
    assert NEW.purge_binlogs("binlog.000003") == "PURGE BINARY LOGS TO 'binlog.000003'"


@pytest.mark.parametrize(("server", "word"), [(NEW, "SOURCE"), (OLD, "MASTER")])
def test_who_follows_a_source_does_it_as_a_new_stacks_replica(server: MySql, word: str) -> None:
    """The start script configures a replica before the app can ask it anything."""
    question = server.follow(SOURCE_ADDRESS)
    script = (Path(__file__).parents[2] / "compose/mysql/start-mysqld").read_text()
    (line,) = (line for line in script.splitlines() if f"{word}_AUTO_POSITION=1" in line)
    scripted = line.split('"')[1].rstrip(";")
    expected = scripted.replace("$source_host", "10.9.0.2").replace("'$replication'", "%s")
    assert question.statement == expected
    assert question.arguments == ("it's",)
    assert "it's" not in repr(question) + repr(SOURCE_ADDRESS)
    assert question.read([]) is None


def test_a_copy_names_its_donor_and_hides_the_password() -> None:
    donor, copy = NEW.copy_from(SOURCE_ADDRESS)
    assert donor.statement == "SET GLOBAL clone_valid_donor_list = '10.9.0.2:3306'"
    assert copy.statement == "CLONE INSTANCE FROM 'replication'@'10.9.0.2':3306 IDENTIFIED BY %s"
    assert copy.arguments == ("it's",)
    assert NEW.ended_to_restart(3707)
    assert not NEW.ended_to_restart(1290)


@pytest.mark.parametrize(
    ("row", "copying"),
    [
        (
            {"stage": "FILE COPY", "copied": Decimal(5), "estimated": Decimal(9), "fault": None},
            Copying("FILE COPY", 5, 9),
        ),
        (
            {"stage": None, "copied": Decimal(0), "estimated": Decimal(0), "fault": "Donor ended"},
            Copying(None, 0, 0, "Donor ended"),
        ),
        ({"stage": None, "copied": 0, "estimated": 0, "fault": ""}, Copying(None, 0, 0)),
    ],
)
def test_how_far_a_copy_is(row: dict[str, Any], copying: Copying) -> None:
    assert NEW.copying().read([row]) == copying
    assert NEW.can_copy().read([{"loaded": 1}]) is True


@pytest.mark.parametrize(
    ("key", "status", "doing"),
    [
        (
            "innodb_buffer_pool_size",
            {
                "Innodb_buffer_pool_resize_status": "buffer pool 0 : withdrawing blocks. (7154/7164)",
                "Innodb_buffer_pool_resize_status_code": "3",
                "Innodb_buffer_pool_resize_status_progress": "0",
            },
            "buffer pool 0 : withdrawing blocks. (7154/7164): 0 %",
        ),
        (
            "innodb_buffer_pool_size",
            {
                "Innodb_buffer_pool_resize_status": "Completed resizing buffer pool at 261122 14:44:13.",
                "Innodb_buffer_pool_resize_status_code": "0",
                "Innodb_buffer_pool_resize_status_progress": "100",
            },
            None,
        ),
        ("innodb_buffer_pool_size", {}, None),
        ("innodb_redo_log_capacity", {"Innodb_redo_log_resize_status": "OK"}, None),
        ("innodb_redo_log_capacity", {"Innodb_redo_log_resize_status": "Resizing down"}, "Resizing down"),
    ],
)
def test_what_a_server_still_does_of_a_resize(key: str, status: dict[str, str], doing: str | None) -> None:
    question = NEW.unfinished(key)
    assert question is not None
    assert question.read(rows(status)) == doing


def test_a_plain_variable_is_done_when_it_reads_back() -> None:
    assert NEW.unfinished("sync_binlog") is None


def test_a_knob_that_a_server_lacks_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match="innodb_redo_log_capacity is not available") as refused:
        OLD.set("innodb_redo_log_capacity", 16 << 20)
    assert "5.7.44" in refused.value.hint
