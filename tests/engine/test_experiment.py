"""An experiment that runs: nobody else turns a knob meanwhile, in any process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.experiment.experiment import ExperimentProgress, Relation
from replexplorer.core.experiment.lab import Lab, Length, Phase, PhaseResult
from replexplorer.core.fault import parse_fault
from replexplorer.core.knobs.names import KnobName
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.topology import new_roster
from replexplorer.engine.console import Command
from replexplorer.engine.experiment.lab import LabRun
from replexplorer.engine.outcome import ExperimentUnderWay
from replexplorer.engine.session import Session
from tests.fakes.clock import until
from tests.fakes.world import TWO_REPLICAS, World
from tests.turning import turn

REFUSED = r"the lab tour \(pid \d+ on \S+\) turns the knobs"


COMMANDS: dict[str, Command[Any]] = {
    "set": lambda console: console.set((console.parse("sync_binlog=0"),)),
    "reset": lambda console: console.reset(),
    "undo": lambda console: console.undo(),
    "repair": lambda console: console.repair(),
    "scale": lambda console: console.scale(2),
    "give back": lambda console: console.give_back(True),
    "load on and off": lambda console: console.toggle_load(),
    "fault": lambda console: console.inject(parse_fault("kill", new_roster(1))),
    "roles": lambda console: console.switchover(),
}


@pytest.mark.parametrize("whose", ["another's", "our own"])
async def test_what_would_disturb_an_experiment_is_refused_by_every_console(whose: str) -> None:
    world, refused = World(), dict[str, bool]()
    async with world.attached("lab tour") as lab, world.attached("tui") as other:
        session = lab if whose == "our own" else other
        await turn(session, "rtt=5")
        before = world.taken
        async with lab.turns.measuring("lab", "tour"):
            for name, command in COMMANDS.items():
                with pytest.raises(ExperimentUnderWay, match=REFUSED) as caught:
                    await command(session.console)
                assert caught.value.exit_code == 4
                refused[name] = caught.value.is_own
            await session.console.mark("seen")
            assert await session.console.clear() == ()
        assert world.taken == before
        assert refused == dict.fromkeys(COMMANDS, whose == "our own")
        await session.console.undo()
        assert world.taken != before


@TWO_REPLICAS
async def test_a_replica_that_joins_gets_what_was_asked_of_all_and_one_that_left_comes_back_fresh(
    world: World, session: Session
) -> None:
    await turn(session, "rtt=20")
    await session.console.scale(3)
    asked = {"rtt@db2": 20.0, "rtt@db3": 20.0, "rtt@db4": 20.0}
    assert world.requested == asked
    assert session.knobs()[KnobName("rtt", "db4")].effective == pytest.approx(20.0)
    await turn(session, "rtt@db4=80")
    await session.console.inject(parse_fault("flap=1/1@db4", session.fleet.roster))
    await session.console.scale(2)
    assert session.state.faults == ()
    assert world.requested == {"rtt@db2": 20.0, "rtt@db3": 20.0}
    assert world.sidecars["db1"].delays.keys() == {"db2", "db3"}
    await session.console.scale(3)
    assert world.requested == asked


async def test_nodes_that_stay_answer_at_every_look_while_a_stack_grows_and_shrinks(session: Session) -> None:
    stay = tuple(session.fleet.members)
    for replicas in (3, 2, 1):
        await session.console.scale(replicas)
        assert len(session.fleet.replicas) == replicas
        samples = session.state.samples
        assert set(samples) == set(session.state.disks) == set(session.fleet.members)
        assert {node: samples[node].view.reachable for node in stay} == dict.fromkeys(stay, True)
        assert session.state.protection().state is not ProtectionState.DOWN


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
            await lab.controls.set(dict.fromkeys(lab.console.parse("sync_binlog=0").names, 0))
    assert world.requested == {"sync_binlog": 0}


async def test_a_dry_run_and_anyway_are_not_refused(world: World) -> None:
    async with world.attached("sweep") as sweep, world.attached("set") as other:
        async with sweep.turns.measuring("sweep", "rtt=0,10"):
            await turn(other, "sync_binlog=0", dry_run=True)
            assert world.requested == {}
            await turn(other, "sync_binlog=0", anyway=True)
            assert world.requested == {"sync_binlog": 0}
            await other.console.undo(anyway=True)
        assert world.requested == {"sync_binlog": 1}


def _judge(phases: Mapping[str, PhaseResult]) -> Sequence[Relation]:
    return (Relation("both were measured", len(phases) == 2, "2 phases"),)


LAB = Lab(
    "two",
    "Two phases",
    "Whether a round trip costs.",
    tuple(
        Phase(name, (f"rtt={rtt_ms}", "clients=1"), Length(10), Length(10), ProtectionState.OFF, "")
        for name, rtt_ms in (("near", 0), ("far", 50))
    ),
    _judge,
)


@pytest.mark.parametrize(
    ("number", "texts", "invalid"),
    [
        (1, (), (None, None)),
        (2, ("rtt=10",), (None, "rtt@db2 50 → 10 ms, by {}")),
        (1, ("rtt=10", "rtt=0"), ("knobs were turned and turned back by {}", None)),
        (1, None, ("sync_binlog 1 → 0, by hand",) * 2),
    ],
    ids=["nobody", "anyway", "and turned back", "by hand, also those after it"],
)
async def test_a_phase_in_which_a_knob_was_turned_anyway_is_invalid_and_says_what(
    number: int, texts: tuple[str, ...] | None, invalid: tuple[str | None, ...]
) -> None:
    world, steps = World(), list[ExperimentProgress]()
    async with world.attached("lab two") as session, world.attached("set") as other:
        task = asyncio.create_task(LabRun(LAB, True, steps.append).run(session.rig))
        await until(lambda: any((step.number, step.doing) == (number, "measuring") for step in steps))
        await asyncio.sleep(5)
        if texts is None:
            world.primary.variables["sync_binlog"] = "0"
        for text in texts or ():
            await turn(other, text, anyway=True)
        result, writer = await task, other.turns.actor.writer
    assert [each.invalid for each in result.phases] == [why and why.format(writer) for why in invalid]
    assert result.verdict == ("aborted" if any(invalid) else "holds")
    if number == 2:
        assert result.relations == ()
        assert result.aborted == f"changed while it was measured, far: {result.phases[1].invalid}"


@pytest.mark.parametrize("by", ["a driver", "an experiment"])
async def test_a_refused_lab_restores_nothing_and_claims_nothing_of_the_load(world: World, by: str) -> None:
    steps: list[ExperimentProgress] = []
    async with world.attached("load") as other, world.attached("lab two") as session:
        await other.drive(other.driving.settings())
        if by == "an experiment":
            await other.fleet.keeper.begin_experiment("sweep", "rtt=0,10", "sweep")
        with pytest.raises(StackUnavailable, match=r"drives the load|turns the knobs"):
            await LabRun(LAB, True, steps.append).run(session.rig)
        assert [step.doing for step in steps] == []
        told = await session.close()
        assert "(2 servers, its load driven by load (pid " in told
