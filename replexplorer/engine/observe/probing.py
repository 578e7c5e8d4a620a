"""Which links are probed: an agent measures the round trip to the peers that it was given."""

from __future__ import annotations

import asyncio
import contextlib

from replexplorer.core.errors import ReplexplorerError
from replexplorer.engine.fleet import Fleet, Member


async def watch_links(fleet: Fleet) -> None:
    """Let both ends of every link probe the other; an agent that is away shows as the link's fault."""
    await asyncio.gather(*(watch_link(fleet.source, replica) for replica in fleet.replicas))


async def watch_link(primary: Member, replica: Member) -> None:
    """Let both ends of one link probe the other."""
    if primary.address.address is None or replica.address.address is None:
        return
    with contextlib.suppress(ReplexplorerError):
        await asyncio.gather(
            primary.agent.watch(replica.name, replica.address.address),
            replica.agent.watch(primary.name, primary.address.address),
        )
