"""How many commits took how long, over time: what a latency heat map is drawn from.

Law: a histogram is merged into coarser ones and never thinned out; every commit of the last hour
stands in exactly one slice of each track. Memory is bounded by the number of slices: three tracks
of at most `_SLICES` each, half a second, 3 s and 15 s a slice, so that the page of any length is
drawn from a few hundred slices. With commits spread over two decades of latency the three hold
1 MB at most.
"""

from __future__ import annotations

import math
from array import array
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from replexplorer.core.stats.histogram import Histogram, slot_middle_us

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
