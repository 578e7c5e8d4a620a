"""An experiment that runs: nobody else turns a knob meanwhile, in any process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.experiment.experiment import ExperimentProgress, Relation
from replexplorer.core.experiment.lab import Lab, LabResult, Length, Phase, PhaseResult
from replexplorer.core.experiment.sweep import Sweep, read_grid
from replexplorer.core.knobs.names import KnobName
from replexplorer.core.server.protection import ProtectionState
from replexplorer.engine.console import Command
from replexplorer.engine.experiment.lab import LabRun
from replexplorer.engine.outcome import ExperimentUnderWay
from replexplorer.engine.session import Session
from tests.fakes.clock import until, virtual
from tests.fakes.world import World
from tests.turning import sweep, turn

REFUSED = "turns the knobs"


TURNS: dict[str, Callable[[Session], Awaitable[object]]] = {
    "set": lambda session: turn(session, "sync_binlog=0"),
    "reset": lambda session: session.console.reset(),
    "undo": lambda session: session.console.undo(),
}


@pytest.mark.parametrize("verb", TURNS)
@pytest.mark.parametrize("whose", ["another's", "our own"])
def test_turning_is_refused_while_an_experiment_runs(verb: str, whose: str) -> None:
    @virtual
    async def check() -> None:
        world = World()
        async with world.attached("lab tour") as lab, world.attached("set") as other:
            session = lab if whose == "our own" else other
            await turn(session, "rtt=5")
            before = world.requested
            async with lab.turns.measuring("lab", "tour"):
                with pytest.raises(
                    StackUnavailable, match=r"the lab tour \(pid \d+ on \S+\) turns the knobs"
                ):
                    await TURNS[verb](session)
                assert world.requested == before
            await TURNS[verb](session)
            assert world.requested != before

    check()


OTHERS: dict[str, Command[Any]] = {
    "repair": lambda console: console.repair(),
    "scale": lambda console: console.scale(2),
    "give back": lambda console: console.give_back(True),
    "load on and off": lambda console: console.toggle_load(),
}


@pytest.mark.parametrize("what", OTHERS)
@pytest.mark.parametrize("whose", ["another's", "our own"])
def test_what_would_disturb_an_experiment_is_refused_by_every_console(what: str, whose: str) -> None:
    @virtual
    async def check() -> None:
        world = World()
        async with world.attached("lab tour") as lab, world.attached("tui") as other:
            session = lab if whose == "our own" else other
            before = world.state()
            async with lab.turns.measuring("lab", "tour"):
                with pytest.raises(ExperimentUnderWay, match=REFUSED) as refused:
                    await OTHERS[what](session.console)
                assert refused.value.exit_code == 4
                assert refused.value.is_own is (whose == "our own")
                await session.console.mark("seen")
            assert world.state() == before

    check()


@virtual
async def test_scaling_brings_replicas_up_and_takes_them_away() -> None:
    world = World()
    async with world.attached("tui") as session:
        await session.console.scale(2)
        assert len(session.fleet.replicas) == 2
        await session.console.scale(1)
        assert len(session.fleet.replicas) == 1


@virtual
async def test_a_replica_that_joins_gets_what_was_asked_of_all_and_one_that_left_comes_back_fresh() -> None:
    world = World(replicas=2)
    async with world.attached("tui") as session:
        await turn(session, "rtt=20")
        await session.console.scale(3)
        asked = {"rtt@db2": 20.0, "rtt@db3": 20.0, "rtt@db4": 20.0}
        assert world.requested == asked
        assert session.knobs()[KnobName("rtt", "db4")].effective == pytest.approx(20.0)
        await turn(session, "rtt@db4=80")
        await session.console.scale(2)
        assert world.requested == {"rtt@db2": 20.0, "rtt@db3": 20.0}
        await session.console.scale(3)
        assert world.requested == asked


@virtual
async def test_nodes_that_stay_answer_at_every_look_while_a_stack_grows_and_shrinks() -> None:
    world = World()
    async with world.attached("tui") as session:
        stay = tuple(session.fleet.members)
        for replicas in (3, 2, 1):
            await session.console.scale(replicas)
            samples = session.state.samples
            assert {node: samples[node].view.reachable for node in stay} == dict.fromkeys(stay, True)
            assert session.state.protection().state is not ProtectionState.DOWN


@virtual
async def test_an_undo_under_somebody_s_experiment_is_possible_anyway() -> None:
    world = World()
    async with world.attached("lab tour") as lab, world.attached("set") as other:
        await turn(other, "sync_binlog=0")
        async with lab.turns.measuring("lab", "tour"):
            with pytest.raises(ExperimentUnderWay):
                await other.console.undo()
            await other.console.undo(anyway=True)
        assert world.requested == {"sync_binlog": 1}


@virtual
async def test_a_turn_that_waited_while_it_began_is_refused_as_well() -> None:
    world = World()
    async with world.attached("lab tour") as lab, world.attached("set") as other:
        keeper = lab.fleet.keeper
        await keeper.take_turn("lab tour", within_s=1)
        waiting = asyncio.create_task(turn(other, "sync_binlog=0"))
        await until(lambda: len(world.claims.queue("turn")) == 2)
        async with lab.turns.measuring("lab", "tour"):
            await keeper.leave("turn")
            with pytest.raises(StackUnavailable, match=REFUSED):
                await waiting
            await lab.controls.set(dict.fromkeys(lab.console.parse("sync_binlog=0").names, 0))
    assert world.requested == {"sync_binlog": 0}


@virtual
async def test_a_dry_run_and_anyway_are_not_refused() -> None:
    world = World()
    async with (
        world.attached("sweep") as sweep,
        world.attached("set") as other,
        sweep.turns.measuring("sweep", "rtt=0,10"),
    ):
        await turn(other, "sync_binlog=0", dry_run=True)
        assert world.requested == {}
        await turn(other, "sync_binlog=0", anyway=True)
    assert world.requested == {"sync_binlog": 0}


@virtual
async def test_an_experiment_dies_with_its_bridge() -> None:
    world = World()
    async with world.attached("set") as other:
        async with world.attached("lab tour") as lab:
            await lab.fleet.keeper.begin_experiment("lab", "tour", "lab tour")
            with pytest.raises(StackUnavailable, match=REFUSED):
                await turn(other, "sync_binlog=0")
        await turn(other, "sync_binlog=0")
    assert world.requested == {"sync_binlog": 0}


@virtual
async def test_one_experiment_at_a_time_and_the_second_turns_nothing() -> None:
    world = World()
    async with world.attached("lab tour") as lab, world.attached("sweep", beside=True) as other:
        wanted = Sweep(read_grid(["sync_binlog=0,1"], other.console.parse, lambda _: ()))
        told: list[ExperimentProgress] = []
        async with lab.turns.measuring("lab", "tour"):
            with pytest.raises(StackUnavailable, match="the lab tour"):
                await sweep(other, wanted, told.append)
        assert (world.requested, told) == ({}, [])


@virtual
async def test_a_sweep_in_a_dashboard_is_an_experiment_for_all() -> None:
    world = World()
    async with world.started("tui") as dashboard, world.attached("set") as other:
        await until(lambda: dashboard.load.is_running)
        wanted = Sweep(read_grid(["sync_binlog=0,1"], dashboard.console.parse, lambda _: ()), 2.0)
        sweeping = asyncio.create_task(sweep(dashboard, wanted, lambda _: None))
        await until(lambda: world.claims.first("experiment") is not None)
        for session in (other, dashboard):
            with pytest.raises(StackUnavailable, match=r"the sweep sync_binlog=0,1 \(tui, pid \d+"):
                await turn(session, "rtt=10")
        with pytest.raises(StackUnavailable, match=REFUSED):
            await dashboard.console.toggle_load()
        await sweeping
        await turn(other, "rtt=10")
    assert world.requested["rtt@db2"] == 10.0


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


async def during(number: int, session: Session, disturb: Callable[[], Awaitable[object]]) -> LabResult:
    """The lab, disturbed once in the measurement of this phase."""
    steps: list[ExperimentProgress] = []
    task = asyncio.create_task(LabRun(LAB, True, steps.append).run(session.rig))
    await until(lambda: any((step.number, step.doing) == (number, "measuring") for step in steps))
    await asyncio.sleep(5)
    await disturb()
    return await task


@virtual
async def test_a_phase_in_which_a_knob_was_turned_anyway_is_invalid_and_says_what() -> None:
    world = World()
    async with world.attached("lab two") as session, world.attached("set") as other:
        result = await during(2, session, lambda: turn(other, "rtt=10", anyway=True))
    near, far = result.phases
    assert near.invalid is None
    assert far.invalid == f"rtt@db2 50 → 10 ms, by {other.turns.actor.writer}"
    assert (result.verdict, result.relations) == ("aborted", ())
    assert result.aborted == f"changed while it was measured, far: {far.invalid}"


@virtual
async def test_a_knob_that_was_turned_and_turned_back_makes_a_phase_invalid_as_well() -> None:
    world = World()

    async def there_and_back() -> None:
        await turn(other, "rtt=10", anyway=True)
        await turn(other, "rtt=0", anyway=True)

    async with world.attached("lab two") as session, world.attached("set") as other:
        result = await during(1, session, there_and_back)
    assert [each.invalid for each in result.phases] == [
        f"knobs were turned and turned back by {other.turns.actor.writer}",
        None,
    ]


@virtual
async def test_a_variable_set_by_hand_makes_this_phase_and_those_after_it_invalid() -> None:
    world = World()

    async def by_hand() -> None:
        world.primary.variables["sync_binlog"] = "0"

    async with world.attached("lab two") as session:
        result = await during(1, session, by_hand)
    assert [each.invalid for each in result.phases] == ["sync_binlog 1 → 0, by hand"] * 2


@virtual
async def test_a_lab_that_nobody_disturbs_is_valid() -> None:
    world = World()

    async def nothing() -> None:
        """Nothing."""

    async with world.attached("lab two") as session:
        await turn(session, "sync_binlog=0", "clients=3")
        result = await during(1, session, nothing)
    assert [each.invalid for each in result.phases] == [None, None]
    assert result.verdict == "holds"


@pytest.mark.parametrize("by", ["a driver", "an experiment"])
def test_a_refused_lab_restores_nothing_and_claims_nothing_of_the_load(by: str) -> None:
    @virtual
    async def check() -> None:
        world, steps = World(), list[ExperimentProgress]()
        async with world.attached("load") as other, world.attached("lab two") as session:
            await other.drive(other.driving.settings())
            if by == "an experiment":
                await other.fleet.keeper.begin_experiment("sweep", "rtt=0,10", "sweep")
            with pytest.raises(StackUnavailable, match=r"drives the load|turns the knobs"):
                await LabRun(LAB, True, steps.append).run(session.rig)
            assert [step.doing for step in steps] == []
            told = await session.close()
            assert "(2 servers, its load driven by load (pid " in told

    check()
