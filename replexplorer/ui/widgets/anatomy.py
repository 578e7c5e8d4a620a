"""Where the time of a commit goes, what limits it, and whether the servers' counters agree."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, zip_longest
from typing import Final, NamedTuple

from textual.reactive import reactive

from replexplorer.core.load.interval import SERVER
from replexplorer.core.server.anatomy import ACKS, Anatomy, Part
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.tick import Tick
from replexplorer.ui.style.theme import inks_of
from replexplorer.ui.terminal.glyphs import BRAILLE, Glyphs
from replexplorer.ui.widgets.lines import Cadence, Lines
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, cut, rule, spread, width_of
from replexplorer.ui.words.states import checks_runs, failed_runs, truth_runs

PATTERNS: Final[Mapping[Part, str]] = {
    Part.WIRE: "~",
    Part.EXECUTE: "=",
    Part.QUEUE: ".",
    Part.FSYNC_QUEUE: ",",
    Part.ACK_QUEUE: ";",
    Part.REDO: "%",
    Part.BINLOG: "#",
    Part.ACK: ":",
    Part.GROUP: "@",
    Part.ENGINE: "+",
    Part.OTHER: "?",
}
"""A part's character where there are no colours."""


class PartWords(NamedTuple):
    """How a part is written, from long to short."""

    full: str
    word: str
    short: str


WORDS: Final[Mapping[Part, PartWords]] = {
    Part.WIRE: PartWords("client + wire", "wire", "wire"),
    Part.EXECUTE: PartWords("execute", "execute", "exec"),
    Part.QUEUE: PartWords("queue", "queue", "queue"),
    Part.FSYNC_QUEUE: PartWords("fsync queue", "fsync queue", "fsyncQ"),
    Part.ACK_QUEUE: PartWords("ACK queue", "ACK queue", "ACKQ"),
    Part.REDO: PartWords("redo fsync", "redo", "redo"),
    Part.BINLOG: PartWords("binlog fsync", "binlog", "binlog"),
    Part.ACK: PartWords("ACK wait", "ACK wait", "ACK"),
    Part.GROUP: PartWords("group certifies", "group", "group"),
    Part.ENGINE: PartWords("engine commit", "engine", "engine"),
    Part.OTHER: PartWords("other", "other", "other"),
}
"""Every part."""


_Span = tuple[Part, float, float]
"""A part with its edges in cells."""


def part_ms(value: float) -> str:
    """Milliseconds with the tenth that a sum needs: `0.05`, `85.4`, `1240`."""
    if value < 0.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 999.95 else f"{value:.0f}"


def bar(parts: Mapping[Part, float], width: int, glyphs: Glyphs, *, tones: bool) -> list[Run]:
    """The parts in their order over exactly `width` cells, the long ones with their names inside."""
    shares = [(part, ms) for part, ms in parts.items() if ms > 0]
    total_ms = sum(ms for _, ms in shares)
    if not total_ms or width < 1:
        return []
    edges = [0.0]
    for _, ms in shares:
        edges.append(edges[-1] + ms / total_ms * width)
    spans = [(part, start, end) for (part, _), (start, end) in zip(shares, pairwise(edges), strict=True)]
    has_colors = tones and not glyphs.ascii
    cells = [
        _cell(spans, at, glyphs) if has_colors else _whole(spans, at, tones=tones) for at in range(width)
    ]
    for part, start, end in _waits_as_one(spans):
        ms = (end - start) / width * total_ms
        _label(cells, part, ms, math.ceil(start - 1e-9), math.floor(end + 1e-9), tones=tones)
    return _joined(cells)


def _waits_as_one(spans: list[_Span]) -> list[_Span]:
    """The spans as they are named: the two of the wait for an acknowledgement together."""
    acks = [span for span in spans if span[0] in ACKS]
    others = [span for span in spans if span[0] not in ACKS]
    return [*others, (Part.ACK, acks[0][1], acks[-1][2])] if acks else others


def _cell(spans: list[_Span], at: int, glyphs: Glyphs) -> Run:
    """One cell: a ground, or two neighbours with the edge between them where it is."""
    held = [(part, min(end, at + 1) - max(start, at)) for part, start, end in spans]
    inside = [(part, length) for part, length in held if length > 1e-9]
    widest = sorted(sorted(inside, key=lambda one: -one[1])[:2], key=inside.index)
    steps = len(glyphs.edges) + 1
    if len(widest) > 1:
        (left, length), (right, other) = widest
        step = round(length / (length + other) * steps)
        if 0 < step < steps:
            return glyphs.edges[step - 1], f"{left} on {right}"
        return " ", f"oncolor on {left if step else right}"
    return " ", f"oncolor on {widest[0][0]}"


def _whole(spans: list[_Span], at: int, *, tones: bool) -> Run:
    """One cell with the character of the part at its middle."""
    part = next((part for part, start, end in spans if start <= at + 0.5 < end), spans[-1][0])
    return PATTERNS[part], f"oncolor on {part}" if tones else "text"


def _label(cells: list[Run], part: Part, ms: float, first: int, last: int, *, tones: bool) -> None:
    """Write a part's name and time, or as much of it as fits, into the cells that it has alone."""
    text = _text_in(part, ms, last - first)
    start = first + (last - first - len(text)) // 2
    for at, char in enumerate(text, start):
        ground = cells[at][1].rpartition(" on ")[2]
        cells[at] = (char, f"oncolor on {ground} b" if tones else "title b")


def _text_in(part: Part, ms: float, cells: int) -> str:
    """The longest way to write a part into this many cells; empty where none fits."""
    full, word, short = WORDS[part]
    figure = part_ms(ms)
    texts = (f" {full} {figure} ms ", f" {word} {figure} ", f" {short} {figure} ", f" {word} ")
    return next((text for text in texts if len(text) + 2 <= cells), short if len(short) < cells else "")


def _joined(cells: list[Run]) -> list[Run]:
    """Neighbours of one style as one run."""
    runs: list[Run] = []
    for text, words in cells:
        if runs and runs[-1][1] == words:
            runs[-1] = (runs[-1][0] + text, words)
        else:
            runs.append((text, words))
    return runs


WIDE_FROM: Final = 100
"""Columns from which each part has its full name and its share."""
_EVERY_S: Final = 2.0
"""The parts are means of 5 s, and the bar is what costs a small line most."""
_EXCESS_SHARE: Final = 0.1
"""Of the mean, from which on parts that are more than the whole are shown."""
_PARTS: Final = (
    (
        (Part.WIRE, Part.EXECUTE, Part.QUEUE, Part.FSYNC_QUEUE, Part.REDO),
        (Part.BINLOG, Part.ENGINE, Part.ACK, Part.ACK_QUEUE, Part.OTHER),
    ),
    (
        (Part.WIRE, Part.EXECUTE, Part.GROUP, Part.QUEUE, Part.FSYNC_QUEUE),
        (Part.REDO, Part.BINLOG, Part.ENGINE, Part.OTHER),
    ),
)
"""The legend's two rows, and those in a group."""
_LEGEND_ROWS: Final = 2
_APART_CELLS: Final = 2
_FIGURE_CELLS: Final = 7 + _APART_CELLS
"""`■ `, a blank, a figure of four digits, and blanks behind it."""
_SHARE_CELLS: Final = 5
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

    DEFAULT_CSS = "AnatomyPanel { height: 6; }"

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
        if anatomy is None:
            stretch = f"   counters in {tick.truth.duration_s:.0f} s" if tick.truth else ""
            rows += [[(f" {_why_none(tick)}{stretch}", "muted")], *[[]] * _LEGEND_ROWS]
        else:
            rows += [*self._legend(anatomy, width), self._bar(anatomy, width)]
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

    def _legend(self, anatomy: Anatomy, width: int) -> list[Line]:
        """Every part in a place of its own, whatever the others are; `-` for what nothing was measured of."""
        is_group = Part.GROUP in (*anatomy.parts, *anatomy.untimed)
        at, has_shares, columns = _columns(is_group, width)
        return [
            [
                (" ", "text"),
                *(
                    run
                    for part, cells in zip(row, columns, strict=False)
                    for run in self._entry(anatomy, part, at, has_shares, cells)
                ),
            ]
            for row in _PARTS[is_group]
        ]

    def _entry(self, anatomy: Anatomy, part: Part, at: int, has_share: bool, cells: int) -> Line:
        """`■ redo 1.9 2%`; of an acknowledgement's wait, what was behind another group's, in brackets."""
        is_queued = part is Part.ACK_QUEUE
        ms = anatomy.parts.get(part) if is_queued else anatomy.named.get(part)
        has_colors = self._tones and not self.glyphs.ascii
        key: Run = ("■ ", part.value) if has_colors else (f"{PATTERNS[part]} ", "text b")
        figure = figures.UNKNOWN if ms is None else part_ms(ms)
        share = f" {ms / max(anatomy.mean_ms, 1e-9):.0%}" if has_share and ms is not None else ""
        entry: list[Run] = [key, (f"{_word(part, at)} ", "muted"), (figure, "text b")]
        entry.append((share + ")" * is_queued, "muted"))
        return [*entry, (" " * max(0, cells - width_of(entry)), "text")]


def _word(part: Part, at: int) -> str:
    """How a part is written in the legend."""
    return "(queued" if part is Part.ACK_QUEUE else WORDS[part][at]


@lru_cache(maxsize=16)
def _columns(is_group: bool, width: int) -> tuple[int, bool, Sequence[int]]:
    """How parts are written at this width, whether with their shares, and the cells of each column."""
    upper, lower = _PARTS[is_group]
    for at, has_shares in ((0, True), (1, True), (1, False), (2, False)):
        figure = _FIGURE_CELLS + _SHARE_CELLS * has_shares
        columns = [
            max(len(_word(part, at)) + (part is Part.ACK_QUEUE) for part in pair if part) + figure
            for pair in zip_longest(upper, lower)
        ]
        columns[-1] -= _APART_CELLS
        if sum(columns) < width:
            break
    return at, has_shares, columns


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
