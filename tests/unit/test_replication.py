"""What is not as it should be on the replicas, and which of it is worth an event."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replexplorer.core.event import Severity
from replexplorer.core.server.node_view import (
    LATE_S,
    SETTLED_S,
    NodeView,
    ThreadError,
    ThreadWatch,
    Trouble,
    healthy,
    troubles,
)
from replexplorer.core.server.truth import ReplicaTruth, ServerTruth
from replexplorer.core.tick import Tick
from replexplorer.core.topology import Role
from tests.fakes.facade import make_tick


def with_replica(io: str | None = "on", sql: str | None = "on", **changes: object) -> Tick:
    tick = make_tick(1.0, replicas=2)
    nodes = [
        replace(node, io_thread=io, sql_thread=sql, **changes) if node.name == "db2" else node  # type: ignore[arg-type]
        for node in tick.nodes
    ]
    return replace(tick, nodes=tuple(nodes))


@pytest.mark.parametrize(
    ("tick", "found"),
    [
        (with_replica(), None),
        (with_replica(None, None), None),
        (with_replica("off"), Trouble("db2", ("IO thread stopped",), can_be_repaired=True)),
        (with_replica("on", "off"), Trouble("db2", ("SQL thread stopped",), can_be_repaired=True)),
        (with_replica("off", "off"), Trouble("db2", ("both threads stopped",), can_be_repaired=True)),
        (with_replica("off", "off", role=Role.DETACHED), Trouble("db2", ("detached",))),
        (with_replica("connecting"), Trouble("db2", ("IO thread connecting",))),
        (
            with_replica("on", "error", sql_error=ThreadError(1062, "1062 Duplicate entry")),
            Trouble("db2", ("SQL thread error",), is_failure=True, why="1062 Duplicate entry"),
        ),
        (
            with_replica("off", "off", reachable=False),
            Trouble("db2", ("down",), is_failure=True, can_be_repaired=True),
        ),
        (
            with_replica(diverged="has 3 transactions that db1 lost"),
            Trouble(
                "db2",
                ("diverged",),
                is_failure=True,
                why="it has 3 transactions that db1 lost: `rejoin db2 --copy`",
            ),
        ),
        (with_replica(lag_s=12.0), Trouble("db2", ("12 s behind",))),
        (with_replica(lag_s=2.0), None),
        (
            with_replica("on", "off", lag_s=12.0),
            Trouble("db2", ("SQL thread stopped", "12 s behind"), can_be_repaired=True),
        ),
    ],
)
def test_a_replica_has_the_trouble_that_threads_and_lag_say(tick: Tick, found: Trouble | None) -> None:
    assert troubles(tick.nodes, tick.truth) == (() if found is None else (found,))
    assert healthy(tick.nodes) is not (found is not None and found.can_be_repaired)


def test_the_lag_is_the_servers_exact_one_where_it_is_known() -> None:
    truth = ServerTruth(5.0, replicas=(ReplicaTruth("db2", 4400.0),))
    [found] = troubles(with_replica(lag_s=1.0).nodes, truth)
    assert found.words == ("4 s behind",)


def test_a_lag_that_was_told_stays_until_it_has_settled() -> None:
    tick = with_replica(lag_s=2.0)
    assert troubles(tick.nodes, tick.truth, LATE_S) == ()
    assert troubles(tick.nodes, tick.truth, SETTLED_S) != ()


def node(io: str, sql: str = "on", fault: str | None = None) -> NodeView:
    return NodeView(
        "db2",
        "replica",
        True,
        io_thread=io,
        sql_thread=sql,
        io_error=ThreadError(1, fault) if fault else None,
    )


def test_a_thread_that_stops_and_runs_again_is_told_once_each() -> None:
    watch = ThreadWatch()
    looks = [*[node("on")] * 2, *[node("on", "off")] * 3, *[node("on")] * 2]
    told = [watch.seen(look) for look in looks]
    assert [one for one in told if one] == [
        (Severity.WARN, "db2: SQL thread stopped"),
        (Severity.GOOD, "db2: both threads run again"),
    ]


def test_what_is_seen_for_a_moment_is_not_told() -> None:
    watch = ThreadWatch()
    looks = [node(io) for io in ("on", "off", "connecting", "on", "connecting", "on", "on")]
    assert [watch.seen(look) for look in looks] == [None] * 7


def test_an_error_is_told_with_the_servers_words() -> None:
    watch = ThreadWatch()
    assert watch.seen(node("on", "error", "Duplicate entry")) is None
    assert watch.seen(node("on", "error", "Duplicate entry")) == (
        Severity.BAD, "db2: SQL thread error: Duplicate entry"
    )  # fmt: skip


def test_a_server_that_went_away_says_nothing_of_its_threads() -> None:
    watch = ThreadWatch()
    gone = replace(node("off", "off"), reachable=False)
    looks = [node("on"), node("on"), gone, gone, node("on"), node("on")]
    assert [watch.seen(look) for look in looks] == [None] * 6
