"""A few pictures of the whole screen: what stands where, in which colours."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from textual.pilot import Pilot

from replexplorer.adapters.recording import SessionReader
from replexplorer.core.tick import Tick
from replexplorer.formats.paths import shipped_tour
from replexplorer.ui.app import ExplorerApp
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.settings import Settings
from tests.fakes.facade import FakeFacade
from tests.ui.driving import Bench, ManualClock

SnapCompare = Callable[..., bool]


def session() -> list[Tick]:
    """The tour up to the outage: a far replica, lax settings, many clients, a partition under way."""
    with closing(SessionReader(shipped_tour())) as tape:
        return [tick for tick in tape.ticks() if tick.at_s < 135]


@pytest.mark.usefixtures("utc")
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
