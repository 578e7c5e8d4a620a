"""A presenter's hand on an experiment, and why one ends before its last step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from replexplorer.core.errors import ReplexplorerError, ServerUnreachable, StackUnavailable
from replexplorer.engine.experiment.loan import Loan


class Conductor:
    """A presenter's hand on a lab: pause and next."""

    def __init__(self, *, by_hand: bool = False) -> None:
        """`by_hand`: each phase waits for `next`, its load running on meanwhile."""
        self.by_hand = by_hand
        self.paused = False
        self.waits = False
        """The next phase waits for somebody now."""
        self.aborted: str | None = None
        """Why somebody ended the lab; the cancel that follows ends it as aborted."""
        self._go = asyncio.Event()

    def abort(self, why: str) -> None:
        """Say why, before the lab's task is cancelled: it then answers with what it has."""
        self.aborted = why

    def toggle(self) -> bool:
        """Pause before the next phase, or go on; whether it is paused now."""
        self.paused = not self.paused
        self._go.set()
        return self.paused

    def next(self) -> None:
        """Begin the next phase now."""
        self.paused = False
        self._go.set()

    @property
    def holds(self) -> bool:
        """Whether the next phase waits for somebody."""
        return self.paused or self.by_hand

    async def gate(self) -> None:
        """Wait until the next phase may begin."""
        self._go.clear()
        self.waits = True
        try:
            while self.holds:
                await self._go.wait()
                self._go.clear()
                if not self.paused:
                    return
        finally:
            self.waits = False


async def why_aborted(work: Awaitable[None], loan: Loan, conductor: Conductor) -> str | None:
    """Do an experiment's work; why it ended too soon, None when it did not.

    A server or a load that dies once knobs were turned, and a presenter's abort, are such ends; all else is
    raised.
    """
    try:
        await work
    except ReplexplorerError as error:
        died = isinstance(error, ServerUnreachable | StackUnavailable) or loan.rig.load.settings is None
        if not died or not loan.has_turned:
            raise
        return str(error)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if conductor.aborted is None or task is None:
            raise
        task.uncancel()
        return conductor.aborted
    return None
