"""What stood in the way of commits within a window of time, and its words.

Law: a window that holds an outage claims no gain and no loss. Seconds and commits are what was seen of
the window itself, and until commits were protected again it counts from the outage's beginning, as the log
and the charts do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Outage:
    """What a window holds of stalls, falls back to async and restarts; nothing of it is falsy."""

    blocked_s: float = 0.0
    """Commits waited for an acknowledgement that did not come."""
    unprotected_s: float = 0.0
    """Semi-sync was asked for and commits did not wait."""
    down_s: float = 0.0
    """Nobody could log in to the primary."""
    unprotected: int = 0
    """Commits confirmed to clients without an acknowledgement, while semi-sync was asked for."""
    restarts: tuple[str, ...] = ()
    """Servers that restarted, in order."""
    lasts: bool = False
    """Still so at the window's end."""
    again_s: float | None = None
    """From the outage's beginning, which may lie before the window, until commits were protected again;
    None: they are not, or never were."""
    fell_first: bool = False
    """It began unprotected, and stalls came after."""

    def __bool__(self) -> bool:
        """Whether there is anything."""
        return self != Outage()


def with_restart(outage: Outage, node: str) -> Outage:
    """The same with a server that restarted; once is enough."""
    return outage if node in outage.restarts else replace(outage, restarts=(*outage.restarts, node))


def outage_words(outage: Outage) -> tuple[str, ...]:
    """What happened, longest first: `blocked 10.0 s, then 18,678 commits unprotected, protected again
    after 29.4 s`, with less of it, and with short figures; empty for nothing."""
    if not outage:
        return ()
    stalls = [
        f"{word} {_length(seconds)}"
        for word, seconds in (("down", outage.down_s), ("blocked", outage.blocked_s))
        if seconds > 0
    ]
    commits = f"{outage.unprotected:,} commit{'' if outage.unprotected == 1 else 's'} unprotected"
    if outage.unprotected_s > 0 and not outage.unprotected:
        commits = f"fell back to async for {_length(outage.unprotected_s)}"
    restarts = [f"{' and '.join(outage.restarts)} restarted"] if outage.restarts else []
    fell = outage.unprotected > 0 or outage.unprotected_s > 0
    again = [] if outage.again_s is None else [f"protected again after {_length(outage.again_s)}"]
    lasts = ", not over yet" if outage.lasts and not again else ""
    told = ", ".join(_in_order([*restarts, *stalls], [commits] if fell else [], outage.fell_first))
    full = ", ".join(part for part in (told, *again) if part)
    brief = ", ".join(
        [*restarts, *stalls, *([f"{outage.unprotected:,} unprotected"] if outage.unprotected else [])]
    )
    return tuple(dict.fromkeys([f"{full}{lasts}", full, told or full, brief or told or full]))


def _in_order(stalls: list[str], commits: list[str], fell_first: bool) -> list[str]:
    """One, then the other."""
    first, second = (commits, stalls) if fell_first else (stalls, commits)
    return [*first, *(f"then {each}" if first and at == 0 else each for at, each in enumerate(second))]


def _length(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 99.95 else f"{seconds:.0f} s"
