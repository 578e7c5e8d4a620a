"""What the stack keeps for all apps outlives any one sidecar, the source's too."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.experiment.snapshot import PendingRestore
from replexplorer.core.fault import Fault
from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.role_change import ChangeKind, UnderWay
from replexplorer.core.server.exposure import Alone
from replexplorer.core.topology import SOURCE, new_roster
from replexplorer.core.wire import Document
from replexplorer.engine.fleet import Fleet
from replexplorer.engine.requested import Requested, SharedMark, write_document
from replexplorer.engine.shared_state import SharedState
from tests.fakes.clock import VirtualClock, until
from tests.fakes.sidecar import GRACE_S, FakeAgent
from tests.fakes.world import TWO_REPLICAS, World


def an_app(world: World, pid: int) -> tuple[SharedState, list[FakeAgent]]:
    agents = [FakeAgent(sidecar, pid) for sidecar in world.sidecars.values()]
    return SharedState(lambda: agents, VirtualClock()), agents


async def test_a_killed_sidecar_costs_nothing_that_was_held_through_it() -> None:
    world = World(replicas=2)
    (mine, _), (other, others) = an_app(world, 1), an_app(world, 2)
    assert await mine.take_lease("tui") is None
    assert await mine.take_turn("tui", within_s=1) is None
    assert await mine.begin_experiment("lab", "tour", "tui") is None
    await other.lease()
    for version, node in enumerate(("db1", "db2")):  # what was taken again is taken again
        world.sidecars[node].stop()
        assert await mine.write_document(version, {"knobs": {}}) is not None
        assert await other.take_lease("load") is not None
        assert await other.take_turn("load", within_s=0) is not None
        await asyncio.sleep(2 * GRACE_S)
        assert world.holder("lease").holder == "tui"
        assert world.holder("turn").holder == "tui"
        assert world.holder("experiment").holder == "tui"
    assert others[2] in world.sidecars["db3"]._bridges
    await mine.close()
    assert await other.take_lease("load") is None
    await other.close()


async def test_while_no_agent_answers_it_is_tried_until_one_does(world: World) -> None:
    mine, _ = an_app(world, 1)
    assert await mine.begin_experiment("lab", "tour", "tui") is None
    for sidecar in world.sidecars.values():
        sidecar.stop()
    with pytest.raises(StackUnavailable, match="no agent on db1"):
        await mine.document()
    await asyncio.sleep(10 * GRACE_S)
    assert world.holder("experiment") is None
    world.sidecars["db2"].boot()
    await until(lambda: world.holder("experiment") is not None)
    await mine.close()
    assert world.holder("experiment") is None


async def test_what_another_took_meanwhile_stays_anothers(world: World) -> None:
    (mine, _), (other, _) = an_app(world, 1), an_app(world, 2)
    assert await mine.take_lease("tui") is None
    for sidecar in world.sidecars.values():
        sidecar.stop()
    await asyncio.sleep(2 * GRACE_S)
    for sidecar in world.sidecars.values():
        sidecar.boot()
    assert await other.take_lease("load") is None
    await asyncio.sleep(2 * GRACE_S)
    assert world.holder("lease").holder == "load"
    await mine.close()
    assert world.holder("lease").holder == "load"
    await other.close()


async def test_what_is_given_back_while_it_is_taken_again_is_free() -> None:
    for at_ms in range(0, 30, 2):
        world = World()
        (mine, _), (other, _) = an_app(world, 1), an_app(world, 2)
        assert await mine.take_turn("tui", within_s=1) is None
        world.sidecars["db1"].stop()
        await asyncio.sleep(at_ms / 1000)
        await mine.leave("turn")
        assert await other.take_turn("set", within_s=0.1) is None
        await other.close()


async def test_what_is_ours_is_given_back_though_its_agent_failed_at_a_write(world: World) -> None:
    (mine, _), (other, _) = an_app(world, 1), an_app(world, 2)
    assert await mine.begin_experiment("lab", "tour", "tui") is None
    world.trouble_at = len(world.changes)
    assert await mine.write_document(0, {"knobs": {}}) is not None
    await mine.leave("experiment")
    assert await other.begin_experiment("lab", "next", "tui") is None
    await mine.close()
    await other.close()


async def test_a_call_that_no_agent_can_take_is_the_first_ones_error(world: World) -> None:
    mine, agents = an_app(world, 1)
    agents.clear()
    with pytest.raises(StackUnavailable, match="no stack is attached"):
        await mine.lease()
    await mine.leave("turn")
    await mine.close()


# The fleet: members come from Docker, stay while their place stays, and close wholly


@pytest.fixture
async def fleet(world: World) -> Fleet:
    """One that has found its members."""
    fleet = Fleet(world.outside())
    await fleet.discover()
    return fleet


@TWO_REPLICAS
async def test_members_are_the_nodes_in_their_order_and_stay(world: World, fleet: Fleet) -> None:
    members = dict(fleet.members)
    assert list(members) == ["db1", "db2", "db3"]
    assert fleet.replica_names == ("db2", "db3")
    assert fleet.source.name == "db1"
    world.crash("db2")
    await fleet.discover()
    assert dict(fleet.members) == members
    assert not fleet.member("db2").address.server_running
    assert len(world.sqls) == 4 * 3


@TWO_REPLICAS
async def test_while_members_are_exchanged_the_primary_never_is_missing(world: World, fleet: Fleet) -> None:
    world.moved = {"db1": "10.0.0.97", "db2": "10.0.0.98"}
    discovering = asyncio.create_task(fleet.discover())
    while not discovering.done():
        assert fleet.source.name == "db1"
        assert len(fleet.replicas) == 2
        await asyncio.sleep(0.0001)
    await discovering


async def test_close_leaves_no_connection_and_no_bridge_though_one_fails(world: World, fleet: Fleet) -> None:
    for member in fleet.members.values():
        await asyncio.gather(
            member.control.query("SELECT 1"), member.poll.query("SELECT 1"), member.agent.lease()
        )
    assert world.open_connections() == 4

    async def fail() -> None:
        raise OSError("the socket is gone")

    fleet.source.kick.close = fail  # type: ignore[method-assign]
    await fleet.close()
    assert (world.open_connections(), world.open_bridges()) == (0, 0)
    await fleet.close()


async def test_only_the_nodes_of_one_host_keep_what_all_apps_share() -> None:
    world = World(replicas=2)
    world.keepers = {"db2"}
    fleet = Fleet(world.outside())
    await fleet.discover()
    assert await fleet.keeper.take_lease("one") is None
    lease = await fleet.keeper.lease()
    assert lease is not None
    assert lease.holder == "one"
    world.sidecars["db2"].stop()
    with pytest.raises(StackUnavailable):
        await fleet.keeper.document()
    await fleet.close()


# The document of requested values: merged compare-and-set, and never lost

ROSTER = new_roster(2)
SYNC = KnobName("sync_binlog", SOURCE)
RTT = KnobName("rtt", "db2")


async def write_requested(
    agent: FakeAgent, values: Mapping[KnobName, Value], writer: str, yes_tx: int | None = None
) -> Requested:
    return await write_document(
        agent, ROSTER, lambda now: now.asking(values, ROSTER, writer, 1000.5).enabling(yes_tx, 1000.5)
    )


async def read_requested(agent: FakeAgent) -> Requested:
    return Requested.read(await agent.document(), ROSTER)


def an_agent(world: World, pid: int = 1) -> FakeAgent:
    return FakeAgent(world.sidecars["db1"], pid)


async def test_writes_merge_and_versions_grow(world: World) -> None:
    agent = an_agent(world)
    await write_requested(agent, {SYNC: 0}, writer="a", yes_tx=7)
    after = await write_requested(agent, {RTT: 85.0}, writer="b")
    assert (after.version, after.values) == (2, {SYNC: 0, RTT: 85.0})
    assert (after.yes_tx_at_enabling, after.writer) == (7, "b")
    assert await read_requested(agent) == after
    assert world.document.content["knobs"] == {"sync_binlog": 0, "rtt@db1:db2": 85.0}


async def test_two_apps_that_write_at_once_lose_nothing() -> None:
    world = World(replicas=2)
    names = [KnobName("sync_relay_log", node) for node in ("db2", "db3")]
    names += [SYNC, RTT]
    await asyncio.gather(
        *(
            write_requested(an_agent(world, pid), {name: pid}, writer=f"app {pid}")
            for pid, name in enumerate(names, 1)
        )
    )
    assert world.requested == {str(name): pid for pid, name in enumerate(names, 1)}
    assert world.document.version == 4


async def test_what_another_version_wrote_is_kept_and_not_believed(world: World) -> None:
    world.document.version = 3
    world.document.content = {
        "knobs": {"sync_binlog": 0, "colour@db2": 1.5, "rtt@db2": "far", "semi_sync": None, "rtt": 5},
        "theme": "dark",
    }
    requested = await write_requested(an_agent(world), {KnobName("clients", "load"): 4}, writer="us")
    assert requested.values == {SYNC: 0, KnobName("clients", "load"): 4}
    assert world.requested["colour@db2"] == 1.5
    assert world.document.content["theme"] == "dark"


class Contended(FakeAgent):
    """Somebody else always writes in between."""

    async def write_document(self, expect_version: int, content: Mapping[str, Any]) -> Document | None:
        """Write first, then lose."""
        await super().write_document(expect_version, {"knobs": {}})
        return await super().write_document(expect_version, content)


async def test_a_document_that_never_stays_is_an_error(world: World) -> None:
    with pytest.raises(StackUnavailable, match="being written by another app: try again"):
        await write_requested(Contended(world.sidecars["db1"], 1), {SYNC: 0}, writer="us")


class Forgetful(FakeAgent):
    """Writes, and loses the first answers."""

    losses = 1

    async def write_document(self, expect_version: int, content: Mapping[str, Any]) -> Document | None:
        """The bridge ends after the write."""
        written = await super().write_document(expect_version, content)
        if self.losses:
            self.losses -= 1
            raise StackUnavailable("the bridge to db1 was lost")
        return written


async def test_a_write_whose_answer_was_lost_is_made_again(world: World) -> None:
    agent = Forgetful(world.sidecars["db1"], 1)
    values: dict[KnobName, Value] = {SYNC: 0, RTT: 85.0}
    assert (await write_requested(agent, values, writer="us")).values == values
    agent.losses = 2
    with pytest.raises(StackUnavailable, match="was lost"):
        await write_requested(agent, {SYNC: 10}, writer="us")


FAULT = Fault(3, "partition", "ack", "db2", 1000.5, None, "fault (pid 7)", {"partition@db2": "none"})
RECORDS = (
    (
        "owed",
        PendingRestore(
            "drill", "x", "db1", {"sync_binlog": 1}, {"sync_binlog": 0}, ("db2",), writer="drill (pid 7)"
        ),
    ),
    ("role_change", UnderWay(ChangeKind.FAILOVER, "db1", "db2", "promote", "failover (pid 7)", 1000.5)),
    ("alone", Alone("uuid:1-9", 2, "db1", 1000.5)),
)


async def test_what_is_kept_is_read_as_it_was_written_and_what_cannot_be_read_is_left_out() -> None:
    agent = an_agent(World())
    flap = replace(FAULT, number=4, kind="flap", value="2/0.5", before={}, links=("db1:db2",))
    mark = SharedMark("id", "look here", "tui (pid 7)")
    kept: dict[str, Any] = {"faults": (FAULT, flap), "marks": (mark,), **dict(RECORDS)}
    await write_document(agent, ROSTER, lambda now: replace(now, **kept))
    found = await read_requested(agent)
    assert {key: getattr(found, key) for key in kept} == kept
    for rubbish in (None, 3, "x", [], {}, [3, {}, {"number": "x"}], {"kind": "merger"}):
        content = dict.fromkeys(("faults", "marks", "owed", "role_change", "alone"), rubbish)
        assert Requested.read(Document(1, content), ROSTER) == Requested(version=1)
