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
from replexplorer.formats.export import CSV_COLUMNS, SERVICE_TAG, csv_rows, encoded, hdr_log, json_lines
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


def test_the_csv_has_a_row_a_tick_and_leaves_unknown_cells_empty(snapshot: object) -> None:
    """A line here is a column: its name, and its cell of each tick."""
    first, second, last = session()
    seen = Exposure(Loss(0, 0, 0), Loss(455, 443, 470, 413.0), Unknown("no replica has answered yet"))
    rows = [*csv_rows([replace(first, exposure=seen), second, last])]
    assert tuple(rows[0]) == CSV_COLUMNS
    text = io.StringIO()
    csv.writer(text).writerows(zip(*rows, strict=True))
    assert text.getvalue().splitlines() == snapshot


def test_every_form_counts_from_the_first_tick_and_tells_events_in_order_of_time(snapshot: object) -> None:
    late = Event(1.25, WALL_S + 1.25, Severity.BAD, "BLOCKED: known late")
    first, second, last = session()
    ticks = [replace(each, at_s=each.at_s + 1.8) for each in (first, second, replace(last, events=(late,)))]
    told = Event(3.5, WALL_S + 3.5, Severity.MARK, "rtt", 1)
    ticks[1] = replace(ticks[1], events=(told,))
    rows = list(csv_rows(ticks))[1:]
    lines = [line for line in json_lines(ABOUT, ticks) if line["kind"] in ("tick", "event")]
    text = markdown_of(ABOUT, ticks)
    events = [line for line in text.splitlines() if "BLOCKED" in line or "(1) rtt" in line]
    marks = [line for line in hdr_log(ABOUT.items(), ticks) if "Mark" in line]
    assert ([row[0] for row in rows], [line["at_s"] for line in lines], events, marks) == snapshot
    assert "Times count from its first tick." in text


def test_lines_of_json_hold_histograms_that_merge_and_settings_as_they_change(snapshot: object) -> None:
    lines = [json.loads(json.dumps(line)) for line in json_lines(ABOUT, session())]
    assert lines[0] == {"kind": "about", **ABOUT}
    ticks = [line for line in lines if line["kind"] == "tick"]
    merged = Histogram.merged(Histogram.from_wire(tick["service"]) for tick in ticks if tick["service"])
    assert merged.count == 110
    assert merged.max_us == 85_000
    turned = [line for line in lines if line["kind"] == "setting" and line["at_s"] == 1.0]
    told = [line for line in lines if line["kind"] in ("event", "verdict")]
    assert (turned, [line.get("text") or line["verdict"] for line in told]) == snapshot


def test_the_report_tells_the_whole_from_merged_histograms(snapshot: object) -> None:
    assert markdown_of(ABOUT, session()).replace(__version__, "VERSION") == snapshot


# -- the interval log, read back by HdrHistogram's own library in Python


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


def test_the_log_has_an_interval_a_tick_and_each_mark_as_a_comment(tmp_path: Path, snapshot: object) -> None:
    """The third tick has no load; the third figure is the slowest in ms."""
    lines = list(hdr_log(ABOUT.items(), session()))
    told = [line.split(",") for line in lines if line[0] not in '#"']
    assert (lines[0], [line for line in lines if "Mark" in line], [each[:3] for each in told]) == snapshot
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
