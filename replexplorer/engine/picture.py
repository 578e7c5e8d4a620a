"""Folding what is known into one tick."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import reduce

from replexplorer.core.ceiling import acknowledging_rtt_ms, bound
from replexplorer.core.interval import Interval
from replexplorer.core.knobs import PRIMARY, Group, KnobName, Value
from replexplorer.core.pacing import OPEN
from replexplorer.core.tick import Ceiling, LoadView, NodeView, Protection, ProtectionState, Tick
from replexplorer.engine.chronicle import Chronicle
from replexplorer.engine.controls import Controls
from replexplorer.engine.driving import Driving
from replexplorer.engine.load import LoadDriver
from replexplorer.engine.watch import Watcher


def state_word(nodes: Sequence[NodeView]) -> str:
    """up, partial (some nodes down) or down (all)."""
    reachable = [node.reachable for node in nodes]
    if all(reachable):
        return "up"
    return "partial" if any(reachable) else "down"


@dataclass(slots=True)
class LocalCost:
    """Execute and fsync time of one commit, measured while commits were asynchronous.

    One client's mean; with more clients a mean holds their queueing as well and would make the
    bound too low, so it is the fastest commit then. The least seen counts, under the durability
    settings and the workload that it was measured under.
    """

    settings: tuple[tuple[KnobName, Value | None], ...] = ()
    local_ms: float | None = None

    def learn(self, settings: Iterable[tuple[KnobName, Value | None]], load: LoadView) -> None:
        """Take an asynchronous interval; other settings than before begin anew."""
        self.keep_for(settings)
        seen_ms = load.mean_ms if load.clients == 1 or load.service is None else load.service.min_ms
        if seen_ms is not None and (self.local_ms is None or seen_ms < self.local_ms):
            self.local_ms = seen_ms

    def keep_for(self, settings: Iterable[tuple[KnobName, Value | None]]) -> None:
        """Forget what was measured under other settings."""
        now = tuple(settings)
        if now != self.settings:
            self.settings, self.local_ms = now, None


@dataclass(slots=True)
class Picture:
    """Makes ticks; it keeps only what the ceiling needs to remember."""

    controls: Controls
    driving: Driving
    load: LoadDriver
    chronicle: Chronicle
    watcher: Watcher
    _local: LocalCost = field(default_factory=LocalCost)
    _last: Interval | None = None

    def tick(self) -> Tick:
        """What is known now."""
        intervals = self.load.inbox.take()
        for interval in intervals:
            self.chronicle.add(interval)
        if intervals:
            self._last = reduce(Interval.followed_by, intervals)
        protection = self.controls.protection()
        links = tuple(self.controls.links.values())
        nodes = self.controls.node_views()
        load = self._load_view()
        self._learn_local(protection, load)
        return Tick(
            at_s=self.chronicle.at_s,
            wall_s=self.controls.fleet.outside.clock.wall(),
            stack=self.controls.fleet.outside.stack.name,
            state=state_word(nodes) if nodes else "starting",
            nodes=nodes,
            protection=protection,
            links=links,
            disks=tuple(self.controls.disks.values()),
            load=load,
            knobs=self.controls.views(),
            ceiling=self._ceiling(protection, load),
            epochs=self.chronicle.epochs(),
            events=self.chronicle.take_events(),
            viewer=self.driving.viewer_of is not None,
        )

    def _load_view(self) -> LoadView:
        """The load from its last intervals, or from the server's counters for a viewer."""
        wanted = self.controls.wanted_load()
        clients, workload, mode = int(wanted["clients"]), str(wanted["workload"]), str(wanted["load_mode"])
        if self.driving.viewer_of is not None:
            rates = self.watcher.server_rates()
            driver = f"{self.driving.viewer_of.holder} (pid {self.driving.viewer_of.pid})"
            tps = rates.tps if rates else None
            return LoadView(clients, 0, workload, tps, state="viewer", driver=driver, mode=mode)
        last = self._last
        if not self.load.is_running or last is None:
            self._last = None
            state = "stopped" if not self.load.is_running else "preparing"
            return LoadView(clients, 0, workload, None, state=state, fault=self.load.fault, mode=mode)
        service, response = last.service, last.response
        return LoadView(
            clients=last.clients,
            connected=last.connected,
            workload=last.workload,
            tps=last.tps,
            n=last.commits,
            duration_s=last.duration_s,
            mean_ms=service.mean_ms,
            p50_ms=service.percentile_ms(50),
            p95_ms=service.percentile_ms(95),
            p99_ms=service.percentile_ms(99),
            max_ms=service.max_ms,
            errors=last.errors,
            unknown=last.unknown,
            reconnects=last.reconnects,
            cpu_percent=last.cpu_percent,
            limited=last.limited,
            state=last.state,
            fault=last.fault,
            service=service,
            mode=last.mode,
            rate_asked_tps=last.rate_asked_tps,
            qps=last.queries / last.duration_s if last.duration_s > 0 else None,
            response=response if last.mode == OPEN else None,
            response_p50_ms=response.percentile_ms(50),
            response_p95_ms=response.percentile_ms(95),
            response_p99_ms=response.percentile_ms(99),
            response_max_ms=response.max_ms,
            arrivals=last.arrivals,
            dropped=last.dropped,
            backlog=last.backlog,
            deadlocks=last.deadlocks,
            lock_timeouts=last.lock_timeouts,
            lateness_p99_ms=last.lateness_p99_ms,
            processes=last.processes,
        )

    def _learn_local(self, protection: Protection, load: LoadView) -> None:
        """Remember what a commit costs while nothing waits for the link."""
        settings = [
            (name, self.controls.effective_value(name))
            for name in self.controls.names()
            if name.node == PRIMARY and name.knob.group in (Group.DURABILITY, Group.BINLOG)
        ]
        settings.append((KnobName("workload", "load"), load.workload))
        if protection.state is ProtectionState.OFF and load.state == "running":
            self._local.learn(settings, load)
        else:
            self._local.keep_for(settings)

    def _ceiling(self, protection: Protection, load: LoadView) -> Ceiling | None:
        """The k=1 bound; none while commits do not wait for a replica, and none where neither the
        link nor a measured local cost bounds anything: a bound of tens of thousands says nothing."""
        if protection.state in (ProtectionState.OFF, ProtectionState.DEGRADED, ProtectionState.DOWN):
            return None
        if self._local.local_ms is None and not any(self.controls.asked_rtts_ms()):
            return None
        rtts = [link.rtt_measured_ms for link in self.controls.links.values()]
        rtt_ms = acknowledging_rtt_ms(rtts, protection.replicas_required or 1)
        return bound(load.clients, rtt_ms, self._local.local_ms)
