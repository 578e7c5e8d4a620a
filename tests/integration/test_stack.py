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


async def executed(live: LiveStack, node: str) -> str:
    return str(await live.value(node, "SELECT @@GLOBAL.gtid_executed")).replace("\n", "")


async def test_replicates_and_is_set_up_as_the_labs_need(live_stack: LiveStack) -> None:
    async with live_stack.session("db1", dsn=True) as cursor:
        await cursor.execute("CREATE DATABASE IF NOT EXISTS theirs")
        await cursor.execute("CREATE TABLE theirs.t (id INT PRIMARY KEY)")
        await cursor.execute("INSERT INTO theirs.t VALUES (7)")
    assert await until(lambda: live_stack.value("db2", "SELECT id FROM theirs.t")) == 7
    async with live_stack.session("db1", dsn=True) as cursor:
        await cursor.execute("DROP DATABASE theirs")

    for node in ("db1", "db2"):
        on = await live_stack.value(
            node,
            "SELECT COUNT(*) FROM performance_schema.setup_instruments"
            f" WHERE enabled = 'YES' AND timed = 'YES' AND name IN {INSTRUMENTS}",
        )
        assert on == len(INSTRUMENTS), node
        assert await live_stack.value(node, "SELECT @@GLOBAL.time_zone") == "+00:00"
        databases = (
            "SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name IN ('replexplorer','sandbox')"
        )
        assert await live_stack.value(node, databases) == 2
    assert await live_stack.value("db2", "SELECT @@rpl_semi_sync_replica_enabled") == 1
    assert await live_stack.value("db1", "SELECT @@rpl_semi_sync_source_enabled") == 0
    assert await live_stack.value("db2", "SELECT @@super_read_only") == 1
    assert await live_stack.value("db1", "SELECT @@super_read_only") == 0
    uuids = {await live_stack.value(node, "SELECT @@server_uuid") for node in ("db1", "db2")}
    assert len(uuids) == 2


async def test_no_node_has_transactions_of_its_own(live_stack: LiveStack) -> None:
    uuid = await live_stack.value("db1", "SELECT @@server_uuid")
    for node in ("db1", "db2"):
        sets = [part for part in (await executed(live_stack, node)).split(",") if part]
        assert all(part.startswith(uuid) for part in sets), (node, sets)


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
        with pytest.raises(asyncmy.errors.Error) as refused:
            await cursor.execute("CREATE DATABASE errant")
        assert refused.value.args[0] == 1290
    await live_stack.ready()


async def test_containers_have_no_more_than_they_need(live_stack: LiveStack, docker_client: Any) -> None:
    passwords = [live_stack.credentials.control_password, live_stack.credentials.dsn_password]
    name = live_stack.stack.name
    found = take(docker_client, name)
    for container in found.containers:
        told = docker_client.inspect_container(container.id)
        host = told["HostConfig"]
        assert host["CapDrop"] == ["ALL"]
        assert (host["CapAdd"] or []) == (["NET_ADMIN"] if container.role == "sidecar" else [])
        assert (host["GroupAdd"] or []) == (["999"] if container.role == "sidecar" else [])
        assert not host["Privileged"]
        assert host["RestartPolicy"]["Name"] in ("", "no")
        for bound in (told["NetworkSettings"]["Ports"] or {}).values():
            assert {port["HostIp"] for port in bound or ()} <= {"127.0.0.1"}
        logs = docker_client.logs(container.id).decode(errors="replace")
        assert not any(password in json.dumps(told) + logs for password in passwords)
        running = docker_client.top(container.id, "-o pid,args")
        assert not any(password in json.dumps(running) for password in passwords)
    # The statements of the start, which hold the passwords, are nowhere once they were read.
    for server in (container for container in found.containers if container.role == "mysqld"):
        left = "cat /dev/shm/*.sql /proc/1/cmdline /proc/1/environ; dd if=/proc/1/fd/9 iflag=nonblock"
        made = docker_client.exec_create(server.id, ["sh", "-c", left], user="999:999")
        read = docker_client.exec_start(made["Id"]).decode(errors="replace")
        assert "--init-file=/dev/fd/9" in read
        assert "IDENTIFIED" not in read
        assert not any(password in read for password in passwords)
    for network in found.networks:
        assert network["EnableIPv6"] is False
    servers = [c for c in found.containers if c.role == "mysqld"]
    tools = docker_client.inspect_container(servers[0].id)["Mounts"]
    assert any(mount["Destination"].endswith("/tools") and not mount["RW"] for mount in tools)
    for thing in (*found.networks, *found.volumes):
        assert {"dev.replexplorer.stack", "dev.replexplorer.role", "dev.replexplorer.version"} <= thing[
            "Labels"
        ].keys()
    mode = stat.S_IMODE(live_stack.stack.accounts_file.stat().st_mode)
    assert mode == 0o600


async def test_up_twice_changes_nothing(live_stack: LiveStack, docker_client: Any) -> None:
    before = ids(docker_client, live_stack.stack.name)
    assert await live_stack.stack.up(UpOptions(), quiet) is False
    assert ids(docker_client, live_stack.stack.name) == before
    with pytest.raises(UsageError, match="runs the image"):
        await live_stack.stack.up(UpOptions(image="debian:other"), quiet)
    with pytest.raises(UsageError, match="0 replicas: give 1 to 8"):
        await live_stack.stack.up(UpOptions(replicas=0), quiet)


async def test_a_dead_server_is_started_again_at_the_same_place(
    live_stack: LiveStack, docker_client: Any
) -> None:
    stack = live_stack.stack
    before = await stack.nodes()
    assert await stack.server_age_s("db2") is not None
    for node in ("db1", "db2"):
        docker_client.kill(ids(docker_client, stack.name)[node, "mysqld"])
    assert [node.server_running for node in await stack.nodes()] == [False, False]
    assert await stack.server_age_s("db2") is None
    assert await stack.up(UpOptions(), quiet) is False
    again_s = await stack.server_age_s("db2")
    assert again_s is not None
    assert 0 <= again_s < 30 * patience()
    await live_stack.ready()
    assert await stack.nodes() == before


async def test_a_dead_sidecar_takes_its_server_into_the_new_namespace(
    live_stack: LiveStack, docker_client: Any
) -> None:
    found = ids(docker_client, live_stack.stack.name)
    docker_client.kill(found["db2", "sidecar"])
    await until(lambda: gone(live_stack, "db2"))
    await live_stack.stack.up(UpOptions(), quiet)
    await live_stack.ready()

    docker_client.remove_container(found["db1", "sidecar"], force=True)
    await live_stack.stack.up(UpOptions(), quiet)
    await live_stack.ready()
    after = ids(docker_client, live_stack.stack.name)
    assert after["db2", "mysqld"] == found["db2", "mysqld"]
    assert after["db1", "sidecar"] != found["db1", "sidecar"]


async def test_a_sidecar_that_somebody_restarted_gets_its_server_back(
    live_stack: LiveStack, docker_client: Any
) -> None:
    """Every container runs, but the server is in the namespace of the sidecar's former life."""
    found = ids(docker_client, live_stack.stack.name)
    docker_client.restart(found["db2", "sidecar"], timeout=0)
    assert all(node.server_running and node.sidecar_running for node in await live_stack.stack.nodes())
    assert await live_stack.stack.up(UpOptions(), quiet) is False
    await live_stack.ready()
    assert ids(docker_client, live_stack.stack.name) == found


async def gone(live: LiveStack, node: str) -> bool:
    return not (await live.node(node)).sidecar_running


async def test_a_sidecar_that_somebody_took_off_the_network_is_made_again(
    live_stack: LiveStack, docker_client: Any
) -> None:
    """Every container runs, but nothing reaches the node: it has no address."""
    name = live_stack.stack.name
    found = ids(docker_client, name)
    (network,) = take(docker_client, name).networks
    docker_client.disconnect_container_from_network(found["db2", "sidecar"], network["Id"])
    assert (await live_stack.node("db2")).address is None
    await live_stack.stack.up(UpOptions(), quiet)
    await live_stack.ready()
    after = ids(docker_client, name)
    assert after["db2", "sidecar"] != found["db2", "sidecar"]
    assert after["db1", "mysqld"] == found["db1", "mysqld"]


async def test_a_removed_server_keeps_its_rows(live_stack: LiveStack, docker_client: Any) -> None:
    async with live_stack.session("db1") as cursor:
        await cursor.execute("CREATE TABLE replexplorer.kept (id INT PRIMARY KEY)")
    docker_client.remove_container(
        ids(docker_client, live_stack.stack.name)["db1", "mysqld"], force=True, v=True
    )
    await live_stack.stack.up(UpOptions(), quiet)
    await live_stack.ready()
    async with live_stack.session("db1") as cursor:
        await cursor.execute("DROP TABLE replexplorer.kept")


async def test_the_bridge_carries_lines_and_ends(live_stack: LiveStack) -> None:
    bridge = await live_stack.stack.open_bridge("db1")
    try:
        bridge.send("this is not JSON")
        lines = bridge.lines()
        assert "{" in await asyncio.wait_for(anext(lines), 10 * patience())
    finally:
        await bridge.close()
    with pytest.raises(StackUnavailable, match="nowhere"):
        await live_stack.stack.open_bridge("nowhere")


async def test_lost_passwords_are_said_so(live_stack: LiveStack) -> None:
    file = live_stack.stack.accounts_file
    content = file.read_text()
    try:
        file.unlink()
        with pytest.raises(StackUnavailable, match="cannot log in"):
            await live_stack.stack.credentials()
        file.write_text(content.replace("origin=", "origin=0"))
        with pytest.raises(StackUnavailable, match="cannot log in"):
            await live_stack.stack.credentials()
    finally:
        file.write_text(content)
        file.chmod(0o600)


@pytest.fixture(scope="module")
def rough(docker_client: Any, state_home: Path) -> Iterator[DockerProvider]:
    """A stack that the tests below break and mend: each takes it as it was left, or makes it."""
    stack = DockerProvider(f"{PREFIX}-rough")
    try:
        yield stack
    finally:
        asyncio.run(take_down(stack))


async def test_a_stack_that_cannot_grow_is_left_as_it_was(
    rough: DockerProvider, docker_client: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = await bring_up(rough, UpOptions())
    before = ids(docker_client, rough.name)
    volumes = len(take(docker_client, rough.name).volumes)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(build, "PUBLISHED", taken.getsockname())
        stack = DockerProvider(rough.name)
        try:
            with pytest.raises(MissingPiece, match="port is in use"):
                await stack.up(UpOptions(replicas=2), quiet)
        finally:
            await stack.close()
    assert ids(docker_client, rough.name) == before
    assert len(take(docker_client, rough.name).volumes) == volumes
    await own.ready()


async def test_two_stacks_are_compared_in_turns(live_stack: LiveStack, rough: DockerProvider) -> None:
    await bring_up(rough, UpOptions())
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
    assert found.turns == 2
    assert found.changes == []


async def test_two_stacks_a_second_replica_and_down(
    live_stack: LiveStack, rough: DockerProvider, docker_client: Any
) -> None:
    own = await bring_up(rough, UpOptions())
    assert {rough.name, live_stack.stack.name} <= set(await provider.stack_names())
    assert own.credentials.control_password != live_stack.credentials.control_password
    assert await rough.up(UpOptions(replicas=2), quiet) is False
    await own.ready()
    assert [node.name for node in await rough.nodes()] == ["db1", "db2", "db3"]
    assert {await own.value(node, "SELECT @@server_id") for node in ("db2", "db3")} == {2, 3}
    with pytest.raises(UsageError, match="only grows"):
        await rough.up(UpOptions(replicas=1), quiet)
    with pytest.raises(UsageError, match="99 replicas: give 1 to 8"):
        await rough.up(UpOptions(replicas=99), quiet)
    assert await rough.up(UpOptions(), quiet) is False
    assert len(await rough.nodes()) == 3

    started = time.perf_counter()
    assert await rough.down() == 6 + 1 + 4
    assert time.perf_counter() - started < 5 * patience()
    assert await rough.down() == 0
    assert await rough.nodes() == []
    assert take(docker_client, rough.name).empty
    with pytest.raises(StackUnavailable, match="no such stack"):
        await rough.credentials()
    await live_stack.ready()


async def test_a_half_made_stack_is_finished_as_asked(rough: DockerProvider, docker_client: Any) -> None:
    await bring_up(rough, UpOptions(replicas=2))
    for key, container in ids(docker_client, rough.name).items():
        if key[0] != "db1":
            docker_client.remove_container(container, force=True, v=True)
    for volume in take(docker_client, rough.name).volumes:
        if volume["Labels"].get("dev.replexplorer.node") == "db3":
            docker_client.remove_volume(volume["Name"])
    assert await rough.up(UpOptions(), quiet) is False
    own = LiveStack(rough, await rough.credentials())
    await own.ready()
    assert len(await rough.nodes()) == 3


async def test_leftovers_without_containers_are_replaced(rough: DockerProvider, docker_client: Any) -> None:
    await bring_up(rough, UpOptions())
    for container in ids(docker_client, rough.name).values():
        docker_client.remove_container(container, force=True, v=True)
    rough.accounts_file.unlink()
    own = LiveStack(rough, (await bring_up(rough, UpOptions())).credentials)
    await own.ready()


async def test_two_users_downs_at_once_leave_nothing(rough: DockerProvider, docker_client: Any) -> None:
    """Each has a lock of his own: they meet at the daemon."""
    await bring_up(rough, UpOptions())
    await asyncio.gather(*(asyncio.to_thread(_remove, rough.name) for _ in range(2)))
    assert take(docker_client, rough.name).empty


def _remove(stack: str) -> None:
    daemons = Daemons(stack)
    remove_everywhere(daemons, stack)
    daemons.close()


async def test_a_cancelled_up_leaves_nothing(own_stack: DockerProvider, docker_client: Any) -> None:
    begun = asyncio.Event()

    def report(text: str, done: float | None = None) -> None:
        if text == "starting the servers":
            begun.set()

    task = asyncio.create_task(own_stack.up(UpOptions(), report))
    await asyncio.wait_for(begun.wait(), 120 * patience())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert take(docker_client, own_stack.name).empty


async def test_a_subnet_and_a_subnet_that_is_taken(own_stack: DockerProvider, docker_client: Any) -> None:
    first = DockerProvider(f"{PREFIX}-net", subnet="10.213.77.0/28")
    second = DockerProvider(own_stack.name, subnet="10.213.77.0/28")
    try:
        await first.up(UpOptions(), quiet)
        assert str((await first.nodes())[0].address).startswith("10.213.77.")
        with pytest.raises(MissingPiece, match="subnet"):
            await second.up(UpOptions(), quiet)
        assert take(docker_client, second.name).empty
    finally:
        await take_down(first)
        await second.close()


@pytest.mark.parametrize(
    ("host", "says"),
    [
        ("tcp://192.0.2.1:2375", "remote"),
        ("ssh://somebody@192.0.2.1", "remote"),
        ("unix:///nonexistent/docker.sock", "not running"),
    ],
)
async def test_no_daemon_is_one_line(monkeypatch: pytest.MonkeyPatch, host: str, says: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    with pytest.raises(MissingPiece, match=says) as raised:
        await DockerProvider("any").nodes()
    assert raised.value.exit_code == 3
    assert raised.value.hint


async def test_two_ups_and_two_downs_at_once_are_one(own_stack: DockerProvider, docker_client: Any) -> None:
    other = DockerProvider(own_stack.name)
    told: list[str] = []
    try:
        made = await asyncio.gather(
            own_stack.up(UpOptions(), quiet), other.up(UpOptions(), lambda text, done=None: told.append(text))
        )
        assert sorted(made) == [False, True]
        own = LiveStack(own_stack, await own_stack.credentials())
        await own.ready()
        assert len(await own_stack.nodes()) == 2
        gone = await asyncio.gather(own_stack.down(quiet), other.down(quiet))
        assert sorted(gone) == [0, 4 + 1 + 3]
        assert take(docker_client, own_stack.name).empty
    finally:
        await other.close()
