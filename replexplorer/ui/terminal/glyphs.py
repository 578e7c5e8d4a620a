"""The characters that the screens are drawn with, in three sets, and how one is chosen.

Law: nothing in ui writes a character outside ASCII that is not in the set in force; texts made
elsewhere pass through `Glyphs.text`. `braille` and `block` differ in how charts draw their
dots; `ascii` replaces everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from replexplorer.core.records import field, frozen

_TO_ASCII: Final = str.maketrans(
    {
        "→": ">", "←": "<", "↑": "^", "↓": "v", "▸": ">", "◂": "<", "▴": "^", "▾": "v", "▲": "!", "▼": "v",
        "●": "*", "◐": "+", "○": "o", "◼": "#", "■": "#", "□": ".", "✖": "x", "✓": "+", "×": "x", "÷": "/",
        "·": ".", "…": "~", "±": "~", "Δ": "d", "≈": "~", "│": "|", "┃": "|", "─": "-", "━": "-", "┈": ".",
        "╌": "-", "┊": ":", "└": "+", "┤": "+", "┘": "+", "┌": "+", "┐": "+", "├": "+", "┼": "+", "░": ":",
        "▒": "%", "▓": "#", "╱": "/", "╲": "\\", "╳": "x", "█": "#", "▌": "|", "▐": "|", "▄": "_", "▀": "-",
        "≤": "<", "≥": ">", "≠": "!", "µ": "u", "–": "-", "—": "-", "’": "'", "“": '"', "”": '"',
        "\u00a0": " ",
        **{chr(0x2460 + at): str(at + 1)[-1] for at in range(9)},
    }
)  # fmt: skip


@frozen
class Glyphs:
    """One set of characters."""

    name: str
    """`braille`, `block` or `ascii`."""
    dots_x: int
    """Dots of a chart in one cell's width."""
    dots_y: int
    """Dots of a chart in one cell's height."""
    strokes: Mapping[str, str] = field(default_factory=dict)
    """Token to character, where a cell is one dot and series differ by character."""

    @property
    def ascii(self) -> bool:
        """Whether only ASCII may be written."""
        return self.name == "ascii"

    def text(self, text: str) -> str:
        """A text in this set's characters, the same number of cells."""
        return text.translate(_TO_ASCII) if self.ascii else text

    def number(self, number: int) -> str:
        """A mark's number: circled from 1 to 9, else (and in ASCII) plain digits.

        The common monospaced fonts and those that step in for them draw the other circles as boxes.
        """
        return str(number) if self.ascii or not 1 <= number <= 9 else chr(0x2460 + number - 1)


BRAILLE: Final = Glyphs("braille", 2, 4)
"""Charts of 2 x 4 dots a cell."""
BLOCK: Final = Glyphs("block", 2, 2)
"""Charts of quadrants, for fonts without braille."""
ASCII: Final = Glyphs("ascii", 1, 1, {"p95": "+", "p99": "x", "max": "'", "ceiling": "-", "title": "="})
"""For terminals that are not UTF-8."""
GLYPHS: Final[Mapping[str, Glyphs]] = {one.name: one for one in (BRAILLE, BLOCK, ASCII)}
"""By name."""


def choose_glyphs(asked: str, environ: Mapping[str, str], encoding: str) -> Glyphs:
    """The set that was asked for, or for `auto` (and unknown words) what the terminal can show.

    ASCII where the output is not UTF-8 and on the Linux console, whose font has neither braille
    nor quadrants; else braille. A font cannot be probed, so `block` is only ever asked for.
    """
    if asked in GLYPHS:
        return GLYPHS[asked]
    if encoding.lower().replace("-", "").replace("_", "") not in {"utf8", "utf8sig"}:
        return ASCII
    return ASCII if environ.get("TERM", "") in {"linux", "dumb", "vt100", "vt220"} else BRAILLE
