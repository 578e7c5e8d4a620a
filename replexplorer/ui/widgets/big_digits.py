"""Figures three rows high, and five rows high in solid strokes, for the back row."""

from __future__ import annotations

from typing import Final

from replexplorer.ui.terminal.glyphs import BRAILLE, Glyphs

_ROWS: Final[dict[str, tuple[str, str, str]]] = {
    "0": ("┏━┓", "┃ ┃", "┗━┛"),
    "1": ("  ╻", "  ┃", "  ╹"),
    "2": ("╺━┓", "┏━┛", "┗━╸"),
    "3": ("╺━┓", " ━┫", "╺━┛"),
    "4": ("╻ ╻", "┗━┫", "  ╹"),
    "5": ("┏━╸", "┗━┓", "╺━┛"),
    "6": ("┏━╸", "┣━┓", "┗━┛"),
    "7": ("╺━┓", "  ┃", "  ╹"),
    "8": ("┏━┓", "┣━┫", "┗━┛"),
    "9": ("┏━┓", "┗━┫", "╺━┛"),
    "-": ("   ", "╺━╸", "   "),
    "k": ("╻  ", "┃┏╸", "╹┗╸"),
    "M": ("┏┳┓", "┃┃┃", "╹ ╹"),
    ".": (" ", " ", "."),
    " ": (" ", " ", " "),
}
_ASCII_ROWS: Final[dict[str, tuple[str, str, str]]] = {
    "0": (" _ ", "| |", "|_|"),
    "1": ("   ", "  |", "  |"),
    "2": (" _ ", " _|", "|_ "),
    "3": (" _ ", " _|", " _|"),
    "4": ("   ", "|_|", "  |"),
    "5": (" _ ", "|_ ", " _|"),
    "6": (" _ ", "|_ ", "|_|"),
    "7": (" _ ", "  |", "  |"),
    "8": (" _ ", "|_|", "|_|"),
    "9": (" _ ", "|_|", " _|"),
    "-": ("   ", " _ ", "   "),
    "k": ("   ", "|/ ", "|\\ "),
    "M": ("   ", "|V|", "| |"),
    ".": (" ", " ", "."),
    " ": (" ", " ", " "),
}


def big_rows(text: str, glyphs: Glyphs = BRAILLE) -> tuple[str, str, str]:
    """The three rows of a figure such as `85.4` or `16.1k`; characters without a shape are blank."""
    shapes = _ASCII_ROWS if glyphs.ascii else _ROWS
    parts = [shapes.get(char, shapes[" "]) for char in text]
    return ("".join(p[0] for p in parts), "".join(p[1] for p in parts), "".join(p[2] for p in parts))


_SOLID: Final[dict[str, tuple[str, str, str, str, str]]] = {
    "0": ("###", "# #", "# #", "# #", "###"),
    "1": (" # ", "## ", " # ", " # ", "###"),
    "2": ("###", "  #", "###", "#  ", "###"),
    "3": ("###", "  #", "###", "  #", "###"),
    "4": ("# #", "# #", "###", "  #", "  #"),
    "5": ("###", "#  ", "###", "  #", "###"),
    "6": ("###", "#  ", "###", "# #", "###"),
    "7": ("###", "  #", "  #", "  #", "  #"),
    "8": ("###", "# #", "###", "# #", "###"),
    "9": ("###", "# #", "###", "  #", "###"),
    "-": ("   ", "   ", "###", "   ", "   "),
    "k": ("#  ", "# #", "## ", "# #", "# #"),
    "M": ("# #", "###", "###", "# #", "# #"),
}


def solid_rows(text: str, glyphs: Glyphs = BRAILLE) -> tuple[str, ...]:
    """The five rows of a figure; a stroke is two cells wide, a point one."""
    ink = "#" if glyphs.ascii else "█"
    rows: list[list[str]] = [[] for _ in range(5)]
    for char in text:
        for at, row in enumerate(rows):
            cells = _SOLID[char][at] if char in _SOLID else ""
            row.append("".join(2 * each for each in cells) or (" #"[char == "." and at == 4]))
    return tuple(" ".join(row).replace("#", ink) for row in rows)
