"""Everything that the screens draw from, folded from ticks in order; no tick's events are lost."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, NamedTuple

from replexplorer.core.event import Event
from replexplorer.core.history.points import Point
from replexplorer.core.history.recent import Recent
from replexplorer.core.history.series import History, page_of
from replexplorer.core.link_view import partition_words
from replexplorer.core.load.load_view import LoadView
from replexplorer.core.load.pacing import CLOSED
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.tick import Tick
from replexplorer.ui.charts.chart_model import ChartMark, ChartModel, FaultWindow, WindowKind
from replexplorer.ui.charts.contents import (
    DEFAULT_PAGE_S,
    chart_models,
    density_model,
    exposure_model,
    server_latency_model,
    zoomed,
)
from replexplorer.ui.charts.notes import Notes, latency_notes, qps_of, tps_notes, window_words
from replexplorer.ui.desks.fault_windows import FaultWindows
from replexplorer.ui.words.figures import count, rate

_FAULTS: Final = {
    ProtectionState.BLOCKED: ("blocked", WindowKind.BLOCKED),
    ProtectionState.DEGRADED: ("degraded", WindowKind.DEGRADED),
    ProtectionState.DOWN: ("down", WindowKind.DOWN),
}
_UNASKED: Final = ("async", WindowKind.DEGRADED)
"""Semi-sync is off though it is asked for."""
_MARK_WITHIN_S: Final = 2.0
"""The mark of a link that is cut comes this close to the tick that first shows that."""
_DROPS_APART_S: Final = 2.0
"""Without any for so long, what is dropped next has a window of its own."""
_LOG_CAPACITY: Final = 5000
_MARK_CAPACITY: Final = 500


class _Page(NamedTuple):
    """What the charts of one page have in common."""

    edges: tuple[float, float]
    until_s: float
    """Now, or the right edge."""
    points: Sequence[Point]
    marks: Sequence[ChartMark]
    windows: Sequence[FaultWindow]


@dataclass(slots=True)
class Picture:
    """The newest tick, the charts' history, marks, fault windows and the log; `shown` is what widgets
    draw, which stands still while the picture is frozen."""

    tick: Tick | None = None
    history: History = field(default_factory=History)
    log: deque[Event] = field(default_factory=lambda: deque(maxlen=_LOG_CAPACITY))
    marks: deque[ChartMark] = field(default_factory=lambda: deque(maxlen=_MARK_CAPACITY))
    windows: deque[FaultWindow] = field(default_factory=lambda: deque(maxlen=_MARK_CAPACITY))
    """Spans of a protection state that is a fault."""
    partitions: deque[FaultWindow] = field(default_factory=lambda: deque(maxlen=_MARK_CAPACITY))
    """Spans of a partition, each until events flow again."""
    faults: FaultWindows = field(default_factory=FaultWindows)
    """Of injected faults, each until it is cleared or its effect has ended."""
    restarts: deque[FaultWindow] = field(default_factory=lambda: deque(maxlen=_MARK_CAPACITY))
    """Moments at which a server restarted."""
    drops: deque[FaultWindow] = field(default_factory=lambda: deque(maxlen=_MARK_CAPACITY))
    """Spans in which an open loop dropped arrivals: the rate while it lasts, then how many."""
    origin_s: float = 0.0
    """When the first tick came: elapsed time counts from here."""
    page_s: float = DEFAULT_PAGE_S
    """Length of the charts' page."""
    log_scale: bool = False
    """The TPS axis is logarithmic."""
    as_density: bool = False
    """Latency is drawn as shades instead of lines."""
    _held: Picture | None = None
    """As it was when it was frozen."""
    _dropped: int = 0
    _dropped_s: float = -math.inf

    def fold(self, tick: Tick) -> None:
        """Take one tick; one from before the last starts over, as a replay does that jumps."""
        if self.tick is not None and tick.at_s < self.tick.at_s:
            self._begin_anew()
        if self.tick is None:
            self.origin_s = tick.at_s
        self.tick = tick
        self.history.feed(tick)
        self.log.extend(tick.events)
        self._watch_state(tick)
        self._watch_restarts(tick.nodes)
        self.faults.fold(tick)
        self._watch_partition(tick)
        for event in tick.events:
            if event.mark is not None:
                self.marks.append(ChartMark(self._drawn_s(event), event.mark))
        if tick.load is not None:
            self._watch_drops(tick.load, tick.at_s)

    def _begin_anew(self) -> None:
        """Forget what was folded; how it is looked at stays."""
        fresh = Picture(page_s=self.page_s, log_scale=self.log_scale, as_density=self.as_density)
        for each in fields(self):
            setattr(self, each.name, getattr(fresh, each.name))

    @property
    def elapsed_s(self) -> float:
        """Seconds since the first tick."""
        return self.tick.at_s - self.origin_s if self.tick else 0.0

    @property
    def recent(self) -> Recent:
        """The load's figures of now, all of one window."""
        return self.history.recent

    @property
    def shown(self) -> Picture:
        """What is drawn: this picture, or the one that is held."""
        return self._held or self

    @property
    def tick_of_knobs(self) -> Tick | None:
        """The tick beside the knobs: the held one, until a knob is turned behind the held picture."""
        held = self.shown.tick
        return held if held and self.tick and held.knobs == self.tick.knobs else self.tick

    @property
    def is_frozen(self) -> bool:
        """The picture is held; what comes is folded all the same."""
        return self._held is not None

    def freeze(self) -> bool:
        """Hold the picture or let it go; whether it is held now."""
        if self._held is not None or self.tick is None:
            self._held = None
            return False
        self._held = Picture(**{each.name: _apart(getattr(self, each.name)) for each in fields(self)})
        return True

    def zoom(self, steps: int) -> None:
        """A longer (positive) or shorter page."""
        self.page_s = zoomed(self.page_s, steps)

    def charts(self, *, wide: bool) -> tuple[ChartModel, ChartModel]:
        """TPS and latency over the present page."""
        page = self._page()
        tick, recent = self.shown.tick, self.shown.recent
        load = tick.load if tick else None
        above = tps_notes(tick, wide=wide) if tick else Notes((), "muted")
        below = latency_notes(load, recent)
        tps, latency = chart_models(
            page.points,
            page=page.edges,
            origin_s=self.shown.origin_s,
            marks=page.marks,
            windows=page.windows,
            log=self.log_scale,
            mode=load.mode if load else CLOSED,
            tps_notes=above.texts,
            tps_note_ink=above.ink,
            latency_notes=below.texts,
            latency_note_ink=below.ink,
            qps=qps_of(recent),
            window=window_words(recent, titled=True),
        )
        if load is not None and load.is_by_server:
            latency = server_latency_model(
                [(point.at_s, point.mean_ms) for point in page.points],
                page=page.edges,
                origin_s=self.shown.origin_s,
                marks=page.marks,
                windows=page.windows,
            )
        elif self.as_density:
            slices = self.shown.history.density.page(page.edges[0], page.until_s)
            latency = density_model(latency, slices)
        return tps, latency

    def exposure_chart(self) -> ChartModel:
        """What failures would lose, over the present page."""
        page = self._page()
        tick = self.shown.tick
        return exposure_model(
            page.points,
            tick.exposure if tick else None,
            page=page.edges,
            origin_s=self.shown.origin_s,
            marks=page.marks,
            windows=page.windows,
        )

    @property
    def all_windows(self) -> list[FaultWindow]:
        """Every window so far, causes first, those that are over with their length in words; one that lasts
        has no end."""
        lasting = (*self.faults.windows, *self.partitions, *self.windows)
        return [*(_with_length(one) for one in lasting), *self.drops, *self.restarts]

    def _page(self) -> _Page:
        """What of the shown picture is on the present page."""
        of = self.shown
        now_s = of.tick.at_s if of.tick else 0.0
        edges = page_of(now_s, of.origin_s, self.page_s)
        start_s, until_s = edges[0], min(edges[1], now_s)
        injected = [_as_of(now_s, one) for one in of.faults.windows if _in_page(one, start_s, now_s)]
        cuts = [_as_of(now_s, one) for one in of.partitions if _in_page(one, start_s, now_s)]
        faults = [_as_of(now_s, one) for one in of.windows if _in_page(one, start_s, now_s)]
        windows = [
            *(_with_length(one) for one in (*injected, *cuts)),
            *(_as_of(now_s, one) for one in of.drops if _in_page(one, start_s, now_s)),
            *(_with_length(one) for one in faults),
            *(one for one in of.restarts if _in_page(one, start_s, now_s)),
        ]
        marks = [mark for mark in of.marks if start_s <= mark.at_s <= now_s]
        return _Page(edges, until_s, of.history.page(start_s, until_s), marks, windows)

    def _watch_drops(self, load: LoadView, at_s: float) -> None:
        """A window of what an open loop drops is open while it drops, and a moment longer."""
        is_open = bool(self.drops) and self.drops[-1].end_s is None
        if load.dropped:
            self._dropped = load.dropped + (self._dropped if is_open else 0)
            self._dropped_s = at_s
            word = f"dropped {rate(self.recent.per_second('dropped'))}/s"
            if is_open:
                self.drops[-1] = replace(self.drops[-1], word=word)
            else:
                self.drops.append(
                    FaultWindow(at_s - load.duration_s, None, word, WindowKind.DROPPED, "dropped")
                )
        elif is_open and at_s - self._dropped_s >= _DROPS_APART_S:
            word = f"dropped {count(self._dropped)}"
            self.drops[-1] = replace(self.drops[-1], end_s=self._dropped_s, word=word)

    def _watch_state(self, tick: Tick) -> None:
        """A window from when a state began that is an outage until another did; a state that may be all
        a change's doing begins and ends none."""
        protection = tick.protection
        if not protection.settled:
            return
        since_s = tick.at_s if protection.since_s is None else protection.since_s
        word, kind = _fault_of(protection) if tick.state != "starting" else (None, WindowKind.DOWN)
        _follow(self.windows, word, kind, since_s)

    def _watch_restarts(self, nodes: Sequence[NodeView]) -> None:
        known = {(one.word, one.start_s) for one in self.restarts}
        for node in nodes:
            word = f"{node.name} restarted"
            if node.restarted_s is not None and (word, node.restarted_s) not in known:
                at_s = node.restarted_s
                self.restarts.append(FaultWindow(at_s, at_s, word, WindowKind.RESTART))

    def _watch_partition(self, tick: Tick) -> None:
        """A partition's window begins at its mark, where that has come, and lasts until events flow again."""
        words = () if self.faults.cuts_links else partition_words(tick.links)
        if words:
            near = [
                event.at_s
                for event in self.log
                if event.mark is not None
                and "partition" in event.text
                and tick.at_s - event.at_s <= _MARK_WITHIN_S
            ]
            at_s = max(near, default=tick.at_s)
            _follow(self.partitions, f"partition {', '.join(words)}", WindowKind.PARTITION, at_s)
        elif not any(link.partition is None or link.healing for link in tick.links):
            _follow(self.partitions, None, WindowKind.PARTITION, tick.at_s)

    def _drawn_s(self, event: Event) -> float:
        """Where a mark is drawn: that of a window, which comes when all is done, where the window begins."""
        began_s = self.faults.began_s(event.text)
        cut = self.partitions[-1] if self.partitions and "partition" in event.text else None
        if cut is not None and cut.end_s is None and abs(event.at_s - cut.start_s) <= _MARK_WITHIN_S:
            is_marked = any(mark.at_s == cut.start_s for mark in self.marks)
            began_s = None if is_marked else cut.start_s
        return event.at_s if began_s is None else began_s


def _apart(value: Any) -> Any:
    """A copy of what is added to, so that the held one stands; the rest is never changed."""
    if isinstance(value, History | FaultWindows):
        return value.copied()
    return value.copy() if isinstance(value, deque | list | dict) else value


def _fault_of(protection: Protection) -> tuple[str | None, WindowKind]:
    """Word and band of a protection state that is an outage; no word for one that is none."""
    if protection.state is ProtectionState.OFF and protection.requested and protection.since_s is not None:
        return _UNASKED
    return _FAULTS.get(protection.state, (None, WindowKind.DOWN))


def _follow(windows: deque[FaultWindow], word: str | None, kind: WindowKind, at_s: float) -> None:
    """A fault is a window: it opens with its word and closes with it."""
    last = windows[-1] if windows else None
    if last is not None and last.end_s is None:
        if last.word == word:
            return
        windows[-1] = replace(last, end_s=max(at_s, last.start_s))
    if word is not None:
        windows.append(FaultWindow(at_s, None, word, kind))


def _in_page(window: FaultWindow, start_s: float, now_s: float) -> bool:
    """Whether any of the window is between these moments."""
    return window.start_s <= now_s and (window.end_s or now_s) >= start_s


def _as_of(now_s: float, window: FaultWindow) -> FaultWindow:
    """The window as a picture of that moment shows it."""
    lasts = window.end_s is None or window.end_s > now_s
    return replace(window, end_s=None) if lasts else window


def _with_length(window: FaultWindow) -> FaultWindow:
    """The window with how long it was, once it is over."""
    if window.end_s is None:
        return window
    word = f"{window.word} {window.end_s - window.start_s:.1f} s"
    return replace(window, word=word, short=window.word)
