"""The charts' points: one a tick, packed, so that an hour of them is 0.8 megabytes.

Law: a point comes back as it was put in; None, a gap, included.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any, Final, NamedTuple, overload


class Point(NamedTuple):
    """One tick on the charts; None is a gap."""

    at_s: float
    tps: float | None = None
    ceiling_tps: float | None = None
    p50_ms: float | None = None
    p95_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None
    """Slowest commit of the same window as the percentiles."""
    predicted_tps: float | None = None
    slowest_ms: float | None = None
    """Slowest commit of this tick alone: where its dot stands."""
    process_dies: float | None = None
    """Commits that the death of mysqld would lose."""
    power_cut: float | None = None
    """Commits that a power cut of the source's machine would lose."""
    source_lost: float | None = None
    """Commits that no replica has."""
    mean_ms: float | None = None
    """The server's mean time for the commit, where its counters are all that is known."""
    n: int = 0
    """Commits behind TPS and percentiles, ticks taken back included."""


EXPOSURES: Final = ("process_dies", "power_cut", "source_lost")
"""A point's figures of what a failure would lose, named as the fields of `Exposure`."""

_FIELDS: Final = len(Point._fields)


@dataclass(slots=True, eq=False)
class Points(Sequence[Point]):
    """Points in the order of time, each with one float a figure, in a row; a gap is no number."""

    _packed: array[float] = field(default_factory=lambda: array("d"))

    def append(self, point: Point) -> None:
        """Take the newest."""
        self._packed.extend(nan if value is None else value for value in point)

    def copied(self) -> Points:
        """The same points apart, so that they stand while these grow."""
        return Points(self._packed[:])

    def forget(self, count: int) -> None:
        """Drop this many of the oldest."""
        del self._packed[: count * _FIELDS]

    def __len__(self) -> int:
        """How many there are."""
        return len(self._packed) // _FIELDS

    @overload
    def __getitem__(self, place: int) -> Point: ...
    @overload
    def __getitem__(self, place: slice) -> list[Point]: ...
    def __getitem__(self, place: int | slice) -> Point | list[Point]:
        """As of a list, for slices without a step; raises IndexError outside."""
        if isinstance(place, slice):
            start, end, _ = place.indices(len(self))
            return _unpacked(self._packed[start * _FIELDS : end * _FIELDS])
        at = range(len(self))[place]
        return _unpacked(self._packed[at * _FIELDS : (at + 1) * _FIELDS])[0]

    def __iter__(self) -> Iterator[Point]:
        """All at once: nobody walks through them while they are added to."""
        return iter(self[:])


def _unpacked(packed: array[float]) -> list[Point]:
    values: list[Any] = [None if value != value else value for value in packed]
    values[_FIELDS - 1 :: _FIELDS] = map(int, packed[_FIELDS - 1 :: _FIELDS])
    return [Point._make(values[first : first + _FIELDS]) for first in range(0, len(values), _FIELDS)]
