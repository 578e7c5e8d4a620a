"""How busy a machine is, which source, replicas and load may share, and what a server may take of it."""

from __future__ import annotations

from typing import Final

from replexplorer.core.records import frozen

MORE_AIO: Final = "sysctl fs.aio-max-nr=1048576"
"""What lets more servers of a machine set asynchronous I/O aside, as root (docs/howto/class.md)."""


@frozen
class ServerLimits:
    """The most that each server takes; None: as much as there is."""

    cpus: float | None = None
    """Cores."""
    memory_bytes: int | None = None
    """Above it the kernel kills the server."""

    def __str__(self) -> str:
        """`0.5 cores and 1024 MiB`."""
        cores = "no limit of CPU" if self.cpus is None else f"{self.cpus:g} cores"
        memory = "no limit of memory" if self.memory_bytes is None else f"{self.memory_bytes >> 20} MiB"
        return f"{cores}, {memory}"


BUSY_PERCENT: Final = 90.0
"""CPU percentage of generator or machine from which a report mentions it with a relation."""


@frozen
class Machine:
    """What a machine had worked at a moment."""

    at_s: float
    """Monotonic clock."""
    cores: int
    busy_s: float
    """CPU seconds of all its cores since it booted."""


def busy_percent(before: Machine | None, after: Machine | None) -> float | None:
    """How busy all cores were between two moments; None where one is unknown or it rebooted."""
    if before is None or after is None or after.at_s <= before.at_s or after.busy_s < before.busy_s:
        return None
    share = (after.busy_s - before.busy_s) / (after.at_s - before.at_s) / after.cores
    return 100 * min(1.0, share)


def short_of_cpu(machine_percent: float | None) -> str | None:
    """In words, where the machine was so busy that source, replicas and load took CPU from each other."""
    if machine_percent is None or machine_percent <= BUSY_PERCENT:
        return None
    return f"machine at {machine_percent:.0f} % of its CPU, which source, replicas and load share"
