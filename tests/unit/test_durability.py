"""Which settings make a commit wait for its fsyncs: the meter, the model and the drills ask the same."""

from __future__ import annotations

import pytest

from replexplorer.core.server.comeback import redo_fsyncs, waits_for_both
from replexplorer.core.server.exposure import LogState


@pytest.mark.parametrize(("flush", "fsyncs"), [(0, 0), (1, 1), (2, 0), (3, 2), (None, 0), ("on", 0)])
def test_fsyncs_of_the_redo_log_that_a_commit_waits_for(flush: object, fsyncs: int) -> None:
    assert redo_fsyncs(flush) == fsyncs


@pytest.mark.parametrize(
    ("sync_binlog", "flush", "both"),
    [(1, 1, True), (1, 3, True), (1, 2, False), (0, 3, False), (100, 1, False), (None, 1, False)],
)
def test_a_commit_that_waits_for_both_is_strict(
    sync_binlog: int | None, flush: int | None, both: bool
) -> None:
    assert waits_for_both(sync_binlog, flush) is both
    assert LogState(0, 0, 0, flush, sync_binlog).is_strict is both
