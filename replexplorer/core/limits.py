"""What a server of a stack may take of its machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

SERVER_AIO: Final[Mapping[str, int]] = {"mysql": 2305, "mariadb": 0}
"""Requests of asynchronous I/O that a server needs when it starts, by flavour. All servers of a machine share
`fs.aio-max-nr`, 65,536 where nobody has raised it (docs/classroom.md). MariaDB needs none: it has io_uring,
takes 2,048 where that is refused, and InnoDB goes on without any where none is left (seen on 11.8.9)."""
MORE_AIO: Final = "sysctl fs.aio-max-nr=1048576"
"""What raises that, as root."""
LEAST_MEMORY_MIB: Final = 512
"""With less the kernel kills a server while it makes its data or starts."""
MOST_CPUS: Final = 1024
"""Cores that a limit may name."""


def server_aio(flavor: str | None) -> int:
    """Those of a server of this flavour; the most that any needs where it is not known."""
    return SERVER_AIO.get(flavor or "", max(SERVER_AIO.values()))


@dataclass(frozen=True, slots=True)
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
