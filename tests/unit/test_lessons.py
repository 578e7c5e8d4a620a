"""Lessons: what a file says, the line of what is wrong with it, how answers are judged, and the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from replexplorer.cli.experiment import LESSONS
from replexplorer.core.experiment.lesson import LessonChoice, LessonQuestion
from replexplorer.core.experiment.relations import Found
from replexplorer.reports.handout import handout
from replexplorer.reports.report import html
from tests.known import refused
from tests.typed import values_of
from tests.unit.conftest import told_of_mistakes

MINE = """\
title = "Our link"
minutes = 5

[[step]]
name = "near"
say = "No distance."
do = [{ set = { rtt = 0 } }, { load = 1 }]
ask.text = "How many?"
ask.figure = "tps"
ask.answer = 100

[[step]]
name = "far"
say = "A distance."
do = [{ preset = "network" }, { drill = "power-cut", with = { sync_binlog = 0 } }]
ask.text = "How many are lost?"
ask.figure = "lost"
ask.answer = "some"
ask.choices = [{ text = "none", most = 0 }, { text = "some", least = 1 }]
"""
MISTAKES = """\
title = "Our link"   -> titel = "Our link"
rtt = 0              -> rt = 0
{ load = 1 }         -> { load = 1, reset = true }
drill = "power-cut"  -> drill = "power-cud"
preset = "network"   -> preset = "net"
"lost"               -> "losst"
"tps"                -> "tps / far.lost"
answer = "some"      -> answer = "many"
most = 0             -> mots = 0
name = "far"         -> name = "near"
preset = "network"   -> preset = "network", with = { rtt = 1 }
"""
"""What stands there, and what instead."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "mine.toml"
    file.write_text(MINE)
    return file


def test_a_mistake_names_file_line_and_key(file: Path, snapshot: object) -> None:
    assert told_of_mistakes(MISTAKES, file, lambda file: LESSONS.named(str(file))) == snapshot


def test_a_lesson_that_ships_fits_into_its_half_hour_and_has_notes() -> None:
    for name, lesson in LESSONS.shipped().items():
        assert 6 <= len(lesson.steps) <= 9, name
        assert lesson.seconds(quick=True) < lesson.seconds(quick=False) / 2, name
        assert all(step.note for step in lesson.steps), name
        assert all(step.ask.sql for step in lesson.steps if step.ask), name


NUMBER = LessonQuestion("How many?", "tps", "round_trip_tps", within=0.1)
CHOICE = LessonQuestion(
    "How?", "tps / near.tps", "less", choices=(LessonChoice("less", most=0.9), LessonChoice("more", 1.1))
)
FOUND = Found(figures={"tps": 40.0, "round_trip_tps": 42.0, "near.tps": 80.0})


GIVEN = """\
"number" "43"   True
"number" "45"   False
"number" None   True
"choice" "more" False
"choice" None   True
"""
"""The question, what is answered, and whether it is right."""


def test_an_answer_is_judged_by_what_was_measured_and_what_cannot_be_one_is_refused() -> None:
    questions = {"number": NUMBER, "choice": CHOICE}
    for kind, given, is_right in values_of(GIVEN):
        question = questions[kind]
        read = given and question.read(given)
        assert question.answered("far", read, FOUND).is_right is is_right, given
        assert question.answered("far", read, Found()).is_right is None
    for kind, given in (("number", "many"), ("number", "nan"), ("choice", "lesser")):
        refused(questions[kind].read, given)


def test_the_page_has_commands_and_blanks_and_no_notes_of_the_trainer() -> None:
    lesson = LESSONS.named("what-a-failure-loses")
    page = html(handout(lesson))
    assert "replexplorer drill run power-cut --quick --set sync_binlog=0" in page
    assert "______" in page
    assert not any(step.note.split(".")[0] in page for step in lesson.steps)
