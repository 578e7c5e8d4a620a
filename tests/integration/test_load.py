"""The load on a real primary: what it counts is what the server has."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

import docker
import pytest

from replexplorer.adapters.client_logs import FileClientLogs
from replexplorer.adapters.docker.provider import DockerProvider
from replexplorer.adapters.load import LoadGroup, LoadPlace, LocalProcess
from replexplorer.adapters.mysql import ControlConnection, connect_address
from replexplorer.core.errors import ReplexplorerError, ServerRefused, ServerUnreachable, UsageError
from replexplorer.core.load.interval import Interval
from replexplorer.core.load.workload import OTHER, READ, WORKLOADS, WRITE, statements_in
from replexplorer.core.loss.client_log import CLIENTS_A_FILE, Rows, RunLog, read_run
from replexplorer.core.loss.ledger import reckon
from replexplorer.core.server.gtid import without
from replexplorer.core.stats.histogram import slot_middle_us
from replexplorer.engine.observe.samples import probe
from replexplorer.ports import Credentials, LoadSettings, LoadTarget, NodeAddress, UpOptions, ask
from tests.waiting import patience, until

pytestmark = pytest.mark.docker

STACK = f"itest-load-{os.getpid()}"
INTERVAL_S = 0.1


@dataclass
class Primary:
    """A live primary with the accounts of its stack."""

    node: NodeAddress
    credentials: Credentials
    target: LoadTarget

    @contextlib.asynccontextmanager
    async def sql(self) -> AsyncIterator[ControlConnection]:
        connection = ControlConnection(
            "db1",
            lambda: connect_address(self.node),
            self.credentials.control_user,
            self.credentials.control_password,
        )
        try:
            yield connection
        finally:
            await connection.close()

    async def value(self, statement: str) -> Any:
        async with self.sql() as sql:
            [row] = await sql.query(statement, deadline_s=20)
            return next(iter(row.values()))

    async def sessions(self) -> set[int]:
        """The load's connections by id."""
        async with self.sql() as sql:
            rows = await sql.query(
                "SELECT processlist_id AS id FROM performance_schema.threads WHERE processlist_user = %s",
                (self.target.user,),
            )
            return {row["id"] for row in rows}


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Primary]:
    """A stack of our own: these tests kill its primary."""
    states = pytest.MonkeyPatch()
    states.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))

    async def up() -> Primary:
        live = DockerProvider(STACK)
        try:
            await live.up(UpOptions(), lambda text, done=None: None)
            credentials = await live.credentials()
            node = (await live.nodes())[0]
            address = await connect_address(node)
        finally:
            await live.close()
        target = LoadTarget(
            address.host, address.port, credentials.dsn_user, credentials.dsn_password, address.path
        )
        return Primary(node, credentials, target)

    async def down() -> None:
        live = DockerProvider(STACK)
        await live.down()
        await live.close()

    try:
        yield asyncio.run(up())
    finally:
        asyncio.run(down())
        states.undo()


@pytest.fixture(scope="module")
def client_logs(tmp_path_factory: pytest.TempPathFactory) -> FileClientLogs:
    """Those of the one stack, which number its runs."""
    return FileClientLogs(tmp_path_factory.mktemp("ledgers"))


async def unclaimed(run: int) -> int:
    """Nobody else numbers runs of this stack."""
    return run


@pytest.fixture
async def primary(stack: Primary) -> Primary:
    """The primary, answering and writable."""

    async def answers() -> bool:
        try:
            return bool(await stack.value("SELECT 1"))
        except ServerUnreachable:
            return False

    await until(answers, "the primary answers", within_s=60)
    async with stack.sql() as sql:
        await sql.query("SET GLOBAL super_read_only = OFF")
        await sql.query("SET GLOBAL read_only = OFF")
    return stack


class Watched:
    """A load whose intervals are kept as they come."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.child = LoadGroup(lambda text, done=None: self.told.append(text))
        self.intervals: list[Interval] = []
        self._reader: asyncio.Task[None] | None = None

    async def start(self, primary: Primary, settings: LoadSettings) -> None:
        await self.child.start(primary.target, settings, interval_s=INTERVAL_S)
        self._reader = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for interval in self.child.intervals():
            self.intervals.append(interval)

    async def shown(
        self, condition: Callable[[Interval], bool], what: str, deadline_s: float = 20
    ) -> Interval:
        """The next interval that meets a condition."""
        seen = len(self.intervals)

        async def met() -> bool:
            return any(condition(each) for each in self.intervals[seen:])

        await until(met, what, within_s=deadline_s)
        return next(each for each in self.intervals[seen:] if condition(each))

    async def stop(self) -> Sequence[Interval]:
        """Every interval of the load, the last one included."""
        await self.child.stop()
        if self._reader is not None:
            await self._reader
        return self.intervals


@pytest.fixture
async def load() -> AsyncIterator[Watched]:
    watched = Watched()
    yield watched
    await watched.stop()


async def empty(primary: Primary, table: str) -> None:
    async with primary.sql() as sql:
        await sql.query(f"DROP TABLE IF EXISTS replexplorer.{table}")


@pytest.mark.parametrize(("workload", "table"), [("insert", "sbtest2"), ("foo", "foo")])
async def test_acknowledged_commits_are_rows_in_the_table(
    primary: Primary, load: Watched, workload: str, table: str
) -> None:
    await empty(primary, table)
    await load.start(primary, LoadSettings(4, workload))
    await load.shown(lambda each: each.commits > 0 and each.connected == 4, "four clients commit")
    await load.shown(lambda each: each.commits > 0, "they go on")
    intervals = await load.stop()
    assert sum(each.commits for each in intervals) == await primary.value(
        f"SELECT COUNT(*) FROM replexplorer.{table}"
    )
    assert sum(each.errors + each.unknown + each.reconnects for each in intervals) == 0
    begun = list(itertools.dropwhile(lambda each: not each.commits, intervals))
    assert all(before.end_s == after.start_s for before, after in itertools.pairwise(begun))
    assert {each.workload for each in intervals} == {workload}
    assert not load.child.pids


async def test_little_s_law_holds(primary: Primary, load: Watched) -> None:
    """No more commits are under way than clients, and nearly as many where the clients have the processor."""
    await load.start(primary, LoadSettings(4, "update_index"))
    await load.shown(lambda each: each.connected == 4, "all clients are there")
    began = len(load.intervals)
    for _ in range(10):
        await load.shown(lambda each: each.commits > 0, "commits")
    in_each = [each.service.sum_us / 1e6 / INTERVAL_S for each in load.intervals[began:]]
    assert max(in_each) > 3.4, in_each
    intervals = await load.stop()
    busy_s = sum(each.service.sum_us for each in intervals) / 1e6
    assert busy_s <= 4 * (intervals[-1].end_s - intervals[0].start_s)


async def test_update_index_changes_rows_of_a_sysbench_table(primary: Primary, load: Watched) -> None:
    await empty(primary, "sbtest1")
    await load.start(primary, LoadSettings(1, "update_index", table_size=3000))
    assert any("sbtest1" in text for text in load.told)
    rows = "SELECT CONCAT_WS(' ', COUNT(*), MIN(id), MAX(id), MIN(LENGTH(c)), MIN(LENGTH(pad)))"
    assert await primary.value(f"{rows} FROM replexplorer.sbtest1") == "3000 1 3000 119 59"
    before = await primary.value("SELECT SUM(k) FROM replexplorer.sbtest1")
    await load.shown(lambda each: each.commits > 0, "commits")
    assert await primary.value("SELECT SUM(k) FROM replexplorer.sbtest1") > before


async def test_a_table_that_fits_is_reused_and_another_size_is_made(primary: Primary) -> None:
    told: list[list[str]] = []
    for size in (2500, 2500, 5000):
        load = Watched()
        try:
            await load.start(primary, LoadSettings(1, "update_index", table_size=size))
        finally:
            await load.stop()
        told.append(load.told)
        assert await primary.value("SELECT COUNT(*) FROM replexplorer.sbtest1") == size
    assert [bool(each) for each in told[1:]] == [False, True]


async def test_a_table_that_was_never_finished_is_made_anew(primary: Primary) -> None:
    settings = LoadSettings(1, "update_index", table_size=60_000)
    halves: list[float] = []
    going = asyncio.Event()

    def tell(text: str, done: float | None = None) -> None:
        halves.append(done or 0.0)
        if 0 < (done or 0.0) < 1:
            going.set()

    child = LoadGroup(tell)
    starting = asyncio.create_task(child.start(primary.target, settings, interval_s=INTERVAL_S))
    await going.wait()
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    assert halves[-1] < 1
    for is_finished in (False, True, False):
        load = Watched()
        try:
            await load.start(primary, settings)
        finally:
            await load.stop()
        assert bool(load.told) == (not is_finished)
        assert await primary.value("SELECT COUNT(*) FROM replexplorer.sbtest1") == 60_000
        async with primary.sql() as sql:
            if is_finished:  # its last step is lost
                await sql.query("ALTER TABLE replexplorer.sbtest1 COMMENT = 'replexplorer unfinished'")


async def test_a_payload_s_column_comes_at_once_and_no_commit_waits_for_a_table(
    primary: Primary, load: Watched
) -> None:
    plain = LoadSettings(2, "update_index")
    await empty(primary, "sbtest1")
    await load.start(primary, plain)
    load.told.clear()
    await load.child.change(replace(plain, payload_bytes=1000))
    await load.shown(lambda each: each.commits > 0, "commits with a payload")
    assert load.told == []
    assert await primary.value("SELECT MAX(LENGTH(payload)) FROM replexplorer.sbtest1") == 1000
    assert await primary.value("SELECT COUNT(*) FROM replexplorer.sbtest1") == plain.table_size
    await load.child.change(plain)
    await load.shown(lambda each: each.commits > 0, "commits without it")
    assert load.told  # rows without it are made anew, and that is said
    assert whole(load.intervals).errors == 0


async def test_clients_that_stay_keep_their_connections(primary: Primary, load: Watched) -> None:
    async def has(count: int) -> bool:
        return len(await primary.sessions()) == count

    await load.start(primary, LoadSettings(3, "update_index"))
    await until(lambda: has(3), "three sessions")
    three = await primary.sessions()
    await load.child.change(LoadSettings(6, "update_index"))
    await until(lambda: has(6), "six sessions")
    assert three < await primary.sessions()
    await load.child.change(LoadSettings(2, "update_index"))
    await until(lambda: has(2), "two sessions")
    assert await primary.sessions() < three
    await load.child.change(LoadSettings(2, "insert"))
    await load.shown(lambda each: each.workload == "insert" and each.commits > 0, "inserts")
    assert await primary.sessions() < three
    await load.child.change(LoadSettings(0, "insert"))
    await until(lambda: has(0), "no session")
    idle = await load.shown(lambda each: each.clients == 0 and each.commits == 0, "idle intervals")
    assert idle.state == "running"
    assert sum(each.errors + each.unknown + each.reconnects for each in load.intervals) == 0


async def test_fresh_sessions_reconnect_every_client(primary: Primary, load: Watched) -> None:
    await load.start(primary, LoadSettings(4, "update_index"))
    await load.shown(lambda each: each.connected == 4, "all clients are there")
    old = await primary.sessions()
    await load.child.change(LoadSettings(4, "update_index", fresh_sessions=1))

    async def renewed() -> bool:
        now = await primary.sessions()
        return len(now) == 4 and not now & old

    await until(renewed, "four other sessions")
    assert sum(each.unknown + each.errors for each in load.intervals) == 0


async def test_an_insert_table_is_truncated_at_its_bound(primary: Primary, load: Watched) -> None:
    await empty(primary, "sbtest2")
    await load.start(primary, LoadSettings(4, "insert", rows_bound=200))
    await load.shown(lambda each: each.rows_reset > 0, "a reset")
    await load.shown(lambda each: each.commits > 0, "it goes on")
    await load.shown(lambda each: each.rows_reset > 0, "another reset")
    commits = sum(each.commits for each in load.intervals)
    assert await primary.value("SELECT COUNT(*) FROM replexplorer.sbtest2") < commits
    assert sum(each.errors + each.unknown for each in load.intervals) == 0


async def test_a_read_only_primary_refuses_and_is_named(primary: Primary, load: Watched) -> None:
    await load.start(primary, LoadSettings(2, "update_index"))
    async with primary.sql() as sql:
        await sql.query("SET GLOBAL super_read_only = ON", deadline_s=20)
        refused = await load.shown(lambda each: each.errors > 0, "errors")
        assert refused.fault is not None
        assert refused.fault.startswith("1290 ")
        # It backs off: nobody is helped by thousands of refusals a second.
        later = await load.shown(lambda each: each.commits == 0 and each.errors > 0, "refusals only")
        assert later.errors <= 40
        with pytest.raises(ServerRefused) as caught:
            await LoadGroup().start(primary.target, LoadSettings(2, "update_index"), interval_s=INTERVAL_S)
        assert caught.value.number == 1290
        await sql.query("SET GLOBAL super_read_only = OFF")
        await sql.query("SET GLOBAL read_only = OFF")
    await load.shown(lambda each: each.commits > 0, "commits again")
    assert sum(each.unknown + each.reconnects for each in load.intervals) == 0


async def test_a_killed_primary_is_waited_for(primary: Primary, load: Watched) -> None:
    await empty(primary, "sbtest2")
    await load.start(primary, LoadSettings(4, "insert"))
    client = docker.from_env(version="auto")
    try:
        server = client.containers.get(f"replexplorer-{STACK}-db1")
        await asyncio.to_thread(server.kill)
        away = await load.shown(lambda each: each.state == "waiting" and each.commits == 0, "waiting")
        assert away.connected == 0
        assert away.fault
        await load.child.change(LoadSettings(5, "insert"))
        with pytest.raises(ServerUnreachable):
            await load.child.change(LoadSettings(5, "foo"))
        await asyncio.to_thread(server.start)
    finally:
        client.close()
    await load.shown(lambda each: each.connected == 5 and each.commits > 0, "five clients commit", 60)
    intervals = await load.stop()
    acknowledged, unknown = (
        sum(getattr(each, name) for each in intervals) for name in ("commits", "unknown")
    )
    assert 1 <= unknown <= 4
    assert sum(each.reconnects for each in intervals) == 4
    rows = await primary.value("SELECT COUNT(*) FROM replexplorer.sbtest2")
    assert acknowledged <= rows <= acknowledged + unknown


def whole(intervals: Sequence[Interval]) -> Interval:
    """All intervals as one."""
    return reduce(Interval.followed_by, intervals)


async def binlog_commits(primary: Primary) -> int:
    """Transactions that the primary wrote to its binlog, this counter's own reading left out."""
    return int(
        await primary.value(
            "SELECT VARIABLE_VALUE FROM performance_schema.global_status "
            "WHERE VARIABLE_NAME = 'Binlog_cache_use'"
        )
    )


@pytest.mark.parametrize("workload", WORKLOADS)
async def test_every_workload_s_commits_are_the_server_s(
    primary: Primary, load: Watched, workload: str
) -> None:
    made = Watched()
    await made.start(primary, LoadSettings(0, workload))  # the table is there before anybody counts
    await made.stop()
    before = await binlog_commits(primary)
    await load.start(primary, LoadSettings(3, workload))
    for _ in range(3):
        await load.shown(lambda each: each.commits > 0, "commits")
    total = whole(await load.stop())
    counted = await binlog_commits(primary) - before
    assert total.errors == total.unknown == total.lock_timeouts == 0
    if workload == "point_select":
        assert counted == 0
    else:
        assert total.commits <= counted <= total.commits + total.deadlocks
    kinds = {READ: total.reads, WRITE: total.writes, OTHER: total.others}
    statements = statements_in(workload)
    assert total.queries >= total.commits * statements
    assert total.queries <= (total.commits + total.deadlocks) * statements
    if not total.deadlocks:
        expected = {"read_write": (14, 4, 2), "write_only": (0, 4, 2), "point_select": (1, 0, 0)}
        assert tuple(kinds[kind] // total.commits for kind in (READ, WRITE, OTHER)) == expected.get(
            workload, (0, 1, 0)
        )


async def test_a_paused_primary_is_told_honestly_in_the_open_loop(primary: Primary, load: Watched) -> None:
    rate = 200.0
    await load.start(primary, LoadSettings(4, "update_index", mode="open", rate_tps=rate, spacing="even"))
    await load.shown(lambda each: each.commits > 0, "commits")
    stack = DockerProvider(STACK)
    try:
        server = stack.server_process("db1")
        await server.pause()
        paused_s = time.monotonic()
        await asyncio.sleep(3)  # as long as the pause is meant to be
        resumed_s = time.monotonic()
        await server.start()
    finally:
        await stack.close()
    await load.child.drain()
    await load.shown(lambda each: each.state == "drained", "drained")
    total = whole(await load.stop())
    length_s = resumed_s - paused_s
    assert total.response.max_ms is not None
    assert total.response.max_ms >= 1000 * (length_s - 0.1)
    for share in (0.0, 0.1, 0.25, 0.5, 0.75, 0.9):
        # Whoever was meant to come this early waited at least that long.
        late = sum(
            count
            for slot, count in total.response.counts.items()
            if slot_middle_us(slot) >= 1e6 * length_s * share
        )
        assert late >= 0.95 * rate * length_s * (1 - share)
    assert total.backlog_max >= 0.9 * rate * length_s
    assert total.dropped == total.errors == total.unknown == 0
    assert total.arrivals == total.response.count == total.commits
    # The closed-loop figure of the same run hides it: one slow sample a client.
    assert (total.service.percentile_ms(95) or 0.0) < 1000 * patience()


async def test_the_loop_is_switched_live_and_connections_stay(primary: Primary, load: Watched) -> None:
    async def has(count: int) -> bool:
        return len(await primary.sessions()) == count

    closed = LoadSettings(3, "update_index")
    await load.start(primary, closed)
    await until(lambda: has(3), "three sessions")
    three = await primary.sessions()
    for mode, rate in (("open", 50.0), ("open", 100.0), ("closed", 100.0), ("open", 40.0)):
        await load.child.change(replace(closed, mode=mode, rate_tps=rate))
        asked = (mode, rate if mode == "open" else None)

        def runs_so(each: Interval, asked: tuple[str, float | None] = asked) -> bool:
            arrives = bool(each.arrivals) == (each.mode == "open")
            return (each.mode, each.rate_asked_tps) == asked and arrives and each.commits > 0

        await load.shown(runs_so, f"{mode} at {rate}")
        assert await primary.sessions() == three
    await load.child.change(replace(closed, workload="read_write", mode="open", rate_tps=20.0))
    await load.shown(lambda each: each.reads > 0 and each.workload == "read_write", "reads")
    assert await primary.sessions() == three
    await load.child.drain()
    await load.shown(lambda each: each.state == "drained", "drained")
    total = whole(await load.stop())
    assert total.errors == total.unknown == total.reconnects == total.dropped == 0
    assert total.arrivals == total.response.count
    assert total.commits > total.response.count


async def test_more_arrivals_than_the_backlog_holds_are_dropped_and_counted(
    primary: Primary, load: Watched
) -> None:
    await load.start(primary, LoadSettings(1, "read_write", mode="open", rate_tps=20_000.0))
    await load.shown(lambda each: each.backlog > 2000, "a backlog")
    # Nobody is left to serve those who wait: they are given up, not forgotten.
    await load.child.change(LoadSettings(0, "read_write", mode="open", rate_tps=20_000.0))
    await load.shown(lambda each: not each.backlog and not each.connected, "no client")
    total = whole(await load.stop())
    assert total.dropped > 2000
    assert total.arrivals == total.response.count + total.dropped + total.errors + total.unknown


async def test_deadlocks_begin_anew_and_are_no_errors(primary: Primary, load: Watched) -> None:
    before = await binlog_commits(primary)
    await load.start(primary, LoadSettings(8, "write_only", table_size=1000, key_spread=3))
    await load.shown(lambda each: each.deadlocks > 0, "a deadlock", 60)
    total = whole(await load.stop())
    assert total.errors == total.unknown == total.reconnects == 0
    assert total.commits > 0
    counted = await binlog_commits(primary) - before
    assert counted >= total.commits


async def test_a_lock_that_is_held_too_long_is_waited_for_anew(primary: Primary, load: Watched) -> None:
    async with primary.sql() as sql:
        await sql.query("SET GLOBAL innodb_lock_wait_timeout = 1")
        try:
            await load.start(primary, LoadSettings(2, "write_only", table_size=1000, key_spread=1))
            await sql.query("BEGIN")
            await sql.query("UPDATE replexplorer.sbtest1 SET k = k + 1 WHERE id = 1")
            waited = await load.shown(lambda each: each.lock_timeouts > 0, "a lock timeout")
            assert waited.fault is not None
            assert waited.fault.startswith("1205 ")
            await sql.query("ROLLBACK")
        finally:
            await sql.query("SET GLOBAL innodb_lock_wait_timeout = 50")
    await load.shown(lambda each: each.commits > 0, "commits again")
    total = whole(await load.stop())
    assert total.errors == total.unknown == total.reconnects == 0


async def test_an_open_loop_s_account_is_whole_when_the_primary_is_killed(
    primary: Primary, load: Watched
) -> None:
    await empty(primary, "sbtest2")
    await load.start(primary, LoadSettings(4, "insert", mode="open", rate_tps=300.0))
    await load.shown(lambda each: each.commits > 0, "commits")
    client = docker.from_env(version="auto")
    try:
        server = client.containers.get(f"replexplorer-{STACK}-db1")
        await asyncio.to_thread(server.kill)
        away = await load.shown(lambda each: each.state == "waiting" and each.backlog > 100, "a backlog")
        assert away.response.count == 0
        await asyncio.to_thread(server.start)
    finally:
        client.close()
    await load.shown(lambda each: each.connected == 4 and each.commits > 0, "commits again", 60)
    await load.child.drain()
    await load.shown(lambda each: each.state == "drained", "drained", 60)
    total = whole(await load.stop())
    assert total.arrivals == total.response.count + total.errors + total.unknown + total.dropped
    rows = await primary.value("SELECT COUNT(*) FROM replexplorer.sbtest2")
    assert total.commits <= rows <= total.commits + total.unknown
    assert total.reconnects == 4


async def test_a_payload_is_written_and_leaves_with_its_column(primary: Primary, load: Watched) -> None:
    await load.start(primary, LoadSettings(2, "insert", payload_bytes=200_000, rows_bound=10_000))
    await load.shown(lambda each: each.commits > 0, "commits")
    sizes = "SELECT CONCAT_WS(' ', MIN(LENGTH(payload)), MAX(LENGTH(payload))) FROM replexplorer.sbtest2"
    assert await primary.value(sizes) == "200000 200000"
    await load.child.change(LoadSettings(2, "insert"))
    await load.shown(lambda each: each.commits > 0, "commits without it")
    assert not await primary.value(
        "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = 'replexplorer' "
        "AND table_name = 'sbtest2' AND column_name = 'payload'"
    )
    assert whole(load.intervals).errors == 0


OWN = """\\set amount rand(1,50)
INSERT INTO transfer (amount, note) VALUES (:amount, :text(8));
UPDATE account SET balance = balance + :amount WHERE id = :rand(1,10);
"""


async def test_a_user_s_file_runs_block_by_block(primary: Primary, load: Watched) -> None:
    async with primary.sql() as sql:
        for statement in (
            "DROP TABLE IF EXISTS sandbox.transfer, sandbox.account",
            "CREATE TABLE sandbox.transfer (id INT AUTO_INCREMENT PRIMARY KEY, amount INT, note CHAR(8))",
            "CREATE TABLE sandbox.account (id INT PRIMARY KEY, balance BIGINT NOT NULL)",
            f"INSERT INTO sandbox.account VALUES {', '.join(f'({number}, 0)' for number in range(1, 11))}",
        ):
            await sql.query(statement)
        own = LoadSettings(3, "own.sql", script=OWN)
        await load.start(primary, own)
        await load.shown(lambda each: each.commits > 0, "commits")
        await load.shown(lambda each: each.commits > 0, "more commits")
        wrong = replace(own, script=OWN + "SELECT nothing FROM account")
        with pytest.raises(UsageError, match=r"own\.sql:4: .*nothing"):
            await load.child.change(wrong)
        await load.shown(lambda each: each.commits > 0, "commits as before")
        total = whole(await load.stop())
        assert total.workload == "own.sql"
        assert total.errors == total.unknown == 0
        rows = await primary.value("SELECT COUNT(*) FROM sandbox.transfer")
        assert rows == total.commits
        assert await primary.value("SELECT SUM(balance) FROM sandbox.account") == await primary.value(
            "SELECT SUM(amount) FROM sandbox.transfer"
        )
        await sql.query("DROP TABLE sandbox.transfer, sandbox.account")


async def test_two_processes_are_one_load(primary: Primary) -> None:
    await empty(primary, "sbtest2")
    group = LoadGroup(place=LoadPlace(cores=4))
    intervals: list[Interval] = []

    async def watch() -> None:
        async for each in group.intervals():
            intervals.append(each)

    async def is_open() -> bool:
        return any(each.rate_asked_tps == 300.0 and each.state == "running" for each in intervals)

    await group.start(primary.target, LoadSettings(6, "insert"), interval_s=INTERVAL_S)
    watching = asyncio.create_task(watch())
    try:
        assert len(group.pids) == 1
        await group.change(LoadSettings(70, "insert"))
        assert len(group.pids) == 2
        await until(lambda: _sessions(primary, 70), "seventy sessions")
        await group.change(LoadSettings(40, "insert", mode="open", rate_tps=300.0))
        await until(lambda: _sessions(primary, 40), "forty sessions")
        await until(is_open, "an interval of the open loop")
        await group.drain()
    finally:
        await group.stop()
    await watching
    total = whole(intervals)
    assert total.commits == await primary.value("SELECT COUNT(*) FROM replexplorer.sbtest2")
    assert total.errors == total.unknown == total.dropped == 0
    assert total.arrivals == total.response.count
    assert {each.processes for each in intervals} == {1, 2}
    opened = [each for each in intervals if each.mode == "open" and each.state == "running"]
    assert {each.rate_asked_tps for each in opened} >= {300.0}
    assert not group.pids


async def test_processes_that_were_asked_for_begin_and_end_together(primary: Primary) -> None:
    """Open loop, so that a rate divided among them must come out whole; then one is killed."""
    await empty(primary, "sbtest2")
    group, intervals = LoadGroup(), list[Interval]()

    async def watch() -> None:
        async for each in group.intervals():
            intervals.append(each)

    def running() -> list[Interval]:
        return [each for each in intervals if each.state == "running" and each.commits]

    async def are_there() -> bool:
        return len(running()) >= 4

    asked = LoadSettings(5, "insert", mode="open", rate_tps=150.0, processes=2)
    await group.start(primary.target, asked, interval_s=INTERVAL_S)
    watching = asyncio.create_task(watch())
    try:
        await until(are_there, "some intervals")
        pids = group.pids
        os.kill(pids[1], signal.SIGKILL)
        with pytest.raises(
            ReplexplorerError, match=r"process 2 of 2, with 2 of the load's 5 clients, is gone"
        ):
            await watching
    finally:
        await group.stop()

    async def gone() -> bool:
        return not await primary.sessions()

    await until(gone, "the sessions of both are gone")
    assert {each.processes for each in running()} <= {1, 2}
    assert running()[0].processes == 2, "nobody began before the other"
    assert {each.rate_asked_tps for each in running() if each.processes == 2} == {150.0}
    total = whole(intervals)
    assert [work.clients for work in total.work] == [3, 2]
    assert sum(work.commits for work in total.work) == total.commits
    assert all(work.commits for work in total.work)
    # What the killed one did since its last interval is all that nobody counted.
    rows = await primary.value("SELECT COUNT(*) FROM replexplorer.sbtest2")
    assert total.commits <= rows


async def _sessions(primary: Primary, count: int) -> bool:
    return len(await primary.sessions()) == count


def client_log_of(directory: Path) -> RunLog:
    """What the clients of one run noted."""
    return read_run((str(file), file.read_bytes()) for file in sorted(directory.glob("*.log")))


async def rows_of(primary: Primary, run: int) -> Rows:
    """The rows of a run on the primary."""
    async with primary.sql() as sql:
        return await ask(sql, (await probe(sql)).ledger_rows(run), deadline_s=60)


async def test_the_log_of_a_load_that_was_killed_has_every_row(
    primary: Primary, client_logs: FileClientLogs
) -> None:
    """kill -9 between the statement and its reply, with many clients: a row may be there that its client
    never heard of, and none that it did not mean to write; none that it heard of is missing."""
    run = Path(await client_logs.new_run(unclaimed))
    clients, child = 64, LoadGroup()

    async def kill_it_at_work(pid: int) -> None:
        commits = 0
        async for interval in child.intervals():
            commits += interval.commits
            if commits > 5 * clients:
                os.kill(pid, signal.SIGKILL)

    await child.start(primary.target, LoadSettings(clients, "ledger", ledger=str(run)), interval_s=INTERVAL_S)
    try:
        with pytest.raises(ReplexplorerError, match="signal 9"):
            await kill_it_at_work(child.pids[0])
    finally:
        await child.stop()

    async def gone() -> bool:
        return not await primary.sessions()

    await until(gone, "its sessions are gone")
    log, rows = client_log_of(run), await rows_of(primary, int(run.name))
    ledger = reckon(log, {"db1": rows}, "db1", executed={})
    assert ledger.lost == 0
    assert ledger.acknowledged > clients
    assert ledger.unknown <= clients
    for client, spans in rows.items():
        assert without(spans, log.clients[client].attempted) == ()
    assert ledger.nodes["db1"].rows == ledger.acknowledged + ledger.unknown_present


async def test_a_full_disk_under_the_client_log_ends_the_load(
    primary: Primary, client_logs: FileClientLogs
) -> None:
    """A limit of the file's size refuses a write as a full disk does."""
    run = Path(await client_logs.new_run(unclaimed))
    limited = ("sh", "-c", 'ulimit -f 64 && exec "$0" -P -m replexplorer.load_process', sys.executable)
    child = LoadGroup(place=LoadPlace(partial(LocalProcess.start, limited)))
    await child.start(primary.target, LoadSettings(8, "ledger", ledger=str(run)), interval_s=INTERVAL_S)
    try:
        with pytest.raises(ReplexplorerError) as caught:
            async for _ in child.intervals():
                pass
    finally:
        await child.stop()
    assert str(caught.value) == (
        f"the load ended: the client log {run}/0.log cannot be written: file too large: "
        "make room or name another $XDG_STATE_HOME"
    )
    log, rows = client_log_of(run), await rows_of(primary, int(run.name))
    ledger = reckon(log, {"db1": rows}, "db1", executed={})
    assert (ledger.lost, ledger.failed) == (0, 0)
    assert ledger.unknown <= 8, "nothing was sent that is not noted"
    assert ledger.nodes["db1"].rows == ledger.acknowledged + ledger.unknown_present


async def test_a_table_that_was_emptied_at_its_bound_is_no_loss(
    primary: Primary, load: Watched, client_logs: FileClientLogs
) -> None:
    run = Path(await client_logs.new_run(unclaimed))
    await load.start(primary, LoadSettings(8, "ledger", ledger=str(run), rows_bound=300))
    await load.shown(lambda each: each.rows_reset > 0, "the table was emptied")
    await load.shown(lambda each: each.commits > 0, "and the load goes on")
    await load.stop()
    log, rows = client_log_of(run), await rows_of(primary, int(run.name))
    ledger = reckon(log, {"db1": rows}, "db1", executed={})
    assert (ledger.lost, ledger.failed, ledger.nodes["db1"].extra) == (0, 0, 0)
    assert ledger.acknowledged > 0
    assert ledger.nodes["db1"].rows == ledger.acknowledged + ledger.unknown_present


async def test_several_processes_note_under_numbers_of_their_own(
    primary: Primary, client_logs: FileClientLogs
) -> None:
    run = Path(await client_logs.new_run(unclaimed))
    group = LoadGroup(place=LoadPlace(cores=4))
    try:
        await group.start(primary.target, LoadSettings(70, "ledger", ledger=str(run)), interval_s=INTERVAL_S)
        await until(lambda: _sessions(primary, 70), "seventy sessions")
    finally:
        await group.stop()
    log, rows = client_log_of(run), await rows_of(primary, int(run.name))
    assert len(log.clients) == 70
    assert {client // CLIENTS_A_FILE for client in log.clients} == {0, 1}
    ledger = reckon(log, {"db1": rows}, "db1", executed={})
    assert (ledger.lost, ledger.failed) == (0, 0)
    assert ledger.nodes["db1"].rows == ledger.acknowledged + ledger.unknown_present


async def test_wrong_targets_are_one_clear_line(primary: Primary) -> None:
    target = primary.target
    wrong = LoadTarget(target.host, target.port, target.user, "not-this-word", target.path)
    nobody = LoadTarget("127.0.0.1", 1, target.user, target.password, "published")
    for each in (wrong, nobody):
        with pytest.raises(ServerUnreachable) as caught:
            await LoadGroup().start(each, LoadSettings(1, "foo"), interval_s=INTERVAL_S)
        assert "\n" not in str(caught.value)
        assert each.password not in str(caught.value)


async def test_the_password_is_nowhere_to_be_read(primary: Primary, load: Watched) -> None:
    await load.start(primary, LoadSettings(1, "foo"))
    process = Path(f"/proc/{load.child.pids[0]}")
    for name in ("cmdline", "environ"):
        content = await asyncio.to_thread((process / name).read_bytes)
        assert primary.target.password.encode() not in content


PARENT = """
import asyncio, json, signal, sys
from replexplorer.adapters.load import LoadGroup
from replexplorer.ports import LoadSettings, LoadTarget

async def main():
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    child = LoadGroup()
    target = LoadTarget(**json.loads(sys.stdin.readline()))
    await child.start(target, LoadSettings(2, "insert"), interval_s=0.01)
    print(child.pids[0], flush=True)
    async def total():
        return sum([each.commits async for each in child.intervals()])
    counting = asyncio.create_task(total())
    await asked.wait()
    await child.stop()
    print(await counting, flush=True)

asyncio.run(main())
"""


def state_of(pid: int) -> str | None:
    """The kernel's letter for a process; None when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


@contextlib.asynccontextmanager
async def a_parent(primary: Primary) -> AsyncIterator[tuple[asyncio.subprocess.Process, int]]:
    """An app in a process of its own, and the pid of its load."""
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", PARENT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    target = primary.target
    content = {
        "host": target.host,
        "port": target.port,
        "user": target.user,
        "password": target.password,
        "path": target.path,
    }
    try:
        parent.stdin.write(json.dumps(content).encode() + b"\n")
        pid = int(await asyncio.wait_for(parent.stdout.readline(), 30 * patience()))
        yield parent, pid
    finally:
        with contextlib.suppress(ProcessLookupError):
            parent.kill()
        await parent.wait()
        parent.stdin.close()


async def test_a_dead_app_ends_its_load_within_a_second(primary: Primary) -> None:
    async with a_parent(primary) as (parent, pid):
        assert await primary.sessions()
        parent.kill()
        killed_s = time.monotonic()

        async def gone() -> bool:
            # Whoever adopts orphans may be slow to reap: a zombie is gone.
            return await asyncio.to_thread(state_of, pid) in (None, "Z")

        await until(gone, "the load is gone", within_s=5)
        assert time.monotonic() - killed_s < patience()

    async def none() -> bool:
        return not await primary.sessions()

    await until(none, "its sessions are gone")


async def test_a_stopped_app_neither_stops_commits_nor_loses_any(primary: Primary) -> None:
    await empty(primary, "sbtest2")
    async with a_parent(primary) as (parent, _):
        assert parent.stdout is not None
        os.kill(parent.pid, signal.SIGSTOP)
        count = "SELECT COUNT(*) FROM replexplorer.sbtest2"
        before = await primary.value(count)

        # Intervals of 10 ms fill the pipe meanwhile.
        async def many_more() -> bool:
            return bool(await primary.value(count) > before + 2000)

        await until(many_more, "commits go on", within_s=60)
        os.kill(parent.pid, signal.SIGCONT)
        parent.send_signal(signal.SIGTERM)
        told = int(await asyncio.wait_for(parent.stdout.readline(), 30 * patience()))
    assert told == await primary.value(count)


async def test_a_call_past_its_deadline_does_not_spoil_the_next(primary: Primary) -> None:
    async with primary.sql() as sql:
        with pytest.raises(ServerUnreachable, match="did not answer within"):
            await sql.query("SELECT SLEEP(5)", deadline_s=0.2)
        assert await sql.query("SELECT 7 AS n") == [{"n": 7}]
        waiting = asyncio.create_task(sql.query("SELECT SLEEP(5)"))

        async def sleeps() -> bool:
            found = "SELECT COUNT(*) FROM performance_schema.processlist WHERE info = 'SELECT SLEEP(5)'"
            return bool(await primary.value(found) >= 1)

        await until(sleeps, "the statement runs")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await sql.query("SELECT 8 AS n") == [{"n": 8}]
        [row] = await sql.query("SELECT CONNECTION_ID() AS id")
        async with primary.sql() as other:
            await other.query(f"KILL {row['id']}")

        async def again() -> bool:
            with contextlib.suppress(ReplexplorerError):
                return bool(await sql.query("SELECT 9 AS n") == [{"n": 9}])
            return False

        await until(again, "a new connection", within_s=5)
        with pytest.raises(ServerRefused) as caught:
            await sql.query("SET GLOBAL no_such_variable = 1")
        assert caught.value.number == 1193
