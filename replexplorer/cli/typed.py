"""Numbers and durations as they are typed; each answers a parser for argparse."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def _without_thousands(text: str, kind: type[int] | type[float]) -> str:
    """`1k` as 1000 and `1m` as 1000000; raises ValueError."""
    factor = {"k": 1_000, "m": 1_000_000}.get(text[-1:].lower())
    return text if factor is None else str(kind(text[:-1]) * factor)


def whole_number(minimum: int, maximum: int | None = None) -> Callable[[str], int]:
    """A parser of whole numbers from `minimum` to `maximum`; without one, as many as one likes."""

    def read(text: str) -> int:
        try:
            value = int(_without_thousands(text, int))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, as 1000, 1k or 1m") from None
        if value < minimum:
            raise argparse.ArgumentTypeError(f"{value} is below {minimum}")
        if maximum is not None and value > maximum:
            raise argparse.ArgumentTypeError(f"{value} is above {maximum}")
        return value

    return read


def positive(maximum: float) -> Callable[[str], float]:
    """A parser of numbers above 0."""

    def read(text: str) -> float:
        try:
            value = float(_without_thousands(text, float))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is not a number, as 500, 1k or 1.5k") from None
        if not 0 < value <= maximum:
            raise argparse.ArgumentTypeError(f"{text!r} must be above 0 and at most {maximum:g}")
        return value

    return read


def seconds(*, positive: bool) -> Callable[[str], float]:
    """A parser of durations in seconds: `10`, `1.5`, `10s`, `500ms`, `2min`, `5m`."""

    def read(text: str) -> float:
        scale = 1.0
        number = text.strip().lower()
        for unit, factor in (("ms", 0.001), ("min", 60.0), ("m", 60.0), ("s", 1.0)):
            if number.endswith(unit):
                number, scale = number.removesuffix(unit), factor
                break
        try:
            value = float(number) * scale
        except ValueError:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a duration, as 10, 10s, 500ms or 2min"
            ) from None
        if not 0 <= value < float("inf") or (positive and value == 0):
            raise argparse.ArgumentTypeError(f"{text!r} must be {'above' if positive else 'at least'} 0")
        return value

    return read
