"""Capabilities from probed rows, on servers of both generations and flavours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.dialect.capabilities import (
    VARIABLES_PROBE,
    Capabilities,
    Row,
    ServerStatus,
    from_server,
    literal,
    version_tuple,
)
from replexplorer.core.errors import UsageError
from replexplorer.core.knobs.names import BY_KEY, CATALOGUE, Backing, Kind, Value
from tests.fakes.servers import MARIADB, METADATA_9, MYSQL_9, MYSQL_57, rows


def test_a_new_server_has_every_knob_under_its_new_name() -> None:
    server = Capabilities.probe(rows(MYSQL_9), METADATA_9)
    assert (server.flavor, server.version, server.title) == ("mysql", (9, 7, 4), "mysql 9.7.4")
    for knob in CATALOGUE:
        assert server.has(knob.key)
        if knob.backing is Backing.SERVER:
            assert server.variables[knob.key] == knob.variables[0]
    assert server.semi_sync is not None
    assert server.semi_sync.status_prefix == "Rpl_semi_sync_source_"
    assert server.set_statement("semi_sync", "on") == "SET GLOBAL rpl_semi_sync_source_enabled = ON"
    assert (
        server.set_statement("wait_point", "after_commit")
        == "SET GLOBAL rpl_semi_sync_source_wait_point = 'AFTER_COMMIT'"
    )
    assert server.restart_io() == (
        "SET GLOBAL rpl_semi_sync_replica_enabled = ON",
        "STOP REPLICA IO_THREAD",
        "START REPLICA IO_THREAD",
    )


def test_an_old_server_speaks_of_masters_and_slaves() -> None:
    server = Capabilities.probe(rows(MYSQL_57))
    assert server.version == (5, 7, 44)
    assert server.set_statement("semi_sync_replicas", 2) == (
        "SET GLOBAL rpl_semi_sync_master_wait_for_slave_count = 2"
    )
    assert server.stop_applier() == "STOP SLAVE SQL_THREAD"
    assert server.start_applier() == "START SLAVE SQL_THREAD"
    assert not server.has("binlog_transaction_compression")
    with pytest.raises(UsageError, match=r"mysql 5\.7\.44 does not have it"):
        server.set_statement("binlog_transaction_compression", "on")


def test_mariadb_lacks_what_it_lacks() -> None:
    metadata: list[Row] = [
        {"name": "INNODB_DOUBLEWRITE", "low": None, "high": None, "fixed": "YES"},
        {"name": "SYNC_BINLOG", "low": "0", "high": "4294967295", "fixed": "NO"},
    ]
    server = Capabilities.probe(rows(MARIADB), metadata)
    assert server.flavor == "mariadb"
    assert server.version == (10, 11, 19)
    assert server.set_statement("semi_sync", "off") == "SET GLOBAL rpl_semi_sync_master_enabled = OFF"
    assert (
        server.set_statement("binlog_group_commit_sync_delay", 5) == "SET GLOBAL binlog_commit_wait_usec = 5"
    )
    for key in ("semi_sync_replicas", "binlog_order_commits"):
        assert not server.has(key)
    with pytest.raises(UsageError, match="cannot change it while it runs"):
        server.knob("innodb_doublewrite")
    assert server.status_statement().startswith("SHOW GLOBAL STATUS WHERE")


def test_a_server_without_the_plugin_has_no_semi_sync() -> None:
    bare = {name: value for name, value in MYSQL_9.items() if not name.startswith("rpl_semi_sync")}
    server = Capabilities.probe(rows(bare))
    assert server.semi_sync is None
    assert not server.has("semi_sync")
    assert "semi_sync" not in server.status_statement()
    assert server.restart_io() == ("STOP REPLICA IO_THREAD", "START REPLICA IO_THREAD")
    assert server.read_status([{"Variable_name": "Uptime", "Value": "7"}]) == ServerStatus(uptime_s=7)


def test_metadata_narrows_a_range_and_never_widens_it() -> None:
    server = Capabilities.probe(rows(MYSQL_9), METADATA_9)
    workers = server.knob("replica_parallel_workers")
    assert (workers.minimum, workers.maximum) == (1, 1024)
    timeout = server.knob("semi_sync_timeout")
    assert timeout.minimum == 1  # the server itself would take 0
    assert BY_KEY["replica_parallel_workers"].minimum == 0
    narrow = Capabilities.probe(
        rows(MYSQL_9), [{"name": "sync_binlog", "low": 1, "high": 50, "fixed": "NO"}]
    ).knob("sync_binlog")
    assert narrow.ladder == (1, 10)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("9.7.4-2", (9, 7, 4)),
        ("26.7.0", (26, 7, 0)),
        ("26.10", (26, 10)),
        ("8.0.36-28.1", (8, 0, 36)),
        ("10.11.19-MariaDB-log", (10, 11, 19)),
        ("", ()),
        ("unknown", ()),
    ],
)
def test_versions_compare_as_numbers(text: str, version: tuple[int, ...]) -> None:
    assert version_tuple(text) == version


def test_calendar_versions_are_newer() -> None:
    assert version_tuple("26.10") > version_tuple("26.7.0") > version_tuple("9.7.4")


@pytest.mark.parametrize(
    ("version", "comment", "flavor"),
    [
        ("9.7.4-2", "(Debian)", "mysql"),
        ("8.4.3-3", "Percona Server (GPL), Release 3", "percona"),
        ("10.11.19-MariaDB", "", "mariadb"),
        ("11.4.2", "MariaDB Server", "mariadb"),
    ],
)
def test_flavours(version: str, comment: str, flavor: str) -> None:
    probed = rows({"version": version, "version_comment": comment})
    assert Capabilities.probe(probed).flavor == flavor


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("semi_sync", "ON", "on"),
        ("semi_sync", "0", "off"),
        ("wait_point", "AFTER_SYNC", "after_sync"),
        ("innodb_doublewrite", "DETECT_ONLY", "detect_only"),
        ("innodb_doublewrite", "1", "on"),
        ("innodb_doublewrite", "DETECT_AND_RECOVER", "on"),
        ("sync_binlog", "100", 100),
        ("binlog_row_image", "FULL_NODUP", "full_nodup"),
        ("sync_binlog", "what", "what"),
    ],
)
def test_a_servers_value_becomes_ours(key: str, text: str, value: Value) -> None:
    assert from_server(BY_KEY[key], text) == value


@given(st.sampled_from([knob for knob in CATALOGUE if knob.backing is Backing.SERVER]), st.data())
def test_what_is_set_reads_back(knob: object, data: st.DataObject) -> None:
    row = next(each for each in CATALOGUE if each is knob)
    value: Value = (
        data.draw(st.sampled_from(row.choices))
        if row.kind is Kind.CHOICE
        else data.draw(st.integers(int(row.minimum or 0), int(row.maximum or 0)))
    )
    assert from_server(row, literal(row, value).strip("'")) == value


def test_status_rows_are_read_by_suffix() -> None:
    server = Capabilities.probe(rows(MYSQL_9))
    statement = server.status_statement()
    assert "performance_schema.global_status" in statement
    answer = {
        "Uptime": "123",
        "Binlog_cache_use": "77",
        "Rpl_semi_sync_source_status": "ON",
        "Rpl_semi_sync_source_clients": "2",
        "Rpl_semi_sync_source_yes_tx": "10",
        "Rpl_semi_sync_source_no_tx": "3",
        "Rpl_semi_sync_source_no_times": "1",
        "Rpl_semi_sync_source_wait_sessions": "0",
        "Rpl_semi_sync_source_tx_waits": "9",
        "Rpl_semi_sync_source_tx_wait_time": "1000",
        "Rpl_semi_sync_replica_status": "OFF",
    }
    assert all(f"'{name}'" in statement for name in answer)
    assert server.read_status(rows(answer)) == ServerStatus(
        uptime_s=123,
        binlog_cache_use=77,
        operational=True,
        clients=2,
        yes_tx=10,
        no_tx=3,
        no_times=1,
        wait_sessions=0,
        tx_waits=9,
        tx_wait_time_us=1000,
        replica_registered=False,
    )


def test_values_are_read_by_knob() -> None:
    server = Capabilities.probe(rows(MARIADB))
    assert "'rpl_semi_sync_master_enabled'" in server.values_statement()
    values = server.read_values(rows(MARIADB))
    assert values["semi_sync"] == "off"
    assert values["wait_point"] == "after_commit"
    assert values["binlog_group_commit_sync_delay"] == 100_000
    assert "semi_sync_replicas" not in values


def test_the_probe_asks_for_every_name_of_every_knob() -> None:
    for knob in CATALOGUE:
        assert all(f"'{name}'" in VARIABLES_PROBE for name in knob.variables)
