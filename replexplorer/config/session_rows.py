"""A tick as rows of a session file, and back: what each column and each JSON text holds.

Law: what is written is read back the same, histograms included. The load and the settings are written
with every tick, the rest as often as `Writing.every_s` says. A column or a field that a later version
adds is left out by this one, and one that it lacks has its default.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from replexplorer.core.anatomy import Anatomy
from replexplorer.core.histogram import Histogram
from replexplorer.core.knobs import BY_KEY, KnobName
from replexplorer.core.model import Prediction
from replexplorer.core.tick import (
    Ceiling,
    DiskView,
    Epoch,
    Event,
    KnobView,
    LinkView,
    LoadView,
    NodeView,
    Protection,
    Tick,
)
from replexplorer.core.truth import ServerTruth

HISTOGRAMS: Final = ("service", "response")
"""Columns of the load that are blobs in `packed`'s form."""

LOAD_COLUMNS: Final = tuple(each.name for each in fields(LoadView) if each.name not in HISTOGRAMS)
"""Columns of the load: the fields of `core.tick.LoadView`, where each is explained."""

PARTS: Final[Mapping[str, TypeAdapter[Any]]] = {
    "nodes": TypeAdapter(tuple[NodeView, ...]),
    "protection": TypeAdapter(Protection),
    "links": TypeAdapter(tuple[LinkView, ...]),
    "disks": TypeAdapter(tuple[DiskView, ...]),
    "ceiling": TypeAdapter(Ceiling | None),
    "predicted": TypeAdapter(Prediction | None),
    "anatomy": TypeAdapter(Anatomy | None),
    "truth": TypeAdapter(ServerTruth | None),
}
"""The other fields of a tick by name: JSON of the classes of `core.tick`."""

_YEAR_10000_S: Final = 253_402_300_800
_LOAD: Final = TypeAdapter(LoadView)
_EPOCH: Final = TypeAdapter(Epoch)
_EVENT: Final = TypeAdapter(Event)


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


def unpacked(blob: bytes | None, *, is_deflated: bool = True) -> Histogram | None:
    """What `packed` made, now or before it deflated; raises UnreadableRow."""
    if blob is None:
        return None
    try:
        numbers = _numbers(zlib.decompress(blob, -zlib.MAX_WBITS) if is_deflated else blob)
    except zlib.error:
        raise UnreadableRow("a histogram that cannot be inflated") from None
    if not numbers:
        raise UnreadableRow("an empty histogram")
    if len(numbers) == 1:
        return Histogram(sum_us=numbers[0])
    if len(numbers) < 5 or len(numbers) % 2 == 0:
        raise UnreadableRow("a histogram that is cut off")
    counts: dict[int, int] = {}
    slot = 0
    for distance, count in zip(numbers[3::2], numbers[4::2], strict=True):
        slot += distance
        counts[slot] = count
    return Histogram(counts, sum(counts.values()), *numbers[:3])


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
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            numbers.append(number)
            number = shift = 0
    if shift:
        raise UnreadableRow("a histogram that is cut off")
    return numbers


@dataclass(frozen=True, slots=True)
class Setting:
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
    settings: list[Setting] = field(default_factory=list)
    epochs: dict[int, str] = field(default_factory=dict)
    """Number to JSON."""
    events: tuple[Event, ...] = ()


@dataclass(slots=True)
class Writing:
    """Ticks to rows: only what changed, and what is sampled at most once in `every_s`."""

    every_s: float = 1.0
    _parts: dict[str, str] = field(default_factory=dict)
    _settings: dict[str, Setting] = field(default_factory=dict)
    _epochs: dict[int, Epoch] = field(default_factory=dict)
    _sampled_s: float | None = None

    def rows(self, tick: Tick) -> Rows:
        """The rows of the next tick."""
        rows = Rows(tick.at_s, _tick_columns(tick), events=tick.events)
        due = self._sampled_s is None or tick.at_s - self._sampled_s >= self.every_s - 0.01
        if due or tick.events:
            self._sampled_s = tick.at_s
            self._take_parts(tick, rows)
        for view in tick.knobs.values():
            setting = Setting(f"{view.name.key}@{view.name.node}", view.requested, view.effective, view.note)
            if self._settings.get(setting.knob) != setting:
                self._settings[setting.knob] = setting
                rows.settings.append(setting)
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
    is_deflated: bool = True
    """Histograms are: from format 2 on."""
    _fields: dict[str, Any] = field(default_factory=dict)
    _knobs: dict[KnobName, KnobView] = field(default_factory=dict)
    _epochs: dict[int, Epoch] = field(default_factory=dict)

    def part(self, name: str, text: str) -> None:
        """Take a part; one of a later version is left out. Raises UnreadableRow."""
        adapter = PARTS.get(name)
        if adapter is not None:
            self._fields[name] = _read(adapter, text, name)

    def setting(self, setting: Setting) -> None:
        """Take a setting; a knob of a later version is left out."""
        key, _, node = setting.knob.partition("@")
        if key in BY_KEY:
            name = KnobName(key, node)
            self._knobs[name] = KnobView(name, setting.requested, setting.effective, setting.note)

    def epoch(self, number: int, text: str) -> None:
        """Take a row of the ledger; raises UnreadableRow."""
        self._epochs[number] = _read(_EPOCH, text, "epoch")

    def tick(self, columns: Mapping[str, Any], events: Iterable[Event] = ()) -> Tick:
        """The tick of these columns; raises UnreadableRow."""
        try:
            return Tick(
                at_s=float(columns["at_s"]),
                wall_s=_dated(columns["wall_s"], "a tick"),
                stack=self.stack,
                state=str(columns["stack_state"]),
                viewer=bool(columns["viewer"]),
                load=_load_of(columns, is_deflated=self.is_deflated),
                knobs=dict(self._knobs),
                epochs=tuple(self._epochs[number] for number in sorted(self._epochs)),
                events=tuple(events),
                **self._fields,
            )
        except (KeyError, TypeError) as error:
            raise UnreadableRow(f"a tick without {error}") from None


def _load_of(columns: Mapping[str, Any], *, is_deflated: bool) -> LoadView | None:
    if columns.get("clients") is None:
        return None
    known = {name: columns[name] for name in LOAD_COLUMNS if columns.get(name) is not None}
    try:
        load = _LOAD.validate_python({"connected": 0, "workload": "", "tps": None, **known})
    except ValidationError as error:
        raise UnreadableRow(f"a tick: {error.errors()[0]['msg']}") from None
    service, response = (unpacked(columns.get(name), is_deflated=is_deflated) for name in HISTOGRAMS)
    return replace(load, service=service, response=response)


def _read(adapter: TypeAdapter[Any], text: str, what: str) -> Any:
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UnreadableRow(f"{what}{'.' if where else ''}{where}: {first['msg']}") from None


def event_columns(event: Event) -> Sequence[Any]:
    """at_s, wall_s, severity, text, mark."""
    return (event.at_s, event.wall_s, event.severity.value, event.text, event.mark)


def event_of(columns: Mapping[str, Any]) -> Event:
    """What `event_columns` made; raises UnreadableRow."""
    event: Event = _read(_EVENT, json.dumps(dict(columns)), "event")
    _dated(event.wall_s, "an event")
    return event


def _dated(wall_s: Any, what: str) -> float:
    """A clock time in seconds since 1970; raises UnreadableRow for one that no calendar has."""
    if not 0 <= float(wall_s) < _YEAR_10000_S:
        raise UnreadableRow(f"{what} is of no day: {wall_s} s since 1970")
    return float(wall_s)
