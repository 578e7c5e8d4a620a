"""A recorded session as one page: its charts with a pointer that reads them, the ledger, the events.

Law: the page stands alone. It loads nothing, its policy forbids that it does, and every text of the session
is escaped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Final

from replexplorer import __version__
from replexplorer.core.epochs.table import HEADS, NOTE, ledger_rows
from replexplorer.core.event import Event
from replexplorer.core.history.digest import Digest
from replexplorer.core.history.export import SessionTotals, settings_turned, utc
from replexplorer.core.history.points import Point
from replexplorer.core.printable import printable
from replexplorer.core.tick import Tick
from replexplorer.reports.lab_pages import PAGE_STYLE
from replexplorer.reports.svg_chart import STYLE, Series, line_chart

_MOST_EVENTS: Final = 2_000
"""Told on the page, the newest; marks beyond them are on the charts all the same."""
_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
_STYLE: Final = """\
.shown { position: relative; } .shown svg { cursor: crosshair; touch-action: pan-y; }
.pointer { stroke: var(--ink); stroke-width: 1; visibility: hidden; }
#reading { position: sticky; top: 0; background: var(--paper); border-bottom: 1px solid var(--rule);
  padding: .4rem 0; min-height: 1.5rem; font-variant-numeric: tabular-nums; z-index: 1; }
.wide { overflow-x: auto; min-width: 100%; width: max-content; max-width: 94vw;
  position: relative; left: 50%; transform: translateX(-50%); }
.bad { color: var(--bad); } .mark td { font-weight: 600; }"""
_READER: Final = """\
const told = JSON.parse(document.getElementById('session').textContent);
const charts = [...document.querySelectorAll('svg[data-from]')];
const reading = document.getElementById('reading');
const figure = value => value === null ? '-' : value >= 100 ? value.toFixed(0) : value.toPrecision(3);
const lines = charts.map(svg => {
  const line = document.createElementNS('http://www.w3.org/2000/svg', 'line');
  line.setAttribute('class', 'pointer');
  line.setAttribute('y1', svg.dataset.top); line.setAttribute('y2', svg.dataset.foot);
  svg.append(line);
  return line;
});
function show(at) {
  let low = 0, high = told.rows.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (told.rows[middle][0] < at) low = middle + 1; else high = middle;
  }
  if (low > 0 && at - told.rows[low - 1][0] < told.rows[low][0] - at) low -= 1;
  const row = told.rows[low];
  const inside = told.windows.filter(one => one[0] <= row[0] && row[0] <= one[1]).map(one => one[2]);
  const mark = told.marks.filter(one => one[0] <= row[0]).pop();
  reading.textContent = [row[0].toFixed(1) + ' s',
    ...told.names.map((name, place) => name + ' ' + figure(row[place + 1])),
    ...(mark ? ['since (' + mark[1] + ') ' + mark[2]] : []), ...inside].join('  ·  ');
  charts.forEach((svg, place) => {
    const d = svg.dataset, share = (row[0] - d.from) / (d.to - d.from);
    const x = +d.left + share * (d.right - d.left);
    lines[place].setAttribute('x1', x); lines[place].setAttribute('x2', x);
    lines[place].style.visibility = share >= 0 && share <= 1 ? 'visible' : 'hidden';
  });
}
charts.forEach(svg => svg.addEventListener('pointermove', event => {
  const box = svg.getBoundingClientRect(), d = svg.dataset;
  const x = (event.clientX - box.left) / box.width * svg.viewBox.baseVal.width;
  show(+d.from + (x - d.left) / (d.right - d.left) * (d.to - d.from));
}));
if (told.rows.length) show(told.rows[told.rows.length - 1][0]);"""
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
    """What the page needs, gathered tick by tick."""

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


def session_page(about: Mapping[str, str], story: SessionStory, spans: Iterable[ShadedSpan]) -> str:
    """The whole page; `spans` are shaded on every chart. Empty for a session without a tick."""
    first, last = story.totals.first, story.totals.last
    if first is None or last is None:
        return ""
    origin_s = first.at_s
    windows = [
        (one.from_s - origin_s, (last.at_s if one.to_s is None else one.to_s) - origin_s, printable(one.what))
        for one in spans
    ]
    points = story.digest.points
    marked = [event for event in story.totals.events if event.mark is not None]
    marks = [(event.at_s - origin_s, str(event.mark)) for event in marked]
    title = f"Session of {utc(first.wall_s)}"
    facts = (
        f"Stack {about.get('stack', '?')} ({about.get('servers', 'servers unknown')}), driven by "
        f"{about.get('holder', '?')}; {last.at_s - origin_s:.0f} s. "
        f"Times count from its first tick. Page by replexplorer {__version__}.",
        story.totals.words,
    )
    ledger = [[escape(cell) for cell in row] for row in ledger_rows(last.epochs, origin_s)]
    settings = [[escape(printable(cell)) for cell in row] for row in settings_turned(last)]
    parts = [
        "<!doctype html>",
        '<html lang="en"><meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>{escape(title)}</title>",
        f"<style>{PAGE_STYLE}\n{STYLE}\n{_STYLE}</style>",
        f"<h1>{escape(title)}</h1>",
        *(f"<p>{escape(printable(fact))}</p>" for fact in facts),
        '<p id="reading" class="dim">Move over a chart to read it.</p>',
        *(
            f'<div class="shown">{chart}</div>'
            for chart in _charts(points, origin_s, marks, windows)
            if chart
        ),
        "<h2>Each change</h2>",
        _table(HEADS, ledger) + f'<p class="dim">{escape(NOTE)}</p>'
        if ledger
        else "<p>Nothing was turned.</p>",
        "<h2>Settings at the end</h2>",
        _table(("knob", "requested", "in effect"), settings) if settings else "<p>All at their defaults.</p>",
        "<h2>Events</h2>",
        *_events(story.totals.events, origin_s),
        f'<script type="application/json" id="session">{_read(points, origin_s, marked, windows)}</script>',
        f"<script>{_READER}</script>",
        "</html>",
    ]
    return "\n".join(parts) + "\n"


def _charts(
    points: Sequence[Point],
    origin_s: float,
    marks: Sequence[tuple[float, str]],
    windows: Sequence[tuple[float, float, str]],
) -> list[str]:
    """TPS, latency, and what a failure would have lost, over the same seconds."""

    def series(name: str, style: str, figure: str) -> Series:
        return Series(name, style, [(point.at_s - origin_s, getattr(point, figure)) for point in points])

    return [
        line_chart(
            "TPS", "commits per second, log",
            [
                series("TPS", "tps", "tps"), series("ceiling", "ceiling", "ceiling_tps"),
                series("predicted", "predicted", "predicted_tps"),
            ],
            marks, log=True, windows=windows,
        ),
        line_chart(
            "Latency", "ms, log", [series(name, name, f"{name}_ms") for name in ("p50", "p95", "p99")],
            marks, log=True, windows=windows,
        ),
        line_chart(
            "At risk", "acknowledged commits that a failure would lose",
            [
                series("mysqld dies", "p50", "process_dies"), series("power cut", "p95", "power_cut"),
                series("source lost", "p99", "source_lost"),
            ],
            marks, windows=windows,
        ),
    ]  # fmt: skip


def _read(
    points: Sequence[Point],
    origin_s: float,
    marked: Sequence[Event],
    windows: Sequence[tuple[float, float, str]],
) -> str:
    """What the pointer reads, as JSON that ends no script."""
    document = {
        "names": [name for name, _ in _READ],
        "rows": [
            [round(point.at_s - origin_s, 2), *(_rounded(getattr(point, name)) for _, name in _READ)]
            for point in points
        ],
        "marks": [[round(event.at_s - origin_s, 2), event.mark, printable(event.text)] for event in marked],
        "windows": [[round(low, 2), round(high, 2), what] for low, high, what in windows],
    }
    return json.dumps(document, separators=(",", ":")).replace("<", "\\u003c")


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are escaped already."""
    head = "".join(f"<th>{escape(cell)}</th>" for cell in headings)
    body = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _events(events: Sequence[Event], origin_s: float) -> list[str]:
    told = events[-_MOST_EVENTS:]
    rows = [
        (f"{event.at_s - origin_s:.1f} s", event.severity.value,
         f"{'' if event.mark is None else f'({event.mark}) '}{escape(printable(event.text))}")
        for event in told
    ]  # fmt: skip
    left_out = len(events) - len(told)
    note = [f"<p>The newest {len(told):,}; {left_out:,} before them are left out.</p>"] if left_out else []
    return [*note, _table(("at", "", ""), rows)]
