"""What a drill's expectations come to: figures and protection states to holds or deviates, with evidence."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from replexplorer.core.experiment.drill import Expectation, FigureCondition, StateCondition
from replexplorer.core.text import number

SIGNS: Final[Mapping[str, tuple[Callable[[float, float], bool], str]]] = {
    "<": (operator.lt, "less than"),
    "<=": (operator.le, "at most"),
    "==": (operator.eq, "exactly"),
    "!=": (operator.ne, "anything but"),
    ">=": (operator.ge, "at least"),
    ">": (operator.gt, "more than"),
}


@dataclass(frozen=True, slots=True)
class StateAt:
    """The protection state from a moment on."""

    at_s: float
    """Seconds since the drill began."""
    state: str


@dataclass(frozen=True, slots=True)
class FaultSpan:
    """A fault in force."""

    fault: str
    """With its value: `partition=ack`."""
    node: str
    from_s: float
    to_s: float | None
    """None: until the drill's end."""


@dataclass(frozen=True, slots=True)
class Judged:
    """An expectation, and what was found."""

    name: str
    holds: bool
    evidence: str


def judge(
    expects: Iterable[Expectation], figures: Mapping[str, float], timeline: Sequence[StateAt]
) -> tuple[Judged, ...]:
    """Each expectation against what was measured; what was not measured holds nothing."""
    return tuple(Judged(each.name, *_judged(each.condition, figures, timeline)) for each in expects)


def _judged(
    condition: StateCondition | FigureCondition, figures: Mapping[str, float], timeline: Sequence[StateAt]
) -> tuple[bool, str]:
    if isinstance(condition, StateCondition):
        passed = [each.state for each in timeline]
        through = " > ".join(passed) or "no state was seen"
        return (condition.state in passed) is not condition.never, through
    left, right = _value(condition.left, figures), _value(condition.right, figures)
    if left is None or right is None:
        return False, f"{condition.left if left is None else condition.right} was not measured"
    bound = condition.times * right + condition.plus
    compare, words = SIGNS[condition.sign]
    if compare(left, bound):
        return True, f"{_figure(left)} {condition.sign} {_figure(bound)}"
    return False, f"found {_figure(left)}; {words} {_figure(bound)} would hold"


def _value(side: str | float, figures: Mapping[str, float]) -> float | None:
    return figures.get(side) if isinstance(side, str) else float(side)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else number(value, 2)


def stretches_of(timeline: Sequence[StateAt], end_s: float) -> Sequence[tuple[str, float]]:
    """Each state with how long it was in force, in order."""
    ends = [*(each.at_s for each in timeline[1:]), end_s]
    return [(each.state, max(0.0, until_s - each.at_s)) for each, until_s in zip(timeline, ends, strict=True)]


def noted(timeline: Sequence[StateAt], at_s: float, state: str) -> tuple[StateAt, ...]:
    """The timeline with what was seen at a moment; a state that lasts is one entry."""
    if timeline and timeline[-1].state == state:
        return tuple(timeline)
    return (*timeline, StateAt(at_s, state))


def rates(
    counts: Iterable[tuple[float, float, int]], windows: Sequence[FaultSpan], end_s: float
) -> Mapping[str, float]:
    """`tps_before` the first fault, `tps_during`, and `tps_after` the last one was over, from (from_s, to_s,
    commits) of intervals; an interval on an edge is in none of them, and a rate without one is missing."""
    if not windows:
        return {}
    first_s = min(each.from_s for each in windows)
    last_s = max(end_s if each.to_s is None else each.to_s for each in windows)
    sides = {"tps_before": (-inf, first_s), "tps_during": (first_s, last_s), "tps_after": (last_s, inf)}
    rows, found = list(counts), dict[str, float]()
    for name, (low_s, high_s) in sides.items():
        inside = [
            (to_s - from_s, commits) for from_s, to_s, commits in rows if low_s <= from_s and to_s <= high_s
        ]
        seconds = sum(each_s for each_s, _ in inside)
        if seconds > 0:
            found[name] = sum(commits for _, commits in inside) / seconds
    return found
