"""Sets of whole numbers as runs of neighbours: a million rows of eight clients are a few pairs.

Law: the pairs are ascending and apart, with a gap between any two, so that equal sets are equal tuples.
Every operation is one walk over both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Spans = Sequence[tuple[int, int]]
"""First and last number of each run, both within."""


def spans_of(pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Runs in any order, neighbours and overlaps joined."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(pairs):
        if joined and first <= joined[-1][1] + 1:
            if last > joined[-1][1]:
                joined[-1] = (joined[-1][0], last)
        else:
            joined.append((first, last))
    return tuple(joined)


def count(spans: Spans) -> int:
    """How many numbers there are."""
    return sum(last - first + 1 for first, last in spans)


def together(one: Spans, other: Spans) -> Spans:
    """What is in either."""
    return spans_of((*one, *other)) if one and other else one or other


def common(one: Spans, other: Spans) -> Spans:
    """What is in both."""
    found, at = list[tuple[int, int]](), 0
    for first, last in one:
        while at < len(other) and other[at][1] < first:
            at += 1
        here = at
        while here < len(other) and other[here][0] <= last:
            found.append((max(first, other[here][0]), min(last, other[here][1])))
            here += 1
        at = max(at, here - 1)
    return tuple(found)


def without(one: Spans, other: Spans) -> Spans:
    """What is in the first and not in the other."""
    left, at = list[tuple[int, int]](), 0
    for first, last in one:
        while at < len(other) and other[at][1] < first:
            at += 1
        here = at
        while here < len(other) and other[here][0] <= last:
            if other[here][0] > first:
                left.append((first, other[here][0] - 1))
            first = other[here][1] + 1
            here += 1
        at = max(at, here - 1)
        if first <= last:
            left.append((first, last))
    return tuple(left)


def upto(spans: Spans, number: int) -> int:
    """How many numbers of the set are not above this one."""
    return sum(min(last, number) - first + 1 for first, last in spans if first <= number)
