"""Theme files: what ships and how its colors stand apart, what users write, what is wrong with it."""

from __future__ import annotations

import itertools
from pathlib import Path

from replexplorer.formats.paths import shipped
from replexplorer.formats.themes import (
    BUILT_IN,
    TOKENS,
    load_themes,
    read_theme,
)
from tests import vision
from tests.typed import table_of
from tests.unit.conftest import told_of_mistakes
from tests.vision import BLINDNESSES, contrast, distance


def dark_text() -> str:
    return (shipped("themes") / "dark.toml").read_text(encoding="utf-8")


THEMES = {theme.name: theme.tokens for theme in load_themes()}


def colors_of(name: str) -> dict[str, tuple[int, int, int]]:
    """Red, green and blue of each token of a theme."""
    return {token: vision.rgb(color) for token, color in THEMES[name].items()}


def test_four_themes_ship_and_name_every_token() -> None:
    loaded = load_themes()
    assert tuple(theme.name for theme in loaded) == BUILT_IN
    for theme in loaded:
        assert theme.origin == "built-in"
        assert tuple(theme.tokens) == TOKENS
    assert [theme.dark for theme in loaded] == [True, False, True, False]


def test_windows_of_a_chart_stand_out_from_its_ground_and_from_each_other() -> None:
    for name in BUILT_IN:
        token = colors_of(name)
        grounds = [token[f"{kind}bg"] for kind in ("partition", "blocked", "degraded", "down", "restart")]
        assert all(contrast(ground, token["bg"]) >= 1.12 for ground in grounds), name
        assert len(set(grounds)) == len(grounds), name


def test_a_users_theme_comes_after_and_may_replace_a_built_in_one(tmp_path: Path) -> None:
    """The second file of a name is refused."""
    mine = dark_text().replace('name = "dark"', 'name = "mine"')
    (tmp_path / "a.toml").write_text(mine.replace("#58b6ff", "#FA0"))
    (tmp_path / "b.toml").write_text(dark_text().replace("#64d59e", "#123456"))
    (tmp_path / "c.toml").write_text(mine)
    (tmp_path / "notes.txt").write_text("not a theme")
    *loaded, failed = load_themes(tmp_path)
    assert [theme.name for theme in loaded] == [*BUILT_IN, "mine"]
    assert loaded[-1].tokens["tps"] == "#ffaa00"
    assert loaded[0].tokens["p50"] == "#123456"
    assert loaded[0].origin == "user"
    assert failed.error == f"{tmp_path / 'c.toml'}: name: 'mine' is taken by a.toml"


MISTAKES = """\
p50     = "#64d59e"     -> p50 = "blurple"
p50     = "#64d59e"     -> p50 = 5
p50     = "#64d59e"     ->
[figures]               -> [extra]; x = "#fff"; [figures]
async       = "#e8b84a" -> async = "#12"
name = "dark"           -> name = "My Theme"
dark = true             -> dark =
"""
"""What stands there, and what instead."""


def test_a_broken_file_is_named_with_its_key_and_the_rest_stays(tmp_path: Path, snapshot: object) -> None:
    file = tmp_path / "broken.toml"
    file.write_text(dark_text())
    told = told_of_mistakes(MISTAKES, file, read_theme)
    assert told == snapshot
    assert str(load_themes(tmp_path)[-1].error).replace(str(tmp_path), "HERE") == [*told.values()][-1]


LEAST = 7.0
"""Of OKLab's hundred: about three times what is just noticed, for lines a cell or two wide."""
APART = f"""\
tps ceiling | {" ".join(BUILT_IN)} | {" ".join(BLINDNESSES)} | {LEAST}
p50 p95     | {" ".join(BUILT_IN)} | {" ".join(BLINDNESSES)} | {LEAST}
p50 p99     | {" ".join(BUILT_IN)} | {" ".join(BLINDNESSES)} | {LEAST}
p95 p99     | {" ".join(BUILT_IN)} | {" ".join(BLINDNESSES)} | {LEAST}
p95 p99     | {" ".join(BUILT_IN)} | none deuteranopia           | 12
p99 bad     | safe                 | none deuteranopia           | {LEAST}
async warn  | projector            | none deuteranopia           | 12
"""
"""Two lines of one chart, or two colors that are read next to each other; the themes that keep them apart,
for whom, and how far. The exposures are drawn in the colors of the percentiles."""


def test_lines_of_one_chart_and_colors_read_next_to_each_other_are_apart() -> None:
    for pair, names, eyes, least in table_of(APART):
        for name, blindness in itertools.product(names.split(), eyes.split()):
            one, other = (colors_of(name)[token] for token in pair.split())
            assert distance(one, other, blindness) >= float(least), (pair, name, blindness)


READ_FROM_AFAR = 7.0
"""WCAG 2.2, success criterion 1.4.6: text for a lit room, on a projector's washed-out white."""
READ = "text muted faint title accent tps p50 p95 p99 good bad warn key"


def test_on_the_projector_text_has_the_contrast_of_the_stricter_level() -> None:
    token = colors_of("projector")
    for word, ground in itertools.product(READ.split(), ("bg", "panel", "keybg")):
        assert contrast(token[word], token[ground]) >= READ_FROM_AFAR, (word, ground)
