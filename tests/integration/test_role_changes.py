"""Three real servers: links between any two, and roles that change: a killed source is replaced, comes back
by a copy, and is the source again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.link import LinkView
from replexplorer.core.role_change import ChangeKind
from replexplorer.core.server.gtid import gtid_count, parse_gtids, subtract_gtids
from replexplorer.engine.change.role_run import RoleRun, Statements
from replexplorer.engine.session import Session
from replexplorer.ports import LoadSettings, ask, execute
from tests.integration.conftest import LiveStack, a_stack, ids
from tests.integration.sessions import connected, inject
from tests.known import known
from tests.turning import turn
from tests.waiting import until

pytestmark = pytest.mark.docker

ROWS = "SELECT COUNT(*) FROM sandbox.t"
PAIR = "db2:db3"
TAKES_WRITES = "SELECT NOT @@GLOBAL.super_read_only"
EXECUTED = "SELECT REPLACE(@@GLOBAL.gtid_executed, '\n', '')"


@pytest.fixture(scope="module")
def live(docker_client: Any, state_home: Path) -> Iterator[LiveStack]:
    """A source and two replicas, of this file's own."""
    with a_stack("roles", replicas=2) as live:
        yield live


async def test_a_link_between_two_replicas_is_as_real_as_the_source_s(live: LiveStack) -> None:
    async with connected(live, "set") as session:

        async def link(name: str) -> LinkView:
            await session.state.look_at_links([PAIR])
            return known(session.state.link(name))

        async def rtt_ms(name: str) -> float:
            return (await link(name)).rtt_measured_ms or 0.0

        await turn(session, f"rtt@{PAIR}=20ms")
        await until(lambda: rtt_ms(PAIR), "it is slowed", holds=lambda found: 19.0 <= found <= 21.0)
        await until(lambda: rtt_ms("db2"), "no other is", holds=lambda found: 0 < found < 19.0)

        await inject(session, "isolate@db3")
        assert [(await link(name)).partition for name in ("db2", "db3", PAIR)] == ["none", "both", "both"]
        assert (await link(PAIR)).rtt_measured_ms is None
        await session.console.clear()
        await until(lambda: rtt_ms(PAIR), "the delay is as it was", holds=lambda found: found >= 19.0)

        await inject(session, "flap=1/1@db2")
        agent = session.fleet.member("db1").agent
        await until(lambda: link("db2"), "it is down", holds=lambda found: found.is_down)
        await until(lambda: link("db2"), "it is up", holds=lambda found: not found.is_down)
        await until(lambda: link("db2"), "it is down again", holds=lambda found: found.is_down)
        # The cuts are real: probes are lost, and answered in between.
        await until(lambda: agent.link("db2"), holds=lambda state: state.lost > 0 and state.probes > 0)
        assert (await link("db3")).partition == "none"
        [cleared] = await session.console.clear("flap")
        assert str(cleared.fault) == "flap=1/1@db2"
        await live.ready()
        await until(lambda: rtt_ms("db2"), "the link is whole")
        assert (await link("db2")).flap is None
        await turn(session, f"rtt@{PAIR}=0")


async def roles(session: Session) -> dict[str, str]:
    return {node.name: str(node.role) for node in (await session.status()).nodes}


async def insert(live: LiveStack, node: str, rows: int = 1, *, dsn: bool = False) -> None:
    async with live.session(node, dsn=dsn) as cursor:
        for _ in range(rows):
            await cursor.execute("INSERT INTO sandbox.t () VALUES ()")


async def has_rows(live: LiveStack, node: str, number: int) -> None:
    """Wait until a node has them."""
    await until(partial(live.value, node, ROWS), f"{node} has {number}", holds=lambda rows: rows == number)


async def test_a_killed_source_is_replaced_and_comes_back(docker_client: Any, live: LiveStack) -> None:
    def cpu_shares() -> dict[str, int]:
        """The CPU weight of each node's server."""
        return {
            node: docker_client.inspect_container(each)["HostConfig"]["CpuShares"]
            for (node, role), each in ids(docker_client, live.stack.name).items()
            if role == "mysqld"
        }

    async with connected(live, "failover") as session:
        first, *_ = session.fleet.members
        assert cpu_shares() == {"db1": 1024, "db2": 4096, "db3": 4096}
        async with live.session(first) as cursor:
            await cursor.execute("CREATE TABLE sandbox.t (id SERIAL)")
        await insert(live, first)
        await turn(session, "sync_binlog=100", "rtt@db2=2", "rtt@db3=8")
        await has_rows(live, "db2", 1)

        await inject(session, "receiver_stop")
        await insert(live, first, 3)  # which no replica receives
        await session.fleet.server_process(first).kill()
        second = (await session.console.failover()).source
        [third] = {*session.fleet.members} - {first, second}
        assert await roles(session) == {first: "down", second: "primary", third: "replica"}
        assert cpu_shares() == {first: 4096, second: 1024, third: 4096}
        assert await live.value(second, "SELECT @@GLOBAL.sync_binlog") == 100
        await insert(live, second)
        await has_rows(live, third, 2)

        await session.fleet.server_process(first).start()
        await until(lambda: live.value(first, "SELECT 1"), within_s=60)
        assert not await live.value(first, TAKES_WRITES), "it is fenced from its start"
        assert (await roles(session))[first] == "detached"
        with pytest.raises(Exception, match=r"read-only|1290"):
            await insert(live, first, dsn=True)

        back = await session.console.rejoin(first)
        assert (back.rpo.commits, set(back.errant_gtids)) == (3, {first})
        await has_rows(live, first, 2)
        assert await roles(session) == {first: "replica", second: "primary", third: "replica"}
        await session.console.clear()

        again = await session.console.switchover(first)
        assert again.rpo.commits == 0
        assert await roles(session) == {first: "primary", second: "replica", third: "replica"}
        executed = await live.value(first, "SELECT REPLACE(@@GLOBAL.gtid_executed, '\n', '')")
        has_all = f"SELECT GTID_SUBSET('{executed}', @@GLOBAL.gtid_executed)"
        for name in (second, third):
            await until(partial(live.value, name, has_all))
            assert not await live.value(name, TAKES_WRITES)
        knobs = {str(name): view.effective for name, view in (await session.status()).knobs.items()}
        assert (knobs["rtt@db2"], knobs["rtt@db3"], knobs["sync_binlog"]) == (2.0, 8.0, 100)


async def test_a_node_joins_though_the_first_binlogs_are_gone(live: LiveStack) -> None:
    async with connected(live, "up") as session:
        source = session.fleet.source
        await execute(source.control, ("FLUSH BINARY LOGS",))
        (*_, (newest, _size)) = await ask(source.control, source.dialect.binlogs)
        await execute(source.control, (source.dialect.purge_binlogs(newest),))
        await session.rig.scale(3, lambda *_: None)
        assert (await roles(session))["db4"] == "replica"
        await insert(live, source.name)

        await has_rows(live, "db4", await live.value(source.name, ROWS))
        await session.rig.scale(2, lambda *_: None)


async def all_alike(live: LiveStack, session: Session) -> None:
    """Clear every fault, let every node follow again, and wait until all have the same rows."""
    await session.console.clear()
    source = session.fleet.source_name
    for name in session.fleet.replica_names:
        await session.console.rejoin(name)
    for name in session.fleet.replica_names:
        await has_rows(live, name, await live.value(source, ROWS))
    assert [node.diverged for node in (await session.status()).nodes] == [None] * len(session.fleet.members)


async def test_the_one_that_is_asked_for_fetches_what_another_has_first(live: LiveStack) -> None:
    async with connected(live, "failover") as session:
        source, (whole, late) = session.fleet.source_name, session.fleet.replica_names
        has = await live.value(source, ROWS)
        await inject(session, f"receiver_stop@{late}")
        await insert(live, source, 5)
        await has_rows(live, whole, has + 5)
        await inject(session, "kill")

        done = await session.console.failover(late)
        assert (done.source, done.rpo.accepted) == (late, "")
        assert f"fetch 5 transactions of {whole}" in [step.name for step in done.steps]
        assert await live.value(late, ROWS) == has + 5
        await all_alike(live, session)


async def write(live: LiveStack, node: str, *statements: str) -> None:
    """As somebody does by hand on a node that refuses writes, or at the source."""
    async with live.session(node) as cursor:
        refused = not await live.value(node, TAKES_WRITES)
        opens = ("SET GLOBAL super_read_only = OFF",) if refused else ()
        for statement in (*opens, *statements, *(["SET GLOBAL super_read_only = ON"] if refused else [])):
            await cursor.execute(statement)


async def lose_the_end(live: LiveStack, node: str, number: int) -> None:
    """Let a node lack the newest transactions that it numbered itself, and their rows."""
    own = await live.value(node, "SELECT @@GLOBAL.server_uuid")
    executed = await live.value(node, EXECUTED)
    last = parse_gtids(executed)[own][-1][1]
    left = subtract_gtids(executed, f"{own}:{last - number + 1}-{last}")
    await write(
        live,
        node,
        "SET SESSION sql_log_bin = 0",
        f"DELETE FROM sandbox.t ORDER BY id DESC LIMIT {number}",
        "RESET BINARY LOGS AND GTIDS",
        f"SET GLOBAL gtid_purged = '{left}'",
    )


@pytest.mark.in_full
async def test_a_node_that_lost_the_end_of_its_own_log_protects_nothing_until_it_is_copied(
    live: LiveStack,
) -> None:
    """Followed by hand it replicates with its hole for ever: its server leaves out what it numbered."""
    async with connected(live, "failover") as session:
        node = session.fleet.source_name
        await write(live, node, "CREATE TABLE IF NOT EXISTS sandbox.t (id SERIAL)")
        await insert(live, node, 6)
        await turn(session, "semi_sync=on")
        await inject(session, "kill")
        second = (await session.console.failover()).source
        [third] = {*session.fleet.members} - {node, second}
        await session.console.clear()
        has = await live.value(second, ROWS)
        await lose_the_end(live, node, 3)
        run = RoleRun(session.controls, session.driving, ChangeKind.REJOIN)
        await run.follow(Statements(session.fleet.member(node)), session.fleet.member(second))
        await until(partial(live.replicates, node))
        await inject(session, f"receiver_stop@{third}")
        await insert(live, second)
        await until(partial(live.value, node, ROWS), holds=lambda rows: rows == has - 3 + 1)

        status = await session.status()
        seen = next(each for each in status.nodes if each.name == node)
        assert "lost the end of its own log: it lacks 3 transactions" in str(seen.diverged)
        assert (seen.io_thread, seen.lag_s) == ("on", None)
        assert (status.protection.state, status.protection.diverged) == ("armed", (node,))
        with pytest.raises(StackUnavailable, match="lost the end of its own log"):
            await session.console.switchover(node)

        await inject(session, "kill")
        with pytest.raises(StackUnavailable, match=rf"promoting {third} would lose \d+ transaction") as told:
            await session.console.failover()
        assert f"{node} lacks 3 transactions" in str(told.value)
        done = await session.console.failover(third, accept_loss=True)
        assert (done.source, gtid_count(done.rpo.accepted) >= 1) == (third, True)
        assert await live.value(third, ROWS) == has
        await session.console.clear()
        back = await session.console.rejoin(node)
        assert any(step.name == f"copy {third}" for step in back.steps)
        assert any("lost the end of its own log" in warning for warning in back.warnings)
        await turn(session, "semi_sync=off")
        await all_alike(live, session)


async def test_a_source_whose_power_was_cut_comes_back_with_every_row(live: LiveStack) -> None:
    """With nothing flushed it has lost rows, and perhaps the end of its log, that the others have."""
    async with connected(live, "failover") as session:
        source = session.fleet.source_name
        await turn(session, "undo_journal=on", "sync_binlog=0", "innodb_flush_log_at_trx_commit=0")
        await insert(live, source, 20)
        await inject(session, "power_cut=torn")
        await session.console.failover()
        await turn(session, "sync_binlog=1", "innodb_flush_log_at_trx_commit=1")
        await all_alike(live, session)


async def test_a_load_follows_a_failover_and_says_what_it_does_not_know(live: LiveStack) -> None:
    """It comes last: the source stays frozen."""
    async with connected(live, "load") as session, connected(live, "failover") as other:
        await session.drive(LoadSettings(4, "insert", 1000))
        async with session.observed():
            with session.load.listening() as inbox:

                async def commits() -> int:
                    return sum(interval.commits for interval in inbox.take())

                await until(commits, "the load has begun", within_s=30)
                source = session.fleet.source_name
                await other.fleet.server_process(source).pause()
                done = await other.console.failover()
                assert done.source != source
                assert done.rpo.commits is None
                assert "keeps no client log" in str(done.rpo.unknown)
                inbox.take()
                await until(commits, "the load continues at the new source", within_s=30)
                assert session.load.target is not None
                assert session.fleet.source_name == done.source
                assert session.load.fault is None
