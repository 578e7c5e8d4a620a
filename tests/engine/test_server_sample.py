"""Looking closer, and our heartbeats, against model servers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import pytest

from replexplorer.core.dialect.flavours import IDENTITY
from replexplorer.core.dialect.mariadb import MariaDb
from replexplorer.core.dialect.mysql import MySql
from replexplorer.core.dialect.question import Question, Row
from replexplorer.core.errors import ServerRefused, ServerUnreachable
from replexplorer.core.knobs.names import Value
from replexplorer.core.load.interval import Interval
from replexplorer.core.server.anatomy import Anatomy, Part
from replexplorer.core.server.counters import CommitSample, Sent, ServerStatus, Source, Total
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.server.truth import ApplierSample, Behind
from replexplorer.core.server.waits import Wait
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.tick import Tick
from replexplorer.engine.observe.samples import NodeSample, TimeoutLook, probe
from replexplorer.engine.observe.window import SampleWindow
from replexplorer.engine.session import Session
from replexplorer.ports import Ability, ask, ask_if_known
from tests.fakes.load import interval_of
from tests.fakes.server import ASKED
from tests.fakes.servers import MARIADB, MYSQL_9, RANGES_9, mysql_9, rows
from tests.fakes.world import World
from tests.known import known
from tests.turning import turn
from tests.waiting import load_runs, until_tick

PS_PER_MS = 10**9


def counted(commits: int, event: str, ms: float, kind: str = "account") -> dict[str, object]:
    return {
        "kind": kind, "event": event, "times": commits, "ps": round(commits * ms * PS_PER_MS),
        "fsyncs": commits, "fsync_ps": round(commits * ms * PS_PER_MS),
    }  # fmt: skip


async def keep_counting(world: World) -> None:
    """The server's counters follow its commits: 0.25 ms of binlog fsync each."""
    while True:
        commits = world.primary.commits
        world.primary.commit_counters = [
            counted(commits, "wait/io/file/sql/binlog", 0.25, "file"),
            counted(commits, "statement/com/Execute", 0.75),
        ]
        await asyncio.sleep(0.1)


def lag_ms(tick: Tick) -> float | None:
    return tick.truth.replicas[0].lag_ms if tick.truth and tick.truth.replicas else None


async def test_a_tick_carries_the_anatomy_and_the_truth(world: World, tui: Session) -> None:
    tick = await until_tick(tui, lambda tick: tick.anatomy is not None)
    assert known(tick.anatomy).parts.keys() == {Part.OTHER}, "a server without these tables"
    assert not world.primary.beats, "nobody asked for them"
    counting = asyncio.create_task(keep_counting(world), name="server counters")
    tick = await until_tick(tui, lambda tick: bool(tick.anatomy and tick.anatomy.parts.get(Part.BINLOG)))
    assert known(tick.anatomy).parts.keys() == {Part.BINLOG, Part.OTHER}
    await turn(tui, "rtt=20")
    tick = await anext(tui.ticks())
    assert tick.anatomy is None, "a stretch reached across a change"
    counting.cancel()


@pytest.mark.parametrize("statements", range(8))
async def test_a_timeout_amid_a_look_never_shows_a_protected_source(
    world: World, tui: Session, statements: int
) -> None:
    """Whichever statement of a look the timeout comes before, blocked gives way to degraded."""
    await turn(tui, "semi_sync=on", "clients=8")
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
        before = world.primary.beats, world.primary.commits
        await asyncio.sleep(10)
        assert (world.primary.beats, world.primary.commits) == before
        await session.console.toggle_load()
        await until_tick(session, load_runs)
        await turn(session, "semi_sync=on", "semi_sync_timeout=60s")
        await asyncio.sleep(2)
        world.primary.acknowledges = False
        await asyncio.sleep(10)
        assert len(world.primary.waits) == 1
        assert session.monitor.failed is None


# Timeouts of semi-sync by a server's log: somebody's SET is none


TIMEOUT = (
    "26 [Warning] Timeout waiting for reply of binlog (file: binlog.000001, pos: 483), semi-sync up to file"
)
SWITCHED = "26 [Note] Semi-sync replication switched OFF."


async def test_of_all_times_that_it_went_off_only_timeouts_count(world: World, session: Session) -> None:
    look, view = TimeoutLook(session.fleet), session.state.samples["db1"].view

    async def counted(no_times: int | None, at_s: float, before: NodeSample | None = None) -> NodeSample:
        """A look at the counter, and at the log where it moved or nothing is known of it."""
        is_known = before is not None and before.status.no_times == no_times
        carried = before.logged_timeouts if before is not None and is_known else None
        now = NodeSample(at_s, view, ServerStatus(no_times=no_times), logged_timeouts=carried)
        return replace(now, logged_timeouts=await look.look("db1", now, before))

    assert (await counted(None, 0)).logged_timeouts is None
    never = await counted(0, 0)
    by_hand = await counted(1, 1, never)
    assert (never.logged_timeouts, by_hand.logged_timeouts) == (0, 0)
    early = await counted(2, 2, by_hand)
    world.logs["db1"] = [TIMEOUT, SWITCHED]
    late = await counted(2, 2.5, early)
    assert (early.logged_timeouts, late.logged_timeouts) == (0, 1)
    world.logs["db1"] = []  # longer by now than what is read of it
    assert (await counted(3, 60, late)).logged_timeouts == 1
    assert (await counted(1, 61, late)).logged_timeouts == 0
    session.outside.provider.abilities -= {Ability.STOP_SERVERS}
    assert (await counted(4, 70, late)).logged_timeouts is None


# Looks at who waits for what

ON = [{"name": name} for name in ("global_instrumentation", "statements_digest")]


def shown(number: int, state: str, trx: str | None = None) -> dict[str, object]:
    return {
        "id": number, "command": "Query", "state": state, "statement": f"UPDATE t{number}", "age_s": 0.5,
        "event": None, "trx": trx,
    }  # fmt: skip


def executed(times: int) -> list[dict[str, object]]:
    return [
        {"db": "s", "digest": "d", "text": "UPDATE `t`", "times": times, "ps": times * 10**9,
         "examined": times, "sent": 0, "affected": times}
    ]  # fmt: skip


async def test_locks_are_asked_for_only_while_sessions_wait_and_rates_are_differences(
    world: World, session: Session
) -> None:
    server, logins = world.primary, world.primary.logins
    server.answers |= {
        ASKED.consumers.statement: ON,
        ASKED.sessions.statement: [
            shown(1, "Waiting for semi-sync ACK from replica"),
            shown(2, "waiting for handler commit"),
        ],
        ASKED.statement_totals.statement: executed(100),
    }
    async with aclosing(session.waits()) as looks:
        first = await anext(looks)  # a question for locks would fail it: the model does not know it
        assert (first.node, first.sessions, first.statements) == ("db1", 2, None)
        assert {each.wait for each in first.groups} == {Wait.ACK, Wait.BEHIND_ACK}
        server.answers |= {
            ASKED.sessions.statement: [shown(3, "updating", "LOCK WAIT"), shown(4, "executing")],
            ASKED.row_locks.statement: [
                {"kind": "row", "waiter": 3, "blocker": 4, "tab": "s.t", "idx": "PRIMARY", "locked": "7",
                 "mode": "X", "waited_s": 2}
            ],
            ASKED.statement_totals.statement: executed(150),
        }  # fmt: skip
        second = await anext(looks)
        assert [(lock.waiter, lock.blocker, lock.blocker_statement) for lock in second.locks] == [
            (3, 4, "UPDATE t4")
        ]
        assert known(second.statements)[0].per_s == pytest.approx(50, rel=0.1)
        assert server.logins == logins + 1, "a connection of its own"
        connections = len(server.sessions)
    assert len(server.sessions) == connections - 1


async def test_without_consumers_statements_are_unknown_and_not_none_at_all(
    world: World, session: Session
) -> None:
    world.primary.answers |= {ASKED.consumers.statement: [], ASKED.sessions.statement: []}
    async with aclosing(session.waits()) as looks:
        found = [await anext(looks), await anext(looks)][1]
    assert (found.sessions, found.statements) == (None, None)
    assert found.unseen == ("the performance schema is off: no statements, no stages of a commit",)


# The last seconds side by side: which are taken, and what ends a stretch

TPS = 100
VALUES: dict[str, Value] = {"wait_point": "after_sync", "innodb_flush_log_at_trx_commit": 1}
BOOTED_S = -1000


def sample(at_s: float, *, tps: float = TPS, uuid: str = "u", booted_s: float = BOOTED_S) -> NodeSample:
    """A primary that has committed at this pace since it booted, 10 ms each, 8 of them fsyncs."""
    commits = round((at_s - booted_s) * tps)
    totals = {
        Source.REDO_FSYNC: Total(commits, 3.0 * commits),
        Source.BINLOG_WRITE: Total(commits, 0.0),
        Source.BINLOG_FSYNC: Total(commits, 5.0 * commits),
        Source.COMMIT_STAGE: Total(commits, 9.0 * commits),
        Source.FLUSH_LOCK: Total(commits, 0.0),
        Source.STATEMENT: Total(commits, 9.5 * commits),
        Source.IDLE: Total(commits, 0.4 * commits),
    }
    status = ServerStatus(uptime_s=int(at_s - booted_s), binlog_cache_use=commits)
    view = NodeView("db1", "primary", reachable=True, is_source=True, server_uuid=uuid)
    return NodeSample(at_s, view, status, VALUES, commits=CommitSample(at_s + 0.01, totals))


def interval(start_s: float, seconds: float = 0.5, *, tps: float = TPS) -> Interval:
    commits = round(tps * seconds)
    return interval_of(start_s, [10_000] * commits, seconds, writes=commits)


def lookback(seconds: float, *, tps: float = TPS) -> SampleWindow:
    """So many seconds of both, cut at different moments."""
    seen = SampleWindow()
    halves = int(2 * seconds)
    seen.add_intervals(interval(0.2 + at / 2, tps=tps) for at in range(halves))
    for at in range(halves + 1):
        seen.add_sample(sample(at / 2, tps=tps))
    return seen


def anatomy(seen: SampleWindow, since_s: float) -> Anatomy | None:
    found = seen.stretch(since_s)
    return found.anatomy() if found else None


def test_five_seconds_are_merged() -> None:
    found = known(anatomy(lookback(20), 0.0))
    assert found.duration_s == pytest.approx(5.0)
    assert found.mean_ms == pytest.approx(10.0)
    assert found.parts == pytest.approx(
        {
            Part.WIRE: 0.4, Part.EXECUTE: 0.5, Part.FSYNC_QUEUE: 0.0, Part.REDO: 3.0, Part.BINLOG: 5.0,
            Part.ENGINE: 1.0, Part.OTHER: 0.1,
        }
    )  # fmt: skip
    assert lookback(20).commit_ms == pytest.approx(9.0)


def test_for_want_of_commits_it_reaches_further_back_but_not_without_end() -> None:
    assert _seconds(lookback(20, tps=2)) == pytest.approx(10.0)
    assert _seconds(lookback(20, tps=6)) == pytest.approx(5.0)


def _seconds(seen: SampleWindow, since_s: float = 0.0) -> float:
    return known(anatomy(seen, since_s)).duration_s


def test_it_does_not_reach_across_a_change() -> None:
    seen = lookback(20)
    assert _seconds(seen, since_s=17.3) == pytest.approx(2.0)
    assert anatomy(seen, 19.4) is None
    assert anatomy(seen, float("inf")) is None
    truth = known(seen.truth(17.3))
    assert (truth.duration_s, truth.commits, truth.checks) == (2.0, 200, ())


def test_what_began_before_a_change_is_of_before_though_it_ended_after() -> None:
    """A client that leaves finishes a commit of 3 s."""
    seen = lookback(20)
    long = Histogram.of([3_000_000, 10_000])
    seen.add_intervals(
        [replace(interval(20.2), service=long), interval(20.7), interval(21.2), interval(21.7)]
    )
    for at in range(41, 45):
        seen.add_sample(sample(at / 2))
    assert _seconds(seen, since_s=20.0) == pytest.approx(1.0)
    assert known(anatomy(seen, 20.0)).mean_ms == pytest.approx(10.0)


def test_preparing_the_table_is_no_commits_time() -> None:
    """Its statements are the same account's."""
    seen = SampleWindow()
    seen.add_intervals(
        replace(interval(at / 2), state="preparing" if at < 34 else "running") for at in range(40)
    )
    for at in range(41):
        seen.add_sample(sample(at / 2))
    assert _seconds(seen) == pytest.approx(2.49)


def test_a_load_that_stopped_right_after_a_change_leaves_the_truth() -> None:
    seen = lookback(20)
    seen.add_sample(sample(20.5))
    assert seen.truth(20.1) is None
    for at in range(42, 46):
        seen.add_sample(sample(at / 2))
    assert known(seen.truth(20.1)).duration_s == 2.0
    assert anatomy(seen, 20.1) is None


AWAY = NodeSample(20.5, NodeView("db1", "primary", reachable=False, is_source=True))


@pytest.mark.parametrize(
    "anew", [(sample(20.5, uuid="v"),), (sample(20.5, booted_s=20.0),), (AWAY, sample(21.0))]
)
def test_a_server_that_restarted_or_was_away_begins_anew(anew: tuple[NodeSample, ...]) -> None:
    seen = lookback(20)
    for each in anew:
        seen.add_sample(each)
    assert anatomy(seen, 0.0) is None
    assert seen.truth(0.0) is None


@pytest.mark.parametrize(
    ("halves", "more", "commits", "group_size"), [(0, {}, 450, 1.0), (20, {"commits": None}, 400, None)]
)
def test_without_a_load_or_the_server_s_waits_there_is_truth_and_no_anatomy(
    halves: int, more: dict[str, Any], commits: int, group_size: float | None
) -> None:
    seen = SampleWindow()
    seen.add_intervals(interval(at / 2) for at in range(halves))
    for at in range(10):
        seen.add_sample(replace(sample(at / 2), **more))
    assert anatomy(seen, 0.0) is None
    truth = known(seen.truth(0.0))
    assert (truth.commits, truth.group_size, truth.binlog_fsyncs) == (commits, group_size, group_size)


def test_littles_law_is_checked_over_ten_seconds() -> None:
    assert known(lookback(10).truth(0.0)).checks == ()
    [law, *_] = known(lookback(15).truth(0.0)).checks
    assert (law.name, law.holds) == ("Little's law", True)


def test_replicas_and_what_is_sent_to_them() -> None:
    seen = lookback(10)
    for at in range(10):
        seen.add_applied("db2", ApplierSample(float(at), Behind("", ""), Sent("", 1, 1000 * at)))
    seen.add_applied("db3", None)
    first, second = known(seen.truth(0.0)).replicas
    assert (first.name, first.lag_ms, first.queued, first.shipped_bytes_per_s) == ("db2", 0.0, 0, 1000)
    assert (second.name, second.lag_ms, second.queued) == ("db3", None, None)


# Questions sent over a connection: what a server refuses, and which dialect it turns out to speak

REFUSED = ServerRefused(1146, "no such table")
LOST = ServerUnreachable("the connection was lost")


class Scripted:
    """A connection that answers each statement as it was told to, and keeps what it was sent."""

    node = "scripted"

    def __init__(self, answers: Mapping[str, Sequence[Row] | Exception]) -> None:
        self.answers = answers
        self.sent: list[tuple[str, tuple[Any, ...]]] = []

    async def query(
        self, statement: str, args: Sequence[Any] = (), *, deadline_s: float = 5.0
    ) -> Sequence[Row]:
        self.sent.append((statement, tuple(args)))
        answer = self.answers.get(statement, ())
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        """Nothing is open."""


def number(statement: str, *arguments: object, instead: Question[int] | None = None) -> Question[int]:
    return Question(statement, lambda found: int(found[0]["n"]), arguments, instead)


async def test_what_is_refused_is_asked_the_other_way() -> None:
    sql = Scripted({"new": REFUSED, "old": [{"n": 4}]})
    assert await ask(sql, number("new", 1, instead=number("old", 2))) == 4
    assert sql.sent == [("new", (1,)), ("old", (2,))]


async def test_the_last_refusal_counts() -> None:
    sql = Scripted({"new": REFUSED, "old": REFUSED})
    with pytest.raises(ServerRefused):
        await ask(sql, number("new", instead=number("old")))
    assert await ask_if_known(sql, number("new")) is None


async def test_a_lost_connection_is_no_refusal() -> None:
    sql = Scripted({"new": LOST, "old": [{"n": 4}]})
    for way in (ask, ask_if_known):
        with pytest.raises(ServerUnreachable):
            await way(sql, number("new", instead=number("old")))
    assert [statement for statement, _ in sql.sent] == ["new", "new"]


@pytest.mark.parametrize("ranges", [RANGES_9, REFUSED], ids=["with ranges", "refused"])
async def test_a_probed_server_speaks_its_dialect(ranges: Sequence[Row] | Exception) -> None:
    sql = Scripted({IDENTITY.statement: rows(MYSQL_9), MySql.ranges.statement: ranges})
    dialect = await probe(sql)
    known = not isinstance(ranges, Exception)
    assert dialect == (mysql_9() if known else MySql.of(MYSQL_9, {}))
    assert ("sync_binlog" in dialect.capabilities.ranges) is known


async def test_mariadb_speaks_its_own_dialect() -> None:
    assert await probe(Scripted({IDENTITY.statement: rows(MARIADB)})) == MariaDb.of(MARIADB, {})
