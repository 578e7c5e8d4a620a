"""Whether somebody works on a server: then its settings are not changed without asking."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BUSY_SESSIONS: Final = 5
"""Of others, replicas left out: a pool of an application has more."""
BUSY_QPS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Bustle:
    """What others do at a server."""

    sessions: int
    qps: float
    """Statements a second."""

    @property
    def is_busy(self) -> bool:
        """Whether it looks as if people depend on it."""
        return self.sessions >= BUSY_SESSIONS or self.qps >= BUSY_QPS

    def __str__(self) -> str:
        """In words."""
        sessions = "1 session" if self.sessions == 1 else f"{self.sessions} sessions"
        return f"{sessions} and {self.qps:.0f} statements a second of others"


def why_to_ask(place: str, bustle: Bustle, allowed: tuple[str, ...]) -> str | None:
    """Why somebody has to type the name of a server before it is changed; None where nobody has to."""
    if bustle.is_busy:
        return f"{place} looks busy: {bustle}"
    return None if place in allowed else f"{place} is not among `attach_allowed` in the configuration"
