"""The protection states and severities in words, symbols and theme tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from replexplorer.core.tick import ProtectionState, Severity


class StateWord(NamedTuple):
    """How a state is written: never by colour alone."""

    symbol: str
    word: str
    token: str
    meaning: str
    """One line for the help."""


STATES: Final[Mapping[ProtectionState, StateWord]] = {
    ProtectionState.PROTECTED: StateWord(
        "●", "PROTECTED", "protected", "semi-sync works: an acknowledged commit is on a replica"
    ),
    ProtectionState.ARMED: StateWord(
        "◐", "ARMED", "armed", "semi-sync is on, unproven: the next commit waits for a replica"
    ),
    ProtectionState.OFF: StateWord(
        "○", "ASYNC", "async", "semi-sync is off: a crash of the primary may lose acknowledged commits"
    ),
    ProtectionState.BLOCKED: StateWord(
        "◼", "BLOCKED", "blocked", "commits wait for an acknowledgement that does not come"
    ),
    ProtectionState.DEGRADED: StateWord(
        "▲", "DEGRADED", "degraded", "semi-sync is on and fell back: commits are asynchronous now"
    ),
    ProtectionState.DOWN: StateWord("✖", "DOWN", "degraded", "nobody can log in to the primary"),
}
"""Every protection state."""

SEVERITIES: Final[Mapping[Severity, tuple[str, str]]] = {
    Severity.INFO: (" ", "muted"),
    Severity.MARK: ("·", "mark"),
    Severity.GOOD: ("✓", "good"),
    Severity.WARN: ("▲", "warn"),
    Severity.BAD: ("✖", "bad"),
}
"""Symbol and token of each severity; a mark's number replaces its symbol."""
