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
from dataclasses import asdict, dataclass, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pytest

from replexplorer.adapters.client_logs import FileClientLogs
from replexplorer.adapters.load import LoadGroup, LoadPlace, LocalProcess
from replexplorer.adapters.mysql import ControlConnection, connect_address
from replexplorer.core.errors import ReplexplorerError, ServerRefused, ServerUnreachable, UsageError
from replexplorer.core.load.interval import Interval
from replexplorer.core.load.workload import OTHER, READ, WORKLOADS, WRITE, statements_in
from replexplorer.core.loss.client_log import CLIENTS_A_FILE, Rows, RunLog, read_run
from replexplorer.core.loss.ledger import LossLedger, count_losses
from replexplorer.core.server.gtid import without
from replexplorer.core.stats.histogram import slot_middle_us
from replexplorer.engine.observe.samples import probe
from replexplorer.ports import LoadSettings, LoadTarget, ask
from tests.integration.conftest import LiveStack, a_stack
from tests.waiting import patience, until

pytestmark = pytest.mark.docker

INTERVAL_S = 0.1


@dataclass
class Primary:
    """A live primary with the account of its loads."""

    live: LiveStack
    target: LoadTarget

    @contextlib.asynccontextmanager
    async def sql(self) -> AsyncIterator[ControlConnection]:
        """A connection of the control account."""
        node, accounts = await self.live.node("db1"), self.live.credentials
        connection = ControlConnection(
            "db1", lambda: connect_address(node), accounts.control_user, accounts.control_password
        )
        try:
            yield connection
        finally:
            await connection.close()

    async def value(self, statement: str) -> Any:
        return await self.live.value("db1", statement)

    async def rows(self) -> int:
        """Of the table that `insert` writes to."""
        return int(await self.value("SELECT COUNT(*) FROM replexplorer.sbtest2"))

    async def sessions(self) -> set[int]:
        """The load's connections by id."""
        async with self.sql() as sql:
            rows = await sql.query(
                "SELECT processlist_id AS id FROM performance_schema.threads WHERE processlist_user = %s",
                (self.target.user,),
            )
            return {row["id"] for row in rows}

    async def until_sessions(self, count: int) -> set[int]:
        """Those, once they are so many."""
        return await until(self.sessions, f"{count} sessions", holds=lambda found: len(found) == count)


@pytest.fixture(scope="module")
def live(docker_client: Any, state_home: Path) -> Iterator[LiveStack]:
    """A stack of our own: these tests kill its primary."""
    with a_stack("load") as made:
        yield made


@pytest.fixture(scope="module")
def client_logs(tmp_path_factory: pytest.TempPathFactory) -> FileClientLogs:
    """Those of the one stack, which number its runs."""
    return FileClientLogs(tmp_path_factory.mktemp("ledgers"))


async def unclaimed(run: int) -> int:
    """Nobody else numbers runs of this stack."""
    return run


@pytest.fixture
async def primary(live: LiveStack) -> Primary:
    """The primary, answering and writable, without rows of loads before."""
    await live.ready()
    async with live.session("db1") as cursor:
        for statement in (
            "SET GLOBAL super_read_only = OFF",
            "SET GLOBAL read_only = OFF",
            "DROP TABLE IF EXISTS replexplorer.sbtest1, replexplorer.sbtest2",
        ):
            await cursor.execute(statement)
    address, accounts = await connect_address(await live.node("db1")), live.credentials
    return Primary(
        live,
        LoadTarget(address.host, address.port, accounts.dsn_user, accounts.dsn_password, address.path),
    )


class Watched:
    """A load whose intervals are kept as they come."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.child = LoadGroup(lambda text, done=None: self.told.append(text), place=LoadPlace(cores=4))
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
        await self.end()
        return self.intervals

    async def end(self) -> None:
        """Read to the end of a load; raises what ended it."""
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader


@pytest.fixture
async def load() -> AsyncIterator[Watched]:
    watched = Watched()
    yield watched
    await watched.stop()


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


async def test_a_table_that_fits_is_reused_and_another_size_is_made(primary: Primary) -> None:
    told: list[list[str]] = []
    rows = "SELECT CONCAT_WS(' ', COUNT(*), MIN(id), MAX(id), MIN(LENGTH(c)), MIN(LENGTH(pad)))"
    for size in (2500, 2500, 5000):
        load = Watched()
        try:
            await load.start(primary, LoadSettings(0, "update_index", table_size=size))
        finally:
            await load.stop()
        told.append(load.told)
        assert await primary.value(f"{rows} FROM replexplorer.sbtest1") == f"{size} 1 {size} 119 59"
    assert [bool(each) for each in told] == [True, False, True]


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


@pytest.mark.parametrize(
    ("workload", "table", "size"), [("update_index", "sbtest1", 1000), ("insert", "sbtest2", 200_000)]
)
async def test_a_payload_comes_at_once_and_leaves_with_its_column(
    primary: Primary, load: Watched, workload: str, table: str, size: int
) -> None:
    plain = LoadSettings(2, workload)
    await load.start(primary, plain)
    load.told.clear()
    await load.child.change(replace(plain, payload_bytes=size))
    await load.shown(lambda each: each.commits > 0, "commits with a payload")
    assert load.told == []
    # An interval may have ended with what was committed before the change.
    longest = f"SELECT MAX(LENGTH(payload)) FROM replexplorer.{table}"
    await until(lambda: primary.value(longest), "the payload is there", holds=lambda found: found == size)
    await load.child.change(plain)
    await load.shown(lambda each: each.commits > 0, "commits without it")
    assert load.told or workload == "insert"  # rows without it are made anew, and that is said
    assert not await primary.value(
        "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = 'replexplorer' "
        f"AND table_name = '{table}' AND column_name = 'payload'"
    )
    assert whole(load.intervals).errors == 0


async def test_clients_that_stay_keep_their_connections_until_fresh_ones_are_asked_for(
    primary: Primary, load: Watched
) -> None:
    await load.start(primary, LoadSettings(3, "update_index"))
    three = await primary.until_sessions(3)
    await load.child.change(LoadSettings(6, "update_index"))
    assert three < await primary.until_sessions(6)
    await load.child.change(LoadSettings(2, "update_index"))
    two = await primary.until_sessions(2)
    assert two < three
    for settings in (
        LoadSettings(2, "insert"),
        LoadSettings(2, "insert", mode="open", rate_tps=50.0),
        LoadSettings(2, "insert", mode="open", rate_tps=100.0),
        LoadSettings(2, "read_write", mode="open", rate_tps=20.0),
        LoadSettings(2, "update_index"),
    ):
        await load.child.change(settings)
        is_open = settings.mode == "open"
        asked = (settings.workload, settings.mode, settings.rate_tps if is_open else None, is_open)

        def runs_so(each: Interval, asked: tuple[object, ...] = asked) -> bool:
            seen = (each.workload, each.mode, each.rate_asked_tps, bool(each.arrivals))
            return seen == asked and each.commits > 0

        await load.shown(runs_so, str(asked))
        assert await primary.sessions() == two
    await load.child.change(LoadSettings(2, "update_index", fresh_sessions=1))
    await until(primary.sessions, "others", holds=lambda now: len(now) == 2 and not now & two)
    await load.child.change(LoadSettings(0, "insert"))
    await primary.until_sessions(0)
    idle = await load.shown(lambda each: each.clients == 0 and each.commits == 0, "idle intervals")
    assert idle.state == "running"
    total = whole(load.intervals)
    assert total.errors == total.unknown == 0
    assert total.arrivals == total.response.count + total.dropped
    assert total.response.count < total.commits


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
    intervals = await load.stop()
    assert all(one.end_s == other.start_s for one, other in itertools.pairwise(intervals) if one.commits)
    total = whole(intervals)
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
    server = primary.live.stack.server_process("db1")
    await server.pause()
    paused_s = time.monotonic()
    await asyncio.sleep(3)  # as long as the pause is meant to be
    resumed_s = time.monotonic()
    await server.start()
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
    assert (total.service.percentile_ms(95) or 0.0) < 1000


async def test_deadlocks_begin_anew_and_are_no_errors(primary: Primary, load: Watched) -> None:
    before = await binlog_commits(primary)
    await load.start(primary, LoadSettings(8, "write_only", table_size=1000, key_spread=3))
    await load.shown(lambda each: each.deadlocks > 0, "a deadlock", 60)
    total = whole(await load.stop())
    assert total.errors == total.reconnects == 0
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
    assert total.errors == total.reconnects == 0


async def test_a_killed_primary_is_waited_for_and_the_account_is_whole(
    primary: Primary, load: Watched
) -> None:
    asked = LoadSettings(4, "insert", mode="open", rate_tps=300.0)
    await load.start(primary, asked)
    await load.shown(lambda each: each.commits > 0, "commits")
    server = primary.live.stack.server_process("db1")
    await server.kill()
    away = await load.shown(lambda each: each.state == "waiting" and each.backlog > 100, "a backlog")
    assert away.response.count == away.connected == 0
    assert away.fault
    await load.child.change(replace(asked, clients=5))
    with pytest.raises(ServerUnreachable):
        await load.child.change(LoadSettings(5, "foo"))
    await server.start()
    await load.shown(lambda each: each.connected == 5 and each.commits > 0, "five clients commit", 60)
    await load.child.drain()
    await load.shown(lambda each: each.state == "drained", "drained", 60)
    total = whole(await load.stop())
    assert total.arrivals == total.response.count + total.errors + total.unknown + total.dropped
    assert total.commits <= await primary.rows() <= total.commits + total.unknown
    assert total.unknown <= total.reconnects == 4


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


async def test_processes_that_were_asked_for_begin_and_end_together(primary: Primary, load: Watched) -> None:
    """Open loop, so that a rate divided among them must come out whole; then one is killed."""
    asked = LoadSettings(5, "insert", mode="open", rate_tps=150.0, processes=2)
    await load.start(primary, asked)
    for _ in range(4):
        await load.shown(lambda each: each.state == "running" and each.commits > 0, "commits")
    os.kill(load.child.pids[1], signal.SIGKILL)
    with pytest.raises(ReplexplorerError, match=r"process 2 of 2, with 2 of the load's 5 clients, is gone"):
        await load.end()
    await primary.until_sessions(0)
    running = [each for each in load.intervals if each.state == "running" and each.commits]
    assert {each.processes for each in running} <= {1, 2}
    assert running[0].processes == 2, "nobody began before the other"
    assert {each.rate_asked_tps for each in running if each.processes == 2} == {150.0}
    total = whole(load.intervals)
    assert [work.clients for work in total.work] == [3, 2]
    assert sum(work.commits for work in total.work) == total.commits
    assert all(work.commits for work in total.work)
    # What the killed one did since its last interval is all that nobody counted.
    assert total.commits <= await primary.rows()


def noted(run: Path) -> RunLog:
    return read_run((str(file), file.read_bytes()) for file in sorted(run.glob("*.log")))


async def counted_losses(
    primary: Primary, run: Path, *, is_whole: bool = True
) -> tuple[RunLog, Rows, LossLedger]:
    """What the clients of one run noted, its rows on the primary, and the account of both: no row is lost,
    and none is there that no client sent."""
    log = await asyncio.to_thread(noted, run)
    async with primary.sql() as sql:
        rows = await ask(sql, (await probe(sql)).ledger_rows(int(run.name)), deadline_s=60)
    ledger = count_losses(log, {"db1": rows}, "db1", executed={})
    assert ledger.lost == 0
    assert ledger.failed == 0 or not is_whole
    assert ledger.nodes["db1"].rows == ledger.acknowledged + ledger.unknown_present
    return log, rows, ledger


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

    await primary.until_sessions(0)
    log, rows, ledger = await counted_losses(primary, run, is_whole=False)
    assert ledger.acknowledged > clients
    assert ledger.unknown <= clients
    for client, spans in rows.items():
        assert without(spans, log.clients[client].attempted) == ()


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
    _, _, ledger = await counted_losses(primary, run)
    assert ledger.unknown <= 8, "nothing was sent that is not noted"


async def test_a_table_that_was_emptied_at_its_bound_is_no_loss(
    primary: Primary, load: Watched, client_logs: FileClientLogs
) -> None:
    run = Path(await client_logs.new_run(unclaimed))
    # As many rows as take some intervals: it is not emptied once more while the load ends.
    await load.start(primary, LoadSettings(8, "ledger", ledger=str(run), rows_bound=3000))
    await load.shown(lambda each: each.rows_reset > 0, "the table was emptied")
    await load.shown(lambda each: each.commits > 0, "and the load goes on")
    await load.stop()
    _, _, ledger = await counted_losses(primary, run)
    assert ledger.nodes["db1"].extra == 0 < ledger.acknowledged


async def test_a_table_that_is_emptied_after_the_load_has_ended_is_no_loss(
    primary: Primary, load: Watched, client_logs: FileClientLogs
) -> None:
    """It happened on a busy machine: all rows of a load that ended meanwhile were called lost."""
    run = Path(await client_logs.new_run(unclaimed))
    emptying = "SELECT COUNT(*) FROM performance_schema.processlist WHERE info LIKE 'TRUNCATE%'"
    async with primary.sql() as sql:
        await load.start(primary, LoadSettings(8, "ledger", ledger=str(run), rows_bound=300))
        await load.shown(lambda each: each.commits > 0, "commits")
        await sql.query("BEGIN")
        await sql.query("SELECT COUNT(*) FROM replexplorer.ledger")  # holds the table's metadata lock
        await until(lambda: primary.value(emptying), "the table is to be emptied")
        await load.stop()
        await sql.query("COMMIT")
    await until(lambda: primary.value(emptying), "the server has emptied it", holds=lambda left: not left)
    await counted_losses(primary, run)


async def test_several_processes_note_under_numbers_of_their_own(
    primary: Primary, load: Watched, client_logs: FileClientLogs
) -> None:
    run = Path(await client_logs.new_run(unclaimed))
    await load.start(primary, LoadSettings(70, "ledger", ledger=str(run)))
    await primary.until_sessions(70)
    await load.stop()
    log, _, _ = await counted_losses(primary, run)
    assert len(log.clients) == 70
    assert {client // CLIENTS_A_FILE for client in log.clients} == {0, 1}


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
    try:
        parent.stdin.write(json.dumps(asdict(primary.target)).encode() + b"\n")
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

    await primary.until_sessions(0)


async def test_a_stopped_app_neither_stops_commits_nor_loses_any(primary: Primary) -> None:
    async with a_parent(primary) as (parent, _):
        assert parent.stdout is not None
        os.kill(parent.pid, signal.SIGSTOP)
        before = await primary.rows()
        # Intervals of 10 ms fill the pipe meanwhile.
        await until(primary.rows, "commits go on", holds=lambda now: now > before + 2000, within_s=60)
        os.kill(parent.pid, signal.SIGCONT)
        parent.send_signal(signal.SIGTERM)
        told = int(await asyncio.wait_for(parent.stdout.readline(), 30 * patience()))
    assert told == await primary.rows()


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
