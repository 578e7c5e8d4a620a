"""A lesson on the dashboard: said, asked with the answer hidden, answered, compared, begun again, ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from replexplorer.cli.experiment import LABS
from replexplorer.core.experiment.lesson import Lesson, LessonStep
from replexplorer.core.system import ASYNC
from replexplorer.engine.lesson import LessonRun
from replexplorer.formats.experiment_file import read_lesson
from replexplorer.ui.picture import veiled
from tests.fakes.clock import VirtualClock
from tests.fakes.facade import explained, make_tick
from tests.ui.driving import Bench, bench
from tests.ui.test_dashboard import EPOCH

LESSON = read_lesson(Path(__file__).with_name("distance.toml"), lambda *_: pytest.fail("it names none"))
TICKS = [explained(make_tick(at_s, tps=523.0, epochs=(EPOCH,))) for at_s in (1.0, 2.0, 3.0)]


class Given(LessonRun):
    """One whose steps measure 11.5 TPS when it is their turn."""

    def __init__(self, watch: Callable[[], object]) -> None:
        seen = SimpleNamespace(system=ASYNC, nodes=(), source="db1", knobs={})
        stack = Mock(seen=seen, look=AsyncMock(return_value=seen), load=Mock(settings=None))
        self.console, self.turn = AsyncMock(stack=stack), asyncio.Semaphore(0)
        super().__init__(LESSON, self.console, named=Mock(), watch=watch, clock=VirtualClock())

    async def _do(self, step: LessonStep) -> Mapping[str, float]:
        await self.turn.acquire()
        return {"tps": 11.5}


async def shows(app: Bench, *words: str) -> None:
    for each in words:
        await app.until(partial(lambda text: text in app.screen_text, each), each)
    assert "KEPT BACK" not in app.screen_text, "notes are the trainer's"


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
async def test_a_lesson_is_given(size: tuple[int, int]) -> None:
    given: list[Given] = []

    def give(_: Lesson, watch: Callable[[], object]) -> Any:
        given.append(Given(watch))
        return nullcontext(given[0])

    async with bench(TICKS[0], size=size, experiments=(LESSON, *LABS.shipped().values()), give=give) as app:
        await app.press("o")
        await shows(app, "▸ distance")
        await app.press("enter")
        await shows(app, "LESSON distance 1/2 · ", "How many TPS?", "a answer")
        app.facade.play(TICKS[1])
        answers = "523", "89.0", "90.5", "619"
        await app.until(lambda: not any(each in app.screen_text for each in answers), "hidden")

        await app.press("n")
        await app.told("the question is open")
        await app.press("a", *"12.5", "enter", "n")
        await app.told("the lesson is busy: far")
        given[0].turn.release()
        await shows(app, "✓ right: given 12.50 TPS, expected 11.60 TPS, measured 11.50 TPS")
        await app.play(TICKS[2])
        await shows(app, "523")

        await app.press("z", "n")
        await shows(app, "And with 32 clients?", "1 less", "2 more")
        if size == (80, 24):  # else in large letters
            await app.until(lambda: "And with 32 clients?" in app.text("#presenter"), "asked before the room")
        await app.press("a", "escape", "a", "2", "enter")
        given[0].turn.release()
        await shows(app, '✖ wrong: given "more", expected "less", measured 11.50')
        await app.press("B", "x", "B", "B")
        await shows(app, "a answer")
        await app.press("b")
        await shows(app, "1/2")
        await app.press("q")
        await shows(app, " Quit? ")
        await app.press("x")
        await app.dashboard.experiments.leave()
        assert given[0].console.repair.await_count == 3, "restored once by each of B, b and the end"


@pytest.mark.parametrize(
    ("figure", "hidden"),
    [("mean_ms", "load anatomy truth"), ("drain_s / one worker.drain_s", "truth"), ("lost", "exposure")],
)
def test_an_open_question_hides_what_would_answer_it(figure: str, hidden: str) -> None:
    shown = veiled(explained(make_tick(1.0, epochs=(EPOCH, EPOCH))), figure)
    assert shown.load is not None
    told = {name: getattr(shown, name) for name in ("anatomy", "truth", "exposure")} | {
        "load": shown.load.tps
    }
    assert {name for name, value in told.items() if value is None} == set(hidden.split())
    assert [each.after_tps for each in shown.epochs] == [619.0, None]
    counted = make_tick(1.0)
    counted = replace(counted, protection=replace(counted.protection, unprotected=7))
    assert veiled(counted, f"{figure} / unprotected").protection.unprotected is None
    assert veiled(counted, figure).protection.unprotected == 7
