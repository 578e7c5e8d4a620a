"""Ratios in words: `x0.12`, `[0.10, 0.14]`, `8.3 times slower`; the same on screen and in reports.

Law: as many digits as the interval bears, never an exponent, and each figure in at most six characters.
"""

from __future__ import annotations

from math import floor, log10
from typing import Final

OPEN_END: Final = "…"
"""A bound that is not known."""
_MOST_DECIMALS: Final = 4
_TIMES_FROM: Final = 1.5
"""Up to this factor a change is said in percent: `12 % slower`, and from it on in times."""


def ratio_text(ratio: float | None, low: float | None = None, high: float | None = None) -> str:
    """`x0.12`, with the digits that its interval bears; empty for None."""
    return "" if ratio is None else f"x{_figure(ratio, _decimals(ratio, low, high))}"


def interval_text(ratio: float | None, low: float | None, high: float | None) -> str:
    """`[0.10, 0.14]`; a side without a bound is `…`; empty where there is none on either."""
    if low is None and high is None:
        return ""
    decimals = _decimals(ratio, low, high)
    return f"[{_bound(low, decimals)}, {_bound(high, decimals)}]"


def range_text(ratio: float | None, low: float | None, high: float | None) -> str:
    """The same where there is little room: `0.10–0.14`."""
    if low is None and high is None:
        return ""
    decimals = _decimals(ratio, low, high)
    return f"{_bound(low, decimals)}–{_bound(high, decimals)}"


def times_text(ratio: float, word: str) -> str:
    """`8.3 times slower`, `12 % faster`: how far a ratio is from 1, in either direction."""
    if ratio <= 0:
        return f"{word}: to nothing"
    if max(ratio, 1 / ratio) < _TIMES_FROM:
        percent = 100 * abs(ratio - 1)
        return f"{percent:.1f} % {word}" if percent < 9.95 else f"{percent:.0f} % {word}"
    times = max(ratio, 1 / ratio)
    return f"{times:.1f} times {word}" if times < 99.95 else f"{times:,.0f} times {word}"


def _bound(value: float | None, decimals: int) -> str:
    return OPEN_END if value is None else _figure(value, decimals)


def _decimals(ratio: float | None, low: float | None, high: float | None) -> int:
    """As many as tell the interval's ends apart by two units, and near 1 those that tell it from 1."""
    wanted = 2 if ratio is not None and 0.8 <= ratio <= 1.25 else 0
    if low is not None and high is not None and high > low:
        wanted = max(wanted, -floor(log10((high - low) / 2)))
    return min(wanted, _MOST_DECIMALS)


def _figure(value: float, decimals: int) -> str:
    """Two digits or more in at most six characters: `0.0143`, `31.3`, `9999`, `31k`."""
    if value >= 9_999.5:
        divided, suffix = (1e3, "k") if value < 9_999_500 else (1e6, "M")
        return f"{value / divided:.0f}{suffix}"
    if value <= 0:
        return "0"
    if value < 0.5 / 10**_MOST_DECIMALS:
        return "<.0001"
    size = floor(log10(value))
    shown = min(max(decimals, 1 - size), 2 - size if size < -1 else 3 - max(size, 0), _MOST_DECIMALS)
    return f"{value:.{max(shown, 0)}f}"
