"""Changing a disk: what is asked in force, then an fsync that shows it."""

from __future__ import annotations

import contextlib
from typing import Final

from replexplorer.core.change.planner import DiskStep
from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.catalogue import Value
from replexplorer.core.server.disk_view import asked_of_disk, disk_values
from replexplorer.core.wire import DiskState
from replexplorer.engine.asking import execute
from replexplorer.engine.fleet import Fleet

_CHECK_EVERY_S: Final = 0.05
_SHOWS_WITHIN_S: Final = 1.0
_IDLE_S: Final = 0.3
_KINDS: Final = {keys.FSYNC_DELAY_REDO: "redo", keys.FSYNC_DELAY_BINLOG: "binlog"}
"""Knob to the kind of file whose fsyncs it delays."""


async def change_disk(fleet: Fleet, step: DiskStep, *, wait: bool) -> tuple[Value, float | None]:
    """Put a value in force; answers it, and with `wait` what an fsync takes since, in ms.

    A server that has nothing to fsync is given one commit, which also is what a journal begins with; where
    the settings fsync nothing at a commit there is nothing to measure. Raises MissingPiece when the server
    runs without the shim.
    """
    member = fleet.member(step.node)
    state = await member.agent.set_disk(asked_of_disk(step.name.key, step.value))
    clock = fleet.outside.clock
    began_s = clock.monotonic()
    ends_s = began_s + _SHOWS_WITHIN_S + 4 * (state.delay_ms or 0.0) / 1000
    kicked = False
    while wait and not _shows(state, step) and clock.monotonic() < ends_s:
        if not kicked and clock.monotonic() - began_s > _IDLE_S:
            kicked = True
            # It may wait for an acknowledgement; its fsyncs are done by then.
            with contextlib.suppress(ReplexplorerError):
                primary = fleet.source
                await execute(primary.kick, (primary.dialect.kick(),), deadline_s=ends_s - clock.monotonic())
        await clock.sleep(_CHECK_EVERY_S)
        state = await member.agent.disk()
    measured_ms = state.measured_by_kind_ms.get(_KINDS.get(step.name.key, ""), state.measured_ms)
    return disk_values(state).get(step.name.key, step.value), measured_ms


def _shows(state: DiskState, step: DiskStep) -> bool:
    """What was asked is in force, and an fsync was measured since."""
    in_force = disk_values(state).get(step.name.key)
    return state.measured_ms is not None and (not isinstance(step.value, str) or in_force == step.value)
