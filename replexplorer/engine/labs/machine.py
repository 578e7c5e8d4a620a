"""How busy the source's machine was while a phase was measured: source, replicas and load may share it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from replexplorer.core.errors import ReplexplorerError

if TYPE_CHECKING:
    from replexplorer.engine.session import Session

BUSY_PERCENT: Final = 90.0
"""CPU of the generator, of one core, or of the machine, from which it is told with a relation."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What a machine had worked at a moment."""

    at_s: float
    """Monotonic clock."""
    cores: int
    busy_s: float
    """CPU seconds of all its cores since it booted."""


async def look(session: Session) -> Machine | None:
    """The source's machine now, as the agent beside it tells; None where it does not."""
    try:
        health = await session.fleet.primary.agent.health()
    except ReplexplorerError:
        return None
    cores, busy_s = health.get("machine_cores"), health.get("machine_busy_s")
    if not cores or busy_s is None:
        return None
    return Machine(session.outside.clock.monotonic(), int(cores), float(busy_s))


def busy_percent(before: Machine | None, after: Machine | None) -> float | None:
    """How busy all cores were between two moments; None where one is unknown or it booted anew."""
    if before is None or after is None or after.at_s <= before.at_s or after.busy_s < before.busy_s:
        return None
    share = (after.busy_s - before.busy_s) / (after.at_s - before.at_s) / after.cores
    return 100 * min(1.0, share)


def short_of_cpu(machine_percent: float | None) -> str | None:
    """In words, where the machine was so busy that source, replicas and load took CPU from each other."""
    if machine_percent is None or machine_percent <= BUSY_PERCENT:
        return None
    return f"machine at {machine_percent:.0f} % of its CPU, which source, replicas and load share"
