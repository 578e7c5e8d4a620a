"""Figures three rows high, for the back row."""

from __future__ import annotations

from typing import Final

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from replexplorer.ui.glyphs import BRAILLE, Glyphs

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


class BigDigits(Widget):
    """A figure three rows high, right-aligned in its width; the colour is the widget's own `color`."""

    DEFAULT_CSS = "BigDigits { height: 3; width: auto; }"

    def __init__(
        self, figure: str = "", *, glyphs: Glyphs = BRAILLE, id: str | None = None, classes: str | None = None
    ) -> None:
        super().__init__(id=id, classes=classes)
        self._glyphs = glyphs
        self._figure = figure

    @property
    def figure(self) -> str:
        """The text that is shown."""
        return self._figure

    def show(self, figure: str) -> None:
        """Show another figure; lays out anew only when its width changed."""
        if figure == self._figure:
            return
        wider = len(big_rows(figure)[0]) != len(big_rows(self._figure)[0])
        self._figure = figure
        self.refresh(layout=wider and self.styles.auto_dimensions)

    def get_content_width(self, container: Size, viewport: Size) -> int:
        """As wide as the figure."""
        return len(big_rows(self._figure)[0])

    def render_line(self, y: int) -> Strip:
        """One of the three rows."""
        width = self.size.width
        row = big_rows(self._figure, self._glyphs)[y] if 0 <= y < 3 else ""
        return Strip([Segment(row.rjust(width)[:width], self._ink())], width)

    def _ink(self) -> Style:
        """The widget's own colours."""
        return self.rich_style
