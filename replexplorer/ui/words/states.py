"""The protection states, partitions and severities: words, symbols, tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from replexplorer.core.event import Severity
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.server.state_words import MEANINGS, OF_A_GROUP, word_of
from replexplorer.ui.words.exposure import DANGERS


class StateWord(NamedTuple):
    """How a state is written: never by colour alone."""

    symbol: str
    word: str
    token: str
    meaning: str
    """One line for the help."""


STATES: Final[Mapping[ProtectionState, StateWord]] = {
    state: StateWord(
        symbol,
        word_of(state),
        token,
        MEANINGS[state] + (f"; in a group: {OF_A_GROUP[state]}" if state in OF_A_GROUP else ""),
    )
    for state, symbol, token in (
        (ProtectionState.PROTECTED, "●", "protected"),
        (ProtectionState.ARMED, "◐", "armed"),
        (ProtectionState.OFF, "○", "async"),
        (ProtectionState.BLOCKED, "◼", "blocked"),
        (ProtectionState.DEGRADED, "▲", "degraded"),
        (ProtectionState.DOWN, "✖", "degraded"),
    )
}
"""Every protection state."""

CHIPS: Final = (
    (" PARTITION both ", "onstate on partitioned b", "all packets between primary and replica are lost"),
    (
        " PARTITION ack ",
        "onstate on partitioned b",
        "packets to the primary are lost: a waiting commit is on the replica, its acknowledgement lost",
    ),
    (
        " PARTITION dump ",
        "onstate on partitioned b",
        "packets to the replica are lost: no event arrives there",
    ),
    ("healed, TCP retries", "warn b", "packets pass again; events flow when TCP tries next"),
)
"""What the header says of a link: text, style words, and one line for the help."""

READING: Final = (
    ("ceiling", "clients / (RTT + local time): what no semi-sync commit can beat; dashed"),
    ("predicted", "what the model fitted from measured runs expects of these settings; dotted"),
    (
        "commit",
        "the mean commit's time by its parts, from the server's counters; what none explains is other",
    ),
    ("density", "every commit by time and latency; a shade is half a power of ten of commits a second"),
    *((danger.word, danger.meaning) for danger in DANGERS),
    ("dropped", "arrivals that an open loop gave up because the backlog was full"),
    ("checks", "clients = TPS x mean latency; our commits = those that the server counted; ▲ when not"),
)
"""Words of the charts and the rows below them, each with one line for the help."""

SEVERITIES: Final[Mapping[Severity, tuple[str, str]]] = {
    Severity.INFO: (" ", "muted"),
    Severity.MARK: ("·", "mark"),
    Severity.GOOD: ("✓", "good"),
    Severity.WARN: ("▲", "warn"),
    Severity.BAD: ("✖", "bad"),
}
"""Symbol and token of each severity; a mark's number replaces its symbol."""
