"""Knobs by name: what is typed, what is stored and what is shown.

Law: everything typed goes through `parse_assignment`, which answers in the knob's own unit and
type or raises one line that names the value, the knob and what would be right. `format_value`
writes what `parse_value` reads back as the same value.

One knob on one node: requested and effective.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from difflib import get_close_matches
from functools import lru_cache
from math import inf
from typing import Final

from replexplorer.core.errors import UsageError
from replexplorer.core.json_keys import json_keys, json_text
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.catalogue import (
    BY_KEY,
    CATALOGUE,
    ON_OFF,
    Backing,
    Group,
    Kind,
    Knob,
    Place,
    Restart,
    Value,
)
from replexplorer.core.records import dataclass, field, frozen
from replexplorer.core.text import closest, one_line
from replexplorer.core.topology import SOURCE, Roster, ends_of, is_pair, link_between

__all__ = (
    "BY_KEY",
    "CATALOGUE",
    "ON_OFF",
    "SOURCE",
    "Assignment",
    "Backing",
    "Desired",
    "Group",
    "Kind",
    "Knob",
    "KnobName",
    "Place",
    "Restart",
    "Value",
    "addressed",
    "defaults",
    "describe_range",
    "desired_of",
    "expand",
    "find",
    "for_joined",
    "format_change",
    "format_value",
    "is_in_range",
    "parse_assignment",
    "parse_name",
    "parse_value",
    "same_value",
    "step",
)


@json_text
@dataclass(frozen=True, slots=True, order=True)
class KnobName:
    """A knob on one node: what a value is stored, planned and shown under."""

    key: str
    node: str
    """`SOURCE` (what is asked of the source, whichever node that is), the name of another node, the
    nodes of a link between two others (`db2:db3`), or `load`."""

    def __str__(self) -> str:
        """The written form: bare for the source and the load, else `key@node`."""
        return self.key if self.node in (SOURCE, Place.LOAD) else f"{self.key}@{self.node}"

    @property
    def knob(self) -> Knob:
        """The catalogue's row."""
        return BY_KEY[self.key]


SEMI_SYNC: Final = KnobName(keys.SEMI_SYNC, SOURCE)
SEMI_SYNC_REPLICAS: Final = KnobName(keys.SEMI_SYNC_REPLICAS, SOURCE)


@frozen
class Assignment:
    """One `KEY[@NODE]=VALUE`, parsed and checked, for every node that it addresses."""

    names: tuple[KnobName, ...]
    value: Value


_NO_BOUND: Final = 2**63
"""A maximum from here on is that of the server's type, and says nothing."""
_SHOWN: Final = 40
"""Characters of what was typed that an error repeats."""

Desired = Mapping[KnobName, Value]
"""What was asked for, by knob and node."""


def expand(keys: Iterable[Knob], replicas: Sequence[str], pairs: Sequence[str] = ()) -> tuple[KnobName, ...]:
    """All names of these knobs on a stack with these replicas and, between them, the links `pairs`, in
    catalogue order."""
    names: list[KnobName] = []
    for knob in keys:
        nodes: list[str] = [Place.LOAD] if knob.place is Place.LOAD else []
        if not nodes:
            nodes += [] if knob.place is Place.REPLICAS else [SOURCE]
            nodes += replicas if knob.place is not Place.SOURCE or knob.extra_nodes else ()
            nodes += pairs if knob.backing is Backing.LINK else ()
        names += [KnobName(knob.key, node) for node in nodes]
    return tuple(names)


@lru_cache(maxsize=16)
def all_names(replicas: tuple[str, ...], pairs: tuple[str, ...] = ()) -> tuple[KnobName, ...]:
    """`expand` of the whole catalogue, which every look and every tick asks for."""
    return expand(CATALOGUE, replicas, pairs)


def defaults(replicas: Sequence[str]) -> dict[KnobName, Value]:
    """Every knob of a stack with these replicas at its default."""
    return {name: name.knob.default for name in expand(CATALOGUE, replicas)}


_BY_INPUT_NAME: Final = {name: knob for knob in CATALOGUE for name in knob.input_names}


def find(key: str) -> Knob:
    """The knob of this name or alias; raise UsageError with the nearest name when there is none."""
    wanted = key.strip().lower().replace("-", "_")
    if wanted in _BY_INPUT_NAME:
        return _BY_INPUT_NAME[wanted]
    hint = closest(wanted, BY_KEY) or closest(wanted, _BY_INPUT_NAME) or "see `replexplorer get`"
    raise UsageError(f"unknown knob {_quoted(key)}", hint)


def parse_name(text: str) -> KnobName:
    """The inverse of `str(KnobName)`; whether the node exists is not asked. Raise UsageError."""
    key, at, node = text.partition("@")
    knob = find(key)
    if not at:
        if knob.place is Place.REPLICAS:
            raise UsageError(f"{knob.key} is a knob of each replica", f"write {knob.key}@NODE")
        node = Place.LOAD if knob.place is Place.LOAD else SOURCE
    return KnobName(knob.key, str(node))


def addressed(text: str, roster: Roster) -> tuple[KnobName, ...]:
    """The names that `KEY[@NODE]` addresses on a stack with these nodes; raise UsageError.

    A bare key of a replica's knob addresses every replica, a link's in a mesh every link, a member's every
    node, any other the source or the load. A node is given by its name or its alias, a link by its far node
    or by both its nodes.
    """
    key, at, written = (part.strip() for part in text.partition("@"))
    knob = find(key)
    everywhere = expand((knob,), roster.others, roster.pairs if roster.mesh else ())
    if not at:
        names = everywhere if knob.place in (Place.REPLICAS, Place.MEMBERS) else everywhere[:1]
        if not names:
            raise UsageError(f"{knob.key} is a knob of each replica", _ADD_A_REPLICA)
        return names
    if knob.place is Place.LOAD and written == Place.LOAD:
        return everywhere
    if is_pair(written):
        return (KnobName(knob.key, _link(key, knob, written, roster)),)
    node = _node(key, written, written, roster)
    here = tuple(name for name in everywhere if name.node == roster.placed(node))
    if here:
        return here
    owner = {Place.LOAD: "the load", Place.SOURCE: "the source"}.get(knob.place, "each replica")
    where = " or ".join(str(name) for name in everywhere)
    hint = f"write {where}" if where else _ADD_A_REPLICA
    raise UsageError(f"{knob.key} is a knob of {owner}, not of {written}", hint)


_ADD_A_REPLICA: Final = "add a replica to the stack"


def _node(key: str, written: str, where: str, roster: Roster) -> str:
    """The node that is written so within `where`; raise UsageError."""
    node = roster.find(written)
    if node is None:
        near = get_close_matches(written, (*roster.names, *roster.aliases), n=1)
        hint = f"did you mean {key}@{where.replace(written, near[0], 1)}?" if near and written else ""
        raise UsageError(
            f"no node {_quoted(written)} in this stack", hint or f"its nodes are {', '.join(roster.names)}"
        )
    return node


def _link(key: str, knob: Knob, written: str, roster: Roster) -> str:
    """Where the knobs of the link `NODE:NODE` stand; raise UsageError."""
    if knob.backing is not Backing.LINK:
        raise UsageError(f"{knob.key} is not a knob of a link", f"write {knob.key}@NODE, or {knob.key} alone")
    one, other = (_node(key, end.strip(), written, roster) for end in ends_of(written))
    if one == other:
        raise UsageError(f"{_quoted(written)} is not a link", f"name two nodes, for example {key}@db2:db3")
    return roster.placed(link_between(one, other))


def parse_assignment(text: str, roster: Roster) -> Assignment:
    """Read one `KEY[@NODE]=VALUE` for a stack with these nodes; raise UsageError."""
    left, equals, value = text.partition("=")
    if not equals:
        raise UsageError(
            f"{_quoted(text)} is not KEY=VALUE", "write sync_binlog=0 or rtt@db2=85ms, for example"
        )
    names = addressed(left, roster)
    return Assignment(names, parse_value(names[0].knob, value))


def desired_of(assignments: Iterable[Assignment]) -> dict[KnobName, Value]:
    """The values by name; where two assignments meet, the later one holds."""
    return {name: assignment.value for assignment in assignments for name in assignment.names}


_SCALES: Final[Mapping[str, Mapping[str, int]]] = {
    "us, ms, s": {"us": 1, "µs": 1, "μs": 1, "ms": 1_000, "s": 1_000_000},  # both micro signs
    "bit, kbit, mbit, gbit": {
        spelling: 1000**power
        for power, name in enumerate(("", "k", "m", "g"))
        for spelling in (f"{name}bit", f"{name}bit/s", f"{name}bps")
    },
    "B, KiB, MiB, GiB": {
        spelling: 1024**power
        for power, name in enumerate(("", "k", "m", "g", "t"))
        for spelling in ((f"{name}b", f"{name}ib", name) if name else ("B", "b"))
    },
    "k, m": {"k": 1_000, "m": 1_000_000},
}
"""Units that can be written for each other, each with its size in the smallest, by what is said of them. Of
sizes a server's own letters are powers of 1024, so all are. The last are of counts, whatever is counted."""
_WRITTEN_IN: Final = {
    "ms": ((1000, 1000, "s"),),
    "bit/s": ((10**9, 10**6, "gbit"), (10**6, 1000, "mbit"), (1000, 1, "kbit"), (1, 1, "bit")),
    "B": tuple((1024**power, 1024**power, f"{'KMGT'[power - 1]}iB") for power in (4, 3, 2, 1)),
}
"""By a knob's unit the larger ones that it is written in, the largest first: how many of it are one, of what
the value has to be a multiple, and the unit's name."""
_WITH_UNIT: Final = ("us", "ms", "s", "%", "B")
_NUMBER: Final = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))\s*([^\s0-9.+-]*)")


def parse_value(knob: Knob, text: str) -> Value:
    """The value in the knob's own unit and type; raise UsageError."""
    written = text.strip()
    if not written:
        raise UsageError(f"{knob.key} has no value", f"give {describe_range(knob)}")
    if (word := written.lower()) in dict(knob.words):
        return dict(knob.words)[word]
    return _parse_word(knob, written) if knob.kind is Kind.CHOICE else _parse_number(knob, written)


def _parse_word(knob: Knob, text: str) -> str:
    if knob.is_file(text):
        return text
    word = knob.word(text)
    if word not in knob.choices:
        near = get_close_matches(word, knob.choices, n=1)
        hint = f"give {describe_range(knob)}{f'; did you mean {near[0]}?' if near else ''}"
        raise UsageError(f"{knob.key}={_shortened(text)} is not known", hint)
    return word


def _parse_number(knob: Knob, text: str) -> int | float:
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise UsageError(f"{knob.key}={_shortened(text)} is not a number", f"give {describe_range(knob)}")
    number = Decimal(match[1]) * _factor(knob, match[2].lower(), text)
    if knob.minimum is not None and number < Decimal(str(knob.minimum)):
        hint = knob.below_minimum if number == 0 else ""
        raise _out_of_range(knob, text, hint)
    if knob.maximum is not None and number > Decimal(str(knob.maximum)):
        raise _out_of_range(knob, text)
    if knob.kind is Kind.FLOAT:
        return round(float(number), 3) + 0.0  # a microsecond is enough, and never minus zero
    if number != number.to_integral_value():
        raise UsageError(
            f"{knob.key}={_shortened(text)} is not a whole number", f"give {describe_range(knob)}"
        )
    if number % knob.multiple:
        below = int(number // knob.multiple) * knob.multiple
        near = (format_value(knob, each) for each in (below, below + knob.multiple))
        raise UsageError(
            f"{knob.key}={_shortened(text)} is not a multiple of {format_value(knob, knob.multiple)},"
            " and a server would round it",
            f"give {' or '.join(near)}",
        )
    return int(number)


def _factor(knob: Knob, unit: str, text: str) -> Decimal:
    """How many of the knob's own unit one of this is; raise UsageError where it is none of that kind."""
    if unit in ("", knob.unit):
        return Decimal(1)
    names, scale = next((each for each in _SCALES.items() if knob.unit in each[1]), (knob.unit, {}))
    if not scale and knob.unit != "%":
        names, scale = [*_SCALES.items()][-1]
    if unit in scale:
        return Decimal(scale[unit]) / scale.get(knob.unit, 1)
    raise UsageError(
        f"{knob.key}={_shortened(text)} has the wrong unit", f"give {describe_range(knob)} (units: {names})"
    )


def _out_of_range(knob: Knob, text: str, reason: str = "") -> UsageError:
    hint = reason or f"give {describe_range(knob)}"
    return UsageError(f"{knob.key}={_shortened(text)} is out of range", hint)


def describe_range(knob: Knob) -> str:
    """What the knob takes: `0 to 5000 ms`, `after_sync or after_commit`."""
    if knob.range_note:
        return knob.range_note
    if knob.choices:
        *rest, last = knob.choices
        return f"{', '.join(rest)} or {last}" if rest else last
    word = f", or {knob.words[0][0]}" if knob.words else ""
    if knob.unit in ("bit/s", "B") and knob.minimum is not None and knob.maximum is not None:
        return f"{format_value(knob, knob.minimum)} to {format_value(knob, knob.maximum)}{word}"
    unit = f" {knob.unit}" if knob.unit else ""
    low = "" if knob.minimum is None else f"{knob.minimum:g}"
    if knob.maximum is None or knob.maximum >= _NO_BOUND:
        return f"{low}{unit} or more"
    high = f"{int(knob.maximum)}" if knob.maximum == int(knob.maximum) else f"{knob.maximum:g}"
    return f"{low} to {high}{unit}{word}" if low else f"up to {high}{unit}{word}"


def format_value(knob: Knob, value: Value, unit: bool = True) -> str:
    """The short written form: `85 ms`, `10 s`, `after_sync`, `1`; without `unit` the bare number.

    Durations, shares and rates carry a unit, in the size that reads best. A server's own words are
    in capitals, as the server writes them.
    """
    for word, meant in knob.words:
        if meant == value:
            return word
    if isinstance(value, str):
        if knob.is_file(value):
            return value.rpartition("/")[2]
        server_word = knob.backing is Backing.SERVER and value not in ON_OFF
        return value.upper() if server_word else value
    for size, multiple, name in _WRITTEN_IN.get(knob.unit, ()) if unit else ():
        if value >= size and value % multiple == 0:
            return f"{_plain(value / size)} {name}"
    return f"{_plain(value)} {knob.unit}" if unit and knob.unit in _WITH_UNIT else _plain(value)


def with_unit_of(knob: Knob, text: str, shown: Value) -> str:
    """What was typed over a value that is shown: a bare number has the unit that stood there, `5` over
    `10 s` is `5 s`."""
    unit = format_value(knob, shown).partition(" ")[2]
    return f"{text} {unit}" if unit and re.fullmatch(r"[0-9.]+", text.strip()) else text


def format_change(name: KnobName, before: Value | None, after: Value) -> str:
    """A change as a title: `rtt 20 → 85 ms`, `wait_point AFTER_SYNC → AFTER_COMMIT`."""
    knob = name.knob
    new = format_value(knob, after)
    if before is None:
        return f"{name} {new}"
    old = format_value(knob, before)
    if old == new:
        return f"{name} {new}, again"
    new_unit, old_unit = new.partition(" ")[2], old.partition(" ")[2]
    return f"{name} {old.partition(' ')[0] if old_unit == new_unit else old} → {new}"


def same_value(knob: Knob, left: Value | None, right: Value | None) -> bool:
    """Whether two values are the same to the one who carries it out; unknown is never the same."""
    if left is None or right is None or isinstance(left, str) or isinstance(right, str):
        return left is not None and left == right
    resolution = 0.001 if knob.kind is Kind.FLOAT else 0
    return abs(left - right) <= resolution


def step(knob: Knob, value: Value, up: bool, coarse: bool = False) -> Value:
    """The next value that an arrow key stages; a coarse step takes two rungs, the ends hold.

    From a value between two rungs the step goes to the nearest rung in that direction.
    """
    rungs = [rung for rung in knob.steps if is_in_range(knob, rung)]
    if value in rungs:
        index = rungs.index(value) + (1 if up else -1)
    elif isinstance(value, str):
        index = len(rungs) if up else 0
    else:
        # A rung that means a word (`unlimited`) is at its end, whatever number it is kept as.
        words = dict(knob.words).values()
        ends = [
            (inf if at else -inf) if isinstance(rung, str) or rung in words else rung
            for at, rung in enumerate(rungs)
        ]
        beyond = [at for at, each in enumerate(ends) if (each > value if up else each < value)]
        if not beyond:
            return value
        index = beyond[0] if up else beyond[-1]
    if not rungs:
        return value
    index += (1 if up else -1) * int(coarse)
    rung = rungs[min(max(index, 0), len(rungs) - 1)]
    return float(rung) if knob.kind is Kind.FLOAT and not isinstance(rung, str) else rung


def is_in_range(knob: Knob, value: Value) -> bool:
    """Whether a figure is in the knob's range; a word always is."""
    if isinstance(value, str) or value in dict(knob.words).values():
        return True
    low, high = knob.minimum, knob.maximum
    return (low is None or value >= low) and (high is None or value <= high)


def _plain(value: float) -> str:
    if value == int(value):
        return str(int(value))
    return f"{value:.15g}"


def _quoted(text: str) -> str:
    return f"'{_shortened(text.strip())}'"


def _shortened(text: str) -> str:
    return one_line(text, _SHOWN)


def for_joined(
    wanted: Desired,
    names: Iterable[KnobName],
    joined: Collection[str],
    nodes_of: Callable[[KnobName], Collection[str]],
) -> dict[KnobName, Value]:
    """What nodes which have `joined` are asked for, by the knobs' `names` on all nodes: what more than half
    of the others want, where something was asked of each. A partition is not taken over, and what was asked
    of a node that had been there before stays. `nodes_of` answers where a knob is carried out.
    """
    found: dict[KnobName, Value] = {}
    each_has = [
        name
        for name in names
        if name.knob.place in (Place.REPLICAS, Place.MEMBERS) and name.key != keys.PARTITION
    ]
    fresh = {name for name in each_has if not set(joined).isdisjoint(nodes_of(name))}
    for name in (name for name in each_has if name in fresh and name not in wanted):
        asked = [wanted.get(other) for other in each_has if other.key == name.key and other not in fresh]
        value, count = Counter(asked).most_common(1)[0] if asked else (None, 0)
        if value is not None and None not in asked and 2 * count > len(asked):
            found[name] = value
    return found


@json_keys(
    hide="name flavor here source",
    show="node default server_default minimum maximum unit scope=knob.backing restart=knob.restart choices"
    " help=knob.help",
    minimum="min",
    maximum="max",
)
@frozen
class KnobView:
    """One knob on one node: requested and effective."""

    name: KnobName
    requested: Value
    effective: Value | None
    """What the server, the agents or the load really have; None when unknown."""
    note: str | None = None
    flavor: str | None = field(default=None, compare=False)
    """Of the stack's servers; None when unknown."""
    here: Knob | None = field(default=None, compare=False)
    """The catalogue's row as the node's server takes it; None where no server says."""

    source: str = field(default=SOURCE, compare=False)
    """The node that is the source now."""
    variable: str | None = field(default=None, compare=False)
    """The server's variable that carries it there; None of a link, a disk or the load, and while no server
    answers."""

    @property
    def knob(self) -> Knob:
        """What can be asked of it: the catalogue's row, narrowed to the server's own range."""
        return self.here or self.name.knob

    @property
    def default(self) -> Value:
        """What a reset makes of it here."""
        return self.name.knob.default_of(self.flavor)

    @property
    def server_default(self) -> Value | None:
        """What the server comes with, without the stack's option file; None where that is not known."""
        return self.name.knob.server_default_of(self.flavor)

    @property
    def node(self) -> str:
        """The node that it is of, or the far one of its link."""
        return self.source if self.name.node == SOURCE else self.name.node

    @property
    def minimum(self) -> float | int | None:
        """The least that this server takes; null for words."""
        return _whole(self.knob.minimum)

    @property
    def maximum(self) -> float | int | None:
        """The most."""
        return _whole(self.knob.maximum)

    @property
    def unit(self) -> str | None:
        """Of its values; null for words and plain counts."""
        return self.knob.unit or None

    @property
    def choices(self) -> tuple[str, ...] | None:
        """The words that it takes; null for a number."""
        return self.knob.choices or None


def _whole(bound: float | None) -> float | int | None:
    return int(bound) if bound is not None and bound == int(bound) else bound
