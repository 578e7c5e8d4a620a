"""A spectator's dashboard: looked at in every way, and no key of it changes anything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from replexplorer.core.knobs.names import KnobName
from replexplorer.core.tick import Tick
from replexplorer.core.topology import SOURCE
from replexplorer.ui.actions import (
    ACTIONS,
    ATTACHED,
    CHANGING,
    DASHBOARD,
    VIEW,
    WATCHED,
    DashboardMode,
    keys_of,
)
from tests.fakes.facade import FakeFacade, make_tick
from tests.ui.driving import bench
from tests.ui.test_what_stands_where import attached


class Watched(FakeFacade):
    """A view without a console."""

    @property
    def console(self) -> Any:
        return None


@pytest.mark.parametrize(
    ("facade", "visits", "mode"),
    [(Watched, False, VIEW), (Watched, True, WATCHED), (FakeFacade, True, ATTACHED)],
)
async def test_every_key_that_would_change_something_is_refused_with_one_line(
    facade: type[FakeFacade], visits: bool, mode: DashboardMode
) -> None:
    """Of another driver's stack, of somebody else's servers, and of these what is no setting."""
    async with bench(attached(1.0), attached(1.5), facade=facade(), visits=visits) as running:
        assert running.dashboard.mode is mode
        keys = [
            key for action in DASHBOARD if action.method in mode.refused for key in keys_of(action.id, {})
        ]
        await running.refuses(keys if mode is ATTACHED else [*keys, "4"], mode.why)
        assert not running.dashboard.board.staged
        assert running.app.screen is running.dashboard
        assert [what for what, _ in running.facade.calls] == ["start"]
        await running.press(*keys_of("semisync.toggle", {}))
        await running.until(lambda: bool(running.facade.called("set")) is (mode is ATTACHED))


async def test_what_only_looks_works_and_is_this_spectators_own() -> None:
    async with bench(make_tick(1.0, viewer=True), make_tick(1.5, viewer=True), facade=Watched()) as running:
        picture = running.dashboard.picture
        page_s, theme = picture.page_s, running.app.theme
        assert running.text("#footer").startswith(" view only")
        await running.press("plus", "t", "space", "y")
        assert picture.page_s < page_s
        assert running.app.theme != theme
        assert (picture.is_frozen, picture.chart("tps").log) == (True, True)
        await running.press("minus", "minus", "y")
        assert (picture.page_s > page_s, picture.chart("tps").log) == (True, False)
        await running.press("L")
        await running.until(lambda: running.app.screen.name == "log")
        assert running.notices == []


async def test_the_palette_offers_nothing_that_changes_anything() -> None:
    async with bench(facade=Watched()) as running:
        offered = {
            action.method
            for action in ACTIONS
            if action.listed
            and hasattr(running.dashboard, f"action_{action.method}")
            and running.dashboard.check_action(action.method, ()) is not False
        }
        assert offered
        assert not offered & CHANGING


async def test_the_cursor_goes_where_the_driver_s_goes_and_is_one_s_own_in_between() -> None:
    def told(at_s: float, selected: str | None) -> Tick:
        return replace(make_tick(at_s, viewer=True), driver_selects=selected)

    async with bench(told(1.0, None), told(1.5, "rtt@db2"), facade=Watched()) as running:
        board = running.dashboard.board
        await running.until(lambda: board.selected == KnobName("rtt", "db2"))
        await running.play(told(2.0, "clients"))
        assert board.selected == KnobName("clients", "load")
        assert any("▸ clients" in row for row in running.rows("#knobs"))
        await running.press("up")
        own = board.selected
        assert own != KnobName("clients", "load")
        await running.play(told(2.5, "clients"))
        assert board.selected == own
        await running.play(told(3.0, "semi_sync"))
        assert board.selected == KnobName("semi_sync", SOURCE)
        await running.play(told(3.5, "no_such_knob"))
        assert board.selected == KnobName("semi_sync", SOURCE)


async def test_who_drives_shows_the_selected_knob_to_who_watches() -> None:
    async with bench() as running:
        await running.until(lambda: len(running.facade.pointed) == 1, "the first knob")
        await running.press("down", "down")
        selected = str(running.dashboard.board.selected)
        await running.until(lambda: running.facade.pointed[-1] == selected, "the knob of now")
        assert len(running.facade.pointed) <= 3


# The dashboard over somebody else's servers


async def test_it_leaves_by_itself_when_its_time_is_over() -> None:
    async with bench(attached(1.0), attached(1.5), visits=True, ends_after_s=0.2) as running:
        await running.until(lambda: bool(running.facade.called("close")), "the end")
