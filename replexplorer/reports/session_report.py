"""A recorded session as a report: its charts, each change with its effect, the settings, the events."""

from __future__ import annotations

import json
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from replexplorer import __version__
from replexplorer.core.epochs.table import HEADS, NOTE, figure, ledger_rows
from replexplorer.core.event import Event
from replexplorer.core.history.series import Digest, Point
from replexplorer.core.knobs.names import format_value
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.text import printable, utc_ms
from replexplorer.core.tick import Tick
from replexplorer.reports.report import Block, Report, ReportChart, ReportNotes, ReportTable, words
from replexplorer.reports.svg import Series, Window, line_chart

_MOST_EVENTS: Final = 2_000
"""Told in the report, the newest; marks beyond them are on the charts all the same."""
_COUNTED: Final = ("errors", "unknown", "reconnects")
LATENCIES: Final = (("p50", "p50", "p50_ms"), ("p95", "p95", "p95_ms"), ("p99", "p99", "p99_ms"))
_CHARTS: Final = (
    ("TPS", "commits per second", (
        ("TPS", "tps", "tps"), ("ceiling", "ceiling", "ceiling_tps"),
        ("predicted", "predicted", "predicted_tps"),
    )),
    ("Latency", "ms, log", LATENCIES),
    ("At risk", "acknowledged commits that a failure would lose", (
        ("mysqld dies", "p50", "process_dies"), ("power cut", "p95", "power_cut"),
        ("source lost", "p99", "source_lost"),
    )),
)  # fmt: skip
"""A title and a unit, then of each line its name, its style and the point's figure."""
_READ: Final = (
    ("TPS", "tps"), ("ceiling", "ceiling_tps"), ("predicted", "predicted_tps"),
    ("p50 ms", "p50_ms"), ("p95 ms", "p95_ms"), ("p99 ms", "p99_ms"), ("max ms", "max_ms"),
    ("mysqld dies", "process_dies"), ("power cut", "power_cut"), ("source lost", "source_lost"),
)  # fmt: skip
"""What the pointer reads: a name, and the point's figure."""


@dataclass(frozen=True, slots=True)
class ShadedSpan:
    """A span of time that the charts shade."""

    from_s: float
    """On the session's clock."""
    to_s: float | None
    """None while it lasts."""
    what: str


def session_report(
    about: Mapping[str, str],
    ticks: Iterable[Tick],
    length_s: float,
    spans: Callable[[], Iterable[ShadedSpan]] = tuple,
) -> Report:
    """The whole session of this length; the `spans`, asked for when all ticks were read, are shaded on every
    chart. Times count from its first tick."""
    first: Tick | None = None
    last: Tick | None = None
    digest, service, measured_s, counts = Digest(length_s), Histogram(), 0.0, Counter[str]()
    events: list[Event] = []
    for tick in ticks:
        first, last = first or tick, tick
        digest.feed(tick)
        for event in tick.events:  # some are known only later
            insort(events, event, key=lambda each: each.at_s)
        load = tick.load
        if load is not None and load.service is not None:
            service.add(load.service)
            measured_s += load.duration_s
            counts.update({name: getattr(load, name) for name in _COUNTED})
    if first is None or last is None:
        return Report("Session without a tick", (), ())
    origin_s = first.at_s
    windows = [
        Window(
            one.from_s - origin_s,
            (last.at_s if one.to_s is None else one.to_s) - origin_s,
            printable(one.what),
        )
        for one in spans()
    ]
    told = service.latency
    facts = [
        f"Stack {about.get('stack', '?')} ({about.get('servers', 'servers unknown')}), driven by "
        f"{about.get('holder', '?')}; {last.at_s - origin_s:.0f} s. "
        f"Times count from its first tick. Written by replexplorer {__version__}.",
        f"{service.count:,} commits in {measured_s:.0f} s of load, {counts['errors']:,} errors, "
        f"{counts['unknown']:,} of unknown outcome, {counts['reconnects']:,} reconnects. Latency of all: "
        f"mean {figure(told.mean)} ms, p50 {figure(told.p50)}, p95 {figure(told.p95)}, "
        f"p99 {figure(told.p99)}, max {figure(told.max)} ms.",
    ]
    if (unprotected := last.protection.unprotected) is not None:
        facts.append(f"Commits that went unprotected while semi-sync was asked for: {unprotected:,}.")
    marks = [
        (event.at_s - origin_s, event.mark, printable(event.text))
        for event in events
        if event.mark is not None
    ]
    points = [point._replace(at_s=point.at_s - origin_s) for point in digest.points]
    blocks = [*_charts(points, marks, windows), *_tables(last, origin_s, events)]
    return Report(
        f"Session of {utc_ms(first.wall_s)}",
        [("", printable(fact)) for fact in facts],
        blocks,
        pointer=_pointer(points, marks, windows),
    )


_Marks = Sequence[tuple[float, int, str]]


def _charts(points: Sequence[Point], marks: _Marks, windows: Sequence[Window]) -> Iterator[ReportChart]:
    """TPS, latency, and what a failure would have lost, over the same seconds."""
    numbered = [(at_s, str(number)) for at_s, number, _ in marks]
    for title, unit, lines in _CHARTS:
        series = [
            Series(name, style, [(point.at_s, getattr(point, read)) for point in points])
            for name, style, read in lines
        ]
        log = title != "At risk"
        yield ReportChart(line_chart(title, unit, series, numbered, log=log, windows=windows))


def _tables(last: Tick, origin_s: float, events: Sequence[Event]) -> Iterator[Block]:
    yield ReportTable(words(*HEADS), list(ledger_rows(last.epochs, origin_s)), "Each change", NOTE)
    settings = [
        (
            f"`{name}`",
            printable(format_value(name.knob, view.requested)),
            "unknown" if view.effective is None else printable(format_value(name.knob, view.effective)),
        )
        for name, view in last.knobs.items()
        if view.requested != view.default or view.effective not in (None, view.requested)
    ]
    yield ReportTable(words("knob", "requested", "in effect"), settings, "Settings at the end")
    yield ReportNotes([] if settings else ["All at their defaults."], "Settings at the end", "lines")
    told = [
        (
            f"{event.at_s - origin_s:.1f} s",
            event.severity.value,
            ("" if event.mark is None else f"({event.mark}) ") + printable(event.text),
        )
        for event in events[-_MOST_EVENTS:]
    ]
    left_out = len(events) - len(told)
    note = f"The newest {len(told):,}; {left_out:,} before them are left out." if left_out else ""
    yield ReportTable(words("at", "", ""), told, "Events", note)


def _pointer(points: Sequence[Point], marks: _Marks, windows: Sequence[Window]) -> str:
    """What the pointer reads, as JSON."""
    document = {
        "names": [name for name, _ in _READ],
        "rows": [
            [round(point.at_s, 2), *(_rounded(getattr(point, name)) for _, name in _READ)] for point in points
        ],
        "marks": [[round(at_s, 2), number, text] for at_s, number, text in marks],
        "windows": [[round(each.from_s, 2), round(each.to_s, 2), each.what] for each in windows],
    }
    return json.dumps(document, separators=(",", ":"))


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")
