"""Every colour on the screen is one of the theme and can be read; without colours attributes tell the
same."""

from __future__ import annotations

import pytest
from rich.color import ColorSystem
from syrupy.assertion import SnapshotAssertion

from replexplorer.formats.themes import BUILT_IN, load_themes
from replexplorer.ui.style.theme import WINDOW_GROUNDS, Inks
from replexplorer.ui.terminal.glyphs import ASCII
from tests.ui.driving import bench, drawn, page
from tests.ui.walk import weak_texts

THEMES = {theme.name: theme.tokens for theme in load_themes()}
TICKS = "explained", "20 explained partition@db2=both", "40 explained"


async def test_themes_walk_round_and_repaint_and_every_command_of_the_palette_can_be_read() -> None:
    async with bench(*TICKS, size=(160, 45), theme=BUILT_IN[0]) as app:
        for name in (*BUILT_IN, BUILT_IN[0]):
            assert app.app.theme == name
            tokens = THEMES[name]
            styles = [segment.style for strip in drawn(app.app) for segment in strip if segment.style]
            used = {color.name for style in styles for color in (style.color, style.bgcolor) if color}
            assert used <= set(tokens.values())
            drawn_with = "tps", "tpsfill", "ceiling", "partitioned", "partitionbg"
            assert {tokens[each] for each in drawn_with} <= used
            await app.press("ctrl+p")
            await app.until(lambda: bool(app.app.screen.query("CommandList").first().region.area))
            await app.press("down")
            for widget in app.app.screen.query("CommandInput, CommandList"):  # the rest is faded on purpose
                region = widget.region
                rows = drawn(app.app)[region.y : region.bottom]
                assert weak_texts(row.crop(region.x, region.right) for row in rows) == set()
            await app.closed()
            await app.press("t")


async def test_no_color_has_no_colour_and_still_tells_everything(
    monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion
) -> None:
    """The ceiling is dashed, a window has a glyph and each part of a commit its own."""
    monkeypatch.setenv("NO_COLOR", "1")
    pages = list[str]()
    async with bench(*TICKS, size=(160, 45), glyphs=ASCII, no_color=True) as app:
        for strip in drawn(app.app):
            words = []
            for text, style, _ in strip:
                for color in (style.color, style.bgcolor) if style else ():
                    assert color is None or color.is_default
                if text.strip() and style and style.without_color:
                    words.append(f"{style.without_color}: {text.strip()}")
            pages += ["".join(segment.text for segment in strip), f"   {' | '.join(words)}"]
    assert page(pages) == snapshot


@pytest.mark.parametrize("name", THEMES)
def test_sixteen_colours_are_enough(name: str) -> None:
    inks = Inks(THEMES[name], system=ColorSystem.STANDARD)
    grounds = {name: inks.style("fault", name).bgcolor for name in ("bg", *WINDOW_GROUNDS)}
    numbers = {name: color.downgrade(ColorSystem.STANDARD).number for name, color in grounds.items() if color}
    assert len(numbers) == len(grounds)
    unseen = [name for name in WINDOW_GROUNDS if numbers[name] == numbers["bg"]]
    assert inks.shades == bool(unseen), "a tint that cannot be seen is drawn with a glyph"
    assert not Inks(THEMES[name]).shades
