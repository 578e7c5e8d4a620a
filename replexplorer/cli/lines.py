"""Lines of text that `status` and `predict` have alike: what they are about, and what failures would lose."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from replexplorer.core.server.exposure import FAILURES, Exposure
from replexplorer.core.text import folded

_LABEL: Final = 12
"""Columns of what a line of `status` is about."""
Line = tuple[str, str]
"""What a line is about, empty where it goes on with the one before, and what it says."""


def labelled(lines: Iterable[Line], columns: int | None = None) -> Iterator[str]:
    """Lines behind their labels, folded to stay beside them."""
    room = None if columns is None else columns - _LABEL
    for label, text in lines:
        first, *more = folded(text, room, "").split("\n")
        yield f"{label:<{_LABEL}}{first}"
        yield from (f"{'':<{_LABEL}}{each}" for each in more)


LOSSES: Final = ("DIES", "CUT", "LOST")
"""Headings of what is lost when mysqld dies, at a power cut, and when the source is lost."""
_AFTER_CUT: Final = {
    "broken 1236": "that lack what the binlog loses stop with error 1236 and have to be copied",
    "diverged": "may differ from the source and have to be copied",
}


def exposure_lines(exposure: Exposure) -> list[Line]:
    """What each kind of failure would lose now, a line each."""
    losses = zip(FAILURES.values(), exposure.losses, strict=True)
    words = [f"{title}: {loss.words}" for title, loss in losses]
    if exposure.replication_after not in (None, "whole"):
        words[1] += f"; replicas {_AFTER_CUT[exposure.replication_after]}"
    return [("would lose", words[0]), *(("", each) for each in words[1:])]
