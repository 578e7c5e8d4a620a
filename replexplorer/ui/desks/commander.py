"""The one way from the screens to the console: commands run one after the other, in a worker.

Law: the event loop never waits for a command, a command is never cancelled by the next one,
and every failure is reported in one place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from textual.message import Message

from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.fault import FaultRequest
from replexplorer.core.knobs.names import Assignment
from replexplorer.engine.console import Command, Console
from replexplorer.engine.outcome import Preview, SetResult

R = TypeVar("R")
_ONLY_WATCHED: Final = ("nothing can be turned here", "knobs turn in the live dashboard: `replexplorer`")


class CommandDone(Message):
    """A command has ended."""

    def __init__(self, label: str, result: object) -> None:
        super().__init__()
        self.label = label
        self.result = result

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a change warned of."""
        return self.result.warnings if isinstance(self.result, SetResult) else ()


class CommandFailed(Message):
    """A command was refused or went wrong: one line, and what to do."""

    def __init__(self, label: str, text: str, hint: str) -> None:
        super().__init__()
        self.label = label
        self.text = text
        self.hint = hint


@dataclass(frozen=True, slots=True)
class _Asked:
    label: str
    command: Command[Any]


class Commander:
    """A queue of commands; `run` is the body of the worker that works it off."""

    def __init__(
        self,
        console: Console | None,
        post: Callable[[Message], object],
        remedy: Callable[[ReplexplorerError], str] = lambda error: error.hint,
    ) -> None:
        """`console` is None where one can only watch; `remedy` says what to do about a failure."""
        self._console = console
        self._post = post
        self._remedy = remedy
        self._queue: asyncio.Queue[_Asked] = asyncio.Queue()

    def ask(self, label: str, command: Command[Any]) -> None:
        """Queue a command; `label` comes back with its end."""
        self._queue.put_nowait(_Asked(label, command))

    async def do(self, command: Command[R]) -> R:
        """Carry a command out at once, beside the queue; raises as `Console.do`."""
        return await self._live.do(command)

    def parse(self, text: str) -> Assignment:
        """`KEY[@NODE]=VALUE`; raises UsageError."""
        return self._live.parse(text)

    def preview(self, assignments: Sequence[Assignment]) -> Preview:
        """What a turn would run; nothing where nothing can be turned."""
        return Preview((), (), ()) if self._console is None else self._console.preview(assignments)

    def preview_fault(self, request: FaultRequest) -> Preview:
        """What a fault would run; nothing where nothing can be done."""
        return Preview((), (), ()) if self._console is None else self._console.preview_fault(request)

    @property
    def _live(self) -> Console:
        if self._console is None:
            raise UsageError(*_ONLY_WATCHED)
        return self._console

    async def run(self) -> None:
        """Work off commands until cancelled."""
        while True:
            asked = await self._queue.get()
            await self.carry_out(asked.label, asked.command)

    async def carry_out(self, label: str, command: Command[Any]) -> None:
        """Carry a command out beside the queue; its end comes back as that of one in the queue."""
        try:
            result = await self.do(command)
        except ReplexplorerError as error:
            self._post(CommandFailed(label, error.message, self._remedy(error)))
        except Exception as error:  # a defect must not end the dashboard, nor pass unseen
            self._post(CommandFailed(label, f"{type(error).__name__}: {error}", ""))
        else:
            self._post(CommandDone(label, result))
