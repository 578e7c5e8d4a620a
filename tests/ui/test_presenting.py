"""Presenting: the number, the sentence, the keys and the time for a room, and the lesson's knobs alone."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest
from syrupy.assertion import SnapshotAssertion

from replexplorer.cli.experiment import LABS
from replexplorer.core.knobs.names import KnobName
from replexplorer.core.server.protection import ProtectionState
from replexplorer.ui.words.runs import wrapped
from tests.fakes.facade import FakeFacade, altered, make_tick
from tests.ui.driving import Bench, Size, bench, page

SEMI_SYNC = KnobName("semi_sync", "primary")
SIZES = ((80, 24), (120, 36), (200, 60))


async def present(running: Bench) -> None:
    await running.press("z")
    await running.until(lambda: running.dashboard.query_one("#presenter").display)
    await running.until(lambda: bool(running.text("#presenter").strip()))


@pytest.mark.parametrize("size", SIZES)
async def test_a_change_is_said_in_a_sentence_with_nothing_cut(
    size: Size, snapshot: SnapshotAssertion
) -> None:
    before = make_tick(1.0, state=ProtectionState.OFF)
    now = make_tick(2.0, state=ProtectionState.ARMED, values={SEMI_SYNC: "on"})
    async with bench(before, size=size) as running:
        await present(running)
        await running.play(now)
        said = running.rows("#presenter")
        await running.play(replace(now, at_s=2.5))
        assert page(said, running.rows("#presenter")) == snapshot
        await running.press("z")
        await running.until(lambda: not running.dashboard.query_one("#presenter").display)


async def test_what_happened_before_is_known_and_the_number_is_the_wait_of_an_outage() -> None:
    blocked = make_tick(20.0, state=ProtectionState.BLOCKED, tps=0.0)
    async with bench(make_tick(1.0)) as running:
        await running.play(make_tick(2.0, values={KnobName("sync_binlog", "primary"): 0}))
        await present(running)
        assert "sync_binlog 0:" in running.text("#presenter")
        await running.play(altered(blocked, protection={"oldest_wait_s": 12.3}))
        assert " seconds without a commit" in running.text("#presenter")
        assert any("bad b" in words for row in running.painted("#presenter") for _, words in row)


async def test_keys_are_shown_and_forgotten_and_the_time_goes_on() -> None:
    async with bench() as running:
        await running.press("b", "m")
        assert running.dashboard.presenter.keys(running.clock.now_s) == ()
        assert not running.dashboard.query_one("#presenter").display
        await present(running)
        await running.press("plus", "down", "y")
        assert running.rows("#presenter")[-1].split()[-4:] == ["+", "↓", "y", "00:00"]
        running.clock.now_s += 75
        await running.play(make_tick(3.0))
        assert running.rows("#presenter")[-1].split() == ["01:15"]


async def test_the_panel_keeps_what_was_turned_and_the_filter_finds_the_rest() -> None:
    values = {SEMI_SYNC: "on"}
    async with bench(make_tick(1.0, values=values), make_tick(1.5, values=values)) as running:
        everything = len(running.dashboard.board.names)
        await present(running)
        board = running.dashboard.board
        assert {name.key for name in board.names} == {"rtt", "semi_sync"}
        await running.play(make_tick(2.0, values={**values, KnobName("sync_binlog", "primary"): 0}))
        assert {name.key for name in board.names} == {"rtt", "semi_sync", "sync_binlog"}
        await running.press("slash", *"doublewrite", "enter")
        assert {name.key for name in board.names} == {"innodb_doublewrite"}
        await running.press("escape", "z")
        assert len(board.names) >= everything


@pytest.mark.parametrize("size", SIZES)
async def test_a_lesson_s_sentences_are_read_forth_and_back(size: Size, snapshot: SnapshotAssertion) -> None:
    facade = FakeFacade(by_turns=True)
    lab = LABS.shipped()["wan-insert"]
    async with bench(size=size, facade=facade) as running:
        desk = running.dashboard.experiments
        desk.start(lab, quick=True)

        def is_at(number: int) -> bool:
            running = desk.running
            return running is not None and running.step is not None and running.step.number == number

        await present(running)
        await running.until(partial(is_at, 1))
        for number in (2, 3):
            facade.turn()
            await running.until(partial(is_at, number))
        await running.play(make_tick(4.0))
        pages = running.rows("#presenter")
        for keys in ("b", "bb", "n", "n"):
            await running.press(*keys)
            pages = [*pages, *running.rows("#presenter")]
        assert page(pages) == snapshot
        assert {name.key for name in running.dashboard.board.names} <= {
            *(key.partition("@")[0] for key in lab.turns),
            "rtt",
        }
        await running.press("A")
        await running.until(lambda: desk.running is None)


def test_every_sentence_of_a_lab_fits_the_smallest_screen_and_others_in_large_letters() -> None:
    for stage in (stage for lab in LABS.shipped().values() for stage in lab.stages):
        assert len(wrapped(stage.shows, 80 - 39)) <= 7, stage.shows
        for width, lines in ((120, 4), (160, 3)):
            assert len(wrapped(stage.shows, (width - 39) // 3)) <= lines, f"{stage.shows} in large letters"
