"""One line of the benchmarks' table."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from typing import Any

from bench.paired import Compared, shift_of_blocks


@dataclass
class Figure:
    """What was measured against a target."""

    number: str
    """`P9`."""
    what: str
    target: str
    measured: str
    holds: bool | None
    """None: it could not be measured."""
    samples: dict[str, Any] = field(default_factory=dict)
    """Raw figures, by name."""

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def tell(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Wanted:
    """What of a section is to be measured."""

    quick: bool
    part: str = ""
    """A pattern of the titles of what is wanted, as `power_cut 0/*`; empty: all."""

    def takes(self, title: str) -> bool:
        """Whether this is wanted."""
        return not self.part or fnmatch(title, self.part)


HOLDS = {True: "yes", False: "NO", None: "?"}
"""The word for whether a target was held."""


def spread(values: Sequence[float], digits: int = 1) -> str:
    """Median and range: `0.6 (0.4 to 1.3)`."""
    median = statistics.median(values)
    return f"{median:.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def ratio_figure(
    number: str, what: str, found: Compared, *, least: float | None = None, most: float | None = None
) -> Figure:
    """A ratio against the least or the most that it may be. Where its interval has that bound inside it is
    not known whether it holds."""
    target = f">= {least:g}" if least is not None else f"<= {most:g}"
    low, high = found.ratio.low, found.ratio.high
    if least is not None:
        holds = None if low is None or high is None or low < least <= high else low >= least
    else:
        assert most is not None
        holds = None if low is None or high is None or low <= most < high else high <= most
    return Figure(number, what, target, str(found), holds, found.samples())


def shift_figure(
    number: str, what: str, with_it: Sequence[float], without: Sequence[float], *, most: float
) -> Figure:
    """How much more the turns with something have, against the most that it may be; undecided where the
    interval has that inside it, or is not known."""
    found = shift_of_blocks(with_it, without)
    low, high = found.low, found.high
    bounds = "too few turns" if low is None or high is None else f"{low:+.2f} to {high:+.2f}"
    return Figure(
        number,
        what,
        f"<= {most:g}",
        f"{found.value:+.2f} ({bounds}): {spread(with_it)} to {spread(without)}",
        None if low is None or high is None or low <= most < high else high <= most,
        {"with": list(with_it), "without": list(without)},
    )


def by_number(figures: Iterable[Figure]) -> list[Figure]:
    """The numbered targets first and in their order."""
    return sorted(figures, key=lambda figure: (figure.number[:1] != "P", len(figure.number), figure.number))


def table(figures: Sequence[Figure]) -> str:
    """Target, measured, held or not, one line each."""
    rows = [("", "WHAT", "TARGET", "MEASURED: MEDIAN (RANGE)", "HOLDS")] + [
        (figure.number, figure.what, figure.target, figure.measured, HOLDS[figure.holds])
        for figure in figures
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in lines)
