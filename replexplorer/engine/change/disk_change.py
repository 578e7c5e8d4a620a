"""Changing a disk: the delay in force at once, then an fsync that shows it."""

from __future__ import annotations

import contextlib
from typing import Final

from replexplorer.core.change.planner import DiskStep
from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.wire import DiskState
from replexplorer.engine.asking import execute
from replexplorer.engine.fleet import Fleet

_CHECK_EVERY_S: Final = 0.05
_SHOWS_WITHIN_S: Final = 1.0
_IDLE_S: Final = 0.3


async def change_disk(fleet: Fleet, step: DiskStep, *, wait: bool) -> tuple[float, float | None]:
    """Put the delay in force; answers it, and with `wait` what an fsync takes since, in ms.

    A server that has nothing to fsync is given one commit; where the settings fsync nothing at a
    commit there is nothing to measure. Raises MissingPiece when the server runs without the shim.
    """
    member = fleet.member(step.node)
    state = await member.agent.set_disk(step.delay_ms)
    clock = fleet.outside.clock
    began_s = clock.monotonic()
    ends_s = began_s + _SHOWS_WITHIN_S + 4 * step.delay_ms / 1000
    kicked = False
    while wait and state.measured_ms is None and clock.monotonic() < ends_s:
        if not kicked and clock.monotonic() - began_s > _IDLE_S:
            kicked = True
            # It may wait for an acknowledgement; its fsyncs are done by then.
            with contextlib.suppress(ReplexplorerError):
                primary = fleet.source
                await execute(primary.kick, (primary.dialect.kick(),), deadline_s=ends_s - clock.monotonic())
        await clock.sleep(_CHECK_EVERY_S)
        state = await member.agent.disk()
    return _in_force(state, step.delay_ms), state.measured_ms


def _in_force(state: DiskState, asked_ms: float) -> float:
    return asked_ms if state.delay_ms is None else state.delay_ms
