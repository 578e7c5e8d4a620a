"""A lesson on a stack as a model: what it hides, goes back to, and leaves behind."""

from __future__ import annotations

import pytest

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.drill import Doing, DrillStep
from replexplorer.core.experiment.lesson import Lesson, LessonQuestion, LessonState, LessonStep
from replexplorer.core.fault import parse_fault
from replexplorer.engine.lesson import LessonRun, headless
from replexplorer.engine.session import Session
from tests.fakes.world import World


def step(name: str, rtt: str, answer: float | str) -> LessonStep:
    ask = LessonQuestion("How many?", "tps", answer, within=0.2, seconds=3.0)
    return LessonStep(name, "say", "note", (DrillStep(Doing.SET, settings=(f"rtt={rtt}",)),), ask)


SET_UP = (DrillStep(Doing.SET, settings=("semi_sync=on",)), DrillStep(Doing.LOAD, "1"))
LESSON = Lesson(
    "ours",
    "Ours",
    "What a link costs.",
    5,
    (
        LessonStep("set up", "say", do=SET_UP),
        step("near", "20ms", "round_trip_tps"),
        step("far", "100ms", "round_trip_tps"),
    ),
)


def run_on(session: Session, states: list[LessonState]) -> LessonRun:
    run = LessonRun(
        LESSON,
        session.console,
        named=lambda *_: pytest.fail("none is named"),
        watch=lambda: states.append(run.state),
        clock=session.outside.clock,
    )
    return run


def asked(session: Session) -> dict[str, object]:
    return {str(name): view.requested for name, view in session.knobs().items()}


async def test_a_class_goes_through_it_and_back(world: World, session: Session) -> None:
    before, states = asked(session), list[LessonState]()
    run = run_on(session, states)
    await run.begin()
    assert session.load.is_running
    await run.next()
    assert run.is_open
    with pytest.raises(UsageError, match="the question is open"):
        await run.next()
    with pytest.raises(UsageError, match="not a number"):
        await run.answer("many")
    answered = await run.answer("1000")
    assert (answered.given, answered.is_right) == (1000.0, False)
    await run.next()
    await session.console.inject(parse_fault("kill@db1", session.roster))
    await run.reset()
    assert (run.step.name, asked(session)["rtt@db2"]) == ("far", 20.0)
    assert session.load.is_running
    await run.back()
    assert (run.step.name, run.is_open, run.answers, asked(session)["rtt@db2"]) == ("near", True, [], 0.0)
    await run.end()
    assert asked(session) == before
    assert not session.load.is_running
    assert ("near", True) in [(state.step, state.is_open) for state in states]


async def test_without_a_class_its_own_answers_are_judged(world: World, session: Session) -> None:
    result = await headless(run_on(session, []), lambda _: None)
    assert [each.is_right for each in result.answers] == [True, True], result.answers
    assert result.verdict == "holds"
    assert result.figures["near.tps"] > 2 * result.figures["far.tps"]
