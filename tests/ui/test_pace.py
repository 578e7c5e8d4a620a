"""Figures that all move with each tick are drawn less often; words at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.ui.charts.chart_model import ChartModel
from replexplorer.ui.widgets.lines import Cadence, Chart
from tests.fakes.facade import change_event, make_tick
from tests.ui.driving import bench


def test_figures_stand_and_words_do_not() -> None:
    cadence = Cadence(1.0)
    story = [
        (10.0, "armed", True),
        (10.5, "armed", False),
        (10.6, "protected", True),  # other words
        (10.9, "protected", False),
        (11.4, "protected", True),  # in the next second, whenever it was last drawn
        (11.4, "protected", True),  # the same moment: drawn again at another size
        (11.9, "protected", False),
        (3.2, "protected", True),  # a jump back in a recording
        (3.7, "protected", False),
    ]
    assert [(at_s, words, cadence.is_due(at_s, words)) for at_s, words, _ in story] == story


async def test_charts_that_only_grow_are_drawn_once_a_second_and_an_event_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with bench(make_tick(1.0)) as running:
        drawn: list[str] = []
        original = Chart.show

        def counted(chart: Chart, model: ChartModel) -> None:
            drawn.append(str(chart.id))
            original(chart, model)

        monkeypatch.setattr(Chart, "show", counted)
        both = ["tps-chart", "latency-chart"]
        for at_s, more, wanted in (
            (1.5, {}, []),
            (2.0, {}, both),
            (2.5, {"events": (change_event(2.5, 1, "rtt 85"),)}, both),
            (2.9, {}, []),
            (3.0, {}, both),
            (3.5, {"protection": Protection(ProtectionState.BLOCKED, True)}, both),
        ):
            drawn.clear()
            await running.play(replace(make_tick(at_s), **more))
            assert (at_s, drawn) == (at_s, wanted)
        drawn.clear()
        await running.press("plus")
        assert drawn == both
