"""Completion in the shell: which words fit, and that bash is given them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from argcomplete.completers import SuppressCompleter
from argcomplete.finders import CompletionFinder

from replexplorer.cli.arguments import completing_parser

ASK = """
eval "$(replexplorer completion bash)"
for COMP_LINE in "$@"; do
    COMP_POINT=${#COMP_LINE} COMP_TYPE=9
    _python_argcomplete replexplorer
    echo "${COMPREPLY[*]}"
done
"""


def in_bash(*lines: str) -> list[list[str]]:
    """What bash is given to choose from after each of these lines."""
    here = Path(sys.executable).parent
    told = subprocess.run(
        ["bash", "-c", ASK, "bash", *lines],
        env=os.environ | {"PATH": f"{here}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return [line.split() for line in told.stdout.splitlines()]


@pytest.mark.parametrize(
    ("typed", "prefix", "words"),
    [
        ("", "swi", ["switchover"]),
        ("set", "semi_sync=o", ["semi_sync=off", "semi_sync=on"]),
        ("set", "wait_point=after_c", ["wait_point=after_commit"]),
        ("set", "rtt@db2=", []),
        ("set", "nonsense=", []),
        ("set", "rt", ["rtt="]),
        ("lab run", "wan-", ["wan-insert", "wan-threads"]),
        ("fault inject", "part", ["partition"]),
    ],
)
def test_verbs_knobs_values_and_names_are_given(typed: str, prefix: str, words: list[str]) -> None:
    before = typed.split()
    finder = CompletionFinder(completing_parser(), default_completer=SuppressCompleter())
    given = finder._get_completions(["replexplorer", *before], prefix, "", None)  # type: ignore[no-untyped-call]
    assert [each.strip() for each in given] == words


@pytest.mark.costly("each Tab starts the program")
def test_bash_is_given_them() -> None:
    lines = {"replexplorer set semi_sync=o": ["off", "on"], "replexplorer 'unended": []}
    assert in_bash(*lines) == list(lines.values())
