"""Where the time of a commit goes, what limits it, and whether the servers' counters agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from textual.reactive import reactive

from replexplorer.core.load.load_view import SERVER
from replexplorer.core.server.anatomy import Anatomy, Part
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.tick import Tick
from replexplorer.ui.style.theme import inks_of
from replexplorer.ui.terminal.glyphs import BRAILLE, Glyphs
from replexplorer.ui.widgets.anatomy_bar import PATTERNS, WORDS, bar, named, part_ms
from replexplorer.ui.widgets.lines import Cadence, Lines
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, cut, rule, spread, width_of
from replexplorer.ui.words.truth import checks_runs, failed_runs, truth_runs

WIDE_FROM: Final = 100
"""Columns from which each part has its full name and its share."""
_EVERY_S: Final = 2.0
"""The parts are means of 5 s, and the bar is what costs a small line most."""
_EXCESS_SHARE: Final = 0.1
"""Of the mean, from which on parts that are more than the whole are shown."""
_SAID_FROM: Final = 0.01
"""Of the wait for an acknowledgement, from which on its queue is worth a word."""
_TIGHT: Final = 3
"""A legend's entries with short words and no blank after their colour."""
_BAR_AT: Final = 24
"""Column of the bar, after `commit 88.4 ms in 5 s`."""
_OF_LOADS: Final = {
    "running": "measuring…",
    SERVER: "the server has timed no commit (autocommit is not timed unless it is told to)",
    "waiting": "the load waits for a server that takes writes",
}
"""By the load's state, why there is nothing to take apart yet."""
_WAITS: Final = {
    "after_sync": "AFTER_SYNC: acknowledged before the engine commits",
    "after_commit": "AFTER_COMMIT: visible before it is acknowledged",
}


class AnatomyPanel(Lines):
    """Rule, legend, bar, what limits, what the counters say; a bar alone where there is one row."""

    DEFAULT_CSS = "AnatomyPanel { height: 5; }"

    tick: reactive[Tick | None] = reactive(None)
    """The picture."""

    def __init__(
        self, *, glyphs: Glyphs = BRAILLE, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(glyphs=glyphs, id=id, classes=classes)
        self._cadence = Cadence(_EVERY_S)

    def watch_tick(self) -> None:
        """Draw the parts, where it is time to."""
        if self.tick is None or self._cadence.is_due(self.tick.at_s, _words_of(self.tick)):
            self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """The rows at this size."""
        tick = self.tick
        if tick is None:
            return []
        if height == 1:
            return [self._row(tick, width)]
        anatomy = tick.anatomy
        rows: list[Line] = [rule(*self._title(tick, width), width)]
        legends = height - 4
        if anatomy is None:
            stretch = f"   counters in {tick.truth.duration_s:.0f} s" if tick.truth else ""
            rows += [[(f" {_why_none(tick)}{stretch}", "muted")], *[[]] * legends]
        else:
            told = self._legend(anatomy, width, legends)
            rows += [*told, *[[]] * (legends - len(told)), self._bar(anatomy, width)]
        rows.append(_limit(tick, width))
        failed, held = failed_runs(tick.truth), checks_runs(tick.truth)
        room = width - width_of(failed) - width_of(held) - 2
        rows.append(spread([(" ", "text"), *failed, *truth_runs(tick.truth, room, anatomy)], held, width))
        return rows

    @property
    def _tones(self) -> bool:
        return inks_of(self.app).tones

    def _title(self, tick: Tick, width: int) -> tuple[Line, Line]:
        """The wait point in words; parts that are more than the whole, or how many commits these are."""
        anatomy = tick.anatomy
        title: Line = [("Commit anatomy ", "title b"), (wait_words(tick.protection), "muted")]
        if excess := excess_of(anatomy):
            told: Line = [(f"▲ {excess}", "warn b")]
            return (title, told) if width >= WIDE_FROM else ([title[0], *told], [])
        if anatomy is None or width < WIDE_FROM:
            return title, []
        mean = f"mean of {figures.count(anatomy.commits)} commits"
        if tick.load is not None and tick.load.is_by_server:
            mean = f"the server's mean of {figures.count(anatomy.commits)} commits"
        words = "; ".join(filter(None, (anatomy.untimed_words, mean)))
        return title, [(words if len(words) + width_of(title) + 4 < width else mean, "muted")]

    def _row(self, tick: Tick, width: int) -> Line:
        """A small screen's: a check that failed comes before the bar."""
        if failed := failed_runs(tick.truth):
            return cut([(" ", "text"), *failed], width, self.glyphs.ellipsis)
        if tick.anatomy is None:
            return [(f" commit: {_why_none(tick)}", "muted")]
        return self._bar(tick.anatomy, width)

    def _bar(self, anatomy: Anatomy, width: int) -> Line:
        """`commit 88.4 ms in 5 s` and its parts: the mean of that stretch."""
        figure = f"{part_ms(anatomy.mean_ms)} ms"
        head: list[Run] = [(" commit ", "muted"), (figure, "warn b" if excess_of(anatomy) else "title b")]
        head.append((f" in {anatomy.duration_s:.0f} s", "muted"))
        head.append((" " * max(1, _BAR_AT - width_of(head)), "text"))
        return [*head, *bar(anatomy.parts, width - width_of(head) - 1, self.glyphs, tones=self._tones)]

    def _legend(self, anatomy: Anatomy, width: int, rows: int) -> list[Line]:
        """Every part with its time; where they do not fit, those that the bar does not name, and where
        these do not the least ones are summed up at the end."""
        parts = list(anatomy.named)
        for at, gap in ((0, 3), (1, 2), (2, 2), (2, 1)):
            entries = [self._entry(anatomy, part, at) for part in parts]
            laid = _flowed(entries, width, gap, rows)
            if laid is not None:
                return laid
        inside = named(anatomy.named, width - _BAR_AT - 1)
        parts = [part for part in parts if part not in inside]
        for at, gap in ((1, 2), (2, 2), (2, 1), (_TIGHT, 1)):
            entries = [self._entry(anatomy, part, at) for part in parts]
            if (laid := _flowed(entries, width, gap, rows)) is not None:
                return laid
        kept = sorted(parts, key=lambda part: (part is Part.OTHER, anatomy.named[part]), reverse=True)
        while len(kept) > 1:
            kept.pop()
            entries = [self._entry(anatomy, part, 2) for part in parts if part in kept]
            rest = [part for part in parts if part not in kept]
            sum_ms = sum(anatomy.named[part] for part in rest)
            entries.append([(f"+{len(rest)} parts {part_ms(sum_ms)}", "muted")])
            if (laid := _flowed(entries, width, 1, rows)) is not None:
                return laid
        return []

    def _entry(self, anatomy: Anatomy, part: Part, at: int) -> Line:
        """`■ redo 1.9`; with the full name the share too, and how much of an acknowledgement's wait was
        behind another group's."""
        ms, has_colors = anatomy.named[part], self._tones and not self.glyphs.ascii
        blank = "" if at == _TIGHT else " "
        key: Run = (f"■{blank}", part.value) if has_colors else (f"{PATTERNS[part]}{blank}", "text b")
        figure: list[Run] = [(part_ms(ms), "text b")]
        if at == 0:
            figure += [(f" ms {ms / max(anatomy.mean_ms, 1e-9):.0%}", "muted")]
        if at <= 1 and part is Part.ACK and (queued_ms := anatomy.ms_of(Part.ACK_QUEUE)) >= _SAID_FROM * ms:
            figure += [(f" ({part_ms(queued_ms)} queued)", "muted")]
        return [key, (f"{WORDS[part][min(at, 2)]} ", "muted"), *figure]


def _words_of(tick: Tick) -> object:
    """What the panel says besides its figures."""
    return (
        wait_words(tick.protection),
        tick.anatomy is None and _why_none(tick),
        bool(excess_of(tick.anatomy)),
        tick.predicted is None,
        bool(failed_runs(tick.truth)),
    )


def wait_words(protection: Protection) -> str:
    """The wait point in words."""
    if protection.state is ProtectionState.OFF:
        return "asynchronous: no replica is waited for"
    if protection.state is ProtectionState.DEGRADED:
        return "fell back: no replica is waited for"
    return _WAITS.get(protection.wait_point or "", "")


def excess_of(anatomy: Anatomy | None) -> str:
    """By how much the parts are more than the whole, where that is worth a word."""
    if anatomy is None or anatomy.excess_ms <= _EXCESS_SHARE * anatomy.mean_ms:
        return ""
    return f"parts exceed the mean by {part_ms(anatomy.excess_ms)} ms"


def _why_none(tick: Tick) -> str:
    """Why there is no anatomy."""
    if tick.viewer:
        return "another app drives the load"
    return _OF_LOADS.get(tick.load.state if tick.load is not None else "", "no load runs")


def _limit(tick: Tick, width: int) -> Line:
    """What limits now, by the model, in as many clauses as fit; with room, what it predicts before it
    and where it comes from behind it."""
    predicted = tick.predicted
    if predicted is None:
        return []
    head = f" predicted {figures.rate(predicted.tps)}/s at {part_ms(predicted.latency_ms)} ms  "
    clauses = predicted.limit.split("; ")
    if width < WIDE_FROM or len(head) + len(predicted.limit) > width:
        head = " "
    while len(clauses) > 1 and len(head) + len("; ".join(clauses)) > width:
        clauses.pop()
    row: Line = [(head, "muted"), ("; ".join(clauses), "text")]
    origin: Line = [
        (f"model of {predicted.calibrated}" if predicted.calibrated else "shipped model", "faint")
    ]
    fits = width >= WIDE_FROM and width_of(row) + width_of(origin) + 2 < width
    return spread(row, origin, width - 1) if fits else row


def _flowed(entries: Sequence[Line], width: int, gap: int, rows: int) -> list[Line] | None:
    """The entries from left to right over at most this many rows; None when they do not fit."""
    laid: list[list[Run]] = [[(" ", "text")]]
    for entry in entries:
        if width_of(laid[-1]) + (gap if len(laid[-1]) > 1 else 0) + width_of(entry) > width:
            laid.append([(" ", "text")])
        elif len(laid[-1]) > 1:
            laid[-1].append((" " * gap, "text"))
        laid[-1] += entry
    fits = len(laid) <= rows and all(width_of(row) <= width for row in laid)
    return list(laid) if fits else None
