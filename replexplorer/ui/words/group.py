"""What a group's members say of it, in one line: refused transactions, what waits, what is held back."""

from __future__ import annotations

from collections.abc import Sequence

from replexplorer.core.server.membership import conflicts_of
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.system import System
from replexplorer.ui.words.runs import Line, Run, width_of


def group_line(system: System, nodes: Sequence[NodeView], width: int) -> Line:
    """` conflicts 3  to apply db2 12  flow control 0.4 s`: as much as there is room for, the rarest last."""
    lost = conflicts_of(system, (each.member for each in nodes))
    parts = [
        part
        for part in (
            _counted("conflicts", lost.refused),
            _waiting(nodes),
            _counted("gave way", lost.gave_way),
            _held(nodes),
        )
        if part
    ]
    line: Line = []
    for part in parts:
        longer: Line = [*line, ("  " if line else " ", "text"), *part]
        if width_of(longer) > width:
            break
        line = longer
    return line


def _counted(word: str, count: int | None) -> list[Run]:
    """Transactions that were lost; nothing where the servers do not count them."""
    if count is None:
        return []
    return [(f"{word} ", "muted"), (f"{count:,}", "warn b" if count else "text")]


def _waiting(nodes: Sequence[NodeView]) -> list[Run]:
    """What waits at each member to be certified and to be applied."""
    runs: list[Run] = []
    for node in nodes:
        member = node.member
        if member is None or (member.queued is None and member.to_apply is None):
            continue
        count = (member.queued or 0) + (member.to_apply or 0)
        runs += [(f" {node.name} ", "muted"), (f"{count:,}", "warn b" if count > _MUCH else "text")]
    return [("queued", "muted"), *runs] if runs else []


def _held(nodes: Sequence[NodeView]) -> list[Run]:
    """How long flow control has held commits back."""
    held_ms = max((each.member.held_ms or 0.0 for each in nodes if each.member), default=0.0)
    if not held_ms:
        return []
    return [("flow control held ", "muted"), (f"{held_ms / 1000:.1f} s", "warn b")]


_MUCH = 1000
"""Transactions: a queue that takes seconds."""
