"""The load's own process: `python -m replexplorer.load_process`.

It takes commands as JSON lines on stdin and reports on stdout; it ends when stdin does, so that
no load outlives its app. The password comes over stdin, never in the arguments or the environment.
"""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sys
from collections.abc import Coroutine
from typing import Any, Final

from replexplorer.generator.generator import Generator
from replexplorer.generator.tally import Outbox

_LINE_BYTES: Final = 1 << 23
"""A command may carry a user's file."""


def main() -> int:
    """Serve one app until its pipe closes; answers the exit code."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the app, which then ends us
    _run(_serve())
    return 0


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop when it is installed: less CPU a commit."""
    try:
        import uvloop
    except ImportError:
        asyncio.run(work)
        return
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(work)


async def _serve() -> None:
    """Obey commands until the app stops us or goes away."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    generator = Generator(Outbox(sys.stdout.fileno(), ended.set), ended.set)
    # Start-up's objects are for ever: the collector need not look at them during commits.
    gc.freeze()
    reader = asyncio.create_task(_read_commands(generator, ended))
    await ended.wait()
    reader.cancel()
    [outcome] = await asyncio.gather(reader, return_exceptions=True)
    await generator.stop()
    if isinstance(outcome, Exception):
        raise outcome


async def _read_commands(generator: Generator, ended: asyncio.Event) -> None:
    """Start each command as it comes; the end of stdin ends the load."""
    stream = asyncio.StreamReader(limit=_LINE_BYTES)
    loop = asyncio.get_running_loop()
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(stream), sys.stdin)
    try:
        async with asyncio.TaskGroup() as commands:
            while line := await stream.readline():
                commands.create_task(generator.obey(json.loads(line)))
            raise _Ended
    except* (_Ended, ValueError):
        pass
    finally:
        transport.close()
        ended.set()


class _Ended(Exception):
    """No more commands: whatever is under way is given up."""


if __name__ == "__main__":
    sys.exit(main())
