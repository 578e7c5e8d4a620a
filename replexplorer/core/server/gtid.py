"""GTID sets as text: `uuid:1-3:7, uuid2:tag:5`, subtracted without asking a server.

Law: a set is written with its sources in the order of the text and its intervals apart and ascending,
so that equal sets are equal texts; what is subtracted from itself is empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence, Set
from typing import Final

Intervals = Sequence[tuple[int, int]]
"""First and last number of each run, both within."""

_SPAN: Final = re.compile(r"(\d+)(?:-(\d+))?(?:#\d+)?")
"""A run of numbers, or one that a session owns: `23#12` is held by thread 12."""


def parse_gtids(text: str) -> dict[str, Intervals]:
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
            found.setdefault(key, []).append((first, int(span[2] or first)))
    return {key: _joined(spans) for key, spans in found.items()}


def write_gtids(gtids: Mapping[str, Intervals]) -> str:
    """The set as a server writes it, in one line; empty for an empty set."""
    return ", ".join(
        ":".join([key, *(str(first) if first == last else f"{first}-{last}" for first, last in spans)])
        for key, spans in gtids.items()
        if spans
    )


def runs(numbers: Set[int]) -> Intervals:
    """Numbers as runs of neighbors."""
    firsts = sorted(number for number in numbers if number - 1 not in numbers)
    return list(zip(firsts, sorted(number for number in numbers if number + 1 not in numbers), strict=True))


def subtract_gtids(left: str, *others: str) -> str:
    """What is in `left` and in none of the others."""
    gtids = parse_gtids(left)
    for other in others:
        taken = parse_gtids(other)
        gtids = {key: _without(spans, taken.get(key, ())) for key, spans in gtids.items()}
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
    return sum(last - first + 1 for spans in parse_gtids(text).values() for first, last in spans)


def transactions(gtids: str, none: str = "no transactions", what: str = "transaction") -> str:
    """`1 transaction`, `1,204 transactions`."""
    count = gtid_count(gtids)
    return f"{count:,} {what}{'' if count == 1 else 's'}" if count else none


def _joined(spans: Sequence[tuple[int, int]]) -> Intervals:
    """Ascending, with neighbours and overlaps made one."""
    joined: list[tuple[int, int]] = []
    for first, last in sorted(span for span in spans if span[0] <= span[1]):
        if joined and first <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], last))
        else:
            joined.append((first, last))
    return joined


def _without(spans: Intervals, taken: Intervals) -> Intervals:
    """The numbers of these runs that are in none of those; both are ascending and apart."""
    left: list[tuple[int, int]] = []
    for first, last in spans:
        for begins, ends in taken:
            if ends < first or begins > last:
                continue
            if begins > first:
                left.append((first, begins - 1))
            first = ends + 1
        if first <= last:
            left.append((first, last))
    return left
