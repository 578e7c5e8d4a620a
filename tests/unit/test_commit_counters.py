"""What performance_schema counts of commits: read, summed, taken apart in time."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from replexplorer.core.server.commit_counters import (
    INSTRUMENTS,
    CommitSample,
    Source,
    Total,
    commit_statement,
    growth,
)

MS = 10**9
"""In picoseconds."""


def row(
    event: str, times: int, ms: float, fsyncs: int = 0, fsync_ms: float = 0, kind: str = "account"
) -> dict[str, Any]:
    return {
        "kind": kind,
        "event": event,
        "times": times,
        "ps": Decimal(round(ms * MS)),
        "fsyncs": fsyncs,
        "fsync_ps": Decimal(round(fsync_ms * MS)),
    }


def test_a_file_has_writes_and_fsyncs() -> None:
    sample = CommitSample.read(3.0, [row("wait/io/file/sql/binlog", 10, 1.5, 4, 8, "file")])
    assert sample.at_s == 3.0
    assert sample.totals == {Source.BINLOG_WRITE: Total(10, 1.5), Source.BINLOG_FSYNC: Total(4, 8)}


def test_the_redo_log_is_also_what_the_accounts_own_sessions_did_to_it() -> None:
    event = "wait/io/file/innodb/innodb_log_file"
    sample = CommitSample.read(0.0, [row(event, 20, 2, 12, 30, "file"), row(event, 28, 25)])
    assert sample.totals == {
        Source.REDO_WRITE: Total(20, 2),
        Source.REDO_FSYNC: Total(12, 30),
        Source.OWN_REDO: Total(28, 25),
    }


def test_statements_of_all_kinds_are_one_sum_and_so_are_both_names_of_the_stage() -> None:
    sample = CommitSample.read(
        0.0,
        [
            row("statement/com/Execute", 5, 10),
            row("statement/sql/begin", 1, 2),
            row("stage/semisync/Waiting for semi-sync ACK from replica", 3, 6),
            row("stage/semisync/Waiting for semi-sync ACK from slave", 0, 0),
        ],
    )
    assert sample.totals == {Source.STATEMENT: Total(6, 12), Source.ACK_STAGE: Total(3, 6)}


def test_growth_is_the_difference_and_an_account_begins_with_nothing() -> None:
    before = CommitSample(1.0, {Source.ACK: Total(5, 10)})
    after = CommitSample(3.0, {Source.ACK: Total(7, 50), Source.IDLE: Total(9, 9)})
    found = growth(before, after)
    assert found is not None
    assert (found.duration_s, found.totals) == (
        2.0,
        {Source.ACK: Total(2, 40), Source.IDLE: Total(9, 9)},
    )
    assert found.has(Source.ACK)
    assert not found.has(Source.STATEMENT)
    assert found.total(Source.ACK).mean_ms == 20
    assert found.total(Source.STATEMENT).mean_ms is None


@pytest.mark.parametrize(
    ("seconds", "after"),
    [(2.0, Total(4, 100)), (2.0, Total(6, 9)), (0.0, Total(6, 20)), (-1.0, Total(6, 20))],
)
def test_a_counter_that_fell_or_no_time_says_nothing(seconds: float, after: Total) -> None:
    before = CommitSample(1.0, {Source.ACK: Total(5, 10)})
    assert growth(before, CommitSample(1.0 + seconds, {Source.ACK: after})) is None


def test_the_query_names_one_account_and_every_instrument() -> None:
    statement = commit_statement("sandbox")
    assert statement.count("user = 'sandbox'") == 3
    assert all(f"'{name}'" in statement for name in INSTRUMENTS)
    assert "idle" not in INSTRUMENTS
    assert not any("/io/" in name for name in INSTRUMENTS)
