"""The two ways to delay packets to a peer's address: kernel netem, and our own process behind NFQUEUE.

Law: a peer that is not delayed has no rule at all. Rules are by the peer's address, so nobody else's
packets are touched. Which backend it is, is found by trying it on the real interface.
"""

from __future__ import annotations

from typing import Any, Protocol

from kernel import Netem
from queueing import Nfqueue
from tool import Refused


class Backend(Protocol):
    """A way to delay packets by address."""

    name: str
    reason: str
    delays: str
    """`sent` or `received`: which packets of the peer's are held."""

    async def hold(self, address: str, hold_us: int | None) -> None:
        """Hold packets to or from the address for so long; None takes the rule away. Raise Refused."""
        ...

    async def stats(self, address: str) -> dict[str, int]:
        """`packets`, `dropped`, `held`, and `strangers` (packets of another address) where counted."""
        ...

    async def health(self) -> dict[str, Any]:
        """What it costs."""
        ...

    async def close(self) -> None:
        """Take all rules away."""
        ...


async def choose() -> tuple[Backend, list[str] | None]:
    """Netem where the kernel has it, else NFQUEUE; raise Refused with both reasons.

    Answers the addresses that an agent before us delayed as well; None: all that it remembers.
    """
    try:
        kernel, left = await Netem.open()
    except Refused as no_netem:
        try:
            return await Nfqueue.open(f"{no_netem}")
        except Refused as no_queue:
            raise Refused(f"{no_netem}; no NFQUEUE either: {no_queue}") from no_queue
    return kernel, None if left else []
