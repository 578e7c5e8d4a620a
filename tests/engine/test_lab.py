"""Running a lab: its figures and relations, and the knobs given back whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from replexplorer.cli.experiment import LABS
from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.experiment.experiment import ExperimentProgress
from replexplorer.core.experiment.lab import GAVE_WAY, REFUSED, RETRIED, LabResult, PhaseResult
from replexplorer.core.experiment.relations import Claim, Found
from replexplorer.core.experiment.snapshot import Snapshot
from replexplorer.core.history.series import History
from replexplorer.core.knobs.names import parse_assignment
from replexplorer.core.server.node_view import Membership
from replexplorer.core.system import GALERA, System
from replexplorer.core.tick import Tick
from replexplorer.core.topology import Belonging, new_roster
from replexplorer.engine.experiment.lab import LabRun, SystemsRun
from replexplorer.engine.experiment.lab_tables import bulk_load_of
from replexplorer.engine.experiment.phase import Act
from replexplorer.engine.experiment.run import Conductor
from replexplorer.engine.session import Session
from replexplorer.formats.experiment_file import read_lab
from tests.fakes.clock import until
from tests.fakes.recorder import FakeRecorder
from tests.fakes.stack import FakeStack, stack_of
from tests.fakes.world import World
from tests.known import known
from tests.turning import turn

BEFORE = ("sync_binlog=100", "rtt=5", "clients=3")
EXPERIMENTS = Path(__file__).parent / "experiments"
LAB, OF_TWO_SYSTEMS = (read_lab(EXPERIMENTS / f"{name}.toml") for name in ("two", "three"))
BUSY = "machine at 97 % of its CPU, which source, replicas and load share"


async def run(session: Session, steps: list[ExperimentProgress] | None = None) -> LabResult:
    return await LabRun(LAB, True, ([] if steps is None else steps).append).run(session.rig)


async def test_a_lab_measures_judges_and_gives_the_knobs_back(world: World, session: Session) -> None:
    await turn(session, *BEFORE)
    before = world.taken
    result = await run(session)
    assert result.verdict == "holds"
    first, second = result.phases
    assert first.tps == pytest.approx(1000, rel=0.01)
    assert second.tps == pytest.approx(1000 / 51, rel=0.05)
    assert second.ceiling_tps == pytest.approx(1000 / 51, rel=0.01)
    assert (first.ceiling_tps, first.clients, first.errors) == (None, 1, 0)
    assert second.rtt_measured_ms == pytest.approx(50)
    assert {str(name): value for name, value in first.settings.items()} == {
        "sync_binlog": 0,
        "rtt@db2": 50.0,
        "clients": 1,
    }
    assert world.taken == before


def test_each_step_of_the_tour_turns_one_knob() -> None:
    """So that each row of the epoch ledger has one cause: relaxed fsync went back to AFTER_SYNC as well."""
    steps = LABS.named("tour").phases[1:]
    assert {phase.name: len(phase.settings) for phase in steps} == {phase.name: 1 for phase in steps}


async def test_the_last_tick_that_is_recorded_is_of_the_end(world: World) -> None:
    """The tour ended in a green PROTECTED over semi-sync switched off."""
    recorder = world.recorder = FakeRecorder()
    async with world.attached("lab two") as session, session.observed():
        await session.console.run(LabRun(LAB, quick=True, conductor=Conductor()))
    last = recorder.ticks[-1]
    views = {name.key: view for name, view in last.knobs.items()}
    assert (views["semi_sync"].effective, last.protection.state) == ("off", "off")
    assert views["clients"].effective is None, "no load runs any more"


@pytest.mark.parametrize("name", LABS.shipped())
def test_every_lab_s_first_phase_sets_what_later_ones_turn(name: str) -> None:
    """Each repeat begins with it. A partition is healed by the lab that makes it."""
    whole = LABS.named(name)
    for lab in [whole.on(system) for system in whole.systems] or [whole]:
        first, *others = (
            {
                str(each)
                for text in phase.settings
                for each in parse_assignment(text, new_roster(lab.replicas)).names
            }
            for phase in lab.phases
        )
        left = set[str]().union(*others) - first
        assert {key for key in left if not key.startswith("partition@")} == set()


async def test_full_mode_goes_through_the_phases_three_times_in_turn() -> None:
    world, steps = World(), list[ExperimentProgress]()
    phases = (*LAB.phases, replace(LAB.phases[1], name="relaxed", settings=("sync_relay_log=1",)))
    lab = replace(LAB, phases=phases)
    found: list[int] = []

    def watch(step: ExperimentProgress) -> None:
        steps.append(step)
        if (step.number, step.doing) == (1, "measuring") and (step.done or 0) > 0.9:
            found.append(int(world.requested["sync_relay_log@db2"]))

    async with world.attached("lab two") as session:
        await turn(session, *BEFORE, "sync_relay_log=100")
        result = await LabRun(lab, False, watch).run(session.rig)
    assert (result.repeats, result.verdict) == (3, "holds")
    order = [(step.repeat, step.number) for step in steps if step.doing == "measuring"]
    assert list(dict.fromkeys(order)) == [(turn, number) for turn in (1, 2, 3) for number in (1, 2, 3)]
    assert set(found) == {100}, "the first phase finds again what it does not set itself"
    first = result.phases[0]
    assert (len(first.repeats), first.tps_interval is not None) == (3, True)
    assert first.service.count == sum(each.service.count for each in first.repeats)


async def test_a_pause_holds_before_the_next_phase_and_goes_on_when_it_is_over(
    world: World, session: Session
) -> None:
    conductor = Conductor()
    steps: list[ExperimentProgress] = []
    lab = asyncio.create_task(LabRun(LAB, True, steps.append, conductor).run(session.rig))
    assert conductor.toggle()
    await until(lambda: steps and steps[-1].doing == "waiting for the next one")
    await asyncio.sleep(20)
    assert (lab.done(), steps[-1].number, world.running_loads()) == (False, 1, 1)
    conductor.next()
    assert (await lab).verdict == "holds"


async def test_a_presenters_abort_answers_with_what_was_measured(world: World, session: Session) -> None:
    conductor = Conductor()
    await turn(session, *BEFORE)
    before = world.taken
    watch: list[ExperimentProgress] = []
    task = asyncio.create_task(LabRun(LAB, True, watch.append, conductor).run(session.rig))
    await until(lambda: bool(watch) and (watch[-1].number, watch[-1].doing) == (2, "measuring"))
    conductor.abort()
    task.cancel()
    result = await task
    assert task.cancelling() == 0
    assert (result.verdict, result.aborted) == ("aborted", "ended by hand")
    assert [phase.phase.name for phase in result.phases] == ["async"]
    assert (result.relations, result.unrestored) == ((), ())
    assert world.taken == before


@pytest.mark.parametrize("what", ["node", "load"])
async def test_a_node_or_a_load_that_dies_aborts_the_lab_and_what_can_be_given_back_is(
    world: World, session: Session, what: str
) -> None:
    await turn(session, *BEFORE)
    task = asyncio.create_task(run(session))
    await until(lambda: world.primary.enabled)
    if what == "load":
        world.loads[0].die()
    else:
        world.crash("db2")
        world.sidecars["db2"].stop()
    result = await task
    assert result.verdict == "aborted"
    assert ("ended" if what == "load" else "db2 went down in the lab") in str(result.aborted)
    left = any(line.startswith("rtt@db2 = 5.0 is requested") for line in result.unrestored)
    assert left == (what == "node")


@pytest.mark.parametrize(("share", "limited"), [(0.4, None), (0.97, BUSY), (None, None)])
async def test_a_busy_machine_is_told_as_what_may_explain_a_deviation(
    world: World, share: float | None, limited: str | None
) -> None:
    world.sidecars["db1"].machine_share = share
    async with world.attached("lab two") as session:
        phases = (await run(session)).phases
    for phase in phases:
        assert phase.machine_percent == (share and pytest.approx(100 * share))
        assert phase.limited == limited
    claim = Claim("x", "async.tps", "semi-sync.tps", ">", unit="TPS")
    told = claim.judge(Found({each.name: each for each in phases})).evidence
    assert told.partition(" TPS")[2] == ("; machine's CPU: async 97 %, semi-sync 97 %" if limited else "")


@pytest.mark.costly("it plays a whole lab, tick by tick")
@pytest.mark.parametrize("name", ["two", "tour"])
async def test_a_phase_s_row_of_the_ledger_is_its_result_and_between_phases_the_charts_have_a_gap(
    name: str,
) -> None:
    """Measured 10.1 TPS, and the row went on collecting to 41.9."""
    world, history, is_tour = World(), History(), name == "tour"
    ticks: list[Tick] = []
    async with world.started("tui") as session:

        async def watch() -> None:
            async for tick in session.ticks():
                ticks.append(tick)
                history.feed(tick)

        looking = asyncio.create_task(watch())
        await asyncio.sleep(5)
        result = await session.console.run(LabRun(LABS.named("tour") if is_tour else LAB, quick=True))
        await asyncio.sleep(10)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        rows = {row.title: row for row in session.event_log.epochs.rows()}
    assert result.aborted is None
    for phase in result.phases:
        row = rows[phase.phase.name]
        after = known(row.after)
        assert row.n == phase.service.count
        assert row.after_tps == pytest.approx(phase.tps)
        assert after.length_s == pytest.approx(phase.duration_s)
        assert bool(after.outage) == (is_tour and phase.phase.name == "partition")
    states = {event.text.partition(":")[0].partition(" ")[0] for tick in ticks for event in tick.events}
    assert "DEGRADED" not in states, "what setting and restoring pass through is no outage"
    assert ("BLOCKED" in states) == is_tour
    assert ticks[-1].protection.unprotected == 0
    running = [tick for tick in ticks if tick.load and tick.load.state == "running"]
    rests = [tick.at_s for tick in running if tick.load and not tick.load.clients]
    assert {point.tps for point in history.points if point.at_s in rests} == {None}


@pytest.mark.parametrize(
    "name", [lab.name for lab in LABS.shipped().values() if not any(p.play for p in lab.phases)]
)
async def test_every_lab_runs_to_its_end_and_gives_everything_back(name: str) -> None:
    """Whether its relations hold is for real servers to say: the model has no fsync and no row locks."""
    world, steps = World(), list[ExperimentProgress]()
    async with world.attached(f"lab {name}") as session:
        await turn(session, *BEFORE)
        before = world.taken
        result = await LabRun(LABS.named(name), True, steps.append).run(session.rig)
        assert world.taken == before
    assert (result.aborted, result.unrestored) == (None, ())
    assert [each.phase for each in result.phases] == list(LABS.named(name).phases)
    unmeasured = [each.phase.name for each in result.phases if each.rtt is None]
    assert unmeasured == (["partition"] if name == "tour" else [])
    assert {step.number for step in steps} >= set(range(1, len(result.phases) + 1))
    if name == "tour":
        assert result.verdict == "holds"
        states = ["off", *["protected"] * 6, "blocked", "protected"]
        assert [phase.protection.state for phase in result.phases] == states


class Applying(FakeStack):
    """Its replicas apply one transaction a look."""

    async def look(self, *, probe: bool = False, with_gtids: bool = False) -> Snapshot:
        for server in self.world.servers.values():
            server.missing = max(0, server.missing - 1)
        return await super().look(probe=probe, with_gtids=with_gtids)


@pytest.mark.parametrize("replicas", [None, 1])
async def test_a_phase_begins_and_a_replica_is_cut_off_when_it_has_applied_what_came_before(
    replicas: int | None,
) -> None:
    """It took 0.7 of a core from the phases without it, for the 30,000 rows of the phase before them."""
    left = list[int]()

    class Cut(Applying):
        async def attach(self, replicas: int | None) -> None:
            left.extend([] if replicas is None else [self.world.servers["db3"].missing])
            await super().attach(replicas)

    phase = replace(LAB.phases[0], replicas=replicas)
    async with stack_of(kind=Cut, replicas=2) as stack:
        stack.world.servers["db3"].missing = 20
        result = await LabRun(replace(LAB, phases=(phase,), judge=lambda _: ()), True).run(stack)
        assert stack.world.servers["db3"].missing == 0
    assert left[:1] == ([] if replicas is None else [0])
    assert result.phases[0].limited is None


async def test_a_dump_is_inserted_by_nobody_else() -> None:
    """The first phase asked for a client, which inserted rows of its own beside the dump."""
    beside: set[int] = set()

    def answer(node: str, statement: str) -> Sequence[Mapping[str, object]]:
        if statement.startswith("INSERT"):
            assert stack.load.settings is not None
            beside.add(stack.load.settings.clients)
        return ()

    dump = bulk_load_of(
        LABS.named("bulk-load"), lambda: iter(["(1,'1953-09-02','a','b','M','1986-06-26')"] * 20)
    )
    async with stack_of(replicas=2, answer=answer) as stack:
        result = await LabRun(dump, quick=True).run(stack)
        assert all(sql.closed for sql in stack.sqls)
    assert result.aborted is None
    assert beside == {0}
    assert {phase.service.count for phase in result.phases} == {20}


async def test_a_script_s_phase_has_no_ceiling() -> None:
    """archive told 0.0 TPS: the phase before it had committed nothing that a mean could be taken of."""

    async def nothing(act: Act) -> PhaseResult:
        return PhaseResult(act.phase)

    wanted = (("clients=4", "rtt=20"), ("semi_sync=on", "clients=4"))
    phases = tuple(
        replace(phase, settings=asked, play=nothing) for phase, asked in zip(LAB.phases, wanted, strict=True)
    )
    async with stack_of() as stack:
        result = await LabRun(replace(LAB, phases=phases, judge=lambda _: ())).run(stack)
    assert [(each.clients, each.ceiling_tps, each.measured_tps) for each in result.phases] == [
        (4, None, None)
    ] * 2


# A lab that compares systems: a part on a stack of each, and one result of all that was measured


OF_GALERA = replace(OF_TWO_SYSTEMS.on("galera"), phases=OF_TWO_SYSTEMS.on("galera").phases[:1])


class Stacks:
    """Makes a stack a system, and remembers what was made when."""

    def __init__(self, failing: str | None = None) -> None:
        self.made: list[tuple[str, tuple[str, ...]]] = []
        self.failing = failing

    async def __call__(self, system: System, part: LabRun) -> LabResult:
        self.made.append((system.name, tuple(phase.name for phase in part.lab.phases)))
        if system.name == self.failing:
            raise StackUnavailable("no image", "build one")
        async with stack_of(system) as stack:
            return replace(await part.run(stack), server=f"server of {system.name}")


async def test_each_system_has_a_stack_for_its_phases_and_all_is_judged_together() -> None:
    stacks, steps = Stacks(), list[ExperimentProgress]()
    result = await SystemsRun(OF_TWO_SYSTEMS, True, steps.append).run(stacks)
    assert stacks.made == [("async", ("async, 1",)), ("galera", ("galera, 1", "galera, 4"))]
    assert (result.verdict, result.aborted, result.repeats) == ("holds", None, 1)
    assert [(each.phase, each.server) for each in result.phases] == [
        (OF_TWO_SYSTEMS.phases[0], "server of async"), (OF_TWO_SYSTEMS.phases[1], "server of galera"),
        (OF_TWO_SYSTEMS.phases[2], "server of galera"),
    ]  # fmt: skip
    assert result.server == "server of async and server of galera"
    assert known(result.summary).columns == ("async", "galera")
    numbers = [step.number for step in steps if step.doing == "measuring"]
    assert list(dict.fromkeys(numbers)) == [1, 2, 3], "phases are counted through"
    assert {step.experiment for step in steps} == {OF_TWO_SYSTEMS}
    assert steps[0].left_s == pytest.approx(OF_TWO_SYSTEMS.seconds(quick=True) - 20, abs=5)


async def test_repeats_take_turns_within_a_system_and_are_judged_by_their_interval() -> None:
    result = await SystemsRun(OF_TWO_SYSTEMS, True, repeats=3).run(Stacks())
    assert [len(each.repeats) for each in result.phases] == [3, 3, 3]
    assert "3 repeats" in result.relations[-1].evidence
    assert result.repeats == 3


async def test_a_system_that_cannot_be_had_ends_it_with_what_was_measured_if_anything_was() -> None:
    with pytest.raises(StackUnavailable, match="no image"):
        await SystemsRun(OF_TWO_SYSTEMS, True).run(Stacks(failing="async"))
    result = await SystemsRun(OF_TWO_SYSTEMS, True).run(Stacks(failing="galera"))
    assert (result.verdict, result.aborted) == ("aborted", "Galera: no image: build one")
    assert [each.phase.name for each in result.phases] == ["async, 1"]
    assert known(result.summary).columns == ("async",)
    assert result.relations == ()


async def test_a_stack_that_is_there_is_not_what_it_runs_on() -> None:
    async with stack_of() as stack:
        with pytest.raises(UsageError, match="three cannot run here") as refused:
            await LabRun(OF_TWO_SYSTEMS, True).run(stack)
        assert stack.world.changes == []
    assert refused.value.hint == "it makes stacks of its own: in a shell, replexplorer lab run three"


@pytest.mark.parametrize("counts", [True, False])
async def test_what_members_count_in_a_phase_stands_among_its_figures(counts: bool) -> None:
    member = Membership(Belonging.MEMBER, "Synced", size=2, answering=2, conflicts=5, gave_way=1)
    async with stack_of(GALERA, members={"db1": member, "db2": member}) as stack:

        def count(now: ExperimentProgress) -> None:
            if counts and now.doing == "measuring":
                stack.members["db2"] = replace(member, conflicts=8, gave_way=5)

        [found] = (await LabRun(OF_GALERA, True, count).run(stack)).phases
    assert found.figures == ({RETRIED: 0, REFUSED: 3, GAVE_WAY: 4} if counts else {})


async def test_a_phase_begins_when_nothing_waits_at_the_members_however_they_number_it() -> None:
    member = Membership(Belonging.MEMBER, "Synced", size=2, answering=2, to_apply=0)

    class Applying(FakeStack):
        looks = 0

        async def look(self, *, probe: bool = False, with_gtids: bool = False) -> Snapshot:
            self.looks += 1
            if self.looks == 10:
                self.members["db2"] = member
            return await super().look(probe=probe, with_gtids=with_gtids)

    waiting = {"db1": member, "db2": replace(member, to_apply=7)}
    async with stack_of(GALERA, Applying, members=waiting) as stack:
        stack.world.replica.missing = 20  # by their GTIDs db2 lacks all of them
        began_s = stack.clock.monotonic()
        [found] = (await LabRun(OF_GALERA, True).run(stack)).phases
        assert 9 < stack.looks < 30
        assert stack.clock.monotonic() - began_s < 20
    assert found.limited is None
