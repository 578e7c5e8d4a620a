"""What holds for all tests."""

from __future__ import annotations

import gc

import pytest
from hypothesis import settings

from tests.untested import untested

# A busy machine makes an example slow and not wrong; the same tree has the same answer everywhere.
# New examples are looked for with `pytest --hypothesis-profile default`.
settings.register_profile("any machine", deadline=None, derandomize=True)
settings.load_profile("any machine")


def pytest_collection_finish() -> None:
    """What is imported and collected by now stays: the collector need not look through it again."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the very end, and in red, that a green run has tested no real server."""
    if (line := untested(terminalreporter.stats)) is not None:
        terminalreporter.write_sep("=", "no real servers", red=True, bold=True)
        terminalreporter.write_line(line, red=True, bold=True)
