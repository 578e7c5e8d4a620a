"""A recorded session as a report: its charts, each change with its effect, the settings, the events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from replexplorer import __version__
from replexplorer.core.epochs.table import HEADS, NOTE, ledger_rows
from replexplorer.core.event import Event
from replexplorer.core.history.digest import Digest
from replexplorer.core.history.export import SessionTotals, settings_turned
from replexplorer.core.history.series import Point
from replexplorer.core.text import printable, utc_ms
from replexplorer.core.tick import Tick
from replexplorer.reports.report import Block, Report, ReportChart, ReportNotes, ReportTable, words
from replexplorer.reports.svg import Series, line_chart

_MOST_EVENTS: Final = 2_000
"""Told in the report, the newest; marks beyond them are on the charts all the same."""
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


@dataclass(slots=True)
class SessionStory:
    """What the report needs, gathered tick by tick."""

    length_s: float
    """From the first tick to the last."""
    totals: SessionTotals = field(default_factory=SessionTotals)
    digest: Digest = field(init=False)

    def __post_init__(self) -> None:
        """A stretch of the charts is as long as the session's length asks."""
        self.digest = Digest(self.length_s)

    def feed(self, tick: Tick) -> None:
        """Take the next tick."""
        self.totals.add(tick)
        self.digest.feed(tick)


def session_report(about: Mapping[str, str], story: SessionStory, spans: Iterable[ShadedSpan] = ()) -> Report:
    """The whole session; `spans` are shaded on every chart. Times count from its first tick."""
    first, last = story.totals.first, story.totals.last
    if first is None or last is None:
        return Report("Session without a tick", (), ())
    origin_s = first.at_s
    windows = [
        (one.from_s - origin_s, (last.at_s if one.to_s is None else one.to_s) - origin_s, printable(one.what))
        for one in spans
    ]
    facts = [
        (
            "",
            f"Stack {about.get('stack', '?')} ({about.get('servers', 'servers unknown')}), driven by "
            f"{about.get('holder', '?')}; {last.at_s - origin_s:.0f} s. "
            f"Times count from its first tick. Written by replexplorer {__version__}.",
        ),
        ("", story.totals.words),
    ]
    if (unprotected := last.protection.unprotected) is not None:
        told = f"Commits that went unprotected while semi-sync was asked for: {unprotected:,}."
        facts.append(("", told))
    return Report(
        f"Session of {utc_ms(first.wall_s)}",
        [(name, printable(fact)) for name, fact in facts],
        list(_blocks(story, origin_s, last, windows)),
        pointer=_pointer(story, origin_s, windows),
    )


def _blocks(
    story: SessionStory, origin_s: float, last: Tick, windows: Sequence[tuple[float, float, str]]
) -> Iterator[Block]:
    marks = [(event.at_s - origin_s, str(event.mark)) for event in _marked(story)]
    yield from _charts(story.digest.points, origin_s, marks, windows)
    yield ReportTable(words(*HEADS), list(ledger_rows(last.epochs, origin_s)), "Each change", NOTE)
    settings = [
        (f"`{name}`", printable(requested), printable(effective))
        for name, requested, effective in settings_turned(last)
    ]
    yield ReportTable(words("knob", "requested", "in effect"), settings, "Settings at the end")
    yield ReportNotes([] if settings else ["All at their defaults."], "Settings at the end", "lines")
    events = story.totals.events
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


def _marked(story: SessionStory) -> list[Event]:
    return [event for event in story.totals.events if event.mark is not None]


def _charts(
    points: Sequence[Point],
    origin_s: float,
    marks: Sequence[tuple[float, str]],
    windows: Sequence[tuple[float, float, str]],
) -> Iterator[ReportChart]:
    """TPS, latency, and what a failure would have lost, over the same seconds."""

    def series(name: str, style: str, figure: str) -> Series:
        return Series(name, style, [(point.at_s - origin_s, getattr(point, figure)) for point in points])

    tps = [
        series("TPS", "tps", "tps"),
        series("ceiling", "ceiling", "ceiling_tps"),
        series("predicted", "predicted", "predicted_tps"),
    ]
    yield ReportChart(line_chart("TPS", "commits per second, log", tps, marks, log=True, windows=windows))
    latency = [series(name, name, f"{name}_ms") for name in ("p50", "p95", "p99")]
    yield ReportChart(line_chart("Latency", "ms, log", latency, marks, log=True, windows=windows))
    losses = [
        series("mysqld dies", "p50", "process_dies"),
        series("power cut", "p95", "power_cut"),
        series("source lost", "p99", "source_lost"),
    ]
    unit = "acknowledged commits that a failure would lose"
    yield ReportChart(line_chart("At risk", unit, losses, marks, windows=windows))


def _pointer(story: SessionStory, origin_s: float, windows: Sequence[tuple[float, float, str]]) -> str:
    """What the pointer reads, as JSON."""
    document = {
        "names": [name for name, _ in _READ],
        "rows": [
            [round(point.at_s - origin_s, 2), *(_rounded(getattr(point, name)) for _, name in _READ)]
            for point in story.digest.points
        ],
        "marks": [
            [round(event.at_s - origin_s, 2), event.mark, printable(event.text)] for event in _marked(story)
        ],
        "windows": [[round(low, 2), round(high, 2), what] for low, high, what in windows],
    }
    return json.dumps(document, separators=(",", ":"))


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")
