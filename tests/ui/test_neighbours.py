"""Another stack beside the dashboard's own: asked for by a key, compared and left; the own load runs on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from textual.notifications import Notify
from textual.screen import Screen

from replexplorer.core.errors import MissingPiece, NoSuchStack
from replexplorer.core.machine import Machine
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.screens.help import HelpScreen
from replexplorer.ui.screens.neighbours import NO_OTHER, ComparisonScreen, NeighboursScreen
from replexplorer.ui.settings import Neighbours
from replexplorer.ui.widgets.lines import Lines
from tests.fakes.facade import FakeFacade, make_tick
from tests.ui.driving import Bench, bench


@dataclass
class Street:
    """The stacks that there are beside the dashboard's own."""

    there: Sequence[str] = ("other", "third")
    other: FakeFacade = field(default_factory=lambda: FakeFacade(make_tick(1.0, tps=264.0)))
    error: MissingPiece | None = None
    opened: list[str] = field(default_factory=list)

    async def names(self) -> Sequence[str]:
        if self.error is not None:
            raise self.error
        return self.there

    def view(self, name: str, loads: bool) -> FakeFacade:
        self.opened.append(name if loads else f"{name} at rest")
        return self.other

    async def machine(self) -> Machine | None:
        return None

    @asynccontextmanager
    async def dashboard(self, size: tuple[int, int] = (120, 36)) -> AsyncIterator[Bench]:
        neighbours = Neighbours(self.names, self.view, self.machine)
        async with bench(size=size, stack="mine", neighbours=neighbours) as running:
            yield running


def toasts(running: Bench) -> list[str]:
    return [each.notification.message for each in running.messages if isinstance(each, Notify)]


async def compared(running: Bench) -> ComparisonScreen:
    """From the dashboard to the comparison with the first of the others."""
    await running.press("C")
    await running.until(lambda: isinstance(running.app.screen, NeighboursScreen), "the question")
    await running.press("enter")
    await running.until(lambda: isinstance(running.app.screen, ComparisonScreen), "the comparison")
    screen = running.app.screen
    assert isinstance(screen, ComparisonScreen)
    return screen


async def test_a_key_opens_the_comparison_and_another_leads_back_to_a_dashboard_that_went_on() -> None:
    street = Street()
    async with street.dashboard() as running:
        screen = await compared(running)
        assert street.opened == ["other"]
        running.facade.play(make_tick(2.0, tps=528.0))
        await running.until(lambda: all(side.tick for side in screen.sides), "both sides")
        await running.until(lambda: "A mine  528 TPS" in running_text(screen, "#pair-head"), "A's row")
        assert "B other  264 TPS" in running_text(screen, "#pair-head")
        assert "back" in running_text(screen, "#footer")
        # The dashboard behind has taken the same tick: its charts and its recording have no gap.
        await running.until(lambda: at_s(running) == 2.0, "the dashboard's tick")

        await running.press("escape")
        await running.until(lambda: isinstance(running.app.screen, DashboardScreen), "the dashboard")
        await running.until(lambda: bool(street.other.called("close")), "the other's end")
        assert not running.facade.called("close")
        running.facade.play(make_tick(3.0))
        await running.until(lambda: at_s(running) == 3.0, "the next tick")

        street.other = FakeFacade(make_tick(9.0))
        await running.until(lambda: running.dashboard.beside is None, "the end of the other")
        await compared(running)
        assert street.opened == ["other", "other"]


async def test_the_other_stack_may_be_left_at_rest() -> None:
    street = Street()
    async with street.dashboard(size=(80, 24)) as running:
        await running.press("C")
        await running.until(lambda: isinstance(running.app.screen, NeighboursScreen), "the question")
        await running.until(lambda: "x leave it at rest" in running_text(running.app.screen, "Lines"), "x")
        await running.press("down", "x")
        await running.until(lambda: isinstance(running.app.screen, ComparisonScreen), "the comparison")
        assert street.opened == ["third at rest"]
        assert toasts(running) == ["attaching to stack third…"]


async def test_a_knob_is_turned_on_both_from_there_and_q_leads_back_too() -> None:
    street = Street()
    async with street.dashboard() as running:
        screen = await compared(running)
        running.facade.play(make_tick(2.0))
        await running.until(lambda: bool(screen.twins.names) and all(s.tick for s in screen.sides), "knobs")
        screen.twins.selected = next(name for name in screen.twins.names if name.key == "semi_sync")
        await running.press("right", "enter")
        await running.until(lambda: "semi_sync" in str(running.facade.calls), "A's turn")
        await running.until(lambda: "semi_sync" in str(street.other.calls), "B's turn")
        await running.press("question_mark")
        assert isinstance(running.app.screen, HelpScreen)
        await running.press("q", "q")
        await running.until(lambda: isinstance(running.app.screen, DashboardScreen), "the dashboard")
        assert not running.facade.called("close")


async def test_without_another_stack_it_says_how_to_make_one() -> None:
    street = Street(there=())
    async with street.dashboard() as running:
        await running.press("C")
        await running.until(lambda: bool(toasts(running)), "the answer")
        assert toasts(running) == [NO_OTHER]
        assert isinstance(running.app.screen, DashboardScreen)


async def test_what_goes_wrong_is_one_line_and_the_dashboard_stays() -> None:
    street = Street(error=MissingPiece("Docker does not answer", "start it"))
    async with street.dashboard() as running:
        await running.press("C")
        await running.until(lambda: toasts(running) == ["Docker does not answer: start it"], "the line")
        street.error = None
        street.other.failures["start"] = NoSuchStack("no stack 'other' runs here", "`replexplorer up`")
        await running.press("C")
        await running.until(lambda: isinstance(running.app.screen, NeighboursScreen), "the question")
        await running.press("enter")
        await running.until(
            lambda: toasts(running)[-1] == "no stack 'other' runs here: `replexplorer up`", "the failure"
        )
        await running.until(lambda: running.dashboard.beside is None, "the end of the attempt")
        assert isinstance(running.app.screen, DashboardScreen)


async def test_leaving_the_app_at_once_ends_both_loads() -> None:
    street = Street()
    async with street.dashboard() as running:
        await compared(running)
        street.other.closing_line = "other keeps running"
        await running.press("ctrl+c")
        await running.until(lambda: bool(running.facade.called("close")), "the own end")
        assert street.other.called("close")


async def test_where_nobody_knows_other_stacks_the_key_does_nothing() -> None:
    async with bench() as running:
        await running.press("C")
        assert isinstance(running.app.screen, DashboardScreen)
        assert not toasts(running)


def running_text(screen: Screen[Any], name: str) -> str:
    return "\n".join(screen.query_one(name, Lines).rows)


def at_s(running: Bench) -> float | None:
    tick = running.dashboard.picture.tick
    return None if tick is None else tick.at_s
