"""Two stacks on one screen: drawn together, turned on the chosen side, and honest about the machine."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from textual.notifications import Notify
from textual.pilot import Pilot

from replexplorer.core.epochs.epoch import Epoch
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import KnobName
from replexplorer.core.machine import Machine
from replexplorer.core.tick import Tick
from replexplorer.engine.pair import PairedViews
from replexplorer.ui.comparing import CompareApp
from replexplorer.ui.keys.actions import (
    FOOTER,
    PAIR_FOOTER,
    REPLAY_FOOTER,
    VISIT_FOOTER,
    WATCH_FOOTER,
    key_label,
    keys_of,
)
from replexplorer.ui.screens.compare import CompareScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.terminal.glyphs import ASCII, BRAILLE, Glyphs
from replexplorer.ui.widgets.chart import Chart
from replexplorer.ui.widgets.lines import Lines
from tests.fakes.facade import FakeFacade, make_tick
from tests.ui.driving import ManualClock, until
from tests.ui.test_snapshots import session, with_latencies

SEMI_SYNC = KnobName(keys.SEMI_SYNC, "primary")


@dataclass
class Stage:
    app: CompareApp
    pilot: Pilot[str]
    a: FakeFacade
    b: FakeFacade
    clock: ManualClock
    said: list[Any]

    @property
    def screen(self) -> CompareScreen:
        screen = self.app.screen
        assert isinstance(screen, CompareScreen)
        return screen

    def text(self, name: str) -> str:
        return "\n".join(self.screen.query_one(name, Lines).rows)

    def chart(self, name: str) -> str:
        return "\n".join(self.screen.query_one(name, Chart).rows)

    @property
    def toasts(self) -> list[str]:
        return [message.notification.message for message in self.said if isinstance(message, Notify)]

    def turned(self, facade: FakeFacade) -> list[str]:
        return [str(what) for name, what in facade.calls if "semi_sync" in str(what)]


@asynccontextmanager
async def stage(
    *,
    size: tuple[int, int] = (120, 36),
    lacking: KnobName | None = None,
    glyphs: Glyphs = BRAILLE,
) -> AsyncIterator[Stage]:
    """Both stacks drawn, A twice as fast as B."""
    a, b = FakeFacade(), FakeFacade()

    def of(tick: Tick, without: KnobName | None) -> Tick:
        return replace(tick, knobs={name: view for name, view in tick.knobs.items() if name != without})

    for at in range(1, 5):
        a.play(make_tick(at / 2, tps=800.0))
        b.play(of(make_tick(at / 2, tps=400.0), lacking))
    worked = iter(range(1000))

    async def machine() -> Machine:
        count = next(worked)
        return Machine(float(count), 2, 1.8 * count)

    clock, said = ManualClock(), list[Any]()
    app = CompareApp(PairedViews(a, b, ("mine", "other")), Settings(monotonic=clock, glyphs=glyphs), machine)
    async with app.run_test(size=size, message_hook=said.append) as pilot:
        await until(pilot, lambda: isinstance(app.screen, CompareScreen), "the screen")
        here = Stage(app, pilot, a, b, clock, said)
        await until(
            pilot, lambda: all(side.tick and side.tick.at_s == 2.0 for side in here.screen.sides), "the ticks"
        )
        await pilot.pause()
        await pilot.pause()
        yield here


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_both_stand_on_one_screen_and_the_shared_machine_is_said(size: tuple[int, int]) -> None:
    async with stage(size=size) as here:
        head = here.text("#pair-head")
        assert "A mine  800 TPS" in head
        assert "B other  400 TPS" in head
        assert "they take CPU from each other" in " ".join(head.split())
        assert "A 800" in here.chart("#tps-chart")
        assert "B 400" in here.chart("#tps-chart")
        wide = size[0] >= 110
        assert here.screen.query_one("#exposure-chart").display is wide
        await here.pilot.press("e")
        await here.pilot.pause()
        assert here.screen.query_one("#exposure-chart").display
        assert here.screen.query_one("#latency-chart").display is wide


@pytest.mark.parametrize(
    ("presses", "on"), [(0, (True, True)), (1, (True, False)), (2, (False, True)), (3, (True, True))]
)
async def test_a_knob_turns_on_the_side_that_is_chosen(presses: int, on: tuple[bool, bool]) -> None:
    async with stage() as here:
        here.screen.twins.selected = SEMI_SYNC
        await here.pilot.press(*["a"] * presses, "right", "enter")
        await here.pilot.pause()
        await until(
            here.pilot,
            lambda: (bool(here.turned(here.a)), bool(here.turned(here.b))) == on,
            "the turns",
        )


async def test_a_knob_that_one_side_lacks_is_said_by_name_and_turned_on_the_other() -> None:
    async with stage(lacking=SEMI_SYNC) as here:
        here.screen.twins.selected = SEMI_SYNC
        await here.pilot.press("right", "enter")
        await until(here.pilot, lambda: bool(here.turned(here.a)), "A's turn")
        assert here.toasts == ["B (other) has no semi_sync"]
        assert not here.turned(here.b)
        row = next(row for row in here.text("#pair-knobs").splitlines() if row.startswith("▸"))
        assert row.rstrip().endswith("none")


def a_has(here: Stage, at_s: float) -> bool:
    tick = here.screen.sides[0].tick
    return tick is not None and tick.at_s == at_s


async def test_a_held_picture_stands_while_both_run_on() -> None:
    async with stage() as here:
        await here.pilot.press("space")
        await until(here.pilot, lambda: "held" in here.text("#pair-head"), "the hold")
        here.a.play(make_tick(3.0, tps=100.0))
        await until(here.pilot, lambda: a_has(here, 3.0), "A's tick")
        await here.pilot.press("minus")
        await here.pilot.pause()
        assert "A 800" in here.chart("#tps-chart")
        await here.pilot.press("space")
        await until(here.pilot, lambda: "held" not in here.text("#pair-head"), "the picture")
        here.a.play(make_tick(4.0, tps=100.0))
        await until(here.pilot, lambda: "A 100" in here.chart("#tps-chart"), "what came meanwhile")


async def test_what_was_found_is_copied_as_markdown() -> None:
    async with stage() as here:
        changed = Epoch(1, 2.5, "rtt 20 → 85 ms", 800.0, 400.0, -50.0, 0.3, "slower")
        here.a.play(replace(make_tick(4.0), epochs=(changed,)))
        await until(here.pilot, lambda: "rtt 20" in here.text("#pair-ledger"), "the change")
        await here.pilot.press("c")
        await here.pilot.pause()
        copied = here.app.clipboard
        assert "- A: mine, mysql 9.7.4-2" in copied
        assert "- B against A: " in copied
        row = next(row for row in copied.splitlines() if "rtt 20 → 85 ms" in row)
        assert row.endswith("| not changed |")


async def test_in_ascii_no_two_keys_of_the_key_line_look_alike() -> None:
    for items in (FOOTER, REPLAY_FOOTER, WATCH_FOOTER, VISIT_FOOTER, PAIR_FOOTER):
        bound = [keys_of(action, {})[0] for item in items for action in item.actions]
        labels = [key_label(key, in_ascii=True) for key in bound]
        assert all(label.isascii() for label in labels)
        assert len(set(labels)) == len(set(bound))
    async with stage(glyphs=ASCII) as here:
        line = here.text("#footer")
        assert "up down knob" in line
        assert "^v" not in line


async def test_a_side_that_rests_is_said_in_place_of_the_shared_cpu() -> None:
    async with stage() as here:
        here.b.play(replace(make_tick(3.0), load=None))
        await until(here.pilot, lambda: "B rests" in here.text("#pair-head"), "the rest")
        assert "take CPU" not in here.text("#pair-head")


@pytest.mark.parametrize("size", [(80, 24), (120, 36)], ids=["compact", "normal"])
def test_the_screen_looks_as_settled(snap_compare: Callable[..., bool], size: tuple[int, int]) -> None:
    ticks = session()[:80]
    a, b = FakeFacade(*ticks), FakeFacade()
    for tick in ticks:  # half as many commits at the same round trip, and one knob elsewhere
        assert tick.load is not None
        assert tick.load.tps is not None
        slower = with_latencies(replace(tick, load=replace(tick.load, tps=tick.load.tps / 2)), 1)
        name = KnobName(keys.SYNC_BINLOG, "primary")
        b.play(
            replace(slower, knobs={**tick.knobs, name: replace(tick.knobs[name], requested=1, effective=1)})
        )

    async def machine() -> None:
        return None

    app = CompareApp(PairedViews(a, b, ("mine", "other")), Settings(monotonic=ManualClock()), machine)

    async def settle(pilot: Pilot[str]) -> None:
        await until(pilot, lambda: isinstance(app.screen, CompareScreen), "the screen")
        screen = app.screen
        assert isinstance(screen, CompareScreen)
        await until(
            pilot, lambda: all(s.tick and s.tick.at_s == ticks[-1].at_s for s in screen.sides), "the ticks"
        )
        screen.twins.selected = SEMI_SYNC
        await pilot.pause()
        screen.on_screen_resume()  # whichever of the two came last
        await pilot.pause()
        await pilot.pause()

    assert snap_compare(app, terminal_size=size, run_before=settle)
