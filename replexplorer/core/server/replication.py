"""What is not as it should be on the replicas, and what happened to their threads, in words.

Law: what is unknown is no trouble; a replica that nobody can log in to has that one trouble.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from replexplorer.core.event import Severity
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.server.truth import ServerTruth
from replexplorer.core.topology import Role

LATE_S: Final = 3.0
"""So far behind a replica is a trouble."""
SETTLED_S: Final = 1.0
"""Below this one that was is none any more: between the two nothing comes and goes."""
_ARRIVED: Final = "acknowledgements lost: a waiting commit is here already"
_STATES: Final = {"off": "stopped", "connecting": "connecting", "error": "error"}
_FOR_SURE: Final = 2
"""Looks in a row that must see the same before it is reported: a change restarts threads for a moment."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What is wrong with one replica."""

    replica: str
    words: tuple[str, ...]
    """`SQL thread stopped`, `12 s behind`."""
    is_failure: bool = False
    """It is down, has other rows than the source, or a thread ended with an error."""
    can_be_repaired: bool = False
    """A server or a stopped thread that a repair starts again."""
    why: str | None = None
    """What differs and the remedy, or the server's own words of a thread's error."""


def troubles(
    nodes: Sequence[NodeView], truth: ServerTruth | None, late_s: float = LATE_S
) -> tuple[Trouble, ...]:
    """One for each replica that has any, in the order of the nodes."""
    found = (_trouble(truth, node, late_s) for node in nodes if not node.is_source)
    return tuple(trouble for trouble in found if trouble is not None)


def with_lost_acks(found: Sequence[Trouble], replicas: Sequence[str]) -> tuple[Trouble, ...]:
    """The same with what it means that the acknowledgements of these replicas are cut off, and nothing
    else: a commit that waits has arrived."""
    cut = {trouble.replica: trouble for trouble in found}
    for name in replicas:
        known = cut.get(name, Trouble(name, ()))
        cut[name] = replace(known, words=(_ARRIVED, *known.words))
    return tuple(cut[name] for name in sorted(cut))


def _trouble(truth: ServerTruth | None, node: NodeView, late_s: float) -> Trouble | None:
    if not node.reachable:
        return Trouble(node.name, ("down",), is_failure=True, can_be_repaired=True)
    if node.role is Role.DETACHED:
        return Trouble(node.name, ("detached",))
    threads = (node.io_thread, node.sql_thread)
    words = thread_words(node)
    lag_s = lag_s_of(truth, node)
    if lag_s is not None and lag_s >= late_s and node.diverged is None:
        words = (*words, f"{lag_s:.0f} s behind")
    why = node.replication_fault
    if node.diverged is not None:
        words, why = ("diverged", *words), f"it {node.diverged}: `rejoin {node.name} --copy`"
    if not words:
        return None
    is_failure = "error" in threads or node.diverged is not None
    return Trouble(node.name, words, is_failure, "off" in threads, why)


def thread_words(node: NodeView) -> tuple[str, ...]:
    """Threads that do not run: `SQL thread stopped`; `both threads stopped` where they are alike."""
    known = [
        (name, _STATES[state])
        for name, state in (("IO", node.io_thread), ("SQL", node.sql_thread))
        if state in _STATES
    ]
    if len(known) == 2 and known[0][1] == known[1][1]:
        return (f"both threads {known[0][1]}",)
    return tuple(f"{name} thread {state}" for name, state in known)


def lag_s_of(truth: ServerTruth | None, node: NodeView) -> float | None:
    """How far a replica is behind, as exactly as it is known."""
    truths = truth.replicas if truth is not None else ()
    exact_ms = next((each.lag_ms for each in truths if each.name == node.name), None)
    return node.lag_s if exact_ms is None else exact_ms / 1000


@dataclass(slots=True)
class ThreadWatch:
    """One replica's threads from look to look: what is worth an event."""

    _told: tuple[str, ...] = ()
    _seen: tuple[str, ...] = ()
    _times: int = 0

    def seen(self, node: NodeView) -> tuple[Severity, str] | None:
        """What to report after this look; None while nothing changed for sure."""
        words = thread_words(node) if node.reachable else self._told
        self._times = self._times + 1 if words == self._seen else 1
        self._seen = words
        if words == self._told or self._times < _FOR_SURE:
            return None
        self._told = words
        if not words:
            return Severity.GOOD, f"{node.name}: both threads run again"
        why = f": {node.replication_fault}" if node.replication_fault else ""
        failed = "error" in (node.io_thread, node.sql_thread)
        return (Severity.BAD if failed else Severity.WARN), f"{node.name}: {' and '.join(words)}{why}"


def healthy(nodes: Sequence[NodeView]) -> bool:
    """Every server answers and no replication thread is stopped, but those of a detached node, which are
    not for a repair to start."""
    return all(
        node.reachable and (node.role is Role.DETACHED or "off" not in (node.io_thread, node.sql_thread))
        for node in nodes
    )
