"""The document of requested values: merged compare-and-set, and never lost."""

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
from replexplorer.engine.requested import (
    Requested,
    SharedMark,
    write_document,
)
from tests.fakes.sidecar import FakeAgent
from tests.fakes.world import World

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
