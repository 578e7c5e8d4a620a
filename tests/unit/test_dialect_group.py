"""How a member of Group Replication is asked, and what its answers say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replexplorer.core.dialect.flavours import flavour_of
from replexplorer.core.dialect.group import GroupMySql
from replexplorer.core.dialect.mysql import MySql
from replexplorer.core.errors import UsageError
from replexplorer.core.event import Severity
from replexplorer.core.server.node_view import Membership, member_news
from replexplorer.core.system import GROUP
from replexplorer.core.topology import Belonging

VARIABLES = {
    "version": "9.7.4-2",
    "version_comment": "(Debian)",
    "server_uuid": "0b",
    "group_replication_group_name": "aa",
    "group_replication_consistency": "BEFORE_ON_PRIMARY_FAILOVER",
    "group_replication_single_primary_mode": "ON",
    "sync_binlog": "1",
    "replica_parallel_workers": "4",
    "rpl_semi_sync_source_enabled": "OFF",
}
ROW = {
    "state": "ONLINE", "role": "PRIMARY", "view": "17953718703993631:3", "size": 3, "answering": 3,
    "queued": 2, "to_apply": 5, "conflicts": 7, "certified": 100, "held_us": "1500000", "holds": "9",
    "donor": None,
}  # fmt: skip


@pytest.fixture
def dialect() -> GroupMySql:
    found = flavour_of(VARIABLES).of(VARIABLES, {})
    assert isinstance(found, GroupMySql)
    return found


def test_a_server_with_the_plugin_is_a_groups_and_has_no_semi_sync(dialect: GroupMySql) -> None:
    assert dialect.capabilities.system is GROUP
    assert dialect.capabilities.has("group_replication_consistency")
    assert dialect.capabilities.has("sync_binlog")
    with pytest.raises(UsageError, match="semi_sync is not available") as refused:
        dialect.set("semi_sync", "on")
    assert "Group Replication does not have it" in refused.value.hint
    assert "--system async" in refused.value.hint
    assert not dialect.capabilities.has("replica_parallel_workers")


def test_a_server_without_it_is_not_and_says_who_has_its_knobs() -> None:
    variables = {name: value for name, value in VARIABLES.items() if "group_replication" not in name}
    found = flavour_of(variables).of(variables, {})
    assert type(found) is MySql
    assert found.membership() is None
    with pytest.raises(UsageError, match="group_replication_consistency") as refused:
        found.set("group_replication_consistency", "after")
    assert "Group Replication (`up --system group`) has it" in refused.value.hint


@pytest.mark.parametrize(
    ("change", "belongs"),
    [
        ({}, Belonging.MEMBER),
        ({"answering": 2}, Belonging.MEMBER),
        ({"answering": 1}, Belonging.CUT_OFF),
        ({"size": 2, "answering": 1}, Belonging.CUT_OFF),
        ({"state": "RECOVERING"}, Belonging.JOINING),
        ({"state": "ERROR", "answering": 0}, Belonging.OUTSIDE),
        ({"state": "OFFLINE"}, Belonging.OUTSIDE),
        ({"state": None}, Belonging.OUTSIDE),
    ],
)
def test_how_a_node_stands_to_its_group(
    dialect: GroupMySql, change: dict[str, object], belongs: Belonging
) -> None:
    question = dialect.membership()
    assert question is not None
    found = question.read([{**ROW, **change}])
    assert (found.belongs, found.state) == (belongs, change.get("state", "ONLINE") or "OFFLINE")


def test_what_a_member_counts(dialect: GroupMySql) -> None:
    question = dialect.membership()
    assert question is not None
    found = question.read([ROW])
    assert (found.size, found.view, found.queued, found.to_apply) == (3, "17953718703993631:3", 2, 5)
    assert (found.conflicts, found.certified, found.held_ms, found.holds) == (7, 100, 1500.0, 9)
    assert found.donor is None
    assert question.read([{**ROW, "state": "RECOVERING", "donor": "db1"}]).donor == "db1"
    silent = question.read([{**ROW, "held_us": None, "holds": None}])
    assert (silent.held_ms, silent.holds) == (None, None)


def test_the_number_of_primaries_is_agreed_by_all(dialect: GroupMySql) -> None:
    key = "group_replication_single_primary_mode"
    assert "switch_to_multi_primary_mode" in dialect.set(key, "off")
    assert "switch_to_single_primary_mode(@@GLOBAL.server_uuid)" in dialect.set(key, "on")
    assert dialect.set("sync_binlog", 0) == "SET GLOBAL sync_binlog = 0"


def test_joining_ends_what_was_before_and_founding_is_switched_off(dialect: GroupMySql) -> None:
    assert dialect.join(("db1:3306", "db2:3306")) == (
        "STOP GROUP_REPLICATION",
        "SET GLOBAL offline_mode = OFF",
        "SET GLOBAL group_replication_group_seeds = 'db1:3306,db2:3306'",
        "START GROUP_REPLICATION",
    )
    assert dialect.found()[-1] == "START GROUP_REPLICATION"
    assert dialect.go_on_with(("db1:3306",)) == ("SET GLOBAL group_replication_force_members = 'db1:3306'",)
    assert dialect.after_founding() == (
        "SET GLOBAL group_replication_bootstrap_group = OFF",
        "SET GLOBAL group_replication_force_members = ''",
    )


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
