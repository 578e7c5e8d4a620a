"""A view and its console without servers: it plays ticks, keeps requested values, and notes every call."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar, cast

from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.event import Event
from replexplorer.core.experiment.drill_result import DrillResult, figures_of, judge
from replexplorer.core.experiment.experiment import ExperimentProgress, Try
from replexplorer.core.experiment.lab import LabResult, PhaseResult
from replexplorer.core.experiment.matrix import CellResult, Matrix, MatrixResult, matrix_cells, stages_of
from replexplorer.core.experiment.sweep_result import Swept, SweptRun
from replexplorer.core.fault import FaultRequest
from replexplorer.core.knobs.names import (
    Assignment,
    Backing,
    KnobName,
    Value,
    format_value,
    parse_assignment,
)
from replexplorer.core.loss.client_log import Attempts, RunLog
from replexplorer.core.loss.ledger import count_losses
from replexplorer.core.role_change import ChangeKind, RecoveryPoint, RecoveryTime, RoleChange
from replexplorer.core.server.exposure import Loss
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.server.protection import Protection
from replexplorer.core.server.waits import ServerWaits
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.tick import Tick
from replexplorer.core.topology import Roster
from replexplorer.core.wire import Experiment
from replexplorer.engine.console import Console
from replexplorer.engine.experiment.drill import DrillRun
from replexplorer.engine.experiment.lab import LabRun, concluded
from replexplorer.engine.experiment.matrix import MatrixRun
from replexplorer.engine.experiment.stack_api import Procedure
from replexplorer.engine.experiment.sweep import SweepRun
from replexplorer.engine.outcome import (
    Changed,
    Cleared,
    ExperimentUnderWay,
    Injected,
    Preview,
    SetResult,
)
from replexplorer.ports import Reporter
from tests.ticks import WALL_S, change_event, make_tick, replica_names

R = TypeVar("R")
SERVER = "mysql 9.7.4"


class FakeFacade(Console):
    """Plays what `play` is given; `calls` has what was asked, as (method, argument) pairs."""

    player: Final = None

    steps: tuple[tuple[str, float | None], ...] = ()
    """What `start` reports."""
    lab_tries: tuple[Try, ...] = ()
    """What each step of a lab shows."""
    injected: tuple[Injected, ...] = ()
    """What injecting answers."""
    in_full: tuple[NodeView, ...] = ()
    """What `nodes` answers."""
    repaired: tuple[str, ...] = ()
    """What `repair` answers."""
    waited: tuple[ServerWaits, ...] = ()
    """What sessions wait for, one look after the other."""
    closing_line = "stack default keeps running; `replexplorer down` removes it"
    _running: Experiment | None = None

    def __init__(self, *ticks: Tick, replicas: int = 1, by_turns: bool = False) -> None:
        self.calls: list[tuple[str, object]] = []
        self.pointed: list[str] = []
        """Knobs that were shown to who watches, one after the other."""
        self.failures: dict[str, ReplexplorerError] = {}
        """Method to the error that its next call raises."""
        self.hold: dict[str, asyncio.Event] = {}
        """Method to an event that its calls wait for."""
        self.by_turns = by_turns
        """Each step of an experiment waits for a `turn`, else it goes as fast as it can."""
        self._steps_due = asyncio.Semaphore(0)
        self._replicas = replica_names(replicas)
        self._queue: asyncio.Queue[Tick | None] = asyncio.Queue()
        self.recorded: list[Tick] = []
        """What `past` answers."""
        self._values: dict[KnobName, Value] = {}
        for tick in ticks:
            self.play(tick)

    def play(self, tick: Tick) -> None:
        """Give a tick to whoever listens."""
        self._values = {name: view.requested for name, view in tick.knobs.items()}
        self._queue.put_nowait(tick)
        self.recorded.append(tick)

    def turn(self, times: int = 1) -> None:
        """Let an experiment end so many steps."""
        for _ in range(times):
            self._steps_due.release()

    async def _its_turn(self) -> None:
        if self.by_turns:
            await self._steps_due.acquire()

    def called(self, method: str) -> list[object]:
        """The arguments of every call of a method."""
        return [argument for name, argument in self.calls if name == method]

    async def start(self, report: Reporter) -> None:
        """Report the steps."""
        for step in self.steps:
            report(*step)
        await self._note("start", None)

    async def ticks(self) -> AsyncIterator[Tick]:
        """The ticks that were played, until closed."""
        while (tick := await self._queue.get()) is not None:
            yield tick

    def past(self) -> Iterator[Tick]:
        return iter(self.recorded)

    async def waits(self) -> AsyncIterator[ServerWaits]:
        """The looks that there are; notes when nobody reads them any more."""
        try:
            await self._note("waits", None)
            for found in self.waited:
                yield found
            await asyncio.Event().wait()
        finally:
            self.calls.append(("waits no more", None))

    def parse(self, text: str) -> Assignment:
        """The product's own parser."""
        return parse_assignment(text, Roster(("db1", *self._replicas), "db1"))

    def preview(self, assignments: Sequence[Assignment]) -> Preview:
        """Statements by the catalogue's variables."""
        asked = _asked(assignments)
        return Preview(
            tuple(_statement(name, value) for name, value in asked),
            tuple(_statement(name, self._values.get(name, name.knob.default)) for name, _ in asked),
            (),
        )

    def preview_fault(self, request: FaultRequest) -> Preview:
        """A line a node, and nothing to warn of."""
        return Preview(
            tuple(f"{request.text} to mysqld of {node}" for node in request.nodes),
            tuple(f"start mysqld of {node}" for node in request.nodes),
            (),
        )

    @property
    def console(self) -> FakeFacade:
        """It takes commands itself."""
        return self

    def _refuse(self) -> None:
        """While an experiment runs, as a console must."""
        if self._running is not None:
            raise ExperimentUnderWay(self._running, "end it first", is_own=True)

    async def nodes(self) -> tuple[NodeView, ...]:
        return self.in_full

    async def toggle_load(self) -> bool:
        self._refuse()
        await self._note("toggle_load", None)
        return True

    async def mark(self, text: str) -> None:
        await self._note("mark", text)

    async def select(self, knob: KnobName | None) -> None:
        self.pointed.append(str(knob))

    async def inject(self, request: FaultRequest, *_: Any, **__: Any) -> tuple[Injected, ...]:
        self._refuse()
        await self._note("inject", (request.text, request.nodes))
        return self.injected

    async def failover(self, to: str | None = None, *_: Any, **__: Any) -> RoleChange:
        return await self._promote(ChangeKind.FAILOVER, to)

    async def switchover(self, to: str | None = None, *_: Any, **__: Any) -> RoleChange:
        return await self._promote(ChangeKind.SWITCHOVER, to)

    async def _promote(self, kind: ChangeKind, to: str | None) -> RoleChange:
        await self._note(kind.value, to)
        return RoleChange(kind, "db1", to or "db2", rpo=RecoveryPoint(0), rto=RecoveryTime(total_ms=312.0))

    async def rejoin(self, node: str, *_: Any, **__: Any) -> RoleChange:
        await self._note("rejoin", node)
        return RoleChange(ChangeKind.REJOIN, node, "db1", rpo=RecoveryPoint(7))

    async def clear(self, text: str | None = None) -> tuple[Cleared, ...]:
        await self._note("clear", text)
        return ()

    async def give_back(self, yes: bool) -> None:
        await self._note("give_back", yes)

    async def run(self, experiment: Procedure[R]) -> R:
        title: tuple[str, str]
        found: Any
        match experiment:
            case SweepRun():
                title, found = ("sweep", experiment.sweep.grid.text), self._sweep(experiment)
            case LabRun():
                title, found = ("lab", experiment.lab.name), self._lab(experiment)
            case DrillRun():
                title, found = ("drill", experiment.drill.name), self._drill(experiment)
            case MatrixRun():
                title, found = ("drill", "matrix"), self._matrix(experiment)
        self._running = Experiment(*title, "tui", 1, "here")
        try:
            return cast("R", await found)
        finally:
            self._running = None

    async def set(self, assignments: Sequence[Assignment], **_: Any) -> SetResult:
        """Keep the values."""
        self._refuse()
        asked = _asked(assignments)
        await self._note("set", [(str(name), value) for name, value in asked])
        changed = [Changed(name, self._values.get(name), value, value, 3.0) for name, value in asked]
        self._values |= {change.name: change.requested for change in changed}
        return SetResult(tuple(changed))

    async def reset(self, anyway: bool = False) -> SetResult:
        """All defaults."""
        self._refuse()
        await self._note("reset", None)
        return SetResult(())

    async def undo(self, anyway: bool = False) -> SetResult:
        """Refuses when nothing was set."""
        self._refuse()
        await self._note("undo", None)
        if not self.called("set") and not self.called("reset"):
            raise UsageError("nothing to undo")
        return SetResult(())

    async def _sweep(self, run: SweepRun) -> Swept:
        """Play a run of each cell, in the grid's order, each when it is its turn."""
        wanted, runs = run.sweep, run.runs
        await self._note("sweep", wanted)
        try:
            for cell in wanted.grid.cells:
                left_s = 10.0 * (wanted.grid.size - cell.index)
                begun = ExperimentProgress(wanted, cell.index + 1, "", left_s=left_s, kept=len(runs))
                run.watch(begun)
                await self._its_turn()
                tps = 100.0 * (cell.index + 1)
                variance = tps**2 / 2500
                runs.append(SweptRun(cell.index, 0, 1, WALL_S, 8.0, tps=tps, variance=variance, freedom=9.0))
                run.watch(replace(begun, left_s=left_s - 10, ended="done", kept=len(runs)))
        except asyncio.CancelledError:
            self.calls.append(("sweep stopped", None))
            raise
        return Swept(wanted, 1, runs, WALL_S + 60, server=SERVER, started_wall_s=WALL_S)

    async def _drill(self, run: DrillRun) -> DrillResult:
        """Play each step when it is its turn; two of its rows are lost."""
        await self._note("drill", (run.drill.name, run.quick))
        for number, step in enumerate(run.drill.steps, 1):
            run.watch(ExperimentProgress(run.drill, number, step.text, 0.5, 9.0))
            await self._its_turn()
        log = RunLog(1, {1: Attempts(((1, 9),), ((1, 9),), (), ())}, {})
        ledger = count_losses(log, {"db1": {1: ((1, 7),)}}, "db1", executed={})
        result = DrillResult(
            run.drill, 8, server=SERVER, started_wall_s=WALL_S, quick=run.quick, ledger=ledger
        )
        result.relations = judge(run.drill.expects, figures_of(result), result.timeline)
        return result

    async def _matrix(self, run: MatrixRun) -> MatrixResult:
        """Play each cell when it is its turn; each loses its number of rows."""
        await self._note("matrix", run.quick)
        result = MatrixResult(server=SERVER, quick=run.quick, clients=run.clients)
        cells = run.cells or matrix_cells(quick=run.quick)
        for number, cell in enumerate(cells, 1):
            left_s, shown = 10.0 * len(cells[number:]), stages_of(cells)
            run.watch(ExperimentProgress(Matrix(), number, "inject kill", 0.5, left_s, run_stages=shown))
            try:
                await self._its_turn()
            except asyncio.CancelledError:
                result.aborted = run.conductor.aborted
                return result
            meter = Loss(number, number - 1, number + 1)
            result.add(CellResult(cell, WALL_S, 20.0, 900, number, 0, number * 10.0, 812.0, meter))
        return result

    async def _lab(self, run: LabRun) -> LabResult:
        """Play each phase when it is its turn, 100 TPS more than the one before."""
        lab, conductor = run.lab, run.conductor
        await self._note("lab", (lab.name, run.quick))
        result = LabResult(lab, server=SERVER, started_wall_s=WALL_S, quick=run.quick)
        try:
            for number, phase in enumerate(lab.phases, 1):
                left_s = 10.0 * (len(lab.phases) - number)
                run.watch(ExperimentProgress(lab, number, "measuring", 0.5, left_s + 5, tries=self.lab_tries))
                await self._its_turn()
                service = Histogram.of([number * 1000] * 100)
                state = Protection(phase.state, requested=True)
                result.phases.append(PhaseResult(phase, {}, 85.2, service, 100.0 * number, None, state, 1, 0))
                if number < len(lab.phases) and conductor.paused:
                    run.watch(ExperimentProgress(lab, number, "waiting for the next phase", 1.0, left_s))
                    await conductor.gate()
        except asyncio.CancelledError:
            self.calls.append(("lab stopped", None))
            task = asyncio.current_task()
            if conductor.aborted is None or task is None:
                raise
            task.uncancel()
            result.aborted = conductor.aborted
            return result
        return concluded(result, [result.phases])

    async def repair(self, report: Reporter = lambda *_: None) -> tuple[str, ...]:
        """Reports one step; answers `repaired`."""
        self._refuse()
        report("starting the replica")
        await self._note("repair", None)
        return self.repaired

    async def close(self, *, keep: bool = False) -> str:
        """Ends the ticks."""
        await self._note("close", keep)
        self._queue.put_nowait(None)
        return self.closing_line

    async def _note(self, method: str, argument: object) -> None:
        self.calls.append((method, argument))
        if method in self.hold:
            await self.hold[method].wait()
        if method in self.failures:
            raise self.failures.pop(method)


def _asked(assignments: Sequence[Assignment]) -> list[tuple[KnobName, Value]]:
    return [(name, one.value) for one in assignments for name in one.names]


def _statement(name: KnobName, value: Value) -> str:
    knob = name.knob
    written = format_value(knob, value, unit=False)
    if knob.backing is Backing.SERVER:
        return f"SET GLOBAL {knob.variables[0]} = {written}"
    return f"{name} = {format_value(knob, value)}"


class FakeTape:
    """Twenty seconds with two marks, 10 TPS more each half second."""

    first_s, last_s = 1.0, 21.0

    def ticks(self) -> Iterator[Tick]:
        for half in range(41):
            at_s = 1.0 + half / 2
            told = tuple(event for event in self.events() if event.at_s == at_s)
            yield replace(make_tick(at_s, tps=10.0 * half), events=told)

    def events(self) -> Sequence[Event]:
        return [change_event(at_s, number, f"change {number}") for number, at_s in enumerate((4.0, 10.0), 1)]

    def close(self) -> None:
        pass
