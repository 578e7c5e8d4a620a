"""The source's machine, as the agent beside it counts."""

from __future__ import annotations

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.machine import Machine
from replexplorer.engine.fleet import Fleet


async def source_machine(fleet: Fleet) -> Machine | None:
    """What it had worked until now; None where no agent says."""
    try:
        health = await fleet.source.agent.health()
    except ReplexplorerError:
        return None
    cores, busy_s = health.machine_cores, health.machine_busy_s
    if not cores or busy_s is None:
        return None
    return Machine(fleet.outside.clock.monotonic(), cores, busy_s)
