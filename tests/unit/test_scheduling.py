"""The slice that the agent asks the kernel for."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.sidecar import load

scheduling = load("scheduling")


def asked() -> tuple[int | None, bool, int | None, int, int]:
    """A thread's slice before and after, and its nice value before and after."""
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    before, took = scheduling.slice_ns(), scheduling.ask_for_short_slices()
    return before, took, scheduling.slice_ns(), nice, os.getpriority(os.PRIO_PROCESS, 0)


def test_the_thread_that_asks_gets_short_slices_and_keeps_its_nice_value() -> None:
    with ThreadPoolExecutor(1) as pool:
        before, took, after, nice_before, nice_after = pool.submit(asked).result()
    if before is None:
        pytest.skip("this kernel has no slices of one's own (before Linux 6.12)")
    assert took
    assert after == scheduling.SLICE_NS < before
    assert nice_before == nice_after
    assert scheduling.slice_ns() == before


def test_a_machine_that_is_not_known_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling.platform, "machine", lambda: "pdp11")
    assert not scheduling.ask_for_short_slices()
    assert scheduling.slice_ns() is None
