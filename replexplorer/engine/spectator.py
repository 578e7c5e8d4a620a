"""A live stack as one watches it who turns nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.model.fitted import Calibration
from replexplorer.core.tick import Tick
from replexplorer.engine.fleet import Outside
from replexplorer.engine.outcome import Progress, ProgressCallback
from replexplorer.engine.session import Session, SessionOptions

HOLDER: Final = "view"
"""How a spectator is called."""
_AGAIN_S: Final = 1.0
"""Between two looks for a stack that is waited for."""


class Spectator:
    """What others do with a stack (`view.View`): their load, changes, faults and marks. Nothing is brought
    up, driven, restored or recorded."""

    console: Final = None
    """Nothing can be done here."""
    player: Final = None
    """Its time goes by itself."""

    def __init__(
        self, outside: Outside, *, calibration: Calibration | None = None, patient: bool = False
    ) -> None:
        """`patient`: a stack that is not there yet is waited for."""
        options = SessionOptions(holder=HOLDER, reapply="off", calibration=calibration, watches=True)
        self._patient = patient
        self._session = Session(replace(outside, recorder=None), options)

    async def start(self, progress: ProgressCallback) -> None:
        """Attach to the running stack; raises StackUnavailable where there is none, or nobody can log in."""
        while True:
            try:
                return await self._session.watch(progress)
            except StackUnavailable:
                if not self._patient:
                    raise
            progress(Progress("waiting for the stack"))
            await self._session.outside.clock.sleep(_AGAIN_S)

    def ticks(self) -> AsyncIterator[Tick]:
        """See `view.View`."""
        return self._session.ticks()

    async def close(self, *, keep: bool = False) -> str:
        """Let go of the stack, which stays as it is; answers nothing."""
        await self._session.close(keep=True)
        return ""
