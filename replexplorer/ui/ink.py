"""Style words of the line widgets, looked up in the theme in force."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.style import Style

from replexplorer.ui.theme import inks_of

if TYPE_CHECKING:
    from textual.app import App

_UNDERLINE = Style(underline=True)


def style_of(app: App[Any], words: str, ground: str = "bg") -> Style:
    """The style of `TOKEN [on TOKEN] [b] [u]`: b is bold, u underlined; `ground` where none is named."""
    token, *rest = words.split()
    if rest and rest[0] == "on":
        ground, rest = rest[1], rest[2:]
    style = inks_of(app).style(token, ground, strong="b" in rest)
    return style + _UNDERLINE if "u" in rest else style
