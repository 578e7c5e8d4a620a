"""The trainer's look at a class: all stacks at the same time, and where each student's lesson is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Final

from replexplorer.cli.entry import Call
from replexplorer.cli.lesson import state_of
from replexplorer.cli.wiring import outside_of, provider_of
from replexplorer.core.experiment.lesson import LessonState
from replexplorer.core.records import printed
from replexplorer.core.text import number, table
from replexplorer.core.tick import Tick
from replexplorer.engine.tasks import end_all

HEADS: Final = ("student", "state", "protection", "TPS", "lag s", "load", "lesson", "answers")
_AGAIN_S: Final = 2.0
"""Between two tries to reach a stack that is away."""


@printed
class StudentSeen:
    """A student's stack and lesson at one moment; what is not known is null."""

    student: str
    stack: str
    state: str
    """starting, up, partial, down; away: it does not answer."""
    protection: str | None = None
    tps: float | None = None
    lag_s: float | None = None
    """Of the replica that is farthest behind."""
    driver: str | None = None
    """Who drives the load."""
    lesson: LessonState | None = None
    """Where the lesson is that is given there."""
    problem: str = ""
    """Why it is away."""

    @property
    def row(self) -> tuple[str, ...]:
        """Under `HEADS`."""
        figures, load = (number(self.tps), number(self.lag_s)), self.driver or self.problem or "-"
        step, answers, lesson = "-", "", self.lesson
        if lesson is not None:
            used = (time.time() - lesson.began_wall_s) / 60
            step = f"{lesson.lesson} {lesson.number}/{lesson.of} {lesson.step}"
            step += f", {used:.0f} of {lesson.minutes} min"
            answers = "; ".join(each.short for each in lesson.answers)
        return self.student, self.state, self.protection or "-", *figures, load, step, answers or "-"


@printed
class ClassSeen:
    """What `classroom status` prints."""

    name: str
    exit_code: int
    """4 where not all are up."""
    students: list[StudentSeen]

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Under `HEADS`."""
        return [each.row for each in self.students]

    def text(self, columns: int | None) -> str:
        """A line each; answers are folded where the terminal's columns are known."""
        return table(self.rows, HEADS, right=(3, 4), fold=7, columns=columns)


@asynccontextmanager
async def watched(call: Call, stacks: Mapping[str, str]) -> AsyncIterator[Callable[[], Awaitable[ClassSeen]]]:
    """Watch the stacks of these students; what is called answers how they are now, once all have been looked
    at."""
    seen: dict[str, Tick | str] = {}
    complete = asyncio.Event()

    def take(stack: str, found: Tick | str) -> None:
        seen[stack] = found
        if len(seen) == len(stacks):
            complete.set()

    async def watch(stack: str) -> None:
        from replexplorer.engine.session import Spectator

        while True:
            provider = provider_of(call.values, stack)
            spectator = Spectator(outside_of(provider))
            try:
                await spectator.start(lambda *_: None)
                async for tick in spectator.ticks():
                    rates = tick.load is not None and tick.load.tps is not None
                    if rates or not tick.viewer or tick.state in ("partial", "down"):  # else one comes
                        take(stack, tick)
            except Exception as error:  # whatever it is, the others are still looked at
                take(stack, str(error) or type(error).__name__)
            finally:
                await spectator.close()
                await provider.close()
            await asyncio.sleep(_AGAIN_S)

    async def look() -> ClassSeen:
        await complete.wait()
        students = [_seen(student, stack, seen[stack]) for student, stack in stacks.items()]
        code = 0 if all(each.state == "up" for each in students) else 4
        return ClassSeen(name=call.args.class_name, exit_code=code, students=students)

    tasks = [asyncio.create_task(watch(stack)) for stack in stacks.values()]
    try:
        yield look
    finally:
        await end_all(*tasks)


def _seen(student: str, stack: str, found: Tick | str) -> StudentSeen:
    if isinstance(found, str):
        return StudentSeen(student=student, stack=stack, state="away", problem=found)
    lag_ms = None if found.truth is None else found.truth.lag_ms
    return StudentSeen(
        student=student,
        stack=stack,
        state=found.state,
        protection=found.protection.state,
        tps=found.load.tps if found.load else None,
        lag_s=None if lag_ms is None else lag_ms / 1000,
        driver=found.load.driver if found.load else None,
        lesson=state_of(stack),
    )
