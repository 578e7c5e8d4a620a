"""Latency histograms: log-linear counts, merged by addition, percentiles within 1 %.

Law: percentiles are read from merged counts and never averaged. A value below 128 us has its
own slot; above, each power of two is cut into 64 slots, and a slot answers with its middle, so
the relative error is at most 1/128. Minimum, maximum and sum are exact.

Counts by rank: a histogram's slots with how many values lie at or below each.

Law: a value is found by its rank in one bisection.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate
from math import ceil, inf
from typing import Final, Self

from replexplorer.core.records import dataclass, field, frozen

_HALF_BITS: Final = 6
_LINEAR: Final = 1 << (_HALF_BITS + 1)


def slot_of(value_us: int) -> int:
    """The slot that counts this value."""
    if value_us < _LINEAR:
        return max(value_us, 0)
    shift = value_us.bit_length() - (_HALF_BITS + 1)
    return (shift << _HALF_BITS) + (value_us >> shift)


def slot_middle_us(slot: int) -> float:
    """The middle of a slot's range."""
    if slot < _LINEAR:
        return float(slot)
    shift = (slot >> _HALF_BITS) - 1
    low = (slot - (shift << _HALF_BITS)) << shift
    return low + ((1 << shift) - 1) / 2


def _known(*values: int | None) -> list[int]:
    return [value for value in values if value is not None]


@frozen
class Latency:
    """A latency distribution in milliseconds, from one merged histogram; None where no commit was counted."""

    mean: float | None
    min: float | None
    p50: float | None
    p95: float | None
    p99: float | None
    max: float | None


@dataclass(slots=True)
class Histogram:
    """Counts of durations in microseconds."""

    counts: dict[int, int] = field(default_factory=dict)
    """Slot to count, only slots that have any."""
    count: int = 0
    sum_us: int = 0
    min_us: int | None = None
    max_us: int | None = None

    @classmethod
    def of(cls, values_us: Iterable[int]) -> Self:
        """The histogram of these durations."""
        found = cls()
        found.record_all(values_us)
        return found

    def record(self, value_us: int) -> None:
        """Count one duration."""
        self.record_all((value_us,))

    def record_all(self, values_us: Iterable[int]) -> None:
        """Count many durations at once: a slot is worked out once for each distinct value."""
        for value_us, times in Counter(values_us).items():
            slot = slot_of(value_us)
            self.counts[slot] = self.counts.get(slot, 0) + times
            self.count += times
            self.sum_us += value_us * times
            if self.min_us is None or value_us < self.min_us:
                self.min_us = value_us
            if self.max_us is None or value_us > self.max_us:
                self.max_us = value_us

    def add(self, other: Histogram) -> None:
        """Merge another histogram into this one."""
        for slot, count in other.counts.items():
            self.counts[slot] = self.counts.get(slot, 0) + count
        self.count += other.count
        self.sum_us += other.sum_us
        self.min_us = min(_known(self.min_us, other.min_us), default=None)
        self.max_us = max(_known(self.max_us, other.max_us), default=None)

    @classmethod
    def merged(cls, parts: Iterable[Histogram]) -> Self:
        """The sum of several histograms."""
        total = cls()
        for part in parts:
            total.add(part)
        return total

    def outline(self) -> Self:
        """Count, sum and extremes alone: a hundredth of the memory, without percentiles."""
        return type(self)({}, self.count, self.sum_us, self.min_us, self.max_us)

    @property
    def mean_ms(self) -> float | None:
        """Exact mean; None when empty."""
        return self.sum_us / self.count / 1000 if self.count else None

    @property
    def min_ms(self) -> float | None:
        """Exact minimum; None when empty."""
        return None if self.min_us is None else self.min_us / 1000

    @property
    def max_ms(self) -> float | None:
        """Exact maximum; None when empty."""
        return None if self.max_us is None else self.max_us / 1000

    def percentile_ms(self, percent: float) -> float | None:
        """The nearest-rank percentile, within 1 % and inside [min, max]; None when empty or an outline."""
        if not self.counts or self.min_us is None or self.max_us is None:
            return None
        rank = max(1, -(-self.count * percent // 100))
        seen = 0
        for slot in sorted(self.counts):
            seen += self.counts[slot]
            if seen >= rank:
                return min(max(slot_middle_us(slot), self.min_us), self.max_us) / 1000
        return self.max_us / 1000

    @property
    def latency(self) -> Latency:
        """What is reported of it."""
        p50, p95, p99 = (self.percentile_ms(percent) for percent in (50, 95, 99))
        return Latency(self.mean_ms, self.min_ms, p50, p95, p99, self.max_ms)

    def to_wire(self) -> dict[str, object]:
        """A JSON-ready form that `from_wire` reads back exactly."""
        slots = sorted(self.counts)
        return {
            "slots": slots,
            "counts": [self.counts[slot] for slot in slots],
            "sum_us": self.sum_us,
            "min_us": self.min_us,
            "max_us": self.max_us,
        }

    @classmethod
    def from_wire(cls, wire: Mapping[str, object]) -> Self:
        """Read `to_wire`'s form; raises KeyError or ValueError on another shape."""
        slots, counts = wire["slots"], wire["counts"]
        if not isinstance(slots, list) or not isinstance(counts, list) or len(slots) != len(counts):
            raise ValueError("slots and counts must be lists of the same length")
        if not all(isinstance(number, int) for number in (*slots, *counts)):
            raise ValueError("slots and counts must be whole numbers")
        sum_us, low, high = wire["sum_us"], wire["min_us"], wire["max_us"]
        if not isinstance(sum_us, int) or not isinstance(low, int | None) or not isinstance(high, int | None):
            raise ValueError("sum_us, min_us and max_us must be whole numbers")
        return cls(dict(zip(slots, counts, strict=True)), sum(counts), sum_us, low, high)


class Ranks:
    """An immutable histogram in 4 bytes a slot, 6 from 65,536 values on.

    A slot of 2 bytes holds any time that is written in 64 bits.
    """

    __slots__ = ("_max_us", "_min_us", "_slots", "_upto")

    def __init__(self, counts: Iterable[tuple[int, int]], min_us: float = 0.0, max_us: float = inf) -> None:
        pairs = sorted(counts)
        self._min_us, self._max_us = min_us, max_us
        self._slots = array("H", [slot for slot, _ in pairs])
        upto = list(accumulate(count for _, count in pairs))
        most = upto[-1] if upto else 0
        self._upto = array("H" if most < 2**16 else "I" if most < 2**32 else "Q", upto)

    @classmethod
    def of(cls, histogram: Histogram) -> Self:
        """The ranks of what the histogram holds now."""
        if histogram.min_us is None or histogram.max_us is None:
            return cls(())
        return cls(histogram.counts.items(), histogram.min_us, histogram.max_us)

    @property
    def count(self) -> int:
        """Values counted."""
        return self._upto[-1] if self._upto else 0

    def counts(self) -> list[tuple[int, int]]:
        """Slots with their counts, as the constructor takes them."""
        before = [0, *self._upto][: len(self._slots)]
        return [(slot, upto - low) for slot, upto, low in zip(self._slots, self._upto, before, strict=True)]

    def slot(self, share: float) -> int | None:
        """The slot of the value that this share of all (0 < share <= 1) does not exceed; None when empty."""
        if not self._upto:
            return None
        # A share such as 0.95 is not exact: 0.95 * 20 must be rank 19 and not 20.
        rank = max(1, ceil(self.count * (share - 1e-12)))
        return self._slots[min(bisect_left(self._upto, rank), len(self._slots) - 1)]

    def between_ms(self, share: float) -> float | None:
        """The value at this share (0 to 1) with the slot's values spread evenly over it; None when empty.

        For comparing: middles of slots would make a step of 1 % out of a hair's breadth.
        """
        if not self._upto:
            return None
        rank = self.count * share
        place = min(bisect_left(self._upto, rank), len(self._slots) - 1)
        before = self._upto[place - 1] if place else 0
        slot, part = self._slots[place], (rank - before) / (self._upto[place] - before)
        left, middle, right = (slot_middle_us(slot + step) for step in (-1, 0, 1))
        value_us = ((1 - part) * (left + middle) + part * (middle + right)) / 2
        return min(max(value_us, self._min_us), self._max_us) / 1000

    def upto(self, slot: int) -> int:
        """How many values lie in this slot or below."""
        place = bisect_right(self._slots, slot)
        return self._upto[place - 1] if place else 0
