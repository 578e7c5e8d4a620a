"""Intervals merge exactly and cross the pipe unchanged."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.histogram import Histogram
from replexplorer.core.interval import Interval


def an_interval(
    start_s: float, latencies_us: list[int], errors: int = 0, fault: str | None = None
) -> Interval:
    service = Histogram()
    service.record_all(latencies_us)
    return Interval(
        start_s=start_s,
        end_s=start_s + 0.5,
        service=service,
        errors=errors,
        unknown=1,
        reconnects=2,
        clients=8,
        connected=7,
        workload="update_index",
        cpu_percent=10.0,
        lateness_p99_ms=1.0,
        fault=fault,
    )


latencies = st.lists(st.integers(0, 5_000_000), max_size=60)


@given(st.lists(latencies, min_size=1, max_size=6))
def test_merged_intervals_are_one_long_interval(parts: list[list[int]]) -> None:
    total = an_interval(0.0, parts[0], errors=1)
    for index, part in enumerate(parts[1:], start=1):
        total = total.followed_by(an_interval(index * 0.5, part, errors=1))
    whole = Histogram()
    for latency in [each for part in parts for each in part]:
        whole.record(latency)
    assert total.service == whole
    assert (total.start_s, total.end_s) == (0.0, len(parts) * 0.5)
    assert (total.errors, total.unknown, total.reconnects) == (len(parts), len(parts), 2 * len(parts))


def test_gauges_are_the_later_one_s_and_cpu_is_weighted_by_time() -> None:
    early = an_interval(0.0, [1], fault="1290 read-only")
    late = replace(
        an_interval(0.5, [2]), end_s=2.0, clients=3, connected=1, cpu_percent=50.0, lateness_p99_ms=0.2
    )
    both = early.followed_by(late)
    assert (both.clients, both.connected) == (3, 1)
    assert both.cpu_percent == (10.0 * 0.5 + 50.0 * 1.5) / 2.0
    assert both.lateness_p99_ms == 1.0
    assert both.fault == "1290 read-only"


@given(latencies)
def test_the_wire_form_reads_back_exactly(values: list[int]) -> None:
    interval = an_interval(1.25, values, errors=3, fault="1213 Deadlock found")
    assert Interval.from_wire(json.loads(json.dumps(interval.to_wire()))) == interval
