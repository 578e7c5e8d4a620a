"""Small tests run beside those on real servers, and nothing is left for a process that may not run it."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from tests.dealing import BesideServers, gives_way

SERVERS = ["tests/integration/test_a.py::test_1@test_a", "tests/integration/test_a.py::test_2@test_a",
           "tests/integration/test_b.py::test_1@test_b"]  # fmt: skip
SMALL = [f"tests/unit/test_{name}.py::test_{number}" for name in "pqrs" for number in (1, 2)]


@dataclass
class Process:
    """A process of the tests, as the scheduler sees it."""

    name: str
    ran: list[str] = field(default_factory=list)
    to_run: list[int] = field(default_factory=list)
    shutting_down: bool = False

    @property
    def gateway(self) -> Any:
        return SimpleNamespace(id=self.name)

    def __hash__(self) -> int:
        return hash(self.name)

    def send_runtest_some(self, indices: list[int]) -> None:
        assert not self.shutting_down
        self.to_run += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def dealt(processes: int, tests: list[str]) -> dict[str, list[str]]:
    """What each process has run, a test a turn; the last of what it has waits until it knows what follows."""
    config = SimpleNamespace(
        getvalue=lambda name: ["popen"] * processes, option=SimpleNamespace(loadscopereorder=False)
    )
    scheduler = BesideServers(config)
    nodes = [Process(f"gw{number}") for number in range(processes)]
    for node in nodes:
        scheduler.add_node(node)
        scheduler.add_node_collection(node, tests)
    scheduler.schedule()
    while True:
        ready = [node for node in nodes if len(node.to_run) >= 2 or (node.to_run and node.shutting_down)]
        if not ready:
            break
        for node in ready:
            index = node.to_run.pop(0)
            node.ran.append(tests[index])
            scheduler.mark_test_complete(node, index)
            if scheduler.tests_finished:
                for each in nodes:
                    each.shutdown()
    assert all(node.shutting_down for node in nodes)
    return {node.name: node.ran for node in nodes}


def test_the_last_process_runs_what_needs_no_server_and_the_others_servers_first() -> None:
    ran = dealt(3, [*SERVERS, *SMALL])
    assert ran["gw0"][:2] == SERVERS[:2]
    assert ran["gw1"][0] == SERVERS[2]
    assert ran["gw2"]
    assert not {*ran["gw2"]} & {*SERVERS}
    assert sorted(test for tests in ran.values() for test in tests) == sorted([*SERVERS, *SMALL])


@pytest.mark.parametrize("processes", [1, 2, 3, 5])
@pytest.mark.parametrize("tests", [SERVERS, SERVERS[:1], SMALL, SMALL[:1], [*SERVERS, *SMALL]])
def test_every_test_is_run_once_whatever_there_is(processes: int, tests: list[str]) -> None:
    ran = [test for each in dealt(processes, tests).values() for test in each]
    assert sorted(ran) == sorted(tests)


def test_a_single_process_gives_way_to_nobody() -> None:
    assert not gives_way("gw0", 1)
    assert [gives_way(f"gw{number}", 3) for number in range(3)] == [False, False, True]
