"""A spectator's dashboard: looked at in every way, and no key of it changes anything."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from replexplorer.core.knobs.names import KnobName
from replexplorer.core.tick import Tick
from replexplorer.core.topology import SOURCE
from replexplorer.ui.actions import ACTIONS, ATTACHED, CHANGING, DASHBOARD, VIEW, keys_of
from tests.fakes.facade import FakeFacade, make_tick
from tests.ui.driving import bench
from tests.ui.test_what_stands_where import attached

REFUSED = "view only: the driver turns the knobs"


class Watched(FakeFacade):
    """A view without a console."""

    @property
    def console(self) -> Any:
        return None


async def test_every_key_that_would_change_something_is_refused_with_one_line() -> None:
    facade = Watched()
    async with bench(facade=facade) as running:
        assert running.dashboard.mode is VIEW
        keys = [key for action in DASHBOARD if action.method in CHANGING for key in keys_of(action.id, {})]
        await running.refuses((*keys, "right", "left", "H", "l", "4", "n"), REFUSED)
        assert not running.dashboard.board.staged
        assert running.app.screen is running.dashboard
        assert len(keys) >= 14
        assert [what for what, _ in facade.calls] == ["start"]


async def test_what_only_looks_works_and_is_this_spectators_own() -> None:
    async with bench(make_tick(1.0, viewer=True), make_tick(1.5, viewer=True), facade=Watched()) as running:
        page_s, theme = running.dashboard.picture.page_s, running.app.theme
        assert running.text("#footer").startswith(" view only")
        await running.press("plus", "t", "space", "y")
        assert running.dashboard.picture.page_s < page_s
        assert running.app.theme != theme
        assert running.dashboard.picture.is_frozen
        assert running.dashboard.picture.chart("tps").log
        await running.press("minus", "minus", "y")
        assert running.dashboard.picture.page_s > page_s
        assert not running.dashboard.picture.chart("tps").log
        await running.press("L")
        await running.until(lambda: running.app.screen.name == "log")
        assert REFUSED not in running.notices


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


# The dashboard over somebody else's servers: what their counters say, and what can be turned there


LOOKS_ONLY = "these servers are only watched: add --allow-changes to change settings"
TURNS_ONLY = "on servers that `up` did not make only settings can be turned"


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
