"""Lines of one chart can be told from each other, by people with a common colour blindness too."""

from __future__ import annotations

import itertools

import pytest

from replexplorer.formats.themes import BUILT_IN, load_themes
from tests import vision
from tests.vision import BLINDNESSES, contrast, distance

THEMES = {theme.name: theme.tokens for theme in load_themes()}
TOGETHER = (("tps", "ceiling"), ("p50", "p95", "p99"))
"""Lines that share a chart; the exposures are drawn in the colours of the percentiles."""
LEAST = 7.0
"""Of OKLab's hundred: about three times what is just noticed, for lines a cell or two wide."""
READ_FROM_AFAR = 7.0
"""WCAG 2.2, success criterion 1.4.6: text for a lit room, on a projector's washed-out white."""


@pytest.mark.parametrize("blindness", BLINDNESSES)
@pytest.mark.parametrize("name", BUILT_IN)
def test_lines_of_one_chart_are_apart(name: str, blindness: str) -> None:
    token = {key: vision.rgb(color) for key, color in THEMES[name].items()}
    near = {
        f"{one} and {other}": round(found, 1)
        for lines in TOGETHER
        for one, other in itertools.combinations(lines, 2)
        if (found := distance(token[one], token[other], blindness)) < LEAST
    }
    assert near == {}


@pytest.mark.parametrize(
    "word",
    ["text", "muted", "faint", "title", "accent", "tps", "p50", "p95", "p99", "good", "bad", "warn", "key"],
)
def test_on_the_projector_text_has_the_contrast_of_the_stricter_level(word: str) -> None:
    token = {key: vision.rgb(color) for key, color in THEMES["projector"].items()}
    for ground in ("bg", "panel", "keybg"):
        assert contrast(token[word], token[ground]) >= READ_FROM_AFAR, ground
