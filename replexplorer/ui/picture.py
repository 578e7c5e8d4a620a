"""Everything that the screens draw from, folded from ticks in order; no tick's events are lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Final

from replexplorer.core.event import Event
from replexplorer.core.history.series import History, Point, Recent, page_of
from replexplorer.core.tick import Tick
from replexplorer.ui.charts.chart_model import ChartMark, ChartModel, Page
from replexplorer.ui.charts.contents import DEFAULT_PAGE_S, exposure_chart, latency_chart, tps_chart, zoomed
from replexplorer.ui.windows import Windows

_LOG_CAPACITY: Final = 5000
_MARK_CAPACITY: Final = 500


@dataclass(slots=True)
class Picture:
    """The newest tick, the charts' history, marks, fault windows and the log; `shown` is what widgets
    draw, which stands still while the picture is frozen."""

    tick: Tick | None = None
    history: History = field(default_factory=History)
    log: deque[Event] = field(default_factory=lambda: deque(maxlen=_LOG_CAPACITY))
    marks: deque[ChartMark] = field(default_factory=lambda: deque(maxlen=_MARK_CAPACITY))
    windows: Windows = field(default_factory=Windows)
    """What was wrong from when until when."""
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

    def fold(self, tick: Tick) -> None:
        """Take one tick; one from before the last starts over, as a replay does that jumps."""
        if self.tick is not None and tick.at_s < self.tick.at_s:
            self._begin_anew()
        if self.tick is None:
            self.origin_s = tick.at_s
        self.tick = tick
        self.history.feed(tick)
        self.log.extend(tick.events)
        self.windows.fold(tick, self.recent)
        for event in tick.events:
            if event.mark is not None:
                self.marks.append(ChartMark(self.windows.drawn_s(event), event.mark))

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

    def charts(self) -> tuple[ChartModel, ChartModel]:
        """TPS and latency over the present page."""
        page, points = self._page()
        tick, recent = self.shown.tick, self.shown.recent
        density = None
        if self.as_density:
            until_s = min(page.end_s, tick.at_s if tick else 0.0)
            density = self.shown.history.density.page(page.start_s, until_s)
        return (
            tps_chart(page, points, tick, recent, log=self.log_scale),
            latency_chart(page, points, tick.load if tick else None, recent, density),
        )

    def exposure_chart(self) -> ChartModel:
        """What failures would lose, over the present page."""
        tick = self.shown.tick
        return exposure_chart(*self._page(), tick.exposure if tick else None)

    def _page(self) -> tuple[Page, Sequence[Point]]:
        """What of the shown picture is on the present page, and its points."""
        of = self.shown
        now_s = of.tick.at_s if of.tick else 0.0
        edges = page_of(now_s, of.origin_s, self.page_s)
        start_s, until_s = edges[0], min(edges[1], now_s)
        windows = (one for one in of.windows.all(now_s) if one.end_s is None or one.end_s >= start_s)
        marks = (mark for mark in of.marks if start_s <= mark.at_s <= now_s)
        page = Page(*edges, of.origin_s, tuple(marks), tuple(windows))
        return page, of.history.page(start_s, until_s)


def _apart(value: Any) -> Any:
    """A copy of what is added to, so that the held one stands; the rest is never changed."""
    if isinstance(value, History | Windows):
        return value.copied()
    return value.copy() if isinstance(value, deque | list | dict) else value
