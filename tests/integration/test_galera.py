"""Galera on three real servers: members, links, knobs, conflicts, a lost majority, a crash of all.

One stack, shared by this file; tests run in their order and leave all three nodes as members.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from replexplorer.core.errors import ServerRefused, UsageError
from replexplorer.core.experiment.lab import GAVE_WAY, REFUSED
from replexplorer.core.server.exposure import Loss
from replexplorer.core.server.node_view import conflicts_of
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.topology import Role
from replexplorer.engine.session import Session
from replexplorer.ports import Sql, execute
from tests.integration.conftest import LiveStack, a_stack
from tests.integration.groups import THREE, on_hot_rows, until_so
from tests.integration.sessions import attached, connected, inject
from tests.turning import turn
from tests.waiting import until

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("galera")]

ROWS = "SELECT COUNT(*) AS rows_here FROM sandbox.galera_t"
DEADLOCK = 1213


@pytest.fixture(scope="module")
def galera(docker_client: Any, state_home: Path) -> Iterator[LiveStack]:
    """Three members, made as `up --system galera` makes them."""
    with a_stack("galera", system="galera") as live:
        yield live


def synced(session: Session) -> set[str]:
    return {node.name for node in session.state.node_views() if node.state == "Synced"}


async def rows(session: Session, node: str) -> int:
    found = await session.fleet.member(node).control.query(ROWS)
    return int(found[0]["rows_here"])


async def answer(session: Session, node: str) -> str:
    """What a member says to who asks for its rows: their number, or why it does not say."""
    try:
        return str(await rows(session, node))
    except ServerRefused as refused:
        return str(refused)


async def until_all_have(session: Session, number: int) -> None:
    async def all_have() -> bool:
        return [await rows(session, node) for node in THREE] == [number] * 3

    await until(all_have, f"every member has {number} rows")


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
            "CREATE TABLE sandbox.galera_t (id INT PRIMARY KEY, number INT NOT NULL)"
        )
        for number, node in enumerate(THREE):
            await session.fleet.member(node).control.query(
                f"INSERT INTO sandbox.galera_t VALUES ({number}, 0)"
            )
        await until_all_have(session, 3)


async def test_knobs_are_those_that_members_have(galera: LiveStack) -> None:
    async with attached(galera) as session:
        keys = {name.key for name in session.knobs()}
        assert {"wsrep_sync_wait", "wsrep_provider_gcs_fc_limit"} <= keys
        assert not {"semi_sync", "replica_parallel_workers", "group_replication_consistency"} & keys
        with pytest.raises(UsageError, match="semi_sync is not available") as refused:
            await turn(session, "semi_sync=on")
        assert "Galera does not have it" in refused.value.hint
        await turn(session, "gcs.fc_limit=100", "evs.suspect_timeout=2")
        await session.state.refresh()
        for node in THREE:
            values = session.state.samples[node].values
            assert values["wsrep_provider_gcs_fc_limit"] == 100
            assert values["wsrep_provider_evs_suspect_timeout"] == 2


async def test_a_commit_waits_for_the_farthest_member(galera: LiveStack) -> None:
    async with attached(galera) as session:
        await turn(session, "rtt=80ms", "rtt@db1:db2=5ms")
        source, clock = session.fleet.source, session.outside.clock
        took_ms = []
        for _ in range(5):
            began_s = clock.monotonic()
            await execute(source.kick, (source.dialect.kick,))
            took_ms.append((clock.monotonic() - began_s) * 1000)
        assert min(took_ms) >= 75, took_ms
        await turn(session, "rtt=0")


async def test_of_two_that_change_one_row_the_second_is_refused(galera: LiveStack) -> None:
    """Each waits 40 ms for the other's: the one that is ordered later loses."""
    async with attached(galera) as session:
        await turn(session, "rtt=80ms")
        before = conflicts_of(session.system, (node.member for node in session.state.node_views()))

        both = [session.fleet.connection(node) for node in ("db1", "db2")]

        async def change(sql: Sql) -> int | None:
            try:
                await sql.query("UPDATE sandbox.galera_t SET number = number + 1 WHERE id = 0")
            except ServerRefused as refused:
                return refused.number
            return None

        async def outcomes() -> list[int | None]:
            return await asyncio.gather(*map(change, both))

        try:
            # Once each is logged in, the two begin at one time: by less than the wait of each.
            await asyncio.gather(*(sql.query("SET SESSION wsrep_retry_autocommit = 0") for sql in both))
            await until(outcomes, "one of two is refused", holds=lambda found: DEADLOCK in found)
        finally:
            await asyncio.gather(*(sql.close() for sql in both))
        await turn(session, "rtt=0")
        await session.state.refresh()
        since = conflicts_of(session.system, (node.member for node in session.state.node_views())).since(
            before
        )
        assert (since.refused or 0) + (since.gave_way or 0) > 0, since


async def test_hot_rows_at_all_members_roll_transactions_back_and_each_kind_is_counted(
    galera: LiveStack,
) -> None:
    found = await on_hot_rows(galera, "galera")
    assert found.service.count > 0
    assert float(found.figures[REFUSED]) + float(found.figures[GAVE_WAY]) > 0, found.figures
    assert found.protection.state is ProtectionState.PROTECTED


async def test_without_a_majority_the_last_one_commits_nothing(galera: LiveStack) -> None:
    async with attached(galera) as session:
        before = await rows(session, "db1")
        await inject(session, "kill@db2")
        await inject(session, "kill@db3")

        def is_alone() -> bool:
            return session.state.protection().state is ProtectionState.BLOCKED

        await until_so(session, "one of three is blocked", is_alone)
        async with connected(galera, "newcomer") as newcomer:
            status = await newcomer.status()
            [alone] = [node for node in status.nodes if node.reachable]
            assert (alone.name, alone.state) == ("db1", "Initialized"), "it lets in who logs in now"
            assert (status.state, status.protection.state) == ("partial", ProtectionState.BLOCKED)
        source = session.fleet.member("db1")
        with pytest.raises(ServerRefused, match="1047"):
            await source.control.query("INSERT INTO sandbox.galera_t VALUES (99, 0)")
        await session.console.clear(None)
        await until_so(session, "all are members", lambda: synced(session) == set(THREE))
        assert session.state.protection().state is ProtectionState.PROTECTED
        await until_all_have(session, before)


async def until_two_go_on(session: Session, seen_by: str = "db1") -> None:
    """Until this node and another one are the cluster."""

    def are_two() -> bool:
        member = session.state.samples[seen_by].view.member
        return member is not None and member.size == 2

    await until_so(session, "the majority goes on", are_two)


async def gets_what_it_missed(session: Session, node: str) -> None:
    """And no whole copy: its log says so."""
    lines = [line for _, line in await session.fleet.server_process(node).log()]
    assert any("Receiving IST" in line for line in lines), lines[-40:]


async def test_a_member_that_is_cut_off_answers_no_query_and_gets_what_it_missed(galera: LiveStack) -> None:
    async with attached(galera) as session:
        await turn(session, "evs.suspect_timeout=2")
        before = await rows(session, "db1")
        await inject(session, "isolate@db3")
        await until_two_go_on(session)
        await session.fleet.member("db1").control.query("INSERT INTO sandbox.galera_t VALUES (98, 0)")
        await until(lambda: answer(session, "db3"), "db3 notices it", holds=lambda found: "1047" in found)
        await session.console.clear(None)
        await until_so(session, "all are members", lambda: synced(session) == set(THREE))
        await until_all_have(session, before + 1)
        await gets_what_it_missed(session, "db3")


async def test_a_member_that_was_killed_knows_what_it_has_and_gets_the_rest(galera: LiveStack) -> None:
    """Its own state file does not say: InnoDB does."""
    async with attached(galera) as session:
        before = await rows(session, "db1")
        await inject(session, "kill@db3")
        await until_two_go_on(session)
        await session.fleet.member("db1").control.query("INSERT INTO sandbox.galera_t VALUES (97, 0)")
        await session.console.clear(None)
        await until_so(session, "all are members", lambda: synced(session) == set(THREE))
        await until_all_have(session, before + 1)
        await gets_what_it_missed(session, "db3")


async def test_a_fourth_member_gets_all_and_leaves_the_others_a_majority(galera: LiveStack) -> None:
    async with attached(galera) as session:
        before = await rows(session, "db1")
        await session.rig.scale(3, lambda text, done=None: None)
        assert synced(session) == {*THREE, "db4"}
        assert await rows(session, "db4") == before
        await session.rig.scale(2, lambda text, done=None: None)
        assert synced(session) == set(THREE)
        assert session.state.protection().state is ProtectionState.PROTECTED


async def test_after_a_crash_of_all_one_by_one_up_brings_the_cluster_back(galera: LiveStack) -> None:
    """Those of its last view find each other; with one of the view before they would all wait forever."""
    async with attached(galera) as session:
        await turn(session, "evs.suspect_timeout=2")
        before = await rows(session, "db1")
        await session.fleet.server_process("db1").kill()
        await until_two_go_on(session, "db2")
        for node in ("db2", "db3"):
            await session.fleet.server_process(node).kill()
        await session.up(lambda *_: None)
        await until_so(session, "all are members", lambda: synced(session) == set(THREE))
        await until_all_have(session, before)
