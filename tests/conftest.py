"""What holds for all tests."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
from hypothesis import settings

from tests import amount, costs, dealing
from tests.untested import untested

gc.disable()  # until all tests are collected: what is imported for them stays

for name, profile in amount.PROFILES.items():
    settings.register_profile(name, profile)

WITHOUT_SERVERS_S = 120
"""After that a test that needs no server hangs, however busy the machine is."""


LESS_OFTEN = (100_000, 50, 100)
"""New objects before the collector looks for circles among them: a screen under test makes thousands."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """What the three sizes of a run ask for."""
    costs.add_options(parser)
    parser.addoption("--fast", action="store_true", help="fewer examples of each law")
    parser.addoption("--nothing-skipped", action="store_true", help="a run that skips a test has failed")
    parser.addoption(
        "--in-full",
        action="store_true",
        help="every repetition of the long tests, and those that a usual run leaves out",
    )
    parser.addoption(
        "--beside-servers",
        action="store_true",
        help="the last process of several runs what needs no server, and gives way to the others",
    )


def pytest_configure(config: pytest.Config) -> None:
    """How much this run tries, and what this process of the tests may take of the processor."""
    in_full, fast = config.getoption("--in-full"), config.getoption("--fast")
    if not config.getoption("--hypothesis-profile"):
        settings.load_profile("full" if in_full else "fast" if fast else "usual")
    config.pluginmanager.register(costs.Costs(config), "costs")
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


@pytest.fixture(scope="session")
def stride(in_full: bool) -> int:
    """Of the places at which a family of cases disturbs something: each in full, else each fifth."""
    return 1 if in_full else 5


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give what needs no server less time; of a family, leave a part out unless all of it is asked for."""
    if not config.getoption("--in-full") and (left_out := set(_left_out(items))):
        items[:] = [item for item in items if item not in left_out]
        config.hook.pytest_deselected(items=list(left_out))
    for item in items:
        if not item.get_closest_marker("docker"):
            item.add_marker(pytest.mark.timeout(WITHOUT_SERVERS_S))


def _left_out(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """What is marked `in_full`, and of the families marked `one_in(n)` all cases but each n-th: others each
    day."""
    seen: Counter[str] = Counter()
    today = date.today().toordinal()
    for item in items:
        if item.get_closest_marker("in_full") is not None:
            yield item
        if (mark := item.get_closest_marker("one_in")) is not None:
            family = item.nodeid.partition("[")[0]
            if (seen[family] + today) % mark.args[0]:
                yield item
            seen[family] += 1


def pytest_collection_finish() -> None:
    """What is imported and collected by now stays: the collector need not look through it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*LESS_OFTEN)
    gc.enable()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A skipped test fails the gate."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.getoption("--nothing-skipped") and reporter and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the very end, and in red, that a green run has tested no real server."""
    if (line := untested(terminalreporter.stats)) is not None:
        terminalreporter.write_sep("=", "no real servers", red=True, bold=True)
        terminalreporter.write_line(line, red=True, bold=True)
