"""Presenting: the number, the sentence, the keys and the time for a room, and the lesson's knobs alone."""

from __future__ import annotations

from functools import partial

import pytest
from syrupy.assertion import SnapshotAssertion

from replexplorer.cli.experiment import LABS
from replexplorer.ui.words.runs import wrapped
from tests.fakes.facade import FakeFacade
from tests.ui.driving import Bench, Size, bench, page

SIZES = ((80, 24), (120, 36), (200, 60))


async def present(app: Bench) -> None:
    await app.press("z")
    await app.until(lambda: app.dashboard.query_one("#presenter").display)
    await app.until(lambda: bool(app.text("#presenter").strip()))


@pytest.mark.parametrize("size", SIZES)
async def test_a_change_is_said_in_a_sentence_with_nothing_cut(
    size: Size, snapshot: SnapshotAssertion
) -> None:
    """What happened before is known, and the number of an outage is its wait."""
    async with bench("state=off", size=size) as app:
        await app.play("1.5 state=off sync_binlog=0")
        await present(app)
        pages = app.rows("#presenter")
        for tick in (
            "2 state=armed semi_sync=on",
            "2.5 state=armed semi_sync=on",
            "20 state=blocked tps=0.0 protection.oldest_wait_s=12.3",
        ):
            await app.play(tick)
            pages = [*pages, *app.rows("#presenter")]
        assert page(pages) == snapshot
        assert any("bad b" in words for row in app.painted("#presenter") for _, words in row)
        await app.press("z")
        await app.until(lambda: not app.dashboard.query_one("#presenter").display)


async def test_keys_are_shown_and_forgotten_and_the_time_goes_on() -> None:
    async with bench() as app:
        await app.press("b m")
        assert app.dashboard.presenter.keys(app.clock.now_s) == ()
        assert not app.dashboard.query_one("#presenter").display
        await present(app)
        await app.press("+ down y")
        assert app.rows("#presenter")[-1].split()[-4:] == ["+", "↓", "y", "00:00"]
        app.clock.now_s += 75
        await app.play("3")
        assert app.rows("#presenter")[-1].split() == ["01:15"]


async def test_the_panel_keeps_what_was_turned_and_the_filter_finds_the_rest() -> None:
    async with bench("semi_sync=on", "1.5 semi_sync=on") as app:
        board = app.dashboard.board
        everything = len(board.names)
        await present(app)
        assert {name.key for name in board.names} == {"rtt", "semi_sync"}
        await app.play("2 semi_sync=on sync_binlog=0")
        assert {name.key for name in board.names} == {"rtt", "semi_sync", "sync_binlog"}
        await app.press("/doublewrite enter")
        assert {name.key for name in board.names} == {"innodb_doublewrite"}
        await app.press("escape z")
        assert len(board.names) >= everything


@pytest.mark.parametrize("size", SIZES)
async def test_a_lesson_s_sentences_are_read_forth_and_back(size: Size, snapshot: SnapshotAssertion) -> None:
    lab = LABS.shipped()["wan-insert"]
    async with bench(size=size, facade=FakeFacade(by_turns=True)) as app:
        desk = app.dashboard.experiments
        desk.start(lab, quick=True)

        def is_at(number: int) -> bool:
            step = None if desk.running is None else desk.running.step
            return step is not None and step.number == number

        await present(app)
        for number in (1, 2, 3):
            app.facade.turn(int(number > 1))
            await app.until(partial(is_at, number))
        await app.play("4")
        pages = app.rows("#presenter")
        for keys in ("b", "bb", "n", "n"):
            await app.press(keys)
            pages = [*pages, *app.rows("#presenter")]
        assert page(pages) == snapshot
        turned = {key.partition("@")[0] for key in lab.turns}
        assert {name.key for name in app.dashboard.board.names} <= {*turned, "rtt"}
        await app.press("A")
        await app.until(lambda: desk.running is None)


def test_every_sentence_of_a_lab_fits_the_smallest_screen_and_others_in_large_letters() -> None:
    for stage in (stage for lab in LABS.shipped().values() for stage in lab.stages):
        assert len(wrapped(stage.shows, 80 - 39)) <= 7, stage.shows
        for width, lines in ((120, 4), (160, 3)):
            assert len(wrapped(stage.shows, (width - 39) // 3)) <= lines, f"{stage.shows} in large letters"
