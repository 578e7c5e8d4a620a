"""What holds for all tests."""

from __future__ import annotations

import pytest

from tests.untested import untested


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the very end, and in red, that a green run has tested no real server."""
    if (line := untested(terminalreporter.stats)) is not None:
        terminalreporter.write_sep("=", "no real servers", red=True, bold=True)
        terminalreporter.write_line(line, red=True, bold=True)
