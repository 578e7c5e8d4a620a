"""What holds for all tests."""

from __future__ import annotations

import gc
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings

from tests import dealing, seldom
from tests.untested import untested

gc.disable()  # until all tests are collected: what is imported for them stays

# A busy machine makes an example slow and not wrong; the same tree has the same answer everywhere.
# New examples are looked for with `pytest --hypothesis-profile default`.
settings.register_profile("any machine", deadline=None, derandomize=True)
settings.load_profile("any machine")


LESS_OFTEN = (20_000, 20, 20)
"""New objects before the collector looks for circles among them: a screen under test makes thousands."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """What `make test-all` asks for."""
    parser.addoption(
        "--in-full",
        action="store_true",
        help="every repetition of the long tests, also of what passed here before",
    )
    parser.addoption(
        "--beside-servers",
        action="store_true",
        help="the last process of several runs what needs no server, and gives way to the others",
    )


def pytest_configure(config: pytest.Config) -> None:
    """What this process of the tests may take of the processor."""
    if config.getoption("--beside-servers"):
        dealing.give_way(config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Who deals the tests out."""
    return dealing.BesideServers(config, log) if config.getoption("--beside-servers") else None


@pytest.fixture(scope="session")
def in_full(request: pytest.FixtureRequest) -> bool:
    """Whether a long test runs in every combination and at its whole length."""
    return bool(request.config.getoption("--in-full"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what passed here before, with the reason."""
    if not seldom.will_run(item):
        pytest.skip(seldom.REASON)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember what has passed."""
    report = yield
    if call.when == "call" and report.passed:
        seldom.remember(item)
    return report


def pytest_collection_finish() -> None:
    """What is imported and collected by now stays: the collector need not look through it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*LESS_OFTEN)
    gc.enable()


_guests: set[str] = set()
"""Runs of the tests in which a process has begun a guest, as the process that deals out the tests hears."""


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """A process of the tests has ended."""
    if guest := getattr(node, "workeroutput", {}).get("guest"):
        _guests.add(guest)


def pytest_sessionfinish() -> None:
    """A guest that nobody looked at is not left behind."""
    if _guests:
        from tests.guest import machine  # needs Docker's SDK, which most runs of some tests do not

        for guest in _guests:
            machine.remove(guest)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the very end, and in red, that a green run has tested no real server."""
    if (line := untested(terminalreporter.stats)) is not None:
        terminalreporter.write_sep("=", "no real servers", red=True, bold=True)
        terminalreporter.write_line(line, red=True, bold=True)
