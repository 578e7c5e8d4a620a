"""The sweep's screen: typed, started, filled as it runs, stopped; it goes on behind the dashboard."""

from __future__ import annotations

from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from textual.widgets import Input

from replexplorer.core.errors import StackUnavailable
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.screens.experiments import SweepScreen
from tests.fakes.facade import FakeFacade
from tests.ui.driving import Bench, bench, page

KEYS = {"=": "equals_sign", ",": "comma", " ": "space"}


async def opened(app: Bench) -> None:
    await app.press("S")
    await app.until(lambda: isinstance(app.app.screen, SweepScreen))
    await app.until(lambda: isinstance(app.app.screen.focused, Input))


async def typed(app: Bench, line: str) -> None:
    app.app.screen.query_one(Input).value = ""
    await app.press(*(KEYS.get(character, character) for character in line))


async def begun(app: Bench, line: str | None = None) -> None:
    """A sweep that was typed, else the suggestion, runs behind the dashboard."""
    await opened(app)
    if line is not None:
        await typed(app, line)
    await app.press("enter")
    await app.until(lambda: isinstance(app.app.screen, DashboardScreen))


async def test_the_suggestion_tells_runs_and_time_and_a_wrong_line_what_is_wrong() -> None:
    async with bench(size=(80, 24)) as app:
        await opened(app)
        await app.until(lambda: "12 runs of 5 s, about 2 min" in app.screen_text)
        for line, answer in (
            ("rtt=0,9999", "rtt=9999 is out of range"),
            ("rtt=0,10 clients=1,8 duration=2 repeat=3", "12 runs of 2 s"),
            ("rtt=0,10 duration=x", "duration=x is not possible: give a number of seconds"),
        ):
            await typed(app, line)
            await app.until(lambda answer=answer: answer in app.screen_text, answer)  # type: ignore[misc]
        await app.press("enter")
        assert app.facade.called("sweep") == []


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (160, 45)])
async def test_it_is_narrated_fills_as_it_runs_and_ends_with_effects(
    size: tuple[int, int], snapshot: SnapshotAssertion
) -> None:
    facade = FakeFacade(by_turns=True)
    async with bench(size=size, facade=facade) as app:
        await begun(app, "rtt=0,10 clients=1,8")
        await app.until(lambda: "SWEEP rtt=0,10 clients=1,8" in app.text("#lab-strip"))
        facade.turn()
        await app.until(lambda: "2/4" in app.text("#lab-strip"))
        pages = app.rows("#lab-strip")
        await app.press("S")
        await app.until(lambda: isinstance(app.app.screen, SweepScreen) and "1/4" in app.screen_text)
        pages += app.shown
        await app.press("escape")
        facade.turn(3)
        await app.told("clients=1,8: 4 runs (o opens it)")
        wanted: Any = facade.called("sweep")[0]
        assert wanted.grid.text == "rtt=0,10 clients=1,8"
        await app.press("o")
        await app.until(lambda: app.app.screen.name == "result")
        assert page(pages, app.whole) == snapshot


async def test_it_can_be_aborted() -> None:
    facade = FakeFacade(by_turns=True)
    async with bench(size=(80, 24), facade=facade) as app:
        await begun(app)
        await app.press("A")
        await app.told("stopped; its knobs are restored, the same line")
        assert facade.called("sweep stopped") == [None]


async def test_what_the_model_learned_stands_in_the_result() -> None:
    async with bench(size=(80, 24), learn=lambda swept: f"fitted to {len(swept.runs)} runs") as app:
        await begun(app)
        await app.told("12 runs (o opens it)")
        await app.press("o")
        await app.until(lambda: app.app.screen.name == "result")
        await app.until(lambda: "fitted to 12 runs" in "\n".join(app.whole))


async def test_a_refusal_is_told() -> None:
    facade = FakeFacade()
    facade.failures["sweep"] = StackUnavailable("load (pid 7) drives the load of this stack", "end it")
    async with bench(size=(80, 24), facade=facade) as app:
        await begun(app)
        await app.told("load (pid 7) drives the load of this stack: end it")
