"""Changing a link: both ends at once, until it is measured; after a partition, until events flow."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeVar

from replexplorer.core.change.planner import LinkStep
from replexplorer.core.errors import ReplexplorerError, StackUnavailable
from replexplorer.core.knobs.names import Value
from replexplorer.core.link import LinkSettings, directions, installed, wanted
from replexplorer.core.wire import Flap, LinkState, Shape
from replexplorer.engine.asking import ask
from replexplorer.engine.fleet import Fleet, Member
from replexplorer.engine.observe.samples import both, watch_link
from replexplorer.engine.tasks import Patience, to_the_end

Answered = TypeVar("Answered")

_CHECK_EVERY_S: Final = 0.05
_PROBES_WANTED: Final = 3
_RETRIES_WITHIN_S: Final = 5.0
"""How long TCP may take to try again by itself; then the IO thread is restarted."""


class LinkChange:
    """Carries out link steps on one fleet."""

    def __init__(self, fleet: Fleet, healing: set[str], report: Callable[[str], None]) -> None:
        self._fleet = fleet
        self._report = report
        self._healing = healing
        """Replicas whose partition is over and whose stream has not moved yet."""
        self._clock = fleet.outside.clock

    async def carry_out(
        self, step: LinkStep, warnings: list[str], *, wait: bool
    ) -> tuple[Mapping[str, Value], float | None]:
        """Put the settings in force at both ends; answers the effective values by knob key, and the
        measured round trip in ms when there is one.

        With `wait` it returns when three probes have been answered since, at the latest after 1 s and
        two round trips; no answer is not a failure. Raises ReplexplorerError with the link as it was.
        """
        primary, replica = self._fleet.ends(step.link)
        carries_events = self._has_a_stream(primary)
        if not carries_events:
            await watch_link(primary, replica)  # nobody probes it before somebody asks something of it
        towards, back = await asyncio.gather(
            primary.agent.link(replica.name), replica.agent.link(primary.name)
        )
        cut = any(side.shape.cut for side in (towards, back))
        heals = step.heals and wait and cut and carries_events
        before = await _stream(replica) if heals else None
        want = wanted(step.settings, towards, back)
        shapes = _by_side(towards, back, want.to_replica, want.to_primary)
        try:
            states = await _shape(primary, replica, *shapes)
            await primary.agent.link(replica.name, anew=True)
        except ReplexplorerError:
            # The undo asks both ends first, and cannot when one is gone: the other must not keep its half.
            with contextlib.suppress(ReplexplorerError):
                await to_the_end(_shape(primary, replica, towards.shape, back.shape))
            raise
        if want.floor_ms is not None:
            warnings.append(f"rtt@{step.link}: the link's floor is {want.floor_ms:.2g} ms")
        congestion = both(towards.congestion, back.congestion)
        loses = towards.shape.loss_percent or back.shape.loss_percent
        if step.settings.loss_percent and not loses and congestion is not None:
            warnings.append(
                f"loss@{step.link}: what a lost packet costs depends on TCP's congestion control, which is"
                f" {congestion} here"
            )
        if heals:
            await self._until_stream_moves(replica, before, step.settings, warnings)
        measured_ms = None
        if wait and not step.settings.is_silent:
            measured_ms = await self._measure(primary, replica, step.settings)
        return installed(step.settings, *states).values, measured_ms

    async def flap(self, link: str, flap: Flap | None, settings: LinkSettings, warnings: list[str]) -> None:
        """Let a link go down and up from now on, whatever its settings, or no more; then it waits until
        events flow again, as after a partition. Raises ReplexplorerError with no end that flaps, as far as
        one can be reached."""
        primary, replica = self._fleet.ends(link)
        carries_events = self._has_a_stream(primary)
        before = await _stream(replica) if flap is None and carries_events else None
        if flap is not None:
            try:
                await _both(_set_flap(primary, replica, flap), _set_flap(replica, primary, flap))
            except ReplexplorerError:
                with contextlib.suppress(ReplexplorerError):
                    await to_the_end(_end_flap(primary, replica))
                raise
        elif await _end_flap(primary, replica) and carries_events and not settings.is_silent:
            await self._until_stream_moves(replica, before, settings, warnings)

    def _has_a_stream(self, primary: Member) -> bool:
        """Whether a replica's IO thread receives over the links of this node; a group's members have none."""
        return primary is self._fleet.source and not self._fleet.system.is_group

    async def _measure(self, primary: Member, replica: Member, settings: LinkSettings) -> float | None:
        """Wait for probes sent since the change; the round trip that they measured."""
        patience = Patience(self._clock, 1.0 + 2 * settings.total_ms / 1000, _CHECK_EVERY_S)
        while await patience.again():
            state = await primary.agent.link(replica.name)
            if state.probes >= _PROBES_WANTED:
                break
        return state.measured_ms

    async def _until_stream_moves(
        self, replica: Member, before: tuple[object, ...] | None, settings: LinkSettings, warnings: list[str]
    ) -> None:
        """Wait until the replica receives again. TCP tries less and less often while packets are lost;
        where it does not within 5 s, a new connection does, unless the link is cut again meanwhile."""
        self._healing.add(replica.name)
        self._report(f"{replica.name}: healed, TCP retries")
        try:
            if await self._moves(replica, before, _RETRIES_WITHIN_S) or await self._is_cut(replica):
                return
            self._report(f"{replica.name}: no events for {_RETRIES_WITHIN_S:g} s, restarting its IO thread")
            deadline_s = _RETRIES_WITHIN_S + 25 * settings.total_ms / 1000
            await restart_io(replica, deadline_s)
            if not await self._moves(replica, before, deadline_s):
                warnings.append(
                    f"{replica.name} receives nothing yet: `replexplorer status` shows its threads"
                )
        except ReplexplorerError as error:
            # The link is healed all the same.
            warnings.append(f"{replica.name}: {error}")
        finally:
            self._healing.discard(replica.name)

    async def _moves(self, replica: Member, before: tuple[object, ...] | None, within_s: float) -> bool:
        """Whether anything arrives at the replica in time; a server that does not answer gets none."""
        patience = Patience(self._clock, within_s, _CHECK_EVERY_S)
        while await patience.again():
            now = await _stream(replica)
            if now is not None and now != before:
                return True
        return False

    async def _is_cut(self, replica: Member) -> bool:
        """Whether somebody has cut the link again."""
        primary = self._fleet.source
        states = await asyncio.gather(primary.agent.link(replica.name), replica.agent.link(primary.name))
        return any(state.shape.cut for state in states)


async def restart_io(replica: Member, deadline_s: float) -> None:
    """Stop a replica's IO thread and start it again, whatever becomes of the stop."""
    dialect = replica.dialect
    try:
        await replica.run(dialect.stop_io(), deadline_s=deadline_s)
    finally:
        await to_the_end(replica.run(dialect.start_io(), deadline_s=deadline_s))


async def _stream(replica: Member) -> tuple[object, ...] | None:
    """What the replica has received, to be compared; None when its server does not answer."""
    try:
        return await ask(replica.control, replica.dialect.received(), deadline_s=2.0)
    except ReplexplorerError:
        return None


def _by_side(
    towards: LinkState, back: LinkState, to_replica: Shape, to_primary: Shape
) -> tuple[Shape, Shape]:
    """The shapes by the agent that carries them out: the primary's, the replica's."""
    return (to_replica, to_primary) if directions(towards, back)[0] is towards else (to_primary, to_replica)


async def _set_flap(end: Member, peer: Member, flap: Flap | None) -> None:
    """Set one end's flap."""
    if peer.address.address is None:
        raise StackUnavailable(f"the link to {peer.name} has no address", "`replexplorer up` repairs it")
    await end.agent.set_flap(peer.name, peer.address.address, flap)


async def _end_flap(one: Member, other: Member) -> bool:
    """End the flap where there is one, at both ends whichever fails; whether there was. Raises the first
    failure when both have answered."""

    async def end_at(end: Member, peer: Member) -> bool:
        flaps = (await end.agent.link(peer.name)).flap is not None
        if flaps:
            await _set_flap(end, peer, None)
        return flaps

    return any(await _both(end_at(one, other), end_at(other, one)))


async def _both(one: Awaitable[Answered], other: Awaitable[Answered]) -> tuple[Answered, Answered]:
    """What both ends answer, whichever fails; raises the first failure when both have answered."""
    first, second = await asyncio.gather(one, other, return_exceptions=True)
    if isinstance(first, BaseException):
        raise first
    if isinstance(second, BaseException):
        raise second
    return first, second


async def _shape(
    primary: Member, replica: Member, of_primary: Shape, of_replica: Shape
) -> tuple[LinkState, LinkState]:
    """Put both shapes in force, whichever end fails; raises the first failure when both have answered."""
    if primary.address.address is None or replica.address.address is None:
        raise StackUnavailable(f"the link to {replica.name} has no address", "`replexplorer up` repairs it")
    return await _both(
        primary.agent.set_link(replica.name, replica.address.address, of_primary),
        replica.agent.set_link(primary.name, primary.address.address, of_replica),
    )
