"""What a server has: names, ranges, versions, and values in its words and in ours."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.dialect.dialect import Capabilities, Range, flavor_name, version_tuple
from replexplorer.core.dialect.mysql import MySql
from replexplorer.core.dialect.question import from_server, literal
from replexplorer.core.errors import UsageError
from replexplorer.core.knobs.names import BY_KEY, CATALOGUE, Backing, Kind, Knob, Value, parse_value
from replexplorer.core.system import ASYNC
from tests.fakes.servers import MARIADB, MYSQL_9, MYSQL_57, mysql_9

MARIADB_ALONE = {"slave_parallel_mode", "binlog_commit_wait_count", "binlog_commit_wait_usec"}


def test_a_new_server_has_every_knob_under_its_new_name() -> None:
    server = mysql_9().capabilities
    assert (server.flavor, server.version, server.title) == ("mysql", (9, 7, 4), "mysql 9.7.4")
    for knob in CATALOGUE:
        if knob.key in MARIADB_ALONE or not ASYNC.has(knob):
            continue
        assert server.has(knob.key)
        if knob.backing is Backing.SERVER:
            assert server.variables[knob.key] == knob.variables[0]


def test_another_flavour_lacks_what_it_lacks_and_keeps_what_it_cannot_change() -> None:
    ranges = {"innodb_doublewrite": Range(None, None, is_fixed=True), "sync_binlog": Range(0, 4294967295)}
    server = Capabilities.of(MARIADB, ranges)
    assert (server.flavor, server.version) == ("mariadb", (10, 11, 19))
    for key in ("semi_sync_replicas", "binlog_order_commits", "binlog_group_commit_sync_delay"):
        assert not server.has(key)
    with pytest.raises(UsageError, match="cannot change it while it runs"):
        server.knob("innodb_doublewrite")


def test_a_reset_makes_of_a_knob_what_its_flavour_comes_with() -> None:
    point = BY_KEY["wait_point"]
    assert [point.default_of(flavor) for flavor in ("mysql", "percona", "mariadb")] == [
        "after_sync", "after_sync", "after_commit",
    ]  # fmt: skip
    assert MARIADB["rpl_semi_sync_master_wait_point"].lower() == point.default_of("mariadb")


def test_three_is_a_value_of_the_server_that_says_so() -> None:
    """MySQL before 9.0 has no table of ranges, and cuts a 3 to 2 with a warning."""
    key = "innodb_flush_log_at_trx_commit"
    assert MySql.of(MYSQL_57, {}).capabilities.knob(key).maximum == 2
    maria = Capabilities.of(MARIADB, {key: Range(0, 3)}).knob(key)
    assert (maria.maximum, maria.ladder) == (3, (0, 1, 2, 3))


def test_a_choice_is_what_the_server_lists() -> None:
    ranges = {"innodb_doublewrite": Range(None, None, words=("off", "on", "fast"))}
    knob = Capabilities.of(MARIADB, ranges).knob("innodb_doublewrite")
    assert (knob.choices, knob.steps) == (("off", "on"), ("off", "on"))
    with pytest.raises(UsageError):
        parse_value(knob, "detect_only")


def test_metadata_narrows_a_range_and_never_widens_it() -> None:
    server = mysql_9().capabilities
    workers = server.knob("replica_parallel_workers")
    assert (workers.minimum, workers.maximum) == (1, 1024)
    timeout = server.knob("semi_sync_timeout")
    assert timeout.minimum == 1  # the server itself would take 0
    assert BY_KEY["replica_parallel_workers"].minimum == 0
    narrow = Capabilities.of(MYSQL_9, {"sync_binlog": Range(1, 50)}).knob("sync_binlog")
    assert narrow.ladder == (1, 10)


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("9.7.4-2", (9, 7, 4)),
        ("26.7.0", (26, 7, 0)),
        ("26.10", (26, 10)),
        ("8.0.36-28.1", (8, 0, 36)),
        ("10.11.19-MariaDB-log", (10, 11, 19)),
        ("5.7.44-log", (5, 7, 44)),
        ("", ()),
        ("unknown", ()),
    ],
)
def test_versions_compare_as_numbers(text: str, version: tuple[int, ...]) -> None:
    assert version_tuple(text) == version


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
    assert flavor_name({"version": version, "version_comment": comment}) == flavor


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
def test_what_is_set_reads_back(knob: Knob, data: st.DataObject) -> None:
    numbers: st.SearchStrategy[Value] = st.integers(int(knob.minimum or 0), int(knob.maximum or 0))
    value = data.draw(st.sampled_from(knob.choices) if knob.kind is Kind.CHOICE else numbers)
    assert from_server(knob, literal(knob, value).strip("'")) == value
