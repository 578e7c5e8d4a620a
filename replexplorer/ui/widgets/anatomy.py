"""Where the time of a commit goes, what limits it, and whether the servers' counters agree."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import accumulate, groupby, pairwise, zip_longest
from typing import Final, NamedTuple

from replexplorer.core.load.interval import SERVER
from replexplorer.core.server.anatomy import ACKS, Anatomy, Part
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.tick import Tick
from replexplorer.ui.style.theme import inks_of
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import (
    Line,
    Run,
    apart,
    fit,
    fit_text,
    joined,
    padded,
    pair,
    rule,
    spread,
    width_of,
)
from replexplorer.ui.words.states import checks_runs, failed_runs, truth_runs


class PartWords(NamedTuple):
    """How a part is written."""

    pattern: str
    """Its character where there are no colors."""
    full: str
    short: str


WORDS: Final[Mapping[Part, PartWords]] = {
    Part.WIRE: PartWords("~", "client + wire", "wire"),
    Part.EXECUTE: PartWords("=", "execute", "exec"),
    Part.QUEUE: PartWords(".", "queue", "queue"),
    Part.FSYNC_QUEUE: PartWords(",", "fsync queue", "fsyncQ"),
    Part.ACK_QUEUE: PartWords(";", "(queued", "(queued"),
    Part.REDO: PartWords("%", "redo fsync", "redo"),
    Part.BINLOG: PartWords("#", "binlog fsync", "binlog"),
    Part.ACK: PartWords(":", "ACK wait", "ACK"),
    Part.GROUP: PartWords("@", "group certifies", "group"),
    Part.ENGINE: PartWords("+", "engine commit", "engine"),
    Part.OTHER: PartWords("?", "other", "other"),
}
"""How long an acknowledgement was behind another group's is a part of the wait for it, in brackets."""


def part_ms(value: float) -> str:
    """Milliseconds with the tenth that a sum needs: `0.05`, `85.4`, `1240`."""
    if value < 0.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 999.95 else f"{value:.0f}"


def bar(parts: Mapping[Part, float], width: int, *, tones: bool) -> list[Run]:
    """The parts in their order over exactly `width` cells, the long ones with their names inside; each cell
    is of the part at its middle."""
    shares = [(part, ms) for part, ms in parts.items() if ms > 0]
    total_ms = sum(ms for _, ms in shares)
    if not total_ms or width < 1:
        return []
    edges = [round(end / total_ms * width) for end in accumulate((ms for _, ms in shares), initial=0.0)]
    cells: list[Run] = []
    for (part, _), (start, end) in zip(shares, pairwise(edges), strict=True):
        char, ink = (" ", f"oncolor on {part}") if tones else (WORDS[part].pattern, "text")
        cells += [(char, ink)] * (end - start)
    # The two parts of the wait for an acknowledgement are named as one.
    named = groupby(enumerate(shares), lambda one: Part.ACK if one[1][0] in ACKS else one[1][0])
    for part, group in named:
        found = list(group)
        first, last = edges[found[0][0]], edges[found[-1][0] + 1]
        _, full, short = WORDS[part]
        figure = part_ms(sum(ms for _, (_, ms) in found))
        text = fit_text((f" {full} {figure} ms ", f" {short} {figure} ", short, ""), last - first - 1)
        for at, char in enumerate(text, first + (last - first - len(text)) // 2):
            cells[at] = (char, f"{cells[at][1]} b" if tones else "title b")
    return joined(cells)


WIDE_FROM: Final = 100
"""Columns from which each part has its full name and its share."""
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
_FIGURE_CELLS: Final = 7
"""`■ `, a blank and a figure of four digits."""
_BAR_AT: Final = 24
"""Column of the bar, after `commit 88.4 ms in 5 s`."""
_OF_LOADS: Final = {
    "running": "measuring…",
    SERVER: "the server has timed no commit (autocommit is timed only on request)",
    "waiting": "the load waits for a server that takes writes",
}
"""By the load's state, why there is nothing to take apart yet."""
_WAITS: Final = {
    "after_sync": "AFTER_SYNC: acknowledged before the engine commits",
    "after_commit": "AFTER_COMMIT: visible before it is acknowledged",
}


class AnatomyPanel(Lines[Tick]):
    """Rule, legend, bar, what limits, what the counters say; a bar alone where there is one row."""

    DEFAULT_CSS = "AnatomyPanel { height: 6; }"

    def draw(self, shown: Tick, width: int, height: int) -> list[Line]:
        """The rows at this size."""
        anatomy, truth = shown.anatomy, shown.truth
        failed, held = failed_runs(truth), checks_runs(truth)
        if height == 1 and failed:  # a check that failed comes before the bar
            return [[(" ", "text"), *failed]]
        if height == 1:
            return [self._bar(anatomy, width) if anatomy else [(f" commit: {_why_none(shown)}", "muted")]]
        rows: list[Line] = [rule(*_title(shown, width), width)]
        if anatomy is None:
            stretch = f"   counters in {truth.duration_s:.0f} s" if truth else ""
            rows += [[(f" {_why_none(shown)}{stretch}", "muted")], [], []]
        else:
            rows += [*self._legend(anatomy, width), self._bar(anatomy, width)]
        room = width - width_of(failed) - width_of(held) - 2
        facts = [(" ", "text"), *failed, *truth_runs(truth, room, anatomy)]
        return [*rows, _limit(shown, width), spread(facts, held, width)]

    @property
    def _tones(self) -> bool:
        return inks_of(self.app).tones and not self.glyphs.ascii

    def _bar(self, anatomy: Anatomy, width: int) -> Line:
        """`commit 88.4 ms in 5 s` and its parts: the mean of that stretch."""
        figure = f"{part_ms(anatomy.mean_ms)} ms"
        head: list[Run] = [(" commit ", "muted"), (figure, "warn b" if _excess_of(anatomy) else "title b")]
        head.append((f" in {anatomy.duration_s:.0f} s", "muted"))
        head.append((" " * max(1, _BAR_AT - width_of(head)), "text"))
        return [*head, *bar(anatomy.parts, width - width_of(head) - 1, tones=self._tones)]

    def _legend(self, anatomy: Anatomy, width: int) -> list[Line]:
        """Every part in a place of its own, whatever the others are; `-` for what nothing was measured of."""
        parts = _PARTS[Part.GROUP in (*anatomy.parts, *anatomy.untimed)]
        columns = [
            max(len(WORDS[part].short) + (part is Part.ACK_QUEUE) for part in column if part) + _FIGURE_CELLS
            for column in zip_longest(*parts)
        ]
        return [
            [(" ", "text"), *apart(map(padded, map(partial(self._entry, anatomy), row), columns), "  ")]
            for row in parts
        ]

    def _entry(self, anatomy: Anatomy, part: Part) -> Line:
        """`■ redo 1.9`."""
        is_queued = part is Part.ACK_QUEUE
        ms = (anatomy.parts if is_queued else anatomy.named).get(part)
        pattern, _, word = WORDS[part]
        key: Run = ("■ ", part.value) if self._tones else (f"{pattern} ", "text b")
        figure = figures.UNKNOWN if ms is None else part_ms(ms)
        return [key, *pair(word, figure, "text b"), (")" * is_queued, "muted")]


def _title(tick: Tick, width: int) -> tuple[Line, Line]:
    """The wait point in words; parts that are more than the whole, or how many commits these are."""
    anatomy = tick.anatomy
    title: Line = [("Commit anatomy ", "title b"), (_wait_words(tick.protection), "muted")]
    if excess := _excess_of(anatomy):
        warning: Line = [(f"▲ {excess}", "warn b")]
        return (title, warning) if width >= WIDE_FROM else ([title[0], *warning], [])
    if anatomy is None or width < WIDE_FROM:
        return title, []
    whose = "the server's mean" if tick.load is not None and tick.load.is_by_server else "mean"
    mean = f"{whose} of {figures.count(anatomy.commits)} commits"
    words = "; ".join(filter(None, (anatomy.untimed_words, mean)))
    return title, [(fit_text((words, mean), width - width_of(title) - 5), "muted")]


def _wait_words(protection: Protection) -> str:
    """The wait point in words."""
    if protection.state is ProtectionState.OFF:
        return "asynchronous: no replica is waited for"
    if protection.state is ProtectionState.DEGRADED:
        return "fell back: no replica is waited for"
    return _WAITS.get(protection.wait_point or "", "")


def _excess_of(anatomy: Anatomy | None) -> str:
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
    """What limits now, by the model, in as many clauses as fit; with room, the mean that it predicts
    before it and where it comes from behind it."""
    predicted = tick.predicted
    if predicted is None:
        return []
    clauses = predicted.limit.split("; ")
    rows: list[Line] = [
        [(" ", "muted"), ("; ".join(clauses[:count]), "text")] for count in range(len(clauses), 0, -1)
    ]
    if width < WIDE_FROM:
        return fit(rows, width)
    expected = f" predicted {part_ms(predicted.latency_ms)} ms "
    origin = f"model of {predicted.calibrated}" if predicted.calibrated else "shipped model"
    row = fit([[(expected, "muted"), *rows[0]], *rows], width)
    fits = width_of(row) + len(origin) + 2 < width
    return spread(row, [(origin, "faint")], width - 1) if fits else row
