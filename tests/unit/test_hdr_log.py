"""The interval log, read back by HdrHistogram's own library in Python."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from hypothesis import given, settings
from hypothesis import strategies as st

from replexplorer.adapters.recording import SessionReader
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.tick import Tick
from replexplorer.formats.export import SERVICE_TAG, encoded, hdr_log
from replexplorer.formats.paths import shipped_tour
from tests.amount import examples
from tests.fakes.facade import make_tick
from tests.known import known
from tests.unit.test_export import ABOUT, session

NS_PER_MS = 1_000_000
WITHIN = 1 / 128 + 1 / 1000
"""A slot's width and three significant digits."""


def decoded(histogram: Histogram) -> HdrHistogram:
    return HdrHistogram.decode(encoded(histogram))


def merged(file: Path) -> HdrHistogram:
    """All untagged intervals together."""
    total = HdrHistogram(1, 3_600_000_000_000, 3)
    reader = HistogramLogReader(str(file), HdrHistogram(1, 3_600_000_000_000, 3))
    while (one := reader.get_next_interval_histogram()) is not None:
        if not one.get_tag():
            total.add(one)
    reader.close()
    return total


@settings(max_examples=examples(0.3))
@given(st.lists(st.integers(0, 10_000_000), min_size=1, max_size=50))
def test_every_histogram_is_read_back_with_its_counts_and_ends(values_us: list[int]) -> None:
    ours, read = Histogram.of(values_us), decoded(Histogram.of(values_us))
    assert read.get_total_count() == ours.count
    for ours_us, theirs_ns in ((ours.min_us, read.get_min_value()), (ours.max_us, read.get_max_value())):
        assert theirs_ns == pytest.approx(known(ours_us) * 1000, rel=1 / 1000, abs=1)
    for percent in (50.0, 95.0, 99.0):
        expected = known(ours.percentile_ms(percent))
        rank = math.ceil(ours.count * percent / 100)  # theirs is the nearest rank, ours the next one
        found_ms = read.get_value_at_percentile(100 * rank / ours.count) / NS_PER_MS
        assert found_ms == pytest.approx(expected, rel=WITHIN, abs=1e-6)


def test_no_commit_and_one_of_two_hours_are_read_back() -> None:
    assert decoded(Histogram()).get_total_count() == 0
    assert decoded(Histogram.of([7_200_000_000])).get_max_value() == pytest.approx(7.2e12, rel=1 / 1000)


def test_the_log_has_an_interval_a_tick_and_each_mark_as_a_comment(tmp_path: Path) -> None:
    lines = list(hdr_log(ABOUT.items(), session()))
    assert lines[0] == "#[Histogram log format version 1.3]"
    assert [line for line in lines if "Mark" in line] == ["#[Mark 1 at 1.000 s: rtt 85 | 20 ms]"]
    told = [line for line in lines if line[0] not in '#"']
    assert [line.split(",")[0] for line in told] == ["0.000", "0.000"], "the third tick has no load"
    assert [float(line.split(",")[2]) for line in told] == [1.0, 85.0], "the slowest, in ms"
    file = tmp_path / "session.hlog"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    total = merged(file)
    assert total.get_total_count() == 110
    assert total.get_max_value() / NS_PER_MS == pytest.approx(85.0, rel=1 / 1000)


def test_in_the_open_loop_the_response_is_untagged_and_the_service_tagged() -> None:
    tick = make_tick(1.0)
    load = replace(
        known(tick.load), service=Histogram.of([1000]), response=Histogram.of([5000, 6000]), duration_s=0.5
    )
    *_, response, service = hdr_log((), [replace(tick, load=load)])
    assert response.startswith("0.000,0.500,6.000,")
    assert service.startswith(f"Tag={SERVICE_TAG},0.000,0.500,1.000,")


def test_a_session_without_a_tick_has_a_header_alone() -> None:
    assert len(list(hdr_log((), []))) == 2


def test_the_recorded_tour_is_read_by_its_own_tools_with_the_same_percentiles(tmp_path: Path) -> None:
    reader = SessionReader(shipped_tour())
    ticks: list[Tick] = list(reader.ticks())
    file = tmp_path / "tour.hlog"
    file.write_text("\n".join(hdr_log(reader.about.items(), ticks)) + "\n", encoding="utf-8")
    ours = Histogram.merged(
        tick.load.latency for tick in ticks if tick.load is not None and tick.load.latency is not None
    )
    theirs = merged(file)
    assert theirs.get_total_count() == ours.count > 1000
    for percent in (50.0, 95.0, 99.0, 99.9):
        expected = ours.percentile_ms(percent)
        assert theirs.get_value_at_percentile(percent) / NS_PER_MS == pytest.approx(expected, rel=2 * WITHIN)
