"""Tokens become Textual variables and styles, and without colours attributes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from rich.color import ColorSystem
from textual.app import App, ComposeResult
from textual.color import Color
from textual.widgets import Static

from replexplorer.core.history.series import Point
from replexplorer.formats.themes import BUILT_IN, TABLES, TOKENS, load_themes
from replexplorer.ui.charts.chart_model import FaultWindow, Page, WindowKind
from replexplorer.ui.charts.contents import tps_chart
from replexplorer.ui.settings import Settings
from replexplorer.ui.style.theme import (
    NO_COLOR_THEME,
    WINDOW_GROUNDS,
    Inks,
    inks_of,
    mono_style,
    no_color_theme,
    textual_theme,
)
from replexplorer.ui.widgets.lines import Chart
from tests import vision
from tests.ui.driving import bench
from tests.ui.walk import LEAST_CONTRAST, weak_texts
from tests.vision import contrast

THEMES = {theme.name: theme for theme in load_themes()}
MODEL = tps_chart(
    Page(0.0, 120.0, windows=(FaultWindow(70.0, 90.0, "down", WindowKind.DOWN),)),
    [Point(float(at), 500.0, 520.0) for at in range(60)],
)


class _Themed(App[None]):
    CSS = "#one { color: $rx-p50; background: $rx-panel; } Chart { height: 12; }"

    def __init__(self, theme: str, *, ansi: bool | None = None) -> None:
        super().__init__(ansi_color=ansi)
        for known in THEMES.values():
            self.register_theme(textual_theme(known))
        self.register_theme(no_color_theme())
        self.theme = theme

    def compose(self) -> ComposeResult:
        yield Static("one", id="one")
        chart = Chart(Settings(), "tps")
        chart.shown = MODEL
        yield chart


def inks_shown(app: App[None]) -> set[tuple[str | None, str | None]]:
    chart = app.query_one(Chart)
    shown = set()
    for y in range(chart.size.height):
        for segment in chart.render_line(y):
            if segment.style is not None:
                color, ground = segment.style.color, segment.style.bgcolor
                shown.add((color.name if color else None, ground.name if ground else None))
    return shown


@pytest.mark.parametrize("name", THEMES)
async def test_every_colour_on_the_screen_is_one_of_the_theme(name: str) -> None:
    app = _Themed(name)
    async with app.run_test(size=(80, 24)):
        token = THEMES[name].tokens
        assert app.query_one("#one").styles.color == Color.parse(token["p50"])
        assert app.query_one("#one").styles.background == Color.parse(token["panel"])
        used = {color for pair in inks_shown(app) for color in pair}
        assert used <= set(token.values())
        assert {token["tps"], token["tpsfill"], token["downbg"], token["ceiling"], token["down"]} <= used


async def test_another_theme_is_drawn_at_once() -> None:
    app = _Themed("dark")
    async with app.run_test(size=(80, 24)) as pilot:
        first = inks_of(app)
        assert inks_of(app) is first
        assert first.style("tps") is first.style("tps")
        app.theme = "light"
        await pilot.pause()
        assert inks_of(app) is not first
        assert {ground for _, ground in inks_shown(app)} <= set(THEMES["light"].tokens.values())


async def test_no_color_has_no_colour_and_still_tells_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = _Themed(NO_COLOR_THEME, ansi=True)
    async with app.run_test(size=(80, 24)):
        assert inks_of(app).mono
        assert inks_shown(app) == {(None, None)}
        rows = "\n".join(app.query_one(Chart).rows)
        assert "╳╳" in rows
        assert re.search(r"[⠉⠒⠤⣀]{2} [⠉⠒⠤⣀]{2} ", rows), "the ceiling's dashes, past the last sample"
        for strip in app.screen._compositor.render_strips():
            for segment in strip:
                for color in (segment.style.color, segment.style.bgcolor) if segment.style else ():
                    assert color is None or color.is_default


def test_roles_without_colours_are_attributes() -> None:
    assert mono_style("text", "protected").reverse
    assert mono_style("tps").bold
    assert mono_style("grid").dim
    assert not mono_style("text").bold
    assert mono_style("text", strong=True).bold
    assert mono_style("muted", "select") == mono_style("text", "select")


@pytest.mark.parametrize("name", THEMES)
def test_sixteen_colours_are_enough(name: str) -> None:
    colors = THEMES[name].tokens
    inks = Inks(colors, system=ColorSystem.STANDARD)
    grounds = {name: inks.style("fault", name).bgcolor for name in ("bg", *WINDOW_GROUNDS)}
    numbers = {name: color.downgrade(ColorSystem.STANDARD).number for name, color in grounds.items() if color}
    assert len(numbers) == len(grounds)
    unseen = [name for name in WINDOW_GROUNDS if numbers[name] == numbers["bg"]]
    assert inks.shades == bool(unseen), "a tint that cannot be seen is drawn with a glyph"
    assert not Inks(colors).shades


# Whatever is written can be read: WCAG asks a contrast of 4.5 between letters and their ground


GROUNDS = ("bg", "panel", "keybg", "select")
"""What most text stands on."""
TINTS = ("tpsfill", *(token for token in TOKENS if token.endswith("bg") and token not in GROUNDS))
"""Grounds inside a chart."""
LINES = ("rule", "grid", "axis")
"""Drawn, never written with."""
TEXT = tuple(
    token
    for table in ("screen", "series", "status", "figures", "bands")
    for token in TABLES[table].split()
    if token not in (*GROUNDS, *TINTS, *LINES, "onstate")
)
ON_TINTS = (
    "title", "tps", "ceiling", "mark", "fault", "partitioned", "blocked", "degraded", "down", "restart",
)  # fmt: skip
"""A window's word may end on its neighbour's ground."""
STATES = ("protected", "degraded", "async", "armed", "blocked", "partitioned")
PARTS = ("execute", "redo", "binlog", "ack", "engine", "queue", "wire", "other", "group")
QUEUES = ("fsync_queue", "ack_queue")


def pairs() -> Iterator[tuple[str, str]]:
    """Every token that text is written with, and each ground that it is written on."""
    for grounds, tokens in ((GROUNDS, TEXT), (TINTS, ON_TINTS)):
        yield from ((token, ground) for ground in grounds for token in tokens)
    yield from (("onstate", state) for state in STATES)
    yield from (("oncolor", part) for part in (*PARTS, *QUEUES))


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_text_of_a_theme_stands_out_from_its_grounds(name: str) -> None:
    colors = {token: vision.rgb(color) for token, color in THEMES[name].tokens.items()}
    weak = {
        f"{token} on {ground}": round(found, 2)
        for token, ground in pairs()
        if (found := contrast(colors[token], colors[ground])) < LEAST_CONTRAST
    }
    assert weak == {}


@pytest.mark.parametrize("name", BUILT_IN)
async def test_every_command_of_the_palette_can_be_read(name: str) -> None:
    async with bench(theme=name) as app:
        await app.press("ctrl+p")
        await app.until(lambda: bool(app.app.screen.query("CommandList").first().region.area))
        await app.press("down")
        strips = app.app.screen._compositor.render_strips()
        for widget in app.app.screen.query("CommandInput, CommandList"):  # the rest is faded on purpose
            region = widget.region
            rows = strips[region.y : region.bottom]
            assert weak_texts(row.crop(region.x, region.right) for row in rows) == set()
