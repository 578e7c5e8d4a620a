"""Faults: what can be done to a node or a link on purpose, how it is written, and how it is taken back.

Law: each fault in force has a record from which any app can clear it, whoever injected it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Final

from replexplorer.core.errors import UsageError
from replexplorer.core.json_keys import json_keys
from replexplorer.core.records import field, frozen, replace
from replexplorer.core.text import closest, utc
from replexplorer.core.topology import Roster
from replexplorer.core.wire import LONGEST_FLAP_S, SHORTEST_FLAP_S, Flap


class FaultPart(Enum):
    """What of a stack a fault is done to."""

    SERVER = auto()
    """No login to it succeeds meanwhile."""
    LINK = auto()
    THREAD = auto()
    """A replication thread of a replica."""
    DISK = auto()


@json_keys(
    hide="on_replicas source_too values unit part caption isolates loses_commits",
    show="form without_node",
    key="kind",
)
@frozen
class FaultKind:
    """One kind of fault: a row of what `fault list` prints."""

    key: str
    """As it is typed: `kill`, `partition`."""
    does: str
    """What happens, to whom."""
    undone: str
    """What `fault clear` does."""
    part: FaultPart
    caption: str
    """One that has just begun, in a sentence with `{node}`, `{source}` and `{value}`, or a line of that for
    each of its values."""
    on_replicas: bool = False
    """Without `@NODE` it hits every replica; else the source."""
    source_too: bool = False
    """Though it is for replicas the source may be named: all its links."""
    isolates: bool = False
    """It cuts all links of its node."""
    loses_commits: bool = False
    """Its server may come back without what it, or others, had."""
    values: tuple[str, ...] = ()
    """What may follow `=`; the first is taken where nothing does."""
    unit: str | None = None
    """`ms`: a number of milliseconds follows `=`; `s/s`: two numbers of seconds."""

    @property
    def without_node(self) -> str:
        """Whom it hits where no node is named."""
        return "every replica" if self.on_replicas else "the source"

    @property
    def form(self) -> str:
        """How it is typed, with what may follow: `partition=ack|dump|both`."""
        if self.values:
            return f"{self.key}={'|'.join(self.values)}"
        return f"{self.key}={_FORMS[self.unit]}" if self.unit else self.key

    @property
    def cuts_in_its_window(self) -> bool:
        """A cut link is in its window, whatever else it does."""
        return self.isolates or self.key == FLAP_FAULT

    @property
    def only_turns_knobs(self) -> bool:
        """Cut links are all it does."""
        return self.part is FaultPart.LINK and self.key != FLAP_FAULT


_FORMS: Final = {"ms": "MS", "s/s": "ON_S/OFF_S"}
"""What may follow `=`, by unit."""

PARTITION_FAULT: Final = "partition"
"""The kind that a link's own chip and window show."""
FLAP_FAULT: Final = "flap"
"""The kind that the agents at both ends of its links keep."""

KINDS: Final = (
    FaultKind(
        "kill",
        "SIGKILL to mysqld: it dies. What it wrote survives in the page cache of the machine",
        "starts the server, which recovers",
        FaultPart.SERVER,
        "mysqld of {node} was killed: what it wrote is still in the page cache",
        loses_commits=True,
    ),
    FaultKind(
        "stop",
        "SIGTERM to mysqld: a clean shutdown",
        "starts the server",
        FaultPart.SERVER,
        "mysqld of {node} was shut down cleanly",
    ),
    FaultKind(
        "pause",
        "freezes mysqld: connections stay open and nothing answers",
        "resumes it",
        FaultPart.SERVER,
        "mysqld of {node} is frozen: connections stay open and nothing answers",
    ),
    FaultKind(
        "power_cut",
        "the machine loses power: packets are cut, mysqld is killed, and what no fsync made durable is"
        " gone. strict: all of it; aged: all but what is older than 30 s; torn: each block up to a different"
        " moment. Needs undo_journal=on beforehand (undo_journal@NODE=on for a replica)",
        "power comes back: starts the server, which recovers, and heals its links",
        FaultPart.SERVER,
        "the machine of {node} lost power: what no fsync made durable is gone",
        isolates=True,
        loses_commits=True,
        values=("strict", "aged", "torn"),
    ),
    FaultKind(
        "isolate",
        "the node loses its peers: every packet to and from other nodes is dropped; its clients reach it",
        "heals its links",
        FaultPart.LINK,
        "{node} is cut off from every other node: only its clients reach it",
        isolates=True,
    ),
    FaultKind(
        PARTITION_FAULT,
        "packets between source and replica are dropped: both ways, only the replica's (ack), only the"
        " source's (dump)",
        "heals the link",
        FaultPart.LINK,
        "the link between {source} and {node} is cut, both ways\n"
        "acknowledgements from {node} are lost on their way to {source}\n"
        "nothing that {source} sends reaches {node}",
        on_replicas=True,
        values=("both", "ack", "dump"),
    ),
    FaultKind(
        FLAP_FAULT,
        "the link between source and node goes down and up: ON_S seconds down, OFF_S up, over and over, 2/2"
        " without a value; of the source: all its links. It continues without the app that injected it",
        "the link stays up",
        FaultPart.LINK,
        "the link to {node} keeps going down and up",
        on_replicas=True,
        source_too=True,
        unit="s/s",
    ),
    FaultKind(
        "applier_stop",
        "stops the replica's applier (SQL thread): events still arrive and are acknowledged, and none is"
        " applied",
        "starts the applier",
        FaultPart.THREAD,
        "{node} receives and acknowledges every commit and applies none",
        on_replicas=True,
    ),
    FaultKind(
        "receiver_stop",
        "stops the replica's receiver (IO thread): no event arrives, nothing is acknowledged",
        "starts the receiver",
        FaultPart.THREAD,
        "{node} no longer receives or acknowledges anything",
        on_replicas=True,
    ),
    FaultKind(
        "disk_stall",
        "each fsync of mysqld takes MS milliseconds longer",
        "the disk is as fast as before",
        FaultPart.DISK,
        "each fsync of {node} takes {value} ms longer now",
        unit="ms",
    ),
    FaultKind(
        "disk_full",
        "no file of the node's mysqld can grow: its writes fail with ENOSPC",
        "there is room again, and the server tries to write within a minute; starts one that it ended",
        FaultPart.DISK,
        "the disk of {node} is full: its writes fail",
    ),
)
_UNKNOWN: Final = FaultKind("", "", "", FaultPart.LINK, "a fault was injected on {node}")
"""Of a record that another version wrote."""
_BY_KEY: Final = {kind.key: kind for kind in KINDS}

_LIMITS: Final = {"ms": (0.001, 5000.0), "s": (SHORTEST_FLAP_S, LONGEST_FLAP_S)}
"""The least and the most of a value, by unit."""
_EVEN: Final = "2/2"
"""How a link flaps where nothing is said."""


@frozen
class FaultRequest:
    """What was typed: a kind with its value, and the nodes that it is for."""

    kind: FaultKind
    value: str | None
    """One of the kind's values, or its figures as typed without a unit; None where the kind has none."""
    nodes: tuple[str, ...]

    @property
    def text(self) -> str:
        """As it would be typed, without nodes: `partition=ack`."""
        return written(self.kind.key, self.value)


@frozen
class Had:
    """What the nodes had right before one of them ended."""

    executed: Mapping[str, str] = field(default_factory=dict)
    """GTID set by node that answered; of a replica with what it has received."""
    purged: str | None = None
    """What the node that ended had in no binlog; None: it was not asked."""
    binlog_bytes: int = 0
    """Of its binlogs, taken by a power cut."""
    loses_rows: bool = False
    """Its redo log had not flushed all commits: rows can be missing whose GTIDs its binlog has kept."""
    first: str | None = None
    """What the node had executed a moment before, where it can lose commits: that it went on says that there
    are some in no set; None: it cannot."""


@json_keys(hide="since_wall_s until_wall_s had", show="since until")
@frozen
class Fault:
    """A fault in force, as it is recorded."""

    number: int
    """Grows by one from fault to fault on this stack."""
    kind: str
    value: str | None
    node: str
    since_wall_s: float
    """Seconds since 1970, UTC."""
    until_wall_s: float | None
    """When it ends by itself, if its injector waits for that; None: until it is cleared."""
    by: str
    """Who injected it: `fault (pid 12)`, `tui (pid 7)`."""
    before: Mapping[str, float | int | str]
    """Knobs that it turned, named as in the requested document, with the values that clearing gives back."""
    links: tuple[str, ...] = ()
    """Links that it makes flap, by both their nodes."""
    had: Had | None = None
    """What the nodes had right before it ended a server; None: it ends none, or has not done so yet."""

    def __str__(self) -> str:
        """`partition=ack@db2`."""
        return f"{written(self.kind, self.value)}@{self.node}"

    @property
    def row(self) -> FaultKind:
        """All about its kind."""
        return _BY_KEY.get(self.kind, _UNKNOWN)

    @property
    def takes_down(self) -> bool:
        """Whether no login to its node succeeds meanwhile."""
        return self.row.part is FaultPart.SERVER

    @property
    def since(self) -> str:
        """Since when, UTC."""
        return utc(self.since_wall_s)

    @property
    def until(self) -> str | None:
        """When its injector ends it, UTC; null: until it is cleared."""
        return None if self.until_wall_s is None else utc(self.until_wall_s)

    @property
    def id(self) -> tuple[str, str, float]:
        """Which one it is among all that ever were: numbers begin again once none is in force."""
        return (self.kind, self.node, self.since_wall_s)


def begun_words(kind: FaultKind, value: str | None, node: str, source: str) -> str:
    """The kind's caption for this value."""
    words = kind.caption.splitlines()
    place = kind.values.index(value) if len(words) > 1 and value in kind.values else 0
    return words[place].format(node=node, value=value, source=source)


def written(kind: str, value: str | None) -> str:
    """A kind with its value."""
    return kind if value is None else f"{kind}={value}"


def kind_of(key: str) -> FaultKind:
    """The kind of this name, `power-cut` as well as `power_cut`; raises UsageError."""
    kind = _BY_KEY.get(key.replace("-", "_"))
    if kind is None:
        hint = closest(key, _BY_KEY) or f"use one of {', '.join(_BY_KEY)}"
        raise UsageError(f"unknown fault '{key}'", hint)
    return kind


def parse_fault(text: str, roster: Roster) -> FaultRequest:
    """Read `KIND[=VALUE][@NODE]`, the node before or behind the value; raises UsageError."""
    kind, value, node = fault_parts(text)
    return FaultRequest(kind, value, _nodes(kind, node, roster))


def fault_parts(text: str) -> tuple[FaultKind, str | None, str | None]:
    """The kind, the value and the node as it is written; None for no node. Raises UsageError for what is a
    fault on no stack, whatever its nodes are."""
    head, equals, value = text.partition("=")
    head, at, node = head.partition("@")
    if equals and "@" in value:
        if at:
            raise UsageError(f"'{text}' names two nodes", "write KIND=VALUE@NODE")
        value, at, node = value.partition("@")
    kind = kind_of(head)
    return kind, _value(kind, value if equals else None), node if at else None


def _nodes(kind: FaultKind, node: str | None, roster: Roster) -> tuple[str, ...]:
    if node is None:
        return roster.others if kind.on_replicas else (roster.source,)
    found = roster.find(node)
    if found is None:
        raise UsageError(f"{kind.key}: there is no node '{node}'", f"use one of {', '.join(roster.names)}")
    if kind.on_replicas and not kind.source_too and found == roster.source:
        raise UsageError(
            f"{kind.key}: {node} is the source, and this fault is for replicas",
            f"use one of {', '.join(roster.others)}",
        )
    return (found,)


def _value(kind: FaultKind, text: str | None) -> str | None:
    if kind.values:
        value = kind.values[0] if text is None else text
        if value not in kind.values:
            raise UsageError(f"{kind.key}: '{value}' is not known", f"use one of {', '.join(kind.values)}")
        return value
    if kind.unit:
        given = text if text is not None else _EVEN if kind.key == FLAP_FAULT else ""
        return "/".join(f"{each:g}" for each in _figures(kind, given))
    if text is not None:
        raise UsageError(f"{kind.key} takes no value, not '{text}'", f"write {kind.key}")
    return None


def _figures(kind: FaultKind, text: str) -> list[float]:
    """The numbers of its value, in its unit; raises UsageError."""
    units = str(kind.unit).split("/")
    low, high = _LIMITS[units[0]]
    figures: list[float] = []
    with contextlib.suppress(ValueError):
        figures = [float(part.strip().removesuffix(units[0])) for part in text.split("/")]
    if len(figures) != len(units) or not all(low <= each <= high for each in figures):
        raise UsageError(
            f"{kind.key}: '{text}' is out of range", f"give {kind.form}, {low:g} to {high:g} {units[0]}"
        )
    return figures


def flap_of(fault: Fault) -> Flap:
    """How the links of a flap go down and up: the first time when it was injected."""
    down_s, up_s = _figures(kind_of(FLAP_FAULT), str(fault.value))
    return Flap(down_s, up_s, fault.since_wall_s)


def given_back(fault: Fault, faults: Sequence[Fault]) -> dict[str, float | int | str]:
    """What clearing it turns back while these are in force: what a later fault turned as well stays as that
    one has it."""
    later = {text for each in faults if each.number > fault.number for text in each.before}
    return {text: value for text, value in fault.before.items() if text not in later}


def without(faults: Sequence[Fault], ended: Fault) -> tuple[Fault, ...]:
    """The faults in force without this one; a later fault that turned the same gives back from then on what
    was before both."""
    left = dict(ended.before)
    remain = []
    for each in faults:
        if each.number > ended.number and (shared := left.keys() & each.before.keys()):
            each = replace(each, before={**each.before, **{text: left.pop(text) for text in shared}})
        remain.append(each)
    return tuple(each for each in remain if each.number != ended.number)


def clears(fault: Fault, text: str | None, roster: Roster) -> bool:
    """Whether `fault clear TEXT` means this one; None means all. Raises UsageError."""
    if text is None:
        return True
    key, at, node = text.partition("@")
    if fault.kind != kind_of(key.partition("=")[0]).key:
        return False
    found = roster.find(node) if at else None
    if at and found is None:
        raise UsageError(f"there is no node '{node}'", f"use one of {', '.join(roster.names)}")
    return found is None or found == fault.node
