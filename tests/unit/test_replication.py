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
    Wholeness,
    diverged_words,
    healthy,
    troubles,
    wholeness,
)
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.server.truth import ReplicaTruth, ServerTruth
from replexplorer.core.tick import Tick
from replexplorer.core.topology import Role
from tests.fakes.facade import make_tick
from tests.typed import fields

NOT_ALIKE = diverged_words("has 3 transactions that db1 lost", "db2", "s")


def with_replica(io: str | None = "on", sql: str | None = "on", **changes: object) -> Tick:
    tick = make_tick(1.0, replicas=2)
    nodes = [
        replace(node, io_thread=io, sql_thread=sql, **changes) if node.name == "db2" else node  # type: ignore[arg-type]
        for node in tick.nodes
    ]
    return replace(tick, nodes=tuple(nodes))


LOOKS = """\

io=None sql=None
io="off"
sql="off"
io="off" sql="off"
io="connecting"
io="off" sql="off" reachable=False
lag_s=12.0
lag_s=2.0
sql="off" lag_s=12.0
"""


def test_a_replica_has_the_trouble_that_threads_and_lag_say(snapshot: object) -> None:
    ticks = [
        *(with_replica(**fields(line)) for line in LOOKS.splitlines()),
        with_replica("off", "off", role=Role.DETACHED),
        with_replica("on", "error", sql_error=ThreadError(1062, "1062 Duplicate entry")),
        with_replica(diverged=NOT_ALIKE),
    ]
    found = [troubles(tick.nodes, tick.truth) for tick in ticks]
    assert found == snapshot
    can_be_repaired = [any(each.can_be_repaired for each in row) for row in found]
    assert [not healthy(tick.nodes) for tick in ticks] == can_be_repaired


SOUND = Protection(ProtectionState.PROTECTED, requested=True)
ARMED = replace(SOUND, state=ProtectionState.ARMED, replicas_required=1)
DUPLICATE = ThreadError(1062, "Duplicate entry")
OFF = Protection(ProtectionState.OFF, requested=False)


def seen(
    *threads: str | None, protection: Protection = SOUND, most_lag_s: float = math.inf, **changes: object
) -> Wholeness:
    """What is judged of such a db2 beside a db3 that is all right; the lag that is too much is given."""
    nodes = with_replica(*threads, **changes).nodes  # type: ignore[arg-type]
    alike = [replace(node, lag_s=0.5) if node.name == "db3" else node for node in nodes]
    return wholeness(alike, protection, most_lag_s)


SEEN = {
    "whole": seen(),
    "no lag is too much": seen(lag_s=900.0, protection=OFF),
    "within the lag": seen(lag_s=9.0, most_lag_s=10.0),
    "armed by those that suffice": seen(protection=replace(ARMED, replicas_acking=1)),
    "beyond the lag": seen(lag_s=12.0, most_lag_s=10.0),
    "threads": seen("connecting", "error", sql_error=DUPLICATE),
    "down": seen("off", "off", reachable=False, why_down="mysqld of db2 has ended", most_lag_s=1.0),
    "detached": seen("off", "off", role=Role.DETACHED),
    "joining": seen(None, None, role=Role.JOINING),
    "diverged": seen(diverged=NOT_ALIKE, lag_s=None, most_lag_s=1.0),
    "errant": seen(errant_gtids="u:7-9"),
    "off though requested": seen(protection=replace(OFF, requested=True, replicas_required=1)),
    "armed by fewer": seen(protection=replace(ARMED, replicas_acking=0)),
    "cut links": seen(protection=replace(SOUND, no_ack_can_come=True, timeout_ms=10_000)),
    "blocked": seen(protection=replace(SOUND, state=ProtectionState.BLOCKED)),
}


def test_whether_replication_is_whole(snapshot: object) -> None:
    assert {case: found.words for case, found in SEEN.items()} == snapshot
    for found in SEEN.values():
        assert (bool(found.failed), found.unknown) == (found.words != "replication is whole", [])


def test_a_lag_that_is_not_known_is_neither_whole_nor_failed() -> None:
    nodes = [replace(node, lag_s=None) for node in with_replica(lag_s=None).nodes]
    found = wholeness(nodes, SOUND, 10.0)
    assert found.failed == []
    assert found.unknown == ["db2: its lag is not known", "db3: its lag is not known"]
    assert found.words.startswith("it is not known whether replication is whole: db2: its lag")
    assert wholeness(nodes, SOUND).words == "replication is whole"


def test_a_lag_that_was_told_stays_until_it_has_settled_and_is_the_servers_exact_one() -> None:
    tick = with_replica(lag_s=2.0)
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
