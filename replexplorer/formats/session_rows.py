"""A tick as rows of a session file, and back: what each column and each JSON text holds.

Law: what is written is read back the same, histograms included. The load and the settings are written
with every tick, the rest as often as `Writing.every_s` says. A column or a field that a later version
adds is left out by this one, and one that it lacks has its default. What is read may be from anybody: each
row is bounded, its numbers are finite and its types are those that are written, or it is UnreadableRow.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import accumulate
from typing import Any, Final, Literal

from pydantic import TypeAdapter, ValidationError

from replexplorer.core.epochs.epochs import Epoch
from replexplorer.core.event import Event
from replexplorer.core.fault import Fault
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import BY_KEY, CATALOGUE, SOURCE, Knob, KnobName, KnobView
from replexplorer.core.link import LinkView
from replexplorer.core.load.interval import LoadView
from replexplorer.core.model.ceiling import Ceiling
from replexplorer.core.model.fitted import Prediction
from replexplorer.core.server.anatomy import Anatomy
from replexplorer.core.server.disk import DiskView
from replexplorer.core.server.exposure import Exposure
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.server.protection import Protection
from replexplorer.core.server.truth import ServerTruth
from replexplorer.core.stats.histogram import Histogram, slot_of
from replexplorer.core.tick import Tick
from replexplorer.core.topology import is_pair

MOST_HISTOGRAM_BYTES: Final = 1 << 16
"""Of a histogram once it is inflated; one with every slot of 64 bits has fewer."""
_LONGEST_NUMBER_BITS: Final = 63
_HIGHEST_SLOT: Final = slot_of(2**_LONGEST_NUMBER_BITS - 1)


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
    if not isinstance(blob, bytes):
        raise UnreadableRow("a histogram that is no blob")
    numbers = _numbers(_inflated(blob))
    if len(numbers) == 1:
        return Histogram(sum_us=numbers[0])
    if len(numbers) < 5 or len(numbers) % 2 == 0 or numbers[1] > numbers[2]:
        raise UnreadableRow("a histogram that is cut off, or whose least is above its greatest")
    slots = [*accumulate(numbers[3::2])]
    counts = dict(zip(slots, numbers[4::2], strict=True))
    if slots[-1] > _HIGHEST_SLOT or len(counts) < len(slots) or not all(counts.values()):
        raise UnreadableRow("a histogram with a slot that there is not")
    return Histogram(counts, sum(counts.values()), *numbers[:3])


def _inflated(blob: bytes) -> bytes:
    """The bytes of a blob, of which there are not too many whatever it holds."""
    inflating = zlib.decompressobj(-zlib.MAX_WBITS)
    try:
        found = inflating.decompress(blob, MOST_HISTOGRAM_BYTES + 1)
    except zlib.error:
        raise UnreadableRow("a histogram that cannot be inflated") from None
    if len(found) > MOST_HISTOGRAM_BYTES:
        raise UnreadableRow(f"a histogram of more than {MOST_HISTOGRAM_BYTES >> 10} KB")
    if not inflating.eof or inflating.unused_data:
        raise UnreadableRow("a histogram that cannot be inflated")
    return found


def _leb128(number: int) -> bytes:
    """Seven bits a byte, the lowest first; the eighth says that more follow."""
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _numbers(blob: bytes) -> list[int]:
    numbers, number, shift = [], 0, 0
    for byte in blob:
        if shift >= _LONGEST_NUMBER_BITS:
            raise UnreadableRow("a histogram with a number of more than 63 bits")
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            numbers.append(number)
            number = shift = 0
    if shift or not numbers:
        raise UnreadableRow("a histogram that is cut off")
    return numbers


HISTOGRAMS: Final = ("service", "response")
"""Columns of the load that are blobs in `packed`'s form."""

LOAD_COLUMNS: Final = tuple(each.name for each in fields(LoadView) if each.name not in HISTOGRAMS)
"""Columns of the load: the fields of `LoadView`, where each is explained."""

PARTS: Final[Mapping[str, TypeAdapter[Any]]] = {
    "system": TypeAdapter(Literal["async", "group", "galera"]),
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

MOST_KNOBS: Final = 2_000
"""Knobs of all nodes together."""
MOST_EPOCHS: Final = 5_000
"""Of a session."""

_LARGEST: Final = 2**63
_LARGE: Final = re.compile(r"[0-9]{19,20}")
_LONGEST_S: Final = 1e9
"""Of a session: some thirty years."""
_NODE: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}(:[a-z][a-z0-9_-]{0,39})?")
_LONGEST_WORD: Final = 100
_PLACE: Final = {knob.key: place for place, knob in enumerate(CATALOGUE)}
"""Where a knob is in the catalogue."""
_LARGEST_FIGURE: Final = 1e18
"""Of any duration, rate or share."""
_NO_FIGURE: Final = re.compile(r"NaN|Infinity|[eE][+]?(1[89]|[2-9][0-9]|[0-9]{3})|(?<![.0-9])[0-9]{21}")
"""In JSON a number which is not finite, or larger than any."""
_TEXT_IN_JSON: Final = re.compile(r'"(?:[^"\\]|\\.)*+"')
_YEAR_10000_S: Final = 253_402_300_800
_LOAD: Final = TypeAdapter(LoadView)
_EPOCH: Final = TypeAdapter(Epoch)
_EVENT: Final = TypeAdapter(Event)


@dataclass(frozen=True, slots=True)
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

    def rows(self, tick: Tick) -> Rows:
        """The rows of the next tick."""
        rows = Rows(tick.at_s, _tick_columns(tick), events=tick.events)
        due = self._sampled_s is None or tick.at_s - self._sampled_s >= self.every_s - 0.01
        self._unsampled = None
        if due or tick.events:
            self._sampled_s = tick.at_s
            self._take_parts(tick, rows)
        else:
            self._unsampled = tick
        for view in tick.knobs.values():
            setting = KnobRow(
                f"{view.name.key}@{view.name.node}", _kept(view.requested), _kept(view.effective), view.note
            )
            if self._settings.get(setting.knob) != setting:
                self._settings[setting.knob] = setting
                rows.settings.append(setting)
        return rows

    def rest(self) -> Rows | None:
        """What the last tick has and was not due: a session's end is as it was; None when all is taken."""
        tick, self._unsampled = self._unsampled, None
        if tick is None:
            return None
        rows = Rows(tick.at_s, _tick_columns(tick))
        self._take_parts(tick, rows)
        return rows

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
    _fields: dict[str, Any] = field(default_factory=dict)
    _knobs: dict[KnobName, KnobView] = field(default_factory=dict)
    _epochs: dict[int, Epoch] = field(default_factory=dict)
    _flavor: str | None = None
    """Of the servers, as the nodes last said."""
    _knobs_now: Mapping[KnobName, KnobView] | None = None
    """As the next tick has them; None after a change."""
    _epochs_now: tuple[Epoch, ...] | None = None

    def part(self, name: str, text: str) -> None:
        """Take a part; one of a later version is left out. Raises UnreadableRow."""
        adapter = PARTS.get(name)
        if adapter is None:
            return
        found = self._fields[name] = _read(adapter, text, name)
        if name == "nodes":
            self._found_flavor(next((node.flavor for node in found if node.flavor), None))
        for link in found if name in ("links", "pairs") else ():
            if link.values is not None and keys.PARTITION not in link.values:
                raise UnreadableRow(f"{name}: values without partition")

    def _found_flavor(self, flavor: str | None) -> None:
        if flavor in (None, self._flavor):
            return
        self._flavor = flavor
        self._knobs = {name: replace(view, flavor=flavor) for name, view in self._knobs.items()}
        self._knobs_now = None

    def setting(self, setting: KnobRow) -> None:
        """Take a setting; a knob of a later version is left out. Raises UnreadableRow."""
        key, _, node = _text(setting.knob, "a setting").partition("@")
        if key not in BY_KEY:
            return
        if not _NODE.fullmatch(node):
            raise UnreadableRow(f"a setting of {key} on no node")
        name = KnobName(key, node)
        requested, effective = _unkept(setting.requested), _unkept(setting.effective)
        known = [requested] if effective is None else [requested, effective]
        if not all(_is_value(name.knob, each) for each in known):
            raise UnreadableRow(f"a setting of {key} that is no value of it")
        note = None if setting.note is None else _text(setting.note, "a setting's note")
        self._knobs[name] = KnobView(name, requested, effective, note, self._flavor)
        self._knobs_now = None
        if len(self._knobs) > MOST_KNOBS:
            raise UnreadableRow(f"more than {MOST_KNOBS} settings")

    def epoch(self, number: int, text: str) -> None:
        """Take a row of the epoch ledger; raises UnreadableRow."""
        self._epochs[number] = _read(_EPOCH, text, "epoch")
        self._epochs_now = None
        if len(self._epochs) > MOST_EPOCHS:
            raise UnreadableRow(f"more than {MOST_EPOCHS} epochs")

    def tick(self, columns: Mapping[str, Any], events: Iterable[Event] = ()) -> Tick:
        """The tick of these columns; raises UnreadableRow."""
        if self._knobs_now is None:
            self._knobs_now = dict(sorted(self._knobs.items(), key=_live_order))
        if self._epochs_now is None:
            self._epochs_now = tuple(self._epochs[number] for number in sorted(self._epochs))
        if columns["viewer"] not in (0, 1):
            raise UnreadableRow("a tick whose viewer is neither 0 nor 1")
        try:
            return Tick(
                at_s=moment(columns["at_s"], "a tick"),
                wall_s=_dated(columns["wall_s"], "a tick"),
                stack=self.stack,
                state=_text(columns["stack_state"], "a tick's state"),
                viewer=bool(columns["viewer"]),
                load=_load_of(columns),
                knobs=self._knobs_now,
                epochs=self._epochs_now,
                events=tuple(events),
                **self._fields,
            )
        except (KeyError, TypeError) as error:
            raise UnreadableRow(f"a tick without {error}") from None


def _load_of(columns: Mapping[str, Any]) -> LoadView | None:
    if columns.get("clients") is None:
        return None
    known = {name: columns[name] for name in LOAD_COLUMNS if columns.get(name) is not None}
    try:
        load = _LOAD.validate_python({"connected": 0, "workload": "", "tps": None, **known})
    except ValidationError as error:
        raise UnreadableRow(f"a tick: {error.errors()[0]['msg']}") from None
    figures = (getattr(load, name) for name in LOAD_COLUMNS)
    if not all(abs(each) <= _LARGEST_FIGURE for each in figures if isinstance(each, int | float)):
        raise UnreadableRow("a tick with a number that is not finite, or larger than any")
    service, response = (unpacked(columns.get(name)) for name in HISTOGRAMS)
    return replace(load, service=service, response=response)


def _read(adapter: TypeAdapter[Any], text: str, what: str) -> Any:
    try:
        found = adapter.validate_json(_text(text, what))
        if _NO_FIGURE.search(text) and _NO_FIGURE.search(_TEXT_IN_JSON.sub("", text)):
            raise UnreadableRow(f"{what} with a number that is not finite, or larger than any")
        return found
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UnreadableRow(f"{what}{'.' if where else ''}{where}: {first['msg']}") from None


def event_columns(event: Event) -> Sequence[Any]:
    """at_s, wall_s, severity, text, mark."""
    return (event.at_s, event.wall_s, event.severity.value, event.text, event.mark)


def moment(at_s: Any, what: str) -> float:
    """A time on a session's clock in seconds; raises UnreadableRow for what is none."""
    if not isinstance(at_s, int | float) or not -_LONGEST_S < at_s < _LONGEST_S:
        raise UnreadableRow(f"{what} is at no time of a session")
    return float(at_s)


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str):
        raise UnreadableRow(f"{what} that is no text")
    return value


def _kept(value: Any) -> Any:
    """A knob's value as SQLite takes it: its integers have 63 bits, an unsigned one of a server's has 64."""
    return str(value) if isinstance(value, int) and value >= _LARGEST else value


def _unkept(value: Any) -> Any:
    """The inverse of `_kept`."""
    return int(value) if isinstance(value, str) and _LARGE.fullmatch(value) else value


def _live_order(setting: tuple[KnobName, KnobView]) -> tuple[int, bool, bool, int, str]:
    """The catalogue's, as on a stack that runs; its rows are in order of their names."""
    name = setting[0]
    return _PLACE[name.key], name.node != SOURCE, is_pair(name.node), len(name.node), name.node


def _is_value(knob: Knob, value: Any) -> bool:
    """Whether a knob may have had it; a word of a later version counts."""
    if isinstance(value, str):
        return 0 < len(value) <= _LONGEST_WORD if knob.choices else value in dict(knob.words).values()
    return not knob.choices and isinstance(value, int | float) and math.isfinite(value)


def event_of(columns: Mapping[str, Any]) -> Event:
    """What `event_columns` made; raises UnreadableRow."""
    event: Event = _read(_EVENT, json.dumps(dict(columns)), "event")
    moment(event.at_s, "an event")
    _dated(event.wall_s, "an event")
    return event


def _dated(wall_s: Any, what: str) -> float:
    """A clock time in seconds since 1970; raises UnreadableRow for one that no calendar has."""
    if not isinstance(wall_s, int | float) or not 0 <= wall_s < _YEAR_10000_S:
        raise UnreadableRow(f"{what} is of no day")
    return float(wall_s)
