"""Running a plan: each step until its effect is seen, and all the way back when one fails.

Law: a change is done when its effect is observed. A failure or a cancel rolls the steps done
back, newest first, before it goes on; what could not be rolled back is named in the error. A
rollback is never cut short, and neither is the sealing of a plan whose steps are all done.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

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
from replexplorer.core.errors import ReplexplorerError, ServerRefused, ServerUnreachable
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import KnobName, Value, same_value
from replexplorer.core.link import DELAYS
from replexplorer.core.server.disk import asked_of_disk, disk_values
from replexplorer.core.wire import DiskState
from replexplorer.engine.asking import ask
from replexplorer.engine.change.link_change import LinkChange, restart_io
from replexplorer.engine.fleet import Fleet, Member
from replexplorer.engine.load import LoadDriver
from replexplorer.engine.observe.state import OwnDoing
from replexplorer.engine.outcome import Changed, RolledBack
from replexplorer.engine.tasks import Patience, to_the_end

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


class Applier:
    """Runs plans on one fleet; the caller sees to it that one runs at a time."""

    def __init__(
        self,
        fleet: Fleet,
        load: LoadDriver,
        own: OwnDoing,
        report: Callable[[str], None],
        undone: Seal,
    ) -> None:
        self._fleet = fleet
        self._load = load
        self._own = own
        self._report = report
        self._links = LinkChange(fleet, own.healing, report)
        self._undone = undone
        """Told of a rollback, because it may have enabled semi-sync again."""
        self._clock = fleet.outside.clock

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
        change = {change.name: change for change in plan.changes}
        applied.changed.extend(
            Changed(
                name,
                change[name].before,
                change[name].requested,
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
            applied.yes_tx_at_enabling = await self._yes_tx(member)
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
        raise ServerRefused(0, f"{check.name} stays {value}", f"the server did not take {check.value}")

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
            f"{name}: the server still works at it after {_FINISH_DEADLINE_S:.0f} s ({told})"
        )

    async def _yes_tx(self, member: Member) -> int | None:
        """The acknowledgement counter now."""
        return (await ask(member.control, member.dialect.status())).yes_tx

    async def _restart_io(self, step: IoRestart, applied: Applied) -> None:
        """Restart a replica's IO thread and wait until the source counts it; a late one is a warning."""
        replica, primary = self._fleet.member(step.node), self._fleet.source
        round_trip_s = await self._round_trip_s(replica)
        deadline_s = 5.0 + 25 * round_trip_s
        self._report(f"{step.node} registers for semi-sync (about {1 + 20 * round_trip_s:.0f} s)")
        fewest = await self._clients(primary) or 0
        await replica.run(*step.enabling, deadline_s=deadline_s)
        await restart_io(replica, deadline_s)
        patience = Patience(self._clock, deadline_s, _CHECK_EVERY_S)
        while await patience.again():
            clients = await self._clients(primary) or 0
            if clients > fewest:
                return
            fewest = clients  # a replica that was counted before first has to be missed
        applied.warnings.append(
            f"{step.node} did not register for semi-sync within {deadline_s:.0f} s:"
            " `replexplorer status` shows its replication threads"
        )

    async def _clients(self, primary: Member) -> int | None:
        """Semi-sync replicas registered with the source."""
        return (await ask(primary.control, primary.dialect.status())).clients

    async def _round_trip_s(self, replica: Member) -> float:
        """The link's measured round trip, 0 when unknown."""
        state = await self._fleet.source.agent.link(replica.name)
        return (state.measured_ms or 0.0) / 1000

    async def _kick(self, step: Kick, applied: Applied) -> None:
        """One commit; when its acknowledgement does not come in time the change stays all the same."""
        try:
            primary = self._fleet.source
            await primary.kick.query(primary.dialect.kick(), deadline_s=step.deadline_s)
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
    state = await member.agent.set_disk(asked_of_disk(step.name.key, step.value))
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
                await primary.kick.query(primary.dialect.kick(), deadline_s=ends_s - clock.monotonic())
        await clock.sleep(_CHECK_EVERY_S)
        state = await member.agent.disk()
    measured_ms = state.measured_by_kind_ms.get(_KINDS.get(step.name.key, ""), state.measured_ms)
    return disk_values(state).get(step.name.key, step.value), measured_ms


def _shows(state: DiskState, step: DiskStep) -> bool:
    """What was asked is in force, and an fsync was measured since."""
    in_force = disk_values(state).get(step.name.key)
    return state.measured_ms is not None and (not isinstance(step.value, str) or in_force == step.value)
