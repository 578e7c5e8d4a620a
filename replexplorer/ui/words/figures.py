"""Numbers and times as the screens write them.

Law: three significant digits at most, so that a column does not jump; an unknown figure is `-`.
"""

from __future__ import annotations

import time
from typing import Final

UNKNOWN: Final = "-"
"""How an unknown figure is written."""


def rate(value: float | None) -> str:
    """Commits per second: `0.8`, `11.4`, `528`, `15.7k`."""
    if value is None:
        return UNKNOWN
    if value < 99.95:
        return f"{value:.1f}"
    if value < 9_999.5:
        return f"{value:.0f}"
    return f"{value / 1000:.1f}k" if value < 99_950 else f"{value / 1000:.0f}k"


def millis(value: float | None) -> str:
    """Milliseconds without their unit: `0.25`, `3.2`, `89`, `1240`."""
    if value is None:
        return UNKNOWN
    if value < 0.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 9.95 else f"{value:.0f}"


def round_trip(value: float | None) -> str:
    """A round-trip time in ms with the tenth that asked against measured needs: `85.4`, `0.1`, `1250`."""
    return UNKNOWN if value is None else f"{value:.{1 if value < 999.95 else 0}f}"


def count(value: int) -> str:
    """A number of commits: `3339`, `28.5k`, `1.2M`."""
    if value < 10_000:
        return str(value)
    return f"{value / 1000:.1f}k" if value < 999_950 else f"{value / 1_000_000:.1f}M"


def span(seconds: float) -> str:
    """A stretch of time: `0.5 s`, `10 s`."""
    return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"


def age(value_ms: float) -> str:
    """How long ago: `12 ms`, `0.4 s`, `3:05`."""
    if value_ms < 99.5:
        return f"{value_ms:.0f} ms"
    seconds = value_ms / 1000
    if seconds < 99.5:
        return span(seconds)
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


def moment(seconds: float) -> str:
    """Elapsed time as the charts, the epochs and the log write it: `11:30`, from an hour on `1:02:30`."""
    whole = max(0, int(seconds))
    if whole < 3600:
        return f"{whole // 60:02}:{whole % 60:02}"
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def local_time(wall_s: float) -> str:
    """Seconds since 1970 as the user's own clock shows them: `14:03:22`."""
    return time.strftime("%H:%M:%S", time.localtime(wall_s))
