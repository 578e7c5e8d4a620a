"""Whether a fault still has its effect: somebody may have mended by hand what was broken on purpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from replexplorer.core.fault import Fault, takes_down
from replexplorer.core.server.disk_view import DiskView
from replexplorer.core.server.node_view import NodeView

SHOWS_WITHIN_S: Final = 5.0
"""How long a fault may be recorded before its node shows it."""


def has_effect(fault: Fault, nodes: Sequence[NodeView], disks: Sequence[DiskView]) -> bool | None:
    """Whether what was last seen of the fault's node shows it; None where nothing that is looked at would."""
    node = next((each for each in nodes if each.name == fault.node), None)
    if node is None:
        return None
    if takes_down(fault):
        return not node.reachable
    match fault.kind:
        case "applier_stop":
            return None if node.sql_thread is None else node.sql_thread != "on"
        case "receiver_stop":
            return None if node.io_thread is None else node.io_thread == "off"
        case "disk_stall":
            disk = next((each for each in disks if each.node == fault.node), None)
            return None if disk is None or disk.stall_ms is None else disk.stall_ms > 0
        case _:
            return None


def is_over(fault: Fault, node: NodeView, uptime_s: float | None, now_s: float) -> bool:
    """Whether a node was seen to have nothing left of it, whoever ended it: its server runs again, its thread
    does. `uptime_s`: for how long its server has run; `now_s`: seconds since 1970 at that look.

    False for what a node does not show: cut links, a slow or full disk."""
    age_s = now_s - fault.since_wall_s
    if not node.reachable or age_s < SHOWS_WITHIN_S:
        return False
    match fault.kind:
        case "kill" | "stop":
            return uptime_s is not None and uptime_s < age_s
        case "pause":
            return True
        case "applier_stop":
            return node.sql_thread == "on" or node.is_source
        case "receiver_stop":
            return node.io_thread == "on" or node.is_source
    return False
