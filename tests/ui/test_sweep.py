"""The sweep's screen: typed, started, filled as it runs, stopped; it goes on behind the dashboard."""

from __future__ import annotations

import asyncio

import pytest
from textual.widgets import Input

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.experiment.sweep import Sweep
from replexplorer.ui.experiments import SUGGESTION
from replexplorer.ui.screens.dashboard import CommandFailed, DashboardScreen
from replexplorer.ui.screens.experiments import SweepScreen
from tests.fakes.facade import FakeFacade, make_tick
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


async def test_it_fills_as_it_runs_and_ends_with_effects() -> None:
    facade = FakeFacade()
    facade.sweep_turns = asyncio.Queue()
    async with bench(size=(80, 24), facade=facade) as app:
        await opened(app)
        await typed(app, "rtt=0,10 clients=1,8")
        await app.press("enter")
        await app.until(lambda: "0/4 rtt=0 ms clients=1" in shown(app))
        facade.sweep_turns.put_nowait(None)
        await app.until(lambda: "1/4 rtt=0 ms clients=8" in shown(app))
        assert "100.0" in shown(app)
        assert "rtt down, clients across" in shown(app)
        assert "what each knob by itself did" not in shown(app)
        for _ in range(3):
            facade.sweep_turns.put_nowait(None)
        await app.until(lambda: "what each knob by itself did" in shown(app))
        await app.until(lambda: "clients 1 → 8: x1.6" in shown(app))
        assert all(len(row) <= 80 for row in shown(app).splitlines())
        (wanted,) = facade.called("sweep")
        assert isinstance(wanted, Sweep)
        assert wanted.grid.text == "rtt=0,10 clients=1,8"
        await app.press("e")
        assert isinstance(app.app.screen.focused, Input)


def refusals(app: Bench) -> list[str]:
    return [message.text for message in app.messages if isinstance(message, CommandFailed)]


async def test_it_goes_on_behind_the_dashboard_and_can_be_stopped() -> None:
    facade = FakeFacade()
    facade.sweep_turns = asyncio.Queue()
    async with bench(size=(80, 24), facade=facade) as app:
        await opened(app)
        await app.press("enter")
        await app.until(lambda: "0/12" in shown(app))
        await app.press("escape")
        await app.until(lambda: isinstance(app.app.screen, DashboardScreen))
        await app.press("s")
        await app.until(
            lambda: f"the sweep {SUGGESTION} (tui, pid 1 on here) turns the knobs" in refusals(app)
        )
        assert facade.called("set") == []
        facade.sweep_turns.put_nowait(None)
        await app.press("S")
        await app.until(lambda: "1/12" in shown(app))
        await app.press("x")
        await app.until(lambda: "stopped; the knobs are restored" in shown(app))
        assert facade.called("sweep stopped") == [None]
        await app.until(lambda: isinstance(app.app.screen.focused, Input))


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (160, 45)])
async def test_the_dashboard_says_that_a_sweep_turns_its_knobs(size: tuple[int, int]) -> None:
    facade = FakeFacade()
    facade.sweep_turns = asyncio.Queue()
    async with bench(size=size, facade=facade) as app:
        assert "sweep" not in app.text("#header")
        await opened(app)
        await app.press("enter")
        await app.until(lambda: "0/12" in shown(app))
        await app.press("escape")
        await app.until(lambda: " sweep 1 of 12 " in app.text("#header"))
        facade.sweep_turns.put_nowait(None)
        facade.sweep_turns.put_nowait(None)
        await app.until(lambda: app.dashboard._sweep.place == "sweep 3 of 12")
        await app.play(make_tick(2.0))
        assert " sweep 3 of 12 " in app.text("#header")
        await app.press("S")
        await app.press("x")
        await app.until(lambda: "stopped; the knobs are restored" in shown(app))
        await app.press("escape")
        await app.until(lambda: "sweep" not in app.text("#header"))


async def test_what_the_model_learned_is_told() -> None:
    async with bench(size=(80, 24), learn=lambda swept: f"fitted to {len(swept.runs)} runs") as app:
        await opened(app)
        await app.press("enter")
        await app.until(lambda: "fitted to 12 runs" in shown(app))


async def test_a_refusal_is_told() -> None:
    facade = FakeFacade()
    facade.failures["sweep"] = StackUnavailable("load (pid 7) drives the load of this stack", "end it")
    async with bench(size=(80, 24), facade=facade) as app:
        await opened(app)
        await app.press("enter")
        await app.until(lambda: "load (pid 7) drives the load of this stack: end it" in shown(app))
