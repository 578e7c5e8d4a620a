"""Whether a fault still has its effect, by what is seen of its node."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replexplorer.core.fault import KINDS, Fault
from replexplorer.core.server.disk import SHOWS_WITHIN_S, is_over
from replexplorer.core.server.node_view import NodeView

WHOLE = NodeView("db2", "replica", True, io_thread="on", sql_thread="on")
LATER_S = SHOWS_WITHIN_S + 1


@pytest.mark.parametrize(
    ("kind", "seen"),
    [
        ("kill", replace(WHOLE, reachable=False)),
        ("stop", replace(WHOLE, reachable=False)),
        ("pause", replace(WHOLE, reachable=False)),
        ("applier_stop", replace(WHOLE, sql_thread="off")),
        ("receiver_stop", replace(WHOLE, io_thread="off")),
    ],
)
def test_it_is_over_once_its_node_was_seen_whole_for_a_while(kind: str, seen: NodeView) -> None:
    fault = Fault(1, kind, None, "db2", 0.0, None, "me", {})
    assert not is_over(fault, seen, 1.0, LATER_S)
    assert not is_over(fault, WHOLE, 1.0, SHOWS_WITHIN_S - 1), "it may not be seen yet"
    assert is_over(fault, WHOLE, 1.0, LATER_S)


def test_a_server_that_has_run_since_before_was_not_killed() -> None:
    assert not is_over(Fault(1, "kill", None, "db2", 0.0, None, "me", {}), WHOLE, 99.0, LATER_S)


@pytest.mark.parametrize("kind", ["isolate", "partition", "disk_full", "disk_stall"])
def test_what_no_node_shows_lasts_until_it_is_cleared(kind: str) -> None:
    assert kind in {each.key for each in KINDS}
    assert not is_over(Fault(1, kind, None, "db2", 0.0, None, "me", {}), WHOLE, 1.0, LATER_S)
