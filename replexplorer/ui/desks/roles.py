"""The dashboard's changes of roles: which there are, whom each may concern, and those under way."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from replexplorer.core.role_change import ChangeKind, RoleChange
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.topology import Role
from replexplorer.engine.console import Command, Failover, Rejoin, Switchover
from replexplorer.ui.desks.commander import Commander
from replexplorer.ui.desks.faults import Target

_AWAY: Final = (Role.DETACHED, Role.DOWN)
"""Roles of a node that may follow the source again."""


@dataclass(frozen=True, slots=True)
class RoleKind:
    """One kind of change, as the list has it."""

    kind: ChangeKind
    does: str
    """What happens, to whom."""
    usual: str
    """Whom it takes where nobody is chosen; empty: somebody must be."""

    @property
    def key(self) -> str:
        """The verb of this name."""
        return self.kind.value


ROLE_KINDS: Final = (
    RoleKind(
        ChangeKind.FAILOVER,
        "the source is gone: a replica applies all that it has received and takes the writes, the others and"
        " the load follow it, and the old source takes none when it comes back",
        "the one that lacks least",
    ),
    RoleKind(
        ChangeKind.SWITCHOVER,
        "source and replica change places: writes wait until it has everything, and nothing is lost",
        "the nearest replica",
    ),
    RoleKind(
        ChangeKind.REJOIN,
        "a node that follows nobody follows the source again; one that has transactions which the source"
        " lacks, and loses, or that diverged gets a copy of the source's data",
        "",
    ),
)


@dataclass(slots=True)
class RoleDesk:
    """It outlives the screen that shows it."""

    commander: Commander
    run: Callable[[Coroutine[Any, Any, None]], object]
    """Begins a coroutine beside the screens."""
    under_way: list[str] = field(default_factory=list)
    """What is being changed now, in words."""
    _places: dict[str, int] = field(default_factory=dict)
    """By kind: which of its targets is chosen."""

    def targets(self, kind: RoleKind, nodes: Sequence[NodeView]) -> Sequence[Target]:
        """Whom it may concern now."""
        others = [node for node in nodes if not node.is_source]
        if kind.usual:
            return [Target(kind.usual, None), *map(_target, others)]
        return [_target(node) for node in others if node.role in _AWAY or node.diverged]

    def target(self, kind: RoleKind, nodes: Sequence[NodeView]) -> Target | None:
        """Whom it would concern; None where there is nobody."""
        found = self.targets(kind, nodes)
        return found[min(self._places.get(kind.key, 0), len(found) - 1)] if found else None

    def next_target(self, kind: RoleKind, nodes: Sequence[NodeView], steps: int) -> None:
        """Another node."""
        if found := self.targets(kind, nodes):
            place = min(self._places.get(kind.key, 0), len(found) - 1)
            self._places[kind.key] = (place + steps) % len(found)

    def change(self, kind: RoleKind, target: Target) -> None:
        """Carry it out, beside the dashboard."""
        words = f"{kind.key}{f' {target.node}' if target.node else ''}"
        self.under_way.append(words)
        self.run(self._carry_out(words, kind.key, _command(kind.kind, target.node)))

    async def _carry_out(self, words: str, label: str, command: Command[RoleChange]) -> None:
        try:
            await self.commander.carry_out(label, command)
        finally:
            self.under_way.remove(words)


def _target(node: NodeView) -> Target:
    return Target(f"{node.name} {node.role}", node.name)


def _command(kind: ChangeKind, node: str | None) -> Command[RoleChange]:
    match kind:
        case ChangeKind.FAILOVER:
            return Failover(node)
        case ChangeKind.SWITCHOVER:
            return Switchover(node)
        case ChangeKind.REJOIN:
            return Rejoin(str(node))


def change_words(change: RoleChange) -> str:
    """`switchover: db2 takes the writes of db1 after 312 ms, nothing is lost`."""
    lost = change.rpo.commits
    what = "acknowledged rows" if change.kind is ChangeKind.FAILOVER else "transactions"
    told = "" if lost is None else "nothing is lost" if not lost else f"{lost:,} {what} are lost"
    if change.kind is ChangeKind.REJOIN:
        done = f"{change.source_before} {change.standing} again"
    else:
        total_ms = change.rto.total_ms
        after = "" if total_ms is None else f" after {total_ms:,.0f} ms"
        done = f"{change.source} takes the writes of {change.source_before}{after}"
    return f"{change.kind}: {', '.join(filter(None, (done, told)))}"
