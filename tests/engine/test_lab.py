"""Running a lab: its figures and relations, and the knobs given back whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from replexplorer.cli.experiment import LABS
from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.experiment.experiment import ExperimentProgress, Relation
from replexplorer.core.experiment.lab import GAVE_WAY, REFUSED, RETRIED, LabResult, PhaseResult, Phases
from replexplorer.core.experiment.relations import Claim, Found
from replexplorer.core.experiment.snapshot import Snapshot
from replexplorer.core.history.series import History
from replexplorer.core.server.node_view import Membership
from replexplorer.core.system import GALERA, System
from replexplorer.core.topology import Belonging
from replexplorer.engine.experiment.lab import LabRun, OnStack, SystemsRun
from replexplorer.engine.experiment.lab_tables import bulk_load_of
from replexplorer.engine.experiment.phase import Act
from replexplorer.engine.experiment.run import Conductor
from replexplorer.engine.session import Session
from replexplorer.formats.experiment_file import read_lab
from tests.engine.test_drill import report_of
from tests.fakes.clock import until
from tests.fakes.recorder import FakeRecorder
from tests.fakes.stack import FakeStack, stack_of
from tests.fakes.world import World
from tests.known import known
from tests.turning import turn

BEFORE = ("sync_binlog=100", "rtt=5", "clients=3")
EXPERIMENTS = Path(__file__).parent / "experiments"
LAB, OF_TWO_SYSTEMS = (read_lab(EXPERIMENTS / f"{name}.toml") for name in ("two", "three"))


FASTER = Claim("async is faster", "async.tps", "semi-sync.tps", ">", unit="TPS")


@pytest.mark.parametrize("share", [0.4, 0.97, None], ids=["idle", "busy", "not measured"])
async def test_a_lab_measures_judges_and_gives_the_knobs_back(
    world: World, session: Session, share: float | None, snapshot: object
) -> None:
    """A busy machine may explain that it deviates."""

    def judge(phases: Phases) -> list[Relation]:
        return [*LAB.judge(phases), FASTER.judge(Found(phases))]

    world.sidecars["db1"].machine_share = share
    await turn(session, *BEFORE)
    before = world.taken
    result = await LabRun(replace(LAB, judge=judge), True).run(session.rig)
    assert world.taken == before
    assert [each.machine_percent for each in result.phases] == [share and pytest.approx(100 * share)] * 2
    assert ([each.limited for each in result.phases], report_of(result)) == snapshot


def test_each_step_of_the_tour_turns_one_knob() -> None:
    """So that each row of the epoch ledger has one cause: relaxed fsync went back to AFTER_SYNC as well."""
    assert {len(phase.settings) for phase in LABS.named("tour").phases[1:]} == {1}


async def test_the_last_tick_that_is_recorded_is_of_the_end(world: World) -> None:
    """The tour ended in a green PROTECTED over semi-sync switched off."""
    recorder = world.recorder = FakeRecorder()
    async with world.attached("lab two") as session, session.observed():
        await session.console.run(LabRun(LAB, quick=True))
    last = recorder.ticks[-1]
    effective = {name.key: view.effective for name, view in last.knobs.items()}
    assert (effective["semi_sync"], last.protection.state) == ("off", "off")
    assert effective["clients"] is None, "no load runs any more"


async def test_full_mode_goes_through_the_phases_three_times_in_turn(world: World, session: Session) -> None:
    """The first phase finds again what it does not set itself."""
    found: dict[tuple[int, int], int] = {}
    relaxed = replace(LAB.phases[1], name="relaxed", settings=("sync_relay_log=1",))

    def watch(step: ExperimentProgress) -> None:
        if step.doing == "measuring":
            found[step.repeat, step.number] = world.requested["sync_relay_log@db2"]

    await turn(session, *BEFORE, "sync_relay_log=100")
    result = await LabRun(replace(LAB, phases=(*LAB.phases, relaxed)), False, watch).run(session.rig)
    assert (result.repeats, result.verdict) == (3, "holds")
    assert [*found] == [(turn, number) for turn in (1, 2, 3) for number in (1, 2, 3)]
    assert [*found.values()] == [100, 100, 1] * 3
    first = result.phases[0]
    assert (len(first.repeats), first.tps_interval is not None) == (3, True)
    assert first.service.count == sum(each.service.count for each in first.repeats)


async def test_a_presenter_holds_the_next_phase_and_aborts_it_with_what_was_measured(
    world: World, session: Session
) -> None:
    await turn(session, *BEFORE)
    before, conductor, steps = world.taken, Conductor(), list[ExperimentProgress]()
    task = asyncio.create_task(LabRun(LAB, True, steps.append, conductor).run(session.rig))
    conductor.toggle()
    await until(lambda: steps and steps[-1].doing == "waiting for the next one")
    await asyncio.sleep(20)
    assert (task.done(), steps[-1].number, world.running_loads()) == (False, 1, 1)
    conductor.next()
    await until(lambda: (steps[-1].number, steps[-1].doing) == (2, "measuring"))
    conductor.abort()
    task.cancel()
    result = await task
    assert (result.verdict, result.aborted, task.cancelling()) == ("aborted", "ended by hand", 0)
    assert [phase.phase.name for phase in result.phases] == ["async"]
    assert (result.relations, result.unrestored, world.taken) == ((), (), before)


@pytest.mark.parametrize("what", ["node", "load"])
async def test_a_node_or_a_load_that_dies_aborts_the_lab_and_what_can_be_given_back_is(
    world: World, session: Session, what: str, snapshot: object
) -> None:
    await turn(session, *BEFORE)
    task = asyncio.create_task(LabRun(LAB, True).run(session.rig))
    await until(lambda: world.primary.enabled)
    if what == "load":
        world.loads[0].die()
    else:
        world.crash("db2")
        world.sidecars["db2"].stop()
    result = await task
    assert (result.verdict, result.aborted, result.unrestored) == snapshot


@pytest.mark.costly("it plays a whole lab, tick by tick")
async def test_a_phase_s_row_of_the_ledger_is_its_result_and_between_phases_the_charts_have_a_gap() -> None:
    """Measured 10.1 TPS, and the row went on collecting to 41.9."""
    world, history = World(), History()
    recorder = world.recorder = FakeRecorder()
    async with world.attached("lab tour") as session, session.observed():
        await session.drive(session.driving.settings())
        await asyncio.sleep(5)
        result = await session.console.run(LabRun(LABS.named("tour"), quick=True))
        await asyncio.sleep(10)
        rows = {row.title: row for row in session.event_log.epochs.rows()}
    ticks = recorder.ticks
    for tick in ticks:
        history.feed(tick)
    assert (result.verdict, result.aborted) == ("holds", None)
    assert [phase.protection.state for phase in result.phases] == [
        "off", *["protected"] * 6, "blocked", "protected",
    ]  # fmt: skip
    for phase in result.phases:
        row, is_cut = rows[phase.name], phase.name == "partition"
        after = known(row.after)
        assert row.n == phase.service.count
        assert row.after_tps == pytest.approx(phase.tps)
        assert after.length_s == pytest.approx(phase.duration_s)
        assert bool(after.outage) is is_cut is (phase.rtt is None)
    told = " ".join(event.text for tick in ticks for event in tick.events)
    assert "DEGRADED" not in told, "what setting and restoring pass through is no outage"
    assert "BLOCKED" in told
    assert ticks[-1].protection.unprotected == 0
    rests = {
        tick.at_s for tick in ticks if tick.load and tick.load.state == "running" and not tick.load.clients
    }
    assert {point.tps for point in history.points if point.at_s in rests} == {None}


@pytest.mark.parametrize(
    "name", [lab.name for lab in LABS.shipped().values() if not any(p.play for p in lab.phases)]
)
async def test_every_lab_runs_to_its_end_and_gives_everything_back(
    world: World, session: Session, name: str
) -> None:
    """Whether its relations hold is for real servers to say: the model has no fsync and no row locks."""
    lab, numbers = LABS.named(name), set[int]()
    await turn(session, *BEFORE)
    before = world.taken
    result = await LabRun(lab, True, lambda step: numbers.add(step.number)).run(session.rig)
    assert (result.aborted, result.unrestored, world.taken) == (None, (), before)
    assert [each.phase for each in result.phases] == list(lab.phases)
    assert numbers >= set(range(1, len(result.phases) + 1))


class Applying(FakeStack):
    """Its replicas apply one transaction a look; members of a group do so by their own numbers."""

    left = -1
    """What db3 had to apply when replicas were cut off last."""

    async def look(self, *, probe: bool = False, with_gtids: bool = False) -> Snapshot:
        if self.members:
            waiting = known(self.members["db2"].to_apply)
            self.members["db2"] = replace(self.members["db2"], to_apply=max(0, waiting - 1))
        else:
            for server in self.world.servers.values():
                server.missing = max(0, server.missing - 1)
        return await super().look(probe=probe, with_gtids=with_gtids)

    async def attach(self, replicas: int | None) -> None:
        if replicas is not None:
            self.left = self.world.servers["db3"].missing
        await super().attach(replicas)


@pytest.mark.parametrize("replicas", [None, 1])
async def test_a_phase_begins_and_a_replica_is_cut_off_when_it_has_applied_what_came_before(
    replicas: int | None,
) -> None:
    """It took 0.7 of a core from the phases without it, for the 30,000 rows of the phase before them."""
    phase = replace(LAB.phases[0], replicas=replicas)
    async with stack_of(kind=Applying, replicas=2) as stack:
        stack.world.servers["db3"].missing = 20
        result = await LabRun(replace(LAB, phases=(phase,), judge=lambda _: ()), True).run(stack)
        assert stack.world.servers["db3"].missing == 0
        assert stack.left == (-1 if replicas is None else 0)
    assert result.phases[0].limited is None


OF_GALERA = replace(OF_TWO_SYSTEMS.on("galera"), phases=OF_TWO_SYSTEMS.on("galera").phases[:1])
MEMBER = Membership(Belonging.MEMBER, "Synced", size=2, answering=2, to_apply=0, conflicts=5, gave_way=1)


async def test_a_phase_begins_when_nothing_waits_at_the_members_and_has_what_they_count_from_then_on() -> (
    None
):
    """However they number what waits. What they count is among its figures."""
    async with stack_of(
        GALERA, Applying, members={"db1": MEMBER, "db2": replace(MEMBER, to_apply=7)}
    ) as stack:
        stack.world.replica.missing = 20  # by their GTIDs db2 lacks all of them

        def count(now: ExperimentProgress) -> None:
            if now.doing == "measuring":
                assert stack.members["db2"].to_apply == 0
                stack.members["db2"] = replace(MEMBER, conflicts=8, gave_way=5)

        began_s = stack.clock.monotonic()
        [found] = (await LabRun(OF_GALERA, True, count).run(stack)).phases
        assert stack.clock.monotonic() - began_s < 20
    assert (found.limited, found.figures) == (None, {RETRIED: 0, REFUSED: 3, GAVE_WAY: 4})


async def test_no_client_inserts_while_a_dump_is_inserted() -> None:
    """The first phase asked for a client, which inserted rows of its own."""
    inserting: set[int] = set()

    def answer(node: str, statement: str) -> Sequence[Mapping[str, object]]:
        if statement.startswith("INSERT"):
            inserting.add(known(stack.load.settings).clients)
        return ()

    dump = bulk_load_of(
        LABS.named("bulk-load"), lambda: iter(["(1,'1953-09-02','a','b','M','1986-06-26')"] * 20)
    )
    async with stack_of(replicas=2, answer=answer) as stack:
        result = await LabRun(dump, quick=True).run(stack)
        assert all(sql.closed for sql in stack.sqls)
    assert (result.aborted, inserting) == (None, {0})
    assert {phase.service.count for phase in result.phases} == {20}


async def test_a_script_s_phase_has_no_ceiling() -> None:
    """archive told 0.0 TPS: the phase before it had committed nothing that a mean could be taken of."""

    async def nothing(act: Act) -> PhaseResult:
        return PhaseResult(act.phase)

    first, second = (replace(phase, play=nothing) for phase in LAB.phases)
    second = replace(second, settings=("semi_sync=on", "clients=4"))
    async with stack_of() as stack:
        result = await LabRun(replace(LAB, phases=(first, second), judge=lambda _: ())).run(stack)
    assert [(each.clients, each.ceiling_tps, each.measured_tps) for each in result.phases] == [
        (1, None, None), (4, None, None),
    ]  # fmt: skip


# A lab that compares systems: a part on a stack of each, and one result of all that was measured


def stacks(made: list[str], failing: str = "") -> OnStack:
    """What makes a stack a system, and notes which and for what."""

    async def make(system: System, part: LabRun) -> LabResult:
        made.append(f"{system.name} for {', then '.join(phase.name for phase in part.lab.phases)}")
        if system.name == failing:
            raise StackUnavailable("no image", "build one")
        async with stack_of(system) as stack:
            return replace(await part.run(stack), server=f"server of {system.name}")

    return make


async def test_each_system_has_a_stack_for_its_phases_and_all_is_judged_together(snapshot: object) -> None:
    """Repeats take turns within a system, and are judged by their interval."""
    made, steps = list[str](), list[ExperimentProgress]()
    result = await SystemsRun(OF_TWO_SYSTEMS, True, steps.append, repeats=3).run(stacks(made))
    measured = [(each.name, each.server, len(each.repeats)) for each in result.phases]
    assert (made, measured, report_of(result)) == snapshot
    numbers = [step.number for step in steps if step.doing == "measuring"]
    assert list(dict.fromkeys(numbers)) == [1, 2, 3], "phases are counted through"
    assert {step.experiment for step in steps} == {OF_TWO_SYSTEMS}
    assert steps[0].left_s == pytest.approx(OF_TWO_SYSTEMS.seconds(quick=True, repeats=3) - 20, abs=5)


async def test_a_system_that_cannot_be_had_ends_it_with_what_was_measured_if_anything_was(
    snapshot: object,
) -> None:
    with pytest.raises(StackUnavailable, match="no image"):
        await SystemsRun(OF_TWO_SYSTEMS, True).run(stacks([], "async"))
    result = await SystemsRun(OF_TWO_SYSTEMS, True).run(stacks([], "galera"))
    assert report_of(result) == snapshot


async def test_a_stack_that_is_there_is_not_what_it_runs_on() -> None:
    async with stack_of() as stack:
        with pytest.raises(UsageError, match="three cannot run here") as refused:
            await LabRun(OF_TWO_SYSTEMS, True).run(stack)
        assert stack.world.changes == []
    assert refused.value.hint == "it makes stacks of its own: in a shell, replexplorer lab run three"
