"""The labs on the dashboard: chosen, narrated while they run, conducted by hand, and told at the end."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest
from textual.widgets import OptionList

from replexplorer.cli.experiment import DRILLS, LABS
from replexplorer.core.errors import StackUnavailable
from replexplorer.core.experiment.experiment import Try
from replexplorer.core.experiment.lab import Lab
from replexplorer.core.experiment.matrix import Matrix
from replexplorer.core.experiment.sweep import Sweep
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.screens.experiments import LabsScreen
from replexplorer.ui.widgets.lab_strip import LabStrip
from tests.fakes.facade import FakeFacade, make_tick
from tests.ui.driving import Bench, bench

SIZES = [(160, 45), (120, 36), (80, 24)]


def shown(app: Bench) -> str:
    return app.screen_text


def strip(app: Bench) -> str:
    return app.text("#lab-strip")


def toasts(app: Bench) -> list[str]:
    return [toast.message for toast in app.app._notifications]


def by_turns() -> FakeFacade:
    facade = FakeFacade()
    facade.lab_turns = asyncio.Queue()
    return facade


def turn(app: Bench) -> None:
    assert app.facade.lab_turns is not None
    app.facade.lab_turns.put_nowait(None)


async def opened(app: Bench) -> None:
    await app.press("o")
    await app.until(lambda: isinstance(app.app.screen, LabsScreen) and "LAB" in shown(app))


async def begun(app: Bench, name: str, *keys: str) -> None:
    """Choose a lab by the arrows and start it with the last of the keys."""
    await opened(app)
    await app.press(*["down"] * list(LABS.shipped()).index(name), *(keys or ("enter",)), "y")
    await app.until(lambda: isinstance(app.app.screen, DashboardScreen))
    await app.until(lambda: app.dashboard.has_class("-lab") and "LAB" in strip(app), "the strip")


async def test_the_picker_lists_every_lab_and_unfolds_the_chosen_one() -> None:
    async with bench(size=(80, 24)) as app:
        await opened(app)
        listed = [str(each.prompt) for each in app.app.screen.query_one(OptionList).options]
        for name in LABS.shipped():
            assert any(f" {name} " in each for each in listed)
        assert "changes   semi_sync, wait_point" in shown(app)
        await app.press("down")
        await app.until(lambda: "▸ wan-insert" in shown(app))
        assert "49 s   6 min" in shown(app), "full mode with its repeats"
        assert "teaches   With semi-sync one client commits once a round trip" in shown(app)
        assert "after     Aaron Brown: Performance of MySQL" in shown(app)
        assert "failure   counted on MySQL 9.7.4: of a source that is lost" in shown(app)
        await app.press("down", "down")
        await app.until(lambda: "replicas up to 2" in " ".join(shown(app).split()))
        await app.press("end")
        await app.until(lambda: f"▸ {[*LABS.shipped()][-1]}" in shown(app))
        assert "all are restored at the end" in " ".join(shown(app).split())
        assert all(len(row) <= 80 for row in shown(app).splitlines())


async def test_labs_of_ones_own_are_listed_after_ours_and_stay_in_view() -> None:
    own = tuple(
        replace(LABS.shipped()["hot-row"], name=f"mine-{number}", title="My own") for number in range(20)
    )
    async with bench(size=(80, 24), labs=own) as app:
        await opened(app)
        await app.press("end")
        await app.until(lambda: "▸ mine-19" in shown(app))
        assert "all are restored at the end" in " ".join(shown(app).split())
        await app.press("enter", "y")
        await app.until(lambda: app.facade.called("lab") == [("mine-19", True)])


@pytest.mark.parametrize("size", SIZES)
async def test_drills_are_listed_after_the_labs_narrated_and_opened_at_their_end(
    size: tuple[int, int],
) -> None:
    drills = tuple(DRILLS.shipped().values())
    kill = next(each for each in drills if each.name == "kill-primary")
    async with bench(size=size, facade=by_turns(), drills=drills) as app:
        await opened(app)
        await app.press(*["down"] * (len(LABS.shipped()) + drills.index(kill)))
        await app.until(lambda: "▸ kill-primary" in shown(app))
        assert "drill: The source's mysqld" in shown(app)
        assert "expects" in shown(app)
        assert all(len(row) <= size[0] for row in shown(app).splitlines())
        await app.press("enter", "y")
        await app.until(lambda: "DRILL kill-primary 1/6" in strip(app))
        assert app.facade.called("drill") == [("kill-primary", True)]
        turn(app)
        await app.until(lambda: "2/6 inject kill" in strip(app))
        assert "SIGKILL" in strip(app)
        for _ in range(5):
            turn(app)
        await app.until(lambda: not app.dashboard.has_class("-lab"))
        told = "drill kill-primary: deviates, 2 of 9 rows lost, 1 of 1 expectations (o opens it)"
        assert told in toasts(app)
        await app.press("o")
        await app.until(lambda: app.app.screen.name == "result")
        assert "what became of the rows" in shown(app)
        assert "found 2; exactly 0 would hold" in shown(app)
        assert all(len(row) <= size[0] for row in shown(app).splitlines())


@pytest.mark.parametrize("size", SIZES)
async def test_the_matrix_runs_from_the_list_with_its_progress_and_its_table_opens_at_the_end(
    size: tuple[int, int],
) -> None:
    async with bench(size=size, facade=by_turns(), drills=(Matrix(),)) as app:
        await opened(app)
        await app.press(*["down"] * len(LABS.shipped()))
        await app.until(lambda: "▸ matrix" in shown(app))
        assert "48 cells, 12 of them quick" in shown(app)
        assert all(len(row) <= size[0] for row in shown(app).splitlines())
        await app.press("enter", "y")
        await app.until(lambda: "DRILL matrix 1/12" in strip(app))
        assert app.facade.called("matrix") == [True]
        assert "the redo log is written once a second" in strip(app)
        turn(app)
        await app.until(lambda: "2/12 mysqld dies, AFTER_SYNC 1/1" in strip(app))
        for _ in range(11):
            turn(app)
        await app.until(lambda: not app.dashboard.has_class("-lab"))
        # The played cells lose rows where theory allows none.
        assert "drill matrix: deviates, 6 of 12 cells (o opens it)" in toasts(app)
        await app.press("o")
        await app.until(lambda: app.app.screen.name == "result")
        assert "lost within the meter's range in 12 of 12" in " ".join(shown(app).split())
        for text in ("FAILURE", "SYNC/FLUSH", "meter said", "fallen back", "10 to 12"):
            assert text in shown(app)
        assert ("recovery ms" in shown(app)) is (size == (160, 45))
        assert all(len(row) <= size[0] for row in shown(app).splitlines())


async def test_a_matrix_that_is_ended_by_hand_says_how_it_goes_on() -> None:
    async with bench(size=(120, 36), facade=by_turns(), drills=(Matrix(),)) as app:
        await opened(app)
        await app.press(*["down"] * len(LABS.shipped()), "enter", "y")
        await app.until(lambda: "DRILL matrix 1/12" in strip(app))
        turn(app)
        await app.until(lambda: "DRILL matrix 2/12" in strip(app))
        await app.press("A")
        await app.until(lambda: not app.dashboard.has_class("-lab"))
        [told] = [text for text in toasts(app) if text.startswith("drill matrix")]
        assert "aborted, 1 cell is kept and the next run continues, ended by hand" in told


@pytest.mark.parametrize("size", SIZES)
async def test_the_strip_narrates_the_phase_and_goes_at_the_end(size: tuple[int, int]) -> None:
    async with bench(size=size, facade=by_turns()) as app:
        await begun(app, "wan-insert")
        assert app.facade.called("lab") == [("wan-insert", True)]
        await app.until(lambda: "LAB wan-insert 1/4 no replica" in strip(app))
        assert "what the server does by itself" in strip(app)
        assert "n next  P pause  A abort" in strip(app)
        assert "left" in strip(app)
        row = app.dashboard.query_one("#lab-strip").region
        assert (row.y, row.height) == (1, 2)
        assert app.dashboard.query_one("#tps-chart").region.height >= 4
        assert app.dashboard.query_one("#footer").region.bottom == size[1]
        turn(app)
        await app.until(lambda: "2/4 async" in strip(app))
        assert "commits do not wait for it" in strip(app)
        for _ in range(3):
            turn(app)
        await app.until(lambda: not app.dashboard.has_class("-lab"))
        assert not app.dashboard.query_one("#lab-strip").region.area
        assert "lab wan-insert: deviates, 1 of 2 relations (o opens it)" in toasts(app)


async def test_a_long_sentence_is_not_cut_and_the_strip_keeps_its_height() -> None:
    async with bench(size=(80, 24), facade=by_turns()) as app:
        await begun(app, "tour")
        height = app.dashboard.query_one("#lab-strip").region.height
        assert height == 3
        for _ in range(7):
            turn(app)
        await app.until(lambda: "8/9 partition" in strip(app))
        assert " ".join(strip(app).split()).endswith("nothing is lost, all wait")
        assert app.dashboard.query_one("#lab-strip").region.height == height
        await app.press("A")


async def test_full_runs_the_long_one() -> None:
    async with bench(facade=by_turns()) as app:
        await begun(app, "hot-row", "f")
        assert app.facade.called("lab") == [("hot-row", False)]


async def test_pause_holds_before_the_next_phase_until_it_is_taken_back() -> None:
    async with bench(facade=by_turns()) as app:
        await begun(app, "wan-insert")
        await app.press("P")
        await app.until(lambda: "will wait" in strip(app) and "P go on" in strip(app))
        turn(app)
        await app.until(lambda: "waits for n" in strip(app))
        await app.press("P")
        await app.until(lambda: "2/4 async" in strip(app))
        assert "P pause" in strip(app)


async def test_abort_gives_back_and_keeps_what_was_measured() -> None:
    async with bench(facade=by_turns()) as app:
        await begun(app, "wan-insert")
        turn(app)
        await app.until(lambda: "2/4 async" in strip(app))
        await app.press("A", "A")
        await app.until(lambda: not app.dashboard.has_class("-lab"))
        assert app.facade.called("lab stopped") == [None]
        assert "lab wan-insert: aborted, ended by hand (o opens it)" in toasts(app)
        await app.press("o")
        await app.until(lambda: app.app.screen.name == "result")
        await app.until(lambda: "aborted" in shown(app) and "ended by hand" in shown(app))
        await app.press("end")
        assert "100.00" in shown(app)
        assert "200.00" not in shown(app)


@pytest.mark.parametrize("size", SIZES)
async def test_the_table_stands_at_the_end_with_what_deviates(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    pages: list[str] = []
    async with bench(size=size) as app:
        monkeypatch.setattr(app.app, "copy_to_clipboard", pages.append)
        await opened(app)
        await app.press("down", "enter", "y")
        await app.until(lambda: any("deviates" in text for text in toasts(app)))
        await app.press("o")
        await app.until(lambda: app.app.screen.name == "result")
        await app.press("end")
        await app.until(lambda: "relations" in shown(app))
        heads = next(row for row in shown(app).splitlines() if "published" in row)
        assert heads.index("published") < heads.index("predicted") < heads.index("measured")
        for number, published in enumerate(("1066.8 tps", "943.2 tps", "-", "11.51 tps"), 1):
            assert re.search(rf"{re.escape(published)} .*{number}00\.00", shown(app))
        assert re.search(r"DEVIATES +a relation that fails +3 > 4", shown(app))
        assert re.search(r"holds +semi-sync is slower", shown(app))
        assert all(len(row) <= size[0] for row in shown(app).splitlines())
        await app.press("c")
        [page] = pages
        assert page.startswith("# ")
        assert "replexplorer lab run wan-insert --quick" in page
        await app.press("escape")
        await app.until(lambda: isinstance(app.app.screen, DashboardScreen), "the way back")
        await app.press("o")
        await app.until(lambda: isinstance(app.app.screen, LabsScreen) and "▲ deviates" in shown(app))
        await app.press("r")
        await app.until(lambda: app.app.screen.name == "result")


@pytest.mark.parametrize("size", SIZES)
async def test_a_lab_is_not_begun_over_a_load_by_one_key(size: tuple[int, int]) -> None:
    async with bench(size=size) as app:
        await opened(app)
        await app.press("down", "enter")
        await app.until(lambda: "Run wan-insert for 49 s?" in shown(app))
        assert "y runs it" in shown(app)
        assert all(len(row) <= size[0] for row in shown(app).splitlines())
        await app.press("up", "y")
        assert "Run wan-insert" not in shown(app)
        await app.press("escape")
        assert isinstance(app.app.screen, DashboardScreen)
        assert app.facade.called("lab") == []


async def test_knobs_are_refused_while_a_lab_runs() -> None:
    async with bench(facade=by_turns()) as app:
        await begun(app, "wan-insert")
        told = "the lab wan-insert (tui, pid 1 on here) turns the knobs: abort it first (A)"
        for key in ("s", "p", "u", "R", "x"):
            app.app.clear_notifications()
            await app.press(key)
            await app.until(lambda: told in toasts(app), f"the refusal of {key}")
        assert not any(app.facade.called(method) for method in ("set", "undo", "reset", "toggle_load"))
        await app.play(make_tick(2.0))
        assert app.dashboard.board.pending == {}
        await app.press("m")
        await app.until(lambda: app.facade.called("mark") == ["mark"])
        await app.press("A")
        await app.until(lambda: not app.dashboard.has_class("-lab"))
        await app.press("s")
        await app.until(lambda: len(app.facade.called("set")) == 1)


async def test_one_experiment_at_a_time() -> None:
    facade = by_turns()
    facade.sweep_turns = asyncio.Queue()
    async with bench(facade=facade) as app:
        await begun(app, "wan-insert")
        await opened(app)
        await app.until(lambda: "wan-insert runs 1/4" in shown(app) and "running" in shown(app))
        await app.press("enter")
        await app.until(lambda: "the lab wan-insert runs: abort it first (A)" in toasts(app))
        await app.press("escape", "A")
        await app.until(lambda: not app.dashboard.has_class("-lab"))
        await app.press("o")
        await app.until(lambda: app.app.screen.name == "result")
        await app.press("escape", "escape", "S", "enter")
        await app.until(lambda: len(facade.called("sweep")) == 1)
        assert isinstance(facade.called("sweep")[0], Sweep)
        await app.press("o", "enter")
        await app.until(
            lambda: any("rtt=0,2,10,85 clients=1,8,32 runs: abort it first" in t for t in toasts(app))
        )
        assert len(facade.called("lab")) == 1


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (
            StackUnavailable("load (pid 7) drives this stack", "end it"),
            "load (pid 7) drives this stack: end it",
        ),
        (RuntimeError("a defect"), "RuntimeError: a defect"),
    ],
)
async def test_why_a_lab_did_not_run_is_told(error: Exception, words: str) -> None:
    facade = FakeFacade()
    facade.failures["lab"] = error  # type: ignore[assignment]
    async with bench(facade=facade) as app:
        await opened(app)
        await app.press("enter", "y")
        await app.until(lambda: f"lab tour: {words}" in toasts(app))
        assert not app.dashboard.has_class("-lab")


async def test_a_hand_on_the_lab_is_offered_only_while_one_runs() -> None:
    async with bench(facade=by_turns()) as app:
        names = ("step_next", "lab_pause", "lab_abort")
        assert not any(app.dashboard.check_action(name, ()) for name in names)
        await begun(app, "wan-insert")
        assert all(app.dashboard.check_action(name, ()) for name in names)
        assert isinstance(app.dashboard.query_one("#lab-strip"), LabStrip)


def test_every_lab_can_be_a_key() -> None:
    assert all(isinstance(lab, Lab) and hash(lab) for lab in LABS.shipped().values())


@pytest.mark.parametrize("size", SIZES)
async def test_a_lab_of_tries_shows_them_as_they_come_and_the_knobs_that_it_turns(
    size: tuple[int, int],
) -> None:
    facade = by_turns()
    facade.lab_tries = (
        Try("AFTER_COMMIT", 1, 1009.0, 9.0, 1009.0, 250.0),
        Try("AFTER_COMMIT", 2, 612.0, 8.0, None, 250.0),
        Try("AFTER_SYNC", 1, 1010.0, 1009.5, 1010.0, 250.0),
        Try("AFTER_SYNC", 2, 412.0),
    )
    async with bench(size=size, facade=facade) as app:
        assert not app.dashboard.query_one("#lab-tries").display
        await begun(app, "phantom-read")
        await app.until(lambda: "Tries" in app.text("#lab-tries"), "the tries")
        rows = app.rows("#lab-tries")
        assert all(len(row) <= size[0] for row in rows)
        early, under_way, late, waiting = (row for row in rows if row[1:3].strip().isdigit())
        assert "1 of 1 seen before COMMIT returned" in app.text("#lab-tries")
        assert "0 of 1 seen before COMMIT returned" in app.text("#lab-tries")
        assert early.index("●") < early.index("┤") < early.index("9.0 ms") < early.index("1009 ms")
        assert "┤" not in under_way
        assert re.search(r"COMMIT waits +612 ms", under_way)
        assert late.index("●") >= early.index("┤") - 1, "seen when COMMIT returns"
        assert "●" not in waiting
        assert "not seen" in waiting
        assert not app.dashboard.query_one("#tps-chart").display
        if size[0] > 80:
            knobs = app.text("#knobs")
            assert all(word in knobs for word in ("rtt", "semi-sync", "wait point", "timeout", "clients"))
            assert "more" not in knobs
        turn(app)
        turn(app)
        await app.until(lambda: not app.dashboard.has_class("-tries"), "the charts again")
        assert app.dashboard.query_one("#tps-chart").display
