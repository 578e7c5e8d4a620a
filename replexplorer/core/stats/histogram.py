"""Latency histograms: log-linear counts, merged by addition, percentiles within 1 %.

Law: percentiles are read from merged counts and never averaged. A value below 128 us has its
own slot; above, each power of two is cut into 64 slots, and a slot answers with its middle, so
the relative error is at most 1/128. Minimum, maximum and sum are exact.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Self

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


@dataclass(slots=True)
class Histogram:
    """Counts of durations in microseconds."""

    counts: dict[int, int] = field(default_factory=dict)
    """Slot to count, only slots that have any."""
    count: int = 0
    sum_us: int = 0
    min_us: int | None = None
    max_us: int | None = None

    def record(self, value_us: int) -> None:
        """Count one duration."""
        slot = slot_of(value_us)
        self.counts[slot] = self.counts.get(slot, 0) + 1
        self.count += 1
        self.sum_us += value_us
        if self.min_us is None or value_us < self.min_us:
            self.min_us = value_us
        if self.max_us is None or value_us > self.max_us:
            self.max_us = value_us

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
