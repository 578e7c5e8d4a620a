"""A yes or no from the person at the terminal; nothing is asked where there is none."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replexplorer.cli.output import Output


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
