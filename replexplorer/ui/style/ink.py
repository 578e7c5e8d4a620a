"""Style words of the line widgets, looked up in the theme in force."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.style import Style

from replexplorer.ui.style.theme import inks_of

if TYPE_CHECKING:
    from textual.app import App

_UNDERLINE = Style(underline=True)


def style_of(app: App[Any], words: str, ground: str = "bg") -> Style:
    """The style of `TOKEN [on TOKEN] [b] [u]` (bold, underlined); `ground` where no other is named."""
    token, *rest = words.split()
    if "on" in rest:
        ground = rest[rest.index("on") + 1]
    style = inks_of(app).style(token, ground, strong="b" in rest)
    return style + _UNDERLINE if "u" in rest else style
