"""What tests of the command line share."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import NamedTuple

import pytest

from replexplorer.cli import main


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
