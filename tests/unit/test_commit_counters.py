"""What a server counts of commits, taken apart in time."""

from __future__ import annotations

import pytest

from replexplorer.core.server.counters import CommitSample, Source, Total, growth


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
