"""Sets of whole numbers as runs of neighbours, and GTID sets as text, which are made of them.

Law: the pairs are ascending and apart, with a gap between any two, so that equal sets are equal tuples: a
million rows of eight clients are a few pairs. A GTID set
(`uuid:1-3:7, uuid2:tag:5`) is written with its sources in the order of the text, so that equal sets are equal
texts; what is subtracted from itself is empty, and no server is asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

Spans = Sequence[tuple[int, int]]
"""First and last number of each run, both within."""


def spans_of(pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Runs in any order, neighbours and overlaps joined."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(pairs):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return tuple(joined)


def count(spans: Spans) -> int:
    """How many numbers there are."""
    return sum(last - first + 1 for first, last in spans)


def together(one: Spans, other: Spans) -> Spans:
    """What is in either."""
    return spans_of((*one, *other))


def common(one: Spans, other: Spans) -> Spans:
    """What is in both."""
    return without(one, without(one, other))


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


_SPAN: Final = re.compile(r"(\d+)(?:-(\d+))?(?:#\d+)?")
"""A run of numbers, or one that a session owns: `23#12` is held by thread 12."""


def parse_gtids(text: str) -> dict[str, Spans]:
    """Source, with its tag where it has one, to its numbers; what is no GTID is left out."""
    found: dict[str, list[tuple[int, int]]] = {}
    for part in text.replace("\n", "").split(","):
        source, *words = (word.strip() for word in part.split(":"))
        key = source.lower()
        for word in words:
            span = _SPAN.fullmatch(word)
            if span is None:
                key = f"{source.lower()}:{word.lower()}"
                continue
            first = int(span[1])
            last = int(span[2] or first)
            if first <= last:
                found.setdefault(key, []).append((first, last))
    return {key: spans_of(spans) for key, spans in found.items()}


def write_gtids(gtids: Mapping[str, Spans]) -> str:
    """The set as a server writes it, in one line; empty for an empty set."""
    return ", ".join(
        ":".join([key, *(str(first) if first == last else f"{first}-{last}" for first, last in spans)])
        for key, spans in gtids.items()
        if spans
    )


def subtract_gtids(left: str, *others: str) -> str:
    """What is in `left` and in none of the others."""
    gtids = parse_gtids(left)
    for other in others:
        taken = parse_gtids(other)
        gtids = {key: without(spans, taken.get(key, ())) for key, spans in gtids.items()}
    return write_gtids(gtids)


def unite_gtids(*texts: str) -> str:
    """What is in any of these sets."""
    return write_gtids(parse_gtids(",".join(filter(None, texts))))


def common_gtids(left: str, right: str) -> str:
    """What is in both of these sets."""
    return subtract_gtids(left, subtract_gtids(left, right))


def numbered_by(server_uuid: str, *texts: str) -> str:
    """What one server has numbered, with a tag or without, of all that is in any of these sets."""
    server = server_uuid.lower()
    gtids = parse_gtids(",".join(filter(None, texts)))
    return write_gtids({key: spans for key, spans in gtids.items() if key.partition(":")[0] == server})


def hole(own_uuid: str, own_gtids: str, *others_gtids: str) -> str:
    """Transactions that a server has numbered itself, that others have, and that it lacks: it lost the end of
    its own log. Empty for none.

    They never come back by replication: a server drops events with its own server_id
    (`replicate_same_server_id`). Read the server after the others: it only grows meanwhile. Of a source that
    takes writes it proves nothing: under AFTER_SYNC a replica has what still waits there.
    """
    return subtract_gtids(numbered_by(own_uuid, *others_gtids), own_gtids)


def gtid_count(text: str) -> int:
    """Transactions in a GTID set: `uuid:1-3:7, uuid2:tag:5` are 5."""
    return sum(map(count, parse_gtids(text).values()))


def transactions(gtids: str, none: str = "no transactions", what: str = "transaction") -> str:
    """`1 transaction`, `1,204 transactions`."""
    number = gtid_count(gtids)
    return f"{number:,} {what}{'' if number == 1 else 's'}" if number else none
