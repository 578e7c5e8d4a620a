"""Whose turn it is to change the stack's knobs: one bridge at a time, in the order of asking.

Law: what the rules and the servers are and what the document says come from the same hand. A turn
ends with its bridge, so a killed app never blocks the others.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class Turn:
    """A place in the queue."""

    bridge: object
    wish: dict[str, Any]
    """Who it is."""
    came: asyncio.Event = field(default_factory=asyncio.Event)


class Turns:
    """The queue of those who want to change something; its head may."""

    def __init__(self) -> None:
        self._queue: list[Turn] = []

    def ask(self, bridge: object, wish: dict[str, Any]) -> Turn:
        """Stand in the queue."""
        turn = Turn(bridge, wish)
        self._queue.append(turn)
        self._call_next()
        return turn

    async def wait(self, turn: Turn, within_s: float) -> dict[str, Any] | None:
        """Wait for the turn; answers who has it when that takes too long, None when it came."""
        try:
            async with asyncio.timeout(within_s):
                await turn.came.wait()
        except TimeoutError:
            holder = self._queue[0].wish
            self._queue.remove(turn)
            return holder
        return None

    def leave(self, bridge: object) -> None:
        """End the bridge's turn, or its waiting for one."""
        for turn in self._queue:
            if turn.bridge is bridge:
                turn.came.set()  # nobody waits for it any more
        self._queue = [turn for turn in self._queue if turn.bridge is not bridge]
        self._call_next()

    def _call_next(self) -> None:
        if self._queue:
            self._queue[0].came.set()
