"""What is not as it should be on the replicas, and which of it is worth an event."""

from __future__ import annotations

import math
from dataclasses import replace

from replexplorer.core.event import Severity
from replexplorer.core.server.node_view import (
    LATE_S,
    SETTLED_S,
    NodeView,
    ThreadError,
    ThreadWatch,
    diverged_words,
    healthy,
    troubles,
    wholeness,
)
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.server.truth import ReplicaTruth, ServerTruth
from replexplorer.core.tick import Tick
from replexplorer.core.topology import Role
from tests.ticks import make_tick
from tests.typed import fields, table_of


def with_replica(changes: str = "") -> Tick:
    """`io_thread='off' lag_s=12.0`: two replicas, of which db2 is so."""
    known = {"io_thread": "on", "sql_thread": "on", **fields(changes)}
    if known["sql_thread"] == "error":
        known["sql_error"] = ThreadError(1062, "Duplicate entry")
    if not known.get("reachable", True):
        known["why_down"] = "mysqld of db2 has ended"
    if "role" in known:
        known["role"] = Role(known["role"])
    if known.get("diverged"):
        known["diverged"] = diverged_words("has 3 transactions that db1 lost", "db2", "s")
    tick = make_tick(1.0, replicas=2)
    nodes = [replace(node, **known) if node.name == "db2" else node for node in tick.nodes]
    return replace(tick, nodes=tuple(nodes))


LOOKS = """\

io_thread=None sql_thread=None
io_thread="off"
sql_thread="off"
io_thread="off" sql_thread="off"
io_thread="connecting"
io_thread="off" sql_thread="off" reachable=False
lag_s=12.0
lag_s=2.0
sql_thread="off" lag_s=12.0
io_thread="off" sql_thread="off" role="detached"
sql_thread="error"
diverged=True
"""


def test_a_replica_has_the_trouble_that_threads_and_lag_say(snapshot: object) -> None:
    """And one that can be repaired is not healthy."""
    told = {}
    for line in LOOKS.splitlines():
        tick = with_replica(line)
        told[line] = found = troubles(tick.nodes, tick.truth)
        assert healthy(tick.nodes) is not any(each.can_be_repaired for each in found), line
    assert told == snapshot


SOUND = Protection(ProtectionState.PROTECTED, requested=True)
SEEN = """\
whole                                |                    |
no lag is too much                   | lag_s=900.0        | state="off" requested=False
within the lag                       | lag_s=9.0          | most_lag_s=10.0
armed by those that suffice          |                   | state="armed" replicas_required=1 replicas_acking=1
beyond the lag                       | lag_s=12.0         | most_lag_s=10.0
threads                              | io_thread="connecting" sql_thread="error" |
down | io_thread="off" sql_thread="off" reachable=False | most_lag_s=1.0
detached                             | io_thread="off" sql_thread="off" role="detached" |
joining                              | io_thread=None sql_thread=None role="joining" |
diverged                             | diverged=True lag_s=None | most_lag_s=1.0
errant                               | errant_gtids="u:7-9" |
off though requested                 |                    | state="off" replicas_required=1
armed by fewer                       |                   | state="armed" replicas_required=1 replicas_acking=0
cut links                            |                    | no_ack_can_come=True timeout_ms=10_000
blocked                              |                    | state="blocked"
"""
"""Of db2, of the protection and the lag that is too much what is so, with a db3 that is all right."""


def test_whether_replication_is_whole(snapshot: object) -> None:
    told = {}
    for case, of_db2, of_all in table_of(SEEN):
        changed = fields(of_all)
        most_lag_s = changed.pop("most_lag_s", math.inf)
        changed["state"] = ProtectionState(changed.get("state", SOUND.state))
        nodes = [
            replace(node, lag_s=0.5) if node.name == "db3" else node for node in with_replica(of_db2).nodes
        ]
        found = wholeness(nodes, replace(SOUND, **changed), most_lag_s)
        told[case] = found.words
        assert (bool(found.failed), found.unknown) == (found.words != "replication is whole", [])
    assert told == snapshot


def test_a_lag_that_is_not_known_is_neither_whole_nor_failed() -> None:
    nodes = [replace(node, lag_s=None) for node in with_replica("lag_s=None").nodes]
    found = wholeness(nodes, SOUND, 10.0)
    assert found.failed == []
    assert found.unknown == ["db2: its lag is not known", "db3: its lag is not known"]
    assert found.words.startswith("it is not known whether replication is whole: db2: its lag")
    assert wholeness(nodes, SOUND).words == "replication is whole"


def test_a_lag_that_was_told_stays_until_it_has_settled_and_is_the_servers_exact_one() -> None:
    tick = with_replica("lag_s=2.0")
    assert troubles(tick.nodes, tick.truth, LATE_S) == ()
    assert troubles(tick.nodes, tick.truth, SETTLED_S) != ()
    [found] = troubles(tick.nodes, ServerTruth(5.0, replicas=(ReplicaTruth("db2", 4400.0),)))
    assert found.words == ("4 s behind",)


def node(io: str, sql: str = "on", fault: str | None = None) -> NodeView:
    error = ThreadError(1, fault) if fault else None
    return NodeView("db2", "replica", True, io_thread=io, sql_thread=sql, io_error=error)


FINE, STOPPED, FAILED = node("on"), node("on", "off"), node("on", "error", "Duplicate entry")
GONE = replace(node("off", "off"), reachable=False)


def told(*looks: NodeView) -> dict[int, tuple[Severity, str]]:
    """What is said at which look."""
    watch = ThreadWatch()
    return {at: one for at, look in enumerate(looks) if (one := watch.seen(look))}


def test_threads_are_told_of_when_two_looks_agree(snapshot: object) -> None:
    for_a_moment = ["on", "off", "connecting", "on", "connecting", "on", "on"]
    looks = (
        (FINE, FINE, STOPPED, STOPPED, STOPPED, FINE, FINE),
        map(node, for_a_moment),
        (FAILED, FAILED),
        (FINE, FINE, GONE, GONE, FINE, FINE),
    )
    assert [told(*each) for each in looks] == snapshot
