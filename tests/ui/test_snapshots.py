"""A few pictures of the whole screen: what stands where, in which colours."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from textual.pilot import Pilot

from replexplorer.core.epochs.epochs import Epoch
from replexplorer.core.event import Event, Severity
from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.tick import Tick
from replexplorer.core.topology import SOURCE
from replexplorer.ui.app import ExplorerApp
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.settings import Settings
from tests.fakes.facade import WALL_S, FakeFacade, change_event, explained, make_tick
from tests.ui.driving import Bench, ManualClock

SnapCompare = Callable[..., bool]


@pytest.fixture(autouse=True)
def _one_clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The log's local time is UTC."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def with_latencies(tick: Tick, number: int) -> Tick:
    """The tick with the histogram behind its percentiles; one commit in a while takes a second."""
    assert tick.load is not None
    assert tick.load.tps is not None
    assert tick.load.mean_ms is not None
    latency = Histogram()
    count = round(tick.load.tps / 2)
    latency.record_all(round(1000 * tick.load.mean_ms * (0.97 + 0.002 * (at % 40))) for at in range(count))
    if number % 23 == 0:
        latency.record(1_000_000)
    return replace(tick, load=replace(tick.load, n=latency.count, service=latency, max_ms=latency.max_ms))


def session() -> list[Tick]:
    """A slower link, a partition that heals, more clients, and one that lasts: back to async."""
    ticks: list[Tick] = []
    epochs: tuple[Epoch, ...] = (
        Epoch(0, 0.0, "baseline", None, 619.0, p50_ms=25.2, p95_ms=29.0, p99_ms=35.0, n=28_500),
    )
    changed = Epoch(1, 40.0, "rtt 20 → 85 ms", 619.0, 88.4, -85.7, "slower", 89.0, 93.0, 98.0, 7433)
    values: dict[KnobName, Value] = {
        KnobName("semi_sync", SOURCE): "on",
        KnobName("sync_binlog", SOURCE): 0,
        KnobName("fsync_delay", SOURCE): 2.0,
        KnobName("jitter", "db2"): 1.0,
    }
    titles = {
        40: "rtt 20 → 85 ms",
        60: "partition@db2 none → ack",
        70: "partition@db2 ack → none",
        80: "clients 8 → 48",
        88: "partition@db2 none → both",
    }
    for number in range(200):
        at_s = 0.5 * number
        slow = at_s >= 40
        rtt = (85.0, 85.4) if slow else (20.0, 20.2)
        events: tuple[Event, ...] = ()
        if at_s in titles:
            mark = list(titles).index(int(at_s)) + 1
            events = (change_event(at_s, mark, titles[int(at_s)]),)
        if at_s == 40:
            epochs = (*epochs, changed)
        if at_s == 80:
            epochs = (*epochs, Epoch(4, at_s, titles[80], 88.4, None))
        if at_s == 95:
            warned = Event(
                at_s, WALL_S + at_s, Severity.WARN, "semi-sync timed out: commits are asynchronous"
            )
            events = (warned,)
        partition = "ack" if 60 <= at_s < 69 else "both" if at_s >= 88 else "none"
        state, tps = ProtectionState.PROTECTED, 88.4 + number % 5 if slow else 380.0 + number % 7
        if 61 <= at_s < 70 or 89 <= at_s < 95:
            state, tps = ProtectionState.BLOCKED, 0.0
        elif at_s >= 95:
            state, tps = ProtectionState.DEGRADED, 1500.0 + number % 9
        tick = make_tick(
            at_s,
            state=state,
            tps=tps,
            rtt=rtt,
            values={**values, KnobName("partition", "db2"): partition},
            events=events,
            epochs=epochs,
            healing=69 <= at_s < 70,
            fsync_ms=2.2,
        )
        ticks.append(explained(with_latencies(tick, number)))
    return ticks


class TestSettledLook:
    """The dashboard at each size and in each theme against its picture."""

    @pytest.mark.parametrize(
        ("size", "theme", "keys"),
        [
            ((160, 45), "dark", ()),
            ((120, 36), "light", ("down",) * 6),
            ((120, 36), "safe", ("right",)),
            ((80, 24), "dark", ("down",)),
            ((80, 24), "dark", ("enter",)),
            ((60, 16), "dark", ()),
        ],
        ids=[
            "wide-dark",
            "normal-light",
            "normal-safe-staged",
            "compact-dark",
            "compact-drawer",
            "tiny",
        ],
    )
    def test_at(
        self, snap_compare: SnapCompare, size: tuple[int, int], theme: str, keys: tuple[str, ...]
    ) -> None:
        ticks = session()
        clock = ManualClock()
        app = ExplorerApp(FakeFacade(*ticks), Settings(theme=theme, monotonic=clock))

        async def settle(pilot: Pilot[str]) -> None:
            running = Bench(app, pilot, FakeFacade(), clock)
            await running.until(lambda: isinstance(app.screen, DashboardScreen))
            await running.until(lambda: running.dashboard.picture.tick is ticks[-1])
            await pilot.press(*keys)
            await pilot.pause()
            await pilot.pause()

        assert snap_compare(app, terminal_size=size, run_before=settle)
