"""The knobs of one stack: requested and effective, planned, turned and written down."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from replexplorer.core.change.planner import IoRestart, Observed, Plan, make_plan, statements_of, written
from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.common import KeptChange, kept_by
from replexplorer.core.knobs.names import (
    Assignment,
    Desired,
    KnobName,
    Value,
    desired_of,
    parse_assignment,
)
from replexplorer.core.link import NO_PARTITION
from replexplorer.core.topology import is_pair
from replexplorer.engine.change.accounts import Accounts
from replexplorer.engine.change.apply import Applied, Applier, LoadControl
from replexplorer.engine.change.effect import doubtful, switched_off, unmet
from replexplorer.engine.change.turns import Turns
from replexplorer.engine.observe.sight import Sight
from replexplorer.engine.outcome import Changed, Preview, RolledBack, SetResult
from replexplorer.engine.requested import forget_nodes, write_requested

_NOTHING: Final[KeptChange] = MappingProxyType({})


class Controls:
    """The one way to turn a stack's knobs."""

    def __init__(
        self,
        sight: Sight,
        turns: Turns,
        accounts: Accounts,
        load: LoadControl,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._sight = sight
        self._fleet = sight.fleet
        self._turns = turns
        self._accounts = accounts
        self._applier = Applier(sight.fleet, load, sight.own, report, self._keep_enabling)

    # -- planning

    def parse(self, text: str) -> Assignment:
        """Read `KEY[@NODE]=VALUE` for this stack; raises UsageError."""
        assignment = parse_assignment(text, self._fleet.roster)
        if not self._fleet.carries_out(assignment.names[0].knob):
            raise UsageError(
                f"{assignment.names[0].key} is not available",
                f"nothing here can turn it at the servers of '{self._fleet.outside.provider.name}'",
            )
        for name in assignment.names:
            member = self._fleet.members.get(self._fleet.named(name.node))
            if member is not None and member.capabilities is not None:
                member.capabilities.knob(name.key)
        if assignment.names[0].key == keys.PARTITION and "@" not in text and assignment.value == NO_PARTITION:
            # Every link heals, those between two replicas as well.
            pairs = (KnobName(keys.PARTITION, pair) for pair in self._fleet.roster.pairs)
            assignment = replace(assignment, names=(*assignment.names, *pairs))
        if isinstance(assignment.value, str) and assignment.names[0].knob.is_file(assignment.value):
            path, _ = self._fleet.outside.workload_file(assignment.value)
            return replace(assignment, value=path)
        return assignment

    def preview(self, assignments: Sequence[Assignment]) -> Preview:
        """What these would run and warn of; a refusal becomes the warning."""
        try:
            plan = make_plan(self._observed(), self._without_idle_pairs(desired_of(assignments)))
        except ReplexplorerError as error:
            return Preview((), (), (str(error),))
        source = self._fleet.source_name
        return Preview(
            written((planned.step for planned in plan.steps), source),
            written(plan.rollback(), source),
            plan.warnings,
        )

    def _observed(self) -> Observed:
        """What the planner has to know, doubts included."""
        return replace(
            self._sight.observed(), doubtful=doubtful(self._sight), switched_off=switched_off(self._sight)
        )

    # -- turning

    async def set(
        self,
        desired: Desired,
        *,
        dry_run: bool = False,
        anyway: bool = False,
        begun: Callable[[], None] = lambda: None,
        everywhere: KeptChange = _NOTHING,
    ) -> SetResult:
        """Turn knobs: plan on a fresh look, apply, wait for the effect, write the request down, and with it
        what `everywhere` asks of nodes that join.

        `begun` is called just before the first step, and not when there is none to run. Another's
        experiment forbids it, unless `anyway`. Raises UsageError, StackUnavailable or
        `apply.RolledBack`; then nothing is requested again. A cancel
        leaves everything as it was, or comes too late: then the answer still is returned, and the
        cancel is delivered at the caller's next await.
        """
        async with self._turns.change(anyway=anyway or dry_run):
            await self._sight.refresh(links=[name.node for name in desired if is_pair(name.node)])
            observed = self._observed()
            desired = self._without_idle_pairs(desired)
            plan = make_plan(observed, desired)
            if dry_run:
                return _promised(plan, desired, self._sight.no_effect())
            before = {name: self._sight.requested_value(name) for name in desired}
            kept = {key: self._sight.requested.everywhere.get(key) for key in everywhere}
            if plan.steps:
                begun()
            try:
                applied = await self._applier.run(
                    plan, lambda applied: self._seal(desired, plan, applied, everywhere)
                )
            except RolledBack as error:
                if not error.complete:
                    self._accounts.lose(desired)
                raise
            self._accounts.turned(desired)
            again = [name for name in desired if name in observed.doubtful]
            lines = await self._look_again(again) if again else ()
            result = self._result(plan, applied, desired)
            return replace(result, before=before, before_everywhere=kept, unmet=lines)

    def _without_idle_pairs(self, desired: Desired) -> Desired:
        """What is desired, less the defaults of links between two replicas of which nothing is asked and
        nothing is in force: they are as desired, and not looked after."""
        busy = self._sight.pairs_of_interest()
        return {
            name: value
            for name, value in desired.items()
            if not is_pair(name.node) or name.node in busy or value != name.knob.default
        }

    async def _seal(self, desired: Desired, plan: Plan, applied: Applied, everywhere: KeptChange) -> None:
        """Write the request down, then look at what has come of it."""
        await self._write_down(desired, applied.yes_tx_at_enabling, everywhere)
        registered = {step.node for planned in plan.steps if isinstance(step := planned.step, IoRestart)}
        await asyncio.gather(
            self._sight.look_at_links(),
            self._sight.look_at_disks(),
            *(self._sight.look(node) for node in registered),
        )
        if applied.unacknowledged_s is not None:
            await self._sight.look_at_source()
            await self._sight.look_twice_if_waiting()
            applied.warnings.append(
                f"semi_sync is on and {self._sight.protection().state}: a commit was not acknowledged within"
                f" {applied.unacknowledged_s:g} s; commits wait until a replica answers or the timeout passes"
            )

    async def _look_again(self, again: Sequence[KnobName]) -> tuple[str, ...]:
        """What of that which was set before still has no effect, though it was carried out again."""
        await asyncio.gather(*(self._sight.look(node) for node in self._fleet.members))
        await self._sight.look_twice_if_waiting()
        return unmet(self._sight, again)

    async def _write_down(
        self, desired: Desired, yes_tx_at_enabling: int | None, everywhere: KeptChange = _NOTHING
    ) -> None:
        """Write the request into the document that all apps share, where it says anything new."""
        known = self._sight.requested
        is_new = any(known.values.get(name) != desired[name] for name in desired)
        is_new = is_new or any(known.everywhere.get(key) != everywhere[key] for key in everywhere)
        if yes_tx_at_enabling is not None or is_new:
            await self._write(desired, yes_tx_at_enabling, everywhere)
        self._accounts.requested(desired)

    async def _write(
        self, desired: Desired, yes_tx_at_enabling: int | None = None, everywhere: KeptChange = _NOTHING
    ) -> None:
        self._sight.requested = await write_requested(
            self._fleet.keeper,
            self._fleet.roster,
            desired,
            writer=self._turns.actor.writer,
            written_s=self._fleet.outside.clock.wall(),
            yes_tx_at_enabling=yes_tx_at_enabling,
            everywhere=everywhere,
        )

    async def request(self, desired: Desired) -> None:
        """Write a request down and turn nothing: whoever finds its server again applies it."""
        async with self._turns.alone():
            await self._write(desired)
            self._accounts.requested(desired)

    async def confirm(self) -> None:
        """Write down that what is requested is in force now, after restarts; nobody's news."""
        with contextlib.suppress(ReplexplorerError):
            async with self._turns.alone():
                await self._write({})

    async def _keep_enabling(self, undone: Applied) -> None:
        """A rollback enabled semi-sync again: only acknowledgements from here on are evidence."""
        if undone.yes_tx_at_enabling is not None:
            with contextlib.suppress(ReplexplorerError):
                await self._write_down({}, undone.yes_tx_at_enabling)

    def _result(self, plan: Plan, applied: Applied, desired: Desired) -> SetResult:
        return SetResult(
            changed=(*applied.changed, *_stored(plan, desired, self._sight.no_effect())),
            warnings=(*plan.warnings, *applied.warnings),
            unchanged=plan.unchanged,
        )

    async def forget_nodes(self, gone: Collection[str]) -> None:
        """Drop what was asked of nodes that the stack has no longer."""
        async with self._turns.alone():
            self._sight.requested = await forget_nodes(self._fleet.keeper, self._fleet.roster, gone)

    def kept_by(self, desired: Desired) -> KeptChange:
        """What is to be kept for nodes that join where somebody asks for this."""
        return kept_by(self._sight.requested.everywhere, desired, self._fleet.roster)

    def reset_values(self) -> dict[KnobName, Value]:
        """Every knob's default, for those that the servers have: of their flavour, where that has its own."""
        return {name: self._sight.default_value(name) for name in self._sight.names()}


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
    """Knobs of the load that only the document takes, for no load of this app runs."""
    return tuple(Changed(name, None, desired[name], None, 0.0, (), why) for name in plan.stored)
