"""Each lab and drill as a shell runs it, in quick mode: it comes to its end and returns what it turned.

Outside of the whole run a third of the drills, another one each day, and no lab: test_labs.py has some.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from replexplorer.cli.experiment import DRILLS, LABS, LESSONS
from tests.documents import document
from tests.integration.conftest import PREFIX, LiveStack
from tests.integration.shell import Shell

pytestmark = pytest.mark.docker

LABS_ON_A_PAIR = [name for name, lab in LABS.shipped().items() if not lab.systems]
DRILLS_ON_A_PAIR = [name for name, drill in DRILLS.shipped().items() if "async" in drill.systems]
OF_THEIR_OWN = [
    *(("lab", name) for name, lab in LABS.shipped().items() if lab.systems),
    *(("drill", name) for name, drill in DRILLS.shipped().items() if "async" not in drill.systems),
]
"""Stacks are made for them and removed again."""


@pytest.fixture(scope="module")
def shell(live_stack: LiveStack, state_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """The shell of a user who has a stack of two nodes."""
    return Shell(tmp_path_factory.mktemp("experiments"), live_stack.stack.name, state_home)


def asked(shell: Shell) -> dict[str, Any]:
    """All that is asked of the stack, by knob, and its nodes."""
    status = shell.status()
    assert status.state == "up"
    assert status.faults == []
    return {
        "knobs": {name: knob.requested for name, knob in status.knobs.items()},
        "nodes": [(node.name, node.role, node.diverged) for node in status.nodes],
    }


def run(shell: Shell, kind: str, name: str, how: str = "--quick") -> None:
    """It ends, and the stack is as before. What a lab or a lesson compares may differ on a busy machine,
    which it says; what a drill counts may not."""
    before = asked(shell)
    done = shell.run(kind, "run", name, how, "--json", code=None)
    result = document(done.stdout)
    assert result.aborted is None
    assert done.returncode == {"holds": 0, "deviates": 1}[result.verdict], done.stdout
    assert asked(shell) == before
    assert (kind != "drill" and name != "phantom-read") or result.verdict == "holds", done.stdout


@pytest.mark.one_in(3)
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", DRILLS_ON_A_PAIR)
def test_a_drill_holds_and_leaves_the_stack_as_it_was(shell: Shell, name: str) -> None:
    run(shell, "drill", name)


@pytest.mark.in_full
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", LABS_ON_A_PAIR)
def test_a_lab_ends_and_leaves_the_stack_as_it_was(shell: Shell, name: str) -> None:
    run(shell, "lab", name)


@pytest.mark.in_full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", LESSONS.shipped())
def test_a_lesson_ends_and_leaves_the_stack_as_it_was(shell: Shell, name: str) -> None:
    run(shell, "lesson", name, "--headless")


@pytest.mark.in_full
@pytest.mark.timeout(900)
def test_make_run_without_a_terminal_is_the_tour_to_its_verdict(shell: Shell) -> None:
    before = asked(shell)
    done = subprocess.run(
        ["make", "run"],
        cwd=Path(__file__).parents[2],
        env=shell.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=800,
    )
    assert "no terminal on stdin and stdout, so this runs the headless demonstration" in done.stderr
    assert done.stdout.rstrip().endswith(("verdict: holds", "verdict: deviates")), done.stderr
    assert asked(shell) == before


@pytest.mark.in_full
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("kind", "name"), OF_THEIR_OWN)
def test_it_runs_on_stacks_that_are_made_for_it(shell: Shell, kind: str, name: str) -> None:
    made = f"{PREFIX}-made"
    done = shell.run("--stack", made, kind, "run", name, "--quick", "--json", code=None)
    result = document(done.stdout)
    assert result.aborted is None
    assert kind != "drill" or result.verdict == "holds", done.stdout
    shell.run("--stack", made, "status", code=4)
