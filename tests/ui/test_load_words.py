"""What the load hides, drops and is limited by stands on the screen at every width."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replexplorer.core.knobs.names import KnobName
from replexplorer.core.load.pacing import HIDES
from replexplorer.core.tick import Tick
from replexplorer.ui.picture import Picture
from replexplorer.ui.widgets.lines import Chart
from tests.fakes.facade import explained, make_tick
from tests.ui.driving import Bench, bench

BUSY = "all 8 clients busy, 1,234 arrivals wait"


def with_load(at_s: float, **changes: object) -> Tick:
    tick = make_tick(at_s)
    assert tick.load is not None
    return replace(tick, load=replace(tick.load, **changes))  # type: ignore[arg-type]


def titles(app: Bench) -> str:
    return "\n".join(chart.rows[0] for chart in app.dashboard.query(Chart) if chart.rows)


@pytest.mark.parametrize("width", [160, 120, 100, 80])
async def test_drops_and_the_loads_own_limit_are_both_seen(width: int) -> None:
    tick = with_load(
        1.0, mode="open", rate_asked_tps=500.0, dropped=60, backlog=2240, limited=BUSY, deadlocks=3
    )
    async with bench(tick, size=(width, 42)) as app:
        [row] = app.rows("#header")
        assert "▲ dropped" in row
        assert "busy" in row
        assert "deadl" in row
        assert "TPS" in row
        assert len(row) == width


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"errors": 4}, "8.0 err/s"),
        ({"reconnects": 1}, "2.0 reconn/s"),
        ({"deadlocks": 2}, "4.0 deadlocks/s"),
        ({"lock_timeouts": 1}, "2.0 lock timeouts/s"),
        ({"unknown": 3}, "6.0 unknown/s"),
        ({"state": "drained"}, "load drained"),
        ({"state": "preparing", "prepared": 0.4}, "load preparing 40%"),
        ({"limited": "generator at 97 % of a core"}, "▲ generator"),
    ],
)
async def test_what_is_not_as_usual_stands_beside_tps(changes: dict[str, object], told: str) -> None:
    async with bench(with_load(1.0, **changes), size=(160, 45)) as app:
        assert told in app.rows("#header")[0]


async def test_several_statements_a_transaction_are_told_in_the_title() -> None:
    async with bench(with_load(1.0, qps=10_560.0)) as app:
        assert "10.6k QPS" in titles(app)


async def test_one_statement_a_transaction_needs_no_qps() -> None:
    async with bench(with_load(1.0, qps=528.0)) as app:
        assert "QPS" not in app.rows("#header")[0]
        assert "QPS" not in titles(app)


async def test_a_full_core_of_the_generator_comes_with_its_remedy() -> None:
    full = with_load(1.0, limited="generator at 97 % of a core", clients=8, processes=1)
    async with bench(full, size=(160, 45)) as app:
        title = app.dashboard.query_one("#tps-chart", Chart).rows[0]
        assert "generator at 97 % of a core; set workload.processes = 2" in title


async def test_the_title_says_that_the_load_is_the_limit_in_amber() -> None:
    async with bench(with_load(1.0, limited="generator at 97 % of a core", qps=3000.0)) as app:
        chart = app.dashboard.query_one("#tps-chart", Chart)
        assert "▲ the load is the limit: generator at 97 % of a core" in chart.rows[0]
        assert "3000 QPS" in chart.rows[0]
        assert chart.shown is not None
        assert chart.shown.note_ink == "warn"


@pytest.mark.parametrize(
    ("width", "mode", "words"),
    [
        (160, "closed", "a stall shows as 8 slow commits"),
        (260, "closed", HIDES["closed"]),
        (120, "closed", "a stall shows as 8 slow commits"),
        (160, "open", "open: watch the backlog"),
        (300, "open", HIDES["open"]),
        (120, "open", "open: watch the backlog"),
    ],
)
async def test_the_latency_title_says_what_the_mode_hides(width: int, mode: str, words: str) -> None:
    """A large screen has the exposure beside the latency, so the words are those of half its width."""
    async with bench(with_load(1.0, mode=mode), size=(width, 42)) as app:
        assert words in titles(app)


async def test_backlog_and_drops_stand_in_the_title_and_as_a_window() -> None:
    ticks = [
        with_load(1 + at / 2, mode="open", backlog=40 * at, dropped=6 if at > 3 else 0) for at in range(8)
    ]
    async with bench(*ticks) as app:
        assert "backlog 280 · dropped 12.0/s" in titles(app)
        [window] = app.dashboard.picture.windows.all()
        assert (window.word, window.end_s) == ("dropped", None)
        drawn = "\n".join(app.dashboard.query_one("#latency-chart", Chart).rows)
        assert "dropped" in drawn.partition("\n")[2]


def test_a_window_of_drops_ends_with_its_length_and_a_later_one_is_another() -> None:
    picture = Picture()
    for at in range(40):
        dropped = 5 if 4 <= at < 8 or at == 10 or at >= 30 else 0
        picture.fold(with_load(at / 2, mode="open", dropped=dropped))
    assert [(one.word, one.start_s, one.end_s) for one in picture.windows.all()] == [
        ("dropped 3.5 s", 1.5, 5.0),
        ("dropped", 14.5, None),
    ]


async def test_the_mode_says_what_it_hides_where_it_is_chosen() -> None:
    for size in ((120, 36), (80, 24)):
        async with bench(size=size) as app:
            app.dashboard.select_knob(KnobName("load_mode", "load"))
            where = "#statement" if size[0] == 120 else "#knob-line"
            text = " ".join(" ".join(app.rows(where)).split())
            assert HIDES["closed"].partition(";")[0] in text


async def test_the_prediction_is_named_beside_the_ceiling() -> None:
    async with bench(explained(make_tick(1.0))) as app:
        assert "predicted 89.0/s · ceiling 8 ÷ (85.4 + 3.0 ms) = 90.5/s" in titles(app)
        assert "89.0 pred" in "\n".join(app.dashboard.query_one("#tps-chart", Chart).rows)
    async with bench(explained(make_tick(1.0)), size=(160, 45)) as app:
        first = app.rows("#big-strip")[1]
        assert "predicted" in first
        assert "ceiling" in app.rows("#big-strip")[2]
        assert "90.5" in app.rows("#big-strip")[3]


async def test_long_latencies_do_not_push_the_big_figures_out() -> None:
    tick = with_load(1.0, p50_ms=30_278.0, p99_ms=44_284.0)
    async with bench(tick, size=(160, 45)) as app:
        assert "seconds" in app.rows("#big-strip")[2]
        assert not any(row.endswith("…") for row in app.rows("#big-strip"))
