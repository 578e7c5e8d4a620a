"""A spectator's dashboard: looked at in every way, and no key of it changes anything."""

from __future__ import annotations

from typing import Any

import pytest

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
from tests.fakes.facade import FakeFacade
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
    """Of another driver's stack, of other people's servers, and of these what is no setting; the palette
    offers nothing of it."""
    async with bench(attached(), facade=facade(), visits=visits) as app:
        assert app.dashboard.mode is mode
        keys = [
            key for action in DASHBOARD if action.method in mode.refused for key in keys_of(action.id, {})
        ]
        await app.refuses(keys if mode is ATTACHED else [*keys, "4"], mode.why)
        assert not app.dashboard.board.staged
        assert app.app.screen is app.dashboard
        assert [what for what, _ in app.facade.calls] == ["start"]
        offered = {
            action.method
            for action in ACTIONS
            if action.listed
            and hasattr(app.dashboard, f"action_{action.method}")
            and app.dashboard.check_action(action.method, ()) is not False
        }
        assert bool(offered & CHANGING) is (mode is ATTACHED)
        await app.press("s")
        await app.until(lambda: bool(app.facade.called("set")) is (mode is ATTACHED))


async def test_what_only_looks_works_and_is_this_spectators_own() -> None:
    async with bench("viewer", "1.5 viewer", facade=Watched()) as app:
        picture = app.dashboard.picture
        page_s, theme = picture.page_s, app.app.theme
        assert app.text("#footer").startswith(" view only")
        await app.press("+ t space y")
        assert picture.page_s < page_s
        assert app.app.theme != theme
        assert (picture.is_frozen, picture.chart("tps").log) == (True, True)
        await app.press("- - y")
        assert (picture.page_s > page_s, picture.chart("tps").log) == (True, False)
        await app.press("L")
        await app.until(lambda: app.app.screen.name == "log")
        assert app.notices == []


async def test_the_cursor_goes_where_the_driver_s_goes_and_is_one_s_own_in_between() -> None:
    async with bench("viewer", "1.5 viewer driver_selects=rtt@db2", facade=Watched()) as app:

        def selected() -> str:
            return str(app.dashboard.board.selected)

        await app.until(lambda: selected() == "rtt@db2")
        await app.play("2 viewer driver_selects=clients")
        assert any("▸ clients" in row for row in app.rows("#knobs"))
        await app.press("up")
        own = selected()
        assert own != "clients"
        for at_s, told, here in (
            (2.5, "clients", own),
            (3.0, "semi_sync", "semi_sync"),
            (3.5, "no_such_knob", "semi_sync"),
        ):
            await app.play(f"{at_s} viewer driver_selects={told}")
            assert selected() == here


async def test_who_drives_shows_the_selected_knob_to_who_watches() -> None:
    async with bench() as app:
        await app.until(lambda: len(app.facade.pointed) == 1, "the first knob")
        await app.press("down down")
        selected = str(app.dashboard.board.selected)
        await app.until(lambda: app.facade.pointed[-1] == selected, "the knob of now")
        assert len(app.facade.pointed) <= 3


# The dashboard over somebody else's servers


async def test_it_leaves_by_itself_when_its_time_is_over() -> None:
    async with bench(attached(), visits=True, ends_after_s=0.2) as app:
        await app.until(lambda: bool(app.facade.called("close")), "the end")
