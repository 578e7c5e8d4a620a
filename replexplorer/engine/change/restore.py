"""Restoring what restarts took, and bringing a stack up, or back.

Law: SET GLOBAL does not survive a restart, nor do a link's rules; what was requested is restored at once,
after a question, or not at all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Final

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.event import Severity
from replexplorer.core.knobs.names import SEMI_SYNC, Desired, KnobName, Value, format_value
from replexplorer.core.records import dataclass, field, replace
from replexplorer.engine.change.bringup import Raised, bring_up
from replexplorer.engine.change.controls import Controls, doubts, switched_off
from replexplorer.engine.change.faults import Faults
from replexplorer.engine.change.joining import form_group
from replexplorer.engine.change.roles import RoleChanges
from replexplorer.engine.fleet import Member
from replexplorer.engine.outcome import ExperimentUnderWay
from replexplorer.ports import Reporter, UpOptions

_AGAIN: Final = "re-applied: "
"""How the mark of what is restored begins."""
_UPTIME_SLACK_S: Final = 1.0
"""A server tells its uptime in whole seconds."""

Consent = Callable[[Desired], Awaitable[bool]]
"""Whether what a restart took is to be restored."""


@dataclass(eq=False)
class Restorer:
    """Restores one stack."""

    _controls: Controls
    _faults: Faults
    _roles: RoleChanges
    _options: UpOptions
    _reapply_as: str
    """auto, ask or off."""
    _can_ask: bool
    """Somebody is there to be asked."""
    _finish_killed: Callable[[], Awaitable[tuple[str, ...]]]
    """Restores what a killed experiment changed, and says what."""
    settle_data: Callable[[], Awaitable[list[str]]] = field(init=False)
    """Notes what became of a change of all rows that is under way, and says it."""
    created: bool = False
    """Whether this session made the stack."""
    repaired: tuple[str, ...] = ()
    """What the last `bring_up` started again, undid or re-applied, in words."""
    _waiting: dict[KnobName, Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Take what is needed most."""
        self._state, self._fleet = self._controls.state, self._controls.fleet
        self._turns, self._event_log = self._controls.turns, self._controls.event_log
        self.asks = self._reapply_as == "ask" and self._can_ask
        """Whether what is lost waits for an answer."""

    # -- what restarts took

    def waiting(self) -> Desired:
        """What restarts took, is still not so, and waits for `give_back`."""
        if self._waiting:
            still = self._state.lost_values(self._fleet.members)
            self._waiting = {name: value for name, value in self._waiting.items() if name in still}
        return self._waiting

    def words(self) -> tuple[str, ...]:
        """What waits for an answer, a request each: `sync_binlog 0`."""
        return tuple(f"{name} {format_value(name.knob, value)}" for name, value in self.waiting().items())

    def forget(self) -> None:
        """It was restored, or is of a stack that is gone."""
        self._waiting.clear()

    async def later(self, lost: Desired) -> bool:
        """No consent yet: the picture asks once it is there."""
        self._waiting.update(lost)
        return False

    async def catch_up(self, written_s: float | None) -> None:
        """Restore what restarts took while no app was attached, since the requests were written at this time;
        None: they never were. Not under somebody's experiment: what it restarted on purpose is its own to
        restore."""
        if written_s is None:
            return
        age_s = self._controls.clock.wall() - written_s - _UPTIME_SLACK_S
        gone: list[tuple[str, Desired]] = []
        for node, member in self._fleet.members.items():
            for what, up_s, values in (
                (node, self._server_uptime_s(node), self._state.lost_values((node,))),
                (f"the sidecar of {node}", await _uptime_s(member), self._state.lost_by_sidecar(node)),
            ):
                if values and up_s is not None and up_s < age_s:
                    gone.append((f"{what} restarted while no app was attached", values))
        try:
            await self._turns.refuse_under_experiment()
        except ExperimentUnderWay:
            return
        for what, taken in gone:
            await self.restore(what, taken)

    def _server_uptime_s(self, node: str) -> float | None:
        sample = self._state.samples.get(node)
        if sample is None or sample.status.uptime_s is None:
            return None
        return sample.status.uptime_s + self._controls.clock.monotonic() - sample.at_s

    async def restore(self, what: str, lost: Desired) -> None:
        """Give back what was lost as configured, and say `what` happened; nothing may be lost."""
        lost = await self._still(lost)
        if lost:
            what += f" and lost {', '.join(map(str, lost))}"
        is_left = bool(lost) and self._reapply_as != "auto" and not self.asks
        self._event_log.tell(Severity.WARN, f"{what} (reapply = {self._reapply_as})" if is_left else what)
        if self.asks:
            await self.later(lost)
        elif lost and not is_left:
            await self._reapply(lost)

    async def _still(self, lost: Desired) -> Desired:
        """What of this is lost when no change is under way: in the midst of one what is requested and what is
        in force differ, and nothing was lost."""
        if not lost:
            return lost
        try:
            async with self._turns.change(anyway=True):
                await self._state.refresh()
        except ReplexplorerError:
            return lost
        still = self._state.lost_values(self._fleet.members)
        return {name: value for name, value in still.items() if name in lost}

    async def give_back(self, yes: bool) -> None:
        """The answer to what waits: re-apply it, or leave it and do not ask again."""
        lost = self.waiting()
        self._waiting = {}
        if lost and yes:
            await self._reapply(lost)
        elif lost:
            self._event_log.tell(Severity.INFO, f"not restored: {', '.join(map(str, lost))}")

    async def _reapply(self, lost: Desired) -> None:
        _, left = await self._controls.turn_each(lost, _AGAIN)
        if not left:
            await self._controls.confirm()

    # -- up

    async def bring_up(self, report: Reporter, consent: Consent | None = None) -> Raised:
        """Create or repair the stack, wait until it answers, re-apply what was requested; with `consent`
        only where that says yes to what was lost. Raises ReplexplorerError."""
        state = self._state
        raised = await bring_up(self._fleet, self._options, report)
        self.created = self.created or raised.created
        await state.refresh()
        if raised.created and (came_with := state.own_defaults()):
            await self._controls.request(came_with)
        if shared := state.for_joined(raised.joined):
            await self._controls.request(shared)
            await state.look_at_links()  # as they are asked for now
        over = await self.settle_data()
        settled = await self._roles.settle()
        await self._roles.seed(raised.to_copy, report)
        over += [settled] if settled else []
        for node in raised.restarted:
            over += await self._faults.came_back(node)
        for cleared in await self._faults.clear():
            over.append(f"fault {cleared.fault} undone")
            if cleared.comeback is not None:
                over += cleared.comeback.words(self._fleet.outside.provider.name)
        over += await self._finish_killed()
        if self._fleet.system.is_group:  # a node whose links were cut can be let in only now
            await form_group(self._fleet, over.append)
            await state.refresh()
        again = await self._again(report, consent)
        done = [f"{', '.join(map(str, again))} set again"] if again else []
        self.repaired = (*raised.repaired, *over, *done)
        return replace(raised, repaired=self.repaired)

    async def _again(self, report: Reporter, consent: Consent | None) -> Collection[KnobName]:
        """Put in force what restarts took, then carry out again what is set and has no effect; answers what
        that was."""
        lost = self._state.lost_values(self._fleet.members)
        again: dict[KnobName, Value] = {}
        if lost and (consent is None or await consent(lost)):
            self.forget()
            report("re-applying what was requested")
            _, left = await self._controls.turn_each(lost, _AGAIN)
            again |= {name: value for name, value in lost.items() if name not in left}
        wanted = self._state.requested.values
        found = {name: why for name, why in doubts(self._state).items() if name in wanted}
        doubted = {name: wanted[name] for name in found}
        if any(found.values()) or (SEMI_SYNC in doubted and switched_off(self._state)):
            report("repairing what was requested")
            await self._controls.turn(doubted, "repaired: ", anyway=True)
            again |= doubted
        return again


async def _uptime_s(member: Member) -> float | None:
    """How long the node's agent runs; None where it does not answer."""
    try:
        return (await member.agent.health()).uptime_s
    except ReplexplorerError:
        return None
