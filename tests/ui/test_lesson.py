"""A lesson on the dashboard: said, asked with the answer hidden, answered, compared, begun again, ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import replace
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
from tests.known import known
from tests.ticks import tick_of
from tests.ui.driving import bench
from tests.ui.test_dashboard import EPOCH

LESSON = read_lesson(Path(__file__).with_name("distance.toml"), lambda *_: pytest.fail("it names none"))
TICKS = [tick_of(f"{at_s} tps=523.0 explained", epochs=(EPOCH,)) for at_s in (1, 2, 3)]


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


@pytest.mark.parametrize("size", [(80, 24), (160, 45)])
async def test_a_lesson_is_given(size: tuple[int, int]) -> None:
    given: list[Given] = []

    def give(_: Lesson, watch: Callable[[], object]) -> Any:
        given.append(Given(watch))
        return nullcontext(given[0])

    async with bench(TICKS[0], size=size, experiments=(LESSON, *LABS.shipped().values()), give=give) as app:

        async def shows(*words: str) -> None:
            await app.shows(*words)
            assert "KEPT BACK" not in app.screen_text, "notes are the trainer's"

        await app.press("o")
        await shows("▸ distance")
        await app.press("enter")
        await shows("LESSON distance 1/2 · ", "How many TPS?", "a answer")
        app.facade.play(TICKS[1])
        answers = "523", "89.0", "90.5", "619"
        await app.until(lambda: not any(each in app.screen_text for each in answers), "hidden")

        await app.press("n")
        await app.told("the question is open")
        await app.press("a 12.5 enter n")
        await app.told("the lesson is busy: far")
        given[0].turn.release()
        await shows("✓ right: given 12.50 TPS, expected 11.60 TPS, measured 11.50 TPS")
        await app.play(TICKS[2])
        await shows("523")

        await app.press("z n")
        await shows("And with 32 clients?", "1 less", "2 more")
        app.facade.play(replace(TICKS[2], at_s=5.0))
        if size == (80, 24):  # else in large letters
            await app.until(lambda: "And with 32 clients?" in app.text("#presenter"), "asked before the room")
        await app.press("a escape a 2 enter")
        given[0].turn.release()
        await shows('✖ wrong: given "more", expected "less", measured 11.50')
        for keys, words in (("B x B B", "a answer"), ("b", "1/2"), ("q", " Quit? ")):
            await app.press(keys)
            await shows(words)
        await app.press("x")
        await app.dashboard.experiments.leave()
        assert given[0].console.repair.await_count == 3, "restored once by each of B, b and the end"


@pytest.mark.parametrize(
    ("figure", "hidden"),
    [("mean_ms", "load anatomy truth"), ("drain_s / one worker.drain_s", "truth"), ("lost", "exposure")],
)
def test_an_open_question_hides_what_would_answer_it(figure: str, hidden: str) -> None:
    tick = tick_of("explained protection.unprotected=7", epochs=(EPOCH, EPOCH))
    shown = veiled(tick, figure)
    told = {name: getattr(shown, name) for name in ("anatomy", "truth", "exposure")}
    told["load"] = known(shown.load).tps
    assert {name for name, value in told.items() if value is None} == set(hidden.split())
    assert [each.after_tps for each in shown.epochs] == [619.0, None]
    assert shown.protection.unprotected == 7
    assert veiled(tick, f"{figure} / unprotected").protection.unprotected is None
