"""Whether a fault still has its effect: somebody may have mended by hand what was broken on purpose."""

from __future__ import annotations

from collections.abc import Sequence

from replexplorer.core.fault import Fault, takes_down
from replexplorer.core.server.disk_view import DiskView
from replexplorer.core.server.node_view import NodeView


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
