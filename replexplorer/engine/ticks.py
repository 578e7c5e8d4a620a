"""Making one tick of all that is known."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from replexplorer.core.event import Severity
from replexplorer.core.knobs import keys
from replexplorer.core.load.interval import SERVER, Interval, LoadView
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.model.ceiling import Ceiling, CeilingWatch, beaten_words
from replexplorer.core.records import dataclass, field, replace
from replexplorer.core.server.protection import Protection
from replexplorer.core.tick import Tick
from replexplorer.engine.load import Driving, LoadDriver
from replexplorer.engine.monitor import Monitor
from replexplorer.engine.observe.predictor import Predictor
from replexplorer.engine.observe.state import StackState
from replexplorer.engine.observe.status import state_word
from replexplorer.engine.record import EventLog
from replexplorer.ports import Ability


@dataclass(slots=True)
class TickMaker:
    """Makes ticks."""

    state: StackState
    driving: Driving
    load: LoadDriver
    event_log: EventLog
    monitor: Monitor
    predictor: Predictor
    _last: Interval | None = None
    _watch: CeilingWatch = field(default_factory=CeilingWatch)
    _beaten_tps: float | None = None

    def tick(self) -> Tick:
        """What is known now."""
        intervals = self.load.inbox.take()
        for interval in intervals:
            self.event_log.epochs.add(interval)
            if interval.rows_reset:
                self.event_log.mark("the table was emptied, at its largest size")
        if intervals:
            self._last = reduce(Interval.followed_by, intervals)
        window, since_s = self.state.window, self.event_log.unchanged_since_s
        window.add_intervals(intervals)
        protection = self._protection()
        links = tuple(self.state.links.values())
        nodes = tuple(map(self.event_log.with_restart, self.state.node_views()))
        load = self._load_view()
        ceiling = self._compared(self.predictor.ceiling(protection, load), intervals, protection)
        stretch = window.stretch(since_s)
        anatomy = stretch.anatomy() if stretch and self.load.is_running else None
        if stretch and load.is_by_server:
            anatomy = stretch.anatomy_at_server()
        self.event_log.epochs.fall_back(self.state.fleet.outside.clock.monotonic(), window.replicas())
        exposure = self.state.exposures.exposure()
        if exposure is not None:
            self.event_log.epochs.expose(self.state.fleet.outside.clock.monotonic(), exposure)
        return Tick(
            at_s=self.event_log.at_s,
            wall_s=self.state.fleet.outside.clock.wall(),
            stack=self.state.fleet.outside.provider.name,
            state=state_word(nodes) if nodes else "starting",
            system=self.state.fleet.system.name,
            nodes=nodes,
            protection=protection,
            links=links,
            pairs=tuple(self.state.pairs.values()),
            disks=tuple(self.state.disks.values()),
            load=load,
            knobs=self.state.views(),
            ceiling=ceiling,
            predicted=self.predictor.predicted(protection, load, anatomy=anatomy, ceiling=ceiling),
            anatomy=anatomy,
            truth=window.truth(since_s),
            exposure=exposure,
            epochs=self.event_log.epochs.rows(),
            events=self.event_log.take_events(),
            faults=self.state.faults,
            viewer=self.driving.viewer_of is not None,
            load_ended_s=None if self._last is None else self._last.end_s - self.event_log.began_s,
            driver_selects=self.driving.viewer_of.selected if self.driving.viewer_of else None,
        )

    def _compared(
        self, ceiling: Ceiling | None, intervals: Sequence[Interval], protection: Protection
    ) -> Ceiling | None:
        """The ceiling with what beats it; the log says so once."""
        if intervals or ceiling is None:
            was, now = self._beaten_tps, self._last
            since = (self.event_log.unchanged_since_s, protection.state, ceiling and ceiling.clients)
            tps, each_s = (now.tps, now.duration_s) if now is not None else (None, 0.0)
            self._beaten_tps = self._watch.take(ceiling, tps, each_s, since)
            if ceiling is not None and was is None and self._beaten_tps is not None:
                found = beaten_words(replace(ceiling, beaten_tps=self._beaten_tps))
                self.event_log.tell(Severity.WARN, found)
        return ceiling and replace(ceiling, beaten_tps=self._beaten_tps)

    def _protection(self) -> Protection:
        """The protection state, followed from look to look."""
        protection, sample = self.state.protection(), self.state.source_sample
        if sample is None:
            return protection
        enabled = sample.values.get(keys.SEMI_SYNC) == "on"
        return self.event_log.follow(protection, sample.counters, enabled=enabled)

    def _load_view(self) -> LoadView:
        """The load from its last intervals; a viewer's as its driver has it, with the server's counters."""
        if not self.state.fleet.can(Ability.TAKE_ROWS):
            return self._of_server()
        viewed = self.driving.viewer_of
        wanted = {**self.state.wanted_load(), **((viewed.load if viewed else None) or {})}
        clients, workload = int(wanted[keys.CLIENTS]), str(wanted[keys.WORKLOAD])
        mode = str(wanted[keys.LOAD_MODE])
        if viewed is not None:
            rates = self.monitor.server_rates()
            return LoadView(
                clients=0 if viewed.load == {} else clients,
                connected=0,
                workload=workload,
                tps=rates.tps if rates else None,
                mean_ms=self.state.window.commit_ms,
                state="viewer",
                driver=str(viewed),
                mode=mode,
                rate_asked_tps=float(wanted[keys.RATE]) if mode == OPEN else None,
            )
        last = self._last
        if not self.load.is_running or last is None:
            self._last = None
            state = "stopped" if not self.load.is_running else "preparing"
            prepared = self.load.prepared if state == "preparing" else None
            return LoadView(
                clients, 0, workload, None, state=state, prepared=prepared, fault=self.load.fault, mode=mode
            )
        return LoadView.of(last, self.load.prepared)

    def _of_server(self) -> LoadView:
        """What other people's clients do, by their server's counters."""
        rates = self.monitor.server_rates()
        return LoadView(
            clients=0,
            connected=0,
            workload="",
            tps=rates.tps if rates else None,
            n=(rates.commits or 0) if rates else 0,
            duration_s=rates.duration_s if rates else 0.0,
            mean_ms=self.state.window.commit_ms,
            state=SERVER,
        )
