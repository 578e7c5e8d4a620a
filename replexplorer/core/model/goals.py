"""What is wanted of a stack, as it is typed: `p99 < 20ms, rpo = 0`.

Law: a goal is a figure, a sign and a bound in the figure's unit; what cannot be read is refused in one line
that says what would be right.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Final

from replexplorer.core.errors import UsageError


class GoalFigure(StrEnum):
    """A figure that a goal is about."""

    MEAN = "mean"
    """Service time of a commit, ms."""
    P50 = "p50"
    P95 = "p95"
    P99 = "p99"
    TPS = "tps"
    """Acknowledged commits a second."""
    PROCESS_DIES = "process_dies"
    """Commits that mysqld's death loses, or the seconds in which they were made."""
    POWER_CUT = "power_cut"
    """The same of a power cut of the source's machine."""
    SOURCE_LOST = "source_lost"
    """The same of the loss of the source, a replica taking over."""


LATENCIES: Final = (GoalFigure.MEAN, GoalFigure.P50, GoalFigure.P95, GoalFigure.P99)
LOSSES: Final = (GoalFigure.PROCESS_DIES, GoalFigure.POWER_CUT, GoalFigure.SOURCE_LOST)
RPO: Final = "rpo"
"""Recovery point objective: the same as `source_lost`."""
_NAMES: Final = {**{each.value: each for each in GoalFigure}, RPO: GoalFigure.SOURCE_LOST}
_UNITS: Final = {"us": ("ms", 0.001), "ms": ("ms", 1.0), "s": ("ms", 1000.0)}
_SECONDS: Final = {"ms": 0.001, "s": 1.0, "min": 60.0}
_GOAL: Final = re.compile(
    r"\s*(?P<name>[a-z_0-9]+)\s*(?P<sign><=|>=|==|<|>|=)\s*(?P<bound>[0-9]*\.?[0-9]+)\s*(?P<unit>[a-z/]*)\s*"
)
_EXAMPLE: Final = "for example 'p99 < 20ms, rpo = 0'"


@dataclass(frozen=True, slots=True)
class Goal:
    """One figure with its bound."""

    wanted: GoalFigure
    sign: str
    """`<`, `<=`, `>`, `>=` or `=`."""
    bound: float
    unit: str
    """`ms`, `tps`, `commits` or `s`."""
    name: str
    """As it was typed."""

    def __str__(self) -> str:
        """`p99 < 20 ms`, `rpo (source lost) = 0 commits`."""
        name = f"{RPO} (source lost)" if self.name == RPO else self.name
        return f"{name} {self.sign} {self.bound:g} {self.unit if self.unit != 'tps' else 'TPS'}"

    def holds(self, value: float) -> bool:
        """Whether a figure in this unit meets it."""
        match self.sign:
            case "<":
                return value < self.bound
            case "<=":
                return value <= self.bound
            case ">":
                return value > self.bound
            case ">=":
                return value >= self.bound
            case _:
                return value == self.bound

    @property
    def wants_more(self) -> bool:
        """More is better."""
        return self.sign.startswith(">")


def read_goals(text: str) -> tuple[Goal, ...]:
    """Read goals with commas or `and` between them; raises UsageError."""
    parts = [part for part in re.split(r",|;|\band\b", text.lower()) if part.strip()]
    if not parts:
        raise UsageError("no goal is given", _EXAMPLE)
    goals = tuple(_read(part) for part in parts)
    for at, goal in enumerate(goals):
        twins = [other for other in goals[:at] if (other.wanted, other.sign) == (goal.wanted, goal.sign)]
        if twins:
            raise UsageError(f"{goal.name} {goal.sign} is given twice", "give each goal once")
    return goals


def _read(text: str) -> Goal:
    match = _GOAL.fullmatch(text)
    if match is None:
        raise UsageError(f"{text.strip()[:40]!r} is no goal", f"give FIGURE SIGN BOUND, {_EXAMPLE}")
    name, sign = match["name"], match["sign"].replace("==", "=")
    wanted = _NAMES.get(name)
    if wanted is None:
        near = get_close_matches(name, _NAMES, n=1)
        raise UsageError(
            f"{name!r} is no figure of a goal",
            f"did you mean {near[0]}?" if near else f"figures are {', '.join(_NAMES)}",
        )
    bound, unit = _bound(wanted, name, float(match["bound"]), match["unit"])
    if wanted is GoalFigure.TPS and not sign.startswith(">"):
        raise UsageError(f"{text.strip()!r}: TPS is wanted at least", "write tps >= N")
    if wanted is not GoalFigure.TPS and sign.startswith(">"):
        raise UsageError(f"{text.strip()!r}: less is better", f"write {name} < N")
    if wanted in LATENCIES and sign == "=":
        raise UsageError(f"{text.strip()!r}: no commit takes exactly that", f"write {name} <= N")
    if wanted in LATENCIES and not bound:
        raise UsageError(f"{text.strip()!r}: every commit takes some time", f"give {name} more than 0")
    return Goal(wanted, sign, bound, unit, name)


def _bound(wanted: GoalFigure, name: str, bound: float, unit: str) -> tuple[float, str]:
    if wanted in LATENCIES and (unit or "ms") in _UNITS:
        return bound * _UNITS[unit or "ms"][1], "ms"
    if wanted is GoalFigure.TPS and unit in ("", "tps", "/s"):
        return bound, "tps"
    if wanted in LOSSES and unit in ("", "commit", "commits"):
        return bound, "commits"
    if wanted in LOSSES and unit in _SECONDS:
        return bound * _SECONDS[unit], "s"
    right = (
        "us, ms or s" if wanted in LATENCIES else "tps" if wanted is GoalFigure.TPS else "commits, ms or s"
    )
    raise UsageError(f"{name}: {bound:g}{unit} has the wrong unit", f"give {right}")
