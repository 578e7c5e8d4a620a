"""The two ways to shape the packets of a peer's address: kernel netem, and our own process behind NFQUEUE.

Law: a peer of which nothing is asked has no rule at all; a shape means the same with both: a packet
leaves after its delay and its jitter, never before the one that came before it, and then takes its
size over the bandwidth. Rules are by the peer's address, so nobody else's
packets are touched. Which backend it is, is found by trying it on the real interface.
"""

from __future__ import annotations

from typing import Any, Literal, Protocol

from kernel import Netem
from queueing import Nfqueue
from tool import Refused
from wire import Shape


class Backend(Protocol):
    """A way to shape packets by address."""

    name: str
    reason: str
    holds: Literal["sent", "received"]
    """Which packets of the peer's are held."""

    async def shape(self, address: str, shape: Shape | None) -> None:
        """Shape the packets to or from the address; None takes the rule away. Raise Refused."""
        ...

    async def stats(self, address: str) -> dict[str, int]:
        """`packets`, `dropped`, `lost` (as asked), `held`; `strangers` (of another address) where counted."""
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
