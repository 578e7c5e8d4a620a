"""The exposure on the dashboard: the line at every size, the chart over time, the epochs' ledger."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from replexplorer.core.server.exposure import Exposure, Loss, Unknown, silent
from replexplorer.ui.widgets.lines import Chart
from replexplorer.ui.words.states import exposure_line
from tests.fakes.facade import make_tick
from tests.ui.driving import Bench, bench, folded, page

HIDDEN = Exposure(Loss(0, 0, 0), Loss(312, 300, 340, 413.0), Unknown("no replica"))
WIDE_SPREAD = Exposure(
    Loss(0, 0, 0), Loss(11_013, 11_002, 11_031, 65_000.0), Loss(128_400, 90_000, 130_000, 3_600_000.0)
)


def text_of(exposure: Exposure | None, width: int) -> str:
    return "".join(text for text, _ in exposure_line(exposure, width))


LINES = (
    HIDDEN,
    WIDE_SPREAD,
    silent("the source was not reached"),
    replace(HIDDEN, read_ago_s=0.9),
    replace(HIDDEN, read_ago_s=1.4),
    replace(WIDE_SPREAD, read_ago_s=1.4),
    None,
)


def test_the_line_has_as_much_as_fits(snapshot: SnapshotAssertion) -> None:
    assert page(text_of(exposure, width) for exposure in LINES for width in (75, 80, 120)) == snapshot


FIGURES = st.integers(0, 10**7)
LOSSES = st.one_of(
    st.builds(Unknown, st.text(st.characters(codec="ascii", categories=["L"]), max_size=80)),
    st.builds(
        lambda low, more, age_ms: Loss(low, low, low + more, age_ms),
        FIGURES,
        FIGURES,
        st.none() | st.floats(0, 1e8),
    ),
)


@given(st.builds(Exposure, LOSSES, LOSSES, LOSSES), st.sampled_from([75, 80, 111]))
def test_whatever_is_at_risk_fits_and_what_is_unknown_is_never_a_figure(
    exposure: Exposure, width: int
) -> None:
    text = text_of(exposure, width)
    assert len(text) <= width
    if "unknown (" in text and " · " not in text:
        assert isinstance(exposure.process_dies, Unknown)
        assert exposure.process_dies == exposure.power_cut == exposure.source_lost
        return
    for part, loss in zip(
        text.split(" · "), (exposure.process_dies, exposure.power_cut, exposure.source_lost), strict=True
    ):
        figure = part.partition(" (")[0].split()[-1]
        assert (figure in ("unknown", "-")) is isinstance(loss, Unknown)


def shown(app: Bench) -> str:
    """The charts that are seen, by their titles."""
    charts = app.dashboard.query(Chart)
    return " ".join(chart.rows[0].strip(" ─").split()[0].lower() for chart in charts if chart.region.area)


@pytest.mark.parametrize(
    ("size", "key", "views"),
    [
        ((80, 24), "e", ["tps", "exposure", "tps"]),
        ((80, 24), "v", ["tps", "latency", "exposure", "lag", "tps"]),
        ((80, 40), "e", ["tps latency", "tps exposure", "tps latency"]),
        ((120, 36), "e", ["tps latency", "tps exposure", "tps latency"]),
        ((120, 36), "v", ["tps latency", "tps exposure", "tps lag", "tps latency"]),
        ((160, 45), "e", ["tps latency exposure"] * 2),
        ((160, 45), "v", ["tps latency exposure", "tps latency lag", "tps latency exposure"]),
    ],
)
async def test_a_key_shows_the_chart_in_place_of_another_and_a_large_screen_has_all(
    size: tuple[int, int], key: str, views: list[str]
) -> None:
    async with bench(size=size) as app:
        seen = [shown(app)]
        for _ in views[1:]:
            await app.press(key)
            await app.pilot.pause()
            seen.append(shown(app))
        assert seen == views


def test_unknown_is_a_gap_and_no_zero() -> None:
    ticks = (make_tick(1.0), make_tick(1.5, exposure=HIDDEN), make_tick(2.0, exposure=None))
    found = folded(ticks).chart("exposure")
    assert [list(one.points) for one in found.series] == [
        [(1.0, 0.0), (1.5, 0.0), (2.0, None)],
        [(1.0, 312.0), (1.5, 312.0), (2.0, None)],
        [(1.0, 8.0), (1.5, None), (2.0, None)],
    ]
    assert [one.labels[0] for one in found.series] == ["- mysqld dies", "- power cut", "- source lost"]


@pytest.mark.parametrize("most", [0, 1, 2, 7])
async def test_few_commits_at_risk_have_no_fractions_on_their_axis(most: int) -> None:
    exposure = Exposure(Loss(0, 0, 0), Loss(most, most, most), Loss(0, 0, 0))
    async with bench(*(make_tick(at / 2, exposure=exposure) for at in range(2, 12)), size=(120, 36)) as app:
        await app.press("e")
        await app.pilot.pause()
        rows = app.dashboard.query_one("#exposure-chart", Chart).rows
        ticks = [row.partition("┤")[0].strip() for row in rows if "┤" in row]
        assert ticks[-1] == "0"
        assert all(tick.isdigit() for tick in ticks)
