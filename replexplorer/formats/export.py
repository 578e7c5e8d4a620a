"""A recorded session for other programs: a table of seconds, lines of JSON, and HdrHistogram's interval log
(format 1.3).

Law: times count from the session's first tick, in every form; events are in order of time. An unknown
figure is an empty cell or null, never a zero. The table holds nothing that a terminal obeys or a spreadsheet
calculates; the lines of JSON hold every text as it was recorded. Counts and the sum of an interval log are
the session's; a value is the middle of its slot, within 1/128, but for the least and the greatest of each
interval, which are exact. Its values are nanoseconds, as the tools assume, who print milliseconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

from replexplorer.core.epochs.epochs import Epoch, EpochSide
from replexplorer.core.knobs.names import KnobName
from replexplorer.core.server.exposure import FAILURES, Exposure, Loss
from replexplorer.core.stats.histogram import Histogram, slot_middle_us
from replexplorer.core.text import one_line, printable, utc_ms
from replexplorer.core.tick import Tick
from replexplorer.formats.session_rows import HISTOGRAMS, LOAD_COLUMNS

_PARTS: Final = {"": "commits", "_low": "low", "_high": "high", "_age_ms": "age_ms"}
"""What is shown of a loss: the end of a column's name, and the field of `Loss`."""
_LOSSES: Final = tuple(f"{kind}{part}" for kind in FAILURES for part in _PARTS)

CSV_COLUMNS: Final = (
    "at_s", "time_utc", "stack_state", "protection", "unprotected", "rtt_asked_ms", "rtt_measured_ms",
    "fsync_measured_ms", "ceiling_tps", "predicted_tps", "lag_s", *_LOSSES, *LOAD_COLUMNS, "mark", "event",
)  # fmt: skip
"""What a row of the CSV holds; `at_s` counts from the first row, `unprotected` from the session's beginning;
`process_dies`, `power_cut` and `source_lost` are commits that such a failure would have lost, each with its
bounds and the age of the oldest; `lag_s` is of the replica that is farthest behind; the load's are the fields
of `LoadView`."""
_FORMULA: Final = ("=", "+", "-", "@")
"""A spreadsheet calculates a text that begins so."""
_VERDICT: Final = (
    "mode", "before_tps", "after_tps", "delta_percent", "low_percent", "high_percent", "ratio", "low_ratio",
    "high_ratio", "verdict", "more_s", "n",
)  # fmt: skip
"""Of an epoch, in the lines of JSON."""


def csv_rows(ticks: Iterable[Tick]) -> Iterator[Sequence[Any]]:
    """The heading, then a row a tick."""
    yield CSV_COLUMNS
    for tick, zero_s in _from_first(ticks):
        row = _figures(tick, zero_s)
        row["mark"] = next((event.mark for event in tick.events if event.mark is not None), None)
        row["event"] = "; ".join(event.text for event in tick.events) or None
        yield [_cell(row.get(name)) for name in CSV_COLUMNS]


def _from_first(ticks: Iterable[Tick]) -> Iterator[tuple[Tick, float]]:
    """Each tick with the time of the first one."""
    zero_s: float | None = None
    for tick in ticks:
        zero_s = tick.at_s if zero_s is None else zero_s
        yield tick, zero_s


def _cell(value: Any) -> Any:
    """A figure as it is; a text without what is obeyed, with an apostrophe before what is calculated."""
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(_FORMULA) else text


def _figures(tick: Tick, zero_s: float) -> dict[str, Any]:
    link, disk = tick.rtt, tick.source_disk
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
        "lag_s": max((lag_s for lag_s in tick.lags_s.values() if lag_s is not None), default=None),
    }
    row |= _losses(tick.exposure)
    if tick.load is not None:
        row |= {name: getattr(tick.load, name) for name in LOAD_COLUMNS}
    return {name: round(value, 6) if isinstance(value, float) else value for name, value in row.items()}


def _losses(exposure: Exposure | None) -> dict[str, Any]:
    """Commits that each kind of failure would have lost, with bounds and age; none where it is not known."""
    return {
        f"{kind}{part}": getattr(loss, name)
        for kind in FAILURES
        if isinstance(loss := getattr(exposure, kind, None), Loss)
        for part, name in _PARTS.items()
    }


def json_lines(about: Mapping[str, str], ticks: Iterable[Tick]) -> Iterator[dict[str, Any]]:
    """A document a line: `about`, then each tick with its histograms, events and settings as they change,
    and at the end the epoch ledger's rows as they ended."""
    yield {"kind": "about", **about}
    settings: dict[KnobName, tuple[Any, Any]] = {}
    epochs, zero_s = tuple[Epoch, ...](), 0.0
    for tick, zero_s in _from_first(ticks):
        at_s = round(tick.at_s - zero_s, 3)
        for name, view in tick.knobs.items():
            requested, effective = now = (view.requested, view.effective)
            if settings.get(name) != now:
                settings[name] = now
                knob = {"knob": str(name), "requested": requested, "effective": effective}
                yield {"kind": "setting", "at_s": at_s, **knob}
        for event in tick.events:
            yield {
                "kind": "event", "at_s": round(event.at_s - zero_s, 3), "time_utc": utc_ms(event.wall_s),
                "severity": event.severity.value, "text": event.text, "mark": event.mark,
            }  # fmt: skip
        histograms = {kind: getattr(tick.load, kind, None) for kind in HISTOGRAMS}
        shapes = {kind: None if each is None else each.to_wire() for kind, each in histograms.items()}
        yield {"kind": "tick", **_figures(tick, zero_s), "lags_s": tick.lags_s, **shapes}
        epochs = tick.epochs
    for epoch in epochs:
        before, after = epoch.before or EpochSide(), epoch.after or EpochSide()
        yield {
            "kind": "verdict", "number": epoch.number, "at_s": round(epoch.at_s - zero_s, 3),
            "change": epoch.title, **{name: getattr(epoch, name) for name in _VERDICT},
            "outage": asdict(after.outage) if after.outage else None,
            "lag_before": before.lag and asdict(before.lag), "lag_after": after.lag and asdict(after.lag),
            "exposure_before": _losses(before.exposure), "exposure_after": _losses(after.exposure),
        }  # fmt: skip


# -- the interval log

_DIGITS: Final = 3
"""Significant ones of a value."""
_LOWEST_NS: Final = 1
_HIGHEST_NS: Final = 3_600_000_000_000
"""An hour; more where a commit took longer."""
_NS_PER_US: Final = 1_000
_NS_PER_MS: Final = 1_000_000
_MOST_EVENT_CHARACTERS: Final = 300
SERVICE_TAG: Final = "service"
"""Tag of the intervals that count from sending, where those without a tag count from when each was due."""
_HEADINGS: Final = '"StartTimestamp","Interval_Length","Interval_Max","Interval_Compressed_Histogram"'


def hdr_log(about: Iterable[tuple[str, str]], ticks: Iterable[Tick]) -> Iterator[str]:
    """The log line by line, without line ends.

    Untagged intervals are the latency that the screens draw: from sending to reply, in the open loop from
    when each was due; there the time from sending stands beside it with the tag `service`. Marked events
    are comments. A tick without a histogram - no load, or another app's - has no interval.
    """
    yield "#[Histogram log format version 1.3]"
    yield f"#[Latency of commits in nanoseconds. {'; '.join(f'{k}: {one_line(v, 200)}' for k, v in about)}]"
    for number, (tick, zero_s) in enumerate(_from_first(ticks)):
        if not number:
            begun = datetime.fromtimestamp(tick.wall_s, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
            yield f"#[StartTime: {tick.wall_s:.3f} (seconds since epoch), {begun}]"
            yield _HEADINGS
        for event in tick.events:
            if event.mark is not None:
                text = one_line(event.text, _MOST_EVENT_CHARACTERS)
                yield f"#[Mark {event.mark} at {event.at_s - zero_s:.3f} s: {text}]"
        load, until_s = tick.load, tick.at_s - zero_s
        if load is not None and load.latency is not None:
            yield _interval("", load.latency, until_s, load.duration_s)
            if load.response is not None and load.service is not None:
                yield _interval(f"Tag={SERVICE_TAG},", load.service, until_s, load.duration_s)


def _interval(tag: str, histogram: Histogram, until_s: float, length_s: float) -> str:
    most_ms = (histogram.max_us or 0) * _NS_PER_US / _NS_PER_MS
    start_s = max(0.0, until_s - length_s)
    return f"{tag}{start_s:.3f},{length_s:.3f},{most_ms:.3f},{encoded(histogram)}"


def encoded(histogram: Histogram) -> str:
    """A histogram as HdrHistogram's tools read it: version 2, deflated, base64."""
    from hdrh.histogram import HdrHistogram

    highest_ns = max(_HIGHEST_NS, 2 * (histogram.max_us or 0) * _NS_PER_US)
    found = HdrHistogram(_LOWEST_NS, highest_ns, _DIGITS)
    for value_ns, count in _counts_ns(histogram):
        found.record_value(value_ns, count)
    return str(found.encode(), "ascii")


def _counts_ns(histogram: Histogram) -> Iterator[tuple[int, int]]:
    """Values with their counts; the least and the greatest are exact."""
    low, high = histogram.min_us, histogram.max_us
    if low is None or high is None or not histogram.counts:
        return
    left = Counter(histogram.counts)
    for value_us, slot in [(low, min(left)), (high, max(left))][: histogram.count]:
        left[slot] -= 1
        yield value_us * _NS_PER_US, 1
    for slot, count in (+left).items():
        yield round(min(max(slot_middle_us(slot), low), high) * _NS_PER_US), count
