"""One commit's time as a bar on a true scale: each part as long as its share, to an eighth of a cell.

Law: nothing is widened to be seen; what is too short for the bar stands in the legend. Where colours
cannot tell the parts apart each has a character of its own. The wait for an acknowledgement behind another
group's has a colour of its own and no name: `ACK wait` is written over both, with the time of both.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from replexplorer.core.server.anatomy import ACKS, Part
from replexplorer.ui.terminal.glyphs import Glyphs
from replexplorer.ui.words.runs import Run

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


def named(parts: Mapping[Part, float], width: int) -> set[Part]:
    """Of parts as they are named, those that stand in a bar of this many cells with their time; each has a
    cell less at its edges."""
    total_ms = sum(parts.values())
    lengths = {part: math.floor(ms / total_ms * width) - 1 for part, ms in parts.items() if ms > 0}
    return {
        part for part, cells in lengths.items() if part_ms(parts[part]) in _text_in(part, parts[part], cells)
    }


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
