"""The knobs of one stack: requested and effective, planned, turned and written down."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.knobs import (
    BY_KEY,
    CATALOGUE,
    PRIMARY,
    Assignment,
    Backing,
    Desired,
    KnobName,
    Value,
    defaults,
    desired_of,
    expand,
    parse_assignment,
    same_value,
)
from replexplorer.core.plan import Observed, Plan, make_plan, statements_of, written
from replexplorer.core.tick import KnobView, LinkView, NodeView, Protection
from replexplorer.engine.apply import Applied, Applier, LoadControl
from replexplorer.engine.facade import Changed, Preview, SetResult
from replexplorer.engine.fleet import Fleet
from replexplorer.engine.observer import (
    NodeSample,
    judge_protection,
    sample_link,
    sample_node,
    waits_too_long,
)
from replexplorer.engine.requested import Requested, read_requested, write_requested

_NO_LOAD = "no load runs"
_SECOND_LOOK_S = 0.3


class Controls:
    """What is known of a stack's knobs, and the one way to turn them."""

    def __init__(
        self, fleet: Fleet, load: LoadControl, *, writer: str, report: Callable[[str], None] = lambda _: None
    ) -> None:
        self.fleet = fleet
        self.load = load
        self.writer = writer
        self.requested = Requested()
        self.samples: dict[str, NodeSample] = {}
        """The last sample of each node."""
        self.samples_before: dict[str, NodeSample] = {}
        """The one before it."""
        self.links: dict[str, LinkView] = {}
        self.noted: dict[KnobName, Value] = {}
        """The requests that this session knows of: its own, and those of others that it marked."""
        self._applier = Applier(fleet, load, report, self._keep_enabling)
        self._turning = asyncio.Lock()
        """One change at a time, from its look to its document: a plan holds for what it saw."""
        self._turner: asyncio.Task[Any] | None = None
        """Who holds it for a change."""

    # -- looking

    async def refresh(self, *, with_gtids: bool = False) -> None:
        """Look at everything at once; what cannot be learned stays unknown."""
        await self.read_document()
        await asyncio.gather(
            *(self.look(name, with_gtids=with_gtids) for name in self.fleet.members), self.look_at_links()
        )

    async def read_document(self) -> None:
        """Read the requested values; those known stay when the agent does not answer."""
        try:
            self.requested = await read_requested(self.fleet.primary.agent)
        except ReplexplorerError:
            return

    async def look(self, node: str, *, with_gtids: bool = False) -> NodeSample:
        """Sample one server."""
        now_s = self.fleet.outside.clock.monotonic()
        before = self.samples.get(node)
        sample = await sample_node(self.fleet.members[node], now_s, before, with_gtids=with_gtids)
        if before is not None:
            self.samples_before[node] = before
        self.samples[node] = sample
        return sample

    async def look_at_links(self) -> None:
        """Ask the agents for every link."""
        replicas = self.fleet.replicas
        views = await asyncio.gather(
            *(
                sample_link(self.fleet.primary, replica, self.asked_rtt_ms(replica.name))
                for replica in replicas
            )
        )
        self.links = {view.replica: view for view in views}

    def asked_rtt_ms(self, replica: str) -> float:
        """The round trip requested of a link."""
        value = self.requested.values.get(KnobName("rtt", replica), BY_KEY["rtt"].default)
        return float(value)

    def asked_rtts_ms(self) -> tuple[float, ...]:
        """The round trips requested of all links."""
        return tuple(self.asked_rtt_ms(replica) for replica in self.fleet.replica_names)

    def protection(self) -> Protection:
        """The protection state from what was last seen."""
        return judge_protection(
            self.samples.get(PRIMARY),
            self.samples_before.get(PRIMARY),
            requested=self.requested_value(KnobName("semi_sync", PRIMARY)) == "on",
            yes_tx_at_enabling=self.requested.yes_tx_at_enabling,
            asked_rtts_ms=self.asked_rtts_ms(),
            own_offs=self._applier.offs,
        )

    def forget_offs(self) -> None:
        """The primary restarted: its `no_times` counts from zero again."""
        self._applier.offs = 0

    def node_views(self) -> tuple[NodeView, ...]:
        """The nodes that were looked at, primary first."""
        return tuple(self.samples[name].view for name in self.fleet.members if name in self.samples)

    async def look_twice_if_waiting(self) -> None:
        """A commit that waits long is `blocked` only if no acknowledgement comes between two looks."""
        sample = self.samples.get(PRIMARY)
        if sample is not None and waits_too_long(sample, self.asked_rtts_ms()):
            await self.fleet.outside.clock.sleep(_SECOND_LOOK_S)
            await self.look(PRIMARY)

    def requested_value(self, name: KnobName) -> Value:
        """What is requested of a knob: what somebody asked, else its default."""
        return self.requested.values.get(name, name.knob.default)

    def effective_value(self, name: KnobName) -> Value | None:
        """What a knob really is; None when unknown or when no load runs."""
        match name.knob.backing:
            case Backing.SERVER:
                sample = self.samples.get(name.node)
                return None if sample is None else sample.values.get(name.key)
            case Backing.LINK:
                link = self.links.get(name.node)
                return None if link is None else link.rtt_installed_ms
            case Backing.LOAD:
                return self.load.effective().get(name.key)

    def names(self) -> tuple[KnobName, ...]:
        """The knobs that this stack's servers have, in catalogue order."""
        return tuple(name for name in expand(CATALOGUE, self.fleet.replica_names) if self._has(name))

    def _has(self, name: KnobName) -> bool:
        member = self.fleet.members.get(name.node)
        known = member.capabilities if member else None
        return known is None or known.has(name.key)

    def views(self) -> dict[KnobName, KnobView]:
        """Every knob with requested and effective."""
        return {name: self._view(name) for name in self.names()}

    def _view(self, name: KnobName) -> KnobView:
        effective = self.effective_value(name)
        note = _NO_LOAD if name.knob.backing is Backing.LOAD and effective is None else None
        return KnobView(name, self.requested_value(name), effective, note)

    # -- planning

    def observed(self) -> Observed:
        """What the planner has to know, from what was last seen."""
        up = {
            name: member.capabilities
            for name, member in self.fleet.members.items()
            if member.capabilities is not None and self._reachable(name)
        }
        primary = self.samples.get(PRIMARY)
        return Observed(
            values={name: self.effective_value(name) for name in expand(CATALOGUE, self.fleet.replica_names)},
            replicas=self.fleet.replica_names,
            capabilities=up,
            semi_sync_clients=primary.status.clients if primary else None,
            registered={
                name: sample.status.replica_registered
                for name, sample in self.samples.items()
                if name != PRIMARY
            },
            appliers_off=frozenset(
                name for name, sample in self.samples.items() if sample.view.sql_thread in ("off", "error")
            ),
            load_runs=bool(self.load.effective()),
        )

    def _reachable(self, node: str) -> bool:
        sample = self.samples.get(node)
        return sample is not None and sample.view.reachable

    def parse(self, text: str) -> Assignment:
        """Read `KEY[@NODE]=VALUE` for this stack; raises UsageError."""
        assignment = parse_assignment(text, self.fleet.replica_names)
        for name in assignment.names:
            member = self.fleet.members.get(name.node)
            if member is not None and member.capabilities is not None:
                member.capabilities.knob(name.key)
        return assignment

    def preview(self, assignments: Sequence[Assignment]) -> Preview:
        """What these would run and warn of; a refusal becomes the warning."""
        try:
            plan = make_plan(self.observed(), desired_of(assignments))
        except ReplexplorerError as error:
            return Preview((), (), (str(error),))
        return Preview(
            written(planned.step for planned in plan.steps), written(plan.rollback()), plan.warnings
        )

    # -- turning

    async def set(
        self, desired: Desired, *, dry_run: bool = False, begun: Callable[[], None] = lambda: None
    ) -> SetResult:
        """Turn knobs: plan on a fresh look, apply, wait for the effect, write the request down.

        `begun` is called just before the first step, and not when there is none to run. Raises
        UsageError, StackUnavailable or `apply.RolledBack`; then nothing is requested anew. A cancel
        leaves everything as it was, or comes too late: then the answer still is returned, and the
        cancel is delivered at the caller's next await.
        """
        async with self._turning:
            self._turner = asyncio.current_task()
            try:
                await self.refresh()
                plan = make_plan(self.observed(), desired)
                if dry_run:
                    return _promised(plan, desired)
                if plan.steps:
                    begun()
                applied = await self._applier.run(plan, lambda applied: self._seal(desired, applied))
                return self._result(plan, applied, desired)
            finally:
                self._turner = None

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
            return changed, before

    async def _seal(self, desired: Desired, applied: Applied) -> None:
        """Write the request down, then look at what has come of it."""
        await self._write_down(desired, applied.yes_tx_at_enabling)
        await self.look_at_links()
        if applied.unacknowledged_s is not None:
            await self.look(PRIMARY)
            await self.look_twice_if_waiting()
            applied.warnings.append(
                f"semi_sync is on and {self.protection().state}: a commit was not acknowledged within"
                f" {applied.unacknowledged_s:g} s; commits wait until a replica answers or the timeout passes"
            )

    async def _write_down(self, desired: Desired, yes_tx_at_enabling: int | None) -> None:
        """Write the request into the document that all apps share, where it says anything new."""
        known = self.requested.values
        if yes_tx_at_enabling is not None or any(known.get(name) != desired[name] for name in desired):
            self.requested = await write_requested(
                self.fleet.primary.agent, desired, writer=self.writer, yes_tx_at_enabling=yes_tx_at_enabling
            )
        self.noted.update(desired)

    async def _keep_enabling(self, undone: Applied) -> None:
        """A rollback enabled semi-sync anew: only acknowledgements from here on are evidence."""
        if undone.yes_tx_at_enabling is not None:
            with contextlib.suppress(ReplexplorerError):
                await self._write_down({}, undone.yes_tx_at_enabling)

    def _result(self, plan: Plan, applied: Applied, desired: Desired) -> SetResult:
        return SetResult(
            changed=(*applied.changed, *_stored(plan, desired)),
            warnings=(*plan.warnings, *applied.warnings),
            unchanged=plan.unchanged,
        )

    def reset_values(self) -> dict[KnobName, Value]:
        """Every knob's default, for those that the servers have."""
        standard = defaults(self.fleet.replica_names)
        return {name: standard[name] for name in self.names()}

    def lost_values(self, nodes: Iterable[str]) -> dict[KnobName, Value]:
        """What was requested and is not so on these nodes: SET GLOBAL does not survive a restart,
        and a link's rules end with the sidecar at either end."""
        among = set(nodes)
        return {
            name: value
            for name, value in self.requested.values.items()
            if (name.node in among or (PRIMARY in among and name.knob.backing is Backing.LINK))
            and self._is_lost(name, value)
        }

    def lost_links(self, node: str) -> dict[KnobName, Value]:
        """The round trips that were requested of this node's links and are not in force."""
        return {
            name: value
            for name, value in self.lost_values((node,)).items()
            if name.knob.backing is Backing.LINK
        }

    def _is_lost(self, name: KnobName, value: Value) -> bool:
        if name.knob.backing is Backing.LOAD or not self._has(name):
            return False
        effective = self.effective_value(name)
        if effective is None or same_value(name.knob, effective, value):
            return False
        link = self.links.get(name.node) if name.knob.backing is Backing.LINK else None
        return link is None or effective != link.rtt_base_ms or value == 0 or not _below(value, effective)

    def wanted_load(self) -> Mapping[str, Value]:
        """The load's knobs as requested."""
        return {
            name.key: self.requested_value(name)
            for name in expand(CATALOGUE, ())
            if name.knob.backing is Backing.LOAD
        }

    def check_driver_knob(self, clients: int) -> None:
        """A load in the foreground needs somebody who commits."""
        if clients < 1:
            raise UsageError(f"clients={clients} is too few for a load in the foreground", "give 1 .. 1024")


def _promised(plan: Plan, desired: Desired) -> SetResult:
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
        + _stored(plan, desired),
        warnings=plan.warnings,
        dry_run=True,
        unchanged=plan.unchanged,
    )


def _stored(plan: Plan, desired: Desired) -> tuple[Changed, ...]:
    """Knobs of the load that only the document takes."""
    return tuple(Changed(name, None, desired[name], None, 0.0, (), _NO_LOAD) for name in plan.stored)


def _below(asked: Value, floor: Value) -> bool:
    """Whether less was asked than the bare path takes."""
    return not isinstance(asked, str) and not isinstance(floor, str) and asked <= floor
