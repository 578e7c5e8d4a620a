"""The labs on the dashboard: chosen, narrated while they run, conducted by hand, and told at the end."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion
from textual.widgets import Input, OptionList

from replexplorer.cli.experiment import DRILLS, LABS
from replexplorer.core.errors import StackUnavailable
from replexplorer.core.experiment.experiment import Try
from replexplorer.core.experiment.matrix import Matrix
from replexplorer.ui.screens.experiments import LabsScreen, SweepScreen
from tests.fakes.facade import FakeFacade
from tests.typed import table_of
from tests.ui.driving import EVERY_SIZE, Bench, Size, bench, page

EVERYTHING = (*LABS.shipped().values(), *DRILLS.shipped().values(), Matrix())


def by_turns(**settings: Any) -> Any:
    return bench(facade=FakeFacade(by_turns=True), **settings)


def strip(app: Bench) -> str:
    return app.text("#lab-strip")


async def opened(app: Bench, name: str = "tour") -> None:
    """The list with the cursor on this one; drills and the matrix stand after the labs."""
    await app.opened("o")
    screen = app.app.screen
    assert isinstance(screen, LabsScreen)
    names = [each.name for _, part in screen.parts for each in part]
    above, below = names.index(name), len(names) - 1 - names.index(name)
    await app.press("home " + "down " * above if above <= below else "end " + "up " * below)
    await app.shows(f"▸ {name}")


async def begun(app: Bench, name: str, key: str = "enter") -> None:
    """One that was chosen by the arrows, started, and whose first step is narrated."""
    await opened(app, name)
    await app.press(f"{key} y")
    await app.until(lambda: app.dashboard.has_class("-lab") and f"{name} 1/" in strip(app), "the strip")


async def ended(app: Bench, told: str) -> None:
    """It is told, and its result opened."""
    await app.until(lambda: not app.dashboard.has_class("-lab"))
    await app.told(f"{told} (o opens it)")
    await app.opened("o")
    assert app.app.screen.name == "result"


async def test_the_picker_lists_every_lab_and_unfolds_the_chosen_one(snapshot: SnapshotAssertion) -> None:
    async with bench(size=(80, 24), experiments=EVERYTHING) as app:
        await opened(app)
        pages = [str(each.prompt) for each in app.app.screen.query_one(OptionList).options] + app.whole
        for _ in range(3):
            await app.press("down")
            pages += app.whole
        assert page(pages) == snapshot


async def test_labs_of_ones_own_are_listed_after_ours_and_stay_in_view() -> None:
    hot = LABS.shipped()["hot-row"]
    own = tuple(replace(hot, name=f"mine-{number}", title="My own") for number in range(20))
    async with bench(size=(80, 24), experiments=own) as app:
        await app.press("o end")
        await app.shows("▸ mine-19")
        assert "all are restored at the end" in " ".join(" ".join(app.whole).split())
        await app.press("enter y")
        await app.asked("lab", ("mine-19", True))


async def test_what_cannot_run_on_this_stack_says_why_and_is_not_begun() -> None:
    async with bench(experiments=EVERYTHING) as app:
        await opened(app, "member-killed")
        assert any("member-killed" in row and "needs Group Replication or Galera" in row for row in app.sheet)
        await app.press("enter y")
        await app.told("the drill member-killed cannot run here: it needs Group Replication or Galera")
        await app.asked("drill")
        await app.play("2 system=group")
        await app.press("home")
        await app.until(
            lambda: any("tour" in row and "which Group Replication lacks" in row for row in app.sheet)
        )


RUNS = """\
wan-insert   | 2/4 async                       | 3  | lab wan-insert: deviates, 1 of 7 relations
kill-primary | 2/6 inject kill | 5  | drill kill-primary: deviates, 2 of 9 rows lost, 3 of 4 expectations
matrix       | 2/12 mysqld dies, AFTER_SYNC 1/1 | 11 | drill matrix: deviates, 6 of 12 cells
"""
"""An experiment, its second step, how many follow, and its end.

The played cells lose rows where theory allows none.
"""


@EVERY_SIZE
@pytest.mark.parametrize(("name", "second", "left", "told"), table_of(RUNS))
async def test_the_strip_narrates_a_run_and_its_result_is_opened_at_its_end_and_copied(
    size: Size, name: str, second: str, left: str, told: str, snapshot: SnapshotAssertion
) -> None:
    """The matrix with its progress and its table; again from the list by a key."""
    async with by_turns(size=size, experiments=EVERYTHING) as app:
        await opened(app, name)
        pages = app.whole
        await app.closed()
        await begun(app, name)
        pages += [str(app.facade.calls[-1]), *app.rows("#lab-strip")]
        assert app.dashboard.query_one("#lab-strip").region.y == 1
        assert app.dashboard.query_one("#tps-chart").region.height >= 4
        app.facade.turn()
        await app.until(lambda: second in strip(app))
        pages += app.rows("#lab-strip")
        app.facade.turn(int(left))
        await ended(app, told)
        assert not app.dashboard.query_one("#lab-strip").region.area
        pages += app.whole
        await app.press("c")
        assert page(pages, re.findall("replexplorer (?:lab|drill).*", app.app.clipboard)) == snapshot
        await app.closed()
        await opened(app, name)
        await app.shows("▲ deviates")
        await app.press("r")
        await app.until(lambda: app.app.screen.name == "result")


async def test_a_matrix_that_is_ended_by_hand_says_how_it_goes_on() -> None:
    async with by_turns(experiments=EVERYTHING) as app:
        await begun(app, "matrix")
        app.facade.turn()
        await app.shows("DRILL matrix 2/12")
        await app.press("A")
        await app.told("aborted, 1 cell is kept and the next run continues, ended by hand")


async def test_a_long_sentence_is_not_cut_and_the_strip_keeps_its_height() -> None:
    async with by_turns(size=(80, 24)) as app:
        await begun(app, "tour")
        heights = {app.dashboard.query_one("#lab-strip").region.height}
        app.facade.turn(7)
        await app.shows("8/9 partition")
        assert " ".join(strip(app).split()).endswith("nothing is lost, all wait")
        assert {*heights, app.dashboard.query_one("#lab-strip").region.height} == {3}


async def test_a_full_run_is_held_before_the_next_phase_and_its_abort_keeps_what_was_measured() -> None:
    async with by_turns() as app:
        hands = ("step_next", "lab_pause", "lab_abort")
        assert not any(app.dashboard.check_action(name, ()) for name in hands)
        await begun(app, "wan-insert", "f")
        assert all(app.dashboard.check_action(name, ()) for name in hands)
        await app.asked("lab", ("wan-insert", False))
        await app.press("P")
        await app.shows("will wait", "P resume")
        app.facade.turn()
        await app.shows("waits for n")
        await app.press("P")
        await app.shows("2/4 async", "P pause")
        await app.press("A A")
        await ended(app, "lab wan-insert: aborted, ended by hand")
        await app.asked("lab stopped", None)
        await app.shows("aborted", "ended by hand")
        await app.press("end")
        assert "100.00" in app.screen_text
        assert "200.00" not in app.screen_text


@EVERY_SIZE
async def test_a_lab_is_not_begun_over_a_load_by_one_key(size: Size) -> None:
    async with bench(size=size) as app:
        await opened(app, "wan-insert")
        await app.press("enter")
        await app.shows("Run wan-insert for 49 s?", "y runs it")
        await app.press("up y")
        assert "Run wan-insert" not in app.screen_text
        await app.closed()
        await app.asked("lab")


async def test_while_a_lab_runs_knobs_and_other_experiments_are_refused() -> None:
    async with by_turns() as app:
        await begun(app, "wan-insert")
        for key in "spuRx":
            app.messages.clear()
            await app.press(key)
            await app.told("the lab wan-insert (tui, pid 1 on here) turns the knobs: abort it first (A)")
        assert {name for name, _ in app.facade.calls} == {"start", "lab"}
        await app.play("2")
        assert app.dashboard.board.pending == {}
        await app.press("m")
        await app.asked("mark", "mark")
        await app.opened("o")
        await app.shows("wan-insert runs 1/4", "running")
        await app.press("enter")
        await app.told("the lab wan-insert runs: abort it first (A)")
        await app.press("escape A")
        await ended(app, "lab wan-insert: aborted, ended by hand")
        await app.press("escape escape s S enter")
        await app.until(lambda: len(app.facade.called("sweep")) == len(app.facade.called("set")) == 1)
        await app.press("o enter")
        await app.told("rtt=0,2,10,85 clients=1,8,32 runs: abort it first")
        assert len(app.facade.called("lab")) == 1
        await app.press("escape A")
        await app.told("stopped; its knobs are restored, the same line")
        await app.asked("sweep stopped", None)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (StackUnavailable("load (pid 7) drives this stack", "end it"), "drives this stack: end it"),
        (RuntimeError("a defect"), "RuntimeError: a defect"),
    ],
)
async def test_why_a_lab_did_not_run_is_told(error: Any, words: str) -> None:
    async with bench() as app:
        app.facade.failures["lab"] = error
        await opened(app)
        await app.press("enter y")
        await app.told(words)
        assert not app.dashboard.has_class("-lab")


@EVERY_SIZE
async def test_a_lab_of_tries_shows_them_as_they_come_and_the_knobs_that_it_turns(
    size: Size, snapshot: SnapshotAssertion
) -> None:
    """What is seen when COMMIT returns stands at its end, and what was not seen has no dot."""
    async with by_turns(size=size) as app:
        app.facade.lab_tries = (
            Try("AFTER_COMMIT", 1, 1009.0, 9.0, 1009.0, 250.0),
            Try("AFTER_COMMIT", 2, 612.0, 8.0, None, 250.0),
            Try("AFTER_SYNC", 1, 1010.0, 1009.5, 1010.0, 250.0),
            Try("AFTER_SYNC", 2, 412.0),
        )
        assert not app.dashboard.query_one("#lab-tries").display
        await begun(app, "phantom-read")
        await app.shows("Tries")
        assert not app.dashboard.query_one("#tps-chart").display
        assert page(app.rows("#lab-tries"), app.rows("#knobs") if size[0] > 80 else ()) == snapshot
        app.facade.turn(2)
        await app.until(lambda: not app.dashboard.has_class("-tries"), "the charts again")
        assert app.dashboard.query_one("#tps-chart").display


# The sweep's screen: typed, started, filled as it runs, stopped; it goes on behind the dashboard


async def sweep_typed(app: Bench, line: str) -> None:
    await app.until(lambda: isinstance(app.app.screen, SweepScreen))
    app.app.screen.query_one(Input).value = ""
    await app.press(line.replace(" ", " space "))


ANSWERS = """\
rtt=0,9999                                | rtt=9999 is out of range
rtt=0,10 clients=1,8 duration=2 repeat=3  | 12 runs of 2 s
rtt=0,10 repeat=1                         | 2 runs of 5 s
rtt=0,10 duration=x                       | duration=x is not possible: give a number of seconds
"""


async def test_the_suggestion_tells_runs_and_time_and_a_wrong_line_what_is_wrong() -> None:
    async with bench(size=(80, 24)) as app:
        await app.opened("S")
        await app.shows("12 runs of 5 s, about 2 min")
        for line, answer in table_of(ANSWERS):
            await sweep_typed(app, line)
            await app.shows(answer)
        await app.press("enter")
        await app.asked("sweep")


@EVERY_SIZE
async def test_it_is_narrated_fills_as_it_runs_and_ends_with_effects(
    size: Size, snapshot: SnapshotAssertion
) -> None:
    async with by_turns(size=size, learn=lambda swept: f"fitted to {len(swept.runs)} runs") as app:
        await app.opened("S")
        await sweep_typed(app, "rtt=0,10 clients=1,8")
        await app.closed("enter")
        await app.shows("SWEEP rtt=0,10 clients=1,8")
        app.facade.turn()
        await app.until(lambda: "2/4" in strip(app))
        pages = app.rows("#lab-strip")
        await app.opened("S")
        await app.shows("1/4")
        pages += app.sheet
        await app.closed()
        app.facade.turn(3)
        await app.told("clients=1,8: 4 runs (o opens it)")
        wanted: Any = app.facade.called("sweep")[0]
        assert wanted.grid.text == "rtt=0,10 clients=1,8"
        await app.opened("o")
        assert page(pages, app.whole) == snapshot
