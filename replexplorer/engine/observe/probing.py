"""Which links are probed: an agent measures the round trip to the peers that it was given."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable

from replexplorer.core.errors import ReplexplorerError
from replexplorer.engine.fleet import Fleet, Member
from replexplorer.ports import Ability


async def watch_links(fleet: Fleet, pairs: Iterable[str] = ()) -> None:
    """Let both ends of the source's links, and of `pairs`, probe the other; an agent that is away shows as
    the link's fault. Where links are not shaped nobody probes them either."""
    if not fleet.can(Ability.SHAPE_LINKS):
        return
    links = (*fleet.replica_names, *pairs)
    await asyncio.gather(*(watch_link(*fleet.ends(link)) for link in links))


async def watch_link(one: Member, other: Member) -> None:
    """Let both ends of one link probe the other."""
    if one.address.address is None or other.address.address is None:
        return
    with contextlib.suppress(ReplexplorerError):
        await asyncio.gather(
            one.agent.watch(other.name, other.address.address),
            other.agent.watch(one.name, one.address.address),
        )
