"""Advice as a JSON document, as text for the terminal and as a report's files."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, get_args

from replexplorer.core.knobs.names import KnobName, Value, format_value, parse_name
from replexplorer.core.model.advice import Advice, Advised, FigureRange, Verdict
from replexplorer.core.model.goals import Goal, GoalFigure
from replexplorer.core.text import number, table
from replexplorer.formats.json.advise import (
    AdviseChoice,
    AdviseDocument,
    AdviseGoal,
    AdviseJudged,
    AdviseRange,
    VerdictWord,
)
from replexplorer.formats.json.predict import PredictCalibration
from replexplorer.formats.json.text import to_json
from replexplorer.reports.directory import write_files
from replexplorer.reports.documents import exposure_document

SHOWN: Final = 5
"""Choices that the text has; all are in --json."""
_WORDS: Final[dict[Verdict, VerdictWord]] = dict(zip(Verdict, get_args(VerdictWord), strict=True))
_ORIGINS: Final = {"model": " by the model", "scaled": " by the model at this machine's pace", "settings": ""}
_FIGURES: Final = (GoalFigure.TPS, GoalFigure.MEAN, GoalFigure.P50, GoalFigure.P95, GoalFigure.P99)


def advice_document(
    advised: Advised,
    conditions: Mapping[KnobName, Value],
    *,
    origin: str,
    replicas: int,
    guessed: Callable[[Advice], bool],
    calibration: PredictCalibration,
    warnings: Sequence[str],
) -> AdviseDocument:
    """As `advise --json` prints it; `conditions` are the knobs that were not chosen, `guessed` whether
    a choice is beyond what was calibrated."""
    return AdviseDocument(
        goals=[_goal(goal) for goal in advised.goals],
        conditions={str(name): value for name, value in conditions.items()},
        others_from="stack" if origin == "stack" else "defaults",
        replicas=replicas,
        looked_at=advised.looked_at,
        found=[_choice(each, not guessed(each)) for each in advised.found],
        closest=None if advised.closest is None else _choice(advised.closest, not guessed(advised.closest)),
        measured_runs=0 if advised.pace is None else advised.pace.runs,
        slowness=None if advised.pace is None else round(advised.pace.slowness, 2),
        calibration=calibration,
        warnings=list(warnings),
    )


def _goal(goal: Goal) -> AdviseGoal:
    return AdviseGoal.model_validate(
        {
            "figure": goal.wanted.value,
            "sign": goal.sign,
            "bound": goal.bound,
            "unit": goal.unit,
            "text": str(goal),
        }
    )


def _choice(advice: Advice, calibrated: bool) -> AdviseChoice:
    settings = {str(name): value for name, value in advice.settings.items()}
    words = ["replexplorer", "set", *(f"{name}={value}" for name, value in settings.items())]
    return AdviseChoice(
        settings=settings,
        set=shlex.join(words),
        verdict=_WORDS[advice.verdict],
        usually_meets=advice.usually_meets,
        calibrated=calibrated,
        goals=[
            AdviseJudged(
                goal=str(each.goal),
                figure=None if each.figure is None else _range(each.figure),
                verdict=_WORDS[each.verdict],
            )
            for each in advice.judged
        ],
        figures={wanted.value: _range(advice.figures[wanted]) for wanted in _FIGURES},
        exposure=exposure_document(advice.exposure),
        gives_up=list(advice.gives_up),
    )


def _range(found: FigureRange) -> AdviseRange:
    return AdviseRange(
        value=round(found.value, 3),
        low=round(found.low, 3),
        high=round(found.high, 3),
        origin=found.origin,
    )


def verdict_line(document: AdviseDocument) -> str:
    """The answer in one line."""
    met = sum(each.verdict == "meets" for each in document.found)
    may = len(document.found) - met
    goals = ", ".join(goal.text for goal in document.goals)
    if not document.found:
        return f"{goals}: none of {document.looked_at} choices of settings meets that; the closest:"
    told = [f"{met} meet{'s' * (met == 1)} it"] if met else []
    told += [f"{may} may"] if may else []
    return f"{goals}: of {document.looked_at} choices of settings {' and '.join(told)}, least given up first:"


def render(document: AdviseDocument) -> str:
    """For a terminal or a pipe."""
    shown = document.found[:SHOWN] or [each for each in (document.closest,) if each is not None]
    lines = [verdict_line(document)]
    for at, choice in enumerate(shown, start=1):
        usual = (
            ""
            if choice.usually_meets or choice.verdict != "may meet"
            else ", though its usual figures do not"
        )
        lines += ["", f"{at}. {choice.verdict}{usual}:", f"   {choice.set}"]
        lines += [f"   {line}" for line in _told(choice)]
    rest = len(document.found) - len(shown)
    if rest > 0:
        lines += ["", f"{rest} more, in --json"]
    return "\n".join([*lines, "", *footing(document)])


def _told(choice: AdviseChoice) -> list[str]:
    """Each goal with its figure, the figures, and what is given up."""
    rows = [(each.goal, each.verdict, _words(each.figure)) for each in choice.goals]
    lines = [*table(rows).split("\n"), figures_line(choice)]
    what = choice.gives_up or ["nothing"]
    return [*lines, *(("gives up: " if not at else "          ") + each for at, each in enumerate(what))]


def figures_line(choice: AdviseChoice) -> str:
    """`predicted by the model: 11.5 TPS, mean 86.2 ms, p99 99.8 ms`."""
    tps, *latencies = (choice.figures[wanted.value] for wanted in _FIGURES)
    by = _ORIGINS[tps.origin] + ("" if choice.calibrated else ", not calibrated")
    names = (wanted.value for wanted in _FIGURES[1:])
    told = (f"{name} {number(each.value)}" for name, each in zip(names, latencies, strict=True))
    return f"predicted{by}: {number(tps.value)} TPS, {', '.join(told)} ms"


def _words(figure: AdviseRange | None) -> str:
    """`12.3 (9.8 to 15.4), by the model`."""
    if figure is None:
        return "not known"
    digits = 0 if figure.origin == "settings" and figure.high == int(figure.high) else 2
    ends = f" ({number(figure.low, digits)} to {number(figure.high, digits)})"
    origin = "" if figure.origin == "settings" else f",{_ORIGINS[figure.origin]}"
    return f"{number(figure.value, digits)}{ends if figure.high > figure.low else ''}{origin}"


def footing(document: AdviseDocument) -> list[str]:
    """What it holds for, and what it rests on."""
    knobs = ", ".join(
        f"{key} {format_value(parse_name(key).knob, value)}" for key, value in document.conditions.items()
    )
    others = "as the stack has them" if document.others_from == "stack" else "at their defaults"
    source = document.calibration
    whose = "the shipped calibration" if source.origin == "shipped" else "this machine's last calibration"
    runs, slowness = document.measured_runs, document.slowness
    pace = f"{runs} runs of sweeps of this workload: all but the network takes {slowness} times as long here"
    return [
        f"for {knobs}; {document.replicas} replica{'s' * (document.replicas != 1)}; knobs not named {others}",
        f"the model by {whose}: {source.day}, {source.runs} runs",
        f"this machine's pace by {pace}"
        if runs
        else "no sweep of this workload on this machine sets its pace",
        "all choices are judged by the same model at the same pace; a sweep of these settings measures them",
    ]


def write_report(directory: Path, document: AdviseDocument) -> str:
    """Write the report; answers what was written. Raises UsageError."""
    return write_files(directory, {"report.md": markdown(document), "result.json": to_json(document) + "\n"})


def markdown(document: AdviseDocument) -> str:
    """The report as Markdown."""
    choices = document.found or [each for each in (document.closest,) if each is not None]
    head = ("verdict", "settings", *(goal.text for goal in document.goals), "TPS", "p99 ms", "gives up")
    lines = [f"# Advice: {', '.join(goal.text for goal in document.goals)}", "", verdict_line(document), ""]
    lines += ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    for choice in choices:
        cells = (
            choice.verdict,
            f"`{choice.set}`",
            *(f"{_words(each.figure)}: {each.verdict}" for each in choice.goals),
            number(choice.figures[GoalFigure.TPS.value].value),
            number(choice.figures[GoalFigure.P99.value].value),
            "; ".join(choice.gives_up) or "nothing",
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", *(f"- {line}" for line in footing(document))]) + "\n"
