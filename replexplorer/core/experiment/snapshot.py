"""What an experiment sees of a stack at one look, and what it measures under, so that all else is noticed.

Law: a figure counts only for the settings that it names. What differs from the baseline was changed by
somebody else, and what was measured meanwhile is invalid. Unknown is not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from replexplorer.core.knobs.names import (
    Backing,
    Desired,
    KnobName,
    KnobView,
    Value,
    format_change,
    same_value,
)
from replexplorer.core.link import LinkView, unkept_all
from replexplorer.core.model.ceiling import acknowledging_rtt_ms
from replexplorer.core.records import dataclass, field, frozen
from replexplorer.core.server.counters import Sample, restarted
from replexplorer.core.server.disk import DiskView
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.server.protection import Protection
from replexplorer.core.system import ASYNC, System
from replexplorer.core.topology import Roster, in_order
from replexplorer.core.wire import Lease

UNKNOWN: Final = "unknown"
"""A server that has not answered yet."""


@frozen
class Snapshot:
    """Servers, links, disks and requests of a stack, as they were last looked at."""

    source: str
    """The name of the node that the load writes to."""
    server: str
    """What runs there: `mysql 9.7.4-2`; `unknown` before it has answered."""
    nodes: Sequence[NodeView]
    """Those that were looked at, the source first."""
    replicas: Sequence[str]
    """Names of all replicas, in order."""
    knobs: Mapping[KnobName, KnobView]
    """All that these servers have, in the catalogue's order."""
    version: int
    """Of the requested values; another one when anybody wrote them."""
    writer: str
    """Who wrote them last: `set (pid 12)`."""
    is_ours: bool
    """That was this app."""
    protection: Protection
    links: Mapping[str, LinkView] = field(default_factory=dict)
    """By replica."""
    disks: Mapping[str, DiskView] = field(default_factory=dict)
    """By node."""
    counters: Mapping[str, Sample] = field(default_factory=dict)
    """By node, for those that were looked at."""
    system: System = ASYNC
    driver: Lease | None = None
    """Another app that drives the stack's load; None: this one or none."""

    @property
    def roster(self) -> Roster:
        """The names, and which of them is the source."""
        names = tuple(in_order((self.source, *self.replicas)))
        return Roster(names, self.source, mesh=self.system.mesh)

    def requested(self, name: KnobName) -> Value:
        """A knob's requested value, else its default."""
        view = self.knobs.get(name)
        return name.knob.default if view is None else view.requested

    def effective(self, name: KnobName) -> Value | None:
        """What a knob really is; None when that is unknown, or no load runs."""
        view = self.knobs.get(name)
        return None if view is None else view.effective

    @property
    def nodes_down(self) -> tuple[str, ...]:
        """Names of the nodes that did not answer."""
        return tuple(node.name for node in self.nodes if not node.reachable)

    @property
    def rtt_ms(self) -> float | None:
        """The measured round trip of the replica whose acknowledgement a commit waits for; None when none
        is measured."""
        rtts = [link.rtt_measured_ms for link in self.links.values()]
        return acknowledging_rtt_ms(rtts, self.protection.replicas_required or 1)

    @property
    def fsync_ms(self) -> float | None:
        """What the source pays for an fsync of redo or binlog; None when there was none to measure."""
        disk = self.disks.get(self.source)
        return None if disk is None else disk.measured_ms

    @property
    def disk_probe_ms(self) -> float | None:
        """The median synchronous write on the source's bare disk; None before it was probed."""
        disk = self.disks.get(self.source)
        return None if disk is None else disk.probe_p50_ms


@dataclass(slots=True)
class Baseline:
    """The knobs as an experiment expects them."""

    _requested: dict[KnobName, Value] = field(default_factory=dict)
    _effective: dict[KnobName, Value] = field(default_factory=dict)
    _counters: Mapping[str, Sample] = field(default_factory=dict)
    _version: int = 0
    """Of the document, when it was as expected."""

    def turned(self, desired: Desired, seen: Snapshot) -> None:
        """The experiment itself turned these: what they are now is learned at the next `begin`."""
        links = {name.node for name in desired if name.knob.backing is Backing.LINK}
        for name in tuple(self._effective):
            of_link = name.knob.backing is Backing.LINK and name.node in links
            if name in desired or of_link:  # a link's knobs depend on each other
                del self._effective[name]
        self._requested.update(desired)
        self._version = seen.version

    def begin(self, seen: Snapshot) -> None:
        """A measurement begins, after a look at everything: what is not known yet is taken as it is."""
        for name, view in seen.knobs.items():
            self._requested.setdefault(name, view.requested)
            if view.effective is not None and name.knob.backing is not Backing.LOAD:
                self._effective.setdefault(name, view.effective)
        self._counters = seen.counters
        self._version = seen.version

    def restarted(self, seen: Snapshot) -> tuple[str, ...]:
        """Servers that restarted since `begin`."""
        return tuple(
            name
            for name, sample in seen.counters.items()
            if name in self._counters and restarted(self._counters[name], sample)
        )

    def asked(self, seen: Snapshot) -> dict[KnobName, str]:
        """What somebody else has asked of knobs since: each with both values and whose hand it was."""
        return {
            name: f"{format_change(name, before, now)}, by {seen.writer}"
            for name, before in self._requested.items()
            if not same_value(name.knob, before, now := seen.requested(name))
        }

    def changed(self, seen: Snapshot) -> tuple[str, ...]:
        """What somebody else changed since, after a look at everything. Each in words: the knob with both
        values, and whose hand it was."""
        asked = self.asked(seen)
        found = list(asked.values())
        for name, before in self._effective.items():
            effective = seen.effective(name)
            if name not in asked and effective is not None and not same_value(name.knob, before, effective):
                found.append(f"{format_change(name, before, effective)}, by hand")
        if not found and seen.version != self._version and not seen.is_ours:
            found.append(f"knobs were turned and turned back by {seen.writer}")
        return tuple(found)


@frozen
class PendingRestore:
    """What to restore when a killed experiment did not, as the stack keeps it; knobs are named as in the
    requested document while `source` was the source. What somebody has asked since stays."""

    kind: str
    """`lab`, `sweep`, `drill`."""
    name: str
    source: str
    """The node that was the source before."""
    before: Mapping[str, Value] = field(default_factory=dict)
    """What was requested before of each knob that it turned."""
    turned: Mapping[str, Value] = field(default_factory=dict)
    """What it has asked of the same knobs."""
    differing: tuple[str, ...] = ()
    """Nodes whose rows may not be the source's, and never will be: they get a copy of its data."""
    turning: Mapping[str, Value] = field(default_factory=dict)
    """What it asks of some of them now: the request is written down once it is in force."""
    writer: str = ""
    """Whose experiment it is, as faults and requests are signed: `drill kill-primary (pid 12)`."""

    def still(self, requested: Callable[[KnobName], Value], roster: Roster) -> dict[KnobName, Value]:
        """What to turn back, given what is requested now."""
        turned, turning = unkept_all(self.turned, roster), unkept_all(self.turning, roster)
        return {
            name: value
            for name, value in unkept_all(self.before, roster).items()
            if value != requested(name) in (turned.get(name), turning.get(name))
        }
