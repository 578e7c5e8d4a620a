"""From a theme's tokens to what Textual and the line widgets draw with, and what fits on this terminal.

Law: a token is a role, never a colour; where the terminal must show no colour, roles become
bold, dim and reverse, so that nothing is shown by colour alone. Styles are built once a theme.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from rich.color import Color, ColorSystem
from rich.console import COLOR_SYSTEMS
from rich.style import Style
from textual.app import App
from textual.theme import BUILTIN_THEMES
from textual.theme import Theme as TextualTheme

from replexplorer.formats.themes import TOKENS, Theme

PREFIX: Final = "rx-"
"""The prefix of our theme variables: `$rx-p50` in tcss."""
NO_COLOR_THEME: Final = "no-color"
"""Name of the theme without colours."""

_BOLD: Final = frozenset({"title", "tps", "p50", "mark", "fault", "key", "warn", "good", "bad", "accent"})
_DIM: Final = frozenset({"muted", "faint", "rule", "grid", "axis", "max"})
_GROUNDS: Final = frozenset({"protected", "degraded", "async", "armed", "blocked", "partitioned", "select"})
WINDOW_GROUNDS: Final = ("faultbg", "partitionbg", "blockedbg", "degradedbg", "downbg", "restartbg")


def textual_theme(theme: Theme) -> TextualTheme:
    """A theme for `App.register_theme`, with `rx-` variables for tcss."""
    token = theme.tokens
    variables = {f"{PREFIX}{name}": color for name, color in token.items()}
    variables |= {
        "footer-key-foreground": token["key"],
        "footer-background": token["keybg"],
        "block-cursor-background": token["select"],
        "block-cursor-foreground": token["title"],
        "block-cursor-text-style": "bold",
        "border": token["accent"],
        "scrollbar": token["rule"],
        "scrollbar-background": token["panel"],
    }
    return TextualTheme(
        name=theme.name,
        primary=token["accent"],
        secondary=token["mark"],
        warning=token["warn"],
        error=token["bad"],
        success=token["good"],
        accent=token["accent"],
        foreground=token["text"],
        background=token["bg"],
        surface=token["panel"],
        panel=token["panel"],
        boost=token["select"],
        dark=bool(theme.dark),
        variables=variables,
    )


def no_color_theme() -> TextualTheme:
    """The theme under NO_COLOR: the terminal's own two colours; roles come from `Inks` and `:nocolor`.

    The app must have been made with `ansi_color=True`, or Textual turns everything grey instead.
    """
    plain = "ansi_default"
    base = BUILTIN_THEMES["ansi-dark"]
    variables = {
        **base.variables,
        **{f"{PREFIX}{name}": plain for name in TOKENS},
        "block-cursor-text-style": "reverse",
        "input-cursor-text-style": "reverse",
    }
    return replace(base, name=NO_COLOR_THEME, variables=variables)


class Inks:
    """The styles of one theme by token, each built once."""

    def __init__(
        self, colors: Mapping[str, str], *, mono: bool = False, system: ColorSystem = ColorSystem.TRUECOLOR
    ) -> None:
        self._colors = colors
        self._styles: dict[tuple[str, str], Style] = {}
        self._system = system
        self.mono = mono
        """Roles are bold, dim and reverse instead of colours."""
        self.shades = mono or any(map(self._flat, WINDOW_GROUNDS))
        """A fault's tint cannot be told from the ground: draw it with a glyph."""
        self.tones = not mono and system in (ColorSystem.TRUECOLOR, ColorSystem.EIGHT_BIT)
        """The shades of a density and the parts of a commit can be told apart by colour."""

    def style(self, words: str, ground: str = "bg") -> Style:
        """The style of `TOKEN [b] [u] [on TOKEN]` (bold, underlined); `ground` where the words name none."""
        style = self._styles.get((words, ground))
        if style is None:
            token, *rest = words.split()
            named = rest[rest.index("on") + 1] if "on" in rest else ground
            style = self._styles[words, ground] = self._build(token, named, "b" in rest, "u" in rest)
        return style

    def _build(self, token: str, ground: str, strong: bool, underlined: bool) -> Style:
        """One style."""
        if self.mono:
            return mono_style(token, ground, strong=strong) + Style(underline=underlined or None)
        return Style(
            color=self._colors[token],
            bgcolor=self._colors[ground],
            bold=strong or None,
            underline=underlined or None,
        )

    def _flat(self, tint: str) -> bool:
        """Whether a tint becomes the ground's own colour in the terminal's palette."""
        if self._system in (ColorSystem.TRUECOLOR, ColorSystem.EIGHT_BIT):
            return False
        ground, tinted = (Color.parse(self._colors[name]).downgrade(self._system) for name in ("bg", tint))
        return ground.number == tinted.number


def mono_style(token: str, ground: str = "bg", *, strong: bool = False) -> Style:
    """A role without colours: grounds of states and the selection are reversed, quiet roles dim."""
    reverse = ground in _GROUNDS or token in _GROUNDS
    bold = strong or token in _BOLD or (reverse and ground != "select")
    dim = token in _DIM and not reverse and not bold
    return Style(bold=bold or None, dim=dim or None, reverse=reverse or None)


def inks_of(app: App[Any]) -> Inks:
    """The styles of the app's theme in force; the same object until the theme or its colors change."""
    return _inks(
        tuple(app.theme_variables.get(f"{PREFIX}{name}", "") for name in TOKENS),
        app.no_color,
        _system_of(app),
    )


@lru_cache(maxsize=32)
def _inks(colors: tuple[str, ...], no_color: bool, system: ColorSystem) -> Inks:
    mono = no_color or not all(color.startswith("#") for color in colors)
    return Inks(dict(zip(TOKENS, colors, strict=True)), mono=mono, system=system)


def _system_of(app: App[Any]) -> ColorSystem:
    """The colours that the terminal has; all of them where there is no terminal, as for a picture."""
    name = None if app.is_headless else app.console.color_system
    return COLOR_SYSTEMS[name or "truecolor"]


class Layout(StrEnum):
    """The arrangement of the dashboard; also the class that the screen wears, with a dash before."""

    WIDE = "wide"
    """Everything, with a strip of big digits for the back row."""
    NORMAL = "normal"
    """Everything."""
    COMPACT = "compact"
    """One chart (both when tall), a strip of values, a knob line and a drawer."""
    TINY = "tiny"
    """The state and what size is needed."""


WIDE_SIZE: Final = (150, 42)
NORMAL_SIZE: Final = (118, 33)
COMPACT_SIZE: Final = (80, 24)
TALL_ROWS: Final = 36
"""From this height on, a compact screen shows both charts."""


def layout_for(width: int, height: int) -> Layout:
    """The layout for a terminal of this size in cells."""
    for layout, (columns, rows) in (
        (Layout.WIDE, WIDE_SIZE),
        (Layout.NORMAL, NORMAL_SIZE),
        (Layout.COMPACT, COMPACT_SIZE),
    ):
        if width >= columns and height >= rows:
            return layout
    return Layout.TINY


def sheet_rows(width: int, height: int) -> int:
    """The rows of a list that leaves the charts free: what stands below them in a large layout, so that none
    moves; all of a tiny terminal."""
    layout = layout_for(width, height)
    return {Layout.WIDE: 19, Layout.NORMAL: 17, Layout.COMPACT: height // 2 + 1}.get(layout, height)
