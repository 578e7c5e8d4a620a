"""Running a drill: its steps, what it saw, its verdict, and everything given back whatever happens."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

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
from replexplorer.core.experiment.snapshot import Snapshot
from replexplorer.core.fault import Fault, Had
from replexplorer.core.knobs.names import KnobName
from replexplorer.core.loss.client_log import CLIENTS_A_RUN, Attempts, RunLog
from replexplorer.core.role_change import RoleChange
from replexplorer.core.server.comeback import compare
from replexplorer.core.server.exposure import Exposure, Loss, Unknown
from replexplorer.core.server.node_view import Membership
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.system import ASYNC, GALERA, GROUP, System
from replexplorer.core.topology import Belonging
from replexplorer.engine.experiment.drill import DrillRun
from replexplorer.engine.experiment.matrix import MatrixRun
from replexplorer.engine.experiment.run import Conductor, RunJournal
from replexplorer.engine.experiment.stack_api import StackApi
from replexplorer.engine.outcome import Cleared
from replexplorer.formats.experiment_file import read_drill
from replexplorer.reports.experiment_report import experiment_report
from replexplorer.reports.report import markdown
from tests.fakes.clock import until
from tests.fakes.server import REDO_A_COMMIT
from tests.fakes.stack import FakeStack, stack_of
from tests.fakes.world import CPU_A_COMMIT_S, World
from tests.known import known
from tests.turning import turn

EXPERIMENTS = Path(__file__).parent / "experiments"
KILL, LOST = (read_drill(EXPERIMENTS / f"{name}.toml") for name in ("kill", "lost"))
SHORT = replace(
    KILL,
    systems=("async", "galera", "group"),
    settings=(),
    steps=(DrillStep(Doing.INJECT, "kill"), DrillStep(Doing.CLEAR, "kill")),
    expects=(),
)
"""The source is killed and comes back."""
LOSSY = ("innodb_flush_log_at_trx_commit=0",)


async def run(stack: StackApi, drill: Drill = KILL, **more: Any) -> DrillResult:
    return await DrillRun(drill, True, **more).run(stack)


def told(stack: StackApi) -> list[str]:
    return [event.text for event in stack.log.take_events()]


def copied(stack: FakeStack) -> list[str]:
    """Nodes that got a copy of another one's data."""
    return [node for node, what in stack.world.changes if what.startswith("CLONE INSTANCE")]


async def test_a_drill_breaks_mends_reckons_and_returns_everything() -> None:
    async with stack_of() as stack:
        progress: list[ExperimentProgress] = []
        result = await run(stack, watch=progress.append)
    assert result.verdict == "holds", result.relations
    assert [(each.fault, each.node) for each in result.windows] == [("kill", "db1"), ("partition=ack", "db2")]
    assert all(each.to_s is not None and each.to_s > each.from_s for each in result.windows)
    assert [each.state for each in result.timeline] == ["off", "down", "off", "protected"]
    assert result.ledger is not None
    assert result.unrestored == ()
    assert list(dict.fromkeys(each.number for each in progress if each.number)) == list(range(1, 10))
    events = told(stack)
    assert "kill sets sync_binlog=0 rtt=20ms by itself" in events
    assert events[-1] == "the drill is done; the knobs are restored"


async def test_a_drill_in_which_a_knob_was_turned_anyway_says_what_and_judges_nothing() -> None:
    async with stack_of(returns=False) as stack, stack.world.attached("set") as other:
        task = asyncio.create_task(run(stack))
        await until(lambda: stack.world.requested.get("sync_binlog") == 0)
        await asyncio.sleep(1)
        await turn(other, "rtt=50", anyway=True)
        result = await task
    assert result.aborted == f"changed while it ran, rtt@db2 20 → 50 ms, by {other.turns.actor.writer}"
    assert (result.verdict, result.relations) == ("aborted", ())


class CameBack(FakeStack):
    """A source that lacks the end of its binlog when it is back."""

    async def clear(self, text: str | None = None) -> tuple[Cleared, ...]:
        uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
        had, others = Had({"db1": f"{uuid}:1-100"}, "", binlog_bytes=4096), {"db2": f"{uuid}:1-58"}
        found = compare("db1", uuid, had, others, f"{uuid}:1-90", f"{uuid}:1-90", is_source=True)
        return tuple(replace(each, comeback=found) for each in await super().clear(text))


async def test_what_a_source_came_back_without_is_judged_and_its_replica_copied() -> None:
    expects = (
        Claim("the replica breaks", "broken_1236", 1.0, "=="),
        Claim("the binlog is short", "binlog_lost", 90.0, "=="),
        Claim("no other rows", "diverged", 0.0, "=="),
    )
    async with stack_of(kind=CameBack) as stack:
        result = await run(stack, replace(SHORT, expects=expects))
    assert result.verdict == "holds", result.relations
    assert copied(stack) == ["db2"]
    assert result.replication_after == {"db2": "broken 1236"}
    text = markdown(experiment_report(result))
    assert "90 (4,096 bytes)" in text
    assert "broken 1236: it has to be copied from the source" in text


class Metered(FakeStack):
    """Its meter finds something else whenever it is asked."""

    asked = 0

    def at_risk(self) -> tuple[float, Exposure] | None:
        self.asked += 1
        loss = Loss(self.asked, 0, 9)
        return self.clock.monotonic(), Exposure(loss, loss, Unknown("no replica is reachable"))


@pytest.mark.parametrize("steps", [KILL.steps, (KILL.steps[0],)], ids=["a fault", "none"])
async def test_what_the_meter_said_and_a_commit_cost_before_the_failure_is_kept(
    steps: tuple[DrillStep, ...],
) -> None:
    every, times_us = tuple(range(1, 6001)), tuple(range(0, 60_000_000, 10_000))
    told = Attempts(((1, 6000),), ((1, 6000),), (), (), acknowledged_seqs=every, acknowledged_us=times_us)
    async with stack_of(kind=Metered) as stack:
        stack.world.client_logs.log = RunLog(1, {1: told}, {})
        result = await run(stack, replace(KILL, steps=steps, expects=()))
    cost = known(result.cost)
    assert cost.commits == pytest.approx(8000, rel=0.1), "of two seconds, and not of those after the failure"
    assert cost.cpu_us == dict.fromkeys(("db1", "db2"), pytest.approx(1e6 * CPU_A_COMMIT_S))
    assert cost.redo_bytes == pytest.approx(REDO_A_COMMIT)
    if len(steps) == 1:
        assert result.reading is None
        return
    reading = known(result.reading)
    assert max(result.windows[0].from_s, reading.at_s) <= reading.failed_s
    assert reading.meanwhile >= 1
    assert 0 <= known(result.recovery_ms) <= 10.1
    text = markdown(experiment_report(result))
    assert "not known: no replica is reachable" in text
    assert "acknowledged after the reading" in text


class Fallen(FakeStack):
    """Its source had fallen back to asynchronous five times before; it does so twice more until a fault ends
    it, and once after that."""

    counted = 5

    async def inject(self, text: str) -> tuple[Fault, ...]:
        self.counted = 7
        await asyncio.sleep(1.0)  # the drill looks on
        done = await super().inject(text)
        self.counted = 1
        await asyncio.sleep(1.0)
        return done

    @property
    def seen(self) -> Snapshot:
        seen = super().seen
        return replace(seen, protection=replace(seen.protection, fallbacks=self.counted))


async def test_falls_back_are_counted_over_a_restart_of_the_server_that_counts_them() -> None:
    async with stack_of(kind=Fallen) as stack:
        assert (await run(stack, SHORT)).fallbacks == 3


@pytest.mark.parametrize(
    ("change", "why", "breaks"),
    [
        (
            {"steps": (DrillStep(Doing.UNTIL, "degraded", lasts=span(2, 2)),)},
            "protection is off and not degraded after 2 s",
            False,
        ),
        (
            {"steps": (KILL.steps[1], DrillStep(Doing.UNTIL, "writing", lasts=span(2, 2)))},
            "no commit was acknowledged for 2 s",
            True,
        ),
        ({"prechecks": (Precheck(ProtectionState.PROTECTED, 1.0),)}, "protection is off", False),
    ],
)
async def test_what_is_waited_for_in_vain_aborts_it(change: dict[str, Any], why: str, breaks: bool) -> None:
    async with stack_of() as stack:
        result = await run(stack, replace(KILL, **change))
        assert (result.verdict, bool(result.windows)) == ("aborted", breaks)
        assert why in str(result.aborted)


async def test_what_this_stack_cannot_have_is_refused_before_anything_is_done() -> None:
    async with stack_of() as stack:
        with pytest.raises(UsageError):
            await run(stack, replace(KILL, settings=("sync_binlog=-3",)))
        assert stack.world.changes == []


async def test_a_rollback_step_that_fails_is_said_and_the_rest_goes_on() -> None:
    async with stack_of() as stack:
        rollback = (DrillStep(Doing.CLEAR, "kill"), DrillStep(Doing.SET, settings=("fsync_delay=7",)))
        failing = (DrillStep(Doing.UNTIL, "degraded", lasts=span(1)), *rollback)
        result = await run(stack, replace(KILL, rollback=failing))
        assert result.verdict == "holds"
        assert any("rollback, wait until degraded" in text for text in told(stack))
        assert any(what == "fsync 7" for _, what in stack.world.changes)


async def test_a_presenter_steps_through_it_and_aborts() -> None:
    conductor, progress = Conductor(), list[ExperimentProgress]()
    async with stack_of() as stack:
        conductor.toggle()
        task = asyncio.create_task(run(stack, watch=progress.append, conductor=conductor))
        await until(lambda: conductor.waits)
        assert progress[-1].doing == "waiting for the next one"
        conductor.next()
        await until(lambda: not stack.world.primary.running)
        conductor.abort()
        task.cancel()
        result = await task
        assert (result.verdict, result.aborted) == ("aborted", "ended by hand")


class Refusing(FakeStack):
    """The first mending of this fault is refused."""

    refused = "kill@db1"

    async def clear(self, text: str | None = None) -> tuple[Cleared, ...]:
        if text == self.refused:
            self.refused = ""
            raise ServerRefused(3724, "it cannot be set while it joins")
        return await super().clear(text)


async def test_what_a_server_refuses_is_raised_once_all_is_returned() -> None:
    async with stack_of(kind=Refusing) as stack:
        with pytest.raises(ServerRefused):
            await run(stack)


async def test_what_cannot_be_mended_while_a_node_is_away_is_mended_once_it_is_back() -> None:
    async with stack_of(GROUP, Refusing, replicas=2) as stack:
        stack.refused = "isolate@db1"
        result = await run(stack, replace(SHORT, steps=(DrillStep(Doing.INJECT, "isolate"),)))
        assert (result.unrestored, stack.refused) == ((), "")


async def test_after_a_failover_the_first_source_is_the_source_again() -> None:
    async with stack_of() as stack:
        result = await run(stack, LOST)
    assert known(result.ledger).survivor == "db2"
    assert [change.source for change in result.role_changes] == ["db2"]
    assert all(each.to_s is not None for each in result.windows), (
        "what befell the old source is over for clients"
    )
    events = told(stack)
    done = [
        "failover from db1 to db2 is done", "fault over: kill@db1", "fault over: isolate@db1",
        "rejoin of db1 is done", "switchover from db2 to db1 is done",
    ]  # fmt: skip
    assert [text for text in events if text in done] == done


@pytest.mark.parametrize(("system", "replicas", "copies"), [(ASYNC, 1, ["db2"]), (GALERA, 2, [])])
async def test_a_replica_with_rows_that_the_source_lost_gets_a_copy_of_it_and_a_member_by_itself(
    system: System, replicas: int, copies: list[str]
) -> None:
    async with stack_of(system, replicas=replicas) as stack:
        stack.world.client_logs.log = RunLog(1, {1: Attempts(((1, 9),), ((1, 9),), (), ())}, {})
        for name, last in (("db1", 7), ("db2", 9)):
            stack.world.servers[name].ledger = [(CLIENTS_A_RUN + 1, 1, last)]
        drill = replace(SHORT, expects=KILL.expects[:1])
        result = await run(stack, drill)
    assert (result.verdict, result.unrestored, copied(stack)) == ("deviates", (), copies)


class Elects(FakeStack):
    """Its load goes on at db2 as soon as something is injected."""

    async def inject(self, text: str) -> tuple[Fault, ...]:
        done = await super().inject(text)
        self.world.elect("db2")
        await self.look()
        return done


async def test_links_are_restored_where_the_load_has_gone_to_another_member() -> None:
    """The wire between db1 and db2 is `rtt@db2` while db1 has the load, and `rtt@db1` once db2 has it."""
    async with stack_of(GALERA, Elects, replicas=2, returns=False) as stack:
        await run(stack, replace(SHORT, settings=("rtt=20ms",)))
        assert stack.world.rtt_ms("db1") == stack.world.rtt_ms("db3") == pytest.approx(0.1)
        assert (
            stack.seen.requested(KnobName("rtt", "db1")) == stack.seen.requested(KnobName("rtt", "db3")) == 0
        )


async def test_what_a_lossy_failure_leaves_differing_is_owed_before_it_is_injected() -> None:
    owed = list[object]()

    class Noting(FakeStack):
        async def inject(self, text: str) -> tuple[Fault, ...]:
            await self.state.read_document()
            owed.append(self.state.requested.owed and self.state.requested.owed.differing)
            return await super().inject(text)

    async with stack_of(kind=Noting) as stack:
        for settings in (("innodb_flush_log_at_trx_commit=1",), LOSSY):
            await run(stack, replace(SHORT, settings=settings))
        assert owed == [(), ("db2",)]
        assert copied(stack) == ["db2"]


async def test_a_member_that_may_lack_rows_gets_a_copy_before_it_is_elected_again() -> None:
    async with stack_of(GROUP, Elects, replicas=2) as stack:
        result = await run(stack, replace(SHORT, settings=LOSSY))
        assert result.unrestored == ()
        done = [text for text in told(stack) if text.startswith(("rejoin", "switchover"))]
        assert done == ["rejoin of db1 is done", "switchover from db2 to db1 is done"]
        assert copied(stack) == ["db1"]


class Group(Elects):
    """Three members; db2 is elected when db1 fails, and db1 is let in only with a copy."""

    copies = 0

    async def inject(self, text: str) -> tuple[Fault, ...]:
        done = await super().inject(text)
        self.members["db1"] = Membership(Belonging.OUTSIDE, "ERROR")
        return done

    async def clear(self, text: str | None = None) -> tuple[Cleared, ...]:
        if not self.world.servers["db1"].running:
            self.world.servers["db1"].boot()
        if not self.members["db1"].is_ready:
            raise StackUnavailable("db1 is not a member of the group (ERROR)", "its log")
        return tuple(replace(each, comeback=None) for each in await super().clear(text))

    async def rejoin(self, node: str, *, rebuild: bool = False) -> RoleChange:
        done = await super().rejoin(node, rebuild=rebuild)
        if rebuild:
            self.members[node] = MEMBER
        self.copies += rebuild
        return done


MEMBER = Membership(Belonging.MEMBER, "ONLINE")
MEMBERS = dict.fromkeys(("db1", "db2", "db3"), MEMBER)
NOT_PROTECTED = (SHORT.steps[0], DrillStep(Doing.UNTIL, "protected", lasts=span(1, 1)))


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        ({}, "holds"),
        ({"settings": LOSSY}, "holds"),  # a copy, once, also where it is known to lack rows
        ({"steps": NOT_PROTECTED}, "aborted"),
    ],
)
async def test_a_member_that_is_not_let_in_gets_a_copy_and_the_drill_goes_on(
    change: dict[str, Any], verdict: str
) -> None:
    async with stack_of(GROUP, Group, replicas=2, members=MEMBERS) as stack:
        result = await run(stack, replace(SHORT, **change))
        assert (result.verdict, result.unrestored, stack.copies) == (verdict, (), 1)
        assert tuple(result.repaired) == (
            "db1 is not a member of the group (ERROR): a copy of the group's data brought it back",
        )
        assert "db1 is not a member of the group (ERROR)" in markdown(experiment_report(result))


async def test_a_group_of_which_no_other_takes_part_is_not_copied_from() -> None:
    class Alone(Group):
        async def inject(self, text: str) -> tuple[Fault, ...]:
            done = await super().inject(text)
            self.members["db2"] = Membership(Belonging.CUT_OFF, "ONLINE")
            return done

    async with stack_of(GROUP, Alone, replicas=2, returns=False, members=MEMBERS) as stack:
        result = await run(stack, SHORT)
    assert result.aborted == "db1 is not a member of the group (ERROR): its log"
    assert (stack.copies, result.repaired) == (0, [])


@pytest.mark.parametrize(
    ("system", "cleared"), [(GALERA, ["kill"]), (GROUP, ["kill@db3", "kill@db2"])], ids=str
)
async def test_servers_that_answer_only_together_are_started_together(
    system: System, cleared: list[str]
) -> None:
    asked = list[str | None]()

    class Noting(FakeStack):
        async def clear(self, text: str | None = None) -> tuple[Cleared, ...]:
            asked.append(text)
            return await super().clear(text)

    killed = tuple(DrillStep(Doing.INJECT, f"kill@{node}") for node in ("db2", "db3"))
    async with stack_of(system, Noting, replicas=2) as stack:
        result = await run(stack, replace(SHORT, steps=(*killed, DrillStep(Doing.CLEAR))))
        assert (result.verdict, asked) == ("holds", cleared)


CELLS = (
    MatrixCell(Mode.ASYNC, 1, 1, FailureKind.PROCESS_DIES),
    MatrixCell(Mode.ASYNC, 0, 0, FailureKind.PROCESS_DIES),
    MatrixCell(Mode.AFTER_SYNC, 0, 0, FailureKind.SOURCE_LOST),
)


class Heard:
    """What a matrix says of its cells: `1 begins`, `1 ended`, `1 aborted`, each once. The load of the second
    dies."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.told: list[str] = []
        self.last: ExperimentProgress | None = None

    def __call__(self, now: ExperimentProgress) -> None:
        self.last = now
        word = "aborted" if ": aborted" in now.ended else "ended" if now.ended else "begins"
        text = f"{now.number} {word}"
        if text not in self.told:
            self.told.append(text)
        if now.number == 2 and now.doing.startswith("let the load run"):
            self._world.loads[-1].die()


async def test_a_matrix_runs_every_cell_and_an_interrupted_one_goes_on_behind_its_last() -> None:
    async with stack_of() as stack:
        first, second = Heard(stack.world), Heard(stack.world)
        task = asyncio.create_task(MatrixRun(CELLS, True, watch=first).run(stack))
        await until(lambda: "2 begins" in first.told)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        result = await MatrixRun(CELLS, True, watch=second).run(stack)
        assert first.told + second.told == [
            "1 begins", "1 ended", "2 begins", "2 begins", "2 aborted", "3 begins", "3 ended",
        ]  # fmt: skip
        assert (result.verdict, result.resumed) == ("aborted", 1)
        assert [(each.cell, each.lost) for each in result.cells] == list(
            zip(CELLS, (0, None, 0), strict=True)
        )
        last = known(second.last)
        assert (last.left_s, last.kept) == (0, 1)
        [lines] = stack.world.journals.only.finished
        assert len(lines) == 1 + 2  # the head, and what was found


@pytest.mark.parametrize(("fresh", "at"), [(False, 2), (True, 1)])
async def test_a_matrix_that_a_presenter_ends_answers_with_what_it_has(fresh: bool, at: int) -> None:
    """Of what an earlier run of the same cells has found, unless it is to begin anew."""
    conductor = Conductor()
    async with stack_of() as stack:
        heard = Heard(stack.world)
        run = MatrixRun(CELLS, True, fresh=fresh, watch=heard, conductor=conductor)
        journal = RunJournal(stack.world.journals("matrix", run.identity), CellResult)
        await journal.open({"on": stack.seen.server}, fresh=True)
        await journal.add(CellResult(CELLS[0], 0.0, 1.0))
        task = asyncio.create_task(run.run(stack))
        await until(lambda: heard.told)
        conductor.abort()
        task.cancel()
        result = await task
        assert heard.told == [f"{at} begins"]
        assert (result.verdict, result.aborted, len(result.cells)) == ("aborted", "ended by hand", at - 1)


async def test_the_matrix_is_that_of_the_system_of_the_stack() -> None:
    async with stack_of(GALERA, replicas=2) as stack:
        with pytest.raises(UsageError, match="'after_sync' is not in the matrix of galera"):
            await MatrixRun((), True, only=("after_sync",)).run(stack)
