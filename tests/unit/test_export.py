"""A recorded session as CSV, as lines of JSON, as Markdown and as an interval log."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader
from hypothesis import given, settings
from hypothesis import strategies as st

from replexplorer import __version__
from replexplorer.core.epochs.epochs import Epoch
from replexplorer.core.event import Event, Severity
from replexplorer.core.knobs.names import KnobName, KnobView
from replexplorer.core.server.exposure import Exposure, Loss, Unknown
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.tick import Tick
from replexplorer.formats.export import csv_rows, encoded, hdr_log, json_lines
from replexplorer.reports.recordings import session_report
from replexplorer.reports.report import markdown
from tests.amount import examples
from tests.fakes.facade import WALL_S, knob_views, make_tick
from tests.known import known

ABOUT = {"stack": "default", "holder": "tui", "servers": "primary mysql 9.7.4"}
RTT = KnobName("rtt", "db2")


def session() -> list[Tick]:
    """A second of 100 commits of 1 ms, a change with a pipe in its name, a second of 10 of 85 ms, a tick
    without a load, and how many commits went unprotected until then."""
    ticks = []
    for at_s, value_us, commits in ((0.0, 1000, 100), (1.0, 85_000, 10)):
        tick, service = make_tick(at_s), Histogram.of([value_us] * commits)
        load = replace(known(tick.load), service=service, duration_s=1.0, errors=int(at_s), p99_ms=None)
        ticks.append(replace(tick, load=load, wall_s=WALL_S + at_s, epochs=()))
    told = Event(1.0, WALL_S + 1, Severity.MARK, "rtt 85 | 20 ms", 1)
    views = {**knob_views(), RTT: KnobView(RTT, 20.0, 20.0)}
    ticks[1] = replace(ticks[1], events=(told,), knobs=views)
    ledger = (Epoch(1, 1.0, "rtt 0 -> 85 ms", 100.0, 10.0, verdict="slower", n=10),)
    last = make_tick(2.0)
    counted = replace(last.protection, unprotected=18_678)
    return [*ticks, replace(last, load=None, knobs=views, epochs=ledger, protection=counted)]


def markdown_of(about: Mapping[str, str], ticks: Sequence[Tick]) -> str:
    """The session's report."""
    return markdown(session_report(about, ticks, 10.0))


def begun_late() -> list[Tick]:
    """The session as if its first tick had been at 1.8 s; its last tick says what happened before it, of the
    first one it is known what a failure would lose."""
    seen = Exposure(Loss(0, 0, 0), Loss(455, 443, 470, 413.0), Unknown("no replica has answered yet"))
    first, second, last = (
        replace(
            tick,
            at_s=tick.at_s + 1.8,
            events=tuple(replace(each, at_s=each.at_s + 1.8) for each in tick.events),
        )
        for tick in session()
    )
    late = Event(2.55, WALL_S + 2.55, Severity.BAD, "BLOCKED: known late")
    return [replace(first, exposure=seen), second, replace(last, events=(late,))]


def test_the_csv_has_a_row_a_tick_and_leaves_unknown_cells_empty(snapshot: object) -> None:
    """A line here is a column: its name, and its cell of each tick."""
    text = io.StringIO()
    csv.writer(text).writerows(zip(*csv_rows(begun_late()), strict=True))
    assert text.getvalue().splitlines() == snapshot


def test_lines_of_json_hold_histograms_that_merge_and_settings_as_they_change(snapshot: object) -> None:
    lines = [json.loads(json.dumps(line)) for line in json_lines(ABOUT, begun_late())]
    services = [line["service"] for line in lines if line.get("service")]
    assert Histogram.merged(map(Histogram.from_wire, services)) == Histogram.of([1000] * 100 + [85_000] * 10)
    told = [line for line in lines if line["kind"] != "tick" and (line["kind"] != "setting" or line["at_s"])]
    assert (told, [line["at_s"] for line in lines if line["kind"] == "tick"]) == snapshot


def test_the_report_tells_the_whole_from_merged_histograms(snapshot: object) -> None:
    assert markdown_of(ABOUT, begun_late()).replace(__version__, "VERSION") == snapshot


# -- the interval log, read back by HdrHistogram's own library in Python


NS_PER_MS = 1_000_000
WITHIN = 1 / 128 + 1 / 1000
"""A slot's width and three significant digits."""


@settings(max_examples=examples(0.3))
@given(st.lists(st.integers(0, 10_000_000) | st.just(7_200_000_000), min_size=1, max_size=50))
def test_every_histogram_is_read_back_with_its_counts_and_ends(values_us: list[int]) -> None:
    ours, read = Histogram.of(values_us), HdrHistogram.decode(encoded(Histogram.of(values_us)))
    assert read.get_total_count() == ours.count
    ends_us = read.get_min_value() / 1000, read.get_max_value() / 1000
    assert ends_us == pytest.approx((ours.min_us, ours.max_us), rel=1 / 1000, abs=0.001)
    for percent in (50.0, 99.0):
        rank = math.ceil(ours.count * percent / 100)  # theirs is the nearest rank, ours the next one
        found_ms = read.get_value_at_percentile(100 * rank / ours.count) / NS_PER_MS
        assert found_ms == pytest.approx(ours.percentile_ms(percent), rel=WITHIN, abs=1e-6)


def test_the_log_has_an_interval_a_tick_and_each_mark_as_a_comment(tmp_path: Path, snapshot: object) -> None:
    """The third tick has no load; the fourth an open one, whose response is untagged and its service tagged.
    The third figure is the slowest in ms."""
    load = known(make_tick().load)
    load = replace(load, service=Histogram(), response=Histogram.of([5000, 6000]), duration_s=0.5)
    lines = list(hdr_log(ABOUT.items(), [*begun_late(), replace(make_tick(4.8), load=load)]))
    told = [line.rpartition(",")[0] for line in lines if line[0] not in '#"']
    assert (lines[0], [line for line in lines if "Mark" in line], told) == snapshot
    file = tmp_path / "session.hlog"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    reader, counts = HistogramLogReader(str(file), HdrHistogram(1, 3_600_000_000_000, 3)), list[int]()
    while (one := reader.get_next_interval_histogram()) is not None:
        counts.append(one.get_total_count())
    reader.close()
    assert counts == [100, 10, 2, 0]
    assert len(list(hdr_log((), []))) == 2, "a header alone"
