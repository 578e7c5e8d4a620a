"""What is known at one moment: the immutable picture that the screen draws from.

Law: an unknown figure is None and is drawn as unknown; it is never zero and never failed.
Times named `at_s` are seconds on the session's monotonic clock, `*_ms` milliseconds.
"""

from __future__ import annotations

from collections.abc import Mapping

from replexplorer.core.epochs.epochs import Epoch
from replexplorer.core.event import Event
from replexplorer.core.fault import Fault
from replexplorer.core.knobs.names import KnobName, KnobView
from replexplorer.core.link import LinkView
from replexplorer.core.load.interval import LoadView
from replexplorer.core.model.ceiling import Ceiling
from replexplorer.core.model.fitted import Prediction
from replexplorer.core.records import field, frozen
from replexplorer.core.server.anatomy import Anatomy
from replexplorer.core.server.disk import DiskView
from replexplorer.core.server.exposure import Exposure
from replexplorer.core.server.node_view import NodeView, lag_s_of
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.server.truth import ReplicaTruth, ServerTruth
from replexplorer.core.system import DEFAULT, system_of
from replexplorer.core.topology import Roster


@frozen
class Tick:
    """Everything that the screen needs, twice a second."""

    at_s: float
    wall_s: float
    stack: str
    state: str
    """starting, up, partial, down."""
    system: str = DEFAULT
    """What the stack is (`core.system.SYSTEMS`)."""
    nodes: tuple[NodeView, ...] = ()
    protection: Protection = field(default_factory=lambda: Protection(ProtectionState.DOWN, requested=False))
    links: tuple[LinkView, ...] = ()
    """The source's."""
    pairs: tuple[LinkView, ...] = ()
    """Those between two other nodes of which something is asked."""
    disks: tuple[DiskView, ...] = ()
    load: LoadView | None = None
    knobs: Mapping[KnobName, KnobView] = field(default_factory=dict)
    """Only knobs that this stack's servers have, in catalogue order."""
    ceiling: Ceiling | None = None
    predicted: Prediction | None = None
    anatomy: Anatomy | None = None
    truth: ServerTruth | None = None
    exposure: Exposure | None = None
    """None before the source was looked at for it, and in recordings without it."""
    epochs: tuple[Epoch, ...] = ()
    """Newest last."""
    events: tuple[Event, ...] = ()
    """Those that happened since the tick before, oldest first."""
    faults: tuple[Fault, ...] = ()
    """In force, the oldest first."""
    lost: tuple[str, ...] = ()
    """What restarts took and the operator may have back or leave (`sync_binlog 0`); never recorded."""
    viewer: bool = False
    """Another driver holds the load; the charts come from the server's counters."""
    load_ended_s: float | None = None
    """When the interval that `load` is of ended, on this clock: somewhat before the tick. None in recordings,
    where no load of ours runs, and before its first interval."""
    driver_selects: str | None = None
    """The knob that the other driver's user looks at, as `rtt@db2`; never recorded."""

    @property
    def source(self) -> NodeView | None:
        """The node that is the source, running or not; None before anything was looked at."""
        return next((node for node in self.nodes if node.is_source), None)

    @property
    def replicas(self) -> tuple[NodeView, ...]:
        """All nodes but the source."""
        return tuple(node for node in self.nodes if node != self.source)

    @property
    def lags_s(self) -> dict[str, float | None]:
        """How far each replica is behind, in seconds, by its name."""
        return {node.name: lag_s_of(self.truth, node) for node in self.replicas}

    def applier(self, node: str) -> ReplicaTruth | None:
        """How far a replica is behind and how fast it follows; None where nothing says."""
        return None if self.truth is None else self.truth.replica(node)

    @property
    def roster(self) -> Roster | None:
        """The nodes' names and the source; None before anything was looked at."""
        source = self.source
        if source is None:
            return None
        mesh = system_of(self.system).mesh
        return Roster(tuple(node.name for node in self.nodes), source.name, mesh=mesh)

    @property
    def source_disk(self) -> DiskView | None:
        """The source's disk."""
        source = self.source
        return next((disk for disk in self.disks if source and disk.node == source.name), None)

    @property
    def rtt(self) -> LinkView | None:
        """The link that the header shows: the slowest one asked."""
        return max(self.links, key=lambda link: link.rtt_asked_ms, default=None)
