"""How a member of a Galera cluster is asked, and what its answers say."""

from __future__ import annotations

import pytest

from replexplorer.core.dialect.flavours import flavour_of
from replexplorer.core.dialect.mariadb import Galera, MariaDb
from replexplorer.core.errors import UsageError
from replexplorer.core.knobs.names import find
from replexplorer.core.server.node_view import Membership, judge_group
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.system import GALERA
from replexplorer.core.topology import Belonging

VARIABLES = {
    "version": "11.8.9-MariaDB-4 from Debian-log",
    "version_comment": "Debian",
    "wsrep_on": "ON",
    "wsrep_sync_wait": "0",
    "wsrep_provider_gcs_fc_limit": "16",
    "wsrep_provider_evs_suspect_timeout": "5.000000",
    "rpl_semi_sync_master_enabled": "OFF",
    "sync_binlog": "1",
}
STATUS = {
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


@pytest.fixture
def dialect() -> Galera:
    found = flavour_of(VARIABLES).of(VARIABLES, {})
    assert isinstance(found, Galera)
    return found


def answer(dialect: Galera, **changed: str) -> Membership:
    question = dialect.membership()
    assert question is not None
    rows = [{"Variable_name": name, "Value": value} for name, value in {**STATUS, **changed}.items()]
    assert all(f"'{name}'" in question.statement for name in STATUS)
    return question.read(rows)


def test_a_server_in_a_cluster_has_its_knobs_and_no_semi_sync(dialect: Galera) -> None:
    assert dialect.capabilities.system is GALERA
    assert dialect.capabilities.flavor == "mariadb"
    assert dialect.semi_sync is None
    with pytest.raises(UsageError, match="semi_sync is not available") as refused:
        dialect.set("semi_sync", "on")
    assert "Galera does not have it" in refused.value.hint


def test_a_mariadb_outside_of_one_has_none_of_them() -> None:
    variables = {**VARIABLES, "wsrep_on": "OFF"}
    found = flavour_of(variables).of(variables, {})
    assert type(found) is MariaDb
    with pytest.raises(UsageError, match="wsrep_sync_wait") as refused:
        found.set("wsrep_sync_wait", 1)
    assert "Galera (`up --system galera`) has it" in refused.value.hint


def test_options_of_the_provider_are_variables_and_keep_their_own_spelling(dialect: Galera) -> None:
    knob = find("gcs.fc_limit")
    assert dialect.set(knob.key, 32) == "SET GLOBAL wsrep_provider_gcs_fc_limit = 32"
    read = dialect.settings().read(
        [{"Variable_name": "wsrep_provider_evs_suspect_timeout", "Value": "7.000000"}]
    )
    assert read.values == {"wsrep_provider_evs_suspect_timeout": 7}


def test_it_waits_for_what_was_sent_and_not_for_numbers_of_another_member(dialect: Galera) -> None:
    question = dialect.reached("0-1:1-57", 5.0)
    assert "wsrep_sync_wait = 1" in question.statement
    assert "57" not in question.statement
    assert question.read([{"executed": "0-2-31"}]) is True


def test_a_member_says_what_it_sees(dialect: Galera) -> None:
    assert answer(dialect) == Membership(
        Belonging.MEMBER, "Synced", size=3, view="7", queued=2, to_apply=5, conflicts=3,
        gave_way=4, certified=100, held_ms=1500.0, holds=9,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("state", "status", "connected", "belongs"),
    [
        ("Synced", "Primary", "ON", Belonging.MEMBER),
        ("Donor/Desynced", "Primary", "ON", Belonging.MEMBER),
        ("Joined", "Primary", "ON", Belonging.JOINING),
        ("Joining: receiving State Transfer", "Primary", "ON", Belonging.JOINING),
        ("Initialized", "non-Primary", "ON", Belonging.CUT_OFF),
        ("Initialized", "Disconnected", "OFF", Belonging.OUTSIDE),
        ("", "", "", Belonging.OUTSIDE),
    ],
)
def test_how_it_stands_to_its_cluster(
    dialect: Galera, state: str, status: str, connected: str, belongs: Belonging
) -> None:
    changed = {
        "wsrep_local_state_comment": state, "wsrep_cluster_status": status, "wsrep_connected": connected,
    }  # fmt: skip
    assert answer(dialect, **changed).belongs is belongs


def test_a_commit_waits_for_all_others_of_the_cluster(dialect: Galera) -> None:
    each = answer(dialect)
    three = {"db1": each, "db2": each, "db3": each}
    seen = judge_group(GALERA, three, three, requested_size=3)
    assert seen.state is ProtectionState.PROTECTED
    assert (seen.replicas_acking, seen.replicas_required) == (2, 2)
    killed = judge_group(GALERA, {"db1": each, "db3": each}, three, requested_size=3)
    assert (killed.replicas_acking, killed.replicas_required) == (1, 2), "its view has the dead one still"
    alone = answer(dialect, wsrep_cluster_status="non-Primary", wsrep_cluster_size="1")
    left = judge_group(GALERA, {"db1": alone}, {"db1"}, requested_size=3)
    assert left.state is ProtectionState.BLOCKED
    assert (left.replicas_acking, left.replicas_required) == (0, 2)
