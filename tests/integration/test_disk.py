"""The fsync shim in front of real servers: what a delay does to commits, true counts, who goes without."""

from __future__ import annotations

import io
import statistics
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from replexplorer.adapters.agent import BridgedAgent
from replexplorer.adapters.docker import images
from replexplorer.adapters.docker.provider import DockerProvider
from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.wire import SetDisk
from replexplorer.formats.paths import shipped
from replexplorer.ports import UpOptions
from tests.integration.conftest import PREFIX, LiveStack, bring_up, ids, quiet
from tests.known import known
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


async def test_a_commit_takes_a_delay_for_each_fsync_that_it_waits_for(
    live_stack: LiveStack, primary: BridgedAgent
) -> None:
    for sync_binlog, flush, delays in ((1, 1, 2), (0, 1, 1), (1, 2, 1), (0, 2, 0)):
        async with live_stack.session("db1") as cursor:
            await cursor.execute(
                f"SET GLOBAL sync_binlog = {sync_binlog}, innodb_flush_log_at_trx_commit = {flush}"
            )
        await primary.ask(SetDisk(delay_ms=DELAY_MS))
        # What else the machine does can only make a commit slower: the quickest says how many it waits for.
        assert delays * DELAY_MS <= min(await commits_ms(live_stack)) < (delays + 1) * DELAY_MS
    await primary.ask(SetDisk(delay_ms=0))
    assert min(await commits_ms(live_stack)) < DELAY_MS


async def test_the_counts_are_the_servers_own(live_stack: LiveStack, primary: BridgedAgent) -> None:
    statement = (
        "SELECT SUM(count_misc) FROM performance_schema.file_summary_by_event_name"
        " WHERE event_name = 'wait/io/file/sql/binlog'"
    )

    async def both() -> tuple[int, int]:
        return (await primary.disk()).fsyncs["binlog"], int(await live_stack.value("db1", statement))

    before = await both()
    await commits_ms(live_stack, 300)
    shim, server = (now - then for now, then in zip(await both(), before, strict=True))
    assert shim == pytest.approx(server, abs=6), "the two are not read at one time"
    assert shim >= 300


async def test_the_replicas_logs_are_told_apart(live_stack: LiveStack, primary: BridgedAgent) -> None:
    async with agent_of(live_stack, "db2") as replica, live_stack.session("db2") as cursor:
        before = (await replica.disk()).fsyncs
        await cursor.execute("SET GLOBAL sync_relay_log = 1")
        try:
            await commits_ms(live_stack, 50)
            await until(replica.disk, holds=lambda disk: disk.fsyncs["relay"] >= before["relay"] + 50)
        finally:
            await cursor.execute("SET GLOBAL sync_relay_log = DEFAULT")


async def test_what_mysqld_pays_is_measured_by_kind_and_the_bare_disk_probed(
    live_stack: LiveStack, primary: BridgedAgent
) -> None:
    bare = known((await primary.disk(probe=True)).probe)
    assert 0 < bare.p50_ms <= bare.p95_ms <= bare.p99_ms
    slowed = await primary.ask(SetDisk(redo_delay_ms=0.0, binlog_delay_ms=DELAY_MS, jitter_ms=DELAY_MS / 4))
    assert (slowed.attached, slowed.reason) == (True, None)

    async def paid_ms() -> Mapping[str, float]:
        took_ms = await commits_ms(live_stack)
        assert statistics.median(took_ms) > 0.7 * DELAY_MS
        assert statistics.stdev(took_ms) > DELAY_MS / 10
        return (await primary.disk()).measured_by_kind_ms

    # While others use the disk, a redo fsync without a delay can take as long: until they do not.
    await until(paid_ms, holds=lambda paid: 0.8 * DELAY_MS < paid["binlog"] > paid["redo"] + 0.5 * DELAY_MS)
    await primary.ask(SetDisk(redo_delay_ms="auto", binlog_delay_ms="auto", jitter_ms=0.0))


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
def foreign(docker_client: Any) -> Iterator[str]:
    """An image made of ours without its datadir and configuration, which preloads a library of its own."""
    name = f"{PREFIX}/foreign:1"
    base = images.ensure([images.MYSQL], shipped("compose"), quiet)["mysqld"]
    text = f"FROM {base}\nUSER root\nRUN rm -rf /var/lib/replexplorer /etc/mysql\nENV LD_PRELOAD=libm.so.6\n"
    list(docker_client.build(fileobj=io.BytesIO(text.encode()), tag=name, rm=True))
    yield name
    docker_client.remove_image(name, force=True)


async def test_any_image_gets_the_shim_beside_what_it_preloads_itself(
    own_stack: DockerProvider, docker_client: Any, foreign: str
) -> None:
    live = await bring_up(own_stack, UpOptions(image=foreign))
    for node in ("db1", "db2"):
        async with agent_of(live, node) as agent:
            assert (await agent.ask(SetDisk(delay_ms=1))).delay_ms == 1
            assert (await agent.disk()).fsyncs["redo"] > 0
    server = ids(docker_client, own_stack.name)["db1", "mysqld"]
    made = docker_client.exec_create(server, ["cat", "/proc/1/environ"])
    environment = docker_client.exec_start(made["Id"]).decode().split("\0")
    assert f"LD_PRELOAD=libm.so.6:{SHIM}" in environment
