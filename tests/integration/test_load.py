"""The load on a real primary: what it counts is what the server has."""

import asyncio
import contextlib
import itertools
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import pytest

from replexplorer.adapters.load import LoadGroup, LoadPlace
from replexplorer.adapters.mysql import ControlConnection, connect_address
from replexplorer.core.errors import ReplexplorerError, ServerUnreachable, UsageError
from replexplorer.core.load.interval import Interval
from replexplorer.core.load.workload import WORKLOADS
from replexplorer.core.loss.client_log import Rows, RunLog, read_run
from replexplorer.core.loss.ledger import LossLedger, count_losses
from replexplorer.core.server.gtid import without
from replexplorer.core.stats.histogram import slot_middle_us
from replexplorer.engine.observe.samples import probe
from replexplorer.ports import LoadSettings, LoadTarget, ask
from tests.integration.conftest import LiveStack
from tests.known import known
from tests.waiting import until

pytestmark = pytest.mark.docker

INTERVAL_S = 0.1
RUNS = itertools.count(900_000)


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


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The directory of a client log, whose name is the number of its run: one that no other test has."""
    directory = tmp_path / str(next(RUNS))
    directory.mkdir()
    return directory


@pytest.fixture
async def primary(live_stack: LiveStack) -> Primary:
    """The primary, answering and writable, without rows of loads before."""
    await live_stack.ready()
    async with live_stack.session("db1") as cursor:
        for statement in (
            "SET GLOBAL super_read_only = OFF",
            "SET GLOBAL read_only = OFF",
            "DROP TABLE IF EXISTS replexplorer.sbtest1, replexplorer.sbtest2",
        ):
            await cursor.execute(statement)
    address, accounts = await connect_address(await live_stack.node("db1")), live_stack.credentials
    return Primary(
        live_stack,
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


async def test_a_table_that_fits_is_reused_and_one_of_another_size_or_unfinished_is_made_again(
    primary: Primary,
) -> None:
    rows = "SELECT CONCAT_WS(' ', COUNT(*), MIN(id), MAX(id), MIN(LENGTH(c)), MIN(LENGTH(pad)))"
    for size, is_made in ((2500, True), (2500, False), (30_000, True), (30_000, False)):
        if size == 30_000 and is_made:
            await half_fill(primary, size)
        said = await prepared(primary, LoadSettings(0, "update_index", table_size=size))
        assert bool(said) is is_made
        assert await primary.value(f"{rows} FROM replexplorer.sbtest1") == f"{size} 1 {size} 119 59"


async def prepared(primary: Primary, settings: LoadSettings) -> list[str]:
    """Have the table of a load; what was said of its making."""
    load = Watched()
    try:
        await load.start(primary, settings)
    finally:
        await load.stop()
    return load.told


async def half_fill(primary: Primary, size: int) -> None:
    """Begin a load and give it up while its table is filled."""
    filling = asyncio.Event()

    def tell(text: str, done: float | None = None) -> None:
        if 0 < (done or 0.0) < 1:
            filling.set()

    settings = LoadSettings(1, "update_index", table_size=size)
    starting = asyncio.create_task(LoadGroup(tell).start(primary.target, settings, interval_s=INTERVAL_S))
    await filling.wait()
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    assert await primary.value("SELECT COUNT(*) FROM replexplorer.sbtest1") < size


async def test_a_payload_comes_at_once_and_leaves_with_its_column(primary: Primary, load: Watched) -> None:
    plain, size = LoadSettings(2, "insert"), 200_000
    await load.start(primary, plain)
    await load.child.change(replace(plain, payload_bytes=size))
    # An interval may have ended with what was committed before the change.
    longest = "SELECT MAX(LENGTH(payload)) FROM replexplorer.sbtest2"
    await until(lambda: primary.value(longest), "the payload is there", holds=lambda found: found == size)
    await load.child.change(plain)
    await load.shown(lambda each: each.commits > 0, "commits without it")
    assert not await primary.value(
        "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = 'replexplorer' "
        "AND table_name = 'sbtest2' AND column_name = 'payload'"
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
        LoadSettings(2, "insert", mode="open", rate_tps=50.0),
        LoadSettings(2, "read_write", mode="open", rate_tps=20.0),
        LoadSettings(2, "update_index"),
    ):
        await load.child.change(settings)

        def runs_so(each: Interval, asked: LoadSettings = settings) -> bool:
            return (each.workload, each.mode) == (asked.workload, asked.mode) and each.commits > 0

        await load.shown(runs_so, str(settings))
        assert await primary.sessions() == two
    await load.child.change(LoadSettings(2, "update_index", fresh_sessions=1))
    await until(primary.sessions, "others", holds=lambda now: len(now) == 2 and not now & two)
    await load.child.change(LoadSettings(0, "insert"))
    await primary.until_sessions(0)
    total = whole(load.intervals)
    assert total.errors == total.unknown == 0
    assert total.arrivals == total.response.count + total.dropped
    assert total.response.count < total.commits


async def test_a_read_only_primary_refuses_and_is_named(primary: Primary, load: Watched) -> None:
    await load.start(primary, LoadSettings(2, "update_index"))
    async with primary.sql() as sql:
        await sql.query("SET GLOBAL super_read_only = ON", deadline_s=20)
        refused = await load.shown(lambda each: each.errors > 0, "errors")
        assert known(refused.fault).startswith("1290 ")
        # It backs off: nobody is helped by thousands of refusals a second.
        later = await load.shown(lambda each: each.commits == 0 and each.errors > 0, "refusals only")
        assert later.errors <= 40
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
    await prepared(primary, LoadSettings(0, workload))  # the table is there before commits are counted
    before = await binlog_commits(primary)
    await load.start(primary, LoadSettings(3, workload))
    await load.shown(lambda each: each.commits > 0, "commits")
    total = whole(await load.stop())
    counted = await binlog_commits(primary) - before
    assert total.errors == total.unknown == total.lock_timeouts == 0
    if workload == "point_select":
        assert counted == 0
    else:
        assert total.commits <= counted <= total.commits + total.deadlocks


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


async def test_deadlocks_and_locks_that_are_held_too_long_are_tried_again_and_are_no_errors(
    primary: Primary, load: Watched
) -> None:
    crowded = LoadSettings(8, "write_only", table_size=1000, key_spread=3)
    async with primary.sql() as sql:
        await sql.query("SET GLOBAL innodb_lock_wait_timeout = 1")
        try:
            await load.start(primary, crowded)
            await load.shown(lambda each: each.deadlocks > 0, "a deadlock", 60)
            await load.child.change(replace(crowded, clients=2, key_spread=1))
            await sql.query("BEGIN")
            await sql.query("UPDATE replexplorer.sbtest1 SET k = k + 1 WHERE id = 1")
            waited = await load.shown(lambda each: each.lock_timeouts > 0, "a lock timeout")
            assert known(waited.fault).startswith("1205 ")
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


async def counted_losses(primary: Primary, run: Path) -> tuple[RunLog, Rows, LossLedger]:
    """What the clients of one run noted, its rows on the primary, and the account of both: no row is lost,
    and none is there that no client sent."""
    log = await asyncio.to_thread(
        lambda: read_run((str(file), file.read_bytes()) for file in sorted(run.glob("*.log")))
    )
    async with primary.sql() as sql:
        rows = await ask(sql, (await probe(sql)).ledger_rows(int(run.name)), deadline_s=60)
    ledger = count_losses(log, {"db1": rows}, "db1", executed={})
    assert ledger.lost == 0
    assert ledger.nodes["db1"].rows == ledger.acknowledged + ledger.unknown_present
    return log, rows, ledger


async def test_the_log_of_a_load_that_was_killed_has_every_row(
    primary: Primary, load: Watched, run: Path
) -> None:
    """kill -9 between the statement and its reply, with many clients: a row may be there that its client
    never heard of, and none that it did not mean to write; none that it heard of is missing."""
    clients = 64
    await load.start(primary, LoadSettings(clients, "ledger", ledger=str(run)))
    for name in ("cmdline", "environ"):
        shown = await asyncio.to_thread(Path(f"/proc/{load.child.pids[0]}/{name}").read_bytes)
        assert primary.target.password.encode() not in shown
    await load.shown(lambda each: each.commits > clients, "each has committed")
    os.kill(load.child.pids[0], signal.SIGKILL)
    with pytest.raises(ReplexplorerError, match="signal 9"):
        await load.end()
    await primary.until_sessions(0)
    log, rows, ledger = await counted_losses(primary, run)
    assert ledger.acknowledged > clients
    assert ledger.unknown <= clients
    for client, spans in rows.items():
        assert without(spans, log.clients[client].attempted) == ()


async def test_a_table_that_is_emptied_after_the_load_has_ended_is_no_loss(
    primary: Primary, load: Watched, run: Path
) -> None:
    """It happened on a busy machine: all rows of a load that ended meanwhile were called lost."""
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
    _, _, ledger = await counted_losses(primary, run)
    assert ledger.nodes["db1"].extra == ledger.failed == 0


async def test_a_call_past_its_deadline_does_not_spoil_the_next(primary: Primary) -> None:
    async with primary.sql() as sql:
        with pytest.raises(ServerUnreachable, match="did not answer within"):
            await sql.query("SELECT SLEEP(5)", deadline_s=0.2)
        assert await sql.query("SELECT 7 AS n") == [{"n": 7}]
        waiting = asyncio.create_task(sql.query("SELECT SLEEP(5)"))
        sleeps = "SELECT COUNT(*) FROM performance_schema.processlist WHERE info = 'SELECT SLEEP(5)'"
        await until(lambda: primary.value(sleeps), "the statement runs")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await sql.query("SELECT 8 AS n") == [{"n": 8}]
        async with primary.sql() as other:
            [row] = await sql.query("SELECT CONNECTION_ID() AS id")
            await other.query(f"KILL {row['id']}")

        async def again() -> Sequence[Mapping[str, Any]]:
            with contextlib.suppress(ReplexplorerError):
                return await sql.query("SELECT 9 AS n")
            return []

        await until(again, "a new connection", holds=lambda rows: rows == [{"n": 9}], within_s=5)
