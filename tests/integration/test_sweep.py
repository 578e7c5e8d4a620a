"""A sweep on real servers: every cell measured, knobs given back, a killed one continued."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documents import document
from tests.integration.conftest import LiveStack
from tests.integration.shell import Shell

pytestmark = pytest.mark.docker

SPEC = ("rtt=0,30", "clients=1,4", "--duration", "1")
THREE_CELLS = ("rtt=0,15,30", "--duration", "1")
BEFORE = {"rtt@db2": 3.0, "clients": 5, "semi_sync": "on"}


@pytest.fixture(scope="module")
def shell(
    live_stack: LiveStack, state_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shell]:
    """The shell of a user who has turned some knobs."""
    shell = Shell(tmp_path_factory.mktemp("sweeps"), live_stack.stack.name, state_home)
    shell.run("set", *(f"{key}={value}" for key, value in BEFORE.items()))
    yield shell
    shell.run("reset")


def assert_given_back(shell: Shell) -> None:
    """What was requested before is, and the link is as it was: but for what its bare path takes now."""
    knobs = shell.json("get", *BEFORE)
    assert {key: knob["requested"] for key, knob in knobs.items()} == BEFORE
    assert knobs["rtt@db2"]["effective"] == pytest.approx(BEFORE["rtt@db2"], abs=0.5)


def test_two_by_two_cells_are_measured_reported_and_the_knobs_given_back(
    shell: Shell, tmp_path: Path
) -> None:
    done = shell.run("sweep", *SPEC, "--force", "--json", "--report", str(tmp_path / "report"))
    result = document(done.stdout)
    assert [tuple(cell.labels.values()) for cell in result.cells] == [
        ("0 ms", "1"), ("0 ms", "4"), ("30 ms", "1"), ("30 ms", "4"),
    ]  # fmt: skip
    assert [cell.failed for cell in result.cells] == [None] * 4
    for cell in result.cells:
        run = cell.runs[-1]
        asked_ms = float(cell.settings["rtt@db2"])
        assert run.protection == "protected"
        assert run.effective == {"rtt@db2": asked_ms, "clients": cell.settings["clients"]}
        # No commit is acknowledged before its packets have been there and back.
        assert cell.latency_ms.min >= asked_ms
        # Both are told with three digits.
        assert run.n == pytest.approx((run.tps.value or 0) * run.duration_s, rel=2e-3)
    assert {effect.key for effect in result.effects} == {"rtt", "clients"}
    assert_given_back(shell)
    assert sorted(file.name for file in (tmp_path / "report").iterdir()) == [
        "report.html", "report.md", "result.json",
    ]  # fmt: skip
    assert json.loads((tmp_path / "report" / "result.json").read_text()) == json.loads(done.stdout)


def _journal(shell: Shell) -> str:
    directory = Path(shell.environment["XDG_STATE_HOME"]) / "replexplorer" / "sweeps"
    files = [file for file in directory.glob("*.jsonl") if not re.search(r"-\d{8}T\d{6}Z$", file.stem)]
    return files[0].read_text() if files else ""


def test_a_sweep_that_was_killed_goes_on_and_the_knobs_are_given_back(shell: Shell) -> None:
    spec = (*THREE_CELLS, "--force")
    with shell.started("sweep", *spec) as running:
        running.until(lambda: '"run"' in _journal(shell), "a run is in its journal", within_s=60)
        running.send_signal(signal.SIGKILL)
        running.ends()
    kept = _journal(shell).count('"run"')
    done = shell.run("sweep", *spec, "--json")
    assert "continuing: " in done.stderr
    result = document(done.stdout)
    assert result.resumed_runs == kept >= 1
    assert len(result.cells) == 3
    assert all(cell.runs for cell in result.cells)
    assert _journal(shell) == ""
    assert_given_back(shell)
