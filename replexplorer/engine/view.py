"""What one watches: a live session, a recording that is played.

What one can do with it is next to it: a console where something can be turned, a replay where time
can. A view has no methods for what it cannot do. A recording's ticks are those that were recorded: a jump
begins again at the first one and plays up to its goal without pause, so whoever folds ticks has the same
picture as at that moment then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from replexplorer.core.records import frozen
from replexplorer.core.server.waits import ServerWaits
from replexplorer.core.tick import Tick
from replexplorer.ports import Clock, Reporter

if TYPE_CHECKING:
    from replexplorer.engine.console import Console
import asyncio
from typing import Final

from replexplorer.core.event import Event
from replexplorer.core.topology import new_roster


@frozen
class PlayerPosition:
    """Where a player stands."""

    position_s: float
    """Since the recording's first tick."""
    length_s: float
    speed: float
    playing: bool
    """False while paused, and at the end."""


class View(Protocol):
    """A stack, or what was recorded of one, as a picture that moves."""

    @property
    def console(self) -> Console | None:
        """Where something can be done; None where one can only watch."""

    @property
    def player(self) -> Replay | None:
        """Where time can be turned; None where it goes by itself."""

    async def start(self, report: Reporter) -> None:
        """Make it ready to be watched; raise ReplexplorerError."""

    def ticks(self) -> AsyncIterator[Tick]:
        """The picture, twice a second, until `close`; a slow reader skips, it never queues."""

    def waits(self) -> AsyncIterator[ServerWaits] | None:
        """Who waits for what on the source, asked once a second for as long as it is read; None where there
        is no server to ask. Ends when another node becomes the source; raises ServerUnreachable."""

    def past(self) -> Iterator[Tick]:
        """The ticks so far, in order: all, or the last ones where the session is not recorded; raises
        UsageError where they cannot be read."""

    async def close(self, *, keep: bool = False) -> str:
        """End it; answers in one line what is left behind, empty where nothing is.

        `keep` leaves the stack whatever is configured: a dropped terminal never removes one.
        """


SPEEDS: Final = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
"""What `faster` and `slower` walk through."""
BREATHE_EVERY: Final = 50
"""Ticks that are folded at once after which the event loop has a turn."""


class Tape(Protocol):
    """A recorded session."""

    first_s: float
    last_s: float

    def ticks(self) -> Iterator[Tick]:
        """All ticks in order, from the first; raise UsageError where it is damaged."""

    def events(self) -> Sequence[Event]:
        """All events in order."""

    def close(self) -> None:
        """Let it go."""


class Replay:
    """A recording that is played (`View`)."""

    console: Final = None
    """Nothing can be turned in a recording."""

    def __init__(self, tape: Tape, clock: Clock, *, speed: float = 1.0) -> None:
        self._tape = tape
        self._clock = clock
        self._marks_s = [event.at_s for event in tape.events() if event.mark is not None]
        self.marks_s = [mark_s - tape.first_s for mark_s in self._marks_s]
        """Since the recording's first tick."""
        self._speed = speed
        self._playing = True
        self._at_s = tape.first_s
        """Of the last tick that was given."""
        self._goal_s: float | None = None
        """Where a jump goes that has not begun."""
        self._towards_s: float | None = None
        """Where a jump goes that is under way."""
        self._turned = asyncio.Event()
        self._closed = False
        self._rests = False
        self._roster = new_roster()

    # -- the player

    @property
    def player(self) -> Replay:
        """Itself."""
        return self

    @property
    def position(self) -> PlayerPosition:
        """Where it stands."""
        tape = self._tape
        return PlayerPosition(
            self._at_s - tape.first_s, tape.last_s - tape.first_s, self._speed,
            self._playing and self._at_s < tape.last_s,
        )  # fmt: skip

    def toggle(self) -> None:
        """Pause, or play on; at the end, play from the beginning."""
        if self._at_s >= self._tape.last_s:
            self._playing = True
            self._jump(self._tape.first_s)
        else:
            self._playing = not self._playing
        self._turned.set()

    def seek(self, by_s: float) -> None:
        """Jump this many seconds on, or back."""
        self._jump(self._here_s + by_s)

    def step(self, forward: bool) -> None:
        """Jump to the next mark, or to the one before; past the last, to the end."""
        from_s = self._here_s
        if forward:
            self._jump(min((mark for mark in self._marks_s if mark > from_s), default=self._tape.last_s))
            return
        before = [mark for mark in self._marks_s if mark < from_s - 1]  # a moment after a mark means it
        self._jump(max(before, default=self._tape.first_s))

    def change_speed(self, faster: bool) -> None:
        """The next speed."""
        beyond = [speed for speed in SPEEDS if (speed > self._speed if faster else speed < self._speed)]
        if beyond:
            self._speed = min(beyond) if faster else max(beyond)
        self._turned.set()

    @property
    def _here_s(self) -> float:
        """Where it stands, or will when what was asked is done."""
        return next(at_s for at_s in (self._goal_s, self._towards_s, self._at_s) if at_s is not None)

    def _jump(self, to_s: float) -> None:
        self._goal_s = min(max(to_s, self._tape.first_s), self._tape.last_s)
        self._turned.set()

    # -- the picture

    async def start(self, report: Reporter) -> None:
        """Nothing to bring up."""
        report("reading the recording")

    async def ticks(self) -> AsyncIterator[Tick]:
        """The recorded ticks in their time; after a jump all up to the first one at its goal, at once."""
        while not self._closed:
            self._towards_s, self._goal_s = self._goal_s, None
            for number, tick in enumerate(self._tape.ticks()):
                if self._towards_s is not None:
                    if number % BREATHE_EVERY == 0:
                        await asyncio.sleep(0)
                elif not await self._reached(tick.at_s):
                    break
                self._at_s = tick.at_s
                if self._towards_s is not None and tick.at_s >= self._towards_s:
                    self._towards_s = None
                self._roster = tick.roster or self._roster
                yield tick
                if self._goal_s is not None or self._closed:
                    break
            else:
                await self._turn()

    async def _reached(self, at_s: float) -> bool:
        """Wait until it is this tick's turn; False when a jump or the end comes first."""
        left_s = at_s - self._at_s
        while left_s > 0:
            if self._closed or self._goal_s is not None:
                return False
            if not self._playing:
                await self._turn()
                continue
            speed, from_s = self._speed, self._clock.monotonic()
            if await self._passed(left_s / speed):
                return True
            left_s -= (self._clock.monotonic() - from_s) * speed
        return not self._closed and self._goal_s is None

    async def _passed(self, length_s: float) -> bool:
        """Wait so long by the clock; False when somebody does something meanwhile."""
        self._turned.clear()
        turned = asyncio.ensure_future(self._turned.wait())
        passing = asyncio.ensure_future(self._clock.sleep(length_s))
        self._rests = True
        try:
            await asyncio.wait({turned, passing}, return_when=asyncio.FIRST_COMPLETED)
            if passing.done():
                passing.result()
            return passing.done()
        finally:
            self._rests = False
            turned.cancel()
            passing.cancel()

    async def _turn(self) -> None:
        """Wait until somebody does something."""
        self._turned.clear()
        if not self._closed and self._goal_s is None:
            self._rests = True
            await self._turned.wait()
            self._rests = False

    @property
    def rests(self) -> bool:
        """It waits for time to pass or for somebody to do something: the tick that it gave last is of now."""
        return self._rests and not self._turned.is_set()

    def waits(self) -> None:
        """A recording does not have them."""

    def past(self) -> Iterator[Tick]:
        """All of it."""
        return self._tape.ticks()

    async def close(self, *, keep: bool = False) -> str:
        """Stop playing."""
        self._closed = True
        self._turned.set()
        self._tape.close()
        return ""
