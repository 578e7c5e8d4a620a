"""Running a plan: each step until its effect is seen, and all the way back when one fails.

Law: a change is done when its effect is observed. A failure or a cancel rolls the steps done
back, newest first, before it goes on; what could not be taken back is named in the error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from replexplorer.core.errors import ReplexplorerError, ServerRefused, ServerUnreachable, StackUnavailable
from replexplorer.core.knobs import PRIMARY, KnobName, Value, same_value
from replexplorer.core.link import split_rtt
from replexplorer.core.plan import (
    Check,
    FreshSessions,
    IoRestart,
    Kick,
    LinkStep,
    LoadStep,
    Plan,
    SqlStep,
    Step,
    statements_of,
    written,
)
from replexplorer.core.server import from_server
from replexplorer.engine.facade import Changed
from replexplorer.engine.fleet import Fleet, Member

KICK_STATEMENT = (
    "INSERT INTO replexplorer.kick (id, kicked_at) VALUES (1, NOW(6))"
    " ON DUPLICATE KEY UPDATE kicked_at = NOW(6)"
)
_SET_DEADLINE_S = 10.0
_CHECK_DEADLINE_S = 5.0
_CHECK_EVERY_S = 0.05
_PROBES_WANTED = 3


class LoadControl(Protocol):
    """How a plan changes the load."""

    def effective(self) -> Mapping[str, Value]:
        """Load knobs as they are now; empty when no load of ours runs."""
        ...

    async def change(self, changes: Mapping[str, Value]) -> None:
        """Apply these load knobs."""
        ...

    async def fresh_sessions(self) -> None:
        """Let every client reconnect."""
        ...


class NoLoad:
    """For callers that drive no load: its knobs are only stored."""

    def effective(self) -> Mapping[str, Value]:
        """Nothing runs."""
        return {}

    async def change(self, changes: Mapping[str, Value]) -> None:
        """Nothing to change."""

    async def fresh_sessions(self) -> None:
        """Nobody to reconnect."""


@dataclass(slots=True)
class Applied:
    """What a plan did so far."""

    changed: list[Changed] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    steps_done: int = 0
    yes_tx_at_enabling: int | None = None
    """The acknowledgement counter just before semi-sync went on; None when it did not."""
    offs: int = 0
    """Times that semi-sync was switched off on the way: each counts in the server's `no_times`."""


class RolledBack(ReplexplorerError):
    """A step failed and those before it were taken back; code and exit code are the cause's."""

    def __init__(self, cause: ReplexplorerError, not_undone: Sequence[str]) -> None:
        state = "nothing is changed" if not not_undone else f"not taken back: {'; '.join(not_undone)}"
        super().__init__(cause.message, f"{cause.hint}; {state}" if cause.hint else state)
        self.exit_code = cause.exit_code
        self.code = cause.code
        self.complete = not not_undone
        """Everything is as it was before."""


class Applier:
    """Runs plans on one fleet; one at a time."""

    def __init__(
        self, fleet: Fleet, load: LoadControl, report: Callable[[str], None] = lambda _: None
    ) -> None:
        self._fleet = fleet
        self._load = load
        self._report = report
        self._clock = fleet.outside.clock
        self._lock = asyncio.Lock()

    async def run(self, plan: Plan) -> Applied:
        """Run a plan's steps; raises RolledBack after a failure, having undone what was done."""
        async with self._lock:
            applied = Applied()
            try:
                for planned in plan.steps:
                    await self._run_timed(planned.step, plan, applied)
                    applied.steps_done += 1
            except ReplexplorerError as error:
                raise RolledBack(error, await self._undo(plan, applied)) from error
            except asyncio.CancelledError:
                await asyncio.shield(self._undo(plan, applied))
                raise
            return applied

    async def _undo(self, plan: Plan, applied: Applied) -> list[str]:
        """Take back the failed step and those before it; answers what could not be."""
        failed: list[str] = []
        for step in plan.rollback(applied.steps_done + 1):
            try:
                await self._run(step, Applied())
            except ReplexplorerError:
                failed.extend(written((step,)))
        return failed

    async def _run_timed(self, step: Step, plan: Plan, applied: Applied) -> None:
        """Run one step and note what it changed and how long that took."""
        began = self._clock.monotonic()
        effective = await self._run(step, applied)
        took_ms = (self._clock.monotonic() - began) * 1000
        before = {change.name: change.before for change in plan.changes}
        requested = {change.name: change.requested for change in plan.changes}
        applied.changed.extend(
            Changed(name, before[name], requested[name], effective.get(name), took_ms, statements_of(step))
            for name in step.names
        )

    async def _run(self, step: Step, applied: Applied) -> Mapping[KnobName, Value]:
        """Run one step until its effect is seen; answers what is effective now."""
        match step:
            case SqlStep():
                return await self._run_sql(step, applied)
            case IoRestart():
                await self._restart_io(step)
            case LinkStep():
                await self._set_link(step)
                return {step.name: step.rtt_ms}
            case LoadStep():
                await self._load.change(step.changes)
                return {name: step.changes[name.key] for name in step.names}
            case FreshSessions():
                await self._load.fresh_sessions()
            case Kick():
                await self._kick(step, applied)
        return {}

    async def _run_sql(self, step: SqlStep, applied: Applied) -> Mapping[KnobName, Value]:
        """Run statements, then read the variables back until they say what was asked."""
        member = self._member(step.node)
        switch = next((check for check in step.checks if check.name.key == "semi_sync"), None)
        if switch is not None and switch.value == "on":
            applied.yes_tx_at_enabling = await self._yes_tx(member)
        if switch is not None and switch.value == "off":
            applied.offs += 1
        for statement in step.before:
            await member.control.query(statement, deadline_s=_SET_DEADLINE_S)
        try:
            for statement in step.statements:
                await member.control.query(statement, deadline_s=_SET_DEADLINE_S)
        finally:
            for statement in step.after:
                await asyncio.shield(member.control.query(statement, deadline_s=_SET_DEADLINE_S))
        return {check.name: await self._until_same(member, check) for check in step.checks}

    async def _until_same(self, member: Member, check: Check) -> Value:
        """Read a variable until it says what was asked; raises ServerRefused past the deadline."""
        ends_s = self._clock.monotonic() + _CHECK_DEADLINE_S
        while True:
            rows = await member.control.query(f"SELECT @@GLOBAL.{check.variable} AS value")
            value = from_server(check.name.knob, str(rows[0]["value"]))
            if same_value(check.name.knob, value, check.value):
                return value
            if self._clock.monotonic() >= ends_s:
                raise ServerRefused(
                    0, f"{check.name} stays {value}", f"the server did not take {check.value}"
                )
            await self._clock.sleep(_CHECK_EVERY_S)

    async def _yes_tx(self, member: Member) -> int | None:
        """The acknowledgement counter now."""
        if member.capabilities is None:
            return None
        rows = await member.control.query(member.capabilities.status_statement())
        return member.capabilities.read_status(rows).yes_tx

    async def _restart_io(self, step: IoRestart) -> None:
        """Restart a replica's IO thread and wait until the source counts it."""
        replica, primary = self._member(step.node), self._fleet.primary
        round_trip_s = await self._round_trip_s(replica)
        deadline_s = 5.0 + 25 * round_trip_s
        self._report(f"{step.node} registers for semi-sync (about {1 + 20 * round_trip_s:.0f} s)")
        before = await self._clients(primary)
        for statement in step.statements:
            await replica.control.query(statement, deadline_s=deadline_s)
        ends_s = self._clock.monotonic() + deadline_s
        while True:
            clients = await self._clients(primary)
            if clients is not None and clients > (before or 0):
                return
            if self._clock.monotonic() >= ends_s:
                raise StackUnavailable(
                    f"{step.node} did not register for semi-sync within {deadline_s:.0f} s",
                    "`replexplorer status` shows its replication threads",
                )
            await self._clock.sleep(_CHECK_EVERY_S)

    async def _clients(self, primary: Member) -> int | None:
        """Semi-sync replicas registered with the source."""
        if primary.capabilities is None:
            return None
        rows = await primary.control.query(primary.capabilities.status_statement())
        return primary.capabilities.read_status(rows).clients

    async def _round_trip_s(self, replica: Member) -> float:
        """The link's measured round trip, 0 when unknown."""
        state = await self._fleet.primary.agent.link(replica.name)
        return (state.measured_ms or 0.0) / 1000

    async def _set_link(self, step: LinkStep) -> None:
        """Give both ends their delay, then wait for probes sent since; no answer is not a failure."""
        primary, replica = self._fleet.primary, self._member(step.replica)
        towards, back = await asyncio.gather(
            primary.agent.link(replica.name), replica.agent.link(primary.name)
        )
        delays = split_rtt(step.rtt_ms, towards, back)
        if primary.address.address is None or replica.address.address is None:
            raise StackUnavailable(
                f"the link to {step.replica} has no address", "`replexplorer up` repairs it"
            )
        await asyncio.gather(
            primary.agent.set_delay(replica.name, replica.address.address, delays.to_replica_ms),
            replica.agent.set_delay(primary.name, primary.address.address, delays.to_primary_ms),
        )
        ends_s = self._clock.monotonic() + 1.0 + 2 * step.rtt_ms / 1000
        while self._clock.monotonic() < ends_s:
            if (await primary.agent.link(replica.name)).probes >= _PROBES_WANTED:
                return
            await self._clock.sleep(_CHECK_EVERY_S)

    async def _kick(self, step: Kick, applied: Applied) -> None:
        """One commit; when its acknowledgement does not come in time the change stays, with a warning."""
        try:
            await self._fleet.primary.kick.query(KICK_STATEMENT, deadline_s=step.deadline_s)
        except ServerUnreachable:
            applied.warnings.append(
                f"semi_sync is on, but a commit was not acknowledged within {step.deadline_s:g} s:"
                " commits wait until a replica answers or the timeout passes"
            )
        except ServerRefused as refused:
            applied.warnings.append(
                f"semi_sync is on and armed; our test commit was refused: {refused.message}"
            )

    def _member(self, node: str) -> Member:
        return self._fleet.members[node] if node != PRIMARY else self._fleet.primary
