"""The dashboard over somebody else's servers: what their counters say, and what can be turned there."""

from __future__ import annotations

from replexplorer.ui.actions import ATTACHED, DASHBOARD, WATCHED, keys_of
from tests.fakes.facade import FakeFacade
from tests.ui.driving import bench
from tests.ui.test_spectator import Watched
from tests.ui.test_what_stands_where import attached

LOOKS_ONLY = "these servers are only watched: --allow-changes lets settings be turned"
TURNS_ONLY = "on servers that `up` did not make only settings can be turned"


async def test_the_latency_is_the_mean_of_the_server_s_counters() -> None:
    async with bench(attached(1.0), attached(1.5), facade=Watched(), visits=True) as running:
        assert running.dashboard.mode is WATCHED
        series = running.dashboard.picture.chart("latency").series
        assert [point[1] for each in series for point in each.points] == [3.4, 3.4]


async def test_without_leave_nothing_is_turned_and_one_line_says_how() -> None:
    facade = Watched()
    async with bench(attached(1.0), attached(1.5), facade=facade, visits=True) as running:
        await running.refuses(("right", "n", "4", "f"), LOOKS_ONLY)
        assert [what for what, _ in facade.calls] == ["start"]


async def test_with_leave_settings_are_turned_and_nothing_else() -> None:
    facade = FakeFacade()
    async with bench(attached(1.0), attached(1.5), facade=facade, visits=True) as running:
        assert running.dashboard.mode is ATTACHED
        refused = [
            key for action in DASHBOARD if action.method in ATTACHED.refused for key in keys_of(action.id, {})
        ]
        await running.refuses(refused, TURNS_ONLY)
        assert [what for what, _ in facade.calls] == ["start"]
        await running.press(keys_of("semisync.toggle", {})[0])
        await running.until(lambda: bool(facade.called("set")), "the change")


async def test_it_leaves_by_itself_when_its_time_is_over() -> None:
    facade = FakeFacade()
    async with bench(attached(1.0), attached(1.5), facade=facade, visits=True, ends_after_s=0.2) as running:
        await running.until(lambda: bool(facade.called("close")), "the end")
