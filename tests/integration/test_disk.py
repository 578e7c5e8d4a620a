"""The fsync shim in front of real servers: what a delay does to commits, true counts, who goes without."""

from __future__ import annotations

import asyncio
import io
import statistics
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from docker.errors import ImageNotFound

from replexplorer.adapters.agent import BridgedAgent
from replexplorer.adapters.docker import images
from replexplorer.adapters.docker.provider import DockerProvider
from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.wire import SetDisk
from replexplorer.formats.paths import shipped
from replexplorer.ports import UpOptions
from tests.integration.conftest import PREFIX, LiveStack, bring_up, ids
from tests.integration.sessions import attached
from tests.turning import turn
from tests.waiting import until

pytestmark = pytest.mark.docker

DELAY_MS = 10.0
COMMITS = 40
TABLE = "replexplorer.fsynced"
SHIM = "/var/lib/replexplorer/tools/fsyncshim.so"


@asynccontextmanager
async def agent_of(live: LiveStack, node: str) -> AsyncIterator[BridgedAgent]:
    """The node's agent; no delay is left behind."""
    agent = BridgedAgent(node, live.stack.open_bridge)
    try:
        yield agent
    finally:
        with suppress(ReplexplorerError):
            await agent.ask(SetDisk(delay_ms=0))
        await agent.close()


@pytest.fixture
async def primary(live_stack: LiveStack) -> AsyncIterator[BridgedAgent]:
    """The primary's agent, and a table to commit into; durability is left as it was."""

    async def run(*statements: str) -> None:
        async with live_stack.session("db1") as cursor:
            for statement in statements:
                await cursor.execute(statement)

    async with agent_of(live_stack, "db1") as agent:
        await run(f"CREATE TABLE IF NOT EXISTS {TABLE} (id INT AUTO_INCREMENT PRIMARY KEY)")
        try:
            yield agent
        finally:
            await agent.ask(SetDisk(delay_ms=0))
            await run("SET GLOBAL sync_binlog = 1, innodb_flush_log_at_trx_commit = 1", f"DROP TABLE {TABLE}")


async def commits_ms(live: LiveStack, count: int = COMMITS) -> list[float]:
    """What each of so many commits of one client took."""
    took_ms = []
    async with live.session("db1") as cursor:
        for _ in range(count):
            began_s = time.perf_counter()
            await cursor.execute(f"INSERT INTO {TABLE} () VALUES ()")
            took_ms.append((time.perf_counter() - began_s) * 1000)
    return took_ms


@pytest.mark.parametrize(
    ("sync_binlog", "flush", "delays"), [(1, 1, 2), (0, 1, 1), (1, 2, 1), (0, 2, 0)],
    ids=["both", "redo only", "binlog only", "none"],
)  # fmt: skip
async def test_a_commit_takes_a_delay_for_each_fsync_that_it_waits_for(
    live_stack: LiveStack, primary: BridgedAgent, sync_binlog: int, flush: int, delays: int
) -> None:
    async with live_stack.session("db1") as cursor:
        await cursor.execute(
            f"SET GLOBAL sync_binlog = {sync_binlog}, innodb_flush_log_at_trx_commit = {flush}"
        )
    await primary.ask(SetDisk(delay_ms=DELAY_MS))
    # What else the machine does can only make a commit slower: the quickest one says how many it waits for.
    assert delays * DELAY_MS <= min(await commits_ms(live_stack)) < (delays + 1) * DELAY_MS
    await primary.ask(SetDisk(delay_ms=0))
    assert min(await commits_ms(live_stack)) < DELAY_MS


async def test_clients_that_commit_together_share_the_delays(
    live_stack: LiveStack, primary: BridgedAgent
) -> None:
    clients, each = 32, 10
    await primary.ask(SetDisk(delay_ms=DELAY_MS))
    alone_ms = statistics.median(await commits_ms(live_stack))
    before = (await primary.disk()).fsyncs["binlog"]
    began_s = time.perf_counter()
    await asyncio.gather(*(commits_ms(live_stack, each) for _ in range(clients)))
    took_ms = (time.perf_counter() - began_s) * 1000
    assert (await primary.disk()).fsyncs["binlog"] - before < clients * each / 2
    assert took_ms < clients * each * alone_ms / 3


async def test_the_counts_are_the_servers_own(live_stack: LiveStack, primary: BridgedAgent) -> None:
    async def counted() -> dict[str, int]:
        statement = (
            "SELECT SUM(count_misc) FROM performance_schema.file_summary_by_event_name"
            " WHERE event_name = 'wait/io/file/{}'"
        )
        files = {"redo": "innodb/innodb_log_file", "binlog": "sql/binlog"}
        return {
            kind: int(await live_stack.value("db1", statement.format(file))) for kind, file in files.items()
        }

    async def both() -> tuple[dict[str, int], dict[str, int], float]:
        began_s = time.monotonic()
        return dict((await primary.disk()).fsyncs), await counted(), time.monotonic() - began_s

    async def redo_file() -> int:
        return int(
            await live_stack.value("db1", "SELECT MAX(file_id) FROM performance_schema.innodb_redo_log_files")
        )

    for _ in range(5):  # the server also counts the opening, sizing and renaming of its next redo log file
        newest = await redo_file()
        shim_before, server_before, one_s = await both()
        await commits_ms(live_stack, 300)
        shim_after, server_after, other_s = await both()
        if await redo_file() == newest:
            break
    for kind in ("redo", "binlog"):
        shim, server = shim_after[kind] - shim_before[kind], server_after[kind] - server_before[kind]
        # The two are not read at one time, and redo is synced once a second besides.
        assert shim == pytest.approx(server, abs=4 + one_s + other_s), kind
        assert shim >= 300


async def test_the_replicas_logs_are_told_apart(live_stack: LiveStack, primary: BridgedAgent) -> None:
    async with agent_of(live_stack, "db2") as replica, live_stack.session("db2") as cursor:
        before = (await replica.disk()).fsyncs
        await cursor.execute("SET GLOBAL sync_relay_log = 1")
        try:
            await commits_ms(live_stack, 50)

            async def has_come() -> bool:
                return (await replica.disk()).fsyncs["relay"] >= before["relay"] + 50

            await until(has_come)
        finally:
            await cursor.execute("SET GLOBAL sync_relay_log = DEFAULT")


async def test_what_mysqld_pays_is_measured_and_the_bare_disk_probed(
    live_stack: LiveStack, primary: BridgedAgent
) -> None:
    bare = await primary.disk(probe=True)
    assert bare.probe is not None
    assert 0 < bare.probe.p50_ms <= bare.probe.p95_ms <= bare.probe.p99_ms
    slowed = await primary.ask(SetDisk(delay_ms=DELAY_MS))
    assert (slowed.delay_ms, slowed.attached, slowed.reason) == (DELAY_MS, True, None)

    async def paid_ms() -> float:
        await commits_ms(live_stack, 10)
        measured_ms = (await primary.disk()).measured_ms
        assert measured_ms is not None
        assert measured_ms >= DELAY_MS
        return measured_ms

    await until(paid_ms, "an fsync takes what was asked", holds=lambda ms: ms < 2 * DELAY_MS)


async def test_a_server_that_was_killed_comes_back_with_the_delay(
    live_stack: LiveStack, primary: BridgedAgent
) -> None:
    await primary.ask(SetDisk(delay_ms=DELAY_MS))
    fsyncs = (await primary.disk()).fsyncs
    server = live_stack.stack.server_process("db1")
    await server.kill()
    try:
        down = await primary.disk()
        assert (down.attached, down.reason, down.delay_ms) == (False, "the server is down", DELAY_MS)
        with pytest.raises(ReplexplorerError, match="the server is down"):
            await primary.ask(SetDisk(delay_ms=5))
    finally:
        await server.start()
        await live_stack.ready()
    again = await primary.disk()
    assert (again.attached, again.delay_ms) == (True, DELAY_MS)
    assert again.fsyncs["redo"] > fsyncs["redo"]
    assert statistics.median(await commits_ms(live_stack)) >= 2 * DELAY_MS


@pytest.fixture
def foreign(docker_client: Any) -> Iterator[Callable[[str], str]]:
    """Images made of ours without its datadir and configuration, and with what a test adds."""
    names: list[str] = []

    def build(more: str) -> str:
        base = images.ensure([images.MYSQL], shipped("compose"), lambda *_: None)["mysqld"]
        names.append(f"{PREFIX}/foreign:{len(names)}")
        text = f"FROM {base}\nUSER root\nRUN rm -rf /var/lib/replexplorer /etc/mysql\n{more}"
        said = list(
            docker_client.build(fileobj=io.BytesIO(text.encode()), tag=names[-1], rm=True, decode=True)
        )
        assert not any("error" in event for event in said), said[-3:]
        return names[-1]

    yield build
    for name in names:
        with suppress(ImageNotFound):
            docker_client.remove_image(name, force=True)


async def test_any_image_gets_the_shim_beside_what_it_preloads_itself(
    own_stack: DockerProvider, docker_client: Any, foreign: Callable[[str], str]
) -> None:
    live = await bring_up(own_stack, UpOptions(image=foreign("ENV LD_PRELOAD=libm.so.6\n")))
    for node in ("db1", "db2"):
        async with agent_of(live, node) as agent:
            assert (await agent.ask(SetDisk(delay_ms=1))).delay_ms == 1
            assert (await agent.disk()).fsyncs["redo"] > 0
    server = ids(docker_client, own_stack.name)["db1", "mysqld"]
    made = docker_client.exec_create(server, ["cat", "/proc/1/environ"])
    environment = docker_client.exec_start(made["Id"]).decode().split("\0")
    assert f"LD_PRELOAD=libm.so.6:{SHIM}" in environment


async def test_an_image_that_goes_without_the_shim_runs_and_says_so(
    own_stack: DockerProvider, foreign: Callable[[str], str]
) -> None:
    wrapped = foreign(
        "RUN mkdir /opt/real && mv /usr/sbin/mysqld /opt/real/mysqld"
        " && printf '#!/bin/sh\\nunset LD_PRELOAD\\nexec /opt/real/mysqld \"$@\"\\n' > /usr/sbin/mysqld"
        " && chmod 755 /usr/sbin/mysqld\n"
    )
    live = await bring_up(own_stack, UpOptions(image=wrapped))
    async with agent_of(live, "db1") as agent:
        state = await agent.disk()
        assert (state.attached, state.reason) == (False, "the server runs without the fsync shim")
        assert (state.delay_ms, state.measured_ms) == (None, None)
        for attempt in (agent.ask(SetDisk(delay_ms=5)), agent.disk(probe=True)):
            with pytest.raises(ReplexplorerError, match="runs without the fsync shim"):
                await attempt


async def test_the_binlog_alone_can_be_slow_and_its_delay_varies(
    live_stack: LiveStack, primary: BridgedAgent
) -> None:
    await primary.ask(SetDisk(redo_delay_ms=0.0, binlog_delay_ms=DELAY_MS, jitter_ms=DELAY_MS / 4))
    try:
        took_ms = await commits_ms(live_stack)
        assert statistics.median(took_ms) > 0.7 * DELAY_MS
        assert (await primary.disk()).measured_by_kind_ms["binlog"] > 0.8 * DELAY_MS
        assert statistics.stdev(took_ms) > DELAY_MS / 10

        async def paid_ms() -> Mapping[str, float]:
            await commits_ms(live_stack)
            return (await primary.disk()).measured_by_kind_ms

        # While others use the disk, a redo fsync without a delay can take as long: until they do not.
        await until(paid_ms, holds=lambda paid: paid["binlog"] > paid["redo"] + 0.5 * DELAY_MS)
    finally:
        state = await primary.ask(SetDisk(redo_delay_ms="auto", binlog_delay_ms="auto", jitter_ms=0.0))
    assert (state.redo_delay_ms, state.binlog_delay_ms, state.jitter_ms) == ("auto", "auto", 0.0)


async def test_sizes_and_threads_of_a_running_server_change_and_go_back(live_stack: LiveStack) -> None:
    wanted = {
        "innodb_buffer_pool_size": 16 << 20,
        "innodb_redo_log_capacity": 32 << 20,
        "innodb_log_writer_threads": "on",
        "replication_sender_observe_commit_only": "on",
        "replication_optimize_for_static_plugin_config": "on",
    }
    async with attached(live_stack) as session:
        result = await turn(session, *(f"{key}={value}" for key, value in wanted.items()))
        assert {change.name.key: change.effective for change in result.changed} == wanted
        async with live_stack.session("db1") as cursor:
            await cursor.execute("SELECT @@innodb_buffer_pool_size")
            assert await cursor.fetchone() == (16 << 20,)
            await cursor.execute("SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_resize_status_code'")
            assert (await cursor.fetchone())[1] == "0"
    async with live_stack.session("db1") as cursor:
        await cursor.execute("SELECT @@innodb_buffer_pool_size, @@innodb_log_writer_threads")
        assert await cursor.fetchone() == (128 << 20, "OFF")
