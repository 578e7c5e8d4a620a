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
from replexplorer.core.experiment.sweep import Sweep
from replexplorer.ui.screens.dashboard import DashboardScreen
from replexplorer.ui.screens.experiments import LabsScreen, SweepScreen
from tests.fakes.facade import FakeFacade, make_tick
from tests.ui.driving import EVERY_SIZE, Bench, Size, bench, page

LAB_NAMES = list(LABS.shipped())


def strip(app: Bench) -> str:
    return app.text("#lab-strip")


async def opened(app: Bench, name: str = LAB_NAMES[0]) -> None:
    """The list with the cursor on this one; drills and the matrix stand after the labs."""
    await app.press("o")
    await app.until(lambda: isinstance(app.app.screen, LabsScreen) and "LAB" in app.screen_text)
    screen = app.app.screen
    assert isinstance(screen, LabsScreen)
    names = [each.name for _, part in screen.parts for each in part]
    await app.press(*["down"] * names.index(name))
    await app.until(lambda: f"▸ {name}" in app.screen_text)


async def begun(app: Bench, name: str, key: str = "enter") -> None:
    """One that was chosen by the arrows, started, and whose first step is narrated."""
    await opened(app, name)
    await started(app, name, key)


async def started(app: Bench, name: str, key: str = "enter") -> None:
    await app.press(key, "y")
    await app.until(lambda: app.dashboard.has_class("-lab") and f"{name} 1/" in strip(app), "the strip")


async def ended(app: Bench, told: str) -> None:
    """It is told, and its result opened."""
    await app.until(lambda: not app.dashboard.has_class("-lab"))
    await app.told(f"{told} (o opens it)")
    await app.press("o")
    await app.until(lambda: app.app.screen.name == "result")


async def test_the_picker_lists_every_lab_and_unfolds_the_chosen_one() -> None:
    async with bench(
        size=(80, 24), experiments=(*LABS.shipped().values(), *DRILLS.shipped().values())
    ) as app:
        await opened(app)
        listed = [str(each.prompt) for each in app.app.screen.query_one(OptionList).options]
        names = [each[2:].split()[0] for each in listed if not each.isupper()]
        assert sorted(names) == sorted([*LAB_NAMES, *DRILLS.shipped()])
        assert [each.strip() for each in listed if each.isupper()] == [
            "COST", "PROTECTION", "FAILURES", "SYSTEMS",
        ]  # fmt: skip
        ends = {re.search(r"\d (s|min) +\d+ (s|min)", each) for each in listed if not each.isupper()}
        assert len({end and end.end() for end in ends}) == 1, "no name moves a column"
        assert "changes   semi_sync, wait_point" in "\n".join(app.whole)
        await app.press("down")
        await app.until(lambda: "▸ wan-insert" in app.screen_text)
        for told in (
            "49 s   6 min",  # full mode with its repeats
            "teaches   With semi-sync one client commits once a round trip",
            "after     Aaron Brown: Performance of MySQL",
            "failure   counted on MySQL 9.7.4: if the source is lost",
        ):
            assert told in "\n".join([*app.shown, *app.whole])
        await app.press("down", "down")
        await app.until(lambda: "replicas up to 2" in " ".join(" ".join(app.whole).split()))


async def test_labs_of_ones_own_are_listed_after_ours_and_stay_in_view() -> None:
    hot = LABS.shipped()["hot-row"]
    own = tuple(replace(hot, name=f"mine-{number}", title="My own") for number in range(20))
    async with bench(size=(80, 24), experiments=own) as app:
        await app.press("o", "end")
        await app.until(lambda: "▸ mine-19" in app.screen_text)
        assert "all are restored at the end" in " ".join(" ".join(app.whole).split())
        await app.press("enter", "y")
        await app.until(lambda: app.facade.called("lab") == [("mine-19", True)])


async def test_what_cannot_run_on_this_stack_says_why_and_is_not_begun() -> None:
    drills = (*LABS.shipped().values(), *DRILLS.shipped().values())
    async with bench(facade=FakeFacade(), experiments=drills) as app:
        await opened(app, "member-killed")
        assert any("member-killed" in row and "needs Group Replication or Galera" in row for row in app.sheet)
        await app.press("enter", "y")
        await app.told("the drill member-killed cannot run here: it needs Group Replication or Galera")
        assert app.facade.called("drill") == []
        await app.play(replace(make_tick(2.0), system="group"))
        await app.press("home")
        await app.until(
            lambda: any("tour" in row and "which Group Replication lacks" in row for row in app.sheet)
        )


@EVERY_SIZE
@pytest.mark.parametrize(
    ("name", "asked", "second", "left", "told"),
    [
        ("wan-insert", ("lab", ("wan-insert", True)), "2/4 async", 3,
         "lab wan-insert: deviates, 1 of 7 relations"),
        ("kill-primary", ("drill", ("kill-primary", True)), "2/6 inject kill", 5,
         "drill kill-primary: deviates, 2 of 9 rows lost, 3 of 4 expectations"),
        # The played cells lose rows where theory allows none.
        ("matrix", ("matrix", True), "2/12 mysqld dies, AFTER_SYNC 1/1", 11,
         "drill matrix: deviates, 6 of 12 cells"),
    ],
    ids=["lab", "drill", "matrix"],
)  # fmt: skip
async def test_the_strip_narrates_a_run_and_its_result_is_opened_at_its_end(
    size: Size,
    name: str,
    asked: tuple[str, object],
    second: str,
    left: int,
    told: str,
    snapshot: SnapshotAssertion,
) -> None:
    """The matrix with its progress and its table."""
    experiments = (*LABS.shipped().values(), *DRILLS.shipped().values(), Matrix())
    async with bench(size=size, facade=FakeFacade(by_turns=True), experiments=experiments) as app:
        await opened(app, name)
        pages = app.whole
        await started(app, name)
        assert app.facade.calls[-1] == asked
        pages += app.rows("#lab-strip")
        assert app.dashboard.query_one("#lab-strip").region.y == 1
        assert app.dashboard.query_one("#tps-chart").region.height >= 4
        app.facade.turn()
        await app.until(lambda: second in strip(app))
        pages += app.rows("#lab-strip")
        app.facade.turn(left)
        await ended(app, told)
        assert not app.dashboard.query_one("#lab-strip").region.area
        assert page(pages, app.whole) == snapshot


async def test_a_matrix_that_is_ended_by_hand_says_how_it_goes_on() -> None:
    async with bench(facade=FakeFacade(by_turns=True), experiments=(Matrix(),)) as app:
        await begun(app, "matrix")
        app.facade.turn()
        await app.until(lambda: "DRILL matrix 2/12" in strip(app))
        await app.press("A")
        await app.told("aborted, 1 cell is kept and the next run continues, ended by hand")


async def test_a_result_is_copied_as_markdown_and_opened_again_from_the_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copied: list[str] = []
    async with bench() as app:
        monkeypatch.setattr(app.app, "copy_to_clipboard", copied.append)
        await opened(app, "wan-insert")
        await app.press("enter", "y")
        await ended(app, "lab wan-insert: deviates, 1 of 7 relations")
        await app.press("c")
        assert ["replexplorer lab run wan-insert --quick" in each for each in copied] == [True]
        await app.press("escape", "o")
        await app.until(lambda: isinstance(app.app.screen, LabsScreen) and "▲ deviates" in app.screen_text)
        await app.press("r")
        await app.until(lambda: app.app.screen.name == "result")


async def test_a_long_sentence_is_not_cut_and_the_strip_keeps_its_height() -> None:
    async with bench(size=(80, 24), facade=FakeFacade(by_turns=True)) as app:
        await begun(app, "tour")
        strip_of = app.dashboard.query_one("#lab-strip")
        assert strip_of.region.height == 3
        app.facade.turn(7)
        await app.until(lambda: "8/9 partition" in strip(app))
        assert " ".join(strip(app).split()).endswith("nothing is lost, all wait")
        assert strip_of.region.height == 3
        await app.press("A")


async def test_a_full_run_is_held_before_the_next_phase_and_its_abort_keeps_what_was_measured() -> None:
    async with bench(facade=FakeFacade(by_turns=True)) as app:
        hands = ("step_next", "lab_pause", "lab_abort")
        assert not any(app.dashboard.check_action(name, ()) for name in hands)
        await begun(app, "wan-insert", "f")
        assert all(app.dashboard.check_action(name, ()) for name in hands)
        assert app.facade.called("lab") == [("wan-insert", False)]
        await app.press("P")
        await app.until(lambda: "will wait" in strip(app) and "P resume" in strip(app))
        app.facade.turn()
        await app.until(lambda: "waits for n" in strip(app))
        await app.press("P")
        await app.until(lambda: "2/4 async" in strip(app))
        assert "P pause" in strip(app)
        await app.press("A", "A")
        await ended(app, "lab wan-insert: aborted, ended by hand")
        assert app.facade.called("lab stopped") == [None]
        await app.until(lambda: "aborted" in app.screen_text and "ended by hand" in app.screen_text)
        await app.press("end")
        assert "100.00" in app.screen_text
        assert "200.00" not in app.screen_text


@EVERY_SIZE
async def test_a_lab_is_not_begun_over_a_load_by_one_key(size: Size) -> None:
    async with bench(size=size) as app:
        await opened(app, "wan-insert")
        await app.press("enter")
        await app.until(lambda: "Run wan-insert for 49 s?" in app.screen_text)
        assert "y runs it" in app.screen_text
        await app.press("up", "y")
        assert "Run wan-insert" not in app.screen_text
        await app.press("escape")
        assert isinstance(app.app.screen, DashboardScreen)
        assert app.facade.called("lab") == []


async def test_knobs_are_refused_while_a_lab_runs() -> None:
    async with bench(facade=FakeFacade(by_turns=True)) as app:
        await begun(app, "wan-insert")
        told = "the lab wan-insert (tui, pid 1 on here) turns the knobs: abort it first (A)"
        for key in ("s", "p", "u", "R", "x"):
            app.messages.clear()
            await app.press(key)
            await app.told(told)
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
    facade = FakeFacade(by_turns=True)
    async with bench(facade=facade) as app:
        await begun(app, "wan-insert")
        await app.press("o")
        await app.until(lambda: "wan-insert runs 1/4" in app.screen_text and "running" in app.screen_text)
        await app.press("enter")
        await app.told("the lab wan-insert runs: abort it first (A)")
        await app.press("escape", "A")
        await ended(app, "lab wan-insert: aborted, ended by hand")
        await app.press("escape", "escape", "S", "enter")
        await app.until(lambda: [type(each) for each in facade.called("sweep")] == [Sweep])
        await app.press("o", "enter")
        await app.told("rtt=0,2,10,85 clients=1,8,32 runs: abort it first")
        assert len(facade.called("lab")) == 1
        await app.press("escape", "A")
        await app.told("stopped; its knobs are restored, the same line")
        assert facade.called("sweep stopped") == [None]


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
        await app.told(f"lab tour: {words}")
        assert not app.dashboard.has_class("-lab")


@EVERY_SIZE
async def test_a_lab_of_tries_shows_them_as_they_come_and_the_knobs_that_it_turns(
    size: Size, snapshot: SnapshotAssertion
) -> None:
    """What is seen when COMMIT returns stands at its end, and what was not seen has no dot."""
    facade = FakeFacade(by_turns=True)
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
        assert not app.dashboard.query_one("#tps-chart").display
        assert page(app.rows("#lab-tries"), app.rows("#knobs") if size[0] > 80 else ()) == snapshot
        app.facade.turn(2)
        await app.until(lambda: not app.dashboard.has_class("-tries"), "the charts again")
        assert app.dashboard.query_one("#tps-chart").display


# The sweep's screen: sweep_typed, started, filled as it runs, stopped; it goes on behind the dashboard


KEYS = {"=": "equals_sign", ",": "comma", " ": "space"}


async def sweep_opened(app: Bench) -> None:
    await app.press("S")
    await app.until(lambda: isinstance(app.app.screen, SweepScreen))
    await app.until(lambda: isinstance(app.app.screen.focused, Input))


async def sweep_typed(app: Bench, line: str) -> None:
    app.app.screen.query_one(Input).value = ""
    await app.press(*(KEYS.get(character, character) for character in line))


async def test_the_suggestion_tells_runs_and_time_and_a_wrong_line_what_is_wrong() -> None:
    async with bench(size=(80, 24)) as app:
        await sweep_opened(app)
        await app.until(lambda: "12 runs of 5 s, about 2 min" in app.screen_text)
        for line, answer in (
            ("rtt=0,9999", "rtt=9999 is out of range"),
            ("rtt=0,10 clients=1,8 duration=2 repeat=3", "12 runs of 2 s"),
            ("rtt=0,10 duration=x", "duration=x is not possible: give a number of seconds"),
        ):
            await sweep_typed(app, line)
            await app.until(lambda answer=answer: answer in app.screen_text, answer)  # type: ignore[misc]
        await app.press("enter")
        assert app.facade.called("sweep") == []


@EVERY_SIZE
async def test_it_is_narrated_fills_as_it_runs_and_ends_with_effects(
    size: Size, snapshot: SnapshotAssertion
) -> None:
    facade = FakeFacade(by_turns=True)
    async with bench(
        size=size, facade=facade, learn=lambda swept: f"fitted to {len(swept.runs)} runs"
    ) as app:
        await sweep_opened(app)
        await sweep_typed(app, "rtt=0,10 clients=1,8")
        await app.press("enter")
        await app.until(lambda: isinstance(app.app.screen, DashboardScreen))
        await app.until(lambda: "SWEEP rtt=0,10 clients=1,8" in app.text("#lab-strip"))
        facade.turn()
        await app.until(lambda: "2/4" in app.text("#lab-strip"))
        pages = app.rows("#lab-strip")
        await app.press("S")
        await app.until(lambda: isinstance(app.app.screen, SweepScreen) and "1/4" in app.screen_text)
        pages += app.sheet
        await app.press("escape")
        facade.turn(3)
        await app.told("clients=1,8: 4 runs (o opens it)")
        wanted: Any = facade.called("sweep")[0]
        assert wanted.grid.text == "rtt=0,10 clients=1,8"
        await app.press("o")
        await app.until(lambda: app.app.screen.name == "result")
        assert page(pages, app.whole) == snapshot
