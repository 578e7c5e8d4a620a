"""What tests of the command line share."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from replexplorer.cli import main


class Printed(NamedTuple):
    """How a verb ended."""

    code: int
    out: str
    err: str


Run = Callable[..., Printed]
"""Runs these words of a command line."""


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def ran(*words: str) -> Printed:
        return Printed(main([*words]), *capsys.readouterr())

    return ran
