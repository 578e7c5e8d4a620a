"""Latency histograms: log-linear counts, merged by addition, percentiles within 1 %.

Law: percentiles are read from merged counts and never averaged. A value below 128 us has its
own slot; above, each power of two is cut into 64 slots, and a slot answers with its middle, so
the relative error is at most 1/128. Minimum, maximum and sum are exact.

Counts by rank: a histogram's slots with how many values lie at or below each.

Law: a value is found by its rank in one bisection; `value_ms` is the nearest-rank percentile of
the histogram that the ranks were made from.

How many commits took how long, over time: what a latency heat map is drawn from.

Law: a histogram is merged into coarser ones and never thinned out; every commit of the last hour
stands in exactly one slice of each track. Memory is bounded by the number of slices: three tracks
of at most `_SLICES` each, half a second, 3 s and 15 s a slice, so that the page of any length is
drawn from a few hundred slices. With commits spread over two decades of latency the three hold
1 MB at most.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from math import ceil, inf
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


@dataclass(frozen=True, slots=True)
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
        """What is told of it."""
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


BANDS_A_DECADE: Final = 60
"""Bands of latency in a factor of ten: 4 % each, and whole numbers of them in most charts' rows."""
_LEAST_US: Final = 1.0
_CLOSE_S: Final = 0.3
_SLICES: Final = 310
_TRACKS_S: Final = (0.0, 3.0, 15.0)
"""Least length of a slice in each track; 0: as it comes, twice a second."""


@lru_cache(maxsize=4096)
def band_of(slot: int) -> int:
    """The band that holds a histogram's slot, by the slot's middle."""
    return math.floor(math.log10(max(slot_middle_us(slot), _LEAST_US)) * BANDS_A_DECADE + 1e-9)


def band_ms(band: int) -> float:
    """The lower edge of a band in milliseconds; the upper one is the next band's."""
    return float(10 ** (band / BANDS_A_DECADE)) / 1000


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """The commits of one span of time by bands of latency; equal only to itself, so that it is a key."""

    start_s: float
    end_s: float
    bands: array[int]
    """Bands that have any, in no order."""
    counts: array[int]
    """Commits in each of them."""

    @classmethod
    def of(cls, start_s: float, end_s: float, latency: Histogram) -> Slice:
        """A histogram's counts, each slot in one band."""
        found: dict[int, int] = {}
        for slot, count in latency.counts.items():
            band = band_of(slot)
            found[band] = found.get(band, 0) + count
        return cls._packed(start_s, end_s, found)

    @classmethod
    def _packed(cls, start_s: float, end_s: float, found: dict[int, int]) -> Slice:
        # Two bytes a count wherever they do: an hour has a hundred thousand of them.
        width = "H" if max(found.values(), default=0) < 2**16 else "I"
        return cls(start_s, end_s, array("H", list(found)), array(width, list(found.values())))

    def with_next(self, later: Slice) -> Slice:
        """This span and the one after it."""
        found = dict(zip(self.bands, self.counts, strict=True))
        for band, count in zip(later.bands, later.counts, strict=True):
            found[band] = found.get(band, 0) + count
        return self._packed(self.start_s, later.end_s, found)


@dataclass(slots=True)
class _Track:
    """Slices of one length, the oldest dropped."""

    length_s: float
    slices: deque[Slice] = field(default_factory=lambda: deque(maxlen=_SLICES))
    has_dropped: bool = False

    def add(self, one: Slice) -> None:
        """Take the newest slice, together with the last one while that is shorter than it may be."""
        last = self.slices[-1] if self.slices else None
        if last is not None and one.end_s - last.start_s <= self.length_s + 1e-9:
            self.slices[-1] = last.with_next(one)
            return
        self.has_dropped |= len(self.slices) == _SLICES
        self.slices.append(one)


@dataclass(slots=True)
class DensityHistory:
    """The last hour's histograms in three resolutions."""

    _tracks: tuple[_Track, ...] = field(
        default_factory=lambda: tuple(_Track(length_s) for length_s in _TRACKS_S)
    )

    def add(self, start_s: float, end_s: float, latency: Histogram) -> None:
        """Take the commits that ended in a span of time; spans come in order.

        One that begins close to the end of the one before begins there: clocks are read one by one.
        """
        slices = self._tracks[0].slices
        if slices and abs(start_s - slices[-1].end_s) < _CLOSE_S:
            start_s = slices[-1].end_s
        one = Slice.of(start_s, end_s, latency)
        for track in self._tracks:
            track.add(one)

    def page(self, from_s: float, to_s: float) -> tuple[Slice, ...]:
        """Slices that end after `from_s` and begin before `to_s`, in the finest resolution that reaches
        back so far."""
        for track in self._tracks:
            slices = track.slices
            if not track.has_dropped or (slices and slices[0].start_s <= from_s) or track is self._tracks[-1]:
                return tuple(one for one in slices if one.end_s > from_s and one.start_s < to_s)
        return ()

    def copied(self) -> DensityHistory:
        """As it is now, for a picture that is held; the slices are shared."""
        return DensityHistory(
            tuple(_Track(one.length_s, deque(one.slices, _SLICES), one.has_dropped) for one in self._tracks)
        )


def columns_of(
    slices: Sequence[Slice], start_s: float, end_s: float, columns: int
) -> list[dict[int, float] | None]:
    """Commits a second by band for each column of a page; None where nothing was measured.

    A slice belongs to the column of its middle, so that a commit is drawn once. Where columns are
    narrower than slices, one that no slice belongs to shows the slice that covers its own middle.
    """
    per_s = columns / max(end_s - start_s, 1e-9)
    held: list[list[Slice]] = [[] for _ in range(columns)]
    for one in slices:
        at = math.floor(((one.start_s + one.end_s) / 2 - start_s) * per_s)
        if 0 <= at < columns:
            held[at].append(one)
    for one in slices:
        first = max(0, math.ceil((one.start_s - start_s) * per_s - 0.5))
        for at in range(first, min(columns, math.floor((one.end_s - start_s) * per_s - 0.5) + 1)):
            held[at] = held[at] or [one]
    return [_rates(tuple(each)) for each in held]


@lru_cache(maxsize=256)
def _rates(slices: tuple[Slice, ...]) -> dict[int, float] | None:
    """Commits a second by band over all of them; from frame to frame only the newest column's change."""
    length_s = sum(one.end_s - one.start_s for one in slices)
    if length_s <= 0:
        return None
    found: dict[int, int] = {}
    for one in slices:
        for band, count in zip(one.bands, one.counts, strict=True):
            found[band] = found.get(band, 0) + count
    return {band: count / length_s for band, count in found.items()}
