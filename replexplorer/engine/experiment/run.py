"""What every run of an experiment has: a presenter's hand, why it ends early, a journal against a kill."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from pydantic import TypeAdapter

from replexplorer.core.errors import ReplexplorerError, ServerUnreachable, StackUnavailable, UsageError
from replexplorer.core.event import Severity
from replexplorer.core.experiment.experiment import (
    ExperimentProgress,
    ExperimentResult,
    NamedExperiment,
    Stage,
    Try,
    Watch,
)
from replexplorer.core.experiment.snapshot import Snapshot
from replexplorer.core.records import dataclass, field
from replexplorer.engine.experiment.restore_guard import RestoreGuard, restore_guard
from replexplorer.engine.experiment.stack_api import StackApi
from replexplorer.ports import Journal

T = TypeVar("T")


class Conductor:
    """A presenter's hand on an experiment: pause and next."""

    def __init__(self) -> None:
        self.paused = False
        self.waits = False
        """The next stage waits for somebody now."""
        self.aborted: str | None = None
        """Why somebody ended it; the cancel that follows ends it as aborted, with what it has."""
        self._go = asyncio.Event()

    def abort(self) -> None:
        """Before the experiment's task is cancelled: it then answers with what it has."""
        self.aborted = "ended by hand"

    def toggle(self) -> bool:
        """Pause before the next stage, or go on; whether it is paused now."""
        self.paused = not self.paused
        self._go.set()
        return self.paused

    def next(self) -> None:
        """Begin the next stage now."""
        self.paused = False
        self._go.set()

    async def gate(self) -> None:
        """Wait until the next stage may begin."""
        self._go.clear()
        self.waits = True
        try:
            while self.paused:
                await self._go.wait()
                self._go.clear()
        finally:
            self.waits = False

    def has_aborted(self) -> bool:
        """Whether the cancel that was just caught is somebody's `aborted`: then the task goes on."""
        task = asyncio.current_task()
        if self.aborted is None or task is None:
            return False
        task.uncancel()
        return True


@dataclass(slots=True)
class StagesUnderWay:
    """The stages of a run: says what is done now and about how long all that is left takes, and waits between
    them for a presenter."""

    experiment: NamedExperiment
    watch: Watch
    conductor: Conductor
    left_s: list[float]
    """What each stage takes, of every repeat in order; 0 once it is over."""
    repeats: int = 1
    run_stages: Sequence[Stage] | None = None
    """Those of this run, where it is of some of them; None: all."""
    at: int = 0
    """The one under way, from 1 on over all repeats; 0 before the first and after the last."""
    kept: int = 0
    """Stages that the next run need not run again, if this ends now."""
    tries: list[Try] = field(default_factory=list)

    def begin(self, at: int, doing: str) -> None:
        """A stage begins: those before it are over."""
        self.left_s[: at - 1] = [0.0] * (at - 1)
        self.at = at
        self.tell(doing, 0.0)

    def tell(self, doing: str, done: float | None = None, *, ended: str = "") -> None:
        """Say what is done now, with how much of the stage that is, or what the stage has come to."""
        left_s, repeat, number = sum(self.left_s), 0, 0
        if self.at:
            repeat, before = divmod(self.at - 1, len(self.left_s) // self.repeats)
            number = before + 1
            left_s -= self.left_s[self.at - 1] * (1.0 if ended else done or 0.0)
        self.watch(
            ExperimentProgress(
                self.experiment,
                number,
                doing,
                done,
                left_s,
                repeat + 1,
                self.repeats,
                self.run_stages,
                ended,
                self.kept,
                tuple(self.tries),
            )
        )

    async def gate(self) -> None:
        """Wait until the next stage may begin."""
        if self.conductor.paused:
            self.tell("waiting for the next one", 1.0)
            await self.conductor.gate()


async def carry_out(
    work: Callable[[RestoreGuard], Awaitable[None]],
    stack: StackApi,
    result: ExperimentResult,
    stages: StagesUnderWay,
    check: Callable[[Snapshot], None],
) -> None:
    """Do an experiment's work on a stack that it has for itself (`restore_guard`), return all that it took,
    and note in its result why it ended too soon and what could not be returned.

    A server or a load that dies once knobs were turned, and a presenter's abort, are such ends; all else is
    raised.
    """
    experiment = result.experiment
    result.server, result.started_wall_s = stack.seen.server, stack.clock.wall()
    async with restore_guard(
        stack, experiment.kind, experiment.name, check=check, report=stages.tell
    ) as guard:
        try:
            await work(guard)
        except ReplexplorerError as error:
            died = isinstance(error, ServerUnreachable | StackUnavailable) or stack.load.settings is None
            if not died or not guard.has_turned:
                raise
            result.aborted = str(error)
        except asyncio.CancelledError:
            if not stages.conductor.has_aborted():
                raise
            result.aborted = stages.conductor.aborted
        if result.aborted is not None:
            guard.outcome = "was aborted"
            stack.log.tell(Severity.BAD, f"the {guard.kind} was aborted: {result.aborted}")
    result.unrestored = guard.unrestored


class RunJournal(Generic[T]):
    """What a sweep or a matrix has found so far, kept so that a kill loses one run at most."""

    def __init__(self, journal: Journal | None, kind: type[T]) -> None:
        """None: nothing is kept."""
        self._journal = journal
        self._runs: TypeAdapter[T] = TypeAdapter(kind)

    async def open(self, head: Mapping[str, Any], *, fresh: bool) -> tuple[Mapping[str, Any], list[T]]:
        """The head and the runs of an earlier try `on` the same; where there is none, or it is to be
        `fresh`, it is begun with this head. Raises UsageError for another version's."""
        entries = await self._journal.read() if self._journal and not fresh else ()
        if entries and entries[0].get("on") == head["on"]:
            try:
                return entries[0], [self._runs.validate_python(entry["run"]) for entry in entries[1:]]
            except (KeyError, ValueError):
                raise UsageError("the journal is of another version", "--restart starts over") from None
        if self._journal:
            await self._journal.begin(head)
        return head, []

    async def add(self, run: T) -> None:
        """Keep a run; on the disk when this returns."""
        if self._journal:
            await self._journal.append({"run": self._runs.dump_python(run, mode="json")})

    async def set_aside(self) -> str | None:
        """It is finished: keep it under another name, which is answered."""
        return await self._journal.set_aside() if self._journal else None
