"""What one watches: a live session, a recording that is played.

What one can do with it stands beside it: a console where something can be turned, a player where time
can. A view has no methods for what it cannot do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from replexplorer.core.tick import Tick
from replexplorer.engine.console import Console
from replexplorer.engine.progress import ProgressCallback


@dataclass(frozen=True, slots=True)
class PlayerPosition:
    """Where a player stands."""

    position_s: float
    """Since the recording's first tick."""
    length_s: float
    speed: float
    playing: bool
    """False while paused, and at the end."""


class Player(Protocol):
    """What one does with time where it is a recording's."""

    @property
    def position(self) -> PlayerPosition:
        """Where it stands."""
        ...

    @property
    def marks_s(self) -> Sequence[float]:
        """The marks, in seconds since the recording's first tick."""
        ...

    def toggle(self) -> None:
        """Pause, or play on; at the end, play from the beginning."""
        ...

    def seek(self, by_s: float) -> None:
        """Jump this many seconds on, or back."""
        ...

    def step(self, forward: bool) -> None:
        """Jump to the next mark, or to the one before; past the last, to the end."""
        ...

    def change_speed(self, faster: bool) -> None:
        """The next speed."""
        ...


class View(Protocol):
    """A stack, or what was recorded of one, as a picture that moves."""

    @property
    def console(self) -> Console | None:
        """Where something can be done; None where one can only watch."""
        ...

    @property
    def player(self) -> Player | None:
        """Where time can be turned; None where it goes by itself."""
        ...

    async def start(self, progress: ProgressCallback) -> None:
        """Make it ready to be watched; raise ReplexplorerError."""
        ...

    def ticks(self) -> AsyncIterator[Tick]:
        """The picture, twice a second, until `close`; a slow reader skips, it never queues."""
        ...

    async def close(self, *, keep: bool = False) -> str:
        """End it; answers in one line what is left behind, empty where nothing is.

        `keep` leaves the stack whatever is configured: a dropped terminal never removes one.
        """
        ...
