"""A deadline of the tests moves with what the machine does beside, and is never later on an idle one."""

from __future__ import annotations

import os

import pytest

from tests import waiting


@pytest.mark.parametrize(("load", "factor"), [(0.0, 1.0), (2.0, 1.0), (4.0, 2.0), (20.0, 10.0)])
def test_patience_is_how_many_processes_want_a_processor(
    monkeypatch: pytest.MonkeyPatch, load: float, factor: float
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert waiting.patience() == factor


async def test_a_condition_that_never_comes_fails_with_the_last_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refused() -> bool:
        raise ConnectionRefusedError("nobody is there")

    monkeypatch.setattr(waiting, "patience", lambda: 1.0)
    with pytest.raises(AssertionError, match="the server: ConnectionRefusedError"):
        await waiting.until(refused, "the server", within_s=0.05)
    with pytest.raises(AssertionError, match="the file"):
        waiting.until_true(lambda: False, "the file", within_s=0.05)
