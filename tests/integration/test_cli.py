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
from replexplorer.adapters.mysql import Address, ControlConnection
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
def test_status_is_the_whole_document(shell: Shell) -> None:
    status = shell.status()
    assert [(node.name, node.reachable) for node in status.nodes] == [("db1", True), ("db2", True)]
    assert (status.nodes[1].io_thread, status.nodes[1].sql_thread) == ("on", "on")
    assert status.nodes[0].server_uuid != status.nodes[1].server_uuid
    assert status.protection.state == "off"
    assert status.links[0].backend in ("netem", "nfqueue")
    assert status.knobs["sync_binlog"].effective == 1
    assert status.load.driver is None
    assert (status.footprint_bytes or 0) > 0


@pytest.mark.usefixtures("at_rest")
def test_what_is_not_whole_is_named_in_one_line_and_is_a_metric(shell: Shell) -> None:
    check, metrics = ("status", "--check", "--lag", "60s"), ("status", "--format", "prometheus")
    applies = f'replexplorer_replica_sql_thread_state{{stack="{STACK}",node="db2",state="on"}}'
    assert shell.run_here(*check, code=0)[0] == "replication is whole\n"
    assert f"{applies} 1\n" in shell.run_here(*metrics, code=0)[0]
    shell.run_here("fault", "inject", "applier_stop@db2", code=0)
    try:
        lines = shell.run_here(*check, code=1)[0].splitlines()
        assert lines == ["replication is not whole: db2: SQL thread stopped"]
        assert f"{applies} 0\n" in shell.run_here(*metrics, code=0)[0]
    finally:
        shell.run_here("fault", "clear", code=0)


@pytest.mark.usefixtures("at_rest")
def test_status_says_what_each_node_has_and_logs(shell: Shell) -> None:
    source, replica = shell.status().nodes
    until_true(lambda: shell.status().nodes[1].missing_gtids == "", "the replica has all")
    assert source.missing_gtids is None
    assert source.binlogs.bytes_per_s is not None
    assert re.fullmatch(r"\S+\.\d+:\d+", source.binlogs.end)
    assert replica.received_to.partition(":")[0] == source.binlogs.end.partition(":")[0]
    assert replica.applied_to is not None


@pytest.mark.usefixtures("at_rest")
def test_set_is_effective_and_get_tells_it(shell: Shell) -> None:
    report = shell.json("set", "semi_sync=on", "rtt=25ms", "sync_binlog=0")
    by_key = {change.key: change for change in report.changed}
    assert by_key["semi_sync"].effective == "on"
    assert any("SET GLOBAL" in statement for statement in by_key["semi_sync"].statements)
    assert by_key["rtt"].effective == pytest.approx(25, abs=0.5)
    assert report.warnings
    knobs = shell.json("get", "semi_sync", "rtt")
    assert knobs["semi_sync"].effective == "on"
    assert knobs["rtt@db2"].requested == 25.0
    workers = "replica_parallel_workers@db2"
    assert shell.json("get", workers)[workers]["min"] == 1, "as this server takes it; others take 0"
    status = shell.status()
    assert status.protection.state == "protected"
    # Never sooner than asked; later while the machine is full.
    assert (status.links[0].rtt_measured_ms or 0.0) >= 24.5
    until_true(lambda: rtt_ms(shell) < 26.5, "no more than what was asked")
    assert shell.json("set", "semi_sync=on")["changed"] == []


def rtt_ms(shell: Shell) -> float:
    """The link's as it is measured now."""
    return float(shell.status().links[0].rtt_measured_ms or math.inf)


def errors(narration: str) -> list[str]:
    """The lines beside those that say what takes a while on a busy machine."""
    return [line for line in narration.splitlines() if line != "connecting to the stack"]


@pytest.mark.usefixtures("at_rest")
def test_a_scene_is_saved_and_applied(shell: Shell) -> None:
    shell.run_here("scene", "apply", "network", code=0)
    assert shell.status().protection.state == "protected"
    shell.run_here("scene", "save", "mine", "--title", "of a test", code=0)
    shell.run_here("reset", code=0)
    assert shell.status().protection.state == "off"
    shell.run_here("scene", "apply", "mine", code=0)
    knobs = shell.status().knobs
    assert (knobs["semi_sync"].effective, knobs["sync_binlog"].effective) == ("on", 0)
    assert "of a test" in shell.run_here("scene", "list", code=0)[0]


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


def test_dsn_logs_in_by_both_ways(shell: Shell) -> None:
    for words in (
        ["dsn"],
        ["dsn", "db2"],
        ["dsn", "db2", "--published"],
        ["dsn", "db2", "--admin"],
    ):
        parts = urlsplit(shell.run(*words).stdout.strip())
        assert (parts.scheme, parts.path) == ("mysql", "/sandbox")
        assert parts.hostname
        assert parts.port
        address = Address(parts.hostname, parts.port, "direct")
        assert asyncio.run(_database(address, parts.username or "", parts.password or "")) == "sandbox"
    assert urlsplit(shell.run("dsn", "--admin").stdout).username == "replexplorer"
    assert shell.json("dsn", "--admin")["account"] == "admin"
    assert "nowhere" in shell.run("dsn", "nowhere", code=2).stderr


def test_a_client_logs_in_by_the_option_file(shell: Shell) -> None:
    for words in ([], ["db2"], ["db2", "--published"]):
        file = Path(shell.run("dsn", "--defaults-file", *words).stdout.strip())
        assert file.stat().st_mode & 0o777 == 0o600
        assert asyncio.run(_user_of(file)) == "sandbox@%"
    told = shell.json("dsn", "--defaults-file")
    assert told.defaults_file is not None
    assert told.dsn.startswith("mysql://sandbox:")
    if shutil.which("sysbench"):
        command = ["sysbench", f"--config-file={told.defaults_file}", "oltp_insert", "--table-size=1"]
        for action in ("prepare", "cleanup"):
            subprocess.run([*command, action], check=True, capture_output=True, timeout=60)


async def _user_of(file: Path) -> str:
    connection = await asyncmy.connect(read_default_file=str(file))
    async with connection.cursor() as cursor:
        await cursor.execute("SELECT CURRENT_USER()")
        [user] = await cursor.fetchone()
    connection.close()
    return str(user)


async def _database(address: Address, user: str, password: str) -> str:
    async def locate() -> Address:
        return address

    connection = ControlConnection("node", locate, user, password)
    try:
        rows = await connection.query("SELECT SCHEMA_NAME AS name FROM information_schema.schemata")
        return next(str(row["name"]) for row in rows if row["name"] == "sandbox")
    finally:
        await connection.close()


@pytest.mark.usefixtures("at_rest")
def test_a_load_reports_what_it_did(shell: Shell) -> None:
    words = ("load", "--clients", "2", "--duration", "3", "--table-size", "500", "--json")
    done = shell.run(*words)
    report = document(done.stdout)
    assert (report.workload, report.clients, report.mode) == ("update_index", 2, "closed")
    assert report.commits > 0
    assert len(INTERVAL_LINE.findall(done.stderr)) == 3
    cost = report.commit_cost
    assert cost is not None
    assert cost.commits >= report.commits / 2
    assert all(used_us is not None and 10 < used_us < 100_000 for used_us in cost.cpu_us.values())
    assert set(cost.cpu_us) == {cost.source, *cost.sent_bytes}
    # A row of sysbench's table is 190 bytes, and the binlog has it before and after an update.
    assert cost.binlog_bytes is not None
    assert 380 < cost.binlog_bytes < 2_000
    assert cost.redo_bytes is not None
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


def test_a_load_ends_with_a_signal(shell: Shell) -> None:
    with shell.started("load", "--clients", "1", "--duration", "120", "--table-size", "500") as running:
        running.until(lambda: shell.status().load.driver is not None, "status names it")
        running.send_signal(signal.SIGTERM)
        assert running.ends() == 128 + signal.SIGTERM
        assert "Traceback" not in running.said()
    until_true(lambda: shell.status().load.driver is None, "nobody drives any more")


def test_an_up_whose_stack_is_taken_away_says_so_soon(shell: Shell, docker_client: Any) -> None:
    """It waited 105 s and blamed the primary's log."""
    stack = f"{STACK}-taken"
    try:
        with shell.started("up", "--stack", stack) as coming:
            coming.until(lambda: ids(docker_client, stack), "a container", within_s=60)
            shell.run_here("down", "--stack", stack, code=0)
            # On a quick machine it was up before `down` got its turn.
            code = coming.ends(within_s=15)
            assert code in (0, 4)
            if code == 4:
                assert f"stack '{stack}' was removed while it came up" in coming.said()
        assert take(docker_client, stack).empty
    finally:
        shell.run_here("down", "--stack", stack, code=0)


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


@pytest.mark.usefixtures("at_rest")
def test_a_killed_primary_comes_back_with_what_was_requested(shell: Shell, docker_client: Any) -> None:
    shell.run_here("set", "semi_sync=on", "rtt=10", "sync_binlog=0", code=0)
    docker_client.kill(ids(docker_client, STACK)["db1", "mysqld"])
    status = shell.status(code=4)
    assert status.state == "partial"
    assert status.protection.state == "down"
    assert status.nodes[0].reachable is False
    assert status.knobs["sync_binlog"].requested == 0
    shell.run_here("dsn", code=4)
    shell.run("up")
    status = shell.status()
    assert status.state == "up"
    assert (status.knobs["semi_sync"].effective, status.knobs["sync_binlog"].effective) == ("on", 0)
    until_true(lambda: rtt_ms(shell) == pytest.approx(10, abs=1), "the round trip as before")


def test_doctor_names_what_the_link_is_made_of(shell: Shell) -> None:
    report = shell.json("doctor")
    assert report.ready
    (link,) = (check for check in report.checks if check.name == "link")
    assert link.state == "ok"
    assert link.detail.startswith(("netem", "nfqueue"))


def test_what_is_not_there_is_one_line(shell: Shell) -> None:
    for verb in (
        ["status"],
        ["set", "rtt=5"],
        ["get"],
        ["reset"],
        ["load"],
        ["dsn"],
        ["scene", "apply", "none"],
    ):
        out, err = shell.run_here(*verb, "--stack", "nothing-here", code=4)
        assert out == ""
        assert len(errors(err)) == 1
    assert "nothing to remove" in shell.run_here("down", "--stack", "nothing-here", code=0)[1]
    _, err = shell.run_here("status", code=3, DOCKER_HOST="tcp://192.0.2.1:2375")
    assert "remote" in err


def test_down_says_whose_load_ends_with_the_stack_and_removes_everything(
    shell: Shell, docker_client: Any
) -> None:
    """Without a terminal nobody is asked. The load ends with what it had, and `down` of nothing is done. It
    comes last: the stack is gone."""
    load = ["load", "--clients", "3", "--duration", "300", "--table-size", "500", "--json"]
    with shell.started(*load) as running:
        running.until_first_interval()
        status = shell.json("status")["load"]
        assert (status["clients"], status["mode"], status["workload"]) == (3, "closed", "update_index")
        assert f"load (pid {running.pid}) drives a load" in shell.run("down").stderr
        assert running.ends() == 4
        assert f"stack '{STACK}' was removed" in running.said()
        report = document(running.printed())
    assert report.commits > 0
    assert report.duration_s < 100
    assert take(docker_client, STACK).empty
    shell.run("down")
