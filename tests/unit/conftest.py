"""What tests of the command line and of files share."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from replexplorer.cli import main
from tests.known import refused


class Printed(NamedTuple):
    """How a verb ended."""

    code: int
    out: str
    err: str


Run = Callable[[str], Printed]
"""Runs these words of a command line, as a shell takes them apart."""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def ran(words: str) -> Printed:
        return Printed(main(shlex.split(words)), *capsys.readouterr())

    return ran


def told_of_mistakes(mistakes: str, file: Path, read: Callable[[Path], object]) -> dict[str, str]:
    """`what stands in the file -> what instead`, a mistake a line, `; ` for the end of a line: what is told
    of each."""
    right, told = file.read_text(), {}
    for line in mistakes.splitlines():
        old, new = (side.strip().replace("; ", "\n") for side in line.split("->"))
        assert old in right
        file.write_text(right.replace(old, new, 1))
        told[line] = refused(read, file).replace(str(file.parent), "HERE")
    return told
