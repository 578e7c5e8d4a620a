"""A verb of this program for each student of a class, a process each, a few at once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from replexplorer.formats.json.classroom import ClassOutcome, OutcomeJson

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call
    from replexplorer.core.classroom import ClassRoll

_ENDS_WITHIN_S: Final = 60.0
"""How long an interrupted verb may take to clean up."""


@dataclass(frozen=True, slots=True)
class Ended:
    """What a process of this program left."""

    exit_code: int
    took_s: float
    out: str
    err: str


def program_words(call: Call, stack: str) -> list[str]:
    """What starts this program on a stack, with the caller's configuration."""
    words = [sys.executable, "-P", "-m", "replexplorer", "--stack", stack]
    return words if call.args.config is None else [*words, "--config", os.path.abspath(call.args.config)]


async def run_verb(call: Call, stack: str, words: Sequence[str]) -> Ended:
    """Run one verb on a stack to its end; a cancel interrupts it and waits until it has cleaned up.

    It is in a session of its own: a terminal's Ctrl-C does not reach it twice, and a kill of this process
    leaves it to end its own work.
    """
    began_s = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *program_words(call, stack),
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    talk = asyncio.ensure_future(process.communicate())
    try:
        out, err = await asyncio.shield(talk)
    except asyncio.CancelledError:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await asyncio.wait({talk}, timeout=_ENDS_WITHIN_S)
        if process.returncode is None:
            process.kill()
        talk.cancel()
        raise
    code = process.returncode or 0
    took_s = time.monotonic() - began_s
    return Ended(code, took_s, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


async def for_each(
    call: Call,
    roll: ClassRoll,
    students: Sequence[str],
    words_of: Callable[[str], Sequence[str]],
    *,
    at_once: int,
    after: Callable[[str, Ended], Any] | None = None,
) -> list[tuple[str, Ended]]:
    """Run a verb for each of these students, at most `at_once` together, and answer in their order.

    `after` hears of each end as it comes. A cancel, and what `after` raises, interrupts those that run and
    begins no other.
    """
    slots = asyncio.Semaphore(at_once)
    done = 0

    async def one(student: str) -> tuple[str, Ended]:
        nonlocal done
        async with slots:
            call.console.progress(f"{student}: {words_of(student)[0]}", done / len(students))
            ended = await run_verb(call, roll.stack(student), words_of(student))
        done += 1
        words = "done" if ended.exit_code == 0 else f"failed with exit code {ended.exit_code}"
        call.console.progress(
            f"{student}: {words} after {ended.took_s:.1f} s, {done} of {len(students)}", done / len(students)
        )
        if after is not None:
            after(student, ended)
        return student, ended

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(student)) for student in students]
    except ExceptionGroup as several:
        raise several.exceptions[0] from None
    return [task.result() for task in tasks]


def outcome(
    roll: ClassRoll, verb: Sequence[str], ends: Sequence[tuple[str, Ended]], code: int
) -> ClassOutcome:
    """All ends as a document."""
    return ClassOutcome(
        name=roll.name,
        verb=list(verb),
        exit_code=code,
        students=[
            OutcomeJson(
                student=student,
                stack=roll.stack(student),
                exit_code=ended.exit_code,
                took_ms=ended.took_s * 1000,
                answer=_document(ended.out),
                said=ended.err.splitlines(),
            )
            for student, ended in ends
        ],
    )


def _document(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text or None
