"""What a failure at this moment would lose: commits that a client was told are committed, and are not safe.

Law: `low` and `high` enclose the truth given when each number was read, and `commits` lies between them.
What cannot be said is Unknown with its reason, never 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Loss:
    """How many commits one kind of failure would lose now."""

    commits: int
    """The likeliest number."""
    low: int
    high: int
    age_ms: float | None = None
    """Since the oldest of them was committed; None where none is at risk, or that is not known."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """It cannot be said how many."""

    why: str
    low: int = 0
    """At least so many commits are known to be lost."""


@dataclass(frozen=True, slots=True)
class Exposure:
    """What each kind of failure would lose now."""

    process_dies: Loss | Unknown
    """Missing on the source after mysqld is killed and started again on the same machine."""
    power_cut: Loss | Unknown
    """Missing on the source after its machine lost power and came back."""
    source_lost: Loss | Unknown
    """Missing on the best reachable replica after its relay log is applied, the source never coming back."""
    read_ago_s: float = 0.0
    """How old that was when it was said: a busy source answers late."""


FAILURES: Final = ("process_dies", "power_cut", "source_lost")
"""The fields of an exposure that are a kind of failure."""


def silent(why: str) -> Exposure:
    """Nothing can be said of any failure."""
    unknown = Unknown(why)
    return Exposure(unknown, unknown, unknown)


NOT_REACHED: Final = silent("the source was not reached")
