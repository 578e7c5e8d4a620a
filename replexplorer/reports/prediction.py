"""What the model expects of settings, and which settings meet goals: the documents, and a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from replexplorer.core.knobs.names import KnobName, Value, format_value
from replexplorer.core.model.advice import Advice, FigureRange, Goal, GoalFigure, Verdict
from replexplorer.core.server.exposure import Exposure
from replexplorer.core.text import number
from replexplorer.reports.report import Report, ReportNotes


@dataclass(kw_only=True, slots=True)
class PredictTerm:
    """One term of a predicted commit."""

    name: str
    ms: float
    share: float
    """Of the latency, 0 to 1."""


@dataclass(kw_only=True, slots=True)
class PredictCalibration:
    """What the model was fitted to."""

    origin: Literal["shipped", "own"]
    file: str
    day: str
    machine: str
    server: str
    runs: int
    cells: int
    """Settings that were run, each predicted from the others."""
    median_error: float
    """Of |predicted / measured - 1| over the cells."""
    p90_error: float
    """What 90 % of the cells do not exceed."""
    noise: float | None
    """Standard deviation of a cell's runs as a part of their mean; null where none ran twice."""


@dataclass(kw_only=True, slots=True)
class PredictDocument:
    """`predict --json`."""

    settings: dict[str, Value]
    """The knobs that it rests on."""
    others_from: Literal["stack", "defaults"]
    """The knobs that were not named."""
    tps: float | None
    """Null where no commit is acknowledged; `limit` says why."""
    latency_ms: float | None
    """Mean service time of a commit."""
    ceiling_tps: float | None
    """The bound that the link sets to these clients; null without semi-sync."""
    terms: list[PredictTerm]
    exposure: Exposure
    """What a failure would lose at this TPS, the mean over time."""
    limit: str
    calibrated: bool
    """False where no run of `calibration` had the like; `warnings` says of what."""
    calibration: PredictCalibration
    warnings: list[str]


@dataclass(kw_only=True, slots=True)
class AdviseDocument:
    """`predict --goal --json`."""

    goals: tuple[Goal, ...]
    conditions: Mapping[KnobName, Value]
    """The knobs that were not chosen and matter."""
    others_from: Literal["stack", "defaults"]
    replicas: int
    looked_at: int
    """Choices of settings."""
    found: Sequence[Advice]
    """Those that meet the goals, then those that may; of each what gives up least comes first."""
    closest: Advice | None
    """Where none does."""
    calibration: PredictCalibration
    warnings: list[str]


SHOWN: Final = 5
"""Choices that the text has; all are in --json."""
_FIGURES: Final = (GoalFigure.TPS, GoalFigure.MEAN, GoalFigure.P50, GoalFigure.P95, GoalFigure.P99)


def advice_report(document: AdviseDocument) -> Report:
    """The answer, what each choice is and gives up, and what it rests on."""
    found, looked_at = document.found, document.looked_at
    met = sum(each.verdict is Verdict.MEETS for each in found)
    told = [f"{met} meet{'s' * (met == 1)} it"] if met else []
    told += [f"{len(found) - met} may"] if len(found) > met else []
    answer = f"of {looked_at} choices of settings {' and '.join(told)}, least given up first:"
    if not found:
        answer = f"none of {looked_at} choices of settings meets that; the closest:"
    shown = [*found] or [each for each in (document.closest,) if each is not None]
    blocks = [_choice_notes(at, each) for at, each in enumerate(shown[:SHOWN], start=1)]
    if len(found) > SHOWN:
        blocks.append(ReportNotes([f"{len(found) - SHOWN} more, in --json"], kind="lines"))
    goals = ", ".join(goal.text for goal in document.goals)
    return Report(goals, [("", answer)], [*blocks, ReportNotes(_footing(document))])


def _choice_notes(at: int, choice: Advice) -> ReportNotes:
    """The command, each goal with its figure, the figures, and what is given up."""
    is_odd = not choice.usually_meets and choice.verdict is Verdict.MAY
    usual = ", though its usual figures do not" if is_odd else ""
    lines = [choice.command, *(f"{each.goal}: {each.word}, {_words(each.figure)}" for each in choice.judged)]
    tps, *latencies = (choice.figures[wanted] for wanted in _FIGURES)
    by = "the model" + ("" if choice.calibrated else ", not calibrated")
    means = ", ".join(
        f"{wanted.value} {number(each.value)}" for wanted, each in zip(_FIGURES[1:], latencies, strict=True)
    )
    lines.append(f"predicted by {by}: {number(tps.value)} TPS, {means} ms")
    lines += [f"gives up: {each}" for each in choice.gives_up or ["nothing"]]
    return ReportNotes(lines, f"{at}. {choice.word}{usual}")


def _words(figure: FigureRange | None) -> str:
    """`12.3 (9.8 to 15.4)`."""
    if figure is None:
        return "not known"
    digits = 0 if figure.origin == "settings" and figure.high == int(figure.high) else 2
    ends = f" ({number(figure.low, digits)} to {number(figure.high, digits)})"
    return f"{number(figure.value, digits)}{ends if figure.high > figure.low else ''}"


def _footing(document: AdviseDocument) -> list[str]:
    """What it holds for, and what it rests on."""
    knobs = ", ".join(
        f"{name} {format_value(name.knob, value)}" for name, value in document.conditions.items()
    )
    others = "as the stack has them" if document.others_from == "stack" else "at their defaults"
    source, replicas = document.calibration, document.replicas
    whose = "the shipped calibration" if source.origin == "shipped" else "this machine's last calibration"
    return [
        f"for {knobs}; {replicas} replica{'s' * (replicas != 1)}; knobs not named {others}",
        f"all choices are judged by one model, by {whose}: {source.day}, {source.runs} runs",
        "a sweep of these settings measures them",
    ]
