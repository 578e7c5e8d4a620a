"""The console of a live stack: what commands do, and the rules of who may do what when.

Law: no rule of that kind stands anywhere else. A change has the turn that all apps share, an experiment
keeps everybody else's hands off the knobs, in any process, and an undo goes back to what was so when the
turn came.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from replexplorer.core.errors import UsageError
from replexplorer.core.event import Severity
from replexplorer.core.fault import FaultRequest
from replexplorer.core.knobs.common import KeptChange
from replexplorer.core.knobs.names import Assignment, Desired, desired_of
from replexplorer.core.role_change import RoleChange
from replexplorer.engine.change.controls import Controls
from replexplorer.engine.change.faults import Faults
from replexplorer.engine.change.marked import MarkedChanges
from replexplorer.engine.change.roles import RoleChanges
from replexplorer.engine.change.turns import Turns
from replexplorer.engine.console import (
    Clear,
    Command,
    Failover,
    GiveBack,
    Inject,
    Mark,
    Rejoin,
    Repair,
    Reset,
    Run,
    Scale,
    Select,
    Switchover,
    ToggleLoad,
    Turn,
    Undo,
)
from replexplorer.engine.experiment.rig import Rig
from replexplorer.engine.incidents.lost import Lost
from replexplorer.engine.incidents.repair import Repairer
from replexplorer.engine.load.driving import Driving
from replexplorer.engine.outcome import Cleared, Injected, Preview, SetResult
from replexplorer.engine.progress import Progress
from replexplorer.engine.record.chronicle import Chronicle

R = TypeVar("R")


class LiveConsole:
    """One actor at one attached stack (`console.Console`)."""

    def __init__(
        self,
        turns: Turns,
        controls: Controls,
        changes: MarkedChanges,
        driving: Driving,
        chronicle: Chronicle,
        repairer: Repairer,
        lost: Lost,
        faults: Faults,
        roles: RoleChanges,
        rig: Rig,
        share_mark: Callable[[str], Awaitable[None]],
    ) -> None:
        self._turns = turns
        self._controls = controls
        self._changes = changes
        self._driving = driving
        self._chronicle = chronicle
        self._repairer = repairer
        self._lost = lost
        self._faults = faults
        self._roles = roles
        self._rig = rig
        self._share_mark = share_mark
        self._undo: list[tuple[Desired, KeptChange]] = []
        """What was requested, and kept for nodes that join, before each change that still stands."""
        self._carries_out: dict[type[Command[Any]], Callable[[Any], Awaitable[Any]]] = {
            Turn: self._turn,
            Reset: self._reset,
            Undo: self._take_back,
            Inject: self._inject,
            Clear: self._clear,
            Failover: self._failover,
            Switchover: self._switchover,
            Rejoin: self._rejoin,
            Mark: self._mark,
            Select: self._select,
            ToggleLoad: self._toggle_load,
            Repair: self._repair,
            Scale: self._scale,
            GiveBack: self._give_back,
            Run: self._run,
        }

    def parse(self, text: str) -> Assignment:
        """See `console.Console`."""
        return self._controls.parse(text)

    def preview(self, assignments: Sequence[Assignment]) -> Preview:
        """See `console.Console`."""
        return self._controls.preview(assignments)

    def preview_fault(self, request: FaultRequest) -> Preview:
        """See `console.Console`."""
        return self._faults.preview(request)

    async def do(self, command: Command[R]) -> R:
        """See `console.Console`."""
        found: R = await self._carries_out[type(command)](command)
        return found

    def forget(self) -> None:
        """Another stack has this one's name: there is nothing to be undone."""
        self._undo.clear()

    # -- knobs

    async def _turn(self, command: Turn) -> SetResult:
        desired = desired_of(command.assignments)
        if command.dry_run:
            return await self._controls.set(desired, dry_run=True)
        return await self._change(desired, anyway=command.anyway)

    async def _reset(self, command: Reset) -> SetResult:
        return await self._change(self._controls.reset_values(), anyway=command.anyway)

    async def _change(self, desired: Desired, *, anyway: bool) -> SetResult:
        """Turn knobs so that it can be undone."""
        self._check_own(anyway)
        kept = self._controls.kept_by(desired)
        result = await self._changes.turn(desired, anyway=anyway, everywhere=kept)
        if result.changed or result.before != desired or result.before_everywhere != kept:
            self._undo.append((result.before, result.before_everywhere))
        return result

    async def _take_back(self, command: Undo) -> SetResult:
        self._check_own(command.anyway)
        if not self._undo:
            raise UsageError("nothing to undo", "no knob was turned in this session")
        before, kept = self._undo.pop()
        try:
            return await self._changes.turn(before, "undo: ", anyway=command.anyway, everywhere=kept)
        except BaseException:
            self._undo.append((before, kept))
            raise

    def _check_own(self, anyway: bool) -> None:
        """Raise ExperimentUnderWay while this app's own experiment runs; the turn knows of others'."""
        if not anyway:
            self._turns.refuse_meanwhile()

    # -- the load and the stack

    async def _toggle_load(self, _: ToggleLoad) -> bool:
        await self._turns.refuse_under_experiment()
        return await self._driving.toggle()

    async def _repair(self, command: Repair) -> tuple[str, ...]:
        await (
            self._turns.refuse_under_experiment()
        )  # it would start threads that a lab has stopped on purpose
        repaired = (await self._repairer.bring_up(command.progress)).repaired
        if repaired:
            self._chronicle.tell(Severity.GOOD, f"repaired: {'; '.join(repaired)}")
        return repaired

    async def _scale(self, command: Scale) -> None:
        await self._turns.refuse_under_experiment()
        await self._rig.scale(command.replicas, lambda text, done: command.progress(Progress(text, done)))

    async def _give_back(self, command: GiveBack) -> None:
        if command.yes:
            await self._turns.refuse_under_experiment()
        await self._lost.give_back(command.yes)

    async def _inject(self, command: Inject) -> tuple[Injected, ...]:
        if not command.anyway:
            await self._turns.refuse_under_experiment()
        return await self._faults.inject(command.request, for_s=command.for_s, anyway=command.anyway)

    async def _clear(self, command: Clear) -> tuple[Cleared, ...]:
        """Never refused: what was broken on purpose can always be mended."""
        return await self._faults.clear(command.text)

    # -- roles

    async def _failover(self, command: Failover) -> RoleChange:
        self._check_own(command.anyway)
        return await self._roles.failover(
            command.to, since_s=command.since_s, anyway=command.anyway, accept_loss=command.accept_loss
        )

    async def _switchover(self, command: Switchover) -> RoleChange:
        self._check_own(command.anyway)
        return await self._roles.switchover(command.to, anyway=command.anyway)

    async def _rejoin(self, command: Rejoin) -> RoleChange:
        self._check_own(command.anyway)
        return await self._roles.rejoin(
            command.node, consent=command.consent, rebuild=command.copy, anyway=command.anyway
        )

    # -- what changes nothing, or gives it back

    async def _mark(self, command: Mark) -> None:
        number = self._chronicle.begin_change(command.text)
        self._chronicle.change_effective(number, command.text, command.text)
        await self._share_mark(command.text)

    async def _select(self, command: Select) -> None:
        await self._driving.point(None if command.knob is None else str(command.knob))

    async def _run(self, command: Run[R]) -> R:
        return await command.experiment.run(self._rig)
