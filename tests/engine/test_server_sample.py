"""Looking closer, and our heartbeats, against model servers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace
from math import inf
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from replexplorer.core.dialect.question import Question, Row
from replexplorer.core.errors import ServerRefused, ServerUnreachable
from replexplorer.core.knobs.names import Value
from replexplorer.core.load.interval import Interval
from replexplorer.core.server.anatomy import Part
from replexplorer.core.server.counters import CommitSample, ServerStatus, Source, Total
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.tick import Tick
from replexplorer.engine.observe.samples import NodeSample, TimeoutLook
from replexplorer.engine.observe.window import SampleWindow
from replexplorer.engine.session import Session
from replexplorer.ports import Ability, Sql, ask, ask_if_known
from tests.fakes.load import interval_of
from tests.fakes.server import ASKED
from tests.fakes.world import World
from tests.known import known
from tests.turning import turn
from tests.typed import fields, values_of
from tests.waiting import load_runs, until_tick


def lag_ms(tick: Tick) -> float | None:
    return tick.truth.replicas[0].lag_ms if tick.truth and tick.truth.replicas else None


async def test_a_tick_carries_the_anatomy_of_what_came_since_the_last_change(
    world: World, tui: Session
) -> None:
    tick = await until_tick(tui, lambda tick: tick.anatomy)
    assert known(tick.anatomy).parts.keys() == {Part.OTHER}, "a server without these tables"
    assert not world.primary.beats, "they were not asked for"
    await turn(tui, "rtt=20")
    assert (await anext(tui.ticks())).anatomy is None


@pytest.mark.parametrize("statements", range(8))
async def test_a_timeout_amid_a_look_never_shows_a_protected_source(
    world: World, tui: Session, statements: int
) -> None:
    """Whichever statement of a look the timeout comes before, blocked gives way to degraded."""
    await turn(tui, "semi_sync=on clients=8")
    await until_tick(tui, lambda tick: tick.protection.state == "protected")
    await turn(tui, "partition=both")
    await until_tick(tui, lambda tick: (tick.protection.oldest_wait_s or 0) > 5)
    world.primary.time_out_before(statements)
    tick = await until_tick(tui, lambda tick: tick.protection.state != "blocked")
    assert tick.protection.state == "degraded"
    tick = await until_tick(tui, lambda later: later.at_s > tick.at_s + 2)
    assert tick.protection.fallbacks == 1, "else no later look counts it"


async def test_a_replica_that_lags_says_so_with_the_age_of_what_it_has_not_applied(
    world: World, tui: Session
) -> None:
    await until_tick(tui, lambda tick: lag_ms(tick) == 0)
    world.replica.applied = {"queued": "uuid-0:5-9", "missing": "uuid-0:5-9", "applying_us": 2_500_000}
    tick = await until_tick(tui, lambda tick: lag_ms(tick) == 2500)
    assert known(tick.truth).replicas[0].queued == 5
    world.crash("db2")
    tick = await until_tick(tui, lambda tick: lag_ms(tick) is None)
    assert known(tick.truth).replicas[0].queued is None


async def test_a_heartbeat_a_second_while_our_load_runs_one_at_a_time(world: World) -> None:
    world.primary.has_heartbeat_table = False  # as in a stack that an earlier version made
    async with world.started(heartbeat=True) as session:
        await until_tick(session, load_runs)
        await asyncio.sleep(10)
        assert 9 <= world.primary.beats <= 12
        await session.console.toggle_load()
        await asyncio.sleep(1)
        before = world.primary.commits
        await asyncio.sleep(10)
        assert world.primary.commits == before
        await session.console.toggle_load()
        await turn(session, "semi_sync=on semi_sync_timeout=60s")
        world.primary.acknowledges = False
        await asyncio.sleep(10)
        assert len(world.primary.waits) == 1
        assert session.monitor.failed is None


# Timeouts of semi-sync by a server's log: somebody's SET is none


TIMED_OUT = """\
26 [Warning] Timeout waiting for reply of binlog (file: binlog.000001, pos: 483), semi-sync up to file
26 [Note] Semi-sync replication switched OFF.
""".splitlines()


LOOKS = """\
"never"   None      0 0    0 0
"by-hand" "never"   1 1    0 0
"early"   "by-hand" 2 2    0 0
"late"    "early"   2 2.5  1 1
"another" "late"    3 60   0 1
"restart" "late"    1 61   0 0
"unknown" None      None 0 0 None
"""
"""A look, the one before it, how often it went off by then, when, how many timeouts are logged, and counted:
later the log is longer than what is read of it."""


async def test_of_all_times_that_it_went_off_only_timeouts_count(session: Session, world: World) -> None:
    look, view = TimeoutLook(session.fleet), session.state.samples["db1"].view
    seen: dict[str, NodeSample] = {}
    for name, before, no_times, at_s, logged, expected in values_of(LOOKS):
        world.logs["db1"] = TIMED_OUT * logged
        earlier = seen.get(before)
        is_known = earlier is not None and earlier.status.no_times == no_times
        now = NodeSample(at_s, view, ServerStatus(no_times=no_times))
        now = replace(now, logged_timeouts=earlier.logged_timeouts if earlier and is_known else None)
        seen[name] = replace(now, logged_timeouts=await look.look("db1", now, earlier))
        assert seen[name].logged_timeouts == expected, name
    session.outside.provider.abilities -= {Ability.STOP_SERVERS}
    assert await look.look("db1", NodeSample(70, view, ServerStatus(no_times=4)), seen["late"]) is None


# Looks at who waits for what


async def test_locks_are_asked_for_only_while_sessions_wait_on_a_connection_of_its_own(
    world: World, session: Session
) -> None:
    server = world.primary
    waiting = fields("id=1 command='Query' statement='COMMIT' age_s=0.5 event=None trx=None")
    lock = fields("kind='row' waiter=1 blocker=2 tab='s.t' idx='k' locked='7' mode='X' waited_s=2")
    server.answers = {
        ASKED.consumers.statement: [],
        ASKED.sessions.statement: [waiting | {"state": "Waiting for semi-sync ACK from replica"}],
    }
    async with aclosing(session.waits()) as looks:
        found = await anext(looks)  # a question for locks would fail it: the model does not know it
        assert (found.node, found.sessions, found.statements) == ("db1", 1, None)
        assert found.unseen == ("the performance schema is off: no statements, no stages of a commit",)
        server.answers |= {
            ASKED.sessions.statement: [waiting | {"state": "updating", "trx": "LOCK WAIT"}],
            ASKED.row_locks.statement: [lock],
        }
        assert [(lock.waiter, lock.blocker) for lock in (await anext(looks)).locks] == [(1, 2)]
        connections = len(server.sessions)
    assert len(server.sessions) == connections - 1


# The last seconds together: which are taken, and what ends a stretch

VALUES: dict[str, Value] = {"wait_point": "after_sync", "innodb_flush_log_at_trx_commit": 1}
COMMIT_MS = fields(
    "REDO_FSYNC=3 BINLOG_WRITE=0 BINLOG_FSYNC=5 COMMIT_STAGE=9 FLUSH_LOCK=0 STATEMENT=9.5 IDLE=0.4"
)
"""What a commit takes, 10 ms in all, by what the server counts."""


def sample(at_s: float, *, tps: float = 100, uuid: str = "u", booted_s: float = -1000) -> NodeSample:
    """A primary that has committed at this pace since it booted."""
    commits = round((at_s - booted_s) * tps)
    totals = {Source[name]: Total(commits, ms * commits) for name, ms in COMMIT_MS.items()}
    status = ServerStatus(uptime_s=int(at_s - booted_s), binlog_cache_use=commits)
    view = NodeView("db1", "primary", reachable=True, is_source=True, server_uuid=uuid)
    return NodeSample(at_s, view, status, VALUES, commits=CommitSample(at_s + 0.01, totals))


def samples(from_s: float, to_s: float, **more: Any) -> list[NodeSample]:
    return [sample(half / 2, **more) for half in range(int(2 * from_s), int(2 * to_s) + 1)]


def interval(start_s: float, *, tps: float = 100, **more: Any) -> Interval:
    """What its clients did in half a second."""
    commits = round(tps / 2)
    return replace(interval_of(start_s, [10_000] * commits, writes=commits), **more)


def intervals(from_s: float, to_s: float, **more: Any) -> list[Interval]:
    """They cut time at other moments."""
    return [interval(0.2 + half / 2, **more) for half in range(int(2 * from_s), int(2 * to_s))]


def said(looks: Iterable[NodeSample], load: Iterable[Interval], since_s: float = 0.0) -> str:
    """Of how many seconds and commits the mean commit is taken apart, and the server's truth is told, when
    something changed then."""
    seen = SampleWindow()
    seen.add_intervals(load)
    for look in looks:
        seen.add_sample(look)
    pair, truth = seen.stretch(since_s), seen.truth(since_s)
    anatomy = None if pair is None else pair.anatomy()
    told = (
        [f"anatomy {anatomy.duration_s:.2f} s {anatomy.commits} x {anatomy.mean_ms:g} ms"] if anatomy else []
    )
    if truth is not None:
        checks = [f"{check.name} {check.holds}" for check in truth.checks]
        told += [f"truth {truth.duration_s:g} s {truth.commits} in groups of {truth.group_size}", *checks]
    return ", ".join(told)


def test_which_seconds_are_taken_and_what_ends_a_stretch(snapshot: object) -> None:
    all_s, of_load = samples(0, 20), intervals(0, 20)
    away = NodeSample(20.5, NodeView("db1", "primary", reachable=False, is_source=True))
    leaves = replace(interval(20.2), service=Histogram.of([3_000_000, 10_000]))
    prepared = [replace(each, state="preparing") if each.start_s < 17 else each for each in of_load]
    assert {
        "five seconds are merged": said(all_s, of_load),
        "too few for Little's law": said(samples(0, 10), intervals(0, 10)),
        "for want of commits it reaches further back": said(samples(0, 20, tps=2), intervals(0, 20, tps=2)),
        "but not for few": said(samples(0, 20, tps=6), intervals(0, 20, tps=6)),
        "not across a change": said(all_s, of_load, 17.3),
        "nothing right after one": said(all_s, of_load, 19.4),
        "nor while one is under way": said(all_s, of_load, inf),
        "a client that leaves finishes a commit of 3 s": said(
            samples(0, 22), [*of_load, leaves, *intervals(20.5, 22)], 20.0
        ),
        "what prepares the table is no commit": said(all_s, prepared),
        "the load stops right after a change": said([*all_s, sample(20.5)], of_load, 20.1),
        "and a while later": said(samples(0, 22.5), of_load, 20.1),
        "another server": said([*all_s, sample(20.5, uuid="v")], of_load),
        "it restarted": said([*all_s, sample(20.5, booted_s=20.0)], of_load),
        "it was away": said([*all_s, away, sample(21.0)], of_load),
        "no load": said(all_s, []),
        "it counts no waits": said([replace(each, commits=None) for each in all_s], of_load),
    } == snapshot


# Questions sent over a connection: what a server refuses is asked in another way, what is lost is not


async def test_what_is_refused_is_asked_the_other_way_and_what_is_lost_is_not() -> None:
    def count(found: Sequence[Row]) -> int:
        return int(found[0]["n"])

    def saying(*answers: object) -> Sql:
        return Mock(spec=Sql, node="db1", query=AsyncMock(side_effect=answers))

    question = Question("new", count, (1,), Question("old", count, (2,)))
    refused, lost = ServerRefused(1146, "no such table"), ServerUnreachable("the connection was lost")
    sql: Any = saying(refused, [{"n": 4}])
    assert await ask(sql, question) == 4
    assert [asked.args for asked in sql.query.await_args_list] == [("new", (1,)), ("old", (2,))]
    assert await ask_if_known(saying(refused, refused), question) is None
    with pytest.raises(ServerRefused):
        await ask(saying(refused, refused), question)
    with pytest.raises(ServerUnreachable):
        await ask_if_known(saying(lost, [{"n": 4}]), question)
