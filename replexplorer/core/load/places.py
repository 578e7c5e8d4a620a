"""How many processes one load has, and where, as it is typed: `2`, or `host1=2,host2=1`."""

from __future__ import annotations

from typing import Final

from replexplorer.core.errors import UsageError
from replexplorer.core.load.interval import FULL_CORE

MOST_PROCESSES: Final = 64
_RIGHT: Final = "a number of processes, as 2, or one for each host, as host1=2,host2=1"

Places = tuple[str, ...]
"""The host of each process, the first one's first; an empty name is where the load runs anyway. None at all:
as many processes there as the load is worth."""


def read_places(text: str) -> Places:
    """`2` or `host1=2,host2=1`; raises UsageError naming what is wrong."""
    if "=" not in text:
        return ("",) * _number(text, text)
    places: list[str] = []
    for word in text.split(","):
        host, _, number = word.strip().rpartition("=")
        if not host:
            raise UsageError(f"--processes {text}: {word.strip()!r} names no host", _RIGHT)
        if host in places:
            raise UsageError(f"--processes {text}: {host} stands there twice", _RIGHT)
        places += [host] * _number(number, text)
    if len(places) > MOST_PROCESSES:
        raise UsageError(f"--processes {text}: at most {MOST_PROCESSES} in all", _RIGHT)
    return tuple(places)


def _number(word: str, text: str) -> int:
    if not word.isascii() or not word.isdigit():
        raise UsageError(f"--processes {text}: {word!r} is no whole number", _RIGHT)
    if not 1 <= len(word) <= len(str(MOST_PROCESSES)) or not 1 <= int(word) <= MOST_PROCESSES:
        raise UsageError(f"--processes {text}: from 1 to {MOST_PROCESSES}", _RIGHT)
    return int(word)


def places_text(places: Places) -> str:
    """As `read_places` reads it."""
    if not any(places):
        return str(len(places))
    return ",".join(f"{host}={places.count(host)}" for host in dict.fromkeys(places))


def processes_that_help(limited: str | None, processes: int, clients: int) -> int | None:
    """How many generator processes to have where a full core of one is the limit (`Interval.limited`); None
    where more of them would change nothing, and where it is not known how many there are."""
    if limited is None or not limited.startswith(FULL_CORE) or not 0 < processes < clients:
        return None
    return min(2 * processes, clients)
