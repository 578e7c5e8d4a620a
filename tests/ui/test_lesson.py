"""A lesson on the dashboard: said, asked with the answer hidden, answered, compared, begun again, ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from replexplorer.core.experiment.lesson import Choice, Lesson, LessonStep, Question
from replexplorer.engine.experiment.lesson import LessonRun, _Start
from replexplorer.ui.picture import veiled
from replexplorer.ui.screens.experiments import LabsScreen
from tests.fakes.clock import VirtualClock
from tests.fakes.facade import explained, make_tick
from tests.ui.driving import Bench, bench
from tests.ui.test_dashboard import EPOCH

ROUND_TRIP = Question("How many TPS?", "tps", 11.6, unit="TPS")
SHARED = Question(
    "And with 32 clients?", "tps / far.tps", "the same",
    choices=(Choice("the same", most=2.0), Choice("more, because the waits of all of them overlap", 2.0)),
)  # fmt: skip
SAID = "The replica is 85 ms away. " * 8
LESSON = Lesson(
    "distance", "What distance costs", "Waits add up", 30,
    (LessonStep("far", SAID, "KEPT BACK", ask=ROUND_TRIP), LessonStep("many", SAID, "KEPT BACK", ask=SHARED)),
)  # fmt: skip


class Given(LessonRun):
    """One whose steps measure 11.5 TPS when it is their turn."""

    def __init__(self, app: Callable[[], object]) -> None:
        super().__init__(LESSON, None, experiments=(), presets=None, watch=app, clock=VirtualClock())  # type: ignore[arg-type]
        self.turn, self.restored = asyncio.Semaphore(0), 0

    async def begin(self) -> None:
        self._starts = [await self._now()]
        await self._enter(0)

    async def _now(self) -> _Start:
        return _Start("mysql 9.7.4", "db1", {}, True)

    async def _restore(self, start: _Start) -> None:
        self.restored += 1

    async def _make_rows_new(self) -> None:
        pass

    async def _do(self, step: LessonStep) -> Mapping[str, float]:
        await self.turn.acquire()
        return {"tps": 11.5}


async def shows(app: Bench, *words: str) -> None:
    for each in words:
        await app.until(lambda each=each: each in app.screen_text, each)  # type: ignore[misc]
    assert "KEPT BACK" not in app.screen_text, "notes are the trainer's"


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
async def test_a_lesson_is_given(size: tuple[int, int]) -> None:
    given: list[Given] = []

    @contextmanager
    def give(_: Lesson, watch: Callable[[], object]) -> Iterator[Given]:
        given.append(Given(watch))
        yield given[0]

    tick = explained(make_tick(1.0, tps=523.0, epochs=(EPOCH,)))
    async with bench(tick, size=size, lessons=(LESSON,), give=give) as app:
        await app.press("o")
        await app.until(lambda: isinstance(app.app.screen, LabsScreen) and "▸ distance" in app.screen_text)
        await app.press("enter")
        await shows(app, "LESSON distance 1/2 · ", SAID.split()[-1], "How many TPS?", "a answer")
        await app.play(explained(make_tick(2.0, tps=523.0, epochs=(EPOCH,))))
        assert not [figure for figure in ("523", "predicted", "ceiling", "619") if figure in app.screen_text]
        await app.press("n")
        await app.told("the question is open")

        await app.press("a", *"12.5", "x", "backspace", "enter")
        await shows(app, "far …")
        await app.press("n")
        await app.told("the lesson is busy: far")
        given[0].turn.release()
        await shows(app, "✓ right: given 12.50 TPS, expected 11.60 TPS, measured 11.50 TPS")
        await app.play(explained(make_tick(3.0, tps=523.0)))
        await shows(app, "523")

        await app.press("z", "n")
        await shows(
            app, "And with 32 clients?", "1 the same", "2 more, because the waits of all of them overlap"
        )
        await app.press("z", "a", *"9", "enter")
        await app.told("'9' is not one of the choices")
        await app.press("a", "escape", "a", *"2", "enter")
        given[0].turn.release()
        await shows(app, "✖ not so: given more")
        await app.press("B", "x", "B")
        await shows(app, "B does, any other")
        assert given[0].restored == 0
        await app.press("B")
        await shows(app, "a answer")
        await app.press("b")
        await shows(app, "1/2")
        await app.press("q")
        await shows(app, "The lesson distance stops")
        await app.press("x")
        await app.dashboard.leave()
        assert given[0].restored == 3
        await app.told("lesson distance: stopped; its knobs are restored")


@pytest.mark.parametrize(
    ("figure", "hidden"),
    [
        ("tps / local.tps", "load anatomy"), ("mean_ms", "load anatomy"), ("lag_max_s", "truth"),
        ("lost", "exposure"), ("drain_s / one worker.drain_s", "truth"),
    ],
)  # fmt: skip
def test_an_open_question_hides_what_would_answer_it(figure: str, hidden: str) -> None:
    tick = explained(make_tick(1.0, epochs=(EPOCH, EPOCH)))
    shown: Any = veiled(tick, figure)
    assert (shown.ceiling, shown.predicted, shown.epochs[0], shown.epochs[1].after_tps) == (
        None,
        None,
        EPOCH,
        None,
    )
    for name in ("load", "anatomy", "exposure", "truth"):
        told = shown.load.tps if name == "load" else getattr(shown, name)
        assert (told is None) is (name in hidden or (name == "truth" and "load" in hidden)), name
