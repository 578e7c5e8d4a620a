"""The trainer's look at a class: all stacks at the same time, and where each student's lesson is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from replexplorer.cli.wiring import outside_of, provider_of
from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.text import number, table
from replexplorer.core.tick import Tick

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call

AWAY: Final = "away"
"""The state of a stack that does not answer."""
HEADS: Final = ("student", "state", "protection", "TPS", "lag s", "load", "lesson", "answers")
_AGAIN_S: Final = 2.0
"""Between two tries to reach a stack that is away."""


@dataclass(kw_only=True, slots=True)
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
    problem: str = ""
    """Why it is away."""

    @property
    def row(self) -> tuple[str, ...]:
        """Under `HEADS`."""
        figures = number(self.tps), number(self.lag_s)
        return (
            self.student,
            self.state,
            self.protection or "-",
            *figures,
            self.driver or self.problem or "-",
        )


@dataclass(kw_only=True, slots=True)
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

    @property
    def text(self) -> str:
        """A line each."""
        return table(self.rows, HEADS, right=(3, 4))


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
                    if tick.load is not None and (tick.load.tps is not None or not tick.viewer):
                        take(stack, tick)
            except ReplexplorerError as error:
                take(stack, str(error))
            finally:
                await asyncio.shield(spectator.close())
                await asyncio.shield(provider.close())
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
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _seen(student: str, stack: str, found: Tick | str) -> StudentSeen:
    if isinstance(found, str):
        return StudentSeen(student=student, stack=stack, state=AWAY, problem=found)
    lag_ms = None if found.truth is None else found.truth.lag_ms
    return StudentSeen(
        student=student,
        stack=stack,
        state=found.state,
        protection=found.protection.state,
        tps=found.load.tps if found.load else None,
        lag_s=None if lag_ms is None else lag_ms / 1000,
        driver=found.load.driver if found.load else None,
    )
