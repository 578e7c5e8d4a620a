"""Running a lab: its figures and relations, and the knobs given back whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from replexplorer.cli.experiment import LABS
from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.experiment.experiment import ExperimentProgress, Relation
from replexplorer.core.experiment.lab import Lab, LabResult, Length, Phase, PhaseResult
from replexplorer.core.experiment.relations import Claim, Found
from replexplorer.core.history.series import History
from replexplorer.core.knobs.names import parse_assignment
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.tick import Tick
from replexplorer.core.topology import new_roster
from replexplorer.engine.experiment.lab import LabRun
from replexplorer.engine.experiment.lab_tables import bulk_load_of
from replexplorer.engine.experiment.phase import Act
from replexplorer.engine.experiment.run import Conductor
from replexplorer.engine.outcome import RolledBack
from replexplorer.engine.session import Session
from tests.fakes.clock import until, virtual
from tests.fakes.recorder import FakeRecorder
from tests.fakes.rig import FakeRig
from tests.fakes.world import World, tasks_left
from tests.turning import turn

BEFORE = ("sync_binlog=100", "rtt=5", "clients=3")
REQUESTED = {"sync_binlog": 100, "rtt@db2": 5.0, "clients": 3}


def _judge(phases: Mapping[str, PhaseResult]) -> Sequence[Relation]:
    first, second = phases["async"], phases["semi-sync"]
    return (Relation("semi-sync is slower", second.tps < first.tps, f"{second.tps:.1f} < {first.tps:.1f}"),)


LAB = Lab(
    "two",
    "Two phases",
    "Whether a wait costs.",
    (
        Phase(
            "async",
            ("sync_binlog=0", "rtt=50", "clients=1"),
            Length(4),
            Length(2),
            ProtectionState.OFF,
            "nothing waits",
        ),
        Phase("semi-sync", ("semi_sync=on",), Length(4), Length(2), ProtectionState.PROTECTED, "all wait"),
    ),
    _judge,
)


async def run(session: Session, steps: list[ExperimentProgress] | None = None) -> LabResult:
    return await LabRun(LAB, True, ([] if steps is None else steps).append).run(session.rig)


@virtual
async def test_a_lab_measures_judges_and_gives_the_knobs_back() -> None:
    world = World()
    async with world.attached("lab two") as session:
        await turn(session, *BEFORE)
        result = await run(session)
        assert session.state.requested_value(next(iter(session.console.parse("semi_sync=on").names))) == "off"
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
    assert world.requested == REQUESTED | {"semi_sync": "off"}
    assert world.primary.variables["sync_binlog"] == "100"
    assert not world.primary.enabled
    assert world.rtt_ms() == pytest.approx(5)
    assert world.running_loads() == 0
    assert tasks_left() == []


@pytest.mark.parametrize(
    ("share", "percent", "limited"),
    [
        (0.4, 40.0, None),
        (0.97, 97.0, "machine at 97 % of its CPU, which source, replicas and load share"),
        (None, None, None),
    ],
)
def test_a_busy_machine_is_told_as_what_may_explain_a_deviation(
    share: float | None, percent: float | None, limited: str | None
) -> None:
    @virtual
    async def check() -> None:
        world = World()
        world.sidecars["db1"].machine_share = share
        async with world.attached("lab two") as session:
            result = await run(session)
        for phase in result.phases:
            assert phase.machine_percent == (None if percent is None else pytest.approx(percent))
            assert phase.limited == limited
        phases = {each.name: each for each in result.phases}
        told = Claim("x", "async.tps", "semi-sync.tps", ">", unit="TPS").judge(Found(phases)).evidence
        assert told.partition(" TPS")[2] == ("; machine's CPU: async 97 %, semi-sync 97 %" if limited else "")

    check()


@virtual
async def test_the_tour_holds_on_the_model() -> None:
    world = World()
    async with world.attached("lab tour") as session:
        result = await LabRun(LABS.named("tour"), quick=True).run(session.rig)
    assert [relation.name for relation in result.relations if not relation.holds] == []
    assert [phase.protection.state for phase in result.phases] == [
        "off",
        *["protected"] * 6,
        "blocked",
        "protected",
    ]


def test_each_step_of_the_tour_turns_one_knob() -> None:
    """So that each row of the epoch ledger has one cause: relaxed fsync went back to AFTER_SYNC as well."""
    first, *steps = LABS.named("tour").phases
    assert {phase.name: len(phase.settings) for phase in steps} == {phase.name: 1 for phase in steps}
    turned = {text.partition("=")[0] for phase in steps for text in phase.settings}
    given = {text.partition("=")[0] for text in first.settings}
    assert turned <= given | {"partition"}, "what a step turns, the first phase sets"


@pytest.mark.costly("it plays a whole lab, tick by tick")
@pytest.mark.parametrize("name", ["two", "tour"])
@virtual
async def test_a_phase_s_row_of_the_ledger_is_its_result(name: str) -> None:
    """Measured 10.1 TPS, and the row went on collecting to 41.9."""
    world, lab = World(), LAB if name == "two" else LABS.named("tour")
    conductor = Conductor()
    ticks: list[Tick] = []
    async with world.started("tui") as session:

        async def watch() -> None:
            async for tick in session.ticks():
                ticks.append(tick)

        looking = asyncio.create_task(watch())
        await asyncio.sleep(5)
        result = await session.console.run(LabRun(lab, quick=True, conductor=conductor))
        await asyncio.sleep(10)
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
        rows = {row.title: row for row in session.event_log.epochs.rows()}
    assert result.aborted is None
    for phase in result.phases:
        row = rows[phase.phase.name]
        assert row.after is not None
        assert row.n == phase.service.count
        assert row.after.length_s == pytest.approx(phase.duration_s)
        assert row.after_tps == pytest.approx(phase.tps)
        expected = {"partition"} if name == "tour" else set()
        assert bool(row.after.outage) == (phase.phase.name in expected)
    states = {event.text.partition(":")[0].partition(" ")[0] for tick in ticks for event in tick.events}
    assert "DEGRADED" not in states, "what setting and restoring pass through is no outage"
    assert ("BLOCKED" in states) == (name == "tour")
    assert ticks[-1].protection.unprotected == 0


@virtual
async def test_between_phases_the_charts_have_a_gap_and_no_stall() -> None:
    world, history = World(), History()
    ticks: list[Tick] = []
    async with world.started("tui") as session:

        async def watch() -> None:
            async for tick in session.ticks():
                ticks.append(tick)
                history.feed(tick)

        looking = asyncio.create_task(watch())
        await session.console.run(LabRun(LAB, quick=True, conductor=Conductor()))
        looking.cancel()
        await asyncio.gather(looking, return_exceptions=True)
    rests = [
        tick.at_s for tick in ticks if tick.load and tick.load.state == "running" and not tick.load.clients
    ]
    assert rests
    assert {point.tps for point in history.points if point.at_s in rests} == {None}


@virtual
async def test_the_last_tick_that_is_recorded_is_of_the_end() -> None:
    """The tour ended in a green PROTECTED over semi-sync switched off."""
    world = World()
    recorder = world.recorder = FakeRecorder()
    async with world.attached("lab two") as session, session.observed():
        await session.console.run(LabRun(LAB, quick=True, conductor=Conductor()))
    last = recorder.ticks[-1]
    semi_sync = next(view for name, view in last.knobs.items() if name.key == "semi_sync")
    assert (semi_sync.requested, semi_sync.effective, last.protection.state) == ("off", "off", "off")
    clients = next(view for name, view in last.knobs.items() if name.key == "clients")
    assert clients.effective is None, "no load runs any more"


@pytest.mark.parametrize(
    ("name", "told"),
    [("detour", "did you mean tour?"), ("wan-threats", "did you mean wan-threads"), ("x", "there is tour,")],
)
def test_an_unknown_lab_is_told_with_the_nearest_names(name: str, told: str) -> None:
    with pytest.raises(UsageError, match=f"unknown lab '{name}': {told}"):
        LABS.named(name)


@pytest.mark.parametrize("name", LABS.shipped())
def test_every_lab_s_settings_can_be_typed(name: str) -> None:
    lab = LABS.named(name)
    for phase in lab.phases:
        for text in phase.settings:
            parse_assignment(text, new_roster(lab.replicas))


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


@pytest.mark.parametrize(
    "name", [lab.name for lab in LABS.shipped().values() if not any(p.play for p in lab.phases)]
)
def test_every_lab_runs_to_its_end_and_gives_everything_back(name: str) -> None:
    """Whether its relations hold is for real servers to say: the model has no fsync and no row locks."""

    @virtual
    async def check() -> None:
        world = World()
        async with world.attached(f"lab {name}") as session:
            await turn(session, *BEFORE)
            steps: list[ExperimentProgress] = []
            result = await LabRun(LABS.named(name), True, steps.append).run(session.rig)
        assert result.aborted is None
        assert result.unrestored == ()
        assert [each.phase for each in result.phases] == list(LABS.named(name).phases)
        unmeasured = [each.phase.name for each in result.phases if each.rtt is None]
        assert unmeasured == (["partition"] if name == "tour" else [])
        assert {step.number for step in steps} >= set(range(1, len(result.phases) + 1))
        kept = {key: value for key, value in world.requested.items() if key in REQUESTED}
        assert kept == REQUESTED
        assert world.node_names == ["db1", "db2"]
        assert all(server.io == "Yes" for server in world.servers.values() if server.is_replica)
        assert (world.running_loads(), world.primary.enabled) == (0, False)

    check()


@virtual
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
    first, second, _ = result.phases
    assert (len(first.repeats), first.phase.name, second.phase.name) == (3, "async", "semi-sync")
    assert first.service.count == sum(each.service.count for each in first.repeats)
    assert first.tps_interval is not None
    assert steps[0].left_s == pytest.approx(lab.seconds(quick=False), rel=0.1)
    assert world.requested["sync_relay_log@db2"] == 100


@virtual
async def test_a_phase_begins_when_the_replica_has_applied_what_came_before() -> None:
    """The replica took the asynchronous phase's CPU for the 10,000 rows of the phase without a replica."""
    rig = FakeRig()
    waits: list[int] = []

    def look(number: int) -> None:
        if rig.steps[number] == "look":
            rig.applied += 1
            waits.append(rig.applied)

    rig.backlog, rig.on_step = 20, look
    result = await LabRun(replace(LAB, phases=LAB.phases[:1], judge=lambda _: ()), True).run(rig)
    assert rig.applied >= rig.backlog
    assert result.phases[0].limited is None


@virtual
async def test_a_replica_is_cut_off_when_it_has_applied_what_it_received() -> None:
    """It took 0.7 of a core from the phases without it, for the 30,000 rows of the phase before them."""
    rig = FakeRig(replicas=2)
    applied: list[int] = []

    def look(number: int) -> None:
        rig.applied += rig.steps[number] == "look"
        if rig.steps[number] == "attach" and not applied:
            applied.append(rig.applied)

    rig.backlog, rig.on_step = 20, look
    alone = replace(LAB.phases[0], replicas=1)
    await LabRun(replace(LAB, phases=(alone,), judge=lambda _: ()), True).run(rig)
    assert applied == [rig.backlog]


@virtual
async def test_a_pause_holds_before_the_next_phase_and_goes_on_when_it_is_over() -> None:
    world, conductor = World(), Conductor()
    steps: list[ExperimentProgress] = []
    async with world.attached("lab two") as session:
        lab = asyncio.create_task(LabRun(LAB, True, steps.append, conductor).run(session.rig))
        assert conductor.toggle()
        await until(lambda: steps and steps[-1].doing == "waiting for the next one")
        await asyncio.sleep(20)
        assert (lab.done(), steps[-1].number, world.running_loads()) == (False, 1, 1)
        conductor.next()
        assert (await lab).verdict == "holds"


@virtual
async def test_a_refused_phase_gives_the_knobs_back() -> None:
    world = World()
    async with world.attached("lab two") as session:
        await turn(session, *BEFORE)
        world.primary.refusals["SET GLOBAL rpl_semi_sync_source_enabled = ON"] = 1227
        with pytest.raises(RolledBack, match="1227"):
            await run(session)
    assert world.requested == REQUESTED | {"semi_sync": "off"}
    assert world.rtt_ms() == pytest.approx(5)
    assert world.running_loads() == 0


@pytest.mark.parametrize("after_s", [0.1, 0.6, 2.0, 4.0, 5.2, 7.0])
@virtual
async def test_a_cancel_gives_the_knobs_back(after_s: float) -> None:
    world = World()
    async with world.attached("lab two") as session:
        await turn(session, *BEFORE)
        task = asyncio.create_task(run(session))
        await asyncio.sleep(after_s)
        assert not task.done()
        for _ in range(3):
            task.cancel()
            await asyncio.sleep(0.01)
        await asyncio.wait({task})
        assert task.cancelled()
    assert {key: world.requested[key] for key in REQUESTED} == REQUESTED
    assert world.primary.variables["sync_binlog"] == "100"
    assert not world.primary.enabled
    assert world.rtt_ms() == pytest.approx(5)
    assert (world.running_loads(), tasks_left()) == (0, [])


@pytest.mark.parametrize(("number", "measured"), [(1, []), (2, ["async"])])
@virtual
async def test_a_presenters_abort_answers_with_what_was_measured(number: int, measured: list[str]) -> None:
    world, conductor = World(), Conductor()
    async with world.attached("lab two") as session:
        await turn(session, *BEFORE)
        watch: list[ExperimentProgress] = []
        task = asyncio.create_task(LabRun(LAB, True, watch.append, conductor).run(session.rig))
        await until(lambda: bool(watch) and (watch[-1].number, watch[-1].doing) == (number, "measuring"))
        conductor.abort("ended by hand")
        task.cancel()
        result = await task
        assert task.cancelling() == 0
    assert (result.verdict, result.aborted) == ("aborted", "ended by hand")
    assert [phase.phase.name for phase in result.phases] == measured
    assert (result.relations, result.unrestored) == ((), ())
    assert {key: world.requested[key] for key in REQUESTED} == REQUESTED
    assert not world.primary.enabled
    assert (world.running_loads(), tasks_left()) == (0, [])


@virtual
async def test_a_load_that_is_driven_elsewhere_is_refused_before_anything_changes() -> None:
    world = World()
    async with world.attached("load") as other, world.attached("lab two") as session:
        await other.drive(other.driving.settings())
        before = len(world.changes)
        with pytest.raises(StackUnavailable, match=r"load \(pid"):
            await run(session)
        assert len(world.changes) == before


@virtual
async def test_a_node_that_dies_aborts_the_lab_and_what_can_be_given_back_is() -> None:
    world = World()
    async with world.attached("lab two") as session:
        await turn(session, *BEFORE)
        task = asyncio.create_task(run(session))
        await until(lambda: world.primary.enabled)
        world.crash("db2")
        world.sidecars["db2"].stop()
        result = await task
    assert result.verdict == "aborted"
    assert result.aborted is not None
    assert "db2 went down in the lab" in result.aborted
    assert world.primary.variables["sync_binlog"] == "100"
    assert not world.primary.enabled
    assert any(line.startswith("rtt@db2 = 5.0 is requested") for line in result.unrestored)
    assert world.requested == REQUESTED | {"semi_sync": "off"}, "so that it comes back with its server"
    assert world.running_loads() == 0


@virtual
async def test_a_load_that_dies_aborts_the_lab() -> None:
    world = World()
    async with world.attached("lab two") as session:
        await turn(session, *BEFORE)
        task = asyncio.create_task(run(session))
        await asyncio.sleep(2)
        world.loads[0].die()
        assert "ended" in str((await task).aborted)
    assert world.requested == REQUESTED | {
        key: value for key, value in world.requested.items() if key not in REQUESTED
    }
    assert world.primary.variables["sync_binlog"] == "100"


@virtual
async def test_a_deviation_is_a_verdict_and_no_failure() -> None:
    world = World()
    world.replica.registered = False
    async with world.attached("lab two") as session:
        world.primary.acknowledges = False
        lab = Lab("never", "Never", "", LAB.phases[:1], lambda _: (Relation("no", False, "1 > 2"),))
        result = await LabRun(lab, quick=True).run(session.rig)
    assert result.verdict == "deviates"


@virtual
async def test_a_dump_is_inserted_by_nobody_else() -> None:
    """The first phase asked for a client, which inserted rows of its own beside the dump."""
    beside: set[int] = set()

    def answer(node: str, statement: str) -> Sequence[Mapping[str, object]]:
        if statement.startswith("INSERT"):
            assert rig.load.settings is not None
            beside.add(rig.load.settings.clients)
        return ()

    rig = FakeRig(replicas=2, answer=answer)
    dump = bulk_load_of(
        LABS.named("bulk-load"), lambda: iter(["(1,'1953-09-02','a','b','M','1986-06-26')"] * 20)
    )
    result = await LabRun(dump, quick=True).run(rig)
    assert result.aborted is None
    assert beside == {0}
    assert {phase.service.count for phase in result.phases} == {20}
    assert all(sql.closed for sql in rig.sqls)


@virtual
async def test_a_script_s_phase_has_no_ceiling() -> None:
    """archive told 0.0 TPS: the phase before it had committed nothing that a mean could be taken of."""

    async def nothing(act: Act) -> PhaseResult:
        return PhaseResult(act.phase)

    length = Length(1)
    phases = (
        Phase("async", ("clients=4", "rtt=20"), length, length, ProtectionState.OFF, "", play=nothing),
        Phase(
            "semi-sync",
            ("semi_sync=on", "clients=4"),
            length,
            length,
            ProtectionState.PROTECTED,
            "",
            play=nothing,
        ),
    )
    result = await LabRun(Lab("scripts", "", "", phases, lambda found: ())).run(FakeRig())
    assert [(each.clients, each.ceiling_tps, each.measured_tps) for each in result.phases] == [
        (4, None, None)
    ] * 2
