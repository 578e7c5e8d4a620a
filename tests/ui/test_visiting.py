"""The dashboard over somebody else's servers: what their counters say, and what can be turned there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.notifications import Notify

from replexplorer.core.load.interval import SERVER, LoadView
from replexplorer.core.server.anatomy import Anatomy, Part
from replexplorer.core.tick import Tick
from replexplorer.ui.actions import ATTACHED, DASHBOARD, WATCHED, keys_of
from tests.fakes.facade import FakeFacade, make_tick
from tests.ui.driving import Bench, bench
from tests.ui.test_spectator import Watched

LOOKS_ONLY = "these servers are only watched: --allow-changes lets settings be turned"
TURNS_ONLY = "on servers that `up` did not make only settings can be turned"


def theirs(at_s: float, mean_ms: float | None = 3.4) -> Tick:
    """What is known of other people's servers and load."""
    load = LoadView(0, 0, "", 340.0, n=170, duration_s=0.5, mean_ms=mean_ms, state=SERVER)
    parts = {Part.REDO: 1.2, Part.BINLOG: 1.5, Part.OTHER: 0.7}
    anatomy = None if mean_ms is None else Anatomy(10.0, 3400, mean_ms, parts, 0.0, (Part.QUEUE, Part.ENGINE))
    tick = make_tick(at_s)
    return replace(tick, load=load, links=(), disks=(), ceiling=None, anatomy=anatomy)


def told(running: Bench) -> list[str]:
    return [message.notification.message for message in running.messages if isinstance(message, Notify)]


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
async def test_figures_say_that_they_are_the_server_s(size: tuple[int, int]) -> None:
    facade = Watched()
    async with bench(theirs(1.0), theirs(1.5), size=size, facade=facade, visits=True) as running:
        assert running.dashboard.mode is WATCHED
        shown = "\n".join(running.text(f"#{name}") for name in ("header", "value-strip", "anatomy"))
        assert "340" in running.text("#header")
        assert "server" in running.text("#header")
        assert "VIEWER" not in shown
        assert "p99" not in running.text("#header")
        assert "RTT" not in running.text("#header")


async def test_the_charts_are_titled_by_what_is_counted_and_what_is_not() -> None:
    async with bench(theirs(1.0), theirs(1.5), size=(200, 60), facade=Watched(), visits=True) as running:
        tps, latency = map(running.dashboard.picture.chart, ("tps", "latency"))
        assert tps.notes[0] == "by the server's counters, all clients"
        assert (latency.title, latency.notes[0]) == ("Commit", "no client's clock, no percentiles")
        assert [point[1] for series in latency.series for point in series.points] == [3.4, 3.4]
        assert "the server's mean of 3400 commits" in running.text("#anatomy")


async def test_a_server_that_times_no_commit_is_said_to() -> None:
    tick = theirs(1.5, mean_ms=None)
    async with bench(theirs(1.0, mean_ms=None), tick, facade=Watched(), visits=True) as running:
        assert "the server has timed no commit" in running.text("#anatomy")
        latency = running.dashboard.picture.chart("latency")
        assert latency.empty == "the server has timed no commit"


async def test_without_leave_nothing_is_turned_and_one_line_says_how() -> None:
    facade = Watched()
    async with bench(theirs(1.0), theirs(1.5), facade=facade, visits=True) as running:
        for number, key in enumerate(("right", "n", "4", "f"), 1):
            running.clock.now_s += 10
            await running.press(key)
            assert told(running) == [LOOKS_ONLY] * number, key
        assert [what for what, _ in facade.calls] == ["start"]


async def test_with_leave_settings_are_turned_and_nothing_else() -> None:
    facade = FakeFacade()
    async with bench(theirs(1.0), theirs(1.5), facade=facade, visits=True) as running:
        assert running.dashboard.mode is ATTACHED
        refused = [
            key for action in DASHBOARD if action.method in ATTACHED.refused for key in keys_of(action.id, {})
        ]
        for number, key in enumerate(refused, 1):
            running.clock.now_s += 10
            await running.press(key)
            assert told(running) == [TURNS_ONLY] * number, key
        assert [what for what, _ in facade.calls] == ["start"]
        await running.press(keys_of("semisync.toggle", {})[0])
        await running.until(lambda: bool(facade.called("set")), "the change")


async def test_it_leaves_by_itself_when_its_time_is_over() -> None:
    facade = FakeFacade()
    async with bench(theirs(1.0), theirs(1.5), facade=facade, visits=True, ends_after_s=0.2) as running:
        await running.until(lambda: bool(facade.called("close")), "the end")
