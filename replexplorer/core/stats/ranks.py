"""Counts by rank: a histogram's slots with how many values lie at or below each.

Law: a value is found by its rank in one bisection; `value_ms` is the nearest-rank percentile of
the histogram that the ranks were made from.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate
from math import ceil, inf
from typing import Self

from replexplorer.core.stats.histogram import Histogram, slot_middle_us


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
        # A share such as 0.95 is no exact number: 0.95 * 20 must be rank 19 and not 20.
        rank = max(1, ceil(self.count * (share - 1e-12)))
        return self._slots[min(bisect_left(self._upto, rank), len(self._slots) - 1)]

    def value_ms(self, share: float) -> float | None:
        """The middle of that slot, inside [min, max] where they are known; None when empty."""
        slot = self.slot(share)
        return None if slot is None else min(max(slot_middle_us(slot), self._min_us), self._max_us) / 1000

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
