"""Running a verb: signals end it as Ctrl-C does, after it has cleaned up. Asking yes or no."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replexplorer.core.errors import Interrupted

if TYPE_CHECKING:
    from replexplorer.cli.output import Output


_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


def run_async(verb: Coroutine[Any, Any, int]) -> int:
    """Run to the end and answer its exit code; raises Interrupted, with 128 plus its number as the exit code,
    after a signal that ends us."""
    received: list[int] = []

    async def guarded() -> int:
        task = asyncio.current_task()
        loop = asyncio.get_running_loop()

        def end(number: int) -> None:
            received.append(number)
            if task is not None:
                task.cancel()

        for number in _ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, end, number)
        return await verb

    try:
        return asyncio.run(guarded())
    except asyncio.CancelledError:
        if not received:
            raise
        ended = Interrupted(f"ended by {signal.Signals(received[0]).name}")
        ended.exit_code = 128 + received[0]
        raise ended from None


def running_s() -> float:
    """Seconds since this process began, before it had imported anything (proc(5), `starttime`)."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")


def can_ask(console: Output) -> bool:
    """Whether somebody sees a question and can answer it."""
    return not console.json and sys.stdin is not None and sys.stdin.isatty() and console.err.isatty()


async def says_yes(console: Output, question: str) -> bool:
    """Ask and wait for the line; anything but y or yes is no, and so is the end of the input."""
    return (await typed(console, f"{question} [y/N] ")).lower() in ("y", "yes")


async def typed(console: Output, question: str) -> str:
    """Ask and wait for the line that is typed, empty at the end of the input."""
    console.ask(question)
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        line = sys.stdin.readline()
        if not answered.done():
            answered.set_result(line)

    loop.add_reader(sys.stdin, read)
    try:
        return (await answered).strip()
    finally:
        loop.remove_reader(sys.stdin)
