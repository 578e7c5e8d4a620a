"""A lesson on paper: what is said, what to type, the SQL behind each number, and blanks or the answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from replexplorer.core.experiment.drill import Doing, DrillStep
from replexplorer.core.experiment.lesson import Answered, Lesson, figure_text
from replexplorer.reports.report import Block, Report, ReportNotes, ReportTable, words

_BLANK = "_" * 14
_COMMANDS = {
    Doing.SET: "set",
    Doing.LOAD: "set clients=",
    Doing.PRESET: "preset apply ",
    Doing.RESET: "reset",
    Doing.INJECT: "fault inject ",
    Doing.CLEAR: "fault clear ",
    Doing.FAILOVER: "role failover --to ",
    Doing.SWITCHOVER: "role switchover --to ",
    Doing.REJOIN: "role rejoin ",
    Doing.LAB: "lab run ",
    Doing.DRILL: "drill run ",
}
"""What is typed behind `replexplorer`, before the step's own word."""


def handout(lesson: Lesson, answers: Mapping[str, Answered] | None = None, measured: str = "") -> Report:
    """A page for the class, with blanks; of `answers` by step what this machine measured, which `measured`
    says when and on what."""
    facts = [("", lesson.teaches), ("time", f"{lesson.minutes} minutes")]
    facts += [("measured", measured)] if measured else []
    return Report(lesson.title, facts, list(_blocks(lesson, answers)))


def _blocks(lesson: Lesson, answers: Mapping[str, Answered] | None) -> Iterator[Block]:
    for number, step in enumerate(lesson.steps, 1):
        yield ReportNotes([step.say], f"{number}. {step.name}", "lines")
        ask = step.ask
        if ask is not None and answers is None:
            heads = words("before you run it", "I predict", "measured")
            blank = f"{_BLANK} {ask.unit}".rstrip()
            yield ReportTable(heads, [(ask.words, _BLANK if ask.choices else blank, blank)])
        elif ask is not None:
            found = (answers or {}).get(step.name)
            cells = (figure_text(getattr(found, each, None), ask.unit) for each in ("expected", "measured"))
            heads = words("question", "expected", "measured here", "right is")
            right = "the choice that has it in its range" if ask.choices else f"within {ask.within:.0%}"
            yield ReportTable(heads, [(ask.words, *cells, right)])
        yield ReportNotes([command_of(each) for each in step.do], kind="commands")
        yield ReportNotes(ask.sql.strip().splitlines() if ask else (), kind="commands")


def command_of(step: DrillStep) -> str:
    """What does the same in a shell; of a wait that it is one."""
    typed, lasts_s = _COMMANDS.get(step.doing), 0.0 if step.lasts is None else step.lasts.full_s
    if typed is None:
        return f"# {step.text}{f' for {lasts_s:g} s' if step.doing is Doing.WAIT else ''}"
    words = [typed + step.what if step.what else typed.partition(" --")[0].rstrip()]
    words += ["--quick"] if step.doing in (Doing.LAB, Doing.DRILL) else []
    words += [f"--for {lasts_s:g}s"] if step.doing is Doing.INJECT and lasts_s else []
    words += ["--set"] if step.doing is Doing.DRILL and step.settings else []
    return " ".join(("replexplorer", *words, *step.settings))
