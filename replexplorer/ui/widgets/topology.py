"""The servers and what connects them: `db1 primary 9.7.4 :33061 ──▸ db2 replica`.

Law: an arrow is a stream that was seen. A replica that follows another node than the source has its arrow
from that one, and a node that follows nobody has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.reactive import reactive

from replexplorer.core.link import NO_PARTITION, LinkView
from replexplorer.core.server.node_view import NodeView, conflicts_of
from replexplorer.core.system import System, system_of
from replexplorer.core.tick import Tick
from replexplorer.core.topology import Belonging, Role, link_between
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words.runs import Line, Run, width_of
from replexplorer.ui.words.states import replica_runs


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


class Topology(Lines):
    """The first row of the left column; one row more for each further replica."""

    GROUND: ClassVar[str] = "panel"
    DEFAULT_CSS = "Topology { height: 2; }"

    tick: reactive[Tick | None] = reactive(None)
    """The picture."""

    def watch_tick(self) -> None:
        """Draw; takes a row for each replica and a blank one."""
        replicas = len(self.tick.nodes) - 1 if self.tick else 1
        height = max(1, replicas) + 1
        if self.styles.height is None or self.styles.height.value != height:
            self.styles.height = height
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """The source and the first of the others in one row, further ones below each other."""
        if self.tick is None or not self.tick.nodes:
            return []
        source, replicas = self.tick.source or self.tick.nodes[0], self.tick.replicas
        first = [(" ", "text"), *_source(source)]
        links = {link.replica: link for link in self.tick.links}
        rows: list[Line] = []
        for replica in replicas:
            begins = _begins(replica, source)
            other = "" if begins in (None, source.name) else begins
            start: list[Run] = [(f"{other:>{width_of(first)}}", "muted")]
            if not rows:
                start = [*first, (f"  {other}" if other else "", "muted")]
            rows.append([*start, *_arrow(replica, begins, source, links), *_replica(replica, source)])
        system = system_of(self.tick.system)
        if system.is_group:
            return [*(rows or [first]), group_line(system, self.tick.nodes, width)]
        if lags := self._lags(self.tick, width):
            return [*(rows or [first]), lags]
        behind = [(node.name, node.lag_s) for node in replicas if node.lag_s is not None and node.lag_s >= 1]
        lag = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in behind)
        below: list[Line] = [[(f" behind: {lag}", "warn b")]] if lag else []
        return [*(rows or [first]), *below]

    def _lags(self, tick: Tick, width: int) -> Line:
        """How far each replica is behind, in ms, where the servers say; what is queued where there is
        room for it."""
        truths = {replica.name: replica for replica in (tick.truth.replicas if tick.truth else ())}
        known = [truths[node.name] for node in tick.nodes if node.name in truths]
        rows = [
            [(replica.name, runs) for replica in known if (runs := replica_runs(replica, queued=queued))]
            for queued in (True, False)
        ]
        lines: list[Line] = []
        for row in rows:
            line: list[Run] = []
            for name, runs in row:
                line += [("  " if line else " ", "text"), (f"{name} ", "muted"), *runs]
            lines.append(line)
        return next((line for line in lines if width_of(line) <= width), lines[-1])


def _source(node: NodeView) -> list[Run]:
    """Name, role, server and port."""
    runs = _named(node)
    if node.reachable:
        port = f" :{node.published_port}" if node.published_port and node.machine is None else ""
        runs.append((f" {_server(node)}{port}", "title b"))
    return runs


def _replica(node: NodeView, source: NodeView) -> list[Run]:
    """Name and role; its server where that is another one than the source's."""
    runs = _named(node)
    if node.reachable and _server(node) != _server(source):
        runs.append((f" {_server(node)}", "title b"))
    return runs


def _named(node: NodeView) -> list[Run]:
    if node.transfer is not None:
        return [(f"{node.name} ", "title b"), (node.transfer.brief, "warn b")]
    if not node.reachable:
        return [(node.name, "muted"), (" ✖ down", "bad b")]
    if node.diverged is not None:
        return [(f"{node.name} ", "title b"), ("✖ diverged", "bad b")]
    if node.name.startswith(node.role):
        return [(node.name, "muted")]
    if node.member is not None and not node.member.is_ready:
        return [(f"{node.name} ", "title b"), (node.member.state, "warn b")]
    return [(f"{node.name} ", "title b"), (node.role, "muted")]


def _server(node: NodeView) -> str:
    flavor = f"{node.flavor} " if node.flavor not in (None, "mysql") else ""
    return f"{flavor}{(node.version or '').partition('-')[0]}"


def _begins(replica: NodeView, source: NodeView) -> str | None:
    """The node where a replica's stream begins; None of one that has none."""
    return None if replica.role == Role.DETACHED else replica.follows or source.name


def _arrow(
    replica: NodeView, begins: str | None, source: NodeView, links: Mapping[str, LinkView]
) -> list[Run]:
    """The stream: whole, connecting, or broken, by symbol and not by colour alone."""
    if begins is None:
        return [("     ", "text")]
    if replica.member is not None:
        return _between_members(replica, links.get(replica.name))
    link = links.get(replica.name if begins == source.name else link_between(begins, replica.name))
    if not replica.reachable or replica.io_thread == "error" or replica.sql_thread == "error":
        return [(" ╌✖╌ ", "bad b")]
    if link is not None and link.partition not in (None, NO_PARTITION):
        return [(" ╌✖╌ ", "fault b")]
    if replica.io_thread == "connecting" or (link is not None and (link.fault or link.healing)):
        return [(" ╌╌▸ ", "warn b")]
    if replica.io_thread == "off" or replica.sql_thread == "off":
        return [(" ╌‖╌ ", "warn b")]
    return [(" ──▸ ", "good")]


def _between_members(member: NodeView, link: LinkView | None) -> list[Run]:
    """Members send to each other: both ways, on the way in, or cut off."""
    told = member.member
    if link is not None and link.partition not in (None, NO_PARTITION):
        return [(" ╌✖╌ ", "fault b")]
    if told is None or told.belongs in (Belonging.OUTSIDE, Belonging.CUT_OFF):
        return [(" ╌✖╌ ", "bad b")]
    if told.belongs is Belonging.JOINING:
        return [(" ╌╌▸ ", "warn b")]
    return [(" ◂─▸ ", "good")]
