"""What a node that joins is asked for: what the others share, and nothing else."""

from __future__ import annotations

import pytest

from replexplorer.core.knobs.names import Backing, KnobName, Value, expand, find, for_joined, parse_name
from replexplorer.core.link import without
from replexplorer.core.topology import SOURCE, Roster, ends_of

GROUP = Roster(("db1", "db2", "db3", "db4"), "db1", mesh=True)
"""A group of three that has become one of four."""
REPLICAS = Roster(("db1", "db2", "db3", "db4"), "db1")


def nodes_of(name: KnobName, roster: Roster) -> tuple[str, ...]:
    """Where a knob is carried out."""
    if name.knob.backing is Backing.LINK:
        return ends_of(roster.link(name.node))
    return (roster.source if name.node == SOURCE else name.node,)


@pytest.mark.parametrize(
    ("roster", "wanted", "joined"),
    [
        pytest.param(
            GROUP,
            {"rtt@db2": 20, "rtt@db3": 20, "rtt@db2:db3": 20},
            {"rtt@db4": 20, "rtt@db2:db4": 20, "rtt@db3:db4": 20},
            id="all links of a group have one value, and so have the new ones",
        ),
        pytest.param(
            GROUP,
            {"rtt@db2": 20, "rtt@db3": 20, "rtt@db2:db3": 80},
            {"rtt@db4": 20, "rtt@db2:db4": 20, "rtt@db3:db4": 20},
            id="one link is farther: that stays its own",
        ),
        pytest.param(
            GROUP,
            {"rtt@db2": 10, "rtt@db3": 20, "rtt@db2:db3": 80},
            {},
            id="every link has a value of its own: nobody's value",
        ),
        pytest.param(
            GROUP,
            {"partition@db2": "both", "partition@db3": "both", "partition@db2:db3": "both"},
            {},
            id="nobody joins behind a partition",
        ),
        pytest.param(
            GROUP,
            {"wsrep_sync_wait": 1, "wsrep_sync_wait@db2": 7, "wsrep_sync_wait@db3": 1},
            {"wsrep_sync_wait@db4": 1},
            id="one member has a setting of its own",
        ),
        pytest.param(
            Roster(("db1", "db2", "db4"), "db1"), {"rtt@db2": 85}, {"rtt@db4": 85}, id="the only replica's"
        ),
        pytest.param(REPLICAS, {"rtt@db2": 20, "rtt@db3": 85}, {}, id="one of two is no more than half"),
        pytest.param(GROUP, {"rtt@db2": 20, "rtt@db3": 20}, {}, id="one link was never asked for anything"),
        pytest.param(
            GROUP,
            {"wsrep_sync_wait": 1, "wsrep_sync_wait@db2": 1, "wsrep_sync_wait@db3": 1},
            {"wsrep_sync_wait@db4": 1},
            id="a setting of all members",
        ),
        pytest.param(
            REPLICAS,
            {"rtt@db2": 85.0, "rtt@db3": 85.0, "jitter@db2": 2.0, "sync_binlog": 0},
            {"rtt@db4": 85.0},
            id="replicas have links to the source alone, and the source's settings are its own",
        ),
        pytest.param(
            REPLICAS,
            {"rtt@db2": 85.0, "rtt@db3": 85.0, "rtt@db4": 1.0},
            {},
            id="what was asked of a node that had been there before stays",
        ),
    ],
)
def test_a_node_that_joins_takes_what_most_others_share(
    roster: Roster, wanted: dict[str, Value], joined: dict[str, Value]
) -> None:
    asked = {parse_name(name): value for name, value in wanted.items()}
    knobs = tuple(find(key) for key in ("rtt", "jitter", "partition", "wsrep_sync_wait", "sync_binlog"))
    names = expand(knobs, roster.others, roster.pairs if roster.mesh else ())
    found = for_joined(asked, names, ("db4",), lambda name: nodes_of(name, roster))
    assert {str(name): value for name, value in found.items()} == joined


def test_what_was_asked_of_nodes_that_are_gone_goes_with_them() -> None:
    written = {"rtt@db1:db2": 20, "rtt@db1:db4": 60, "rtt@db4:db5": 60, "sync_relay_log@db4": 1, "clients": 4}
    assert without(written, ("db4", "db5")) == {"rtt@db1:db2": 20, "clients": 4}
