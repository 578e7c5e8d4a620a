"""Relations as simple comparisons between figures of phases: what a lab of one's own is judged by."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from replexplorer.core.errors import UsageError
from replexplorer.core.server.protection import ProtectionState
from replexplorer.engine.experiment.labs.evidence import compared, state_as_asked
from replexplorer.engine.experiment.labs.lab import Judge, PhaseResult, Phases, Relation

OPERATORS: Final[Mapping[str, Callable[[float, float], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
FIGURES: Final[Mapping[str, Callable[[PhaseResult], float | None]]] = {
    "tps": lambda result: result.tps,
    "mean_ms": lambda result: result.service.mean_ms,
    "p50_ms": lambda result: result.service.percentile_ms(50),
    "p95_ms": lambda result: result.service.percentile_ms(95),
    "p99_ms": lambda result: result.service.percentile_ms(99),
    "max_ms": lambda result: result.service.max_ms,
    "rtt_ms": lambda result: result.rtt_measured_ms,
    "fsync_ms": lambda result: result.fsync_measured_ms,
    "ceiling_tps": lambda result: result.ceiling_tps,
    "predicted_tps": lambda result: result.predicted_tps,
    "errors": lambda result: float(result.errors),
    "n": lambda result: float(result.service.count),
}
"""What a comparison may name of a phase."""


@dataclass(frozen=True, slots=True)
class Term:
    """`async.tps`, or a number."""

    phase: str | None
    figure: str | None
    number: float = 0.0

    def value(self, phases: Phases) -> float | None:
        """What it comes to; None when it was not measured."""
        if self.phase is None or self.figure is None:
            return self.number
        return FIGURES[self.figure](phases[self.phase])


@dataclass(frozen=True, slots=True)
class Comparison:
    """left `is` times x right."""

    name: str
    left: Term
    sign: str
    right: Term
    times: float = 1.0

    def judge(self, phases: Phases) -> Relation:
        """Whether it holds; a figure that was not measured holds nothing."""
        left, right = self.left.value(phases), self.right.value(phases)
        if left is None or right is None:
            return Relation(self.name, False, f"{'left' if left is None else 'right'} was not measured")
        bound = self.times * right
        factor = "" if self.times == 1 else f"{self.times:g} x {right:.4g} = "
        holds = OPERATORS[self.sign](left, bound)
        evidence = compared(f"{left:.4g}", self.sign, f"{factor}{bound:.4g}", "", holds=holds)
        ratio = left / bound if bound > 0 else None
        least, most = (1.0, inf) if self.sign.startswith(">") else (0.0, 1.0)
        return Relation(self.name, holds, evidence, ratio=ratio, least=least, most=most)


def read_term(text: str | float, phases: Sequence[str]) -> Term:
    """A figure of one of these phases, or a number; raises UsageError."""
    if isinstance(text, int | float):
        return Term(None, None, float(text))
    phase, _, figure = text.rpartition(".")
    if phase not in phases:
        raise UsageError(f"{text!r} names no phase", f"write PHASE.FIGURE with one of {', '.join(phases)}")
    if figure not in FIGURES:
        raise UsageError(f"{text!r} names no figure", f"there are {', '.join(FIGURES)}")
    return Term(phase, figure)


def judge_by(comparisons: Sequence[Comparison]) -> Judge:
    """Each phase's protection state as asked, then the comparisons."""

    def judge(phases: Phases) -> Sequence[Relation]:
        states = [
            state_as_asked(each)
            for each in phases.values()
            if each.phase.state is not ProtectionState.BLOCKED
        ]
        return [*states, *(comparison.judge(phases) for comparison in comparisons)]

    return judge
