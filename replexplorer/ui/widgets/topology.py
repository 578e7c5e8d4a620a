"""The servers and what connects them: `db1 primary 9.7.4 :33061 ──▸ db2 replica`.

Law: an arrow is a stream that was seen. A replica that follows another node than the source has its arrow
from that one, and a node that follows no source has none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from replexplorer.core.link import NO_PARTITION, LinkView
from replexplorer.core.server.node_view import NodeView, conflicts_of
from replexplorer.core.system import System, system_of
from replexplorer.core.tick import Tick
from replexplorer.core.topology import Belonging, Role, link_between
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words.runs import Line, Run, apart, fit, pair, width_of
from replexplorer.ui.words.states import lag_runs

_MUCH: Final = 1000
"""Transactions: a queue that takes seconds."""


def group_line(system: System, nodes: Sequence[NodeView], width: int) -> Line:
    """` conflicts 3  queued db2 12  flow control held 0.4 s`: as much as there is room for, the rarest
    last."""
    members = [(node.name, node.member) for node in nodes if node.member is not None]
    lost = conflicts_of(system, (member for _, member in members))
    queued = [
        pair(name, f"{count:,}", "warn b" if count > _MUCH else "text")
        for name, member in members
        if (member.queued, member.to_apply) != (None, None)
        for count in [(member.queued or 0) + (member.to_apply or 0)]
    ]
    held_ms = max((member.held_ms or 0.0 for _, member in members), default=0.0)
    conflicts, gave_way = (
        [] if count is None else pair(word, f"{count:,}", "warn b" if count else "text")
        for word, count in (("conflicts", lost.refused), ("gave way", lost.gave_way))
    )
    parts = (
        conflicts,
        apart([[("queued", "muted")], *queued]) if queued else [],
        gave_way,
        pair("flow control held", f"{held_ms / 1000:.1f} s", "warn b") if held_ms else [],
    )
    shorter = ([(" ", "text"), *apart(parts[:count], "  ")] for count in range(len(parts), 0, -1))
    return fit(shorter, width)


class Topology(Lines[Tick]):
    """The first row of the left column; one row more for each further replica."""

    GROUND = "panel"
    DEFAULT_CSS = "Topology { height: 2; }"

    def show(self, shown: Tick) -> None:
        """Paint this tick; takes a row for each replica and one below."""
        height = max(2, len(shown.nodes))
        self.take_rows(height)
        super().show(shown)

    def draw(self, shown: Tick, width: int, height: int) -> list[Line]:
        """The source and the first of the others in one row, further ones below each other."""
        if not shown.nodes:
            return []
        source = shown.source or shown.nodes[0]
        first = [(" ", "text"), *_named(source, with_server=True, with_port=True)]
        links = {link.replica: link for link in shown.links}
        rows: list[Line] = []
        for replica in shown.replicas:
            begins = None if replica.role == Role.DETACHED else replica.follows or source.name
            other = "" if begins in (None, source.name) else str(begins)
            start: list[Run] = [(f"{other:>{width_of(first)}}", "muted")]
            if not rows:
                start = [*first, (f"  {other}" if other else "", "muted")]
            is_other = _server(replica) != _server(source)
            arrow = _arrow(replica, begins, source, links)
            rows.append([*start, arrow, *_named(replica, with_server=is_other)])
        system = system_of(shown.system)
        below = group_line(system, shown.nodes, width) if system.is_group else _lags(shown, width)
        return [*(rows or [first]), below]


def _lags(tick: Tick, width: int) -> Line:
    """How far each replica is behind, in ms, where the servers say, with what is queued where there is room
    for it; else who is behind by seconds."""
    known = [applier for node in tick.nodes if (applier := tick.applier(node.name)) is not None]
    rows = [
        apart(
            [(f" {one.name} ", "muted"), *lag_runs(one.lag_ms, one.queued if with_queue else None)]
            for one in known
            if one.lag_ms is not None
        )
        for with_queue in (True, False)
    ]
    if rows[0]:
        return fit(rows, width)
    behind = [(node.name, node.lag_s) for node in tick.replicas if node.lag_s is not None and node.lag_s >= 1]
    names = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in behind)
    return [(f" behind: {names}", "warn b")] if names else []


def _named(node: NodeView, *, with_server: bool, with_port: bool = False) -> list[Run]:
    """Name, role or what is wrong, server and port."""
    if not node.reachable:
        return [(node.name, "muted"), (" ✖ down", "bad b")]
    port = f" :{node.published_port}" if with_port and node.published_port and node.machine is None else ""
    state: Run = (node.role, "muted")
    if node.diverged is not None:
        state = ("✖ diverged", "bad b")
    elif node.member is not None and not node.member.is_ready:
        state = (node.member.state, "warn b")
    elif node.name.startswith(node.role):
        state = ("", "muted")
    server = f" {_server(node)}{port}" if with_server and node.reachable else ""
    return [(node.name, "title b"), (" " if state[0] else "", "text"), state, (server, "title b")]


def _server(node: NodeView) -> str:
    flavor = f"{node.flavor} " if node.flavor not in (None, "mysql") else ""
    return f"{flavor}{(node.version or '').partition('-')[0]}"


_WHOLE: Final = (" ──▸ ", "good")
_OPENS: Final = (" ╌╌▸ ", "warn b")
_STOPPED: Final = (" ╌‖╌ ", "warn b")
_BROKEN: Final = (" ╌✖╌ ", "bad b")
_CUT: Final = (" ╌✖╌ ", "fault b")
_BOTH_WAYS: Final = (" ◂─▸ ", "good")


def _arrow(replica: NodeView, begins: str | None, source: NodeView, links: Mapping[str, LinkView]) -> Run:
    """The stream: whole, connecting, stopped or broken, by symbol and not by color alone; members of a group
    send to each other."""
    if begins is None:
        return ("     ", "text")
    member = replica.member
    direct = member is not None or begins == source.name
    link = links.get(replica.name if direct else link_between(begins, replica.name))
    threads = (replica.io_thread, replica.sql_thread)
    if member is None and (not replica.reachable or "error" in threads):
        return _BROKEN
    if link is not None and link.partition not in (None, NO_PARTITION):
        return _CUT
    if member is not None:
        if member.belongs in (Belonging.OUTSIDE, Belonging.CUT_OFF):
            return _BROKEN
        return _OPENS if member.belongs is Belonging.JOINING else _BOTH_WAYS
    if replica.io_thread == "connecting" or (link is not None and (link.fault or link.healing)):
        return _OPENS
    return _STOPPED if "off" in threads else _WHOLE
