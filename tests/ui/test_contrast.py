"""Whatever is written can be read: WCAG asks a contrast of 4.5 between letters and their ground.

`test_every_screen.py` looks at what is drawn.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from replexplorer.formats.themes import BUILT_IN, TABLES, TOKENS, load_themes
from tests import vision
from tests.ui.driving import bench
from tests.ui.walk import LEAST_CONTRAST, weak_texts
from tests.vision import contrast

THEMES = {theme.name: theme for theme in load_themes()}

GROUNDS = ("bg", "panel", "keybg")
"""What most text stands on."""
TINTS = ("tpsfill", *(token for token in TOKENS if token.endswith("bg") and token not in GROUNDS))
"""Grounds inside a chart."""
LINES = ("rule", "grid", "axis")
"""Drawn, never written with."""
TEXT = tuple(
    token
    for table in ("screen", "series", "figures")
    for token in TABLES[table].split()
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
