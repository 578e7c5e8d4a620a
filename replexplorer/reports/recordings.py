"""Recorded sessions: one as a report, with its charts, each change and its effect, settings and events; and
two runs of a load, one against the other, which may as well be two stacks that were measured in turns.

Law: B against A is judged as the epoch ledger judges an epoch against the one before it. A run that was
down, blocked or degraded meanwhile is of several states, and nothing is compared.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import Final, Literal

from replexplorer import __version__
from replexplorer.core.epochs.epochs import BEFORE, Epoch, Epochs, EpochSide
from replexplorer.core.epochs.table import (
    HEADS,
    NOTE,
    effect_words,
    figure,
    ledger_rows,
    loss_figure,
    verdict_words,
    with_interval,
)
from replexplorer.core.event import Event
from replexplorer.core.history.series import Digest, Point
from replexplorer.core.json_keys import json_keys
from replexplorer.core.knobs.names import KnobName, Value, format_value
from replexplorer.core.load.interval import Interval
from replexplorer.core.load.pacing import CLOSED
from replexplorer.core.records import dataclass, field, frozen, printed, replace
from replexplorer.core.server.exposure import FAILURES, Exposure
from replexplorer.core.server.node_view import LATE_S
from replexplorer.core.server.protection import ProtectionState, word_of
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.stats.measured import Estimate
from replexplorer.core.system import ASYNC
from replexplorer.core.text import printable, table, utc_ms
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
_LATE_STYLES: Final = ("p95", "predicted", "p50", "p99")


def session_report(
    about: Mapping[str, str],
    ticks: Iterable[Tick],
    length_s: float,
    spans: Callable[[], Iterable[Window]] = tuple,
) -> Report:
    """The whole session of this length; the `spans` on its clock, asked for when all ticks were read, are
    shaded on every chart. Times count from its first tick."""
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
    windows = [Window(one.from_s - origin_s, one.to_s - origin_s, printable(one.what)) for one in spans()]
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
        facts.append(f"Commits that went unprotected while semi-sync was requested: {unprotected:,}.")
    marks = [(event.at_s - origin_s, event.mark) for event in events if event.mark is not None]
    points = [point._replace(at_s=point.at_s - origin_s) for point in digest.points]
    blocks = [*charts(points, marks, windows), *_tables(last, origin_s, events)]
    return Report(f"Session of {utc_ms(first.wall_s)}", [("", printable(fact)) for fact in facts], blocks)


def charts(
    points: Sequence[Point], marks: Iterable[tuple[float, int]], windows: Sequence[Window]
) -> Iterator[ReportChart]:
    """TPS, latency, what a failure would have lost, and the lag of replicas that were late, over the same
    seconds; marks are numbered."""
    numbered = [(at_s, str(number)) for at_s, number in marks]
    late = {name for point in points for name, lag_s in point.lags_s.items() if (lag_s or 0.0) >= LATE_S}
    lags = [(name, style, name) for name, style in zip(sorted(late), cycle(_LATE_STYLES), strict=False)]
    for title, unit, lines in (*_CHARTS, ("Lag", "seconds behind the source", lags)):
        series = [
            Series(name, style, [(point.at_s, _figure(point, read)) for point in points])
            for name, style, read in lines
        ]
        log = title in ("TPS", "Latency")
        yield ReportChart(partial(line_chart, title, unit, series, numbered, log=log, windows=windows))


def _figure(point: Point, read: str) -> float | None:
    """A replica's lag by its name, else what is called so."""
    found: float | None = point.lags_s.get(read, getattr(point, read, None))
    return found


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


# -- one against the other

LEAST_INTERVALS: Final = 20
"""A stretch of a recording with fewer is too short to compare: ten seconds."""
_NO_STATE: Final = (ProtectionState.DOWN, ProtectionState.BLOCKED, ProtectionState.DEGRADED)


@json_keys(
    hide="intervals exposures outages knobs zero_s from_s tick recorded", show="server stretch protection"
)
@dataclass(slots=True)
class ComparedRun:
    """What one load did under one set of settings. Times are seconds on a clock of its own."""

    name: str
    """The stack, or the recording's file name without its ending."""
    intervals: list[Interval] = field(default_factory=list)
    exposures: list[Exposure] = field(default_factory=list)
    outages: list[ProtectionState] = field(default_factory=list)
    """Looks that found it in no one state."""
    knobs: Mapping[KnobName, Value] = field(default_factory=dict)
    """In effect, else as requested."""
    zero_s: float = 0.0
    """The recording's first tick, on the clock of its own."""
    from_s: float = 0.0
    """The first look at it."""
    tick: Tick | None = None
    """The last one."""
    recorded: bool = False
    figures: EpochSide = field(default_factory=EpochSide)
    """With 95 % intervals of their own; empty before the comparison."""

    @property
    def stretch(self) -> tuple[float, float] | None:
        """What of a recording is compared, in seconds since its first tick, as in `export`; None for a stack,
        and where a recording has none."""
        if self.tick is None or not self.recorded:
            return None
        return round(self.from_s - self.zero_s, 1), round(self.tick.at_s - self.zero_s, 1)

    @property
    def protection(self) -> str | None:
        """The state that it was last in."""
        return None if self.tick is None else self.tick.protection.state.value

    @property
    def server(self) -> str:
        """`mysql 9.7.4`, `mysql 9.7.4, group`; empty before anything was looked at."""
        source = None if self.tick is None else self.tick.source
        if self.tick is None or source is None:
            return ""
        system = "" if self.tick.system == ASYNC.name else f", {self.tick.system}"
        return f"{source.flavor or '?'} {source.version or '?'}{system}"

    def look(self, tick: Tick) -> None:
        """Take what a tick says besides its load: settings, state, and what a failure would lose."""
        self.from_s = tick.at_s if self.tick is None else self.from_s
        self.tick = tick
        views = tick.knobs.items()
        self.knobs = {
            name: view.requested if view.effective is None else view.effective for name, view in views
        }
        if tick.exposure is not None:
            self.exposures.append(tick.exposure)
        if tick.protection.state in _NO_STATE:
            self.outages.append(tick.protection.state)


def recorded_run(name: str, ticks: Iterable[Tick]) -> tuple[ComparedRun, Sequence[Epoch]]:
    """What of a recording is compared, and all its epochs: the last stretch between two changes with ten
    seconds or more of load in one state, else the last one with so much load; without intervals where
    there is none."""
    run, best = ComparedRun(name, recorded=True), ComparedRun(name, recorded=True)
    requested, changed_s = dict[KnobName, Value](), 0.0
    newest, zero_s, epochs = None, None, tuple[Epoch, ...]()
    for tick in ticks:
        zero_s = tick.at_s if zero_s is None else zero_s
        epochs = tick.epochs or epochs
        now = {knob: view.requested for knob, view in tick.knobs.items()}
        in_effect = all(view.effective in (None, view.requested) for view in tick.knobs.values())
        # A change is in force before its mark, and what a restart took is requested without being in force.
        marks_s = [event.at_s for event in tick.events if event.mark is not None]
        if not in_effect or now != requested or marks_s:
            best, changed_s = _better(best, run), max(marks_s, default=tick.at_s)
            run, requested = ComparedRun(name, zero_s=zero_s, recorded=True), now
        if not in_effect:
            continue
        run.look(tick)
        load = tick.load
        if load is None or load.service is None or load.service is newest or load.state != "running":
            continue
        newest = load.service
        end_s = tick.at_s if tick.load_ended_s is None else tick.load_ended_s
        start_s = end_s - load.duration_s
        if load.clients and load.duration_s > 0 and start_s >= changed_s:
            run.intervals.append(
                Interval(
                    start_s=start_s, end_s=end_s, service=load.service, response=load.response or Histogram(),
                    errors=load.errors, unknown=load.unknown, reconnects=load.reconnects,
                    clients=load.clients, connected=load.connected, workload=load.workload, mode=load.mode,
                )
            )  # fmt: skip
    return _better(best, run), epochs


def _better(best: ComparedRun, run: ComparedRun) -> ComparedRun:
    """The later one, unless it has too little load, or was in no one state and the other was."""
    if len(run.intervals) < LEAST_INTERVALS or (run.outages and best.intervals and not best.outages):
        return best
    return run


def compared(a: ComparedRun, b: ComparedRun) -> Epoch:
    """An epoch whose `before` is A and whose `after` is B."""
    epochs, end_s = Epochs(0.0), 0.0
    for run in (a, b):
        if run is b:
            epochs.begin(1, end_s, "B against A")
            epochs.effective(1, end_s)
        for one in run.intervals:  # one after the other: turns have rests between them
            epochs.add(replace(one, start_s=end_s, end_s=end_s + one.duration_s))
            end_s += one.duration_s
        for exposure in run.exposures:
            epochs.expose(end_s, exposure)
    epochs.end(end_s)
    row = epochs.rows()[-1]
    outage = "; ".join(
        f"{letter} was {' and '.join(dict.fromkeys(run.outages))}"
        for letter, run in (("A", a), ("B", b))
        if run.outages
    )
    if outage:
        return replace(
            row, verdict=f"not compared: {outage}", delta_percent=None, low_percent=None, high_percent=None
        )
    return replace(row, verdict=row.verdict.removesuffix(BEFORE))


@json_keys(name="knob")
@frozen
class KnobDifference:
    """A knob that the two have at other values."""

    name: KnobName
    a: Value | None
    """None: A has no such knob."""
    b: Value | None


def differences(a: ComparedRun, b: ComparedRun) -> tuple[KnobDifference, ...]:
    """Knobs that one lacks, or that are in effect at other values, A's first."""
    names = dict.fromkeys([*a.knobs, *b.knobs])
    found = (KnobDifference(name, a.knobs.get(name), b.knobs.get(name)) for name in names)
    return tuple(one for one in found if one.a != one.b)


def changes(a: Iterable[Epoch], b: Iterable[Epoch]) -> list[RecordedChange]:
    """What each change did to A and to B, by its title; A's order, then B's."""
    left = [epoch for epoch in b if epoch.number]
    rows = []
    for epoch in (each for each in a if each.number):
        twin = next((one for one in left if one.title == epoch.title), None)
        left = [one for one in left if one is not twin]
        rows.append(RecordedChange(epoch.title, ChangeEffect(epoch), ChangeEffect(twin) if twin else None))
    return [*rows, *(RecordedChange(epoch.title, None, ChangeEffect(epoch)) for epoch in left)]


@json_keys(hide="epoch", show="ratio verdict")
@dataclass(slots=True)
class ChangeEffect:
    """What a change did to one of the two."""

    epoch: Epoch

    @property
    def ratio(self) -> Estimate:
        """After divided by before, of TPS, or of response p95 in the open loop."""
        return Estimate(self.epoch.ratio, self.epoch.low_ratio, self.epoch.high_ratio)

    @property
    def verdict(self) -> str:
        """Faster, slower, no difference shown, or why nothing is said."""
        return self.epoch.verdict

    @property
    def words(self) -> str:
        """The ratio with its interval, else the verdict."""
        return effect_words(self.epoch) or self.epoch.verdict


@dataclass(slots=True)
class RecordedChange:
    """A change that was recorded."""

    title: str
    a: ChangeEffect | None
    """Null where it was not made."""
    b: ChangeEffect | None


@printed
class CompareDocument:
    """`compare A B --json`."""

    a: ComparedRun
    b: ComparedRun
    tested: Literal["tps", "response_p95_ms"]
    """TPS in the closed loop, else response p95."""
    ratio: Estimate
    """B's divided by A's, with its 95 % interval; null: not compared."""
    verdict: str
    """Faster, slower (of B), no difference shown, or why nothing is said."""
    turns: int
    """How often each had the machine for itself; 0: recordings."""
    footing: str
    """What the ratio rests on, in words."""
    differences: tuple[KnobDifference, ...]
    changes: list[RecordedChange]
    """Of recordings, what each change did to either."""


_FIGURES: Final = (("TPS", "tps"), ("p50 ms", "p50_ms"), ("p95 ms", "p95_ms"), ("p99 ms", "p99_ms"))


def compare_report(
    a: ComparedRun,
    b: ComparedRun,
    *,
    turns: int = 0,
    epochs: tuple[Sequence[Epoch], Sequence[Epoch]] = ((), ()),
) -> tuple[CompareDocument, str]:
    """The comparison as a document and as text; without `turns` it is of recordings with these `epochs`."""
    found = compared(a, b)
    whole = ChangeEffect(found)
    footing = (
        f"in turns, {'once' if turns == 1 else f'{turns} times'} each: while one ran the other rested"
        if turns
        else "two recordings: each ran by itself, and nothing says whether their machines were alike"
    )
    document = CompareDocument(
        a=replace(a, figures=found.before or EpochSide()),
        b=replace(b, figures=found.after or EpochSide()),
        tested="tps" if found.mode == CLOSED else "response_p95_ms",
        ratio=whole.ratio,
        verdict=whole.verdict,
        turns=turns,
        footing=footing,
        differences=differences(a, b),
        changes=changes(*epochs),
    )
    tested = "TPS" if document.tested == "tps" else "response p95"
    word = f"B is {verdict_words(found)}" if found.verdict in ("faster", "slower") else verdict_words(found)
    lines = [
        table(_compared_rows(document), ("", f"A: {a.name}", f"B: {b.name}")),
        "",
        f"B against A, {tested}: {': '.join(filter(None, (effect_words(found), word)))}",
        f"Basis: {footing}.",
        "Brackets: 95 % confidence intervals.",
    ]
    return document, "\n".join(lines)


def _compared_rows(document: CompareDocument) -> list[tuple[str, ...]]:
    """A figure, a knob or a change a row."""
    both = document.a, document.b
    sides = [side.figures for side in both]
    rows: list[tuple[str, ...]] = [("server", *(side.server for side in both))]
    if not document.turns:
        spans = ("{:.1f} to {:.1f} s".format(*side.stretch) if side.stretch else "none" for side in both)
        rows.append(("stretch", *spans))
    rows += [(word, *(with_interval(getattr(side, name)) for side in sides)) for word, name in _FIGURES]
    rows.append(("commits", *(f"{side.n:,} in {side.length_s:.1f} s" for side in sides)))
    for name, word in FAILURES.items():
        losses = [None if side.exposure is None else getattr(side.exposure, name) for side in sides]
        rows.append((f"lost if {word}", *map(loss_figure, losses)))
    rows.append(("protection", *(word_of(side.protection or "-") for side in both)))
    for one in document.differences:
        values = (
            "(none)" if value is None else format_value(one.name.knob, value) for value in (one.a, one.b)
        )
        rows.append((str(one.name), *values))
    for change in document.changes:
        effects = ("not changed" if each is None else each.words for each in (change.a, change.b))
        rows.append((change.title, *effects))
    return rows
