"""Whatever is written can be read: WCAG asks a contrast of 4.5 between letters and their ground."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from rich.color import Color

from replexplorer.core.server.protection import ProtectionState
from replexplorer.formats.themes import BUILT_IN, TOKENS, Theme, load_themes, parse_color
from replexplorer.ui.screens.dashboard import DashboardScreen
from tests.fakes.facade import explained, make_tick
from tests.ui.driving import Bench, bench
from tests.ui.test_snapshots import session
from tests.vision import contrast

LEAST = 4.5
"""WCAG 2.2, success criterion 1.4.3, for text of a usual size."""
THEMES = {entry.theme.name: entry.theme for entry in load_themes()[0]}

GROUNDS = ("bg", "panel", "keybg")
"""What most text stands on."""
TINTS = ("tpsfill", *(token for token in TOKENS if token.endswith("bg") and token not in GROUNDS))
"""Grounds inside a chart."""
LINES = ("rule", "grid", "axis")
"""Drawn, never written with."""
TEXT = tuple(
    token
    for table in ("screen", "series", "figures")
    for token in Theme.model_fields[table].annotation.model_fields  # type: ignore[union-attr]
    if token not in (*GROUNDS, *TINTS, *LINES, "select")
)
ON_SELECT = ("text", "muted", "title", "accent", "good", "bad", "warn")
ON_TINTS = (
    "title", "tps", "ceiling", "mark", "fault", "partitioned", "blocked", "degraded", "down", "restart",
)  # fmt: skip
"""A window's word may end on its neighbour's ground."""
STATES = ("protected", "degraded", "async", "armed", "blocked", "partitioned")
PARTS = ("execute", "redo", "binlog", "ack", "engine", "queue", "wire", "other", "group")
QUEUES = ("fsync_queue", "ack_queue")


def pairs() -> Iterator[tuple[str, str]]:
    """Every token that text is written with, and each ground that it is written on."""
    for grounds, tokens in ((GROUNDS, TEXT), (("select",), ON_SELECT), (TINTS, ON_TINTS)):
        yield from ((token, ground) for ground in grounds for token in tokens)
    yield from (("onstate", state) for state in STATES)
    yield from (("oncolor", part) for part in (*PARTS, *QUEUES))


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast((0, 0, 0), (255, 255, 255)) == pytest.approx(21)
    assert contrast((119, 119, 119), (255, 255, 255)) == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_text_of_a_theme_stands_out_from_its_grounds(name: str) -> None:
    colors = {token: parse_color(color) for token, color in THEMES[name].tokens().items()}
    weak = {
        f"{token} on {ground}": round(found, 2)
        for token, ground in pairs()
        if (found := contrast(colors[token], colors[ground])) < LEAST
    }
    assert weak == {}


def weak_texts(app: Bench, *, inside: str = "") -> set[str]:
    """What is on the screen now and stands out too little, with its colours; `inside` narrows it to
    what lies over a screen that is faded on purpose."""
    screen = app.app.screen
    regions = [widget.region for widget in screen.query(inside)] if inside else [screen.region]
    found = set()
    for y, strip in enumerate(screen._compositor.render_strips()):
        for region in regions:
            if not region.y <= y < region.bottom:
                continue
            for segment in strip.crop(region.x, region.right):
                style = segment.style
                if style is None or not any(char.isalnum() for char in segment.text):
                    continue
                assert style.color is not None
                assert style.bgcolor is not None
                if contrast(_triplet(style.color), _triplet(style.bgcolor)) < LEAST:
                    found.add(f"{segment.text.strip()!r}: {style}")
    return found


def _triplet(color: Color) -> tuple[int, int, int]:
    red, green, blue = color.get_truecolor()
    return red, green, blue


WALK = ("", "down", "right", "escape", "d", "slash", "escape", "5", "escape", "L", "escape", "g", "escape",
        "question_mark", "escape", "o", "escape", "S", "escape", "space")  # fmt: skip
"""Keys that show what can be seen: each row selected and staged, each list, each field."""


@pytest.mark.parametrize(
    ("name", "size"), [("dark", (80, 24)), ("dark", (160, 45)), ("light", (120, 36)), ("safe", (80, 24))]
)
async def test_every_text_on_every_screen_can_be_read(name: str, size: tuple[int, int]) -> None:
    async with bench(*session(), size=size, theme=name) as app:
        for key in ("", "enter", "escape", *WALK) if size[0] == 80 else WALK:
            if key:
                await app.press(key)
                await app.pilot.pause()
            assert weak_texts(app) == set(), f"after {key or 'the start'}"
        await app.until(lambda: isinstance(app.app.screen, DashboardScreen))
        for at, state in enumerate(ProtectionState):
            await app.play(explained(make_tick(200.0 + at, state=state)))
            assert weak_texts(app) == set(), state


@pytest.mark.parametrize("name", BUILT_IN)
async def test_every_command_of_the_palette_can_be_read(name: str) -> None:
    async with bench(theme=name) as app:
        await app.press("ctrl+p")
        await app.until(lambda: bool(app.app.screen.query("CommandList").first().region.area))
        await app.press("down")
        assert weak_texts(app, inside="CommandInput, CommandList") == set()
