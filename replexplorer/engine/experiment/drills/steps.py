"""The steps of a drill, carried out one by one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.experiment.drill import CAUGHT_UP, WRITING, Doing, DrillStep
from replexplorer.core.fault import Fault, parse_fault
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import KnobName, Value, desired_of
from replexplorer.core.role_change import RoleChange
from replexplorer.core.server.durability import waits_for_both
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.topology import SOURCE, Roster
from replexplorer.engine.experiment.drills.course import DrillCourse
from replexplorer.engine.experiment.foreground import caught_up
from replexplorer.engine.experiment.loan import Loan
from replexplorer.ports import Report

_LOOK_EVERY_S: Final = 0.1
_LEAST_S: Final = 0.001
"""Less than this is over."""
_DURABILITY: Final = (keys.SYNC_BINLOG, keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT)
_SILENCING: Final = ("kill", "stop", "pause", "power_cut")
"""Faults after which the source's clients have no OK any more."""


@dataclass(slots=True)
class StepWork:
    """Does what steps say; what it takes is the drill's loan."""

    loan: Loan
    course: DrillCourse
    quick: bool
    tell: Report
    changes: list[RoleChange] = field(default_factory=list)
    """Of roles, in order."""
    _failing: bool = False
    """The last step injected something: what follows at once is one failure with it."""

    async def do(self, step: DrillStep) -> None:
        """Carry one out; raises what the rig does, and StackUnavailable for what one waits for in vain."""
        self.course.tell(step.text)
        carries_out: dict[Doing, Callable[[DrillStep], Awaitable[None]]] = {
            Doing.SET: self._set,
            Doing.LOAD: self._load,
            Doing.WAIT: self._wait,
            Doing.INJECT: self._inject,
            Doing.CLEAR: self._clear,
            Doing.UNTIL: self._until,
            Doing.FAILOVER: self._change_roles,
            Doing.SWITCHOVER: self._change_roles,
            Doing.REJOIN: self._change_roles,
        }
        if step.doing is not Doing.INJECT:
            self._failing = False
        await carries_out[step.doing](step)
        self.course.check()

    def node(self, text: str) -> str:
        """The node of a name or an alias; the source for an empty text."""
        return self._roster.find(text) or self.loan.rig.seen.source

    @property
    def _roster(self) -> Roster:
        return self.loan.rig.seen.roster

    async def _set(self, step: DrillStep) -> None:
        await self.loan.turn(desired_of(map(self.loan.rig.parse, step.settings)))

    async def _load(self, step: DrillStep) -> None:
        await self.loan.rig.load.follow(clients=int(step.what))

    async def _wait(self, step: DrillStep) -> None:
        await self._pass_time(0.0 if step.lasts is None else step.lasts.seconds(quick=self.quick))

    async def _pass_time(self, seconds: float) -> None:
        clock = self.loan.rig.clock
        began_s = clock.monotonic()
        while (left_s := began_s + seconds - clock.monotonic()) > _LEAST_S:
            self.tell("", 1 - left_s / seconds)
            await clock.sleep(min(_LOOK_EVERY_S, left_s))
            self.course.check()

    async def _inject(self, step: DrillStep) -> None:
        course, rig = self.course, self.loan.rig
        if not course.windows:
            await course.count_cost()
        if course.failed_s is None or self._failing:
            course.read_meter()
        from_s = course.now_s()
        durable = tuple(rig.seen.effective(KnobName(key, SOURCE)) for key in _DURABILITY)
        request = parse_fault(step.what, self._roster)
        system, loses = rig.seen.system, _loses_rows(request.kind.key, *durable)
        if not system.is_group and rig.seen.source in request.nodes and loses:
            # Its binlog or its rows are short: a replica has, or will get, what it has not.
            await self.loan.rebuild(rig.seen.replicas)
        elif system.elects and rig.seen.source in request.nodes and loses:
            # By its binlog it may have what its engine lost, and then asks the others for none of that.
            await self.loan.rebuild([rig.seen.source])
        done = await self.loan.inject(step.what)
        course.read_meter()
        course.opened(done, from_s)
        silences = done[-1].kind in _SILENCING and done[-1].node == rig.seen.source
        if course.failed_s is None or self._failing or (silences and not course.silences):
            course.failed_s, course.silences = course.now_s(), silences
        self._failing = True
        if step.lasts is not None:
            await self._pass_time(step.lasts.seconds(quick=self.quick))
            self._failing = False
            await self._mend(lambda: self._those(done))

    async def _those(self, faults: Sequence[Fault]) -> Sequence[Fault]:
        return [over for fault in faults for over in await self.loan.clear(f"{fault.kind}@{fault.node}")]

    async def _clear(self, step: DrillStep) -> None:
        await self._mend(lambda: self.loan.clear(step.what or None))

    async def _mend(self, mending: Callable[[], Awaitable[Sequence[Fault]]]) -> None:
        course = self.course
        course.mended_s = course.now_s()
        over = await mending()
        course.closed(over, course.now_s())

    async def _until(self, step: DrillStep) -> None:
        within_s = 0.0 if step.lasts is None else step.lasts.seconds(quick=self.quick)
        rig = self.loan.rig
        if step.what == WRITING:
            from_s = rig.clock.monotonic()
            while not self.course.writes_since(from_s):
                if rig.clock.monotonic() - from_s > within_s:
                    raise StackUnavailable(
                        f"no commit was acknowledged for {within_s:g} s", "`replexplorer status` shows why"
                    )
                await rig.clock.sleep(_LOOK_EVERY_S)
                self.course.check()
        elif step.what == CAUGHT_UP:
            if not await caught_up(rig, within_s):
                raise StackUnavailable(
                    f"a replica has not caught up within {within_s:g} s",
                    "`replexplorer status` shows its lag",
                )
        else:
            await reach(self.loan, step.what, within_s)

    async def _change_roles(self, step: DrillStep) -> None:
        rig, course = self.loan.rig, self.course
        before = rig.seen.source
        node = self.node(step.what) if step.what else None
        if step.doing is Doing.FAILOVER:
            since_s = None if course.failed_s is None else course.began_s + course.failed_s
            change = await rig.failover(node, since_s=since_s)
        elif step.doing is Doing.SWITCHOVER:
            change = await rig.switchover(node)
        else:
            change = await rig.rejoin(self.node(step.what))
        self.changes.append(change)
        for each in change.steps:
            course.tell(f"{each.node}: {each.name}, {each.took_ms:.0f} ms")
        if rig.seen.source != before:
            course.left_behind(before)


def _loses_rows(kind: str, sync_binlog: Value | None, flush: Value | None) -> bool:
    """Whether a source that comes back after this may lack what its replicas have."""
    if kind == "power_cut":
        return not waits_for_both(sync_binlog, flush)
    return kind == "kill" and flush == 0


async def reach(loan: Loan, state: str, within_s: float) -> None:
    """Wait for a protection state; raises StackUnavailable naming the one that is there instead."""
    await loan.until_state(ProtectionState(state), within_s=within_s)
    found = loan.rig.seen.protection.state
    if found.value != state:
        raise StackUnavailable(
            f"protection is {found} and not {state} after {within_s:g} s", "`replexplorer status` shows why"
        )
