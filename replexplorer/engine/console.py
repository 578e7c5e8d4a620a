"""What one does with a live stack, and the rules of who may do what when.

Law: no rule of that kind stands anywhere else, whoever asks - a key, a verb, a browser, a second shell. A
change has the turn that all apps share, an experiment keeps everybody else's hands off the knobs, in any
process, and an undo goes back to what was so when the turn came.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.event import Severity
from replexplorer.core.fault import FaultRequest
from replexplorer.core.knobs.names import Assignment, Desired, KnobName, desired_of
from replexplorer.core.preset import Preset, SavedData
from replexplorer.core.records import dataclass, field
from replexplorer.core.role_change import RoleChange
from replexplorer.core.server.node_view import NodeView
from replexplorer.engine.change.controls import Controls
from replexplorer.engine.change.faults import Faults
from replexplorer.engine.change.promotion import Consent
from replexplorer.engine.change.restore import Restorer
from replexplorer.engine.change.roles import RoleChanges
from replexplorer.engine.change.saved_data import SavedStates
from replexplorer.engine.experiment.restore_guard import finish_killed
from replexplorer.engine.experiment.stack_api import Procedure, StackApi
from replexplorer.engine.load import Driving
from replexplorer.engine.outcome import Cleared, Injected, Preview, SetResult
from replexplorer.engine.tasks import to_the_end
from replexplorer.ports import Reporter

R = TypeVar("R")


def _silent(_: str, __: float | None = None) -> None:
    """Nobody hears how far it is."""


@dataclass(eq=False)
class Console:
    """What one actor does with one attached stack.

    All of it raises UsageError for what makes no sense here, StackUnavailable for what cannot be now, and
    ExperimentUnderWay while somebody's experiment turns the knobs, where `anyway` does not say to go on.
    """

    _controls: Controls
    _driving: Driving
    _faults: Faults
    _roles: RoleChanges
    _restorer: Restorer
    stack: StackApi
    """To look at it, and what experiments work with."""
    saved: SavedStates
    """The rows that presets have."""
    _share_mark: Callable[[str], Awaitable[None]]
    _undo: list[Desired] = field(default_factory=list)
    """What was requested before each change that still stands."""

    def __post_init__(self) -> None:
        """Take what is needed most."""
        self._turns, self._event_log = self._controls.turns, self._controls.event_log

    def parse(self, text: str) -> Assignment:
        """`KEY[@NODE]=VALUE` checked against this stack; raises UsageError in one line."""
        return self._controls.parse(text)

    def preview(self, assignments: Sequence[Assignment]) -> Preview:
        """What a `set` would run and warn of, from what is known, without I/O."""
        return self._controls.preview(desired_of(assignments))

    def preview_fault(self, request: FaultRequest) -> Preview:
        """What injecting it would run and why it would be refused, from what is known, without I/O."""
        return self._faults.preview(request)

    def forget(self) -> None:
        """Another stack has this one's name: there is nothing to be undone."""
        self._undo.clear()

    # -- knobs

    async def set(
        self, assignments: Sequence[Assignment], *, dry_run: bool = False, anyway: bool = False
    ) -> SetResult:
        """Change settings in the safe order and wait until they are effective, or take all back; can be
        undone. With `dry_run` only what would be done is returned."""
        desired = desired_of(assignments)
        if dry_run:
            return await self._controls.set(desired, dry_run=True)
        return await self._change(desired, anyway=anyway)

    async def reset(self, anyway: bool = False) -> SetResult:
        """All knobs to their defaults; one undo takes all of it back."""
        return await self._change(self._controls.reset_values(), anyway=anyway)

    async def _change(self, desired: Desired, *, anyway: bool) -> SetResult:
        """Turn knobs so that it can be undone. What a killed experiment changed is restored first: its
        settings would pass for requested ones."""
        self._check_own(anyway)
        if not anyway:
            await finish_killed(self.stack)
        result = await self._controls.turn(desired, anyway=anyway)
        if result.changed or result.before != desired:
            self._undo.append(result.before)
        return result

    async def undo(self) -> SetResult:
        """Take back the last change or reset that was not rolled back yet; cannot be undone itself."""
        self._check_own(False)
        if not self._undo:
            raise UsageError("nothing to undo", "no knob was turned in this session")
        before = self._undo.pop()
        try:
            return await self._controls.turn(before, "undo: ", anyway=False)
        except BaseException:
            self._undo.append(before)
            raise

    async def apply(
        self, preset: Preset, report: Reporter = _silent, *, dry_run: bool = False, anyway: bool = False
    ) -> SetResult:
        """Turn the knobs of a preset; return to one that has all of them, without any fault, and to the rows
        that were saved with it."""
        if preset.data and not dry_run:
            return await self.restore_data(preset.name, report, anyway)
        try:
            wanted = [*map(self.parse, preset.assignments())]
        except UsageError as error:
            raise UsageError(f"{preset.file}: {error.message}", error.hint) from None
        if preset.whole and not dry_run:
            if not anyway:
                await self._turns.refuse_under_experiment()
            await self._faults.clear()
        return await self.set(wanted, dry_run=dry_run, anyway=anyway)

    async def save_data(self, name: str, report: Reporter = _silent, anyway: bool = False) -> SavedData:
        """Save the rows of all nodes and all that is requested under a preset's name; the servers are stopped
        meanwhile. A cancel waits for the end. Raises StackUnavailable while somebody else drives the load,
        unless `anyway`."""
        await self._take_it_all(f"preset save {name}", anyway)
        return await to_the_end(self.saved.save(name, report, anyway=anyway))

    async def restore_data(self, name: str, report: Reporter = _silent, anyway: bool = False) -> SetResult:
        """Back to the rows and the knobs that `save_data` has saved, without any fault; refused as that."""
        await self._take_it_all(f"preset apply {name}", anyway)
        self.forget()
        return await to_the_end(self.saved.restore(name, report, anyway=anyway))

    async def _take_it_all(self, title: str, anyway: bool) -> None:
        """Say it to all who watch; raises where somebody's experiment or another's load is under way."""
        if not anyway:
            await self._turns.refuse_under_experiment()
            driver = await self._controls.fleet.keeper.lease()
            if driver is not None and driver.load and self._turns.actor.is_other(driver):
                raise StackUnavailable(f"{driver} drives a load", "end it first, or add --force")
            await finish_killed(self.stack)
        await self._share_mark(title)

    def _check_own(self, anyway: bool) -> None:
        """Raise ExperimentUnderWay while this app's own experiment runs; the turn knows of others'."""
        if not anyway:
            self._turns.refuse_meanwhile()

    # -- the load and the stack

    async def toggle_load(self) -> bool:
        """Stop or start the actor's load; returns whether it runs now."""
        await self._turns.refuse_under_experiment()
        return await self._driving.toggle()

    async def repair(self, report: Reporter = _silent) -> tuple[str, ...]:
        """Bring dead nodes back, start stopped threads, re-apply what was requested; returns what was done,
        nothing when all was well."""
        # It would start threads that a lab has stopped on purpose.
        await self._turns.refuse_under_experiment()
        repaired = (await self._restorer.bring_up(report)).repaired
        if repaired:
            self._event_log.tell(Severity.GOOD, f"repaired: {'; '.join(repaired)}")
        return repaired

    async def scale(self, replicas: int, report: Reporter = _silent) -> None:
        """Bring replicas up, or remove the last ones with their data, until there are this many."""
        await self._turns.refuse_under_experiment()
        await self.stack.scale(replicas, report)

    async def give_back(self, yes: bool) -> None:
        """The answer to `Tick.lost`: re-apply what restarts took, or leave it."""
        if yes:
            await self._turns.refuse_under_experiment()
        await self._restorer.give_back(yes)

    # -- faults and roles

    async def inject(
        self, request: FaultRequest, for_s: float | None = None, anyway: bool = False
    ) -> tuple[Injected, ...]:
        """Do a fault to its nodes; it stays until it is cleared. `for_s` is how long whoever injects it will
        leave it, for the record."""
        if not anyway:
            await self._turns.refuse_under_experiment()
        return await self._faults.inject(request, for_s=for_s, anyway=anyway)

    async def clear(self, text: str | None = None) -> tuple[Cleared, ...]:
        """Take back the faults that this text means, `KIND[@NODE]`, all for None. Never refused: what was
        broken on purpose can always be repaired."""
        return await self._faults.clear(text)

    async def failover(
        self,
        to: str | None = None,
        since_s: float | None = None,
        anyway: bool = False,
        accept_loss: bool = False,
    ) -> RoleChange:
        """Promote a replica, the one that lacks least or `to`, in place of a source that is gone, and was
        lost `since_s` on the monotonic clock (None: now); with `accept_loss` also without what it lacks and
        cannot fetch."""
        self._check_own(anyway)
        return await self._roles.failover(to, since_s=since_s, anyway=anyway, accept_loss=accept_loss)

    async def switchover(self, to: str | None = None, anyway: bool = False) -> RoleChange:
        """Let the source and a replica, the nearest or `to`, change places."""
        self._check_own(anyway)
        return await self._roles.switchover(to, anyway=anyway)

    async def rejoin(
        self, node: str, consent: Consent | None = None, anyway: bool = False, copy: bool = False
    ) -> RoleChange:
        """Let a node that follows no source follow the source again. `consent` is asked before it loses
        transactions that the source lacks (None: it may); with `copy` it gets a copy of the source's data in
        any case."""
        self._check_own(anyway)
        return await self._roles.rejoin(node, consent=consent, rebuild=copy, anyway=anyway)

    # -- what changes nothing, or gives it back

    async def nodes(self) -> tuple[NodeView, ...]:
        """Every node with what it has executed, received and logged, asked now: more than a tick has."""
        return await self._controls.state.in_full()

    async def mark(self, text: str) -> None:
        """Put a numbered mark on the charts and into the log, for all who watch; it begins an epoch as a
        change does."""
        self._event_log.mark(text)
        await self._share_mark(text)

    async def select(self, knob: KnobName | None) -> None:
        """Show who watches which knob is selected here; None: none."""
        await self._driving.point(None if knob is None else str(knob))

    async def run(self, experiment: Procedure[R]) -> R:
        """Run an experiment: nobody else turns a knob meanwhile, and what it takes is restored whatever
        happens."""
        return await experiment.run(self.stack)


Command = Callable[[Console], Awaitable[R]]
"""Something to be done at a console, later."""
