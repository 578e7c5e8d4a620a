"""Running a plan: each step until its effect is seen, and all the way back when one fails.

Law: a change is done when its effect is observed. A failure or a cancel rolls the steps done
back, newest first, before it goes on; what could not be rolled back is named in the error. A
rollback is never cut short, and neither is the sealing of a plan whose steps are all done.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final, TypeVar

from replexplorer.core.change.planner import (
    DiskStep,
    FreshSessions,
    IoRestart,
    Kick,
    LinkStep,
    LoadStep,
    Plan,
    ReadBack,
    SqlStep,
    Step,
    statements_of,
    written,
)
from replexplorer.core.errors import ReplexplorerError, ServerRefused, ServerUnreachable, StackUnavailable
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import KnobName, Value, same_value
from replexplorer.core.link import DELAYS, LinkSettings, directions, installed, wanted
from replexplorer.core.records import dataclass, field
from replexplorer.core.server.counters import ServerStatus
from replexplorer.core.server.disk import asked_of_disk, disk_values
from replexplorer.core.wire import DiskState, Flap, LinkState, Shape
from replexplorer.engine.change.joining import is_cut
from replexplorer.engine.fleet import Fleet, Member
from replexplorer.engine.load import LoadDriver
from replexplorer.engine.observe.samples import link_states, watch_link
from replexplorer.engine.observe.state import OwnDoing
from replexplorer.engine.outcome import Changed, RolledBack
from replexplorer.engine.tasks import Patience, to_the_end
from replexplorer.ports import ask

_SET_DEADLINE_S = 10.0
_CHECK_DEADLINE_S = 5.0
_CHECK_EVERY_S = 0.05
_FINISH_DEADLINE_S = 300.0
_FSYNC_DELAYS = (keys.FSYNC_DELAY, keys.FSYNC_DELAY_REDO, keys.FSYNC_DELAY_BINLOG)


@dataclass(slots=True)
class Applied:
    """What a plan did so far."""

    changed: list[Changed] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    steps_done: int = 0
    yes_tx_at_enabling: int | None = None
    """The acknowledgement counter just before semi-sync went on; None when it did not."""
    unacknowledged_s: float | None = None
    """How long the kick waited in vain; None when it was acknowledged or not needed."""
    measured: dict[KnobName, float | None] = field(default_factory=dict)
    """What is measured since the change, in ms: the round trip of a link, an fsync of a disk."""
    is_rollback: bool = False
    """Steps back: what they do is verified, but nobody waits for a measurement of it."""


Seal = Callable[[Applied], Coroutine[Any, Any, None]]
"""What makes a plan's work last, once all its steps are done; if it raises, they are rolled back."""


@dataclass(eq=False)
class Applier:
    """Runs plans on one fleet; the caller sees to it that one runs at a time."""

    _fleet: Fleet
    _load: LoadDriver
    _own: OwnDoing
    _report: Callable[[str], None]
    _links: LinkChange
    _undone: Seal
    """Told of a rollback, because it may have enabled semi-sync again."""

    def __post_init__(self) -> None:
        """Take the clock."""
        self._clock = self._fleet.outside.clock

    async def run(self, plan: Plan, seal: Seal) -> Applied:
        """Run a plan's steps, then seal them; a failure or a cancel before that takes all back.

        Raises RolledBack with the failure's cause. A cancel while it seals comes too late: the
        plan's work stands, and the cancel is delivered at the caller's next await.
        """
        applied = Applied()
        try:
            for planned in plan.steps:
                await self._run_timed(planned.step, plan, applied)
                applied.steps_done += 1
            await to_the_end(seal(applied))
        except ReplexplorerError as error:
            raise RolledBack(error, await to_the_end(self._undo(plan, applied))) from error
        except asyncio.CancelledError:
            await to_the_end(self._undo(plan, applied))
            raise
        return applied

    async def _undo(self, plan: Plan, applied: Applied) -> list[str]:
        """Take back the failed step and those before it; answers what could not be."""
        failed: list[str] = []
        back = Applied(is_rollback=True)
        for step in plan.rollback(applied.steps_done + 1):
            try:
                await self._run(step, back)
            except ReplexplorerError:
                if not await self._is_so(step):
                    failed.extend(written((step,), self._fleet.source_name))
        await self._undone(back)
        return failed

    async def _is_so(self, step: Step) -> bool:
        """Whether the variables say already what the step would make of them: a server that refuses
        a statement refuses its undo as well. False when that cannot be seen."""
        if not isinstance(step, SqlStep) or step.before or not step.checks:
            return False
        try:
            member = self._fleet.member(step.node)
            found = [await _value_of(member, one) for one in step.checks]
        except ReplexplorerError:
            return False
        return all(same_value(one.name.knob, v, one.value) for one, v in zip(step.checks, found, strict=True))

    async def _run_timed(self, step: Step, plan: Plan, applied: Applied) -> None:
        """Run one step and note what it changed and how long that took."""
        began = self._clock.monotonic()
        effective = await self._run(step, applied)
        took_ms = (self._clock.monotonic() - began) * 1000
        applied.changed.extend(
            Changed(
                name,
                *plan.changes[name],
                effective.get(name),
                took_ms,
                statements_of(step),
                measured_ms=applied.measured.get(name),
            )
            for name in step.names
        )

    async def _run(self, step: Step, applied: Applied) -> Mapping[KnobName, Value]:
        """Run one step until its effect is seen; answers what is effective now."""
        match step:
            case SqlStep():
                return await self._run_sql(step, applied)
            case IoRestart():
                await self._restart_io(step, applied)
            case LinkStep():
                values, measured_ms = await self._links.carry_out(
                    step, applied.warnings, wait=not applied.is_rollback
                )
                for name in step.names:
                    if name.key in DELAYS:
                        applied.measured[name] = measured_ms
                return {name: values[name.key] for name in step.names}
            case DiskStep():
                in_force, measured_ms = await change_disk(self._fleet, step, wait=not applied.is_rollback)
                if step.name.key in _FSYNC_DELAYS:
                    applied.measured[step.name] = measured_ms
                return {step.name: in_force}
            case LoadStep():
                await self._load.change(step.changes)
                return {name: step.changes[name.key] for name in step.names}
            case FreshSessions():
                await self._load.fresh_sessions()
            case Kick():
                await self._kick(step, applied)
                return dict.fromkeys(step.names, "on")
        return {}

    async def _run_sql(self, step: SqlStep, applied: Applied) -> Mapping[KnobName, Value]:
        """Run statements, then read the variables back until they say what was asked."""
        member = self._fleet.member(step.node)
        switch = next((check for check in step.checks if check.name.key == keys.SEMI_SYNC), None)
        if switch is not None and switch.value == "on":
            applied.yes_tx_at_enabling = (await _status(member)).yes_tx
        try:
            await member.run(*step.before, *step.statements, deadline_s=_SET_DEADLINE_S)
        finally:
            await to_the_end(member.run(*step.after, deadline_s=_SET_DEADLINE_S))
        if switch is not None and switch.value == "off":
            self._own.offs += 1
        found = {check.name: await self._until_same(member, check) for check in step.checks}
        for check in step.checks:
            await self._until_finished(member, check.name, applied)
        return found

    async def _until_same(self, member: Member, check: ReadBack) -> Value:
        """Read a variable until it says what was asked; raises ServerRefused past the deadline."""
        patience = Patience(self._clock, _CHECK_DEADLINE_S, _CHECK_EVERY_S)
        while await patience.again():
            value = await _value_of(member, check)
            if same_value(check.name.knob, value, check.value):
                return value
        raise ServerRefused(0, f"{check.name} stays {value}", f"the server did not accept {check.value}")

    async def _until_finished(self, member: Member, name: KnobName, applied: Applied) -> None:
        """Wait while the server carries out what its variable says already; one that takes long is told,
        and goes on when nobody waits for it any more."""
        question = member.dialect.unfinished(name.key)
        if question is None:
            return
        patience, told = Patience(self._clock, _FINISH_DEADLINE_S, _CHECK_EVERY_S), None
        while await patience.again():
            doing = await ask(member.control, question)
            if doing is None:
                return
            if doing != told:
                self._report(f"{name}: {doing}")
                told = doing
        applied.warnings.append(
            f"{name}: the server still works on it after {_FINISH_DEADLINE_S:.0f} s ({told})"
        )

    async def _restart_io(self, step: IoRestart, applied: Applied) -> None:
        """Restart a replica's IO thread and wait until the source counts it; a late one is a warning."""
        replica, primary = self._fleet.member(step.node), self._fleet.source
        round_trip_s = ((await primary.agent.link(replica.name)).measured_ms or 0.0) / 1000
        deadline_s = 5.0 + 25 * round_trip_s
        self._report(f"{step.node} registers for semi-sync (about {1 + 20 * round_trip_s:.0f} s)")
        fewest = (await _status(primary)).clients or 0
        await replica.run(*step.enabling, deadline_s=deadline_s)
        await restart_io(replica, deadline_s)
        patience = Patience(self._clock, deadline_s, _CHECK_EVERY_S)
        while await patience.again():
            clients = (await _status(primary)).clients or 0
            if clients > fewest:
                return
            fewest = clients  # a replica that was counted before first has to be missed
        applied.warnings.append(
            f"{step.node} did not register for semi-sync within {deadline_s:.0f} s:"
            " `replexplorer status` shows its replication threads"
        )

    async def _kick(self, step: Kick, applied: Applied) -> None:
        """One commit; when its acknowledgement does not come in time the change stays all the same."""
        try:
            primary = self._fleet.source
            await primary.kick.query(primary.dialect.kick, deadline_s=step.deadline_s)
        except ServerUnreachable:
            applied.unacknowledged_s = step.deadline_s
        except ServerRefused as refused:
            applied.warnings.append(
                f"semi_sync is on and armed; our test commit was refused: {refused.message}"
            )


_SHOWS_WITHIN_S: Final = 1.0
_IDLE_S: Final = 0.3
_KINDS: Final = {keys.FSYNC_DELAY_REDO: "redo", keys.FSYNC_DELAY_BINLOG: "binlog"}
"""Knob to the kind of file whose fsyncs it delays."""


async def _status(member: Member) -> ServerStatus:
    """A server's counters of semi-sync now."""
    return await ask(member.control, member.dialect.status)


async def _value_of(member: Member, check: ReadBack) -> Value:
    """What a variable says now."""
    return await ask(member.control, member.dialect.setting(check.name.key))


async def change_disk(fleet: Fleet, step: DiskStep, *, wait: bool) -> tuple[Value, float | None]:
    """Put a value in force; answers it, and with `wait` what an fsync takes since, in ms.

    A server that has nothing to fsync is given one commit, which also is what a journal begins with; where
    the settings fsync nothing at a commit there is nothing to measure. Raises MissingPiece when the server
    runs without the shim.
    """
    member = fleet.member(step.node)
    state = await member.agent.ask(asked_of_disk(step.name.key, step.value))
    clock = fleet.outside.clock
    began_s = clock.monotonic()
    ends_s = began_s + _SHOWS_WITHIN_S + 4 * (state.delay_ms or 0.0) / 1000
    kicked = False
    while wait and not _shows(state, step) and clock.monotonic() < ends_s:
        if not kicked and clock.monotonic() - began_s > _IDLE_S:
            kicked = True
            # It may wait for an acknowledgement; its fsyncs are done by then.
            with contextlib.suppress(ReplexplorerError):
                primary = fleet.source
                await primary.kick.query(primary.dialect.kick, deadline_s=ends_s - clock.monotonic())
        await clock.sleep(_CHECK_EVERY_S)
        state = await member.agent.disk()
    measured_ms = state.measured_by_kind_ms.get(_KINDS.get(step.name.key, ""), state.measured_ms)
    return disk_values(state).get(step.name.key, step.value), measured_ms


def _shows(state: DiskState, step: DiskStep) -> bool:
    """What was asked is in force, and an fsync was measured since."""
    in_force = disk_values(state).get(step.name.key)
    return state.measured_ms is not None and (not isinstance(step.value, str) or in_force == step.value)


Answered = TypeVar("Answered")

_PROBES_WANTED: Final = 3
_RETRIES_WITHIN_S: Final = 5.0
"""How long TCP may take to try again by itself; then the IO thread is restarted."""


@dataclass(eq=False)
class LinkChange:
    """Carries out link steps on one fleet."""

    _fleet: Fleet
    _healing: set[str]
    """Replicas whose partition is over and whose stream has not moved yet."""
    _report: Callable[[str], None]

    def __post_init__(self) -> None:
        """Take the clock."""
        self._clock = self._fleet.outside.clock

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
        towards, back = await link_states(primary, replica)
        cut = any(side.shape.cut for side in (towards, back))
        heals = step.heals and wait and cut and carries_events
        before = await _stream(replica) if heals else None
        want = wanted(step.settings, towards, back)
        shapes = want.to_replica, want.to_primary
        if directions(towards, back)[0] is not towards:  # the primary's agent carries out the other one
            shapes = shapes[::-1]
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
        if heals:
            await self._until_stream_moves(replica, before, step.settings, warnings)
        measured_ms = None
        if wait and not step.settings.is_silent:
            measured_ms = await self._measure(primary, replica, step.settings)
        return installed(step.settings, *states)[0].values(), measured_ms

    async def flap(self, link: str, flap: Flap | None, settings: LinkSettings, warnings: list[str]) -> None:
        """Let a link go down and up from now on, whatever its settings, or no more; then it waits until
        events flow again, as after a partition. Raises ReplexplorerError with no end that flaps, as far as
        one can be reached."""
        primary, replica = self._fleet.ends(link)
        carries_events = self._has_a_stream(primary)
        before = await _stream(replica) if flap is None and carries_events else None
        try:
            await _both(_set_flap(primary, replica, flap), _set_flap(replica, primary, flap))
        except ReplexplorerError:
            if flap is not None:
                with contextlib.suppress(ReplexplorerError):
                    await to_the_end(self.flap(link, None, settings, warnings))
            raise
        if flap is None and carries_events and not settings.is_silent:
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
        if before == ():  # it follows no source: nothing will come
            return
        self._healing.add(replica.name)
        self._report(f"{replica.name}: healed, TCP retries")
        try:
            moves = await self._moves(replica, before, _RETRIES_WITHIN_S)
            if moves or await is_cut(self._fleet, self._fleet.source_name, replica.name):
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
            warnings.append(str(error))
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


async def restart_io(replica: Member, deadline_s: float) -> None:
    """Stop a replica's IO thread and start it again, whatever becomes of the stop."""
    dialect = replica.dialect
    try:
        await replica.run(dialect.stop_io, deadline_s=deadline_s)
    finally:
        await to_the_end(replica.run(dialect.start_io, deadline_s=deadline_s))


async def _stream(replica: Member) -> tuple[object, ...] | None:
    """What the replica has received, to be compared; None when its server does not answer."""
    try:
        return await ask(replica.control, replica.dialect.received, deadline_s=2.0)
    except ReplexplorerError:
        return None


async def _set_flap(end: Member, peer: Member, flap: Flap | None) -> None:
    """Set one end's flap; one that does not flap need not end."""
    if flap is None and (await end.agent.link(peer.name)).flap is None:
        return
    if peer.address.address is None:
        raise StackUnavailable(
            f"the link to {peer.name} has no address", "run `replexplorer up` to repair it"
        )
    await end.agent.set_flap(peer.name, peer.address.address, flap)


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
        raise StackUnavailable(
            f"the link to {replica.name} has no address", "run `replexplorer up` to repair it"
        )
    return await _both(
        primary.agent.set_link(replica.name, replica.address.address, of_primary),
        replica.agent.set_link(primary.name, primary.address.address, of_replica),
    )
