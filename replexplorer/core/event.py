"""Facts that happened, for the log and for the marks on the charts."""

from __future__ import annotations

from enum import StrEnum

from replexplorer.core.records import frozen


class Severity(StrEnum):
    """How an event is marked in the log."""

    INFO = "info"
    MARK = "mark"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"


@frozen
class Event:
    """A fact that happened, for the log; with a number it is a mark on both charts as well."""

    at_s: float
    wall_s: float
    """Seconds since 1970, UTC."""
    severity: Severity
    text: str
    mark: int | None = None
