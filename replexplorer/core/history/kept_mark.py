"""Marks that people put on the charts, as the stack keeps them for all who watch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

MOST_KEPT: Final = 20
"""The newest ones: whoever comes later has not seen the others' charts."""


@dataclass(frozen=True, slots=True)
class KeptMark:
    """One mark."""

    id: str
    """Drawn by the app that put it: no two are the same."""
    text: str
    by: str
    """Who put it: `tui (pid 4711)`."""


def marks_to_record(marks: Sequence[KeptMark]) -> list[dict[str, str]]:
    """The newest marks as the requested document keeps them."""
    return [{"id": mark.id, "text": mark.text, "by": mark.by} for mark in marks[-MOST_KEPT:]]


def marks_from_record(content: Any) -> tuple[KeptMark, ...]:
    """The inverse of `marks_to_record`; what cannot be read is left out."""
    rows = content if isinstance(content, list) else []
    return tuple(
        KeptMark(row["id"], row["text"], row["by"])
        for row in rows
        if isinstance(row, dict) and all(isinstance(row.get(key), str) for key in ("id", "text", "by"))
    )
