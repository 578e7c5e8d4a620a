"""Facts that the workers report to the screens."""

from __future__ import annotations

from textual.message import Message

from replexplorer.core.errors import ReplexplorerError
from replexplorer.engine.outcome import Progress


class _Newest(Message):
    """One that takes the place of another of its kind that still waits."""

    def can_replace(self, message: Message) -> bool:
        """Whether the other one says nothing that this one does not."""
        return type(message) is type(self)


class Ticked(_Newest):
    """The picture has moved on."""


class LabMoved(_Newest):
    """The lab does something else, or has ended."""


class StartAdvanced(Message):
    """The start-up does something new."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self.progress = progress


class StartFailed(Message):
    """The start-up ended with an error."""

    def __init__(self, error: ReplexplorerError) -> None:
        super().__init__()
        self.error = error


class Started(Message):
    """The stack answers and the load runs."""


class CommandDone(Message):
    """A command has ended."""

    def __init__(self, label: str, result: object) -> None:
        super().__init__()
        self.label = label
        self.result = result


class CommandFailed(Message):
    """A command was refused or went wrong: one line, and what to do."""

    def __init__(self, label: str, text: str, hint: str) -> None:
        super().__init__()
        self.label = label
        self.text = text
        self.hint = hint
