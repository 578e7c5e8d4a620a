"""The sweep's screen: typed, started, filled as it runs, stopped; it goes on behind the dashboard."""

from __future__ import annotations

import asyncio

import pytest
from textual.widgets import Input

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.experiment.sweep import Sweep
from replexplorer.ui.experiments import SUGGESTION
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.screens.experiments import SweepScreen
from tests.fakes.facade import FakeFacade
from tests.ui.driving import Bench, bench


def shown(app: Bench) -> str:
    assert isinstance(app.app.screen, SweepScreen)
    return app.screen_text


async def opened(app: Bench) -> None:
    await app.press("S")
    await app.until(lambda: isinstance(app.app.screen, SweepScreen))
    await app.until(lambda: isinstance(app.app.screen.focused, Input))


async def typed(app: Bench, line: str) -> None:
    screen = app.app.screen
    screen.query_one(Input).value = ""
    for character in line:
        await app.pilot.press({"=": "equals_sign", ",": "comma", " ": "space"}.get(character, character))
    await app.pilot.pause()


async def test_the_suggestion_tells_runs_and_time_and_a_wrong_line_what_is_wrong() -> None:
    async with bench(size=(80, 24)) as app:
        await opened(app)
        await app.until(lambda: "12 runs of 5 s, about 2 min" in shown(app))
        await typed(app, "rtt=0,9999")
        await app.until(lambda: "rtt=9999 is out of range" in shown(app))
        await app.press("enter")
        assert app.facade.called("sweep") == []
        await typed(app, "rtt=0,10 clients=1,8 duration=2 repeat=3")
        await app.until(lambda: "12 runs of 2 s" in shown(app))
        await typed(app, "rtt=0,10 duration=x")
        await app.until(lambda: "duration=x is not possible: give a number of seconds" in shown(app))


def strip(app: Bench) -> str:
    return app.text("#lab-strip")


async def begun(app: Bench) -> None:
    """A sweep that was typed runs behind the dashboard."""
    await app.press("enter")
    await app.until(lambda: isinstance(app.app.screen, DashboardScreen))


def by_turns() -> FakeFacade:
    facade = FakeFacade()
    facade.sweep_turns = asyncio.Queue()
    return facade


def toasts(app: Bench) -> list[str]:
    return [toast.message for toast in app.app._notifications]


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (160, 45)])
async def test_it_is_narrated_fills_as_it_runs_and_ends_with_effects(size: tuple[int, int]) -> None:
    async with bench(size=size, facade=by_turns()) as app:
        turns = app.facade.sweep_turns
        assert turns is not None
        await opened(app)
        await typed(app, "rtt=0,10 clients=1,8")
        await begun(app)
        await app.until(lambda: "SWEEP rtt=0,10 clients=1,8" in strip(app))
        turns.put_nowait(None)
        await app.until(lambda: "rtt=0 ms clients=8" in strip(app) or "2/4" in strip(app))
        assert "A abort" in strip(app)
        assert "next" not in strip(app)
        await app.press("S")
        await app.until(lambda: isinstance(app.app.screen, SweepScreen) and "1/4" in shown(app))
        assert "100.0" in shown(app)
        assert "rtt down, clients across" in shown(app)
        await app.press("escape")
        for _ in range(3):
            turns.put_nowait(None)
        await app.until(lambda: any("clients=1,8: 4 runs (o opens it)" in told for told in toasts(app)))
        (wanted,) = app.facade.called("sweep")
        assert isinstance(wanted, Sweep)
        assert wanted.grid.text == "rtt=0,10 clients=1,8"
        await app.press("o")
        await app.until(lambda: app.app.screen.name == "result")
        await app.until(lambda: "clients 1 → 8: x1.6" in "\n".join(app.whole))
        assert all(len(row) <= size[0] for row in app.screen_text.splitlines())


async def test_knobs_are_refused_while_it_runs_and_it_can_be_aborted() -> None:
    async with bench(size=(80, 24), facade=by_turns()) as app:
        await opened(app)
        await begun(app)
        await app.press("s")
        told = f"the sweep {SUGGESTION} (tui, pid 1 on here) turns the knobs"
        await app.until(lambda: any(told in text for text in toasts(app)))
        assert app.facade.called("set") == []
        await app.press("A")
        await app.until(
            lambda: any("stopped; its knobs are restored, the same line" in t for t in toasts(app))
        )
        assert app.facade.called("sweep stopped") == [None]


async def test_what_the_model_learned_stands_in_the_result() -> None:
    async with bench(size=(80, 24), learn=lambda swept: f"fitted to {len(swept.runs)} runs") as app:
        await opened(app)
        await begun(app)
        await app.until(lambda: any("12 runs (o opens it)" in told for told in toasts(app)))
        await app.press("o")
        await app.until(lambda: app.app.screen.name == "result")
        await app.until(lambda: "fitted to 12 runs" in "\n".join(app.whole))


async def test_a_refusal_is_told() -> None:
    facade = FakeFacade()
    facade.failures["sweep"] = StackUnavailable("load (pid 7) drives the load of this stack", "end it")
    async with bench(size=(80, 24), facade=facade) as app:
        await opened(app)
        await begun(app)
        told = "load (pid 7) drives the load of this stack: end it"
        await app.until(lambda: any(told in text for text in toasts(app)))
