"""What a run of the tests did not test, to be said at its end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

_RAN: Final = ("passed", "failed", "error", "xfailed", "xpassed")


def untested(stats: Mapping[str, Iterable[Any]]) -> str | None:
    """One line when tests of real servers were skipped for want of Docker; None when they ran, or
    were not asked for. `stats` are pytest's reports by outcome."""
    skipped = sum(_needs_docker(report) for report in stats.get("skipped", ()))
    ran = sum(_needs_docker(report) for outcome in _RAN for report in stats.get(outcome, ()))
    if not skipped or ran:
        return None
    return (
        f"NOT TESTED: all {skipped} tests with real servers were skipped: no Docker daemon answers."
        " `replexplorer doctor` says why; this run says nothing of MySQL, the link or the disk."
    )


def _needs_docker(report: Any) -> bool:
    return "docker" in getattr(report, "keywords", ())
