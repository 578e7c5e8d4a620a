"""Facts that the workers report to the screens."""

from __future__ import annotations

from textual.message import Message

from replexplorer.engine.progress import Progress


class Ticked(Message):
    """The picture has moved on; a newer one takes the place of one that still waits."""

    def can_replace(self, message: Message) -> bool:
        """Whether the other one says nothing that this one does not."""
        return isinstance(message, Ticked)


class LabMoved(Message):
    """The lab does something else, or has ended; a newer one takes the place of one that still waits."""

    def can_replace(self, message: Message) -> bool:
        """Whether the other one says nothing that this one does not."""
        return isinstance(message, LabMoved)


class StartAdvanced(Message):
    """The start-up does something new."""

    def __init__(self, progress: Progress) -> None:
        super().__init__()
        self.progress = progress


class StartFailed(Message):
    """The start-up ended with an error: what happened, and what to do."""

    def __init__(self, text: str, hint: str) -> None:
        super().__init__()
        self.text = text
        self.hint = hint


class Started(Message):
    """The stack answers and the load runs."""
