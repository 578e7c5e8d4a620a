"""A cancel in every round of the loop of a `set`: everything old or everything new, and nothing left dirty.

Rounds are the finest grain: they fall between the awaits of the set's children as well. What a server or an
agent was told before the cancel it may still do afterwards.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from replexplorer.core.event import Severity
from replexplorer.engine.session import Session
from replexplorer.engine.tasks import to_the_end
from tests.fakes.clock import cancelled_in_round, until, virtual
from tests.fakes.world import World
from tests.turning import inject, turn
from tests.typed import table_of

SETTLED_S = 30.0
"""What the servers were told is done by then."""


def snapshot(world: World) -> tuple[dict[str, Any], dict[str, Any]]:
    return world.state(), world.requested


async def ended(session: Session, *texts: str) -> bool:
    """Whether it came to its end."""
    await turn(session, *texts)
    return True


CASES = """\
                      | sync_binlog=0 wait_point=after_commit
                      | replica_parallel_workers=8
                      | semi_sync=on sync_binlog=0
semi_sync=on          | semi_sync=off sync_binlog=0
an unregistered replica | semi_sync=on
                      | rtt=85
rtt=85 semi_sync=on   | rtt=0 sync_binlog=0"""


@pytest.mark.parametrize(("start", "wanted"), table_of(CASES))
def test_a_cancel_leaves_all_old_or_all_new(start: str, wanted: str, stride: int) -> None:
    """In every round in full; else in each fifth, of each case other ones."""
    first = 1 + len(wanted) % stride
    outcomes: list[str] = []
    new: list[object] = []

    @virtual
    async def at(number: int) -> None:
        """0: nowhere."""
        world = World()
        async with world.attached() as session:
            if start == "an unregistered replica":
                world.replica.registered = False
            elif start:
                await ended(session, *start.split())
            old = snapshot(world)
            cancelled = await cancelled_in_round(ended(session, *wanted.split()), number) is None
            await asyncio.sleep(SETTLED_S)
            found = snapshot(world)
            new[:] = new or [found]
            assert found in (old, *new)
            outcomes.append("old" if found == old else "new" if cancelled else "done")
            # Threads run, every connection answers with its own answer, and the same set now succeeds.
            assert (world.replica.io, world.replica.sql) == ("Yes", "Yes")
            for member in session.fleet.members.values():
                for sql in (member.control, member.poll, member.kick):
                    assert await sql.query("SELECT 1") == [{"1": 1}]
                await member.agent.lease()
            await ended(session, *wanted.split())
            assert snapshot(world) == new[0]
        assert not any(world.left())

    at(0)
    assert outcomes.pop() == "done"
    while "done" not in outcomes:
        at(first + stride * len(outcomes))
        assert len(outcomes) < 2000, "it never comes to its end"
    assert outcomes.count("old") * stride > 5
    assert outcomes == sorted(outcomes, key=["old", "new", "done"].index), "an early cancel came late"


def test_cancels_during_the_rollback_do_not_cut_it_short(stride: int) -> None:
    """The last statement fails; whenever cancels come while the others are taken back, they are."""
    late: list[bool] = []

    @virtual
    async def after(seconds: float) -> None:
        world = World()
        async with world.attached() as session:
            old = world.state()
            world.primary.refusals["SET GLOBAL innodb_flush_log_at_trx_commit = 2"] = 1227
            wanted = "sync_binlog=0", "rtt=85", "wait_point=after_commit", "innodb_flush_log_at_trx_commit=2"
            task = asyncio.create_task(turn(session, *wanted))
            await until(lambda: any("innodb_flush" in line for line in world.told()), every_s=0.0001)
            await asyncio.sleep(seconds)
            late.append(task.done())
            while not task.done():
                task.cancel()
                await asyncio.sleep(0.0001)
            assert world.state() == old
            assert world.document.version == 0

    while not any(late):
        after(stride * len(late) * 0.0001)
        assert len(late) < 400, "the rollback never ends"
    assert stride * len(late) > 10


async def test_a_cancelled_change_is_a_mark_that_says_taken_back_and_waits_for_no_far_link(
    world: World, session: Session
) -> None:
    await turn(session, "rtt=4000")
    session.event_log.take_events()
    task = asyncio.create_task(turn(session, "rtt=5000"))
    await asyncio.sleep(1)
    began_s = asyncio.get_running_loop().time()
    task.cancel()
    await asyncio.wait({task})
    assert asyncio.get_running_loop().time() - began_s < 0.1
    assert world.rtt_ms() == pytest.approx(4000.0)
    (event,) = session.event_log.take_events()
    assert "rtt@db2 5000.0 was cancelled and rolled back" in event.text
    assert (event.severity, event.mark) == (Severity.BAD, 2)
    assert [row.title for row in session.event_log.epochs.rows()][2:] == ["rolled back"]


async def test_a_cancel_that_comes_too_late_is_delivered_and_the_change_can_be_undone(
    world: World, session: Session
) -> None:
    task = asyncio.create_task(turn(session, "sync_binlog=0"))
    await until(lambda: "write document" in world.told(), every_s=0.00005)
    task.cancel()
    await asyncio.wait({task})
    assert (task.cancelled(), world.requested) == (True, {"sync_binlog": 0})
    assert world.primary.variables["sync_binlog"] == "0"
    await session.console.undo()
    assert world.primary.variables["sync_binlog"] == "1"


async def test_work_that_goes_to_its_end_hands_a_timeout_on() -> None:
    done: list[str] = []

    async def work() -> None:
        await asyncio.sleep(1)
        done.append("its end")

    async def in_time() -> None:
        async with asyncio.timeout(0.5):
            await to_the_end(work())
            await asyncio.sleep(5)
            done.append("the timeout was lost")

    with pytest.raises(TimeoutError):
        await in_time()
    assert done == ["its end"]


def test_a_fault_of_which_a_cancel_leaves_nothing_known_is_not_recorded() -> None:
    """The document may have it before the answer is there; one that was answered is the caller's to clear."""
    ends: list[bool] = []

    async def injected(session: Session, known: list[str]) -> bool:
        done = await inject(session, "isolate@db1")
        known += [str(each.fault) for each in done]
        await asyncio.sleep(0)
        return True

    @virtual
    async def at(number: int) -> None:
        world, known = World(), list[str]()
        async with world.attached("fault") as session:
            ends.append(await cancelled_in_round(injected(session, known), number) is not None)
            await asyncio.sleep(SETTLED_S)
            assert [str(fault) for fault in (await session.status()).faults] == known, number

    while not any(ends):
        at(len(ends) + 1)
        assert len(ends) < 2000, "it never comes to its end"
