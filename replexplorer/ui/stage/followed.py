"""A view that is followed while it is shown: the moments that a play waits for, and what a cast marks.

Law: a moment is told once the picture has folded its tick, so that its figures are those that are drawn. A
mark or a fault is told once, also where a recording jumps back over it. What a play turned is restored
when its view is closed, however it ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.fault import Fault
from replexplorer.core.history.recent import Recent
from replexplorer.core.knobs.names import Assignment, format_change
from replexplorer.core.play.condition import PlayMoment
from replexplorer.core.tick import Tick
from replexplorer.engine.console import Clear, Console, Turn
from replexplorer.engine.progress import ProgressCallback
from replexplorer.engine.view import Player, View
from replexplorer.ui.desks.picture import Picture

_MARK_WITHIN_S: Final = 5.0
"""A fault's own mark comes this close to the tick that first shows it, or shows it no more."""


class FollowedView:
    """Passes a view on (`engine.view.View`)."""

    def __init__(self, view: View, told: Callable[[str, float], None] = lambda *_: None) -> None:
        """`told` hears of each mark and fault, and how many seconds before the tick it was."""
        self._view = view
        self._told = told
        self.moment: PlayMoment | None = None
        """The newest one; None before the first tick."""
        self.picture: Picture | None = None
        """What is drawn, which has the load's figures of now; None before the dashboard stands."""
        self.failure: ReplexplorerError | None = None
        """Why it could not be started."""
        self.ended = False
        """No more ticks come."""
        self._first: Tick | None = None
        self._marks: dict[int, tuple[float, str]] = {}
        """What was marked, by number: when, and the words."""
        self._faults: dict[tuple[str, str, float], Fault] = {}
        self._ever: set[tuple[str, str, float]] = set()
        self._moved = asyncio.Event()

    @property
    def console(self) -> Console | None:
        """The view's own."""
        return self._view.console

    @property
    def player(self) -> Player | None:
        """The view's own."""
        return self._view.player

    @property
    def marks(self) -> int:
        """How many were told."""
        return len(self._marks)

    async def start(self, progress: ProgressCallback) -> None:
        """Start the view, and keep why it could not be."""
        try:
            await self._view.start(progress)
        except ReplexplorerError as error:
            self.failure = error
            self._moved.set()
            raise

    async def close(self, *, keep: bool = False) -> str:
        """Restore what was turned since the first tick and close the view; returns what was restored and what
        the view leaves behind."""
        given = ""
        if self._view.console is not None and self._first is not None:
            names = {name: view.requested for name, view in self._first.knobs.items()}
            given = await self._restore([Assignment((name,), value) for name, value in names.items()])
        left = await self._view.close(keep=keep)
        return "\n".join(filter(None, [given, left]))

    async def _restore(self, assignments: list[Assignment]) -> str:
        try:
            changed = await self.put(assignments)
        except ReplexplorerError as error:
            return f"what the play turned could not be restored: {error}"
        return f"restored what the play turned: {'; '.join(changed)}" if changed else ""

    async def put(self, assignments: Sequence[Assignment]) -> list[str]:
        """Clear every fault and turn these knobs of a live stack; answers what that changed."""
        console, moment = self._view.console, self.moment
        if console is None or moment is None:
            raise UsageError("a recording cannot be changed", "play it on live servers")
        cleared = [f"cleared {each.fault}" for each in await console.do(Clear())]
        there = tuple(one for one in assignments if set(one.names) <= set(moment.tick.knobs))
        turned = (await console.do(Turn(there))).changed if there else ()
        return [*cleared, *(format_change(one.name, one.before, one.requested) for one in turned)]

    async def ticks(self) -> AsyncIterator[Tick]:
        """The view's ticks, each told when it has been taken."""
        try:
            async for tick in self._view.ticks():
                yield tick
                self._take(tick)
        finally:
            self.ended = True
            self._moved.set()

    async def moves(self) -> PlayMoment | None:
        """Wait for the next moment; None where no more come."""
        if not self.ended:
            self._moved.clear()
            await self._moved.wait()
        return None if self.ended else self.moment

    def _take(self, tick: Tick) -> None:
        first = self._first = self._first or tick
        titles = {epoch.number: epoch.title for epoch in tick.epochs}
        for event in tick.events:
            if event.mark is not None and event.mark not in self._marks:
                self._marks[event.mark] = event.at_s, event.text
                self._told(f"({event.mark}) {titles.get(event.mark, event.text)}", tick.at_s - event.at_s)
        self._take_faults(tick)
        player = self._view.player
        position = player.position if player is not None else None
        self.moment = PlayMoment(
            tick,
            Recent() if self.picture is None else self.picture.recent,
            tick.at_s - first.at_s,
            newest_mark=max(
                (number for number, (at_s, _) in self._marks.items() if at_s <= tick.at_s), default=0
            ),
            at_end=position is not None and position.position_s >= position.length_s,
        )
        self._moved.set()

    def _take_faults(self, tick: Tick) -> None:
        """Tell of faults that have no mark of their own: somebody else's, or one that ended by itself."""
        now = {fault.id: fault for fault in tick.faults}
        for key, fault in now.items():
            if key not in self._ever:
                self._ever.add(key)
                self._tell_fault(f"fault {fault}", fault, tick.at_s)
        for key, fault in self._faults.items():
            if key not in now:
                self._tell_fault(f"fault {fault} cleared", fault, tick.at_s)
        self._faults = now

    def _tell_fault(self, words: str, fault: Fault, at_s: float) -> None:
        near = (text for marked_s, text in self._marks.values() if abs(marked_s - at_s) <= _MARK_WITHIN_S)
        if not any(str(fault) in text for text in near):
            self._told(words, 0.0)
