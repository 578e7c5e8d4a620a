"""A tick as rows of a session file, and back: what each column and each JSON text holds.

Law: what is written is read back the same, histograms included. The load and the settings are written
with every tick, the rest as often as `Writing.every_s` says. A column or a field that a later version
adds is left out by this one, and one that it lacks has its default. What is read has the types that are
written and figures that are finite, or it is UnreadableRow.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, fields, replace
from itertools import accumulate
from typing import Any, Final, TypeVar

from pydantic import TypeAdapter, ValidationError

from replexplorer.core.epochs.epochs import Epoch
from replexplorer.core.event import Event
from replexplorer.core.fault import Fault
from replexplorer.core.knobs.names import BY_KEY, CATALOGUE, SOURCE, KnobName, KnobView
from replexplorer.core.link import LinkView
from replexplorer.core.load.interval import LoadView
from replexplorer.core.model.ceiling import Ceiling
from replexplorer.core.model.fitted import Prediction
from replexplorer.core.records import dataclass, frozen
from replexplorer.core.server.anatomy import Anatomy
from replexplorer.core.server.disk import DiskView
from replexplorer.core.server.exposure import Exposure
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.server.protection import Protection
from replexplorer.core.server.truth import ServerTruth
from replexplorer.core.stats.histogram import Histogram, slot_of
from replexplorer.core.system import SystemName
from replexplorer.core.tick import Tick
from replexplorer.core.topology import is_pair
from replexplorer.formats.files import first_error

_MOST_HISTOGRAM_BYTES: Final = 1 << 16
"""Of a histogram once it is inflated; one with every slot of 64 bits has fewer."""
_HIGHEST_SLOT: Final = slot_of(2**63 - 1)
_LARGEST_FIGURE: Final = 1e18
"""Of any duration, rate or count."""
_LARGEST_INTEGER: Final = 2**63
"""SQLite's integers are below it, an unsigned value of a server's may be above."""
_LONGEST_S: Final = 1e9
"""Of a session: some thirty years."""
_YEAR_10000_S: Final = 253_402_300_800
T = TypeVar("T")


class UnreadableRow(ValueError):
    """A row that is no such row; the text says of what and why."""


def packed(histogram: Histogram | None) -> bytes | None:
    """A histogram as bytes: LEB128 numbers, each zero or positive, deflated (RFC 1951): slots that lie side
    by side with few counts shrink to two fifths.

    sum_us, least_us, greatest_us, then for each slot that has any, in order: its distance to the slot
    before, its count. Least and greatest are absent in an empty histogram, which is one zero.
    """
    if histogram is None:
        return None
    numbers = [histogram.sum_us]
    if histogram.count:
        numbers += [histogram.min_us or 0, histogram.max_us or 0]
    last = 0
    for slot in sorted(histogram.counts):
        numbers += [slot - last, histogram.counts[slot]]
        last = slot
    return zlib.compress(b"".join(map(_leb128, numbers)), wbits=-zlib.MAX_WBITS)


def unpacked(blob: bytes | None) -> Histogram | None:
    """What `packed` made; raises UnreadableRow."""
    if blob is None:
        return None
    try:
        numbers = _numbers(zlib.decompressobj(-zlib.MAX_WBITS).decompress(blob, _MOST_HISTOGRAM_BYTES))
        if len(numbers) == 1:
            return Histogram(sum_us=numbers[0])
        sum_us, least_us, greatest_us, *rest = numbers
        counts = dict(zip(accumulate(rest[::2]), rest[1::2], strict=True))
        if max(counts) > _HIGHEST_SLOT:
            raise ValueError("a slot that there is not")
    except (zlib.error, TypeError, ValueError) as error:
        raise UnreadableRow(f"a histogram that is none: {error}") from None
    return Histogram(counts, sum(counts.values()), sum_us, least_us, greatest_us)


def _leb128(number: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _numbers(blob: bytes) -> list[int]:
    numbers, number, shift = list[int](), 0, 0
    for byte in blob:
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            numbers.append(number)
            number = shift = 0
    return numbers


HISTOGRAMS: Final = ("service", "response")
"""Columns of the load that are blobs in `packed`'s form."""

LOAD_COLUMNS: Final = tuple(each.name for each in fields(LoadView) if each.name not in HISTOGRAMS)
"""Columns of the load: the fields of `LoadView`, where each is explained."""

PARTS: Final[Mapping[str, TypeAdapter[Any]]] = {
    "system": TypeAdapter(SystemName),
    "nodes": TypeAdapter(tuple[NodeView, ...]),
    "protection": TypeAdapter(Protection),
    "links": TypeAdapter(tuple[LinkView, ...]),
    "pairs": TypeAdapter(tuple[LinkView, ...]),
    "disks": TypeAdapter(tuple[DiskView, ...]),
    "ceiling": TypeAdapter(Ceiling | None),
    "predicted": TypeAdapter(Prediction | None),
    "anatomy": TypeAdapter(Anatomy | None),
    "truth": TypeAdapter(ServerTruth | None),
    "exposure": TypeAdapter(Exposure | None),
    "faults": TypeAdapter(tuple[Fault, ...]),
}
"""The other fields of a tick by name: JSON of the classes of `core`."""

_PLACE: Final = {knob.key: place for place, knob in enumerate(CATALOGUE)}
"""Where a knob is in the catalogue."""
_LOAD: Final = TypeAdapter(LoadView)
_EPOCH: Final = TypeAdapter(Epoch)
_EVENT: Final = TypeAdapter(Event)


@frozen
class KnobRow:
    """One knob as it was from a moment on."""

    knob: str
    """`key@node`."""
    requested: str | float
    effective: str | float | None
    note: str | None


@dataclass(slots=True)
class Rows:
    """What of a tick differs from the rows before it."""

    at_s: float
    tick: dict[str, Any]
    """Columns of the table `tick`."""
    parts: dict[str, str] = field(default_factory=dict)
    """Name to JSON."""
    settings: list[KnobRow] = field(default_factory=list)
    epochs: dict[int, str] = field(default_factory=dict)
    """Number to JSON."""
    events: tuple[Event, ...] = ()


@dataclass(slots=True)
class Writing:
    """Ticks to rows: only what changed, and what is sampled at most once in `every_s`."""

    every_s: float = 1.0
    _parts: dict[str, str] = field(default_factory=dict)
    _settings: dict[str, KnobRow] = field(default_factory=dict)
    _epochs: dict[int, Epoch] = field(default_factory=dict)
    _sampled_s: float | None = None
    _unsampled: Tick | None = None
    """The last tick, when only its load and settings were taken."""

    def rows(self, tick: Tick, *, is_last: bool = False) -> Rows:
        """The rows of the next tick; of the last one all that it has."""
        rows = Rows(tick.at_s, _tick_columns(tick), events=tick.events)
        due = is_last or self._sampled_s is None or tick.at_s - self._sampled_s >= self.every_s - 0.01
        self._unsampled = None
        if due or tick.events:
            self._sampled_s = tick.at_s
            self._take_parts(tick, rows)
        else:
            self._unsampled = tick
        for view in tick.knobs.values():
            setting = KnobRow(
                f"{view.name.key}@{view.name.node}",
                _in_sqlite(view.requested),
                _in_sqlite(view.effective),
                view.note,
            )
            if self._settings.get(setting.knob) != setting:
                self._settings[setting.knob] = setting
                rows.settings.append(setting)
        return rows

    def rest(self) -> Rows | None:
        """What the last tick has and was not due: a session's end is as it was; None when all is taken."""
        return None if self._unsampled is None else self.rows(self._unsampled, is_last=True)

    def _take_parts(self, tick: Tick, rows: Rows) -> None:
        for name, adapter in PARTS.items():
            text = adapter.dump_json(getattr(tick, name), exclude_defaults=True).decode()
            if self._parts.get(name) != text:
                rows.parts[name] = self._parts[name] = text
        for epoch in tick.epochs:
            if self._epochs.get(epoch.number) != epoch:
                self._epochs[epoch.number] = epoch
                rows.epochs[epoch.number] = _EPOCH.dump_json(epoch, exclude_defaults=True).decode()


def _tick_columns(tick: Tick) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "at_s": tick.at_s,
        "wall_s": tick.wall_s,
        "stack_state": tick.state,
        "viewer": int(tick.viewer),
    }
    if tick.load is not None:
        columns |= {name: getattr(tick.load, name) for name in LOAD_COLUMNS}
        columns |= {name: packed(getattr(tick.load, name)) for name in HISTOGRAMS}
    return columns


@dataclass(slots=True)
class Reading:
    """Rows to ticks: what did not change stays as it was."""

    stack: str
    _fields: dict[str, Any] = field(default_factory=lambda: {"knobs": {}})
    """Of the next tick."""
    _epochs: dict[int, Epoch] = field(default_factory=dict)
    _flavor: str | None = None
    """Of the servers, as the nodes last said."""

    def part(self, name: str, text: str) -> None:
        """Take a part; one of a later version is left out. Raises UnreadableRow."""
        adapter = PARTS.get(name)
        if adapter is None:
            return
        found = self._fields[name] = _checked(adapter.validate_json, text, name)
        flavor = next((node.flavor for node in found if node.flavor), None) if name == "nodes" else None
        if flavor not in (None, self._flavor):
            self._flavor, knobs = flavor, self._fields["knobs"]
            self._fields["knobs"] = {key: replace(view, flavor=flavor) for key, view in knobs.items()}

    def setting(self, setting: KnobRow) -> None:
        """Take a setting; a knob of a later version is left out. Raises UnreadableRow."""
        key, _, node = setting.knob.partition("@")
        if key not in BY_KEY:
            return
        name = KnobName(key, node)
        requested, effective = _from_sqlite(setting.requested), _from_sqlite(setting.effective)
        knobs = {
            **self._fields["knobs"],
            name: KnobView(name, requested, effective, setting.note, self._flavor),
        }
        self._fields["knobs"] = dict(sorted(knobs.items(), key=_live_order))

    def epoch(self, number: int, text: str) -> None:
        """Take a row of the epoch ledger; raises UnreadableRow."""
        self._epochs[number] = _checked(_EPOCH.validate_json, text, "epoch")
        self._fields["epochs"] = tuple(self._epochs[number] for number in sorted(self._epochs))

    def tick(self, columns: Mapping[str, Any], events: Iterable[Event]) -> Tick:
        """The tick of these columns; raises UnreadableRow."""
        _check_figures(columns, "a tick")
        return Tick(
            at_s=columns["at_s"],
            wall_s=columns["wall_s"],
            stack=self.stack,
            state=columns["stack_state"],
            viewer=bool(columns["viewer"]),
            load=_load_of(columns),
            events=tuple(events),
            **self._fields,
        )


def _load_of(columns: Mapping[str, Any]) -> LoadView | None:
    if columns.get("clients") is None:
        return None
    known = {name: columns[name] for name in LOAD_COLUMNS if columns.get(name) is not None}
    load = _checked(_LOAD.validate_python, {"connected": 0, "workload": "", "tps": None, **known}, "a tick")
    service, response = (unpacked(columns.get(name)) for name in HISTOGRAMS)
    return replace(load, service=service, response=response)


def _checked(validate: Callable[[Any], T], value: Any, what: str) -> T:
    """A value as its type; raises UnreadableRow for one of another."""
    try:
        return validate(value)
    except ValidationError as error:
        where, words = first_error(error)
        raise UnreadableRow(f"{'.'.join(map(str, (what, *where)))}: {words}") from None


def _check_figures(columns: Mapping[str, Any], what: str) -> None:
    """Raise UnreadableRow for a figure that is not finite, and for a clock time that no calendar has."""
    figures = (value for value in columns.values() if isinstance(value, int | float))
    wall_s = columns["wall_s"]
    if not isinstance(wall_s, int | float) or not 0 <= wall_s < _YEAR_10000_S:
        raise UnreadableRow(f"{what} is of no day")
    if not all(abs(value) <= _LARGEST_FIGURE for value in figures):
        raise UnreadableRow(f"{what} with a number that is not finite, or larger than any")


def event_columns(event: Event) -> Sequence[Any]:
    """at_s, wall_s, severity, text, mark."""
    return (event.at_s, event.wall_s, event.severity.value, event.text, event.mark)


def event_of(columns: Mapping[str, Any]) -> Event:
    """What `event_columns` made; raises UnreadableRow."""
    _check_figures(columns, "an event")
    return _checked(_EVENT.validate_python, dict(columns), "event")


def moment(at_s: Any, what: str) -> float:
    """A time on a session's clock in seconds; raises UnreadableRow for what is none."""
    if not isinstance(at_s, int | float) or not -_LONGEST_S < at_s < _LONGEST_S:
        raise UnreadableRow(f"{what} is at no time of a session")
    return float(at_s)


def _in_sqlite(value: Any) -> Any:
    """A knob's value as SQLite takes it: its integers have 63 bits, an unsigned one of a server's has 64."""
    return str(value) if isinstance(value, int) and value >= _LARGEST_INTEGER else value


def _from_sqlite(value: Any) -> Any:
    """The inverse of `_in_sqlite`."""
    is_large = isinstance(value, str) and value.isdecimal() and int(value) >= _LARGEST_INTEGER
    return int(value) if is_large else value


def _live_order(setting: tuple[KnobName, KnobView]) -> tuple[int, bool, bool, int, str]:
    """The catalogue's, as on a stack that runs; its rows are in order of their names."""
    name = setting[0]
    return _PLACE[name.key], name.node != SOURCE, is_pair(name.node), len(name.node), name.node
