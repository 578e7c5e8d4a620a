"""The verb lesson: one given on the dashboard, run without a terminal, or printed; and its notes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from replexplorer.adapters.recording import is_alive
from replexplorer.cli.entry import Call, in_terminal, is_served
from replexplorer.cli.experiment import LESSONS, named
from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.experiment.experiment import Watch
from replexplorer.core.experiment.lesson import Answered, Lesson, LessonResult, LessonState
from replexplorer.engine.lesson import LessonRun
from replexplorer.engine.session import Session
from replexplorer.formats import paths
from replexplorer.formats.documents import plain
from replexplorer.formats.files import keep_record, whole_file

_LOOK_EVERY_S: Final = 0.5

T = TypeVar("T")


@contextmanager
def lesson_run(
    call: Call, lesson: Lesson, session: Session, watch: Callable[[], object] = lambda: None
) -> Iterator[LessonRun]:
    """A lesson on a session. Where it is, is kept for `watch --notes` until it ends, and then what it came
    to for `lesson export --answers`."""
    from replexplorer.engine.lesson import LessonRun

    file = paths.lesson_state(call.values.stack)
    kept: LessonState | None = None

    def moved() -> None:
        nonlocal kept
        if kept != run.state:
            kept = run.state
            keep_record(file, {**plain(kept), "pid": os.getpid()})
        watch()

    run = LessonRun(lesson, session.console, named=named, watch=moved, clock=session.outside.clock)
    try:
        yield run
    finally:
        file.unlink(missing_ok=True)
        result, asked = paths.lesson_result(lesson.name), sum(step.ask is not None for step in lesson.steps)
        if len(run.answers) == asked or (run.answers and not result.exists()):
            keep_record(result, plain(run.result))


def run_lesson(call: Call) -> int | Coroutine[Any, Any, int]:
    """Give a lesson on the dashboard; without a terminal, and where asked, go through it with its own
    answers."""
    lesson, args = LESSONS.named(call.args.name), call.args
    is_shown = is_served() or in_terminal()
    if args.headless or args.json or args.report or not is_shown:
        return _headless(call, lesson)
    from replexplorer.cli.dashboard import run

    return run(call, lesson)


async def _headless(call: Call, lesson: Lesson) -> int:
    """Go through it with its own answers and say which are right on this machine."""
    from replexplorer.cli.experiment_run import carried_out
    from replexplorer.engine.lesson import headless

    async def run(session: Session, watch: Watch) -> LessonResult:
        with lesson_run(call, lesson, session) as run:
            return await headless(run, watch)

    return await carried_out(call, LESSONS, run)


def export(call: Call) -> int:
    """Write a lesson's page for the class: with blanks, or with what was measured on this machine."""
    from replexplorer.core.text import utc_for_people
    from replexplorer.reports.handout import handout
    from replexplorer.reports.report import html

    args, lesson = call.args, LESSONS.named(call.args.name)

    def read(found: dict[str, Any]) -> tuple[dict[str, Answered], str]:
        answers = {each["step"]: Answered(**each) for each in found["answers"]}
        return answers, f"{found['server']}, {utc_for_people(found['started'])}"

    found = _record(paths.lesson_result(lesson.name), read) if args.answers else (None, "")
    if found is None:
        again = f"`replexplorer lesson run {args.name} --headless` measures them"
        raise UsageError(f"no answers of {lesson.name} were measured on this machine", again)
    page = html(handout(lesson, *found))
    if args.output is None:
        sys.stdout.write(page)
        return 0
    with whole_file(paths.expanded(args.output)) as stream:
        stream.write(page)
    call.console.narrate(f"written to {args.output}")
    return 0


# -- a second terminal


def notes_text(state: LessonState, now_s: float) -> str:
    """What the trainer reads: the step, its note and question, the answers so far."""
    used = (now_s - state.began_wall_s) / 60
    lines = [f"{state.number}/{state.of} {state.step}: {used:.0f} of {state.minutes} min"]
    lines += [f"  note: {state.note}"] if state.note else []
    lines += [f"  asks: {state.question}{' (open)' * state.is_open}"] if state.question else []
    lines += [f"  {each.step}: {each.words}" for each in state.answers]
    return "\n".join(lines)


async def notes(call: Call) -> int:
    """Print where the stack's lesson is, each time that changes, until it ends; raises StackUnavailable where
    none is given."""
    before = None
    while (found := state_of(call.values.stack)) is not None:
        if found != before:
            before = found
            call.console.print(notes_text(found, time.time()))
        await asyncio.sleep(_LOOK_EVERY_S)
    if before is None:
        raise StackUnavailable(
            f"no lesson is given on stack '{call.values.stack}'", "`replexplorer lesson run NAME` gives one"
        )
    return 0


def state_of(stack: str) -> LessonState | None:
    """Where the lesson is that is given on a stack; None where none is."""

    def read(found: dict[str, Any]) -> LessonState | None:
        pid, answers = found.pop("pid"), tuple(Answered(**each) for each in found.pop("answers"))
        return LessonState(**found, answers=answers) if is_alive(pid) else None

    return _record(paths.lesson_state(stack), read)


def _record(file: Path, read: Callable[[dict[str, Any]], T]) -> T | None:
    """One of the program's own records; None where there is none, or only one of another version."""
    try:
        return read(json.loads(file.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError, TypeError, KeyError):
        return None
