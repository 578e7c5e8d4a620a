"""A class of two students, by the program as a trainer's shell runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replexplorer.adapters.docker import inventory
from tests.integration.conftest import PREFIX
from tests.integration.shell import Shell
from tests.waiting import until_true

pytestmark = [pytest.mark.docker, pytest.mark.in_full]

CLASS = f"{PREFIX}cl".replace("-", "_")
HERE = ("--class", CLASS)


def stacks(client: Any) -> list[str]:
    return [name for name in inventory.stack_names(client) if name.startswith(f"{CLASS}-")]


def test_two_students(docker_client: Any, tmp_path: Path) -> None:
    """An `up` that was killed is finished by the next; one verb turns both stacks, one page shows them."""
    shell = Shell(tmp_path, "unused")
    try:
        up = ("classroom", "up", *HERE, "--students", "2", "--memory", "768")
        with shell.started(*up, "--at-once", "1"):  # and killed as the block ends
            until_true(lambda: stacks(docker_client) != [], "the first stack is begun")
        done = shell.json(*up, apart=True)
        assert [each["exit_code"] for each in done["students"]] == [0, 0]

        server = next(
            each for each in inventory.containers(docker_client, f"{CLASS}-student2") if each.role == "mysqld"
        )
        limits = docker_client.inspect_container(server.id)["HostConfig"]
        assert (limits["Memory"], limits["NanoCpus"]) == (768 << 20, 1_000_000_000)

        turned = shell.json("classroom", "each", *HERE, "set", "rtt=20ms", apart=True)
        assert turned["exit_code"] == 0
        for each in turned["students"]:
            assert [change["effective"] for change in each["answer"]["changed"]] == [20.0]

        seen = shell.json("classroom", "status", *HERE, apart=True)["students"]
        states = [(each["student"], each["protection"]) for each in seen]
        assert states == [("student1", "off"), ("student2", "off")]
    finally:
        shell.run("classroom", "down", *HERE, "--yes")
    assert stacks(docker_client) == []
    assert not (tmp_path / "state" / "replexplorer" / "classes" / CLASS).exists()
