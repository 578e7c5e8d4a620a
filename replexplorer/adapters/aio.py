"""The kernel's requests of asynchronous I/O, which all servers of a machine share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

_KERNEL: Final = Path("/proc/sys/fs")


@dataclass(frozen=True, slots=True)
class Aio:
    """What may be set aside of them, and what is."""

    most: int
    """`fs.aio-max-nr`."""
    taken: int
    """`fs.aio-nr`."""

    @property
    def left(self) -> int:
        """What the next servers may set aside; none where the limit was lowered below what is taken."""
        return max(0, self.most - self.taken)


def aio(kernel: Path = _KERNEL) -> Aio | None:
    """This machine's; None where the kernel does not say."""
    try:
        most, taken = (int((kernel / name).read_text(encoding="ascii")) for name in ("aio-max-nr", "aio-nr"))
    except (OSError, ValueError):
        return None
    return Aio(most, taken)
