"""A recorded session as a table of seconds and as lines of JSON, and what it was as a whole.

Law: times count from the session's first tick, in every form; events are in order of time. An unknown
figure is an empty cell or null, never a zero; percentiles of a whole session are read
from merged histograms. The table holds nothing that a terminal obeys or a spreadsheet
calculates; the lines of JSON hold every text as it was recorded.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final

from replexplorer.core.epochs.epochs import Epoch, EpochSide
from replexplorer.core.epochs.table import figure
from replexplorer.core.event import Event
from replexplorer.core.knobs.names import KnobName, format_value
from replexplorer.core.load.interval import LoadView
from replexplorer.core.server.exposure import FAILURES, Exposure, Loss
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.text import printable, utc_ms
from replexplorer.core.tick import Tick

_HISTOGRAMS: Final = ("service", "response")
_LOAD: Final = tuple(each.name for each in fields(LoadView) if each.name not in _HISTOGRAMS)

_LOSSES: Final = tuple(f"{kind}{part}" for kind in FAILURES for part in ("", "_low", "_high", "_age_ms"))

CSV_COLUMNS: Final = (
    "at_s", "time_utc", "stack_state", "protection", "unprotected", "rtt_asked_ms", "rtt_measured_ms",
    "fsync_measured_ms", "ceiling_tps", "predicted_tps", "lag_ms", *_LOSSES, *_LOAD, "mark", "event",
)  # fmt: skip
"""What a row of the CSV holds; `at_s` counts from the first row, `unprotected` from the session's beginning;
`process_dies`, `power_cut` and `source_lost` are commits that such a failure would have lost, each with its
bounds and the age of the oldest; the load's are the fields of `LoadView`."""
_FORMULA: Final = ("=", "+", "-", "@")
"""A spreadsheet calculates a text that begins so."""


def csv_rows(ticks: Iterable[Tick]) -> Iterator[Sequence[Any]]:
    """The heading, then a row a tick."""
    yield CSV_COLUMNS
    zero_s: float | None = None
    for tick in ticks:
        zero_s = tick.at_s if zero_s is None else zero_s
        row = _figures(tick, zero_s)
        row["mark"] = next((event.mark for event in tick.events if event.mark is not None), None)
        row["event"] = "; ".join(event.text for event in tick.events) or None
        yield [_cell(row.get(name)) for name in CSV_COLUMNS]


def _cell(value: Any) -> Any:
    """A figure as it is; a text without what is obeyed, with an apostrophe before what is calculated."""
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _figures(tick: Tick, zero_s: float) -> dict[str, Any]:
    link, disk = tick.rtt, tick.source_disk
    lags_ms = [each.lag_ms for each in tick.truth.replicas if each.lag_ms is not None] if tick.truth else []
    row: dict[str, Any] = {
        "at_s": round(tick.at_s - zero_s, 3),
        "time_utc": utc_ms(tick.wall_s),
        "stack_state": tick.state,
        "protection": tick.protection.state.value,
        "unprotected": tick.protection.unprotected,
        "rtt_asked_ms": link.rtt_asked_ms if link else None,
        "rtt_measured_ms": link.rtt_measured_ms if link else None,
        "fsync_measured_ms": disk.measured_ms if disk else None,
        "ceiling_tps": tick.ceiling.tps if tick.ceiling else None,
        "predicted_tps": tick.predicted.tps if tick.predicted else None,
        "lag_ms": max(lags_ms, default=None),
    }
    row |= _losses(tick.exposure)
    if tick.load is not None:
        row |= {name: getattr(tick.load, name) for name in _LOAD}
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in row.items()}


def _losses(exposure: Exposure | None) -> dict[str, Any]:
    """Commits that each kind of failure would have lost, with bounds and age; none where it is not known."""
    row: dict[str, Any] = {}
    for kind in FAILURES:
        loss = getattr(exposure, kind, None)
        if isinstance(loss, Loss):
            values = (loss.commits, loss.low, loss.high, loss.age_ms)
            names = (f"{kind}{part}" for part in ("", "_low", "_high", "_age_ms"))
            row |= dict(zip(names, values, strict=True))
    return row


def json_lines(about: Mapping[str, str], ticks: Iterable[Tick]) -> Iterator[dict[str, Any]]:
    """A document a line: `about`, then each tick with its histograms, events and settings as they change,
    and at the end the epoch ledger's rows as they ended."""
    yield {"kind": "about", **about}
    settings: dict[KnobName, tuple[Any, Any]] = {}
    epochs: Sequence[Epoch] = ()
    zero_s: float | None = None
    for tick in ticks:
        zero_s = tick.at_s if zero_s is None else zero_s
        for name, view in tick.knobs.items():
            now = (view.requested, view.effective)
            if settings.get(name) != now:
                settings[name] = now
                yield {
                    "kind": "setting", "at_s": round(tick.at_s - zero_s, 3), "knob": str(name),
                    "requested": now[0], "effective": now[1],
                }  # fmt: skip
        for event in tick.events:
            yield _event(event, zero_s)
        document = {"kind": "tick", **_figures(tick, zero_s)}
        for kind in _HISTOGRAMS:
            histogram: Histogram | None = getattr(tick.load, kind) if tick.load else None
            document[kind] = histogram.to_wire() if histogram is not None else None
        yield document
        epochs = tick.epochs
    for epoch in epochs:
        yield {
            "kind": "verdict", "number": epoch.number, "at_s": round(epoch.at_s - (zero_s or 0.0), 3),
            "change": epoch.title, "mode": epoch.mode,
            "before_tps": epoch.before_tps, "after_tps": epoch.after_tps,
            "delta_percent": epoch.delta_percent, "low_percent": epoch.low_percent,
            "high_percent": epoch.high_percent, "ratio": epoch.ratio, "low_ratio": epoch.low_ratio,
            "high_ratio": epoch.high_ratio, "verdict": epoch.verdict, "more_s": epoch.more_s, "n": epoch.n,
            "outage": _outage(epoch), "exposure_before": _losses(_exposure_of(epoch.before)),
            "exposure_after": _losses(_exposure_of(epoch.after)),
        }  # fmt: skip


def _exposure_of(side: EpochSide | None) -> Exposure | None:
    return None if side is None else side.exposure


def _outage(epoch: Epoch) -> dict[str, Any] | None:
    """What stood in the way of commits since the change; None: nothing did."""
    return asdict(epoch.after.outage) if epoch.after is not None and epoch.after.outage else None


def _event(event: Event, zero_s: float) -> dict[str, Any]:
    return {
        "kind": "event", "at_s": round(event.at_s - zero_s, 3), "time_utc": utc_ms(event.wall_s),
        "severity": event.severity.value, "text": event.text, "mark": event.mark,
    }  # fmt: skip


@dataclass(slots=True)
class SessionTotals:
    """What a session was, gathered tick by tick."""

    first: Tick | None = None
    last: Tick | None = None
    service: Histogram = field(default_factory=Histogram)
    errors: int = 0
    unknown: int = 0
    reconnects: int = 0
    measured_s: float = 0.0
    events: list[Event] = field(default_factory=list)
    """In order of time: some are known only later."""

    def add(self, tick: Tick) -> None:
        """Take the next tick."""
        self.first = self.first or tick
        self.last = tick
        for event in tick.events:
            insort(self.events, event, key=lambda each: each.at_s)
        load = tick.load
        if load is not None and load.service is not None:
            self.service.add(load.service)
            self.measured_s += load.duration_s
            self.errors += load.errors
            self.unknown += load.unknown
            self.reconnects += load.reconnects

    @property
    def words(self) -> str:
        """Commits, errors and latency of the whole session in a sentence or two."""
        service = self.service
        return (
            f"{service.count:,} commits in {self.measured_s:.0f} s of load, {self.errors:,} errors, "
            f"{self.unknown:,} of unknown outcome, {self.reconnects:,} reconnects. Latency of all: "
            f"mean {figure(service.mean_ms)} ms, p50 {figure(service.percentile_ms(50))}, "
            f"p95 {figure(service.percentile_ms(95))}, p99 {figure(service.percentile_ms(99))}, "
            f"max {figure(service.max_ms)} ms."
        )


def settings_turned(tick: Tick) -> Iterator[tuple[str, str, str]]:
    """What is not at its default, or not as requested: the knob, what was requested, what is in effect."""
    for name, view in tick.knobs.items():
        if view.requested == view.default and view.effective in (None, view.requested):
            continue
        effective = "unknown" if view.effective is None else format_value(name.knob, view.effective)
        yield str(name), format_value(name.knob, view.requested), effective
