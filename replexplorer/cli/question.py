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
    console.ask(f"{question} [y/N] ")
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[str] = loop.create_future()

    def read() -> None:
        line = sys.stdin.readline()
        if not answered.done():
            answered.set_result(line)

    loop.add_reader(sys.stdin, read)
    try:
        return (await answered).strip().lower() in ("y", "yes")
    finally:
        loop.remove_reader(sys.stdin)
