"""A few pictures of the whole screen: what stands where, in which colours."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from textual.pilot import Pilot

from replexplorer.adapters.recording import SessionReader
from replexplorer.core.tick import Tick
from replexplorer.formats.paths import SHIPPED_TOUR
from replexplorer.ui.app import ExplorerApp
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.settings import Settings
from tests.fakes.facade import FakeFacade
from tests.ui.driving import Bench, ManualClock

SnapCompare = Callable[..., bool]


def session() -> list[Tick]:
    """The tour up to the outage: a far replica, lax settings, many clients, a partition under way."""
    with closing(SessionReader(SHIPPED_TOUR)) as tape:
        return [tick for tick in tape.ticks() if tick.at_s < 135]


LOOKS = {
    "wide-dark": ((160, 45), "dark", ""),
    "normal-light": ((120, 36), "light", "down " * 6),
    "normal-safe-staged": ((120, 36), "safe", "right"),
    "compact-dark": ((80, 24), "dark", "down"),
    "compact-drawer": ((80, 24), "dark", "enter"),
}


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize("look", LOOKS)
def test_the_settled_look(snap_compare: SnapCompare, look: str) -> None:
    size, theme, keys = LOOKS[look]
    ticks, clock = session(), ManualClock()
    app = ExplorerApp(FakeFacade(*ticks), Settings(theme=theme, monotonic=clock))

    async def settle(pilot: Pilot[str]) -> None:
        running = Bench(app, pilot, FakeFacade(), clock, [])
        await running.until(lambda: isinstance(app.screen, DashboardScreen))
        await running.until(lambda: running.dashboard.picture.tick is ticks[-1])
        await running.press(keys)
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=settle)
