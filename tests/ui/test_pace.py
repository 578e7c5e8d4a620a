"""Figures that all move with each tick are drawn less often; words at once."""

from __future__ import annotations

import pytest

from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.topology import SOURCE
from replexplorer.engine.outcome import Preview
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.widgets.lines import Cadence
from tests.ui.driving import bench


def test_figures_stand_and_words_do_not() -> None:
    cadence = Cadence(0.9)
    story = [
        (10.0, "armed", True),
        (10.5, "armed", False),
        (10.6, "protected", True),  # other words
        (11.4, "protected", False),  # counted from when it was last drawn
        (11.5, "protected", True),
        (11.5, "protected", True),  # the same moment: drawn again at another size
        (3.0, "protected", True),  # a jump back in a recording
        (3.5, "protected", False),
    ]
    assert [(at_s, words, cadence.is_due(at_s, words)) for at_s, words, _ in story] == story


async def test_a_preview_is_planned_again_for_other_values_or_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench() as running:
        planned: list[Value] = []

        def counted(screen: DashboardScreen, name: KnobName, value: Value, requested: Value) -> Preview:
            planned.append(value)
            return Preview((), (), ())

        monkeypatch.setattr(DashboardScreen, "_planned", counted)
        name = KnobName("sync_binlog", SOURCE)
        for value in (1, 1, 100, 100):
            running.dashboard._preview(name, value, 1)
        assert planned == [1, 100]
        running.clock.now_s += 2.1
        running.dashboard._preview(name, 100, 1)
        assert planned == [1, 100, 100]
