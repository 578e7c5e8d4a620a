"""Running an experiment from a shell: on the stack that is there, or on one that goes again at the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

from replexplorer.cli.output import Output, delivered
from replexplorer.cli.wiring import composed, stack_names
from replexplorer.core.errors import StackUnavailable
from replexplorer.core.text import table
from replexplorer.engine.session import Session
from replexplorer.ports import UpOptions

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call
    from replexplorer.formats.json.drill import DrillRunJson, MatrixJson
    from replexplorer.formats.json.lab import LabResult

_OWN: Final = "-lab-"
_LONGEST: Final = 40
"""Characters of a stack's name (`formats.configuration.STACK_NAME_PATTERN`)."""
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


def names_beside(stack: str, systems: Iterable[str]) -> Mapping[str, str]:
    """What stacks of an experiment's own are called, by system, beside the stack of this name."""
    return {system: f"{stack[: _LONGEST - len(system) - len(_OWN)]}{_OWN}{system}" for system in systems}


async def refuse_found(names: Iterable[str]) -> None:
    """Raise StackUnavailable where there is anything of one of these stacks: it may be somebody's."""
    there = await stack_names()
    for name in names:
        if name in there:
            raise StackUnavailable(
                f"stack '{name}' is there already, and this makes one of that name",
                f"`replexplorer down --stack {name}`, or another --stack",
            )


@asynccontextmanager
async def new_stack(call: Call, holder: str, name: str, up: UpOptions) -> AsyncIterator[Session]:
    """A stack of this name that is made for the block and removed at its end, however that comes; raises
    StackUnavailable, and touches nothing, where it is there."""
    console, stack = call.console, call.console.stack
    await refuse_found((name,))
    async with composed(
        call, holder, up=up, on_quit="remove", recorded=True, calibrated=True, name=name
    ) as session:
        console.stack = name
        try:
            if not await session.up(lambda step: console.progress(step.text, step.done)):
                await refuse_found((name,))  # somebody has made it meanwhile
            yield session
        finally:
            console.narrate(await asyncio.shield(session.close()))
            console.stack = stack


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
