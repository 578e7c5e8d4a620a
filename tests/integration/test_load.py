"""The load on a real primary: what it counts is what the server has."""

import asyncio
import contextlib
import itertools
import json
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import pytest

from replexplorer.adapters.docker_stack import DockerStack
from replexplorer.adapters.load_process import LoadChild
from replexplorer.adapters.mysql import ControlConnection, connect_address
from replexplorer.core.errors import ReplexplorerError, ServerRefused, ServerUnreachable
from replexplorer.core.interval import Interval
from replexplorer.ports import Credentials, LoadSettings, LoadTarget, NodeAddress, UpOptions

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
            "primary",
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


async def until(condition: Callable[[], Awaitable[bool]], what: str, deadline_s: float = 20) -> None:
    """Wait for a condition on the outside world."""
    end_s = time.monotonic() + deadline_s
    while not await condition():
        if time.monotonic() > end_s:
            pytest.fail(f"not within {deadline_s:g} s: {what}")
        await asyncio.sleep(0.02)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Primary]:
    """A stack of our own: these tests kill its primary."""
    states = pytest.MonkeyPatch()
    states.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))

    async def up() -> Primary:
        live = DockerStack(STACK)
        try:
            await live.up(UpOptions(), lambda text, done: None)
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
        live = DockerStack(STACK)
        await live.down()
        await live.close()

    try:
        yield asyncio.run(up())
    finally:
        asyncio.run(down())
        states.undo()


@pytest.fixture
async def primary(stack: Primary) -> Primary:
    """The primary, answering and writable."""

    async def answers() -> bool:
        try:
            return bool(await stack.value("SELECT 1"))
        except ServerUnreachable:
            return False

    await until(answers, "the primary answers", deadline_s=60)
    async with stack.sql() as sql:
        await sql.query("SET GLOBAL super_read_only = OFF")
        await sql.query("SET GLOBAL read_only = OFF")
    return stack


class Watched:
    """A load whose intervals are kept as they come."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.child = LoadChild(lambda text, done: self.told.append(text))
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

        await until(met, what, deadline_s)
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
    assert not load.child.pid


async def test_little_s_law_holds(primary: Primary, load: Watched) -> None:
    await load.start(primary, LoadSettings(4, "update_index"))
    await load.shown(lambda each: each.connected == 4, "all clients are there")
    began = len(load.intervals)
    for _ in range(10):
        await load.shown(lambda each: each.commits > 0, "commits")
    whole = load.intervals[began]
    for each in load.intervals[began + 1 :]:
        whole = whole.followed_by(each)
    assert whole.service.mean_ms is not None
    assert whole.tps * whole.service.mean_ms / 1000 == pytest.approx(4, rel=0.15)


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
            await LoadChild().start(primary.target, LoadSettings(2, "update_index"), interval_s=INTERVAL_S)
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
        server = client.containers.get(f"replexplorer-{STACK}-primary")
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


async def test_wrong_targets_are_one_clear_line(primary: Primary) -> None:
    target = primary.target
    wrong = LoadTarget(target.host, target.port, target.user, "not-this-word", target.path)
    nobody = LoadTarget("127.0.0.1", 1, target.user, target.password, "published")
    for each in (wrong, nobody):
        with pytest.raises(ServerUnreachable) as caught:
            await LoadChild().start(each, LoadSettings(1, "foo"), interval_s=INTERVAL_S)
        assert "\n" not in str(caught.value)
        assert each.password not in str(caught.value)


async def test_the_password_is_nowhere_to_be_read(primary: Primary, load: Watched) -> None:
    await load.start(primary, LoadSettings(1, "foo"))
    process = Path(f"/proc/{load.child.pid}")
    for name in ("cmdline", "environ"):
        content = await asyncio.to_thread((process / name).read_bytes)
        assert primary.target.password.encode() not in content


PARENT = """
import asyncio, json, signal, sys
from replexplorer.adapters.load_process import LoadChild
from replexplorer.ports import LoadSettings, LoadTarget

async def main():
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    child = LoadChild()
    target = LoadTarget(**json.loads(sys.stdin.readline()))
    await child.start(target, LoadSettings(2, "insert"), interval_s=0.01)
    print(child.pid, flush=True)
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
        pid = int(await asyncio.wait_for(parent.stdout.readline(), 30))
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

        await until(gone, "the load is gone", deadline_s=5)
        assert time.monotonic() - killed_s < 1

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

        await until(many_more, "commits go on", deadline_s=60)
        os.kill(parent.pid, signal.SIGCONT)
        parent.send_signal(signal.SIGTERM)
        told = int(await asyncio.wait_for(parent.stdout.readline(), 30))
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

        await until(again, "a new connection", deadline_s=5)
        with pytest.raises(ServerRefused) as caught:
            await sql.query("SET GLOBAL no_such_variable = 1")
        assert caught.value.number == 1193
