"""The mean commit's parts, the servers' counters and the prediction, as rows of text."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from replexplorer.core.server.anatomy import Anatomy, Part
from replexplorer.ui.terminal.glyphs import ASCII
from replexplorer.ui.widgets.anatomy import WORDS, bar
from replexplorer.ui.words.runs import width_of
from replexplorer.ui.words.states import truth_runs
from tests.fakes.facade import explained, make_tick
from tests.ui.driving import bench, page


@given(
    st.dictionaries(st.sampled_from(list(Part)), st.floats(0, 5000)),
    st.integers(1, 150),
    st.booleans(),
)
def test_a_bar_fills_its_width_and_names_no_part_that_is_not_there(
    parts: dict[Part, float], width: int, tones: bool
) -> None:
    runs = bar(parts, width, tones=tones)
    assert width_of(runs) == (width if sum(parts.values()) > 0 else 0)
    there = {part.value for part, ms in parts.items() if ms > 0}
    if tones:
        assert {word for _, words in runs for word in words.split()} <= there | {"oncolor", "on", "b"}
    assert all(text.isascii() for text, _ in runs)


def test_the_scale_is_true_to_half_a_cell() -> None:
    """10.25 of 20 cells, whatever else is in the bar, and nothing for what is too short."""
    runs = bar({Part.ACK: 10.25, Part.ENGINE: 9.745, Part.OTHER: 0.005}, 20, tones=True)
    assert sum(len(text) for text, words in runs if words.startswith("oncolor on ack")) == 10
    assert "other" not in "".join(words for _, words in runs)


def test_without_colours_each_part_has_its_own_character() -> None:
    assert len({words.pattern for words in WORDS.values()}) == len(Part)


@pytest.mark.parametrize("size", [(160, 45), (120, 36)])
async def test_the_legend_keeps_its_places_whatever_is_nothing_or_long(
    size: tuple[int, int], snapshot: SnapshotAssertion
) -> None:
    few = {Part.EXECUTE: 2.8, Part.BINLOG: 0.0, Part.ENGINE: 0.7, Part.OTHER: 1240.0}
    all_parts = dict.fromkeys(Part, 85.4)
    del all_parts[Part.GROUP]
    legend = list[str]()
    async with bench(size=size) as app:
        for at, parts in enumerate((few, all_parts)):
            anatomy = Anatomy(5.0, 900, sum(parts.values()), parts)
            await app.play(replace(explained(make_tick(3.0 + 3 * at)), anatomy=anatomy))
            legend += app.rows("#anatomy")[1:3]
    assert page(legend) == snapshot


async def test_ascii_and_no_color_tell_the_parts_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with bench(explained(make_tick(1.0)), glyphs=ASCII, no_color=True) as app:
        text = app.text("#anatomy")
        assert "% redo 1.9" in text
        assert "%" in app.rows("#anatomy")[3]
        assert "::: ACK wait 85.7 ms :::" in app.rows("#anatomy")[3]


def test_a_wait_for_an_acknowledgement_has_one_figure() -> None:
    """63.0 ms of a commit's time stood beside threads' waits of 27.6 ms, as if one of them were wrong."""
    tick = explained(make_tick(1.0))
    for anatomy, of in ((tick.anatomy, False), (None, True)):
        told = "".join(text for text, _ in truth_runs(tick.truth, 200, anatomy))
        assert ("ack waits 85/s of 85.7 ms" in told) is of
