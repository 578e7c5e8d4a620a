"""A run without Docker is green, and must not pass for one that tested real servers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.untested import untested

REAL = SimpleNamespace(keywords={"docker": 1})
PURE = SimpleNamespace(keywords={})
WARNING = object()
"""Pytest keeps other things than reports of tests among its figures."""


@pytest.mark.parametrize(
    ("stats", "skipped"),
    [
        ({"passed": [PURE], "skipped": [REAL, REAL, PURE]}, 2),
        ({"passed": [PURE, REAL], "skipped": [REAL, PURE]}, None),
        ({"failed": [REAL], "skipped": [REAL]}, None),
        ({"passed": [PURE], "skipped": [PURE], "warnings": [WARNING]}, None),
        ({}, None),
    ],
)
def test_only_a_run_without_any_real_server_says_so(
    stats: dict[str, list[object]], skipped: int | None
) -> None:
    line = untested(stats)
    assert (line is None) is (skipped is None)
    assert skipped is None or f"all {skipped} tests with real servers were skipped" in str(line)


@pytest.mark.in_full
def test_pytest_itself_says_it_last() -> None:
    root = Path(__file__).parents[2]
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/integration/test_link.py"]
    done = subprocess.run(
        words,
        cwd=root,
        env=os.environ | {"DOCKER_HOST": "unix:///nowhere/docker.sock"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout
    assert "NOT TESTED: all" in done.stdout
