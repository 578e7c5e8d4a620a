"""What the agents know of one link and of one disk, as the session shows it.

Law: looking never changes anything and never raises; what could not be learned is None, and a dead
agent is named as the fault.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from dataclasses import replace

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.link import LinkSettings, LinkView, contradiction, installed
from replexplorer.core.server.disk import DiskView
from replexplorer.core.wire import LinkState
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


async def sample_link(
    link: str, one: Member, other: Member, settings: LinkSettings, *, healing: bool = False
) -> LinkView:
    """One link as both agents see it, from the end that its knobs take for the primary; a dead agent leaves
    unknowns and says so."""
    answers_ = await asyncio.gather(
        one.agent.link(other.name), other.agent.link(one.name), return_exceptions=True
    )
    fault = next((str(error) for error in answers_ if isinstance(error, ReplexplorerError)), None)
    for error in answers_:
        if isinstance(error, BaseException) and not isinstance(error, ReplexplorerError):
            raise error
    towards, back = (answer if isinstance(answer, LinkState) else None for answer in answers_)
    return replace(link_view(link, settings, towards, back, fault), healing=healing)


def link_view(
    link: str,
    settings: LinkSettings,
    towards: LinkState | None,
    back: LinkState | None,
    fault: str | None = None,
) -> LinkView:
    """A link's figures from the primary's side (`towards` the replica) and the replica's, or from the first
    node's and the second's."""
    if towards is None or back is None:
        return LinkView(link, settings=settings, fault=fault or "an agent does not answer")
    force = installed(settings, towards, back)
    apart = contradiction(settings, towards.measured_ms, towards.base_ms)
    probes = towards.probes + towards.lost
    return LinkView(
        replica=link,
        backend=both(towards.backend, back.backend),
        settings=settings,
        values=force.values,
        as_asked=force.as_asked,
        rtt_measured_ms=towards.measured_ms,
        rtt_base_ms=towards.base_ms,
        probes_lost_percent=100 * towards.lost / probes if probes else None,
        dropped=towards.dropped + back.dropped,
        flap=towards.flap or back.flap,
        is_down=towards.is_down or back.is_down,
        congestion=both(towards.congestion, back.congestion),
        fault=fault or _half_a_flap(towards, back) or apart,
    )


def both(towards: str | None, back: str | None) -> str | None:
    """What both ends say, apart where they differ: `netem/nfqueue`."""
    return towards if towards == back else f"{towards or 'unknown'}/{back or 'unknown'}"


def _half_a_flap(towards: LinkState, back: LinkState) -> str | None:
    """One end has lost the flap that the other still does."""
    return None if towards.flap == back.flap else "flaps at one end only"


async def sample_disk(member: Member, asked_ms: float, *, probe: bool = False) -> DiskView:
    """One node's disk as its agent sees it; with `probe` one that was never probed is probed."""
    view = DiskView(member.name, asked_ms)
    try:
        state = await member.agent.disk()
        if probe and state.probe is None and state.attached:
            state = await member.agent.disk(probe=True)
    except ReplexplorerError:
        return view
    return replace(
        view,
        delay_ms=state.delay_ms,
        redo_delay_ms=state.redo_delay_ms,
        binlog_delay_ms=state.binlog_delay_ms,
        jitter_ms=state.jitter_ms,
        measured_by_kind_ms=state.measured_by_kind_ms,
        undo_journal=state.undo_journal,
        full=bool(state.full),
        stall_ms=state.stall_ms,
        measured_ms=state.measured_ms,
        measured_n=state.measured_n,
        probe_p50_ms=state.probe.p50_ms if state.probe else None,
        probe_p95_ms=state.probe.p95_ms if state.probe else None,
        probe_p99_ms=state.probe.p99_ms if state.probe else None,
        fsyncs=state.fsyncs,
        fault=state.reason,
    )
