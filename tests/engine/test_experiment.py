"""An experiment that runs: nobody else turns a knob meanwhile, in any process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.experiment.experiment import ExperimentProgress
from replexplorer.core.experiment.lesson import LessonState
from replexplorer.core.experiment.snapshot import PendingRestore
from replexplorer.core.fault import parse_fault
from replexplorer.core.knobs.names import desired_of
from replexplorer.core.link import kept_all
from replexplorer.core.topology import new_roster
from replexplorer.engine.console import Command, Console
from replexplorer.engine.experiment.lab import LabRun
from replexplorer.engine.experiment.restore_guard import restore_guard
from replexplorer.engine.lesson import LessonRun, headless
from replexplorer.engine.outcome import ExperimentUnderWay
from replexplorer.engine.session import Session
from replexplorer.formats.experiment_file import read_lab, read_lesson
from tests.fakes.clock import until
from tests.fakes.world import TWO_REPLICAS, World
from tests.known import known
from tests.turning import inject, turn
from tests.typed import fields, table_of, typed

EXPERIMENTS = Path(__file__).parent / "experiments"
LAB = read_lab(EXPERIMENTS / "near-far.toml")
LESSON = read_lesson(EXPERIMENTS / "ours.toml", lambda *_: pytest.fail("it names none"))
REFUSED = r"the lab tour \(pid \d+ on \S+\) turns the knobs"


COMMANDS: tuple[Command[Any], ...] = (
    lambda console: console.set((console.parse("sync_binlog=0"),)),
    Console.reset,
    Console.undo,
    Console.repair,
    lambda console: console.scale(2),
    lambda console: console.give_back(True),
    Console.toggle_load,
    lambda console: console.inject(parse_fault("kill", new_roster(1))),
    Console.switchover,
)


async def test_what_would_disturb_an_experiment_is_refused_by_every_console(world: World) -> None:
    """By our own as well as by another's."""
    async with world.attached("lab tour") as lab, world.attached("tui") as other:
        await turn(lab, "rtt=5")
        await turn(other, "rtt=6")
        before = world.taken
        async with lab.turns.measuring("lab", "tour"):
            for session in (lab, other):
                for command in COMMANDS:
                    with pytest.raises(ExperimentUnderWay, match=REFUSED) as caught:
                        await command(session.console)
                    assert caught.value.is_own is (session is lab)
                await session.console.mark("seen")
                await turn(session, "sync_binlog=0", dry_run=True)
                assert await session.console.clear() == ()
        assert world.taken == before
        await lab.console.undo()
        assert world.taken != before


@TWO_REPLICAS
async def test_a_replica_that_leaves_takes_all_that_was_for_it_alone(world: World, session: Session) -> None:
    await turn(session, "rtt=20", "rtt@db3=80")
    await inject(session, "flap=1/1@db3")
    await session.console.scale(1)
    samples = session.state.samples
    assert set(samples) == set(session.state.disks) == set(session.fleet.members) == {"db1", "db2"}
    assert (session.state.faults, world.requested) == ((), {"rtt@db2": 20.0})
    assert world.sidecars["db1"].delays.keys() == {"db2"}
    await session.console.scale(2)
    assert world.requested["rtt@db3"] == 20.0, "what all others were asked for"


async def test_a_turn_that_waited_while_it_began_is_refused_as_well(world: World) -> None:
    async with world.attached("lab tour") as lab, world.attached("set") as other:
        keeper = lab.fleet.keeper
        await keeper.take_turn("lab tour", within_s=1)
        waiting = asyncio.create_task(turn(other, "sync_binlog=0"))
        await until(lambda: world.sidecars["db1"]._waiting)
        async with lab.turns.measuring("lab", "tour"):
            await keeper.leave("turn")
            with pytest.raises(StackUnavailable, match=REFUSED):
                await waiting
    assert world.requested == {}


TURNED = """\
1 |
2 | rtt=10
1 | rtt=10 rtt=0
1 | by hand"""


@pytest.mark.parametrize(("number", "texts"), table_of(TURNED))
async def test_a_phase_in_which_a_knob_was_turned_anyway_is_invalid_and_says_what(
    number: str, texts: str, snapshot: object
) -> None:
    """What is turned by hand makes those after it invalid too."""
    world, steps = World(), list[ExperimentProgress]()
    async with world.attached("lab two") as session, world.attached("set") as other:
        task = asyncio.create_task(LabRun(LAB, True, steps.append).run(session.rig))
        await until(lambda: any((step.number, step.doing) == (int(number), "measuring") for step in steps))
        await asyncio.sleep(5)
        if texts == "by hand":
            world.primary.variables["sync_binlog"] = "0"
        else:
            for text in texts.split():
                await turn(other, text, anyway=True)
        result = await task
    invalid = [each.invalid for each in result.phases]
    found = f"{result.verdict}: {result.aborted}; {invalid}; {len(result.relations)} relations"
    assert found.replace(other.turns.actor.writer, "another") == snapshot


# What experiments do to a live stack, where part of it is gone


async def test_replicas_are_attached_again_and_of_them_all_that_live_are_waited_for() -> None:
    """The restoring of a lab whose replica was killed took half a minute more."""
    world, loop = World(replicas=2), asyncio.get_running_loop()
    async with world.attached("lab wan-insert") as session:
        for attached in (1, None, 0):
            await session.rig.attach(attached)
            first = 2 if attached is None else attached
            assert [world.servers[name].registered for name in ("db2", "db3")] == [first > 0, first > 1]
        world.crash("db3")
        await session.rig.look()
        began_s = loop.time()
        await session.rig.attach(None)
        assert loop.time() - began_s < 5
        assert world.servers["db2"].registered


# An experiment whose app was killed: the next command gives back what it owes the stack


async def leave_a_mess(session: Session) -> None:
    """What a drill has done to the stack when it is killed."""
    rig = session.rig
    desired = desired_of([rig.controls.parse("sync_binlog=0"), rig.controls.parse("rtt=20")])
    turned = kept_all(desired, rig.seen.roster)
    await rig.record(PendingRestore("drill", "mess", "db1", {"sync_binlog": 100, "rtt@db1:db2": 5.0}, turned))
    await rig.controls.set(desired)
    await rig.inject("partition=ack")
    await rig.inject("receiver_stop")


def told(session: Session) -> list[str]:
    return [event.text for event in session.event_log.take_events() if "interrupted" in event.text]


async def experiment(session: Session) -> None:
    async with restore_guard(session.rig, "lab", "next", check=lambda _: None):
        pass


NEXT: dict[str, Callable[[Session], Awaitable[object]]] = {
    "the dashboard": lambda session: session.start(lambda *_: None),
    "up": lambda session: session.up(lambda *_: None),
    "an experiment": experiment,
    "set": lambda session: turn(session, "clients=3"),
    "a load": lambda session: session.drive(session.driving.settings()),
}


@pytest.mark.parametrize("command", NEXT)
async def test_the_next_command_rolls_it_back_and_says_so(world: World, command: str) -> None:
    async with world.attached("set") as session:
        await turn(session, "sync_binlog=100", "rtt=5")
    async with world.attached("drill mess") as session:
        await leave_a_mess(session)
    session = world.session("tui")
    if command != "the dashboard":
        await session.attach()
        assert (await session.status()).interrupted == "drill mess"
    await NEXT[command](session)
    assert (session.state.requested.owed, session.state.requested.faults) == (None, ())
    assert (world.requested["sync_binlog"], world.requested["rtt@db2"]) == (100, 5)
    assert (world.primary.variables["sync_binlog"], world.replica.io != "off") == ("100", True)
    [line] = told(session)
    assert "the drill mess was interrupted" in line
    await session.close()


async def test_nothing_is_touched_while_the_experiment_runs(world: World, session: Session) -> None:
    async with session.rig.reserved("drill", "mess"):
        await leave_a_mess(session)
        async with world.started("tui") as other:
            assert (told(other), (await other.status()).interrupted) == ([], None)
            assert other.state.requested.owed is not None
            assert len(other.state.requested.faults) == 2


async def test_a_drill_that_was_killed_after_its_failover_has_its_first_source_and_knobs_back() -> None:
    world = World(replicas=2)
    async with world.attached("drill lost") as session:
        rig, before = session.rig, {"rtt@db1:db2": 5.0, "rtt@db1:db3": 5.0}
        await rig.record(PendingRestore("drill", "lost", "db1", before, dict.fromkeys(before, 20.0)))
        await rig.controls.set(desired_of([rig.controls.parse("rtt=20")]))
        await rig.inject("kill")
        assert (await rig.roles.failover(anyway=True)).source != "db1"
    async with world.brought_up() as session:
        assert (session.fleet.source_name, session.state.requested.owed) == ("db1", None)
        assert "db1 is the source again" in told(session)[0]
    assert (world.rtt_ms("db2"), world.rtt_ms("db3")) == pytest.approx((5.0, 5.0))


async def test_a_copy_that_cannot_be_made_stays_owed_and_the_next_start_makes_it(world: World) -> None:
    async with world.attached("drill cut") as session:
        await session.rig.record(
            PendingRestore("drill", "cut", "db1", {"sync_binlog": 100}, {"sync_binlog": 0}, ("db2", "db7"))
        )
    world.servers["db2"].refusals["CLONE"] = 3862
    async with world.brought_up() as session:
        owed = known(session.state.requested.owed)
        assert (owed.before, owed.differing) == ({}, ("db2",))
        assert told(session)[0].endswith("refused by the test): `replexplorer up` tries again")
    world.servers["db2"].refusals.clear()
    async with world.brought_up() as session:
        assert session.state.requested.owed is None
        assert told(session)[0].endswith("; db2 has a copy of db1")
    assert {node for node, what in world.changes if what.startswith("CLONE INSTANCE")} == {"db2"}


STILL = """\
sync_binlog=0 rtt@db2=20 | sync_binlog=1 rtt@db2=0
sync_binlog=5 rtt@db2=40 | rtt@db2=0
sync_binlog=0 rtt@db2=30 | sync_binlog=1"""


def test_what_somebody_has_asked_since_stays() -> None:
    """It was killed before or after the request for 40 ms was written."""
    before, turned = fields("sync_binlog=1 rtt@db1:db2=0.0"), fields("sync_binlog=0 rtt@db1:db2=20.0")
    owed = PendingRestore("drill", "mess", "db1", before, turned, turning={"rtt@db1:db2": 40.0})
    for asked, left in table_of(STILL):
        assert owed.still(typed(asked).__getitem__, new_roster(1)) == typed(left)


# A lesson: what it hides, goes back to, and leaves behind


def run_on(session: Session) -> LessonRun:
    return LessonRun(
        LESSON,
        session.console,
        named=lambda *_: pytest.fail("none is named"),
        watch=lambda: None,
        clock=session.outside.clock,
    )


async def test_a_class_goes_through_it_and_back(world: World, session: Session) -> None:
    before, run, states = world.taken, run_on(session), list[LessonState]()
    run.watch = lambda: states.append(run.state)
    await run.begin()
    await run.next()
    assert (run.step.name, run.is_open, session.load.is_running) == ("near", True, True)
    with pytest.raises(UsageError, match="the question is open"):
        await run.next()
    with pytest.raises(UsageError, match="not a number"):
        await run.answer("many")
    answered = await run.answer("1000")
    assert (answered.given, answered.is_right) == (1000.0, False)
    await run.next()
    await inject(session, "kill@db1")
    await run.reset()
    assert (run.step.name, world.requested["rtt@db2"], session.load.is_running) == ("far", 20.0, True)
    await run.back()
    assert (run.step.name, run.is_open, run.answers, world.requested["rtt@db2"]) == ("near", True, [], 0.0)
    await run.end()
    assert (world.taken, session.load.is_running) == (before, False)
    assert ("near", True) in [(state.step, state.is_open) for state in states]


async def test_without_a_class_its_own_answers_are_judged(world: World, session: Session) -> None:
    result = await headless(run_on(session), lambda _: None)
    assert [each.is_right for each in result.answers] == [True, True], result.answers
    assert result.verdict == "holds"
    assert result.figures["near.tps"] > 2 * result.figures["far.tps"]
