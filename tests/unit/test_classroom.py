"""A class: who is in it, and what `classroom` refuses before anything runs."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import pytest

from replexplorer.cli import serve
from replexplorer.cli.serve import StudentOutcome
from replexplorer.core.errors import StackUnavailable
from replexplorer.core.experiment.lesson import Answered, LessonState
from replexplorer.formats import paths
from replexplorer.formats.documents import plain
from replexplorer.formats.files import keep_record
from tests.fakes.facade import FakeFacade
from tests.ticks import altered, make_tick
from tests.unit.conftest import Run


@pytest.fixture
def stacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """The stacks that there are."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found: list[str] = []
    monkeypatch.setattr(serve, "stack_names", AsyncMock(return_value=found))
    return found


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """What was run for whom: it fails for student2."""
    done: list[tuple[str, list[str]]] = []

    async def one(call: Any, student: str, words: Sequence[str]) -> StudentOutcome:
        done.append((student, list(words)))
        broken = student == "student2"
        return StudentOutcome(
            student=student,
            stack=f"class-{student}",
            exit_code=4 if broken else 0,
            took_ms=1.0,
            answer=None if broken else {"a": 1},
            said=["replexplorer: db1 is down"] if broken else ["done"],
        )

    monkeypatch.setattr(serve, "_ran", one)
    return done


MISTAKES = """\
up
up --students 0
up --students 2 --memory 100
up --students 2 --flavor postgres
up --students 2 --stack x
status
each
each down
each set rt=85ms
do set rtt=85ms --stack x
status --watch --json
serve
"""


def test_what_is_wrong_is_one_line_before_anything_runs(
    stacks: list[str], run: Run, snapshot: object
) -> None:
    told = {}
    for words in MISTAKES.splitlines():
        code, out, err = run(f"classroom {words}")
        told[words] = (code, out, err.splitlines())
    assert told == snapshot


def test_passwords_go_with_the_class_and_down_of_none_is_done(
    stacks: list[str], ran: list[tuple[str, list[str]]], run: Run
) -> None:
    stacks += ["class-anna", "classical"]
    password = paths.class_directory("class") / "anna.password"
    password.parent.mkdir(parents=True)
    password.write_text("x")
    assert run("classroom down --yes").code == 0
    assert ran == [("anna", ["down", "--yes"])]
    assert not password.parent.exists()
    stacks.remove("class-anna")
    printed = run("classroom down --json")
    assert (printed.code, json.loads(printed.out)["students"]) == (0, [])


def test_each_student_s_stack_is_asked_for_with_the_limits(
    stacks: list[str], ran: list[tuple[str, list[str]]], run: Run, snapshot: object
) -> None:
    words = "classroom up --students 3 --flavor mariadb --cpus 0.5 --memory 768 --at-once 1"
    code, out, err = run(words)
    assert code == 4
    assert (ran, out.splitlines()) == snapshot
    assert "2 of 3 stacks are up" in err


def test_a_verb_is_for_all_whose_stack_is_of_the_class(
    stacks: list[str], ran: list[tuple[str, list[str]]], run: Run, snapshot: object
) -> None:
    stacks += ["class-student10", "class-student2", "classes-student1", "default"]
    printed = run("classroom each get rtt --json")
    document = json.loads(printed.out)
    students = [(each["student"], each["answer"]) for each in document["students"]]
    assert (printed.code, document["verb"], students) == snapshot


def test_a_look_shows_each_stack_and_lesson_and_who_is_away(
    stacks: list[str], run: Run, monkeypatch: pytest.MonkeyPatch, snapshot: object
) -> None:
    """student1's load runs, in the second step of a lesson with one answer; student2's stack has gone."""

    def spectator(outside: Any) -> FakeFacade:
        seen = FakeFacade(altered(make_tick(tps=11.6, viewer=True), load={"driver": "tui (pid 7)"}))
        if outside.provider.name.endswith("2"):
            gone = StackUnavailable("no stack 'class-student2' runs here")
            monkeypatch.setattr(seen, "start", AsyncMock(side_effect=gone))
        return seen

    monkeypatch.setattr("replexplorer.engine.session.Spectator", spectator)
    stacks += ["class-student1", "class-student2"]
    answered = Answered("local", "how many?", "TPS", 12.0, 11.6, 11.5, True)
    state = LessonState("lag", "Lag", 30, time.time() - 125, 2, 8, "workers", "", False, "", (answered,))
    keep_record(paths.lesson_state("class-student1"), {**plain(state), "pid": os.getpid()})
    code, out, _ = run("classroom status")
    assert code == 4
    assert out.splitlines() == snapshot
