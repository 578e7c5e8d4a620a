"""What one thing costs beside a load: short turns with it and without, until the ratio is known well enough.

Turns come in blocks of four, with, without, without, with, and the next block the other way round, so that
what drifts evenly falls out of each block's ratio. The figure is the Hodges-Lehmann estimate of the blocks'
logarithms - the median of all means of two - with the 95 % interval of Wilcoxon's signed ranks (Hollander &
Wolfe, Nonparametric Statistical Methods, 3.1): a burst of other work on the machine moves neither far.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from typing import TypeVar

from replexplorer.core.stats.ratio import Ratio

REACH = 0.01
"""How near the ends of the interval are to be to the ratio, as a share of it."""
LEAST_BLOCKS = 6
"""Fewer have no 95 % interval: of 5 the widest has 93.75 %."""
LIMIT_S, QUICK_LIMIT_S = 300.0, 75.0
"""Where it stops whatever is known."""
_NORMAL_975 = 1.959964

T = TypeVar("T")
Turn = Callable[[bool], Awaitable[Mapping[str, float]]]
"""One turn with (True) or without it; answers figures above zero, by name."""


@dataclass(frozen=True)
class Compared:
    """One figure with and without."""

    ratio: Ratio
    pairs: int
    with_it: Sequence[float]
    without: Sequence[float]

    @property
    def is_known(self) -> bool:
        """The interval is as narrow as it was to be."""
        value, low, high = self.ratio.value, self.ratio.low, self.ratio.high
        if value is None or low is None or high is None:
            return False
        return max(high / value - 1, 1 - low / value) <= REACH

    def __str__(self) -> str:
        """`0.991 (0.984 to 0.998, 24 pairs): 1843 to 1860`, the medians last."""
        low, high = ("?" if bound is None else f"{bound:.3f}" for bound in (self.ratio.low, self.ratio.high))
        medians = " to ".join(f"{statistics.median(each):.5g}" for each in (self.with_it, self.without))
        return f"{self.ratio.value:.3f} ({low} to {high}, {self.pairs} pairs): {medians}"

    def samples(self) -> dict[str, object]:
        """For JSON."""
        return {"pairs": self.pairs, "with": list(self.with_it), "without": list(self.without)}


async def compare(turn: Turn, leading: str, limit_s: float = LIMIT_S) -> dict[str, Compared]:
    """Turn by turn until `leading` is known, or for as long as allowed."""
    turns: dict[bool, list[Mapping[str, float]]] = {True: [], False: []}
    began_s = time.monotonic()
    while True:
        await _block(turn, turns)
        found = {name: compared(*([one[name] for one in turns[on]] for on in (True, False)))
                 for name in turns[True][0]}  # fmt: skip
        if found[leading].is_known or time.monotonic() - began_s >= limit_s:
            return found


async def _block(turn: Callable[[bool], Awaitable[T]], turns: Mapping[bool, list[T]]) -> None:
    """Four more turns, the next block the other way round."""
    first = len(turns[True]) % 4 == 0
    for on in (first, not first, not first, first):
        turns[on].append(await turn(on))


def compared(with_it: Sequence[float], without: Sequence[float]) -> Compared:
    """The ratio of turns that came in blocks of two with and two without."""
    logs = [log(a / b) for a, b in zip(with_it, without, strict=True)]
    return Compared(ratio_of_blocks([sum(pair) / 2 for pair in zip(logs[::2], logs[1::2], strict=True)]),
                    len(logs), with_it, without)  # fmt: skip


def ratio_of_blocks(logs: Sequence[float]) -> Ratio:
    """The ratio with its interval from the logarithms of independent ones; without bounds when few."""
    found = shift(logs)
    return Ratio(
        exp(found.value), *(None if bound is None else exp(bound) for bound in (found.low, found.high))
    )


@dataclass(frozen=True)
class Shift:
    """The middle of independent differences with its 95 % interval; no bounds when they are few."""

    value: float
    low: float | None = None
    high: float | None = None


def shift(differences: Sequence[float]) -> Shift:
    """The Hodges-Lehmann estimate and the interval of Wilcoxon's signed ranks."""
    count = len(differences)
    means = sorted((a + b) / 2 for at, a in enumerate(differences) for b in differences[at:])
    value = statistics.median(means)
    if count < LEAST_BLOCKS:
        return Shift(value)
    expected, scatter = count * (count + 1) / 4, sqrt(count * (count + 1) * (2 * count + 1) / 24)
    out = max(0, int(expected - _NORMAL_975 * scatter))
    return Shift(value, means[out], means[-1 - out])


async def differing(turn: Callable[[bool], Awaitable[float]], blocks: int) -> tuple[list[float], list[float]]:
    """A figure of the turns with and of those without, four turns a block as in `compare`."""
    turns: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(blocks):
        await _block(turn, turns)
    return turns[True], turns[False]


def shift_of_blocks(with_it: Sequence[float], without: Sequence[float]) -> Shift:
    """How much more turns with it have than those without, a mean a block."""
    less = [a - b for a, b in zip(with_it, without, strict=True)]
    return shift([sum(pair) / 2 for pair in zip(less[::2], less[1::2], strict=True)])
