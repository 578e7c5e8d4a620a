"""A stack on two Docker hosts of one swarm, by the program as a user's shell runs it.

Both hosts are on this machine (tests/two-hosts): daemons of their own with network namespaces and images of
their own, so that nothing but their sockets and the wire between them leads from one to the other.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.documents import document
from tests.integration.conftest import PREFIX
from tests.integration.shell import Shell
from tests.waiting import until_true

pytestmark = [pytest.mark.docker, pytest.mark.in_full, pytest.mark.xdist_group("hosts")]

SCRIPT = Path(__file__).parents[1] / "two-hosts"
NEEDED = ("dockerd", "nsenter", "unshare", "ip")
RTT_MS = 85


class Hosts:
    """The two daemons and a shell whose stack is on them."""

    def __init__(self, directory: Path, home: Path) -> None:
        self.directory = directory
        self.shell = Shell(home, f"{PREFIX}-hosts")
        self.first, self.second = (f"unix://{directory}/{number}/sock" for number in (1, 2))

    def do(self, verb: str, *words: str) -> None:
        """A verb of the script."""
        done = subprocess.run(
            [str(SCRIPT), verb, str(self.directory), *words], capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"two-hosts {verb}: {done.stderr}"


@pytest.fixture(scope="module")
def hosts(docker_client: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """Both hosts, up; skips where a second daemon cannot be started."""
    missing = [program for program in NEEDED if shutil.which(program) is None]
    if os.geteuid() != 0 or missing:
        pytest.skip(f"a second Docker daemon needs root and {', '.join(missing or NEEDED)}")
    directory = Path(tempfile.mkdtemp(prefix="rx"))  # a socket's path is short
    found = Hosts(directory, tmp_path_factory.mktemp("home"))
    try:
        try:
            found.do("up")
        except AssertionError as error:
            pytest.skip(f"no second Docker daemon can be started here: {error}")
        yield found
    finally:
        found.do("down")


def test_a_stack_lives_on_two_hosts_until_one_goes_and_comes_back(hosts: Hosts) -> None:
    shell = hosts.shell
    said = shell.run("up", "--on", f"db1={hosts.first}", "--on", f"db2={hosts.second}").stderr
    assert "is up" in said
    try:
        _knobs_work(hosts)
        _load_runs_beside_the_source(shell)
        _account_is_kept_beside_the_load(shell)
        _a_host_goes_and_comes_back(hosts)
    finally:
        done = shell.run("down", "--yes").stderr
    assert "removed" in done
    assert "no stack" in shell.run("status", code=4).stderr
    for address in (hosts.first, hosts.second):
        left = subprocess.run(["docker", "-H", address, "ps", "-aq"], capture_output=True, text=True)
        assert left.stdout == ""


def _knobs_work(hosts: Hosts) -> None:
    hosts.shell.run("set", "semi_sync=on", f"rtt={RTT_MS}ms")
    status = hosts.shell.status()  # another process finds the hosts by the stack's name
    assert [(node.name, node.machine, node.path) for node in status.nodes] == [
        ("db1", hosts.first, "tunnel"),
        ("db2", hosts.second, "tunnel"),
    ]
    assert [(host.name, host.keeps, host.fault) for host in status.hosts] == [
        (hosts.first, True, None),
        (hosts.second, False, None),
    ]
    assert all(host.clock_ms is not None and abs(host.clock_ms) < 1000 for host in status.hosts)
    assert all(host.clock_apart_ms is not None and host.clock_apart_ms < 10 for host in status.hosts)
    [link] = status.links
    assert link.rtt_measured_ms is not None
    assert link.rtt_measured_ms >= RTT_MS - 1
    assert status.protection.operational


def _load_runs_beside_the_source(shell: Shell) -> None:
    report = shell.json("load", "--clients", "1", "--duration", "3", "--warmup", "1", apart=True)
    # A commit takes a round trip, however busy the machine is: 11.7 a second at the most.
    assert 0 < report["tps"] < 1000 / RTT_MS + 1


def _account_is_kept_beside_the_load(shell: Shell) -> None:
    """Both processes note on their host's disk what their clients are told; then a source dies."""
    words = ("load", "--workload", "ledger", "--clients", "2", "--duration", "2", "--processes", "2")
    report = shell.json(*words, apart=True)
    assert [(each["process"], each["clients"]) for each in report["generator"]["shares"]] == [(1, 1), (2, 1)]
    assert report["ledger"]["acknowledged"] > 0
    assert [node["missing"] for node in report["ledger"]["nodes"].values()] == [0, 0]
    drilled = shell.json("drill", "run", "kill-primary", "--quick", apart=True)["ledger"]
    assert drilled["acknowledged"] > 0
    assert (drilled["lost"], drilled["nodes"]["db1"]["extra"]) == (0, 0)


def _a_host_goes_and_comes_back(hosts: Hosts) -> None:
    shell = hosts.shell
    shell.run("set", "rtt=0ms", "semi_sync_timeout=500ms")
    with shell.started("load", "--clients", "2", "--duration", "600") as load:
        load.until_first_interval()
        hosts.do("stop", "2")
        seen = shell.run("status", "--json", code=4)
        assert f"the host {hosts.second} (db2) is away" in seen.stderr
        status = document(seen.stdout)
        assert [node.reachable for node in status.nodes] == [True, False]
        assert f"the host {hosts.second} (db2) is away" in shell.run("up", code=4).stderr
    hosts.do("start", "2")
    # It ends with 4 while the replica fetches what it missed: commits are not acknowledged yet.
    assert "was there and is up" in shell.run("up", code=None).stderr
    until_true(lambda: shell.status().protection.state == "protected", "commits are acknowledged again")
