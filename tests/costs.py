"""What each test costs: the processor's time that it takes, with the programs that it starts.

`--costs FILE` keeps one line a test there and prints the dearest: a run's time is seen nowhere else.
"""

from __future__ import annotations

import gc
import resource
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import settings

from tests.amount import FEWEST_EXAMPLES

MOST_CPU_S: Final = 2.0
"""What a test without a real server may take on an idle machine, where the dearest needs half of that."""
_AMID_OTHERS: Final = 3
"""How many times that a test fails at: other processes slow the same work, by their use of the caches."""
SHOWN: Final = 15
_COST: Final = "cpu_s"


def add_options(parser: pytest.Parser) -> None:
    """Where the costs are kept."""
    parser.addoption("--costs", metavar="FILE", help="keep the processor's time of each test in this file")


class _Collector:
    """What the garbage collector took: it clears up after all tests before, so that it is no test's."""

    began_s = 0.0
    took_s = 0.0

    def __call__(self, phase: str, _: dict[str, int]) -> None:
        if phase == "start":
            self.began_s = time.process_time()
        else:
            self.took_s += time.process_time() - self.began_s


_collector = _Collector()
gc.callbacks.append(_collector)


def spent_s() -> float:
    """Processor's time of this process and of those that it has waited for, without the collector's."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() - _collector.took_s + children.ru_utime + children.ru_stime


def too_dear(item: pytest.Item, took_s: float) -> str | None:
    """Why this test may not take so long; None where it may."""
    marks = ("docker", "costly")
    most_s = MOST_CPU_S
    if item.get_closest_marker("hypothesis"):  # a law costs as much as it has examples
        most_s *= max(1.0, settings.default.max_examples / FEWEST_EXAMPLES)  # type: ignore[union-attr]
    if any(map(item.get_closest_marker, marks)) or item.config.getoption("--in-full"):
        return None
    if took_s <= most_s * _AMID_OTHERS:
        return None
    return (
        f"it takes {took_s:.1f} s of the processor, and a test without servers may take {MOST_CPU_S:g}:"
        ' make it cheaper, or say why not with `@pytest.mark.costly("...")`'
    )


class Costs:
    """A plugin: it weighs each step of a test where it runs, and sums them up where they are reported."""

    def __init__(self, config: pytest.Config) -> None:
        self._output: dict[str, Any] | None = getattr(config, "workeroutput", None)
        self._file: str | None = None if self._output is not None else config.getoption("--costs")
        self._seen_s = spent_s()
        self._of_tests_s: defaultdict[str, float] = defaultdict(float)
        self._of_processes_s: dict[str, float] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logstart(self) -> None:
        """A test begins."""
        self._seen_s = spent_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note what the step took; a test that takes too much fails."""
        report = yield
        before_s, self._seen_s = self._seen_s, spent_s()
        took_s = self._seen_s - before_s
        report.user_properties.append((_COST, took_s))
        if call.when == "call" and report.passed and (why := too_dear(item, took_s)) is not None:
            report.outcome, report.longrepr = "failed", why
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a step up."""
        self._of_tests_s[report.nodeid] += sum(
            value for name, value in report.user_properties if name == _COST and isinstance(value, float)
        )

    def pytest_sessionfinish(self) -> None:
        """A process of several says what it took in all."""
        if self._output is not None:
            self._output[_COST] = spent_s()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """One of several processes has ended."""
        self._of_processes_s[node.gateway.id] = getattr(node, "workeroutput", {}).get(_COST, 0.0)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Keep and show them."""
        if self._file is None:
            return
        by_cost = sorted(self._of_tests_s.items(), key=lambda one: -one[1])
        tests_s, all_s = sum(self._of_tests_s.values()), sum(self._of_processes_s.values()) or spent_s()
        lines = [f"{took_s:.3f}\t{test}" for test, took_s in by_cost]
        kept = Path(self._file)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text("\n".join([f"{all_s - tests_s:.3f}\tcollecting and the rest", *lines, ""]))
        terminalreporter.write_sep("=", f"processor's time: {all_s:.0f} s, in tests {tests_s:.0f} s")
        for test, took_s in by_cost[:SHOWN]:
            terminalreporter.write_line(f"{took_s:6.2f} s {test}")
        terminalreporter.write_line(f"of all tests: {kept}")
