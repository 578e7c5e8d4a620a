"""What each knob of a sweep did by itself.

Laws. Two neighbouring values of a knob are compared in pairs of cells that are equal in all else:
the difference of log TPS of each pair, their mean as a ratio (a geometric mean), and Student's t
interval over the pairs (a paired comparison; Box, Hunter & Hunter, Statistics for Experimenters,
3.2). One pair alone has the interval of its two cells (Welch). An interval that holds 1 shows no
difference, unless each of several pairs shows one of the same direction by itself: then the effect
depends on the other knobs, and the range over the pairs is shown instead. Effects are not corrected
for each other: of twenty idle knobs one may be claimed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from typing import Final

from replexplorer.core.experiment.sweep import Dimension, Grid
from replexplorer.core.experiment.sweep_runs import CellFigures, Mean, mean_of
from replexplorer.core.stats.ratio_words import interval_text, ratio_text, times_text

NO_DIFFERENCE: Final = "no difference shown"


@dataclass(frozen=True, slots=True)
class Effect:
    """What going from one value of a knob to its neighbour did to TPS, all else equal."""

    key: str
    before: str
    after: str
    pairs: int
    """Pairs of cells that were compared."""
    passes: int
    """Runs of each of these cells at least."""
    left_out: int = 0
    """Pairs that could not be: a cell of them failed."""
    ratio: float | None = None
    """TPS after / before, the geometric mean over the pairs; None without a pair."""
    low: float | None = None
    high: float | None = None
    """95 %; None: unknown."""
    least: float | None = None
    most: float | None = None
    """The range over the pairs."""
    verdict: str = "not measured"
    """faster, slower, no difference shown, not measured, no interval (one pair without a scatter);
    faster in every pair, slower in every pair (by how much depends on the other knobs)."""

    @property
    def words(self) -> str:
        """`clients 8 → 32: x3.1 [2.9, 3.3], 3.1 times faster, in 4 pairs`."""
        title = f"{self.key} {_change(self.before, self.after)}"
        if self.ratio is None:
            return f"{title}: not measured, {self.left_out} pairs had a run that failed"
        count = f"in {self.pairs} pair{'s' if self.pairs > 1 else ''}"
        if self.passes > 1:
            count += f" of {self.passes} passes"
        if self.left_out:
            count += f", {self.left_out} left out"
        if self.verdict.endswith("every pair"):
            return (
                f"{title}: {ratio_text(self.ratio)}, from {ratio_text(self.least)} to"
                f" {ratio_text(self.most)}: {self.verdict}, {count}; how much depends on the other knobs"
            )
        if self.low is None and self.high is None:
            return f"{title}: {ratio_text(self.ratio)} without an interval ({count})"
        bounds = (self.ratio, self.low, self.high)
        effect = f"{ratio_text(*bounds)} {interval_text(*bounds)}"
        if self.verdict == NO_DIFFERENCE:
            return f"{title}: {NO_DIFFERENCE} ({effect}, {count})"
        return f"{title}: {effect}, {times_text(self.ratio, self.verdict)}, {count}"


def effects_of(grid: Grid, figures: Sequence[CellFigures]) -> tuple[Effect, ...]:
    """The effect of each step of each knob; see the module's law for the method."""
    by_choices = {each.cell.choices: each for each in figures}
    found: list[Effect] = []
    for at, dimension in enumerate(grid.dimensions):
        for step in range(len(dimension.choices) - 1):
            pairs = [
                (each, by_choices[(*choices[:at], step + 1, *choices[at + 1 :])])
                for choices, each in by_choices.items()
                if choices[at] == step
            ]
            found.append(_effect(dimension, step, pairs))
    return tuple(found)


def _effect(dimension: Dimension, step: int, pairs: Sequence[tuple[CellFigures, CellFigures]]) -> Effect:
    before, after = dimension.choices[step].label, dimension.choices[step + 1].label
    logs = [(old.log_tps, new.log_tps) for old, new in pairs]
    known = [_difference(old, new) for old, new in logs if old is not None and new is not None]
    passes = min((len(each.good) for pair in pairs for each in pair if each.good), default=0)
    left_out = len(pairs) - len(known)
    if not known:
        return Effect(dimension.key, before, after, 0, passes, left_out)
    each = [pair.value for pair in known]
    whole = known[0] if len(known) == 1 else mean_of(each)
    interval = whole.interval
    return Effect(
        dimension.key,
        before,
        after,
        len(known),
        passes,
        left_out,
        exp(whole.value),
        None if interval is None else _ratio(interval[0]),
        None if interval is None else _ratio(interval[1]),
        exp(min(each)),
        exp(max(each)),
        _verdict(interval, known),
    )


def _difference(old: Mean, new: Mean) -> Mean:
    """Of a pair, with Welch's degrees of freedom."""
    value = new.value - old.value
    if old.variance is None or new.variance is None:
        return Mean(value, None, 0.0)
    total = old.variance + new.variance
    if not total:
        return Mean(value, 0.0, min(old.freedom, new.freedom))
    freedom = total**2 / (old.variance**2 / old.freedom + new.variance**2 / new.freedom)
    return Mean(value, total, freedom)


def _verdict(interval: tuple[float, float] | None, pairs: Sequence[Mean]) -> str:
    if interval is not None and interval[0] > 0:
        return "faster"
    if interval is not None and interval[1] < 0:
        return "slower"
    if len(pairs) > 1:
        own = [pair.interval for pair in pairs]
        if all(each is not None and each[0] > 0 for each in own):
            return "faster in every pair"
        if all(each is not None and each[1] < 0 for each in own):
            return "slower in every pair"
    return "no interval" if interval is None else NO_DIFFERENCE


def _ratio(difference: float) -> float | None:
    """Of a difference of logs; None where it is beyond any meaning."""
    return exp(difference) if abs(difference) < 50 else None


def _change(before: str, after: str) -> str:
    """`0 → 10 ms`: a unit that both have is written once."""
    number, space, unit = before.partition(" ")
    return f"{number if space and after.endswith(f' {unit}') else before} → {after}"
