"""What happened while no app looked: servers and agents that began after the last request.

The requested document carries the wall clock's time of its writing. What began later has lost
what was set before: SET GLOBAL does not survive a restart, nor do a link's rules.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from replexplorer.core.errors import ReplexplorerError
from replexplorer.engine.fleet import Member
from replexplorer.engine.observe.sight import Sight

_UPTIME_SLACK_S: Final = 1.0
"""A server tells its uptime in whole seconds."""


class Restarts(NamedTuple):
    """Names of the nodes of which something restarted."""

    servers: tuple[str, ...] = ()
    sidecars: tuple[str, ...] = ()


async def restarts_since_the_request(sight: Sight, written_s: float | None) -> Restarts:
    """What began after the document was written, at this time, from the last look and the agents' uptimes;
    nothing when it was never written, and what does not answer is left out."""
    if written_s is None:
        return Restarts()
    clock = sight.fleet.outside.clock
    age_s = clock.wall() - written_s - _UPTIME_SLACK_S
    now_s = clock.monotonic()
    servers, sidecars = [], []
    for name, member in sight.fleet.members.items():
        sample = sight.samples.get(name)
        if sample is not None and sample.status.uptime_s is not None:
            looked_s_ago = now_s - sample.at_s
            if sample.status.uptime_s + looked_s_ago < age_s:
                servers.append(name)
        agent_s = await _uptime_s(member)
        if agent_s is not None and agent_s < age_s:
            sidecars.append(name)
    return Restarts(tuple(servers), tuple(sidecars))


async def _uptime_s(member: Member) -> float | None:
    """How long the node's agent runs."""
    try:
        return (await member.agent.health()).uptime_s
    except ReplexplorerError:
        return None
