"""What users type and end by hand: a load of their own at a rate, Ctrl-C, an account that is not root's."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.documents import document
from tests.integration.conftest import PREFIX, LiveStack
from tests.integration.shell import Shell

pytestmark = pytest.mark.docker

SOMEBODY = 12_345
"""A user whom no machine knows by name."""
OWN_LOAD = r"""
\rows 100
CREATE TABLE stock (id INT NOT NULL AUTO_INCREMENT, n INT NOT NULL, PRIMARY KEY (id)) ENGINE=InnoDB;

\weight 3
UPDATE stock SET n = n + 1 WHERE id = :rand(1,100);

\weight 1
INSERT INTO stock (n) VALUES (:rand(1,100));
"""


@pytest.fixture(scope="module")
def shell(live_stack: LiveStack, state_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """The shell of a user who has a stack of two nodes."""
    return Shell(tmp_path_factory.mktemp("journeys"), live_stack.stack.name, state_home)


def test_a_load_of_one_s_own_at_a_rate_is_told_though_it_was_interrupted(
    shell: Shell, tmp_path: Path
) -> None:
    file = tmp_path / "own.sql"
    file.write_text(OWN_LOAD)
    words = ("load", "--workload", str(file), "--clients", "2", "--rate", "40", "--duration", "60", "--json")
    with shell.started(*words) as load:
        load.until_said("[ 3s ]", within_s=60)
        load.send_signal(signal.SIGINT)
        assert load.ends() == 130
        found = document(load.printed())
    assert (found.workload, found.mode, found.clients) == (str(file), "open", 2)
    assert found.errors == 0
    assert 2 <= found.duration_s < 60
    assert found.generator.arrivals / found.duration_s == pytest.approx(40, rel=0.5), (
        "120 in 3 s, within 5 sigma"
    )
    assert 0 < found.tps < 60, "a full machine serves fewer than arrive"
    assert shell.status().load.driver is None


def test_an_experiment_that_is_interrupted_returns_what_it_took(shell: Shell) -> None:
    before = shell.status()
    with shell.started("drill", "run", "kill-primary", "--quick") as running:
        running.until(lambda: shell.status().load.driver, "its load runs", within_s=60)
        running.send_signal(signal.SIGINT)
        assert running.ends() == 130
        assert "interrupted" in running.said()
    after = shell.status()
    assert (after.state, after.faults, after.load.driver) == ("up", [], None)
    assert {name: knob.requested for name, knob in after.knobs.items()} == {
        name: knob.requested for name, knob in before.knobs.items()
    }


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="only root becomes another")
def test_who_may_use_docker_needs_not_be_root(docker_client: Any) -> None:
    """Of root's rights only that to read what is installed, which may be below root's home."""
    socket = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")
    account = (f"--reuid={SOMEBODY}", f"--regid={SOMEBODY}", f"--groups={os.stat(socket).st_gid}")
    rights = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")

    with TemporaryDirectory() as home:
        os.chown(home, SOMEBODY, SOMEBODY)
        environment = Shell(Path(home), f"{PREFIX}-somebody").environment

        def run(*words: str) -> str:
            done = subprocess.run(
                ["setpriv", *account, *rights, sys.executable, "-m", "replexplorer", *words],
                env=environment,
                cwd=home,
                capture_output=True,
                text=True,
                timeout=300,
            )
            assert done.returncode == 0, done.stderr
            return done.stdout

        try:
            run("up")
            run("set", "rtt=5ms", "semi_sync=on")
            assert document(run("load", "--clients", "2", "--duration", "1", "--json")).commits > 0
            status = document(run("status", "--json"))
            assert (status.state, status.knobs["rtt@db2"].requested) == ("up", 5)
            assert {file.stat().st_uid for file in Path(home).rglob("*")} == {SOMEBODY}
        finally:
            run("down", "--yes")
