"""Whether a fault still has its effect, by what is seen of its node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replexplorer.core.fault import KINDS, Fault
from replexplorer.core.server.disk import DiskView, has_effect
from replexplorer.core.server.node_view import NodeView

WHOLE = NodeView("db2", "replica", True, io_thread="on", sql_thread="on")
DISK = DiskView("db2", 0.0, 0.0, stall_ms=0.0)


@pytest.mark.parametrize(
    ("kind", "seen"),
    [
        ("kill", replace(WHOLE, reachable=False)),
        ("stop", replace(WHOLE, reachable=False)),
        ("pause", replace(WHOLE, reachable=False)),
        ("power_cut", replace(WHOLE, reachable=False)),
        ("applier_stop", replace(WHOLE, sql_thread="off")),
        ("receiver_stop", replace(WHOLE, io_thread="off")),
        ("disk_stall", DiskView("db2", 0.0, 0.0, stall_ms=200.0)),
    ],
)
def test_the_effect_is_seen_and_seen_to_be_over(kind: str, seen: NodeView | DiskView) -> None:
    fault = Fault(1, kind, None, "db2", 0.0, None, "me", {})
    node, disk = (seen, DISK) if isinstance(seen, NodeView) else (WHOLE, seen)
    assert has_effect(fault, [node], [disk]) is True
    assert has_effect(fault, [WHOLE], [DISK]) is False
    assert has_effect(fault, [], []) is None, "a node that nobody has looked at says nothing"


@pytest.mark.parametrize("kind", ["isolate", "partition", "disk_full"])
def test_what_no_look_shows_lasts_until_it_is_cleared(kind: str) -> None:
    assert kind in {each.key for each in KINDS}
    assert has_effect(Fault(1, kind, None, "db2", 0.0, None, "me", {}), [WHOLE], [DISK]) is None
