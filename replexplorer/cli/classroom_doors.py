"""How students get in: a dashboard in a browser for each, on a port and behind a password of its own."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from replexplorer.adapters.secrets import keep
from replexplorer.cli.serve import address_of, listen
from replexplorer.cli.students import program_words
from replexplorer.core.text import table

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call
    from replexplorer.core.classroom import ClassRoll


async def open_doors(
    call: Call, roll: ClassRoll, host: str, port: int, password_file: Callable[[str, str], Path]
) -> int:
    """Listen until cancelled; every tab is a process, and ends with this one."""
    from aiohttp import web

    from replexplorer.web.gate import Gate, is_loopback
    from replexplorer.web.password import read_password
    from replexplorer.web.server import DashboardServer

    loopback = is_loopback(host)
    async with AsyncExitStack() as opened:
        rows = []
        for at, student in enumerate(roll.hosts):
            file = password_file(roll.name, student)
            if not file.exists():
                keep(file, secrets.token_urlsafe(12) + "\n")
            gate = Gate(loopback=loopback, password=read_password(file))
            server = DashboardServer(_words_of(call, roll.stack(student)), gate)
            runner = web.AppRunner(
                server.application(), access_log=None, handle_signals=False, shutdown_timeout=1.0
            )
            await runner.setup()
            opened.push_async_callback(runner.cleanup)
            rows.append((student, address_of(host, await listen(runner, host, port + at)), str(file)))
        call.console.print(table(rows, ("student", "address", "password in")))
        call.console.out.flush()
        call.console.narrate("each student's first tab drives, those beside it watch; Ctrl-C ends all")
        if not loopback:
            call.console.warn(
                "passwords and pictures cross the network as they are: use `ssh -L` or a TLS proxy"
            )
        await asyncio.Event().wait()
    return 0


def _words_of(call: Call, stack: str) -> Callable[[bool], Sequence[str]]:
    """What starts a process of this stack's dashboard."""
    words = program_words(call, stack)
    return lambda drives: words if drives else [*words, "--view"]
