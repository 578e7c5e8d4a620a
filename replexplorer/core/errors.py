"""Every failure that a user may meet, with its exit code and its remedy.

Law: an error is one line, `replexplorer: what happened: what to do`; nothing above the
composition root formats it otherwise. Exit codes are the contract's: 1 an expectation did not
hold, 2 wrong usage, 3 the machine lacks something, 4 no such stack or a node is down,
5 the server refused, 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping


class ReplexplorerError(Exception):
    """A failure with a message for people, a remedy and an exit code."""

    exit_code = 1
    """The process's exit code when this error ends a verb."""
    code = "error"
    """A stable word for scripts: the `code` of the JSON error document."""
    beside: Mapping[str, object] = {}
    """More fields of that document."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """The one line, without the program's name."""
        return f"{self.message}: {self.hint}" if self.hint else self.message


class Interrupted(ReplexplorerError):
    """Ctrl-C."""

    exit_code = 130
    code = "interrupted"


class UsageError(ReplexplorerError):
    """An unknown name, a value out of range, a broken file that the user named."""

    exit_code = 2
    code = "usage"


class MissingPiece(ReplexplorerError):
    """Something that this machine lacks: Docker, a permission, an image, a package."""

    exit_code = 3
    code = "missing"


class StackUnavailable(ReplexplorerError):
    """No such stack, a node is down, or another driver holds the load."""

    exit_code = 4
    code = "stack"


class NoSuchStack(StackUnavailable):
    """The stack does not exist."""


class LoadTaken(StackUnavailable):
    """Another driver holds the load."""


class TakenAway(StackUnavailable):
    """The stack was removed by someone else while it was worked on."""

    def __init__(self, stack: str) -> None:
        super().__init__(
            f"stack '{stack}' was removed while it came up",
            "run `replexplorer up` to make it again",
        )


class ServerRefused(ReplexplorerError):
    """The server answered a statement with an error."""

    exit_code = 5
    code = "refused"

    def __init__(self, number: int, message: str, hint: str = "") -> None:
        super().__init__(message, hint)
        self.number = number
        """MySQL's error number, e.g. 1193 for an unknown system variable."""


class ServerUnreachable(StackUnavailable):
    """No login to the server succeeds, or the connection was lost."""

    code = "unreachable"


class NoAnswerInTime(ServerUnreachable):
    """The server did not answer before a deadline: whether it runs is not known."""
