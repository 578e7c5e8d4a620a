"""Running an experiment from a shell: on the stack that is there, or on one that goes again at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from replexplorer.cli.output import Output, delivered
from replexplorer.cli.wiring import composed
from replexplorer.core.errors import StackUnavailable
from replexplorer.core.text import table
from replexplorer.engine.session import Session
from replexplorer.ports import UpOptions

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call
    from replexplorer.formats.json.drill import DrillRunJson, MatrixJson
    from replexplorer.formats.json.lab import LabResult

_EXIT_CODES: Final = {"holds": 0, "deviates": 1, "aborted": StackUnavailable.exit_code}


@asynccontextmanager
async def stack_for(call: Call, holder: str, up: UpOptions | None = None) -> AsyncIterator[Session]:
    """Bring a stack up where none is, and remove it again if this call made it; `--beside` is read from the
    call."""
    console = call.console
    async with composed(
        call,
        holder,
        up=up or UpOptions(),
        on_quit="remove",
        beside=call.args.beside,
        recorded=True,
        calibrated=True,
    ) as session:
        try:
            await session.up(lambda step: console.progress(step.text, step.done))
            yield session
        finally:
            console.narrate(await asyncio.shield(session.close()))


def concluded(
    console: Output,
    document: LabResult | DrillRunJson | MatrixJson,
    text: Callable[[], str],
    write: Callable[[], str] | None,
) -> int:
    """Deliver the result; answers the exit code that goes with its verdict."""
    return delivered(console, document, text, write) or _EXIT_CODES[document.verdict]


_PIPED_COLUMNS: Final = 80


def listing(rows: Sequence[Sequence[str]], columns: int | None) -> str:
    """Experiments by name, title, and how long each takes, in full and quick; titles are folded to the
    terminal, and to the least that is usual where there is none (`--json` is for programs)."""
    heads = ("NAME", "TITLE", "TAKES", "QUICK")
    return table(rows, heads, right=(2, 3), fold=1, columns=columns or _PIPED_COLUMNS)
