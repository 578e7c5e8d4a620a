"""Stacks on a real daemon: made, mended, added to, taken down, by the app and by Compose alone."""

from __future__ import annotations

import asyncio
import json
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import asyncmy
import pytest

from replexplorer.adapters.docker import build, provider
from replexplorer.adapters.docker.hosts import Daemons
from replexplorer.adapters.docker.inventory import remove_everywhere, take
from replexplorer.adapters.docker.provider import DockerProvider
from replexplorer.core.errors import MissingPiece, StackUnavailable, UsageError
from replexplorer.ports import UpOptions
from tests.documents import document
from tests.integration.conftest import PREFIX, LiveStack, bring_up, ids, quiet, take_down
from tests.typed import table_of
from tests.waiting import patience, until

pytestmark = pytest.mark.docker

INSTRUMENTS = (
    "wait/synch/cond/semisync/COND_binlog_send_",
    "wait/synch/mutex/sql/MYSQL_BIN_LOG::LOCK_commit",
    "wait/synch/mutex/sql/MYSQL_BIN_LOG::LOCK_log",
    "wait/synch/mutex/sql/MYSQL_BIN_LOG::LOCK_sync",
    "wait/synch/mutex/sql/MYSQL_BIN_LOG::LOCK_after_commit",
    "wait/synch/cond/sql/MYSQL_BIN_LOG::COND_done",
    "wait/io/file/sql/binlog",
    "wait/io/file/innodb/innodb_log_file",
    "stage/sql/waiting for handler commit",
    "stage/semisync/Waiting for semi-sync ACK from replica",
    "idle",
)


async def test_replicates_and_is_set_up_as_the_labs_need(live_stack: LiveStack) -> None:
    async with live_stack.session("db1", dsn=True) as cursor:
        await cursor.execute("CREATE DATABASE IF NOT EXISTS theirs")
        await cursor.execute("CREATE TABLE theirs.t (id INT PRIMARY KEY)")
        await cursor.execute("INSERT INTO theirs.t VALUES (7)")
        assert await until(lambda: live_stack.value("db2", "SELECT id FROM theirs.t")) == 7
        await cursor.execute("DROP DATABASE theirs")
    instruments = (
        "SELECT COUNT(*) FROM performance_schema.setup_instruments"
        f" WHERE enabled = 'YES' AND timed = 'YES' AND name IN {INSTRUMENTS}"
    )
    databases = (
        "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name IN ('replexplorer', 'sandbox')"
    )
    settings = "SELECT CONCAT_WS(' ', @@time_zone, @@super_read_only, @@rpl_semi_sync_{}_enabled)"
    for node, role, so in (("db1", "source", "+00:00 0 0"), ("db2", "replica", "+00:00 1 1")):
        assert await live_stack.value(node, instruments) == len(INSTRUMENTS), node
        assert await live_stack.value(node, databases) == 2
        assert await live_stack.value(node, settings.format(role)) == so


async def test_the_dsn_account_may_what_the_contract_says(live_stack: LiveStack) -> None:
    async with live_stack.session("db1", dsn=True) as cursor:
        await cursor.execute("SET GLOBAL sync_binlog = @@GLOBAL.sync_binlog")
        await cursor.execute("FLUSH NO_WRITE_TO_BINLOG STATUS")
        await cursor.execute("SELECT COUNT(*) FROM performance_schema.threads")
        await cursor.execute("SHOW REPLICAS")
        assert len(await cursor.fetchall()) == 1
        with pytest.raises(asyncmy.errors.Error):
            await cursor.execute("UPDATE mysql.user SET account_locked = 'Y' WHERE user = 'replexplorer'")
    async with live_stack.session("db2", dsn=True) as cursor:
        await cursor.execute("STOP REPLICA")
        await cursor.execute("START REPLICA")
        with pytest.raises(asyncmy.errors.Error, match="1290"):
            await cursor.execute("CREATE DATABASE errant")
    await live_stack.ready()


async def test_passwords_are_nowhere_to_be_read(live_stack: LiveStack, docker_client: Any) -> None:
    """Neither where Docker shows a container, nor where its server's start had them."""
    passwords = [live_stack.credentials.control_password, live_stack.credentials.dsn_password]
    left = "cat /dev/shm/*.sql /proc/1/cmdline /proc/1/environ; dd if=/proc/1/fd/9 iflag=nonblock"
    for container in take(docker_client, live_stack.stack.name).containers:
        shown = json.dumps(docker_client.inspect_container(container.id))
        shown += json.dumps(docker_client.top(container.id, "-o pid,args"))
        shown += docker_client.logs(container.id).decode(errors="replace")
        if container.role == "mysqld":
            made = docker_client.exec_create(container.id, ["sh", "-c", left], user="999:999")
            read = docker_client.exec_start(made["Id"]).decode(errors="replace")
            assert "--init-file=/dev/fd/9" in read
            assert "IDENTIFIED" not in read
            shown += read
        assert not any(password in shown for password in passwords)
    assert stat.S_IMODE(live_stack.stack.accounts_file.stat().st_mode) == 0o600


HURTS = """\
true                                      |
docker kill {db1} {db2}                   |
docker kill {db2}-net                     |
docker rm -f {db1}-net                    | db1 mysqld db1 sidecar
docker restart -t 0 {db2}-net             |
docker network disconnect {net} {db2}-net | db2 mysqld db2 sidecar
docker rm -f -v {db1}                     | db1 mysqld"""
"""What is done with Docker, and which containers `up` makes again. After a restart of a sidecar all runs, but
the server is in the namespace of its former life; off the network it has no address."""


@pytest.mark.parametrize(("hurt", "made_again"), table_of(HURTS))
async def test_up_brings_a_stack_back_with_its_rows_and_makes_no_more_than_it_must(
    live_stack: LiveStack, docker_client: Any, hurt: str, made_again: str
) -> None:
    stack, before = live_stack.stack, ids(docker_client, live_stack.stack.name)
    (network,) = take(docker_client, stack.name).networks
    async with live_stack.session("db1") as cursor:
        await cursor.execute("CREATE TABLE IF NOT EXISTS sandbox.kept (id SERIAL)")
        await cursor.execute("INSERT INTO sandbox.kept () VALUES ()")
    count = "SELECT COUNT(*) FROM sandbox.kept"
    rows = await live_stack.value("db1", count)
    names = {node: f"replexplorer-{stack.name}-{node}" for node in ("db1", "db2")}
    command = hurt.format(net=network["Name"], **names).split()
    await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True)
    assert await stack.up(UpOptions(), quiet) is False
    await live_stack.ready()
    after = ids(docker_client, stack.name)
    assert " ".join(" ".join(key) for key in before if before[key] != after[key]) == made_again
    for node in names:
        await until(partial(live_stack.value, node, count), "every row", holds=lambda has: has == rows)


SUBNET = "10.213.77.0/28"


@pytest.fixture(scope="module")
def rough(docker_client: Any, state_home: Path) -> Iterator[DockerProvider]:
    """A stack that the tests below break and repair: each takes it as the one before has left it."""
    stack = DockerProvider(f"{PREFIX}-rough", subnet=SUBNET)
    try:
        yield stack
    finally:
        asyncio.run(take_down(stack))


async def test_two_ups_at_once_are_one(rough: DockerProvider) -> None:
    other, asked = DockerProvider(rough.name, subnet=SUBNET), UpOptions(replicas=2)
    made = await asyncio.gather(rough.up(asked, quiet), other.up(asked, quiet))
    await other.close()
    assert sorted(made) == [False, True]
    own = LiveStack(rough, await rough.credentials())
    await own.ready()
    nodes = await rough.nodes()
    assert [str(node.address).rpartition(".")[0] for node in nodes] == ["10.213.77"] * 3
    assert [await own.value(node.name, "SELECT @@server_id") for node in nodes] == [1, 2, 3]


async def test_a_port_or_subnet_that_is_taken_leaves_all_as_it_was(
    rough: DockerProvider, docker_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = await bring_up(rough, UpOptions())
    before = ids(docker_client, rough.name), len(take(docker_client, rough.name).volumes)
    second = DockerProvider(f"{PREFIX}-second", subnet=SUBNET)
    with pytest.raises(MissingPiece, match="subnet"):
        await second.up(UpOptions(), quiet)
    await second.close()
    assert take(docker_client, second.name).empty
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(build, "PUBLISHED", taken.getsockname())
        with pytest.raises(MissingPiece, match="port is in use"):
            await rough.up(UpOptions(replicas=3), quiet)
    assert (ids(docker_client, rough.name), len(take(docker_client, rough.name).volumes)) == before
    await own.ready()


async def test_two_stacks_are_compared_in_turns(live_stack: LiveStack, rough: DockerProvider) -> None:
    own = await bring_up(rough, UpOptions())
    assert {rough.name, live_stack.stack.name} <= set(await provider.stack_names())
    assert own.credentials.control_password != live_stack.credentials.control_password
    options = "--duration 4 --turns 2 --warmup 1 --json"
    words = ("compare", live_stack.stack.name, rough.name, *options.split())
    ran = await asyncio.to_thread(
        subprocess.run, [sys.executable, "-m", "replexplorer", *words], capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    found = document(ran.stdout)
    assert (found.a.name, found.b.name) == (live_stack.stack.name, rough.name)
    for side in (found.a, found.b):
        assert side.figures.n > 0
        assert 2.5 <= side.figures.length_s <= 6.0
        assert side.protection == "off"
        assert side.server.startswith("mysql ")
    assert (found.turns, found.changes) == (2, [])


async def test_a_half_made_stack_is_finished_as_asked_and_goes_though_two_users_remove_it_at_once(
    rough: DockerProvider, docker_client: Any
) -> None:
    """Each of the two has a lock of his own: they meet at the daemon."""
    own = await bring_up(rough, UpOptions())
    with pytest.raises(UsageError, match="only grows"):
        await rough.up(UpOptions(replicas=1), quiet)
    with pytest.raises(UsageError, match="runs the image"):
        await rough.up(UpOptions(image="debian:other"), quiet)

    for key, container in ids(docker_client, rough.name).items():
        if key[0] != "db1":
            docker_client.remove_container(container, force=True, v=True)
    for volume in take(docker_client, rough.name).volumes:
        if volume["Labels"].get("dev.replexplorer.node") == "db3":
            docker_client.remove_volume(volume["Name"])
    assert await rough.up(UpOptions(), quiet) is False
    await own.ready()
    assert len(await rough.nodes()) == 3

    began_s = time.perf_counter()
    await asyncio.gather(*(asyncio.to_thread(_remove, rough.name) for _ in range(2)))
    assert time.perf_counter() - began_s < 10 * patience()
    assert take(docker_client, rough.name).empty
    assert await rough.down() == 0
    with pytest.raises(StackUnavailable, match="no such stack"):
        await rough.credentials()


def _remove(stack: str) -> None:
    daemons = Daemons(stack)
    remove_everywhere(daemons, stack)
    daemons.close()


async def test_leftovers_without_containers_are_replaced_and_a_cancelled_up_leaves_nothing(
    rough: DockerProvider, docker_client: Any
) -> None:
    begun = asyncio.Event()

    def report(text: str, done: float | None = None) -> None:
        if text == "starting the servers":
            begun.set()

    await rough.up(UpOptions(), quiet)
    for container in ids(docker_client, rough.name).values():
        docker_client.remove_container(container, force=True, v=True)
    rough.accounts_file.unlink()
    task = asyncio.create_task(rough.up(UpOptions(), report))
    await asyncio.wait_for(begun.wait(), 120 * patience())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert take(docker_client, rough.name).empty
