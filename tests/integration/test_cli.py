"""Every verb on a real stack, as a user's shell runs it."""

from __future__ import annotations

import asyncio
import math
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import asyncmy
import pytest

from replexplorer.adapters.docker.inventory import take
from tests.documents import document
from tests.integration.conftest import ids
from tests.integration.shell import Shell
from tests.waiting import until_true

pytestmark = pytest.mark.docker

STACK = f"test-cli-{os.getpid()}"
INTERVAL_LINE = re.compile(r"^\[ \d+s \] thds: 2 tps: [\d.]+ qps: [\d.]+ \(r/w/o: .* reconn/s: [\d.]+$", re.M)


@pytest.fixture(scope="module")
def shell(docker_client: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A stack that `up` made."""
    shell = Shell(tmp_path_factory.mktemp("home"), STACK)
    try:
        shell.run("up")
        yield shell
    finally:
        shell.run("down")


@pytest.fixture
def at_rest(shell: Shell) -> None:
    """Every knob at its default."""
    shell.run_here("reset", code=0)


@pytest.mark.usefixtures("at_rest")
def test_status_says_what_each_node_has_and_whether_replication_is_whole(shell: Shell) -> None:
    until_true(lambda: shell.status().nodes[1].missing_gtids == "", "the replica has all")
    status = shell.status()
    source, replica = status.nodes
    assert (source.missing_gtids, replica.io_thread, replica.sql_thread) == (None, "on", "on")
    assert source.binlogs.bytes_per_s is not None
    assert re.fullmatch(r"\S+\.\d+:\d+", source.binlogs.end)
    assert replica.received_to.partition(":")[0] == source.binlogs.end.partition(":")[0]
    assert replica.applied_to is not None
    assert (status.footprint_bytes or 0) > 0
    assert shell.run_here("status", "--check", "--lag", "60s", code=0)[0] == "replication is whole\n"
    shell.run_here("fault", "inject", "applier_stop@db2", code=0)
    assert "db2: SQL thread stopped" in shell.run_here("status", "--check", code=1)[0]
    shell.run_here("fault", "clear", code=0)


@pytest.mark.usefixtures("at_rest")
def test_set_is_effective_and_get_tells_it(shell: Shell) -> None:
    report = shell.json("set", "semi_sync=on", "rtt=25ms", "sync_binlog=0")
    by_key = {change.key: change for change in report.changed}
    assert by_key["semi_sync"].effective == "on"
    assert any("SET GLOBAL" in statement for statement in by_key["semi_sync"].statements)
    assert by_key["rtt"].effective == pytest.approx(25, abs=0.5)
    assert report.warnings
    assert shell.json("get", "rtt")["rtt@db2"].requested == 25.0
    workers = "replica_parallel_workers@db2"
    assert shell.json("get", workers)[workers]["min"] == 1, "as this server takes it; others take 0"
    assert shell.status().protection.state == "protected"
    # Never sooner than asked; later while the machine is full.
    until_true(lambda: 24.5 <= rtt_ms(shell) < 26.5, "what was asked and no more")
    assert shell.json("set", "semi_sync=on")["changed"] == []


def rtt_ms(shell: Shell) -> float:
    """The link's as it is measured now."""
    return float(shell.status().links[0].rtt_measured_ms or math.inf)


@pytest.mark.usefixtures("at_rest")
def test_rows_come_back_with_a_preset_also_where_its_app_is_killed(shell: Shell, docker_client: Any) -> None:
    shell.run("load", "--duration", "2s", code=0)
    shell.run("preset", "save", "monday", "--data", code=0)
    had = [node.gtid_executed for node in shell.status().nodes]
    shell.run_here("set", "sync_binlog=0", "rtt=20", code=0)
    shell.run("load", "--duration", "2s", code=0)
    shell.run_here("fault", "inject", "kill@db2", code=0)
    with shell.started("preset", "apply", "monday") as applying:
        labels = ["dev.replexplorer.role=restore", f"dev.replexplorer.stack={STACK}"]
        copying = partial(docker_client.containers, filters={"label": labels})
        applying.until(copying, "it sets rows back", within_s=60)
        applying.send_signal(signal.SIGKILL)
    assert "preset apply monday is done" in shell.run("up", code=0).stderr
    status = shell.status()
    assert [node.gtid_executed for node in status.nodes] == had
    assert (status.faults, status.knobs["sync_binlog"].effective) == ([], 1)
    assert shell.json("check", "--rows", "replexplorer.sbtest1").verdict == "alike"
    shell.run("status", "--check", code=0)
    assert "MB of rows" in shell.run_here("preset", "list", code=0)[0]
    shell.run_here("preset", "remove", "monday", code=0)
    assert "monday" not in shell.run_here("preset", "list", code=0)[0]


@pytest.mark.parametrize("words", ["", "db2", "db2 --published", "--admin"])
def test_a_client_logs_in_by_the_address_and_by_the_option_file(shell: Shell, words: str) -> None:
    told = shell.json("dsn", *words.split())
    parts = urlsplit(told.dsn)
    assert (parts.scheme, parts.path) == ("mysql", "/sandbox")
    account = "replexplorer" if told.account == "admin" else "sandbox"
    direct = {"host": parts.hostname, "port": parts.port, "user": parts.username, "password": parts.password}
    assert asyncio.run(_user_of(**direct)) == f"{account}@%"
    if account == "sandbox":
        file = Path(shell.json("dsn", "--defaults-file", *words.split()).defaults_file)
        assert file.stat().st_mode & 0o777 == 0o600
        assert asyncio.run(_user_of(read_default_file=str(file))) == "sandbox@%"


async def _user_of(**how: Any) -> str:
    connection = await asyncmy.connect(**how)
    async with connection.cursor() as cursor:
        await cursor.execute("SELECT CURRENT_USER()")
        [user] = await cursor.fetchone()
    connection.close()
    return str(user)


@pytest.mark.skipif(shutil.which("sysbench") is None, reason="no sysbench here")
def test_sysbench_logs_in_by_the_option_file(shell: Shell) -> None:
    file = shell.json("dsn", "--defaults-file").defaults_file
    for action in ("prepare", "cleanup"):
        command = ["sysbench", f"--config-file={file}", "oltp_insert", "--table-size=1", action]
        subprocess.run(command, check=True, capture_output=True, timeout=60)


@pytest.mark.usefixtures("at_rest")
def test_a_load_reports_what_it_did(shell: Shell) -> None:
    words = ("load", "--clients", "2", "--duration", "3", "--table-size", "500", "--json")
    done = shell.run(*words)
    report = document(done.stdout)
    assert (report.workload, report.clients, report.mode) == ("update_index", 2, "closed")
    assert report.commits > 0
    assert len(INTERVAL_LINE.findall(done.stderr)) == 3
    cost = report.commit_cost
    assert cost.commits >= report.commits / 2
    assert all(used_us is not None and 10 < used_us < 100_000 for used_us in cost.cpu_us.values())
    assert set(cost.cpu_us) == {cost.source, *cost.sent_bytes}
    # A row of sysbench's table is 190 bytes, and the binlog has it before and after an update.
    assert 380 < cost.binlog_bytes < 2_000
    assert cost.redo_bytes > 190
    # The dump thread sends all of the binlog, give or take what is on its way at either end: much of three
    # seconds where it waits for a processor.
    for _ in range(4):
        if list(cost.sent_bytes.values()) == [pytest.approx(cost.binlog_bytes, rel=0.3)]:
            break
        cost = document(shell.run(*words).stdout).commit_cost
    else:
        pytest.fail(f"what is sent is not what is logged: {cost}")
    assert shell.json("get", "clients")["clients"]["requested"] == 8


@pytest.mark.usefixtures("at_rest")
def test_the_sources_sidecar_dies_and_takes_neither_lease_nor_requested_values(
    shell: Shell, docker_client: Any
) -> None:
    shell.run_here("set", "sync_relay_log=11", code=0)
    try:
        with shell.started("load", "--clients", "1", "--duration", "600", "--table-size", "500") as running:
            # The lease stands before the load has begun; who loses the source in between ends.
            running.until_first_interval()
            docker_client.kill(ids(docker_client, STACK)["db1", "sidecar"])
            refused = shell.run("load", "--clients", "1", "--duration", "1", code=4)
            assert f"pid {running.pid}" in refused.stderr
            changed = shell.json("set", "sync_relay_log=12")["changed"]
            assert [(change["before"], change["requested"], change["effective"]) for change in changed] == [
                (11, 12, 12)
            ]
            running.until(
                lambda: shell.status(code=4).load.driver is not None, "status names it again", within_s=60
            )
    finally:
        shell.run("up")
    shell.run("load", "--clients", "1", "--duration", "1", "--table-size", "500")
    status = shell.status()
    assert status.state == "up"
    assert status.knobs["sync_relay_log@db2"].requested == 12


def test_down_says_whose_load_ends_with_the_stack_and_removes_everything(
    shell: Shell, docker_client: Any
) -> None:
    """Without a terminal nobody is asked. The load ends with what it had, and `down` of nothing is done. It
    comes last: the stack is gone."""
    load = ["load", "--clients", "3", "--duration", "300", "--table-size", "500", "--json"]
    with shell.started(*load) as running:
        running.until_first_interval()
        assert f"load (pid {running.pid}) drives a load" in shell.run("down").stderr
        assert running.ends() == 4
        assert f"stack '{STACK}' was removed" in running.said()
        report = document(running.printed())
    assert report.commits > 0
    assert report.duration_s < 100
    assert take(docker_client, STACK).empty
    shell.run("down")
