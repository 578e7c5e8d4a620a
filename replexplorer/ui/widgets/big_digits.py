"""Figures three rows high, and five rows high in solid strokes, for the back row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from replexplorer.ui.terminal.glyphs import BRAILLE, Glyphs

_CHARACTERS: Final = "0123456789-kM"
"""What the fonts have a shape for, three cells each, a blank between them."""
_STROKES: Final = (
    "┏━┓   ╻ ╺━┓ ╺━┓ ╻ ╻ ┏━╸ ┏━╸ ╺━┓ ┏━┓ ┏━┓     ╻   ┏┳┓",
    "┃ ┃   ┃ ┏━┛  ━┫ ┗━┫ ┗━┓ ┣━┓   ┃ ┣━┫ ┗━┫ ╺━╸ ┃┏╸ ┃┃┃",
    "┗━┛   ╹ ┗━╸ ╺━┛   ╹ ╺━┛ ┗━┛   ╹ ┗━┛ ╺━┛     ╹┗╸ ╹ ╹",
)
_ASCII: Final = (
    " _       _   _       _   _   _   _   _              ",
    "| |   |  _|  _| |_| |_  |_    | |_| |_|  _  |/  |V| ",
    "|_|   | |_   _|   |  _| |_|   | |_|  _|     |\\  | | ",
)
_SOLID: Final = (
    "###  #  ### ### # # ### ### ### ### ###     #   # #",
    "# # ##    #   # # # #   #     # # # # #     # # ###",
    "# #  #  ### ### ### ### ###   # ### ### ### ##  ###",
    "# #  #  #     #   #   # # #   # # #   #     # # # #",
    "### ### ### ###   # ### ###   # ### ###     # # # #",
)


def _shape(font: Sequence[str], character: str) -> tuple[str, ...]:
    """The rows of one character: one cell for a point and for what has no shape."""
    at = 4 * _CHARACTERS.find(character)
    if at >= 0:
        return tuple(f"{row[at : at + 3]:<3}" for row in font)
    return (*(" " for _ in font[1:]), "." if character == "." else " ")


def big_rows(text: str, glyphs: Glyphs = BRAILLE) -> tuple[str, ...]:
    """The three rows of a figure such as `85.4` or `16.1k`; characters without a shape are blank."""
    shapes = [_shape(_ASCII if glyphs.ascii else _STROKES, character) for character in text]
    return tuple("".join(row) for row in zip(*shapes, strict=True)) or ("",) * len(_STROKES)


def solid_rows(text: str, glyphs: Glyphs = BRAILLE) -> tuple[str, ...]:
    """The five rows of a figure; a stroke is two cells wide, a point one."""
    ink = "#" if glyphs.ascii else "█"
    rows: list[list[str]] = [[] for _ in _SOLID]
    for character in text:
        for row, cells in zip(rows, _shape(_SOLID, character), strict=True):
            row.append(cells if len(cells) == 1 else "".join(2 * cell for cell in cells))
    return tuple(" ".join(row).replace("#", ink).replace(".", ink) for row in rows)
