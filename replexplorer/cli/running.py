"""Running a verb's coroutine: signals end it as Ctrl-C does, after it has cleaned up."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from replexplorer.core.errors import Interrupted

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
