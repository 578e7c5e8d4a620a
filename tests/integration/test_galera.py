"""Galera on three real servers: members, links, knobs, conflicts, a lost majority, a crash of all.

One stack, shared by this file; tests run in their order and leave all three nodes as members.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replexplorer.core.errors import ServerRefused, UsageError
from replexplorer.core.experiment.lab import GAVE_WAY, REFUSED
from replexplorer.core.server.exposure import Loss
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.topology import Role
from replexplorer.engine.session import Session
from tests.integration.conftest import LiveStack, a_stack
from tests.integration.groups import (
    THREE,
    a_fourth_member_gets_all_and_leaves_a_majority,
    commits_ms,
    on_hot_rows,
    ready,
    rows_at,
    until_all_have,
    until_so,
)
from tests.integration.sessions import attached, connected, inject
from tests.turning import turn
from tests.waiting import until

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("galera")]

TABLE = "sandbox.galera_t"


@pytest.fixture(scope="module")
def galera(docker_client: Any, state_home: Path) -> Iterator[LiveStack]:
    """Three members, made as `up --system galera` makes them."""
    with a_stack("galera", system="galera") as live:
        yield live


async def answer(session: Session, node: str) -> str:
    """What a member says to who asks for its rows: their number, or why it does not say."""
    try:
        return str(await rows_at(session, node, TABLE))
    except ServerRefused as refused:
        return str(refused)


async def test_three_members_all_of_which_take_writes(galera: LiveStack) -> None:
    async with connected(galera, "test") as session:
        status = await session.status()
        assert (status.system, status.state) == ("galera", "up")
        assert [(node.name, node.role, node.state) for node in status.nodes] == [
            (name, Role.PRIMARY, "Synced") for name in THREE
        ]
        assert session.fleet.source_name == "db1"
        assert status.protection.state is ProtectionState.PROTECTED
        assert (status.protection.replicas_acking, status.protection.replicas_required) == (2, 2)
        assert status.exposure.source_lost == Loss(0, 0, 0)
        assert {link.replica for link in status.links} == {"db2", "db3", "db2:db3"}
        await session.fleet.source.control.query(
            f"CREATE TABLE {TABLE} (id INT PRIMARY KEY, number INT NOT NULL)"
        )
        for number, node in enumerate(THREE):
            await session.fleet.member(node).control.query(f"INSERT INTO {TABLE} VALUES ({number}, 0)")
        await until_all_have(session, TABLE, 3)


async def test_knobs_are_set_at_every_member(galera: LiveStack) -> None:
    async with attached(galera) as session:
        with pytest.raises(UsageError, match="semi_sync is not available"):
            await turn(session, "semi_sync=on")
        await turn(session, "gcs.fc_limit=100", "evs.suspect_timeout=2")
        await session.state.refresh()
        for node in THREE:
            values = session.state.samples[node].values
            assert values["wsrep_provider_gcs_fc_limit"] == 100
            assert values["wsrep_provider_evs_suspect_timeout"] == 2


async def test_a_commit_waits_for_the_farthest_member(galera: LiveStack) -> None:
    async with attached(galera) as session:
        await turn(session, "rtt=80ms", "rtt@db1:db2=5ms")
        assert (await commits_ms(session, 5))[0] >= 75


async def test_hot_rows_at_all_members_roll_transactions_back_and_each_kind_is_counted(
    galera: LiveStack,
) -> None:
    found = await on_hot_rows(galera, "galera")
    assert found.service.count > 0
    assert float(found.figures[REFUSED]) + float(found.figures[GAVE_WAY]) > 0, found.figures
    assert found.protection.state is ProtectionState.PROTECTED


async def test_without_a_majority_the_last_one_commits_nothing_and_who_was_killed_gets_the_rest(
    galera: LiveStack,
) -> None:
    """What a member has its own state file does not say: InnoDB does."""
    async with attached(galera) as session:
        before = await rows_at(session, "db1", TABLE)
        source = session.fleet.member("db1")
        await inject(session, "kill@db3")
        await until_two_go_on(session)
        await source.control.query(f"INSERT INTO {TABLE} VALUES (97, 0)")
        await inject(session, "kill@db2")

        def is_alone() -> bool:
            return session.state.protection().state is ProtectionState.BLOCKED

        await until_so(session, "one of three is blocked", is_alone)
        async with connected(galera, "newcomer") as newcomer:
            status = await newcomer.status()
            [alone] = [node for node in status.nodes if node.reachable]
            assert (alone.name, alone.state) == ("db1", "Initialized"), "it lets in who logs in now"
            assert (status.state, status.protection.state) == ("partial", ProtectionState.BLOCKED)
        with pytest.raises(ServerRefused, match="1047"):
            await source.control.query(f"INSERT INTO {TABLE} VALUES (99, 0)")
        await session.console.clear(None)
        await until_so(session, "all are members", lambda: ready(session) == set(THREE))
        assert session.state.protection().state is ProtectionState.PROTECTED
        await until_all_have(session, TABLE, before + 1)


async def until_two_go_on(session: Session, seen_by: str = "db1") -> None:
    """Until this node and another one are the cluster."""

    def are_two() -> bool:
        member = session.state.samples[seen_by].view.member
        return member is not None and member.size == 2

    await until_so(session, "the majority goes on", are_two)


async def test_a_member_that_is_cut_off_answers_no_query_and_gets_what_it_missed(galera: LiveStack) -> None:
    async with attached(galera) as session:
        await turn(session, "evs.suspect_timeout=2")
        before = await rows_at(session, "db1", TABLE)
        await inject(session, "isolate@db3")
        await until_two_go_on(session)
        await session.fleet.member("db1").control.query(f"INSERT INTO {TABLE} VALUES (98, 0)")
        await until(lambda: answer(session, "db3"), "db3 notices it", holds=lambda found: "1047" in found)
        await session.console.clear(None)
        await until_so(session, "all are members", lambda: ready(session) == set(THREE))
        await until_all_have(session, TABLE, before + 1)
        lines = [line for _, line in await session.fleet.server_process("db3").log()]
        assert any("Receiving IST" in line for line in lines), "and no whole copy"


async def test_a_fourth_member_gets_all_and_leaves_the_others_a_majority(galera: LiveStack) -> None:
    async with attached(galera) as session:
        await a_fourth_member_gets_all_and_leaves_a_majority(session, TABLE)


async def test_after_a_crash_of_all_one_by_one_up_brings_the_cluster_back(galera: LiveStack) -> None:
    """Those of its last view find each other; with one of the view before they would all wait forever."""
    async with attached(galera) as session:
        await turn(session, "evs.suspect_timeout=2")
        before = await rows_at(session, "db1", TABLE)
        await session.fleet.server_process("db1").kill()
        await until_two_go_on(session, "db2")
        for node in ("db2", "db3"):
            await session.fleet.server_process(node).kill()
        await session.up(lambda *_: None)
        await until_so(session, "all are members", lambda: ready(session) == set(THREE))
        await until_all_have(session, TABLE, before)
