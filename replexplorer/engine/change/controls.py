"""The knobs of one stack: planned, turned and written down, with a mark of each change.

Law: a change is done when its effect is seen, and that holds for a value that was set before, too.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from replexplorer.core.change.planner import IoRestart, Observed, Plan, make_plan, statements_of, written
from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.event import Severity
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import (
    SEMI_SYNC,
    Assignment,
    Backing,
    Desired,
    KnobName,
    Restart,
    Value,
    format_change,
    parse_assignment,
    same_value,
)
from replexplorer.core.link import DELAYS, NO_PARTITION, falls_short
from replexplorer.core.records import dataclass, replace
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.topology import is_pair
from replexplorer.engine.change.apply import Applied, Applier, LinkChange
from replexplorer.engine.change.change_lock import ChangeLock, DriftDetector
from replexplorer.engine.load import LoadDriver
from replexplorer.engine.observe.state import StackState
from replexplorer.engine.outcome import Changed, Preview, RolledBack, SetResult
from replexplorer.engine.record import EventLog
from replexplorer.engine.requested import Requested


@dataclass(eq=False)
class Controls:
    """The one way to turn a stack's knobs."""

    state: StackState
    turns: ChangeLock
    _load: LoadDriver
    event_log: EventLog
    report: Callable[[str], None]
    """Called with what a change waits for."""

    def __post_init__(self) -> None:
        """Make what carries plans out, and what notices drift."""
        self.fleet, self.clock = self.state.fleet, self.state.fleet.outside.clock
        self.drift = DriftDetector(self.state, self.turns)
        self.links = LinkChange(self.fleet, self.state.own.healing, self.report)
        self._applier = Applier(
            self.fleet, self._load, self.state.own, self.report, self.links, self._keep_enabling
        )

    # -- planning

    def parse(self, text: str) -> Assignment:
        """Read `KEY[@NODE]=VALUE` for this stack; raises UsageError."""
        assignment = parse_assignment(text, self.fleet.roster)
        knob, value = assignment.names[0].knob, assignment.value
        if not self.fleet.carries_out(knob):
            raise UsageError(
                f"{knob.key} cannot be changed on the servers of '{self.fleet.outside.provider.name}'"
            )
        for name in assignment.names:
            member = self.fleet.members.get(self.fleet.named(name.node))
            if member is not None and member.capabilities is not None:
                member.capabilities.knob(name.key)
        if knob.key == keys.PARTITION and "@" not in text and value == NO_PARTITION:
            # Every link heals, those between two replicas as well.
            pairs = (KnobName(keys.PARTITION, pair) for pair in self.fleet.roster.pairs)
            assignment = replace(assignment, names=(*assignment.names, *pairs))
        if isinstance(value, str) and knob.is_file(value):
            return replace(assignment, value=self.fleet.outside.workload_file(value)[0])
        return assignment

    def preview(self, desired: Desired) -> Preview:
        """What these would run and warn of; a refusal becomes the warning."""
        try:
            plan = make_plan(self._observed(), self._without_idle_pairs(desired))
        except ReplexplorerError as error:
            return Preview((), (), (str(error),))
        source = self.fleet.source_name
        return Preview(
            written((planned.step for planned in plan.steps), source),
            written(plan.rollback(), source),
            plan.warnings,
        )

    def _observed(self) -> Observed:
        """What the planner has to know, doubts included."""
        return replace(
            self.state.observed(),
            doubtful=frozenset(doubts(self.state)),
            switched_off=switched_off(self.state),
        )

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
        `apply.RolledBack`; then nothing is requested again. A cancel
        leaves everything as it was, or comes too late: then the answer still is returned, and the
        cancel is delivered at the caller's next await.
        """
        async with self.turns.change(anyway=anyway or dry_run):
            await self.state.refresh(links=[name.node for name in desired if is_pair(name.node)])
            observed = self._observed()
            desired = self._without_idle_pairs(desired)
            plan = self._told(make_plan(observed, desired), desired)
            if dry_run:
                return SetResult(
                    changed=(
                        *(
                            Changed(name, *plan.changes[name], None, 0.0, statements_of(planned.step))
                            for planned in plan.steps
                            for name in planned.step.names
                        ),
                        *self._stored(plan, desired),
                    ),
                    warnings=plan.warnings,
                    unchanged=plan.unchanged,
                    dry_run=True,
                )
            before = {name: self.state.requested_value(name) for name in desired}
            if plan.steps:
                begun()
            try:
                applied = await self._applier.run(plan, lambda applied: self._seal(desired, plan, applied))
            except RolledBack as error:
                if not error.complete:
                    self.drift.lose(desired)
                raise
            self.drift.turned(desired)
            again = [name for name in desired if name in observed.doubtful]
            lines: tuple[str, ...] = ()
            if again:  # was set before, and carried out again
                await asyncio.gather(*(self.state.look(node) for node in self.fleet.members))
                await self.state.look_twice_if_waiting()
                lines = unmet(self.state, again)
            return SetResult(
                changed=(*applied.changed, *self._stored(plan, desired)),
                warnings=(*plan.warnings, *applied.warnings),
                unchanged=plan.unchanged,
                before=before,
                unmet=lines,
            )

    async def turn(
        self, desired: Desired, prefix: str = "", *, anyway: bool, is_part: bool = False
    ) -> SetResult:
        """As `set`, with an epoch and a mark of its own, which begin with `prefix`; none where nothing is to
        be turned, nor where it `is_part` of a change that has them."""
        title = prefix + ", ".join(f"{name} {value}" for name, value in desired.items())
        mark: int | None = None
        event_log = self.event_log

        def begun() -> None:
            nonlocal mark
            mark = None if is_part else event_log.begin_change(title, desired)

        try:
            result = await self.set(desired, anyway=anyway, begun=begun)
        except (ReplexplorerError, asyncio.CancelledError) as error:
            is_cancelled = isinstance(error, asyncio.CancelledError)
            if mark is not None:
                what = "was cancelled and rolled back" if is_cancelled else f"failed: {error}"
                event_log.change_failed(mark, f"{title} {what}")
            elif not is_cancelled:
                event_log.tell(Severity.BAD, f"{title} refused: {error}")
            raise
        told = prefix + (_told(result.changed) or "nothing to change")
        if mark is not None:
            event_log.change_effective(mark, prefix + (_changes(result.changed) or title), told)
        elif result.changed or not prefix:
            event_log.tell(Severity.INFO, told)
        for warning in (*result.warnings, *result.unmet):
            event_log.tell(Severity.WARN, warning)
        return result

    async def turn_each(
        self, desired: Desired, prefix: str, *, is_part: bool = False
    ) -> tuple[list[SetResult], Mapping[KnobName, ReplexplorerError]]:
        """All of it at once, or else one by one as much as can be, returns what was done
        and what cannot be, each with why."""
        done: list[SetResult] = []
        left: dict[KnobName, ReplexplorerError] = {}
        for part in (desired, *({name: value} for name, value in desired.items())):
            try:
                if part:
                    done.append(await self.turn(part, prefix, anyway=True, is_part=is_part))
            except ReplexplorerError as error:
                left |= dict.fromkeys(part, error)
            else:
                left = {name: why for name, why in left.items() if name not in part}
                if part is desired:
                    break
        return done, left

    def _without_idle_pairs(self, desired: Desired) -> Desired:
        """What is desired, less the defaults of links between two replicas of which nothing is asked and
        nothing is in force: they are as desired, and not looked after."""
        busy = self.state.pairs_of_interest()
        return {
            name: value
            for name, value in desired.items()
            if not is_pair(name.node) or name.node in busy or value != name.knob.default
        }

    async def _seal(self, desired: Desired, plan: Plan, applied: Applied) -> None:
        """Write the request down, then look at what has come of it."""
        known, enabled = self.state.requested.values, applied.yes_tx_at_enabling
        if enabled is not None or any(known.get(name) != desired[name] for name in desired):
            await self._write(desired, enabled)
        registered = {step.node for planned in plan.steps if isinstance(step := planned.step, IoRestart)}
        await asyncio.gather(
            self.state.look_at_links(),
            self.state.look_at_disks(),
            *(self.state.look(node) for node in registered),
        )
        if applied.unacknowledged_s is not None:
            await self.state.look_at_source()
            await self.state.look_twice_if_waiting()
            applied.warnings.append(
                f"semi_sync is on and {self.state.protection().state}: a commit was not acknowledged within"
                f" {applied.unacknowledged_s:g} s; commits wait until a replica answers or the timeout passes"
            )

    async def _write(self, desired: Desired, yes_tx_at_enabling: int | None = None) -> None:
        writer, at_s, roster = self.turns.actor.writer, self.clock.wall(), self.fleet.roster

        def asking(now: Requested) -> Requested:
            return now.asking(desired, roster, writer, at_s).enabling(yes_tx_at_enabling, at_s)

        await self.state.write(asking)

    async def request(self, desired: Desired) -> None:
        """Record a request without turning anything: the app that finds its server again applies it."""
        async with self.turns.alone:
            await self._write(desired)
            self.drift.noted |= desired

    async def confirm(self) -> None:
        """Write down that what is requested is in force now, after restarts; it is not reported."""
        with contextlib.suppress(ReplexplorerError):
            async with self.turns.alone:
                await self._write({})

    async def _keep_enabling(self, undone: Applied) -> None:
        """A rollback enabled semi-sync again: only acknowledgements from here on are evidence."""
        if undone.yes_tx_at_enabling is not None:
            with contextlib.suppress(ReplexplorerError):
                await self._write({}, undone.yes_tx_at_enabling)

    def _told(self, plan: Plan, desired: Desired) -> Plan:
        """The plan whose stored knobs are only those that are to be another value than was requested, or than
        the load of another app has."""
        running = self.state.running_load()

        def is_so(name: KnobName) -> bool:
            now = (self.state.requested_value(name), running.get(name.key, desired[name]))
            return all(same_value(name.knob, value, desired[name]) for value in now)

        same = tuple(filter(is_so, plan.stored))
        stored = tuple(name for name in plan.stored if name not in same)
        return replace(plan, stored=stored, unchanged=(*plan.unchanged, *same))

    def _stored(self, plan: Plan, desired: Desired) -> Iterator[Changed]:
        """Knobs of the load that only the document takes, for no load of this app runs."""
        for name in plan.stored:
            yield Changed(name, None, desired[name], None, 0.0, (), self.state.no_effect())

    async def forget_nodes(self, gone: Collection[str]) -> None:
        """Drop what was asked of nodes that the stack has no longer."""
        async with self.turns.alone:
            await self.state.write(lambda now: now.without_nodes(gone))

    def reset_values(self) -> dict[KnobName, Value]:
        """Every knob's default, for those that the servers have: of their flavour, where that has its own."""
        return {name: self.state.default_value(name) for name in self.state.names()}


def _changes(changed: Sequence[Changed]) -> str:
    """What changed: `rtt 20 -> 85 ms, clients 8 -> 32`."""
    return ", ".join(format_change(change.name, change.before, change.requested) for change in changed)


def _told(changed: Sequence[Changed]) -> str:
    """The log's line of a change: its statements where each knob has some, and they are few."""
    statements = dict.fromkeys(statement for change in changed for statement in change.statements)
    is_said = len(statements) <= 2 and all(change.statements for change in changed)
    return "; ".join(statements) if is_said else _changes(changed)


# -- values that are set and do nothing: what is asked for again is looked at by its effect


def doubts(state: StackState) -> dict[KnobName, str]:
    """Knobs whose value alone does not say that they are in force, as last looked at: each with what says
    that it is not, empty where that follows from another request (a cut link, more replicas required than
    there are), or is only possible."""
    found = {name: "" for name in state.names() if _was_set_by_hand(state, name)}
    protection, off = state.protection(), sorted(switched_off(state))
    if protection.state not in (ProtectionState.OFF, ProtectionState.DOWN, ProtectionState.PROTECTED):
        acking, required = protection.replicas_acking, protection.replicas_required
        open_links = [name for name in state.fleet.replica_names if not state.asked_of_link(name).is_silent]
        count = "" if acking is None or required is None else f": {acking} of {required} replicas acknowledge"
        told = f"semi_sync is on and {protection.state}{count}"
        told += "".join(f"; {name} is not to register" for name in off)
        found[SEMI_SYNC] = "" if len(open_links) < (required or 1) else told
    elif off and state.effective_value(SEMI_SYNC) == "on":
        found[SEMI_SYNC] = ""
    for link in (*state.links.values(), *state.pairs.values()):
        if falls_short(link.settings, link.rtt_measured_ms, link.rtt_base_ms):
            told = f"the link {'' if is_pair(link.replica) else 'to '}{link.replica}: {link.fault}"
            found |= {KnobName(key, link.replica): told for key in DELAYS}
    return found


def switched_off(state: StackState) -> frozenset[str]:
    """Replicas that will not register for semi-sync when they next connect."""
    return frozenset(name for name, sample in state.samples.items() if sample.replica_switch is False)


def unmet(state: StackState, asked: Collection[KnobName]) -> tuple[str, ...]:
    """What was asked for and has no effect, each in a line, as last looked at."""
    return tuple(dict.fromkeys(told for name, told in doubts(state).items() if told and name in asked))


def _was_set_by_hand(state: StackState, name: KnobName) -> bool:
    """A variable that is read when an applier or a session begins, set by somebody else: what runs may
    still have the value before."""
    if name.knob.backing is not Backing.SERVER or name.knob.restart is Restart.NONE:
        return False
    effective = state.effective_value(name)
    return effective is not None and not same_value(name.knob, effective, state.requested_value(name))
