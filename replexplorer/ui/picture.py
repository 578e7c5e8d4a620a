"""Everything that the screens draw from, folded from ticks in order; no tick's events are lost."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from replexplorer.core.series import History, Point, page_of
from replexplorer.core.tick import Ceiling, Event, ProtectionState, Tick
from replexplorer.ui.chart_model import (
    DEFAULT_PAGE_S,
    ChartMark,
    ChartModel,
    FaultWindow,
    chart_models,
    zoomed,
)
from replexplorer.ui.figures import rate, round_trip

_FAULTS: Final = {
    ProtectionState.BLOCKED: "blocked",
    ProtectionState.DEGRADED: "degraded",
    ProtectionState.DOWN: "down",
}
_LOG_CAPACITY: Final = 5000
_MARK_CAPACITY: Final = 500


@dataclass(slots=True)
class Picture:
    """The newest tick, the charts' history, marks, fault windows and the log."""

    tick: Tick | None = None
    history: History = field(default_factory=History)
    log: deque[Event] = field(default_factory=lambda: deque(maxlen=_LOG_CAPACITY))
    marks: deque[ChartMark] = field(default_factory=lambda: deque(maxlen=_MARK_CAPACITY))
    windows: deque[FaultWindow] = field(default_factory=lambda: deque(maxlen=_MARK_CAPACITY))
    origin_s: float = 0.0
    """When the first tick came: elapsed time counts from here."""
    page_s: float = DEFAULT_PAGE_S
    """Length of the charts' page."""
    log_scale: bool | None = None
    """The TPS axis: None picks by the values."""
    frozen_at_s: float | None = None
    """The charts and the table stand still since then."""

    def fold(self, tick: Tick) -> None:
        """Take one tick."""
        if self.tick is None:
            self.origin_s = tick.at_s
        self.tick = tick
        self.history.feed(tick)
        self.log.extend(tick.events)
        self.marks.extend(
            ChartMark(event.at_s, event.mark) for event in tick.events if event.mark is not None
        )
        self._watch_faults(tick)

    @property
    def elapsed_s(self) -> float:
        """Seconds since the first tick."""
        return self.tick.at_s - self.origin_s if self.tick else 0.0

    @property
    def point(self) -> Point | None:
        """The newest point of the charts, its percentiles merged back until they hold."""
        return self.history.points[-1] if self.history.points else None

    def freeze(self) -> bool:
        """Hold the picture or let it go; whether it is held now."""
        held = self.frozen_at_s is None and self.tick is not None
        self.frozen_at_s = self.tick.at_s if held and self.tick else None
        return held

    def zoom(self, steps: int) -> None:
        """A longer (positive) or shorter page."""
        self.page_s = zoomed(self.page_s, steps)

    def next_scale(self) -> None:
        """The TPS axis: automatic, linear, logarithmic, automatic."""
        self.log_scale = {None: False, False: True, True: None}[self.log_scale]

    def charts(self, *, wide: bool) -> tuple[ChartModel, ChartModel]:
        """TPS and latency over the present page."""
        now_s = self.frozen_at_s if self.frozen_at_s is not None else (self.tick.at_s if self.tick else 0.0)
        page = page_of(now_s, self.origin_s, self.page_s)
        points = self.history.page(page[0], min(page[1], now_s))
        marks = [mark for mark in self.marks if page[0] <= mark.at_s <= now_s]
        windows = [one for one in self.windows if one.start_s <= now_s and (one.end_s or now_s) >= page[0]]
        ceiling = self.tick.ceiling if self.tick else None
        return chart_models(
            points,
            page=page,
            origin_s=self.origin_s,
            marks=marks,
            windows=windows,
            formula=formula(ceiling, wide=wide) if ceiling else "",
            log=self.log_scale,
        )

    def _watch_faults(self, tick: Tick) -> None:
        """A fault is a window: it opens with the state and closes with it."""
        word = _FAULTS.get(tick.protection.state) if tick.state != "starting" else None
        last = self.windows[-1] if self.windows else None
        if last is not None and last.end_s is None:
            if last.word == word:
                return
            self.windows[-1] = FaultWindow(last.start_s, tick.at_s, last.word)
        if word is not None:
            self.windows.append(FaultWindow(tick.at_s, None, word))


def formula(ceiling: Ceiling, *, wide: bool) -> str:
    """The bound with its numbers: `ceiling 48 ÷ (85.4 + 3.0 ms) = 543/s`."""
    rtt, local = round_trip(ceiling.rtt_ms), round_trip(ceiling.local_ms)
    if not ceiling.local_ms:
        return f"ceiling {ceiling.clients} ÷ {rtt} ms = {rate(ceiling.tps)}/s"
    if wide:
        return f"ceiling = {ceiling.clients} clients ÷ ({rtt} ack + {local} local) ms = {rate(ceiling.tps)}/s"
    return f"ceiling {ceiling.clients} ÷ ({rtt} + {local} ms) = {rate(ceiling.tps)}/s"
