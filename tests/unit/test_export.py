"""A recorded session as CSV, as lines of JSON, as Markdown and as an interval log."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

from replexplorer import __version__
from replexplorer.core.epochs.epochs import Epoch
from replexplorer.core.event import Event, Severity
from replexplorer.core.knobs.names import KnobName, KnobView
from replexplorer.core.server.exposure import Exposure, Loss, Unknown
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.tick import Tick
from replexplorer.formats.export import csv_rows, hdr_log, json_lines
from replexplorer.reports.recordings import session_report
from replexplorer.reports.report import markdown
from tests.known import known
from tests.ticks import WALL_S, knob_views, make_tick

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
    first, second, last = (replace(tick, at_s=tick.at_s + 1.8) for tick in session())
    (told,) = second.events
    late = Event(2.55, WALL_S + 2.55, Severity.BAD, "BLOCKED: known late")
    return [
        replace(first, exposure=seen),
        replace(second, events=(replace(told, at_s=2.8),)),
        replace(last, events=(late,)),
    ]


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


WITHIN = 1 / 128 + 1 / 1000
"""A slot's width and three significant digits."""


def test_the_log_has_an_interval_a_tick_and_each_mark_as_a_comment(tmp_path: Path, snapshot: object) -> None:
    """The third tick has no load; the fourth an open one, whose response is untagged and its service tagged.
    The third figure is the slowest in ms."""
    load = known(make_tick().load)
    responses = Histogram.of([*range(1000, 9000, 7), 7_200_000_000])
    load = replace(load, service=Histogram(), response=responses, duration_s=0.5)
    lines = list(hdr_log(ABOUT.items(), [*begun_late(), replace(make_tick(4.8), load=load)]))
    told = [line.rpartition(",")[0] for line in lines if line[0] not in '#"']
    assert (lines[0], [line for line in lines if "Mark" in line], told) == snapshot
    file = tmp_path / "session.hlog"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    reader, read = HistogramLogReader(str(file), HdrHistogram(1, 3_600_000_000_000, 3)), []
    while (one := reader.get_next_interval_histogram()) is not None:
        ms = [one.get_min_value(), *map(one.get_value_at_percentile, (50, 99)), one.get_max_value()]
        read.append((one.get_total_count(), pytest.approx([each / 1e6 for each in ms], rel=WITHIN)))
    reader.close()
    assert read == [(100, [1.0] * 4), (10, [85.0] * 4), (1144, [1.0, 5.0, 8.92, 7.2e6]), (0, [0, 0, 0, 0])]
    assert len(list(hdr_log((), []))) == 2, "a header alone"
