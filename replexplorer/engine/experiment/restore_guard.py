"""What an experiment takes - knobs, nodes, the load, the stack itself - and how all of it is restored.

Law: whatever ends an experiment - its last step, a failure, a cancel, a dead server - each thing is returned,
whatever became of the others. What cannot be restored now is requested, so that whoever finds its server
running again restores it. After a kill the next start does it: the stack keeps what is owed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Final

from replexplorer.core.errors import ReplexplorerError, StackUnavailable, UsageError
from replexplorer.core.event import Severity
from replexplorer.core.experiment.snapshot import Baseline, PendingRestore, Snapshot
from replexplorer.core.fault import Fault, clears
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import Desired, KnobName, Value
from replexplorer.core.link import kept_all, moved_all, seen_from
from replexplorer.core.records import dataclass, field, replace
from replexplorer.core.server.comeback import Comeback
from replexplorer.core.server.gtid import gtid_count, subtract_gtids
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.topology import in_order
from replexplorer.core.wire import Lease
from replexplorer.engine.experiment.stack_api import StackApi
from replexplorer.engine.outcome import ExperimentUnderWay
from replexplorer.engine.tasks import to_the_end
from replexplorer.ports import LoadSettings, Reporter

CLIENTS: Final = KnobName(keys.CLIENTS, "load")
_LOOK_EVERY_S: Final = 0.1
_APPLIED_WITHIN_S: Final = 180.0
"""A replica applies about as fast as a load commits, and more slowly what one client has committed alone."""
_NEARER_WITHIN_S: Final = 2.0


@dataclass(slots=True)
class RestoreGuard:
    """What an experiment under way has taken."""

    stack: StackApi
    kind: str
    """`lab`, `sweep`, `drill`."""
    name: str
    load: LoadSettings | None
    """What our load did before; None: none ran."""
    replicas: int
    """How many there were before."""
    source: str
    """The node that was the source before."""
    report: Reporter
    """Hears what is done to the stack."""
    baseline: Baseline = field(default_factory=Baseline)
    repaired: list[str] = field(default_factory=list)
    """Members of a group that were let in only with a copy of its data, each in a line with why."""
    comebacks: list[Comeback] = field(default_factory=list)
    """Of servers that its faults had ended."""
    restored: list[str] = field(default_factory=list)
    """What was returned, each in a line; known once all was returned."""
    unrestored: tuple[str, ...] = ()
    """What could not be restored yet, each in a line; known once all was returned."""
    lost: Desired = field(default_factory=dict)
    """What a restart took, to be set with the next turn."""
    outcome: str = "is done"
    """How the experiment ended, as the log says it."""
    _kept: dict[KnobName, Value] = field(default_factory=dict)
    """What was requested before, named as while `source` was the source."""
    _turned: dict[KnobName, Value] = field(default_factory=dict)
    """What was asked of knobs, named in the same way."""
    _faults: dict[int, Fault] = field(default_factory=dict)
    """By number, those that were injected and not cleared."""
    _differing: set[str] = field(default_factory=set)
    """Nodes whose rows may not be the source's, and will not be by themselves."""
    _attached: bool = False

    @property
    def has_turned(self) -> bool:
        """Whether there are knobs to be restored."""
        return bool(self._kept)

    # -- taking

    def keep(self, names: Iterable[KnobName]) -> Desired:
        """Note what is requested of these and of the clients, before they are turned; answers all that was
        noted so far."""
        seen = self.stack.seen
        now = {name: seen.requested(name) for name in (*names, CLIENTS)}
        self._kept = {**self._said(now, seen.source, self.source), **self._kept}
        return self._kept

    def keep_of(self, owed: PendingRestore) -> None:
        """Keep what a killed experiment kept, less what somebody has asked since."""
        seen = self.stack.seen

        def requested(name: KnobName) -> Value:
            return seen.requested(next(iter(self._of_now({name: name.knob.default}))))

        self._kept = owed.still(requested, replace(seen.roster, source=owed.source))

    async def turn(self, desired: Desired) -> None:
        """Turn knobs; raises what `Controls.set` does."""
        self.keep(desired)
        desired = {**self.lost, **desired}
        await self._record(desired)
        await self.stack.controls.set(desired)
        self._turned |= self._said(desired, self.stack.seen.source, self.source)
        self.lost = {}
        self.baseline.turned(desired, self.stack.seen)

    async def attach(self, replicas: int | None) -> None:
        """Let this many replicas receive events, all for None."""
        self._attached = self._attached or replicas is not None
        await self.stack.attach(replicas)

    async def enough_replicas(self, number: int) -> None:
        """Bring up what is missing of this many replicas; they are removed again."""
        if len(self.stack.seen.replicas) < number:
            await self.stack.scale(number, self.report)

    async def inject(self, text: str) -> tuple[Fault, ...]:
        """Inject a fault; it is cleared in the end. Raises what `StackApi.inject` does."""
        done = await self.stack.inject(text)
        self._faults.update({fault.number: fault for fault in done})
        return done

    async def clear(self, text: str | None = None) -> tuple[Fault, ...]:
        """Mend what `text` means of the faults that were injected here, all for None; raises what
        `StackApi.clear` does."""
        roster, alike = self.stack.seen.roster, self.stack.seen.system.starts_together
        newest = sorted(self._faults.values(), key=lambda fault: -fault.number)
        over = tuple(fault for fault in newest if clears(fault, text, roster))
        kinds = [fault.kind for fault in over]
        for fault in over:
            if not alike or kinds.count(fault.kind) == 1:
                await self._mend(fault)
            elif fault.number in self._faults:  # one server alone would wait for the others
                await self._clear(fault.kind)
                for each in over:
                    if each.kind == fault.kind:
                        self._faults.pop(each.number, None)
        return over

    async def _mend(self, fault: Fault) -> None:
        """Clear one; nothing if it is cleared already. A member that cannot rejoin after it gets
        a copy of the group's data first."""
        with suppress(UsageError):
            try:
                await self._clear(f"{fault.kind}@{fault.node}")
            except StackUnavailable as error:
                if not await self._is_left_out(fault.node):
                    raise
                await self._copy_to(fault.node, error.message)
                await self._clear(f"{fault.kind}@{fault.node}")
        self._faults.pop(fault.number, None)

    async def _clear(self, text: str) -> None:
        found = [each.comeback for each in await self.stack.clear(text) if each.comeback is not None]
        self.comebacks += found
        await self.rebuild(node for comeback in found for node in comeback.differs)

    async def _is_left_out(self, node: str) -> bool:
        """Whether a node answers and is no member of a group that others are members of, and that gives a
        copy of its data only to who asks."""
        seen = await self.stack.look()
        ready = {each.name: each.member is not None and each.member.is_ready for each in seen.nodes}
        left = seen.system.elects and node != seen.source and node not in seen.nodes_down
        return left and ready.get(seen.source, False) and not ready.get(node, True)

    async def _copy_to(self, node: str, why: str) -> None:
        """Let a node be a member by a copy of the group's data."""
        self.report(f"copying the group's data to {node}")
        self.stack.log.tell(Severity.WARN, f"{why}: it gets a copy of the group's data")
        await self.stack.rejoin(node, rebuild=True)
        self.repaired.append(f"{why}: a copy of the group's data brought it back")
        self._differing.discard(node)
        await self._record()

    async def rebuild(self, nodes: Iterable[str]) -> None:
        """These may have rows that the source lost or is about to lose; they get a copy of its data in the
        end, also after a kill. Nothing where members get what they lack by themselves: each numbers the same
        transactions in its own way there, and none is copied on demand."""
        if self.stack.seen.system.each_writes:
            return
        if added := set(nodes) - self._differing:
            self._differing |= added
            await self._record()

    async def _record(self, turning: Desired | None = None) -> None:
        """Let the stack keep all that was taken so far and goes with no lease, and what is turned now."""
        now = self.stack.seen.roster
        before = replace(now, source=self.source)
        await self.stack.record(
            PendingRestore(
                self.kind,
                self.name,
                self.source,
                before=kept_all(self._kept, before),
                turned=kept_all(self._turned, before),
                turning=kept_all(self._said(turning or {}, now.source, self.source), before),
                differing=tuple(in_order(self._differing)),
            )
        )

    # -- looking

    async def look(self, *, probe: bool = False) -> Snapshot:
        """Look at everything, and expect it so from here on."""
        seen = await self.stack.look(probe=probe)
        self.baseline.begin(seen)
        return seen

    async def look_alive(self, hint: str = "run `replexplorer up` to bring it back") -> Snapshot:
        """Look at everything; raise StackUnavailable when a node is down."""
        seen = await self.stack.look()
        if seen.nodes_down:
            raise StackUnavailable(f"{' and '.join(seen.nodes_down)} went down in the {self.kind}", hint)
        return seen

    async def until_state(self, wanted: ProtectionState | None, *, within_s: float) -> None:
        """Wait for a protection state until the deadline; None accepts any."""
        clock, seen = self.stack.clock, self.stack.seen
        ends_s = clock.monotonic() + within_s
        while wanted not in (None, seen.protection.state) and clock.monotonic() < ends_s:
            await clock.sleep(_LOOK_EVERY_S)
            seen = await self.stack.look()

    async def until_applied(self, tell: Callable[[str], None]) -> tuple[str, ...]:
        """Look until each replica that receives has applied all that the source has, or the time is over;
        answers those that have not. One whose transactions are unknown is not waited for; `tell` hears how
        far the others are."""
        clock = self.stack.clock
        began_s = clock.monotonic()
        first: Mapping[str, int] = {}
        while behind := _behind(seen := await self.stack.look(with_gtids=True)):
            passed_s = clock.monotonic() - began_s
            if passed_s >= _APPLIED_WITHIN_S:
                break
            first = first or behind
            tell(_waiting_words(first, behind, passed_s, seen.driver))
            await clock.sleep(_LOOK_EVERY_S)
        return tuple(behind)

    def disturbances(self, seen: Snapshot) -> tuple[str, ...]:
        """What somebody else did to the stack since the last `look`, in words."""
        return (
            *self.baseline.changed(seen),
            *(f"{name} restarted" for name in self.baseline.restarted(seen)),
        )

    # -- returning

    async def return_all(self) -> None:
        """Return all that was taken, each whatever becomes of the others."""
        self.report("restoring")
        unrestored: list[str] = []
        for work in (
            self._end_load,
            self._mend_all,
            self._source_back,
            self._rebuild,
            self._mend_left,
            self._turn_back,
            self._attach_all,
            self._remove_surplus,
            self._follow,
        ):
            try:
                unrestored += await work() or ()
            except ReplexplorerError as error:
                unrestored.append(str(error))
        self.unrestored = tuple(unrestored)
        with suppress(ReplexplorerError):  # where nobody answers, the next start finds nothing left to do
            await self._record_rest()

    async def _record_rest(self) -> None:
        """Copies that a node could not get yet stay owed; all else was returned, or is requested."""
        if self._differing:
            left = tuple(in_order(self._differing))
            await self.stack.record(
                PendingRestore(self.kind, self.name, self.stack.seen.source, differing=left)
            )
        else:
            await self.stack.record(None)

    async def _end_load(self) -> None:
        if self.load is None:
            await self.stack.load.stop()

    async def _mend_all(self) -> None:
        """Clear what can be cleared while nodes are away."""
        await self._mend_left()

    async def _mend_left(self) -> list[str]:
        """Clear every fault that is left, each whatever became of those before."""
        left = []
        for fault in sorted(self._faults.values(), key=lambda fault: -fault.number):
            try:
                await self._mend(fault)
            except ReplexplorerError as error:
                left.append(f"fault {fault} is still in force: {error}")
            else:
                self.restored.append(f"fault {fault} undone")
        return left

    async def _source_back(self) -> None:
        """The node that was the source before is it again, with what the source of now has."""
        stack = self.stack
        with suppress(ReplexplorerError):  # then what was seen before has to do
            await stack.look()
        system = stack.seen.system
        if stack.seen.source == self.source or system.each_writes:
            return  # where each member takes writes none has to be made the source
        self.report(f"making {self.source} the source again")
        # A member may take itself for whole though its engine lost rows: it gets a copy before it is elected.
        lacks = system.is_group and self.source in self._differing
        await stack.rejoin(self.source, rebuild=lacks)
        if lacks:
            self._differing.discard(self.source)
        await stack.roles.switchover(self.source, anyway=True)
        self.restored.append(f"{self.source} is the source again")

    async def _rebuild(self) -> list[str]:
        """Make the rows of all nodes equal again: the source's, whichever node that is by now."""
        left, source = [], self.stack.seen.source
        if source in self._differing and self.stack.seen.system.elects:
            left.append(
                f"{source} may lack rows that its binlog has, and takes the writes: no member copies it"
            )
        self._differing.discard(source)
        for node in in_order(self._differing):
            self.report(f"copying the source to {node}")
            try:
                await self.stack.rejoin(node, rebuild=True)
            except ReplexplorerError as error:
                left.append(
                    f"{node} may have rows that the source lacks ({error}): `replexplorer up` tries again"
                )
            else:
                self._differing.discard(node)
                self.restored.append(f"{node} has a copy of {source}")
        return left

    async def _turn_back(self) -> list[str]:
        """Turn all knobs back at once, or as many as can be. The rest is only requested; answers that, each
        in a line."""
        left: list[str] = []
        if not (values := self._of_now(self._kept)):
            return left
        try:
            await self.stack.controls.set({**self.lost, **values})
            self.restored.append(f"{', '.join(map(str, self._kept))} restored")
            return left
        except ReplexplorerError:
            pass  # each by itself
        for name, value in values.items():
            try:
                await self.stack.controls.set({name: value})
            except ReplexplorerError as error:
                left.append(await self._request(name, value, error))
        return left

    async def _request(self, name: KnobName, value: Value, why: ReplexplorerError) -> str:
        """Write down what cannot be turned now; answers what becomes of it."""
        try:
            await self.stack.controls.request({name: value})
        except ReplexplorerError as error:
            return f"{name} = {value} could not be restored: {error}"
        return f"{name} = {value} is requested and comes with its server: {why}"

    def _of_now(self, values: Desired) -> dict[KnobName, Value]:
        """The same, named as it is where the first source could not be made the source again."""
        return self._said(values, self.source, self.stack.seen.source)

    def _said(self, values: Desired, before: str, now: str) -> dict[KnobName, Value]:
        """What is named as while `before` was the source, named as it is with `now`. In a group all stays
        with its nodes and links, else what is asked of a role goes with it."""
        seen = self.stack.seen
        say = seen_from if seen.system.is_group else moved_all
        return say(values, replace(seen.roster, source=before), replace(seen.roster, source=now))

    async def _attach_all(self) -> None:
        if self._attached:
            await self.stack.attach(None)

    async def _remove_surplus(self) -> None:
        if len(self.stack.seen.replicas) > self.replicas:
            await self.stack.scale(self.replicas, self.report)

    async def _follow(self) -> None:
        """A load that ran before does again what it did."""
        if self.load is not None:
            if self.stack.load.settings is None:  # it was ended, to compare the rows
                await self.stack.load.drive()
            await self.stack.load.follow(table_size=self.load.table_size)


def _behind(seen: Snapshot) -> Mapping[str, int]:
    """Nodes that receive and apply what the source commits, with how many transactions of it they have yet to
    apply; those that have applied all are left out."""
    has = next((node.gtid_executed for node in seen.nodes if node.name == seen.source), None)
    counts = {node.name: _to_apply(node, has) for node in seen.nodes if node.name != seen.source}
    return {name: count for name, count in counts.items() if count}


def _to_apply(node: NodeView, has: str | None) -> int:
    """How many transactions of the source's a node has yet to apply. A member says what waits at it: members
    of a Galera cluster number the same transactions each in its own way."""
    if node.member is not None:
        return (node.member.to_apply or 0) if node.member.is_ready else 0
    if not has or node.gtid_executed is None or (node.io_thread, node.sql_thread) != ("on", "on"):
        return 0
    return gtid_count(subtract_gtids(has, node.gtid_executed))


def _waiting_words(
    first: Mapping[str, int], left: Mapping[str, int], passed_s: float, driver: Lease | None
) -> str:
    """`waiting for db2 to apply 1,204 transactions, about 12 s, for 150 s at most`; of one that does not come
    nearer what keeps it busy."""
    name = max(left, key=lambda each: left[each])
    count, done = left[name], first.get(name, 0) - left[name]
    what = f"waiting for {name} to apply {count:,} transaction{'' if count == 1 else 's'}"
    if done > 0:
        what += f", about {count * passed_s / done:.0f} s"
    elif passed_s >= _NEARER_WITHIN_S:
        what += ", it is not catching up" + ("" if driver is None else f": {driver} drives a load too")
    return f"{what}, for {max(0.0, _APPLIED_WITHIN_S - passed_s):.0f} s at most"


async def finish_killed(stack: StackApi) -> tuple[str, ...]:
    """Restore what a killed experiment changed; returns what was done, in words, nothing where there is none
    or it still runs. What somebody has asked since stays; what cannot be done now is left for the next time.
    """
    if (pending := await stack.pending()) is None:
        return ()
    owed, faults = pending
    title = f"the {owed.kind} {owed.name}"
    try:
        async with stack.reserved("rollback", f"of {title}"):
            stack.log.tell(Severity.INFO, f"restoring what {title} changed before it was killed")
            seen = await stack.look()
            guard = RestoreGuard(
                stack,
                owed.kind,
                owed.name,
                stack.load.settings,
                len(seen.replicas),
                owed.source,
                lambda text, _=None: stack.log.tell(Severity.INFO, text),
                _faults={fault.number: fault for fault in faults},
                _differing=set(seen.roster.names) & set(owed.differing),
                _attached=True,
            )
            guard.keep_of(owed)
            await guard.return_all()
    except ExperimentUnderWay:
        return ()
    told = (f"{title} was interrupted and is rolled back", *guard.restored, *guard.unrestored)
    stack.log.tell(Severity.WARN, "; ".join(told))
    return told


@asynccontextmanager
async def restore_guard(
    stack: StackApi,
    kind: str,
    name: str,
    *,
    check: Callable[[Snapshot], None],
    report: Reporter = lambda *_: None,
) -> AsyncIterator[RestoreGuard]:
    """The stack, for an experiment alone: between two marks, with our load, which has no clients yet.

    What a killed experiment left is restored first. Raises UsageError and StackUnavailable while nothing is
    changed: what `check` says of the settings, that another experiment runs, or that somebody else drives the
    load.
    """
    await finish_killed(stack)
    async with stack.reserved(kind, name):
        seen = await stack.look()
        check(seen)
        guard = RestoreGuard(stack, kind, name, stack.load.settings, len(seen.replicas), seen.source, report)
        try:
            await stack.load.drive()  # without clients it waits for nothing, whatever the state
        except BaseException:
            if guard.load is not None:
                with suppress(ReplexplorerError):
                    await to_the_end(stack.load.follow())
            raise
        number = stack.log.begin_change(f"{kind} {name}")
        stack.log.tell(Severity.MARK, f"a {kind} begins: {name}", mark=number)
        try:
            yield guard
        except asyncio.CancelledError:
            guard.outcome = "was stopped"
            raise
        except BaseException as error:
            guard.outcome = f"ended: {error}"
            raise
        finally:
            await to_the_end(_return(guard))


async def _return(guard: RestoreGuard) -> None:
    """Return everything, between the experiment's last figure and the mark that ends it."""
    log, title = guard.stack.log, f"after the {guard.kind}"
    log.begin_restoring()
    try:
        await guard.return_all()
    finally:
        log.restored()
        rest = (
            f"not restored: {'; '.join(guard.unrestored)}" if guard.unrestored else "the knobs are restored"
        )
        log.change_effective(log.begin_change(title), title, f"the {guard.kind} {guard.outcome}; {rest}")
