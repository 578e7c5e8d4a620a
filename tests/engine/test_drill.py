"""Running a drill: its steps, what it saw, its verdict, and everything given back whatever happens."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from replexplorer import __version__
from replexplorer.core.errors import ServerRefused, StackUnavailable, UsageError
from replexplorer.core.experiment.drill import Doing, Drill, DrillStep, Precheck, span
from replexplorer.core.experiment.experiment import ExperimentProgress, ExperimentResult
from replexplorer.core.experiment.matrix import FailureKind, MatrixCell, Mode
from replexplorer.core.experiment.relations import Claim
from replexplorer.core.experiment.snapshot import Snapshot
from replexplorer.core.fault import Fault, Had
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
from replexplorer.engine.experiment.run import Conductor
from replexplorer.engine.outcome import Cleared
from replexplorer.formats.experiment_file import read_drill
from replexplorer.reports.experiment_report import experiment_report
from replexplorer.reports.report import markdown
from tests.fakes.clock import until
from tests.fakes.stack import FakeStack, stack_of
from tests.fakes.world import World
from tests.turning import turn


def steps(text: str) -> tuple[DrillStep, ...]:
    """`inject kill, until degraded 2, set rtt=7`: steps, some with how many seconds they may take."""
    found = []
    for each in text.split(", "):
        doing, what, seconds = f"{each}  ".split(" ")[:3]
        lasts = span(float(seconds), float(seconds)) if seconds else None
        found.append(DrillStep(Doing(doing), what, (what,) * (doing == "set"), lasts))
    return tuple(found)


EXPERIMENTS = Path(__file__).parent / "experiments"
KILL, LOST = (read_drill(EXPERIMENTS / f"{name}.toml") for name in ("kill", "lost"))
SHORT = replace(
    KILL,
    systems=("async", "galera", "group"),
    settings=(),
    steps=steps("inject kill, clear kill"),
    expects=(),
)
"""The source is killed and comes back."""
LOSSY = ("innodb_flush_log_at_trx_commit=0",)


def report_of(result: ExperimentResult) -> str:
    """Without this program's version, and without when a drill did what."""
    return markdown(experiment_report(result)).replace(__version__, "X").partition("## Timeline")[0]


class Played(FakeStack):
    """Something happens to it at `inject kill`, at `injected kill`, or at `clear kill`."""

    moments: tuple[str, ...] = ()
    """When faults were injected and cleared, and which nodes were owed a copy by then."""

    async def scene(self, moment: str) -> None:
        """What happens then."""

    async def inject(self, text: str) -> tuple[Fault, ...]:
        await self.state.read_document()
        owed = self.state.requested.owed
        self.moments += (f"inject {text}, owing {owed and owed.differing}",)
        await self.scene(f"inject {text}")
        done = await super().inject(text)
        await self.scene(f"injected {text}")
        return done

    async def clear(self, text: str | None = None) -> tuple[Cleared, ...]:
        self.moments += (f"clear {text}",)
        await self.scene(f"clear {text}")
        return await super().clear(text)


class CameBack(Played):
    """A source that lacks the end of its binlog when it is back."""

    async def clear(self, text: str | None = None) -> tuple[Cleared, ...]:
        uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
        had, others = Had({"db1": f"{uuid}:1-100"}, "", binlog_bytes=4096), {"db2": f"{uuid}:1-58"}
        found = compare("db1", uuid, had, others, f"{uuid}:1-90", f"{uuid}:1-90", is_source=True)
        return tuple(replace(each, comeback=found) for each in await super().clear(text))


class Metered(Played):
    """Its meter finds something else whenever it is asked. Its source had fallen back to asynchronous five
    times before; it does so twice more until a fault ends it, and once after that."""

    asked, fallbacks = 0, 5

    async def scene(self, moment: str) -> None:
        self.fallbacks = {"inject kill": 7, "injected kill": 1}.get(moment, self.fallbacks)
        await asyncio.sleep(1.0)  # the drill looks on

    @property
    def seen(self) -> Snapshot:
        seen = super().seen
        return replace(seen, protection=replace(seen.protection, fallbacks=self.fallbacks))

    def at_risk(self) -> tuple[float, Exposure] | None:
        self.asked += 1
        loss = Loss(self.asked, 0, 9)
        return self.clock.monotonic(), Exposure(loss, loss, Unknown("no replica is reachable"))


class Elects(Played):
    """Its load goes on at db2 as soon as something is injected."""

    async def scene(self, moment: str) -> None:
        if moment.startswith("injected"):
            self.world.elect("db2")
            await self.look()


class Refusing(Played):
    """Refuses once to clear a fault."""

    async def scene(self, moment: str) -> None:
        if moment.startswith("clear") and self.moments.count(moment) == 1:
            raise ServerRefused(3724, "it cannot be set while it joins")


class Disturbed(Played):
    """Another app turns a knob while the source is away."""

    async def scene(self, moment: str) -> None:
        if moment == "injected kill":
            async with self.world.attached("set") as other:
                await turn(other, "rtt=50", anyway=True)


MEMBER = Membership(Belonging.MEMBER, "ONLINE")


class Group(Elects):
    """Three members; db2 is elected when db1 fails, and db1 is let in only with a copy."""

    others = MEMBER
    """What db2 is once db1 has failed."""

    async def inject(self, text: str) -> tuple[Fault, ...]:
        self.members = dict.fromkeys(("db1", "db2", "db3"), MEMBER)
        done = await super().inject(text)
        self.members |= {"db1": Membership(Belonging.OUTSIDE, "ERROR"), "db2": self.others}
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
        return done


class Alone(Group):
    """No other takes part in the group."""

    others = Membership(Belonging.CUT_OFF, "ONLINE")


@dataclass(frozen=True)
class Course:
    """A drill on a stack of its own, whose clients were told of 6,000 rows that all nodes have."""

    drill: Drill = SHORT
    kind: type[FakeStack] = Played
    system: System = ASYNC
    rows: int = 6000
    """Of the source."""
    returns: bool = True
    """The stack is afterwards as it was before."""


TWO_DIE = replace(SHORT, steps=steps("inject kill@db2, inject kill@db3, clear"))
BROKEN = {"broken_1236": 1.0, "binlog_lost": 90.0, "diverged": 0.0}
COURSES = {
    "a crash, and a partition": Course(KILL, Metered),
    "a failover": Course(LOST),
    "the source comes back without the end of its binlog": Course(
        replace(SHORT, expects=tuple(Claim(name, name, value, "==") for name, value in BROKEN.items())),
        CameBack,
    ),
    "no fault at all, and a state that does not come": Course(replace(KILL, steps=steps("until degraded 2"))),
    "no commit comes": Course(replace(KILL, steps=steps("inject kill, until writing 2"))),
    "a knob is turned meanwhile": Course(KILL, Disturbed, returns=False),
    "a precheck in vain": Course(replace(KILL, prechecks=(Precheck(ProtectionState.PROTECTED, 1.0),))),
    "a step of the rollback fails": Course(
        replace(SHORT, rollback=steps("until degraded 1, clear kill, set fsync_delay=7"))
    ),
    "a replica has rows that the source lost": Course(replace(SHORT, expects=KILL.expects[:1]), rows=5990),
    "a member has rows that another one lost": Course(system=GALERA, rows=5990),
    "a failure after which its replica differs": Course(replace(SHORT, settings=LOSSY)),
    "members that answer only together": Course(TWO_DIE, system=GALERA),
    "members that answer one by one": Course(TWO_DIE, system=GROUP),
    "a server refuses what is done again once its node is back": Course(
        replace(SHORT, steps=steps("inject isolate")), Refusing, GROUP
    ),
    "another member takes the load": Course(
        replace(SHORT, settings=("rtt=20ms",)), Elects, GALERA, returns=False
    ),
    "an elected member may lack rows": Course(replace(SHORT, settings=LOSSY), Elects, GROUP),
    "a member is not let in": Course(SHORT, Group, GROUP),
    "a member that lacks rows is not let in": Course(replace(SHORT, settings=LOSSY), Group, GROUP),
    "a member is not let in after a wait in vain": Course(
        replace(SHORT, steps=steps("inject kill, until protected 1")), Group, GROUP
    ),
    "no other member could give it a copy": Course(SHORT, Alone, GROUP, returns=False),
}


@pytest.mark.parametrize("name", COURSES)
async def test_what_a_drill_does_reports_and_returns(name: str, snapshot: object) -> None:
    course, did = COURSES[name], dict[str, None]()
    every, times_us = tuple(range(1, 6001)), tuple(range(0, 60_000_000, 10_000))
    noted = Attempts(((1, 6000),), ((1, 6000),), (), (), acknowledged_seqs=every, acknowledged_us=times_us)

    def watch(now: ExperimentProgress) -> None:
        did[f"{now.number}: {now.doing}"] = None

    replicas = 1 if course.system is ASYNC else 2
    async with stack_of(course.system, course.kind, replicas=replicas, returns=course.returns) as stack:
        stack.world.client_logs.log = RunLog(1, {1: noted}, {})
        for node, server in stack.world.servers.items():
            server.ledger = [(CLIENTS_A_RUN + 1, 1, course.rows if node == "db1" else 6000)]
        result = await DrillRun(course.drill, True, watch).run(stack)
    assert {
        "course": [*did, *(each.text for each in result.course)],
        "report": report_of(result),
        "events": [event.text for event in stack.log.take_events()],
        "copies": [node for node, what in stack.world.changes if what.startswith("CLONE INSTANCE")],
        "moments": stack.moments,
        "requested": stack.world.requested,
    } == snapshot


async def test_what_this_stack_cannot_have_is_refused_before_anything_is_done() -> None:
    refused: dict[str, DrillRun | MatrixRun] = {
        "asynchronous replication, and this stack is Galera": DrillRun(KILL),
        "sync_binlog": DrillRun(replace(SHORT, settings=("sync_binlog=-3",))),
        "'after_sync' is not in the matrix of galera": MatrixRun((), True, only=("after_sync",)),
    }
    async with stack_of(GALERA, replicas=2) as stack:
        for why, procedure in refused.items():
            with pytest.raises(UsageError, match=why):
                await procedure.run(stack)
        assert stack.world.changes == []


async def test_what_a_server_refuses_is_raised_once_all_is_returned() -> None:
    async with stack_of(kind=Refusing) as stack:
        with pytest.raises(ServerRefused):
            await DrillRun(SHORT, True).run(stack)


async def test_a_presenter_steps_through_it_and_aborts() -> None:
    conductor, progress = Conductor(), list[ExperimentProgress]()
    async with stack_of() as stack:
        conductor.toggle()
        task = asyncio.create_task(DrillRun(KILL, True, progress.append, conductor).run(stack))
        await until(lambda: conductor.waits)
        assert progress[-1].doing == "waiting for the next one"
        conductor.next()
        await until(lambda: not stack.world.primary.running)
        conductor.abort()
        task.cancel()
        result = await task
        assert (result.verdict, result.aborted) == ("aborted", "ended by hand")


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
        self.told: dict[str, ExperimentProgress] = {}

    def __call__(self, now: ExperimentProgress) -> None:
        word = "aborted" if ": aborted" in now.ended else "ended" if now.ended else "begins"
        self.told[f"{now.number} {word}"] = now
        if now.number == 2 and now.doing.startswith("let the load run"):
            self._world.loads[-1].die()


async def test_an_interrupted_matrix_goes_on_behind_its_last_cell_or_starts_over(
    snapshot: SnapshotAssertion,
) -> None:
    """Also one that a presenter ends, who gets what an earlier run of the same cells has found."""
    conductor = Conductor()
    async with stack_of() as stack:
        first, second, third = (Heard(stack.world) for _ in range(3))
        task = asyncio.create_task(MatrixRun(CELLS, True, watch=first).run(stack))
        await until(lambda: "2 begins" in first.told)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        task = asyncio.create_task(MatrixRun(CELLS, True, watch=second, conductor=conductor).run(stack))
        await until(lambda: second.told)
        conductor.abort()
        task.cancel()
        ended = await task
        result = await MatrixRun(CELLS, True, fresh=True, watch=third).run(stack)
        [lines] = stack.world.journals.only.finished
    assert [*map(list, (first.told, second.told, third.told))] == snapshot
    for found in (ended, result):
        cells = [f"{each.cell.name}: lost {each.lost}" for each in found.cells]
        assert (found.verdict, found.aborted, found.resumed, cells) == snapshot
    last = third.told["3 ended"]
    assert (last.left_s, last.kept, len(lines)) == (0, 2, 3), "a head, and what was found"
