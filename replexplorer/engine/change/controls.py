"""The knobs of one stack: requested and effective, planned, turned and written down."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from replexplorer.core.change.planner import IoRestart, Observed, Plan, make_plan, statements_of, written
from replexplorer.core.errors import ReplexplorerError, StackUnavailable
from replexplorer.core.knobs.names import (
    PRIMARY,
    Assignment,
    Backing,
    Desired,
    KnobName,
    Value,
    defaults,
    desired_of,
    parse_assignment,
    same_value,
)
from replexplorer.engine.change.apply import Applied, Applier, LoadControl, RolledBack
from replexplorer.engine.change.effect import doubtful, switched_off, unmet
from replexplorer.engine.change.outcome import Changed, Preview, SetResult
from replexplorer.engine.finish import to_the_end
from replexplorer.engine.fleet import Fleet
from replexplorer.engine.observe.sight import Sight
from replexplorer.engine.requested import Requested, write_requested
from replexplorer.ports import Experiment, Lease

_TURN_SOON_S: Final = 0.5
"""Past it, it is said whom one waits for."""
_TURN_WITHIN_S: Final = 20.0
"""A change of another app may wait for a replica to register, or for a stream to heal."""


class Controls(Sight):
    """What is known of a stack's knobs, and the one way to turn them."""

    def __init__(
        self, fleet: Fleet, load: LoadControl, *, writer: str, report: Callable[[str], None] = lambda _: None
    ) -> None:
        super().__init__(fleet, load)
        self.writer = writer
        self.noted: dict[KnobName, Value] = {}
        """The requests that this session knows of: its own, and those of others that it marked."""
        self._accounted: dict[KnobName, Value] = {}
        """Server variables as apps have left them, or as this session found them."""
        self._report = report
        self._applier = Applier(fleet, load, report, self._keep_enabling)
        self._turning = asyncio.Lock()
        """One change at a time, from its look to its document: a plan holds for what it saw."""
        self._turner: asyncio.Task[Any] | None = None
        """Who holds it for a change."""

    def own_offs(self) -> int:
        """Times that we switched semi-sync off since the primary started."""
        return self._applier.offs

    def healing(self) -> frozenset[str]:
        """Replicas whose partition is over and whose stream has not moved yet."""
        return self._applier.healing

    def forget_offs(self) -> None:
        """The primary restarted: its `no_times` counts from zero again."""
        self._applier.offs = 0

    def forget(self) -> None:
        """Another stack has this one's name: nothing is known of it."""
        self.noted = {}
        self.requested = Requested()
        self.forget_offs()
        for seen in (self.samples, self.samples_before, self.links, self.disks, self._accounted):
            seen.clear()

    # -- planning

    def parse(self, text: str) -> Assignment:
        """Read `KEY[@NODE]=VALUE` for this stack; raises UsageError."""
        assignment = parse_assignment(text, self.fleet.replica_names)
        for name in assignment.names:
            member = self.fleet.members.get(name.node)
            if member is not None and member.capabilities is not None:
                member.capabilities.knob(name.key)
        if isinstance(assignment.value, str) and assignment.names[0].knob.is_file(assignment.value):
            path, _ = self.fleet.outside.workload_file(assignment.value)
            return replace(assignment, value=path)
        return assignment

    def preview(self, assignments: Sequence[Assignment]) -> Preview:
        """What these would run and warn of; a refusal becomes the warning."""
        try:
            plan = make_plan(self._observed(), desired_of(assignments))
        except ReplexplorerError as error:
            return Preview((), (), (str(error),))
        return Preview(
            written(planned.step for planned in plan.steps), written(plan.rollback()), plan.warnings
        )

    def _observed(self) -> Observed:
        """What the planner has to know, doubts included."""
        return replace(self.observed(), doubtful=doubtful(self), switched_off=switched_off(self))

    # -- turning

    async def set(
        self,
        desired: Desired,
        *,
        dry_run: bool = False,
        anyway: bool = False,
        begun: Callable[[], None] = lambda: None,
    ) -> SetResult:
        """Turn knobs: plan on a fresh look, apply, wait for the effect, write the request down.

        `begun` is called just before the first step, and not when there is none to run. Another's
        experiment forbids it, unless `anyway`. Raises UsageError, StackUnavailable or
        `apply.RolledBack`; then nothing is requested anew. A cancel
        leaves everything as it was, or comes too late: then the answer still is returned, and the
        cancel is delivered at the caller's next await.
        """
        async with self._turning, self._turn(anyway=anyway or dry_run):
            self._turner = asyncio.current_task()
            try:
                await self.refresh()
                observed = self._observed()
                plan = make_plan(observed, desired)
                if dry_run:
                    return _promised(plan, desired, self.no_effect())
                if plan.steps:
                    begun()
                applied = await self._applier.run(plan, lambda applied: self._seal(desired, plan, applied))
                self._account_for(desired)
                again = [name for name in desired if name in observed.doubtful]
                lines = await self._look_again(again) if again else ()
                return replace(self._result(plan, applied, desired), unmet=lines)
            except RolledBack as error:
                if not error.complete:
                    for name in desired:
                        self._accounted.pop(name, None)
                raise
            finally:
                self._turner = None

    @contextlib.asynccontextmanager
    async def _turn(self, *, anyway: bool = False, patient: bool = True) -> AsyncIterator[None]:
        """This app's turn among all that change this stack: what is in force and what the document
        says come from the same hand. Raises StackUnavailable naming who does not end, or whose experiment
        forbids it."""
        agent, within_s = self.fleet.primary.agent, _TURN_SOON_S
        try:
            holder = await agent.take_turn(self.writer, within_s=_TURN_SOON_S, anyway=anyway)
            if isinstance(holder, Lease) and patient:
                self._report(f"waiting for {holder.holder}, which is changing knobs")
                within_s = _TURN_WITHIN_S
                holder = await agent.take_turn(self.writer, within_s=within_s, anyway=anyway)
            if isinstance(holder, Experiment):
                raise forbidden(holder)
            if holder is not None:
                raise StackUnavailable(
                    f"{holder.holder} has been changing knobs for {within_s:g} s", "try again"
                )
            yield
        finally:
            await to_the_end(agent.leave_turn())

    async def experiment(self) -> Experiment | None:
        """Another's lab or sweep that runs on this stack; None when none does, or nobody can tell."""
        agent = self.fleet.primary.agent
        async with self._turning:
            try:
                holder = await agent.take_turn(self.writer, within_s=_TURN_SOON_S)
            except ReplexplorerError:
                return None
            finally:
                await to_the_end(agent.leave_turn())
        return holder if isinstance(holder, Experiment) else None

    async def abandon(self) -> None:
        """Cancel the change that is under way, if there is one, and wait until it is taken back."""
        if self._turner is not None and self._turner is not asyncio.current_task():
            self._turner.cancel()
        async with self._turning:
            return

    async def news(self) -> tuple[Desired, Desired]:
        """What others requested since this session last knew, and what was requested of it before."""
        async with self._turning:
            await self.read_document()
            before = self.noted
            changed = {
                name: value
                for name, value in self.requested.values.items()
                if before.get(name, name.knob.default) != value
            }
            self.noted = {**before, **changed}
            self._account_for(changed)
            return changed, before

    # -- what nobody of us turned

    def account_for(self, node: str) -> None:
        """What a node's variables are now is no news: it was seen at the start, or came with a restart."""
        self._account_for({name: value for name, value in self._variables(node).items() if value is not None})

    def _account_for(self, values: Desired) -> None:
        self._accounted.update(
            {name: value for name, value in values.items() if name.knob.backing is Backing.SERVER}
        )

    def _variables(self, node: str) -> dict[KnobName, Value | None]:
        return {
            name: self.effective_value(name)
            for name in self.names()
            if name.node == node and name.knob.backing is Backing.SERVER
        }

    @property
    def is_turning(self) -> bool:
        """A change of this app is under way."""
        return self._turner is not None

    def unaccounted(self, node: str) -> dict[KnobName, tuple[Value, Value]]:
        """Variables of a node that are not as they were left, each before and now; another app's change
        that is not written down yet is among them. One that was never seen is accounted for now."""
        found = {}
        for name, value in self._variables(node).items():
            if value is None:
                continue
            before = self._accounted.setdefault(name, value)
            if not same_value(name.knob, before, value):
                found[name] = (before, value)
        return found

    async def set_by_hand(self, node: str) -> dict[KnobName, tuple[Value, Value]]:
        """What somebody else has set at this node, each before and now; told once. Raises
        StackUnavailable while another app changes anything, for then nobody can say whose it is."""
        async with self._turning, self._turn(anyway=True, patient=False):
            await self.read_document()
            await self.look(node)
            by_hand = {
                name: values
                for name, values in self.unaccounted(node).items()
                if not self._is_requested_anew(name, values[1])
            }
            self.account_for(node)
            return by_hand

    def _is_requested_anew(self, name: KnobName, value: Value) -> bool:
        """Another app asked for it, which `news` will say."""
        wanted = self.requested_value(name)
        return self.noted.get(name, name.knob.default) != wanted and same_value(name.knob, wanted, value)

    async def _seal(self, desired: Desired, plan: Plan, applied: Applied) -> None:
        """Write the request down, then look at what has come of it."""
        await self._write_down(desired, applied.yes_tx_at_enabling)
        registered = {step.node for planned in plan.steps if isinstance(step := planned.step, IoRestart)}
        await asyncio.gather(
            self.look_at_links(), self.look_at_disks(), *(self.look(node) for node in registered)
        )
        if applied.unacknowledged_s is not None:
            await self.look(PRIMARY)
            await self.look_twice_if_waiting()
            applied.warnings.append(
                f"semi_sync is on and {self.protection().state}: a commit was not acknowledged within"
                f" {applied.unacknowledged_s:g} s; commits wait until a replica answers or the timeout passes"
            )

    async def _look_again(self, again: Sequence[KnobName]) -> tuple[str, ...]:
        """What of that which was set before still has no effect, though it was carried out again."""
        await asyncio.gather(*(self.look(node) for node in self.fleet.members))
        await self.look_twice_if_waiting()
        return unmet(self, again)

    async def _write_down(self, desired: Desired, yes_tx_at_enabling: int | None) -> None:
        """Write the request into the document that all apps share, where it says anything new."""
        known = self.requested.values
        if yes_tx_at_enabling is not None or any(known.get(name) != desired[name] for name in desired):
            await self._write(desired, yes_tx_at_enabling)
        self.noted.update(desired)

    async def _write(self, desired: Desired, yes_tx_at_enabling: int | None = None) -> None:
        self.requested = await write_requested(
            self.fleet.primary.agent,
            desired,
            writer=self.writer,
            written_s=self.fleet.outside.clock.wall(),
            yes_tx_at_enabling=yes_tx_at_enabling,
        )

    async def request(self, desired: Desired) -> None:
        """Write a request down and turn nothing: whoever finds its server again applies it."""
        async with self._turning:
            await self._write(desired)
            self.noted.update(desired)

    async def confirm(self) -> None:
        """Write down that what is requested is in force now, after restarts; nobody's news."""
        with contextlib.suppress(ReplexplorerError):
            async with self._turning:
                await self._write({})

    async def _keep_enabling(self, undone: Applied) -> None:
        """A rollback enabled semi-sync anew: only acknowledgements from here on are evidence."""
        if undone.yes_tx_at_enabling is not None:
            with contextlib.suppress(ReplexplorerError):
                await self._write_down({}, undone.yes_tx_at_enabling)

    def _result(self, plan: Plan, applied: Applied, desired: Desired) -> SetResult:
        return SetResult(
            changed=(*applied.changed, *_stored(plan, desired, self.no_effect())),
            warnings=(*plan.warnings, *applied.warnings),
            unchanged=plan.unchanged,
        )

    def reset_values(self) -> dict[KnobName, Value]:
        """Every knob's default, for those that the servers have."""
        standard = defaults(self.fleet.replica_names)
        return {name: standard[name] for name in self.names()}


def forbidden(experiment: Experiment) -> StackUnavailable:
    """Why nobody else turns knobs while an experiment runs."""
    kind, holder = experiment.kind, experiment.holder
    whose = "" if holder.startswith(kind) else f"{holder}, "
    return StackUnavailable(
        f"the {kind} {experiment.name} ({whose}pid {experiment.pid} on {experiment.host}) turns the knobs",
        "wait for its end; `set --anyway` turns them all the same and makes what it measures invalid",
    )


def _promised(plan: Plan, desired: Desired, why_stored: str) -> SetResult:
    """What a plan would do, as the answer to a dry run."""
    requested = {change.name: change for change in plan.changes}
    return SetResult(
        changed=tuple(
            Changed(
                name,
                requested[name].before,
                requested[name].requested,
                None,
                0.0,
                statements_of(planned.step),
            )
            for planned in plan.steps
            for name in planned.step.names
        )
        + _stored(plan, desired, why_stored),
        warnings=plan.warnings,
        dry_run=True,
        unchanged=plan.unchanged,
    )


def _stored(plan: Plan, desired: Desired, why: str) -> tuple[Changed, ...]:
    """Knobs of the load that only the document takes, for no load of ours runs."""
    return tuple(Changed(name, None, desired[name], None, 0.0, (), why) for name in plan.stored)
