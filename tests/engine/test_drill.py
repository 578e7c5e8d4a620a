"""Running a drill: its steps, what it saw, its verdict, and everything given back whatever happens."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from replexplorer.core.errors import ServerRefused, StackUnavailable, UsageError
from replexplorer.core.experiment.drill import (
    Doing,
    Drill,
    DrillStep,
    Precheck,
    span,
)
from replexplorer.core.experiment.drill_result import DrillResult
from replexplorer.core.experiment.experiment import ExperimentProgress
from replexplorer.core.experiment.matrix import CellResult, FailureKind, MatrixCell, Mode
from replexplorer.core.experiment.relations import Claim
from replexplorer.core.fault import Fault, Had
from replexplorer.core.knobs.names import KnobName
from replexplorer.core.loss.client_log import Attempts, RunLog
from replexplorer.core.loss.ledger import reckon
from replexplorer.core.role_change import RoleChange
from replexplorer.core.server.comeback import compare
from replexplorer.core.server.counters import CostSample, CpuUsed, Sample, ServerStatus
from replexplorer.core.server.exposure import Exposure, Loss, Unknown
from replexplorer.core.server.node_view import Membership
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.system import GALERA, GROUP
from replexplorer.core.topology import Belonging
from replexplorer.engine.experiment.drill import DrillRun
from replexplorer.engine.experiment.matrix import MatrixRun
from replexplorer.engine.experiment.run import Conductor, RunJournal
from replexplorer.engine.outcome import Cleared
from replexplorer.reports.experiment_report import experiment_report
from replexplorer.reports.report import html, markdown, plain_text
from tests.fakes.clock import until, virtual
from tests.fakes.rig import FakeRig

KILL = Drill(
    name="kill",
    title="The source is killed",
    teaches="What a crash costs.",
    settings=("sync_binlog=0", "rtt=20ms"),
    clients=4,
    steps=(
        DrillStep(Doing.WAIT, lasts=span(4, 2), shows="all is well"),
        DrillStep(Doing.INJECT, "kill"),
        DrillStep(Doing.WAIT, lasts=span(3, 1)),
        DrillStep(Doing.CLEAR, "kill"),
        DrillStep(Doing.UNTIL, "writing", lasts=span(20, 20)),
        DrillStep(Doing.INJECT, "partition=ack@db2", lasts=span(2, 1)),
        DrillStep(Doing.SET, settings=("semi_sync=on",)),
        DrillStep(Doing.UNTIL, "protected", lasts=span(9, 9)),
        DrillStep(Doing.WAIT, lasts=span(2, 1)),
    ),
    expects=(
        Claim("nothing is lost", "lost", 0.0, "=="),
        Claim("it is protected in the end", passes=ProtectionState.PROTECTED),
    ),
    rollback=(DrillStep(Doing.SET, settings=("fsync_delay=0",)),),
)


async def run(rig: FakeRig, drill: Drill = KILL, **more: object) -> DrillResult:
    return await DrillRun(drill, True, **more).run(rig)  # type: ignore[arg-type]


@virtual
async def test_a_drill_breaks_mends_reckons_and_returns_everything() -> None:
    rig, told = FakeRig(), list[ExperimentProgress]()
    before = rig.taken
    result = await run(rig, watch=told.append)
    assert result.verdict == "holds", result.relations
    assert [(each.fault, each.node) for each in result.windows] == [("kill", "db1"), ("partition=ack", "db2")]
    assert all(each.to_s is not None and each.to_s > each.from_s for each in result.windows)
    assert [each.state for each in result.timeline] == ["off", "protected"]
    assert result.ledger is not None
    assert result.unrestored == ()
    assert [step for step in rig.steps if "kill" in step] == ["inject kill", "clear kill@db1"]
    assert list(dict.fromkeys(each.number for each in told if each.number)) == list(range(1, 10))
    assert rig.taken == before
    assert "kill sets sync_binlog=0 rtt=20ms by itself" in [text for _, text in rig.log.events]
    [end] = [text for _, text in rig.log.events if text.startswith("the drill")]
    assert end == "the drill is done; the knobs are restored"


@virtual
async def test_an_expectation_that_does_not_hold_deviates_with_its_evidence() -> None:
    rig = FakeRig()
    drill = replace(KILL, expects=(Claim("rows are lost", "lost", 0.0, ">"),))
    result = await run(rig, drill)
    assert result.verdict == "deviates"
    assert result.relations[0].evidence == "found 0; more than 0 would hold"


@virtual
async def test_what_a_source_came_back_without_is_judged_and_its_replica_copied() -> None:
    uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    had = Had({"db1": f"{uuid}:1-100"}, "", binlog_bytes=4096)
    others = {"db2": f"{uuid}:1-58"}
    rig = FakeRig()
    rig.comebacks["kill"] = compare("db1", uuid, had, others, f"{uuid}:1-90", f"{uuid}:1-90", is_source=True)
    expects = (
        Claim("the replica breaks", "broken_1236", 1.0, "=="),
        Claim("the binlog is short", "binlog_lost", 90.0, "=="),
        Claim("no other rows", "diverged", 0.0, "=="),
    )
    result = await run(rig, replace(KILL, expects=expects))
    assert result.verdict == "holds", result.relations
    assert any(step.startswith("rejoin db2") for step in rig.steps), rig.steps
    assert result.replication_after == {"db2": "broken 1236"}
    report = experiment_report(result)
    for text in (plain_text(report), markdown(report)):
        assert "90 (4,096 bytes)" in text
        assert "broken 1236: it has to be copied from the source" in text


@virtual
async def test_what_the_meter_said_last_before_the_failure_is_kept() -> None:
    class Metered(FakeRig):
        """Its meter finds something else whenever it is asked."""

        def at_risk(self) -> tuple[float, Exposure] | None:
            loss = Loss(len(self.steps), 0, 9)
            return self.clock.monotonic(), Exposure(loss, loss, Unknown("no replica is reachable"))

    rig = Metered()
    times_us = tuple(range(0, 60_000_000, 10_000))
    log = Attempts(
        ((1, 6000),), ((1, 6000),), (), (), acknowledged_seqs=tuple(range(1, 6001)), acknowledged_us=times_us
    )
    rig.load.log = RunLog(1, {1: log}, {})
    result = await run(rig)
    reading = result.reading
    assert reading is not None
    assert result.windows[0].from_s <= reading.failed_s
    assert reading.at_s <= reading.failed_s
    assert reading.meanwhile >= 1
    assert result.recovery_ms is not None
    assert 0 <= result.recovery_ms <= 10.1
    report = experiment_report(result)
    for text in (plain_text(report), markdown(report), html(report)):
        assert "not known: no replica is reachable" in text
        assert "acknowledged after the reading" in text
        assert "really lost" in text
        assert "nothing is lost" in text


class Costly(FakeRig):
    """Its clients commit every 10 ms, for 300 us of the source's CPU and 512 bytes of redo; a killed server
    counts from 0."""

    async def cost(self) -> CostSample | None:
        await super().cost()
        if self.down:
            return None
        run, commits = str(self.steps.count("clear kill@db1")), int(self.clock.monotonic() * 100)
        return CostSample(
            "db1",
            Sample(self.clock.monotonic(), ServerStatus(uptime_s=9, binlog_cache_use=commits), run),
            redo_bytes=512 * commits,
            cpu={"db1": CpuUsed(run, commits * 300e-6)},
            streams={"db2": None},
        )


@pytest.mark.parametrize("steps", [KILL.steps, (KILL.steps[0],)], ids=["a fault", "none"])
@virtual
async def test_what_a_commit_cost_is_counted_until_the_first_fault(steps: tuple[DrillStep, ...]) -> None:
    rig = Costly()
    times_us = tuple(range(0, 60_000_000, 10_000))
    log = Attempts(
        ((1, 6000),), ((1, 6000),), (), (), acknowledged_seqs=tuple(range(1, 6001)), acknowledged_us=times_us
    )
    rig.load.log = RunLog(1, {1: log}, {})
    result = await run(rig, replace(KILL, steps=steps, expects=()))
    assert result.cost is not None
    assert 150 < result.cost.commits < 300
    assert result.cost.cpu_us == {"db1": pytest.approx(300), "db2": None}
    assert result.cost.redo_bytes == pytest.approx(512)
    text = markdown(experiment_report(result))
    assert "before the first fault" in text
    assert "| 300 | - | 512 | - | - |" in text


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (
            DrillStep(Doing.UNTIL, "degraded", lasts=span(2, 2)),
            "protection is off and not degraded after 2 s",
        ),
        (DrillStep(Doing.UNTIL, "writing", lasts=span(2, 2)), "no commit was acknowledged for 2 s"),
    ],
)
@virtual
async def test_what_is_waited_for_in_vain_aborts_it(step: DrillStep, why: str) -> None:
    rig = FakeRig()
    before = rig.taken
    first = (
        DrillStep(Doing.INJECT, "kill") if step.what == "writing" else DrillStep(Doing.WAIT, lasts=span(1))
    )
    result = await run(rig, replace(KILL, steps=(first, step)))
    assert result.verdict == "aborted"
    assert result.aborted is not None
    assert why in result.aborted
    assert rig.taken == before


@virtual
async def test_a_precheck_that_fails_breaks_nothing() -> None:
    rig = FakeRig()
    result = await run(rig, replace(KILL, prechecks=(Precheck(ProtectionState.PROTECTED, 1.0),)))
    assert result.verdict == "aborted"
    assert not [step for step in rig.steps if step.startswith("inject")]


@virtual
async def test_what_this_stack_cannot_have_is_refused_before_anything_is_done() -> None:
    rig = FakeRig()
    with pytest.raises(UsageError):
        await run(rig, replace(KILL, settings=("sync_binlog=-3",)))
    assert "drive" not in rig.steps


@virtual
async def test_a_rollback_step_that_fails_is_said_and_the_rest_goes_on() -> None:
    rig = FakeRig()
    before = rig.taken
    rollback = (DrillStep(Doing.CLEAR, "kill"), DrillStep(Doing.SET, settings=("fsync_delay=7",)))
    failing = replace(KILL, rollback=(DrillStep(Doing.UNTIL, "degraded", lasts=span(1)), *rollback))
    result = await run(rig, failing)
    assert result.verdict == "holds"
    assert any("rollback, wait until degraded" in text for _, text in rig.log.events)
    assert rig.taken == before


@virtual
async def test_a_presenter_steps_through_it_and_aborts() -> None:
    rig, conductor, told = FakeRig(), Conductor(), list[ExperimentProgress]()
    before = rig.taken
    conductor.toggle()
    task = asyncio.create_task(run(rig, watch=told.append, conductor=conductor))
    await until(lambda: conductor.waits)
    assert told[-1].doing == "waiting for the next one"
    conductor.next()
    await until(lambda: not conductor.waits)
    conductor.toggle()
    await until(lambda: conductor.waits and told[-1].number == 2)
    assert [str(fault) for fault in rig.faults] == ["kill@db1"]
    conductor.abort("ended by hand")
    task.cancel()
    result = await task
    assert (result.verdict, result.aborted) == ("aborted", "ended by hand")
    assert rig.taken == before


@virtual
async def test_a_load_that_ends_aborts_it() -> None:
    rig = FakeRig()
    before = rig.taken
    task = asyncio.create_task(run(rig))
    await until(lambda: "inject kill" in rig.steps)
    rig.load.settings = None
    result = await task
    assert result.aborted == "the load ended"
    assert rig.taken == before


@virtual
async def test_what_a_server_refuses_is_raised_once_all_is_returned() -> None:
    rig = FakeRig()
    before = rig.taken

    def refuse(number: int) -> None:
        if rig.steps[number] == "clear kill@db1" and not rig.troubles:
            rig.troubles[number] = ServerRefused(1227, "refused")

    rig.on_step = refuse
    with pytest.raises(ServerRefused):
        await run(rig)
    assert rig.taken == before


LOST = Drill(
    name="lost",
    title="The source is lost",
    teaches="What a failover costs.",
    settings=("rtt=20ms",),
    steps=(
        DrillStep(Doing.WAIT, lasts=span(2, 1)),
        DrillStep(Doing.INJECT, "isolate"),
        DrillStep(Doing.INJECT, "kill"),
        DrillStep(Doing.FAILOVER),
        DrillStep(Doing.WAIT, lasts=span(2, 1)),
    ),
)


@virtual
async def test_after_a_failover_the_first_source_is_the_source_again() -> None:
    rig = FakeRig()
    before = rig.taken
    result = await run(rig, LOST)
    assert result.ledger is not None
    assert result.ledger.survivor == "db2"
    assert [change.source for change in result.role_changes] == ["db2"]
    assert all(each.to_s is not None for each in result.windows), (
        "what befell the old source is over for clients"
    )
    steps = [
        step
        for step in rig.steps
        if step.split()[0] in ("rejoin", "switchover", "failover", "inject", "clear")
    ]
    assert steps == [
        "inject isolate", "inject kill", "failover to db2",
        "clear kill@db1", "clear isolate@db1", "rejoin db1", "switchover to db1",
    ]  # fmt: skip
    assert rig.taken == before


@virtual
async def test_a_replica_with_rows_that_the_source_lost_gets_a_copy_of_the_source() -> None:
    rig = FakeRig()
    log = RunLog(1, {1: Attempts(((1, 9),), ((1, 9),), (), ())}, {})
    rig.loss = reckon(log, {"db1": {1: ((1, 7),)}, "db2": {1: ((1, 9),)}}, "db1", executed={})
    result = await run(rig)
    assert (result.verdict, rig.rebuilt) == ("deviates", ["db2"])


@virtual
async def test_members_that_get_what_they_lack_by_themselves_are_not_copied_to() -> None:
    rig = FakeRig(replicas=2, system=GALERA)
    log = RunLog(1, {1: Attempts(((1, 9),), ((1, 9),), (), ())}, {})
    rig.loss = reckon(log, {"db1": {1: ((1, 7),)}, "db2": {1: ((1, 9),)}}, "db1", executed={})
    steps = (DrillStep(Doing.INJECT, "kill"), DrillStep(Doing.CLEAR, "kill"))
    result = await run(rig, replace(KILL, systems=("galera",), settings=(), steps=steps))
    assert (result.verdict, result.unrestored, rig.rebuilt) == ("deviates", (), [])


@virtual
async def test_links_are_restored_where_the_load_has_gone_to_another_member() -> None:
    """The wire between db1 and db2 is `rtt@db2` while db1 has the load, and `rtt@db1` once db2 has it."""
    rig = FakeRig(replicas=2, system=GALERA)

    def note(number: int) -> None:
        if rig.steps[number].startswith("inject"):
            rig.promoted = "db2"

    rig.on_step = note
    steps = (DrillStep(Doing.INJECT, "kill"), DrillStep(Doing.CLEAR, "kill"))
    await run(rig, replace(KILL, systems=("galera",), settings=("rtt=20ms",), steps=steps))
    assert {name: value for name, value in rig.turns[-1].items() if name.key == "rtt"} == {
        KnobName("rtt", "db1"): 0.0,
        KnobName("rtt", "db1:db3"): 0.0,
    }


@virtual
async def test_what_a_lossy_failure_leaves_differing_is_owed_before_it_is_injected() -> None:
    rig, owed = FakeRig(), list[tuple[str, ...]]()
    before = rig.taken

    def note(number: int) -> None:
        if rig.steps[number].startswith("inject") and rig.owed is not None:
            owed.append(rig.owed.differing)

    rig.on_step = note
    steps = (DrillStep(Doing.INJECT, "kill"), DrillStep(Doing.CLEAR, "kill"))
    for settings in (("innodb_flush_log_at_trx_commit=1",), ("innodb_flush_log_at_trx_commit=0",)):
        await run(rig, replace(KILL, settings=settings, steps=steps))
    assert owed == [(), ("db2",)]
    assert rig.rebuilt == ["db2"]
    assert rig.taken == before


@virtual
async def test_a_member_that_may_lack_rows_gets_a_copy_before_it_is_elected_again() -> None:
    rig = FakeRig(replicas=2, system=GROUP)

    def elect(number: int) -> None:
        if rig.steps[number].startswith("inject"):
            rig.promoted = "db2"

    rig.on_step = elect
    steps = (DrillStep(Doing.INJECT, "kill"), DrillStep(Doing.CLEAR, "kill"))
    lossy = replace(KILL, systems=("group",), settings=("innodb_flush_log_at_trx_commit=0",), steps=steps)
    await run(rig, lossy)
    done = [step for step in rig.steps if step.split()[0] in ("rejoin", "switchover")]
    assert (done, rig.rebuilt) == (["rejoin db1", "switchover to db1"], ["db1"])


class Group(FakeRig):
    """Three members; db2 is elected when db1 fails, and db1 is let in only with a copy."""

    def __init__(self) -> None:
        super().__init__(replicas=2, system=GROUP)
        self.members = {name: Membership(Belonging.MEMBER, "ONLINE") for name in self.names}

    async def inject(self, text: str) -> tuple[Fault, ...]:
        done = await super().inject(text)
        self.promoted = "db2"
        self.members["db1"] = Membership(Belonging.OUTSIDE, "ERROR")
        return done

    async def clear(self, text: str | None = None) -> tuple[Cleared, ...]:
        if "db1" in self.down:
            self.down.discard("db1")
        if not self.members["db1"].is_ready:
            raise StackUnavailable("db1 is no member of the group (ERROR)", "its log")
        return await super().clear(text)

    async def rejoin(self, node: str, *, rebuild: bool = False) -> RoleChange:
        done = await super().rejoin(node, rebuild=rebuild)
        if rebuild:
            self.members[node] = Membership(Belonging.MEMBER, "ONLINE")
        return done


@virtual
async def test_a_member_that_is_not_let_in_gets_a_copy_and_the_drill_goes_on() -> None:
    rig, steps = Group(), (DrillStep(Doing.INJECT, "kill"), DrillStep(Doing.CLEAR, "kill"))
    before = rig.taken
    for settings in (("innodb_flush_log_at_trx_commit=1",), ("innodb_flush_log_at_trx_commit=0",)):
        rig.rebuilt.clear()
        result = await run(rig, replace(KILL, systems=("group",), settings=settings, steps=steps, expects=()))
        assert (result.verdict, result.unrestored) == ("holds", ())
        assert rig.rebuilt == ["db1"], "once, also where it is known to lack rows"
        assert tuple(result.repaired) == (
            "db1 is no member of the group (ERROR): a copy of the group's data brought it back",
        )
        assert rig.taken == before
        for text in (plain_text(experiment_report(result)), markdown(experiment_report(result))):
            assert "db1 is no member of the group (ERROR)" in text


@virtual
async def test_a_drill_that_is_ended_lets_all_members_in_as_well() -> None:
    rig = Group()
    before = rig.taken
    steps = (DrillStep(Doing.INJECT, "kill"), DrillStep(Doing.UNTIL, "protected", lasts=span(1, 1)))
    result = await run(rig, replace(KILL, systems=("group",), settings=(), steps=steps))
    assert (result.verdict, rig.rebuilt, rig.taken) == ("aborted", ["db1"], before)
    assert len(result.repaired) == 1


@virtual
async def test_a_group_of_which_no_other_takes_part_is_not_copied_from() -> None:
    rig = Group()

    def lose_all(number: int) -> None:
        if rig.steps[number] == "inject kill":
            rig.members["db2"] = Membership(Belonging.CUT_OFF, "ONLINE")

    rig.on_step = lose_all
    steps = (DrillStep(Doing.INJECT, "kill"), DrillStep(Doing.CLEAR, "kill"))
    result = await run(rig, replace(KILL, systems=("group",), settings=(), steps=steps))
    assert result.aborted == "db1 is no member of the group (ERROR): its log"
    assert (rig.rebuilt, result.repaired) == ([], [])


@virtual
async def test_servers_that_answer_only_together_are_started_together() -> None:
    killed = tuple(DrillStep(Doing.INJECT, f"kill@{node}") for node in ("db2", "db3"))
    for system, done in ((GALERA, ["clear kill"]), (GROUP, ["clear kill@db3", "clear kill@db2"])):
        rig = FakeRig(replicas=2, system=system)
        before = rig.taken
        drill = replace(KILL, systems=(system.name,), settings=(), expects=())
        result = await run(rig, replace(drill, steps=(*killed, DrillStep(Doing.CLEAR))))
        assert (result.verdict, rig.taken) == ("holds", before)
        assert [step for step in rig.steps if step.startswith("clear")] == done


@virtual
async def test_what_cannot_be_mended_while_a_node_is_away_is_mended_once_it_is_back() -> None:
    rig = FakeRig(replicas=2, system=GROUP)
    before = rig.taken

    def refuse_once(number: int) -> None:
        if rig.steps[number] == "clear isolate@db1" and rig.steps.count("clear isolate@db1") == 1:
            rig.troubles[number] = ServerRefused(3724, "it cannot be set while it joins")

    rig.on_step = refuse_once
    drill = replace(KILL, systems=("group",), settings=(), expects=())
    result = await run(rig, replace(drill, steps=(DrillStep(Doing.INJECT, "isolate"),)))
    assert (result.unrestored, rig.steps.count("clear isolate@db1")) == ((), 2)
    assert rig.taken == before


@virtual
async def test_the_matrix_is_that_of_the_system_of_the_stack() -> None:
    rig = FakeRig(replicas=2, system=GALERA)
    with pytest.raises(UsageError, match="'after_sync' is in no cell of the matrix of galera"):
        await MatrixRun((), True, only=("after_sync",)).run(rig)
    [found] = (await MatrixRun((), True, only=("isolated",)).run(rig)).cells
    assert found.cell == MatrixCell(Mode.GALERA, 0, 0, FailureKind.ISOLATED)
    assert "protection is off" in str(found.aborted), "the rig's members say nothing of a majority"


CELLS = (
    MatrixCell(Mode.ASYNC, 1, 1, FailureKind.PROCESS_DIES),
    MatrixCell(Mode.FALLEN_BACK, 1, 1, FailureKind.PROCESS_DIES),
    MatrixCell(Mode.AFTER_SYNC, 0, 0, FailureKind.SOURCE_LOST),
)


class Heard:
    """What a matrix says of its cells: `1 begins`, `1 ended`, `1 aborted`, each once."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.last: ExperimentProgress | None = None

    def __call__(self, now: ExperimentProgress) -> None:
        self.last = now
        word = "aborted" if ": aborted" in now.ended else "ended" if now.ended else "begins"
        text = f"{now.number} {word}"
        if text not in self.told:
            self.told.append(text)


@virtual
async def test_the_matrix_runs_every_cell_whatever_becomes_of_one() -> None:
    rig, heard = FakeRig(), Heard()
    before = rig.taken
    result = await MatrixRun(CELLS, True, watch=heard).run(rig)
    # No stack of plain values falls back: that cell waits in vain.
    assert heard.told == ["1 begins", "1 ended", "2 begins", "2 aborted", "3 begins", "3 ended"]
    assert (result.verdict, rig.taken) == ("aborted", before)
    assert [each.lost for each in result.cells] == [0, None, 0]
    assert heard.last is not None
    assert (heard.last.left_s, heard.last.kept) == (0, 2)
    [lines] = rig.shelf.only.finished
    assert len(lines) == 1 + 2  # the head, and what was found


@virtual
async def test_an_interrupted_matrix_goes_on_behind_its_last_cell_and_starts_over_when_told() -> None:
    rig, first, second = FakeRig(), Heard(), Heard()
    before = rig.taken
    task = asyncio.create_task(MatrixRun(CELLS, True, watch=first).run(rig))
    await until(lambda: "2 begins" in first.told)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert rig.taken == before
    result = await MatrixRun(CELLS, True, watch=second).run(rig)
    assert second.told == ["2 begins", "2 aborted", "3 begins", "3 ended"]
    assert ([each.cell for each in result.cells], result.resumed) == ([*CELLS], 1)
    third, other = Heard(), Heard()
    kept = rig.journal("matrix", MatrixRun(CELLS, True).identity)
    await RunJournal(kept, CellResult).add(result.cells[0])
    await MatrixRun(CELLS, True, fresh=True, watch=third).run(rig)
    await MatrixRun(CELLS[:1], True, watch=other).run(rig)
    assert (third.told[0], other.told[0]) == ("1 begins", "1 begins")


@virtual
async def test_a_matrix_that_a_presenter_ends_answers_with_what_it_has() -> None:
    rig, heard, conductor = FakeRig(), Heard(), Conductor()
    before = rig.taken
    task = asyncio.create_task(MatrixRun(CELLS, True, watch=heard, conductor=conductor).run(rig))
    await until(lambda: "2 begins" in heard.told)
    conductor.abort("ended by hand")
    task.cancel()
    result = await task
    assert (result.verdict, result.aborted, len(result.cells)) == ("aborted", "ended by hand", 1)
    assert rig.taken == before
