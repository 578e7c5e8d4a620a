"""Everything that the screens draw from, folded from ticks in order; no tick's events are lost.

Law: a fault has one window, which begins where it was first drawn; its mark, which comes when all is done,
is there as well. A cut link of a fault that cuts links is in it; a `partition` is the link's.
"""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final

from replexplorer.core.event import Event
from replexplorer.core.fault import PARTITION_FAULT, Fault
from replexplorer.core.history.series import History, Point, Recent, page_of
from replexplorer.core.link import partition_words
from replexplorer.core.records import dataclass, field, replace
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.tick import Tick
from replexplorer.ui.charts.chart_model import ChartMark, ChartModel, FaultWindow, Page, WindowKind
from replexplorer.ui.charts.contents import (
    DEFAULT_PAGE_S,
    exposure_chart,
    lag_chart,
    latency_chart,
    tps_chart,
)

_OUTAGES: Final = {
    ProtectionState.BLOCKED: ("blocked", WindowKind.BLOCKED),
    ProtectionState.DEGRADED: ("degraded", WindowKind.DEGRADED),
    ProtectionState.DOWN: ("down", WindowKind.DOWN),
}
_UNASKED: Final = ("async", WindowKind.DEGRADED)
"""Semi-sync is off though it is asked for."""
_NEAR_S: Final = 2.0
"""The mark of a link that is cut comes this close to the tick that first shows that; and without any for so
long, what is dropped next has a window of its own."""
_CAPACITY: Final = 2000
_RANKS: Final = {WindowKind.FAULT: 0, WindowKind.PARTITION: 1, WindowKind.DROPPED: 2, WindowKind.RESTART: 4}
"""In which order they are drawn, causes first; states are 3."""


@dataclass(slots=True)
class Windows:
    """Follows states, faults, cut links, restarts and dropped arrivals from tick to tick."""

    ended: deque[FaultWindow] = field(default_factory=lambda: deque(maxlen=_CAPACITY))
    lasting: dict[Hashable, FaultWindow] = field(default_factory=dict)
    """By what they are of: `state`, `partition`, `drops`, or a fault's id."""
    _faults: dict[Hashable, Fault] = field(default_factory=dict)
    """In force, or over and their links not healed."""
    _dropped_s: float = -math.inf

    def all(self, now_s: float = math.inf) -> list[FaultWindow]:
        """Every window that had begun by then, as it was then: causes first, those that were over with their
        length in words."""
        windows = [one for one in (*self.ended, *self.lasting.values()) if one.start_s <= now_s]
        windows.sort(key=lambda one: _RANKS.get(one.kind, 3))
        return [
            _with_length(replace(one, end_s=None) if one.end_s is not None and one.end_s > now_s else one)
            for one in windows
        ]

    def fold(self, tick: Tick) -> None:
        """Take a tick."""
        self._follow_state(tick)
        self._follow_faults(tick)
        self._follow_partition(tick)
        self._follow_drops(tick)
        for node in tick.nodes:
            at_s = node.restarted_s
            if at_s is not None:
                restart = FaultWindow(at_s, at_s, f"{node.name} restarted", WindowKind.RESTART)
                if restart not in self.ended:
                    self.ended.append(restart)

    def drawn_s(self, event: Event) -> float:
        """Where a mark is drawn: that of a window where the window begins."""
        for key, fault in self._faults.items():
            if key in self.lasting and event.text.startswith(f"fault {fault}"):
                return self.lasting[key].start_s
        return event.at_s

    def _follow(self, key: Hashable, word: str | None, kind: WindowKind, at_s: float) -> None:
        """Open one with its word; it closes with it."""
        last = self.lasting.get(key)
        if last is not None and last.word != word:
            self._close(key, at_s)
        if word is not None:
            self.lasting.setdefault(key, FaultWindow(at_s, None, word, kind))

    def _close(self, key: Hashable, at_s: float) -> None:
        window = self.lasting.pop(key, None)
        if window is not None:
            self.ended.append(replace(window, end_s=max(at_s, window.start_s)))

    def _follow_state(self, tick: Tick) -> None:
        """From when a state began that is an outage until another did; a state that may be all a change's
        doing begins and ends none."""
        protection = tick.protection
        if not protection.settled:
            return
        word, kind = _OUTAGES.get(protection.state, (None, WindowKind.DOWN))
        if (
            protection.state is ProtectionState.OFF
            and protection.requested
            and protection.since_s is not None
        ):
            word, kind = _UNASKED
        since_s = tick.at_s if protection.since_s is None else protection.since_s
        self._follow("state", word if tick.state != "starting" else None, kind, since_s)

    def _follow_faults(self, tick: Tick) -> None:
        """As long as it is in force: until it is cleared or its effect has ended."""
        held: dict[Hashable, Fault] = {
            fault.id: fault for fault in tick.faults if fault.kind != PARTITION_FAULT
        }
        heals = any(link.healing for link in tick.links)
        for key, fault in {**self._faults, **held}.items():
            if key not in self._faults:
                self._faults[key] = fault
                since_s = round(tick.at_s - max(0.0, tick.wall_s - fault.since_wall_s), 3)
                self.lasting[key] = FaultWindow(since_s, None, str(fault), WindowKind.FAULT, fault.kind)
            if key not in held and not (fault.row.cuts_in_its_window and heals):
                self._close(key, tick.at_s)
            if key not in held and key not in self.lasting:
                del self._faults[key]

    def _follow_partition(self, tick: Tick) -> None:
        """Until events flow again."""
        is_faults = any(
            fault.row.cuts_in_its_window and key in self.lasting for key, fault in self._faults.items()
        )
        words = () if is_faults else partition_words(tick.links)
        if words:
            self._follow("partition", f"partition {', '.join(words)}", WindowKind.PARTITION, tick.at_s)
        elif not any(link.partition is None or link.healing for link in tick.links):
            self._close("partition", tick.at_s)

    def _follow_drops(self, tick: Tick) -> None:
        """While an open loop drops arrivals, and a moment longer."""
        load, last = tick.load, self.lasting.get("drops")
        if load is not None and load.dropped:
            self._dropped_s = tick.at_s
            self._follow("drops", "dropped", WindowKind.DROPPED, tick.at_s - load.duration_s)
        elif last is not None and tick.at_s - self._dropped_s >= _NEAR_S:
            self._close("drops", self._dropped_s)


def _with_length(window: FaultWindow) -> FaultWindow:
    """The window with how long it was, once it is over."""
    if window.end_s is None or window.kind is WindowKind.RESTART:
        return window
    word = f"{window.word} {window.end_s - window.start_s:.1f} s"
    return replace(window, word=word, short=window.word)


_LOG_CAPACITY: Final = 5000
_MARK_CAPACITY: Final = 500


_TELLS: Final[Sequence[tuple[str, Mapping[str, Any]]]] = (
    (r"\w*tps|n|(?!rtt|fsync)\w+_ms", {"load": None, "anatomy": None, "truth": None}),
    (r"fsync_ms", {"disks": (), "anatomy": None}),
    (r"rtt_ms", {"links": ()}),
    (r"lag\w*|queued|drain_s", {"truth": None}),
    (r"\w*lost|process_dies|power_cut", {"exposure": None}),
)
"""Figures, and what of a tick shows them."""
_OF_LOAD: Final[Mapping[str, Any]] = dict.fromkeys(
    ("tps", "qps", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms", "service", "response")
)
_UNTOLD: Final[Mapping[str, Any]] = {
    "after_tps": None,
    "delta_percent": None,
    "n": 0,
    "after": None,
    "verdict": "measuring",
}


def veiled(tick: Tick, figure: str) -> Tick:
    """The tick before a room that is asked for this figure (`tps / local.tps`): without prediction, ceiling,
    the newest epoch's figures and what else would tell the answer."""
    hidden: dict[str, Any] = {"ceiling": None, "predicted": None}
    names = re.findall(r"\w+", figure)
    for figures, parts in _TELLS:
        hidden |= parts if any(re.fullmatch(figures, name) for name in names) else {}
    if "load" in hidden and tick.load is not None:
        hidden["load"] = replace(tick.load, n=0, **_OF_LOAD)
    elif "truth" in hidden:
        hidden["nodes"] = tuple(replace(node, lag_s=None) for node in tick.nodes)
    if "unprotected" in names:
        hidden["protection"] = replace(tick.protection, unprotected=None)
    newest = [replace(each, **_UNTOLD) for each in tick.epochs[-1:]]
    return replace(tick, **hidden, epochs=(*tick.epochs[:-1], *newest))


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
    recent: Recent = field(default_factory=Recent)
    """The load's figures of now, all of one window."""
    origin_s: float = 0.0
    """When the first tick came: elapsed time counts from here."""
    page_s: float = DEFAULT_PAGE_S
    """Length of the charts' page."""
    log_scale: bool = False
    """The TPS axis is logarithmic."""
    _held: Picture | None = None
    """As it was when it was frozen: its history, marks and windows go on, and are drawn up to its tick."""

    def fold(self, tick: Tick) -> None:
        """Take one tick; one from before the last starts over, as a replay does that jumps."""
        if self.tick is None or tick.at_s < self.tick.at_s:
            fresh = Picture()
            self.history, self.log, self.marks, self.windows = (
                fresh.history, fresh.log, fresh.marks, fresh.windows,
            )  # fmt: skip
            self.origin_s = tick.at_s
        self.tick = tick
        self.history.feed(tick)
        self.recent = self.history.recent
        self.log.extend(tick.events)
        self.windows.fold(tick)
        for event in tick.events:
            if event.mark is not None:
                self.marks.append(ChartMark(self.windows.drawn_s(event), event.mark))

    @property
    def elapsed_s(self) -> float:
        """Seconds since the first tick."""
        return self.tick.at_s - self.origin_s if self.tick else 0.0

    @property
    def shown(self) -> Picture:
        """What is drawn: this picture, or the one that is held."""
        return self._held or self

    @property
    def tick_of_knobs(self) -> Tick | None:
        """The tick next to the knobs: the held one, until a knob is turned behind the held picture."""
        held = self.shown.tick
        return held if held and self.tick and held.knobs == self.tick.knobs else self.tick

    @property
    def is_frozen(self) -> bool:
        """The picture is held; what comes is folded all the same."""
        return self._held is not None

    def freeze(self) -> None:
        """Hold the picture, or let it go."""
        is_held = self._held is not None or self.tick is None
        self._held = None if is_held else replace(self, log=self.log.copy())

    def hold(self, past: Picture) -> None:
        """In place of the picture that is held, this one, of another moment."""
        if self.is_frozen and past.tick:
            self._held = past

    def chart(self, name: str) -> ChartModel:
        """`tps`, `latency`, `lag`, or `exposure`: what failures would lose; over the present page."""
        page, points = self._page()
        tick, recent = self.shown.tick, self.shown.recent
        if name == "tps":
            return tps_chart(page, points, tick, recent, log=self.log_scale)
        if name == "latency":
            return latency_chart(page, points, tick.load if tick else None, recent)
        if name == "lag":
            return lag_chart(page, points, tick)
        return exposure_chart(page, points, tick.exposure if tick else None)

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
