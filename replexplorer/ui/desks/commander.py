"""The one way from the screens to the facade: commands run one after the other, in a worker.

Law: the event loop never waits for a command, a command is never cancelled by the next one,
and every failure is told in one place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from textual.message import Message

from replexplorer.core.errors import ReplexplorerError
from replexplorer.engine.change.outcome import SetResult

Call = Callable[[], Awaitable[object]]
"""What to do."""


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
class _Command:
    label: str
    call: Call


class Commander:
    """A queue of commands; `run` is the body of the worker that works it off."""

    def __init__(
        self, post: Callable[[Message], object], refusal: Callable[[str], CommandFailed | None]
    ) -> None:
        self._post = post
        self._refusal = refusal
        self._queue: asyncio.Queue[_Command] = asyncio.Queue()

    def ask(self, label: str, call: Call) -> None:
        """Queue a command, unless it is refused now; `label` comes back with its end."""
        refused = self._refusal(label)
        if refused is not None:
            self._post(refused)
            return
        self._queue.put_nowait(_Command(label, call))

    async def run(self) -> None:
        """Work off commands until cancelled."""
        while True:
            command = await self._queue.get()
            try:
                result = await command.call()
            except ReplexplorerError as error:
                self._post(CommandFailed(command.label, error.message, error.hint))
            except Exception as error:  # a defect must not end the dashboard, nor pass unseen
                self._post(CommandFailed(command.label, f"{type(error).__name__}: {error}", ""))
            else:
                self._post(CommandDone(command.label, result))
