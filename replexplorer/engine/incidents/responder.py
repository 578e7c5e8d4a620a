"""What a session does by itself when something happens: it says so, and gives back what was taken."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Final

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.event import Severity
from replexplorer.core.fault import Fault
from replexplorer.core.knobs.names import (
    Backing,
    Desired,
    KnobName,
    Value,
    format_change,
    same_value,
)
from replexplorer.core.server.exposure import Alone
from replexplorer.core.server.gtid import gtid_count
from replexplorer.core.server.node_view import MemberWatch, NodeView, ThreadWatch
from replexplorer.core.text import command
from replexplorer.core.wire import Lease
from replexplorer.engine.change.controls import Controls
from replexplorer.engine.change.faults import Faults
from replexplorer.engine.change.restore import Restorer
from replexplorer.engine.load import Driving, LoadDriver
from replexplorer.engine.requested import SharedMark
from replexplorer.engine.tasks import Patience

_LET_IN_WITHIN_S: Final = 30.0
_LOOK_EVERY_S: Final = 0.5


class Responder:
    """Hears what the watcher finds."""

    def __init__(
        self, controls: Controls, restorer: Restorer, load: LoadDriver, driving: Driving, faults: Faults
    ) -> None:
        self._controls = controls
        self._sight = controls.sight
        self._chronicle = controls.chronicle
        self._restorer = restorer
        self._load = load
        self._driving = driving
        self._faults = faults
        self._threads: dict[str, ThreadWatch] = {}
        """By replica."""
        self._members: dict[str, MemberWatch] = {}
        """By node of a group."""
        self._takes_writes: str | None = None
        """The node of a group that did when it was last told."""
        self.on_remade: Callable[[], None] = lambda: None
        """Called when another stack has this one's name: what was turned before is no more."""

    def reachable_seen(self, node: str, reachable: bool) -> None:
        """A node's server went away, or came back."""
        if reachable:
            self._chronicle.tell(Severity.GOOD, f"{node} answers again")
        else:
            sample = self._sight.samples.get(node)
            why = sample.view.why_down if sample is not None else None
            self._chronicle.tell(Severity.BAD, f"{node} is down: {why or 'no login succeeds'}")

    def threads_seen(self, view: NodeView) -> None:
        """A replica's threads at this look; while a change is under way they come and go with it."""
        if self._chronicle.unchanged_since_s == inf:
            return
        told = self._threads.setdefault(view.name, ThreadWatch()).seen(view)
        if told is not None:
            self._chronicle.tell(*told)

    def member_seen(self, view: NodeView) -> None:
        """What a node of a group says of it: told where it is another thing than before."""
        if self._takes_writes is None and view.is_source:
            self._takes_writes = view.name
        for told in self._members.setdefault(view.name, MemberWatch(view.name)).seen(view.member):
            self._chronicle.tell(*told)

    async def server_restarted(self, node: str) -> None:
        """A server restarted and lost what SET GLOBAL had set: restore it as configured."""
        self._chronicle.server_restarted(node)
        if node == self._sight.fleet.source_name:
            self._sight.own.offs = 0
        if self._sight.fleet.system.is_group:
            await self._until_member(node)
        await self._faults.came_back(node)
        await self._sight.look_at_links()
        await self._restorer.restore(f"{node} restarted", self._sight.lost_values((node,)))

    async def _until_member(self, node: str) -> None:
        """Wait for a server to be let into its group: its variables cannot be set on the way there; one that
        is not let in in time is left to `up`."""
        patience = Patience(self._controls.clock, _LET_IN_WITHIN_S, _LOOK_EVERY_S)
        while await patience.again():
            membership = (await self._sight.look(node)).membership
            if membership is not None and membership.is_ready:
                return

    async def sidecar_restarted(self, node: str) -> None:
        """A sidecar's agent began without its rules: restore links and disk as configured."""
        await asyncio.gather(self._sight.look_at_links(), self._sight.look_at_disks())
        await self._restorer.restore(f"the sidecar of {node} restarted", self._sight.lost_by_sidecar(node))
        try:
            await self._faults.resume_flaps(node)
        except ReplexplorerError as error:
            self._chronicle.tell(Severity.WARN, f"a link of {node} does not flap any more: {error}")

    async def primary_moved(self) -> None:
        """The primary is another node, or answers at another place or to another password: our load goes
        on there."""
        self._mark_election()
        if await self._driving.follow():
            self._chronicle.tell(Severity.INFO, f"the load goes on at {self._sight.fleet.source_name}")

    def _mark_election(self) -> None:
        """Of a group, another member takes writes now: a mark as any change's."""
        fleet = self._sight.fleet
        before, self._takes_writes = self._takes_writes, fleet.source_name
        if fleet.system.is_group and before != fleet.source_name:
            title = f"election: {fleet.source_name} takes writes"
            self._chronicle.change_effective(self._chronicle.begin_change(title), title, title)

    def stack_seen(self, is_there: bool) -> None:
        """All that was of the stack has gone, or something of its name is there again."""
        name = self._sight.fleet.outside.provider.name
        self._load.lose(None if is_there else f"stack '{name}' was removed")
        if self._load.lost is not None:
            self._chronicle.tell(Severity.BAD, self._load.lost)

    async def stack_remade(self) -> None:
        """Another stack has this one's name now: nothing that was turned is so any more."""
        self.on_remade()
        self._restorer.forget()
        self._sight.forget()
        self._controls.drift.forget()
        await self._sight.read_document()
        self._chronicle.tell(
            Severity.WARN, "the stack was removed and created again: its knobs and rows are new"
        )

    async def written_elsewhere(self, changed: Desired, before: Desired, writer: str) -> None:
        """Another app turned knobs: mark it, and let our load follow."""
        title = ", ".join(
            format_change(name, before.get(name, name.knob.default), value) for name, value in changed.items()
        )
        number = self._chronicle.begin_change(title)
        load = {name.key: value for name, value in changed.items() if name.knob.backing is Backing.LOAD}
        try:
            if load and self._load.is_running:
                await self._load.change(load)
        except ReplexplorerError as error:
            self._chronicle.change_failed(number, f"{title}, by {writer}: our load did not follow: {error}")
            return
        self._chronicle.change_effective(number, title, f"{title}, by {writer}")

    def faults_seen(self, injected: Sequence[Fault], cleared: Sequence[Fault]) -> None:
        """Other apps injected faults or took them back: mark it, unless the knobs that they turned for
        that have a mark already."""
        told = [(fault, f"fault {fault}", f", by {fault.by}", Severity.BAD) for fault in injected]
        told += [(fault, f"fault over: {fault}", ", by another app", Severity.GOOD) for fault in cleared]
        for fault, title, whose, severity in told:
            if fault.before:
                self._chronicle.tell(severity, title + whose)
            else:
                self._chronicle.change_effective(self._chronicle.begin_change(title), title, title + whose)

    def marks_seen(self, marks: Sequence[SharedMark]) -> None:
        """Other apps put marks: they stand on our charts as well. What they found lost is a fact alone."""
        for mark in marks:
            if mark.loss_of:
                self._chronicle.tell(Severity.BAD, mark.text)
                continue
            number = self._chronicle.begin_change(mark.text)
            self._chronicle.change_effective(number, mark.text, f"{mark.text}, by {mark.by}")

    def set_by_hand(self, node: str, changes: Mapping[KnobName, tuple[Value, Value]]) -> None:
        """Somebody who is no replexplorer set variables of a server: mark it."""
        title = ", ".join(format_change(name, before, now) for name, (before, now) in changes.items())
        again = all(
            same_value(name.knob, self._sight.requested_value(name), now)
            for name, (_, now) in changes.items()
        )
        whose = f"by hand on {node}, as requested again" if again else f"by hand on {node}"
        self._chronicle.set_by_hand(node, title, f"{title}, {whose}")

    async def silence_seen(self, alone: Alone | None) -> None:
        """Since when no replica answers: kept for whoever looks later, as `status` does."""
        await self._sight.write(lambda now: replace(now, alone=alone))

    def diverged_seen(self, node: str, why: str | None) -> None:
        """A node differs until it is copied, or does not any more."""
        if why is None:
            self._chronicle.tell(Severity.GOOD, f"{node} does not differ from the source any more")
            return
        remedy = command("rejoin", self._sight.fleet.outside.provider.name, node, "--copy")
        self._chronicle.tell(Severity.BAD, f"{node} DIVERGED: it {why}: {remedy} makes it a copy")

    def errant_seen(self, node: str, gtids: str) -> None:
        """A replica has transactions that the primary lacks, or has none any more."""
        if not gtids:
            self._chronicle.tell(Severity.GOOD, f"{node} has no transaction any more that the primary lacks")
            return
        count = gtid_count(gtids)
        what = f"{count:,} transaction{'' if count == 1 else 's'}"
        self._chronicle.tell(Severity.BAD, f"{node} has {what} that the primary lacks: {gtids}")

    async def lease_seen(self, lease: Lease | None) -> None:
        """Who drives the load now."""
        await self._driving.lease_seen(lease)


class Onlooker(Responder):
    """Hears the same and says it, and restores nothing: that is for those who may turn something."""

    async def server_restarted(self, node: str) -> None:
        """Say so."""
        self._chronicle.server_restarted(node)
        self._chronicle.tell(Severity.WARN, f"{node} restarted")

    async def sidecar_restarted(self, node: str) -> None:
        """Say so."""
        self._chronicle.tell(Severity.WARN, f"the sidecar of {node} restarted")

    async def silence_seen(self, alone: Alone | None) -> None:
        """Nothing is kept by who only watches."""

    async def lease_seen(self, lease: Lease | None) -> None:
        """Watch whoever drives the load."""
        self._driving.watch(lease)
        await super().lease_seen(lease)
