"""A stack like servers that somebody else made: what of theirs it takes over, and how sure each figure is.

Laws: each row says what they have, what the stack has, and how that is known; what nobody could learn is
`unknown` with the reason, and a value that cannot be had here is never replaced silently.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Final

from replexplorer.core.json_keys import json_keys
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import (
    SOURCE,
    Backing,
    KnobName,
    KnobView,
    Place,
    Value,
    describe_range,
    is_in_range,
)
from replexplorer.core.link import LinkView
from replexplorer.core.load.captured import CapturedWorkload
from replexplorer.core.load.pacing import CLOSED, OPEN
from replexplorer.core.records import frozen
from replexplorer.core.server.counters import CommitSample, Source, Total, growth
from replexplorer.core.server.disk import DiskView
from replexplorer.core.topology import MOST_REPLICAS

_LEAST: Final = 10
"""Transactions whose way to a replica was seen: fewer say nothing."""
_AT_WORK: Final = 0.33
"""Share of the time that a session's statements take from which on it hardly pauses between them: what it
sends depends on the answers, as in a closed loop."""
_KINDS: Final = {
    "redo": (Source.REDO_FSYNC, keys.FSYNC_DELAY_REDO),
    "binlog": (Source.BINLOG_FSYNC, keys.FSYNC_DELAY),
}
"""What counts each kind's fsyncs, and what delays them here: the binlog's delay is that of all files that
have none of their own, the relay log among them."""


class Sure(StrEnum):
    """How sure it is that the stack is as they are."""

    EXACT = "exact"
    MEASURED = "measured"
    ESTIMATED = "estimated"
    NOT_HERE = "not possible here"
    UNKNOWN = "unknown"


@frozen
class Figure:
    """Milliseconds of theirs, and how they are known."""

    ms: float | None
    sure: Sure
    why: str


@json_keys(hide="name asked")
@frozen
class Likeness:
    """One row: theirs, here, how sure."""

    setting: str
    """A knob as it is typed, or a figure with its unit; a replica's with `@NODE` of this stack."""
    theirs: Value | None
    here: Value | None
    sure: Sure
    why: str = ""
    name: KnobName | None = None
    """What carries it here."""
    asked: Value | None = None
    """Of that knob; None: nothing is asked."""


@frozen
class ClockLook:
    """A server's clock as it was asked, and what a replica had received last."""

    trip_s: float
    """How long the answer took."""
    ahead_s: float
    """By how much the server's clock is ahead of this machine's, to half of that."""
    way_us: int | None = None
    """Of the transaction that came last from the source: from its commit by the source's clock until it
    arrived by the replica's."""


@frozen
class Theirs:
    """What was read of a source and its replicas."""

    server: str
    """Flavor and version of the source."""
    flavor: str
    """mysql or mariadb: what a stack like it runs."""
    system: str
    nodes: tuple[str, ...]
    """The source first."""
    knobs: Mapping[KnobName, KnobView]
    trips: Mapping[str, Figure]
    """Round trip between the source and each replica."""
    fsyncs: Mapping[str, Mapping[str, Figure]]
    """By node, of `redo` and `binlog`."""
    load: CapturedWorkload | None
    load_unknown: str
    """Why there is no load to imitate."""

    @property
    def replicas(self) -> int:
        """How many a stack like it has."""
        return min(max(len(self.nodes) - 1, 1), MOST_REPLICAS)


# -- reading


def round_trip(source: Sequence[ClockLook], replica: Sequence[ClockLook], held_ms: float) -> Figure:
    """The round trip between two servers that can both be asked from here, by the best that there is.

    Transactions carry the source's time, and a replica notes when each arrived: what the two clocks are
    apart is known from asking both, and `held_ms` is what the source keeps a commit's events back for after
    it wrote the time (its binlog's fsync and group delay). The fastest of both is what did not queue. Else
    how far both are from here.
    """
    if not source or not replica:
        return Figure(None, Sure.UNKNOWN, "it did not answer")
    near, far = (min(looks, key=lambda look: look.trip_s) for looks in (source, replica))
    one_ms, other_ms = 1000 * near.trip_s, 1000 * far.trip_s
    ways_us = {look.way_us for look in replica if look.way_us is not None}
    if len(ways_us) >= _LEAST:
        ms = min(ways_us) / 1000 - 1000 * (far.ahead_s - near.ahead_s) - held_ms
        why = (
            f"twice the fastest way of {len(ways_us)}, less {held_ms:.1f} ms at the source; the clocks may be"
        )
        return Figure(
            round(2 * max(0.0, ms), 2), Sure.ESTIMATED, f"{why} {one_ms + other_ms:.1f} ms off in it"
        )
    why = f"{abs(one_ms - other_ms):.1f} to {one_ms + other_ms:.1f} ms by the way from here to both:"
    return Figure(round(max(one_ms, other_ms), 2), Sure.ESTIMATED, f"{why} hardly any transaction came")


def fast_fsync_ms(samples: Sequence[CommitSample]) -> float:
    """The fastest fsync of the binlog, to be held against the fastest way; 0 where none was seen."""
    grown = [growth(*pair) for pair in pairwise(samples)]
    means_ms = [each.total(Source.BINLOG_FSYNC).mean_ms for each in grown if each]
    return min((ms for ms in means_ms if ms is not None), default=0.0)


def fsync_figures(samples: Sequence[CommitSample]) -> dict[str, Figure]:
    """What an fsync of redo log and binlog takes, from samples of a server's file instruments."""
    grown = growth(samples[0], samples[-1]) if samples else None
    found = {}
    for kind, (source, _) in _KINDS.items():
        total = grown.total(source) if grown else Total()
        sure, when = Sure.MEASURED, "while it was watched"
        if not total.times and samples:
            total = samples[-1].totals.get(source, total)
            sure, when = Sure.ESTIMATED, "since it started"
        why = f"mean of {total.times:,} {when}"
        if not total.times:
            sure, why = Sure.UNKNOWN, "its performance schema has no time of one, or may not be read"
        found[kind] = Figure(total.mean_ms, sure, why)
    return found


# -- planning


def rows_of(
    theirs: Theirs,
    server: str,
    nodes: Sequence[str],
    knobs: Mapping[KnobName, KnobView],
    links: Iterable[LinkView],
    disks: Iterable[DiskView],
    *,
    workload: str,
    memory_bytes: int,
) -> list[Likeness]:
    """Every row of a stack that is up, with what is to be asked of it and what it has now: its `server`, its
    `nodes` with the source first; `workload` is the file of their load."""
    there, here = len(theirs.nodes) - 1, len(nodes) - 1
    version, most = "`--image REF` runs another version", f"a stack has 1 to {MOST_REPLICAS}"
    rows = [
        Likeness("server", theirs.server, server, *_same(theirs.server, server, version)),
        Likeness("system", theirs.system, theirs.system, Sure.EXACT),
        Likeness("replicas", there, here, *_same(there, here, most)),
    ]
    named = dict(zip(theirs.nodes, nodes, strict=False))
    room_bytes = memory_bytes // (2 * len(nodes))
    for name, view in theirs.knobs.items():
        node = SOURCE if name.node == SOURCE else named.get(name.node)
        if name.knob.backing is Backing.SERVER and node and view.effective is not None:
            to = KnobName(name.key, node)
            rows.append(_setting(to, view.effective, knobs.get(to), server, room_bytes))
    trips_ms = {link.replica: link.rtt_measured_ms for link in links}
    by_node = {disk.node: disk for disk in disks}
    for theirs_node, node in named.items():
        if figure := theirs.trips.get(theirs_node):
            to, ms = KnobName(keys.RTT, node), figure.ms
            rows.append(Likeness(str(to), ms, trips_ms.get(node), figure.sure, figure.why, to, ms))
        if node in by_node:
            place = SOURCE if node == nodes[0] else node
            rows += _fsyncs(theirs.fsyncs[theirs_node], place, by_node[node])
    return [*rows, *_load(theirs, workload, knobs)]


def _same(theirs: Value, here: Value | None, why: str) -> tuple[Sure, str]:
    """Exact, or not possible and why."""
    return (Sure.EXACT, "") if theirs == here else (Sure.NOT_HERE, why)


def _setting(to: KnobName, value: Value, view: KnobView | None, server: str, room_bytes: int) -> Likeness:
    """A server's variable; one that can be theirs is asked for."""
    here, knob, asked = None if view is None else view.effective, view.knob if view else to.knob, None
    why = "the server did not take it"
    if view is None:
        why = f"{server} does not have it, or cannot change it while it runs"
    elif value not in knob.choices if isinstance(value, str) else not is_in_range(knob, value):
        why = f"here it takes {describe_range(knob)}"
    elif knob.unit == "B" and float(value) > room_bytes:
        why = f"this machine has {room_bytes / 2**30:.1f} GiB for it"
    else:
        asked = value
    return Likeness(str(to), value, here, *_same(value, here, why), to, asked)


def _fsyncs(figures: Mapping[str, Figure], node: str, disk: DiskView) -> Iterator[Likeness]:
    """What is added to each kind's fsync to take as long as theirs: less what the bare disk takes."""
    for kind, (_, key) in _KINDS.items():
        here, in_force = disk.measured_by_kind_ms.get(kind), disk.values.get(key)
        delay_ms = in_force if isinstance(in_force, float) else disk.delay_ms or 0.0
        bare_ms = (disk.probe_p50_ms or 0.0) if here is None else max(0.0, here - delay_ms)
        ms, sure, why = figures[kind].ms, figures[kind].sure, figures[kind].why
        if ms is None and (ms := figures["binlog" if kind == "redo" else "redo"].ms) is not None:
            sure, why = Sure.ESTIMATED, f"as the other log's: {why}"
        if ms is not None and ms < bare_ms and not delay_ms:  # where one is in force, it was possible
            sure, why = Sure.NOT_HERE, f"the bare disk here takes {bare_ms:.2f} ms"
        asked = None if ms is None else round(max(0.0, ms - bare_ms), 3)
        setting = str(KnobName(f"{kind}_fsync", node))
        yield Likeness(setting, ms, here, sure, why, KnobName(key, node), asked)


def _load(theirs: Theirs, workload: str, knobs: Mapping[KnobName, KnobView]) -> Iterator[Likeness]:
    """What runs there, as a load: which transactions, of how many sessions, and whether these pause."""
    load = theirs.load
    if load is None:
        yield Likeness(keys.WORKLOAD, None, None, Sure.UNKNOWN, theirs.load_unknown)
        return
    sessions = max(load.sessions, math.ceil(load.busy), 1)
    is_closed = load.busy >= _AT_WORK * sessions
    told = (
        f"{load.imitated:,} of {load.statements:,} statements within {load.duration_s:.0f} s, values made up"
    )
    pause = f"{load.busy:.1f} of {sessions} sessions were at work: they {'hardly ' if is_closed else ''}pause"
    for key, value, sure, why in (
        (keys.WORKLOAD, workload, Sure.ESTIMATED, told),
        (keys.CLIENTS, sessions, Sure.ESTIMATED, "sessions that were seen at work"),
        (keys.LOAD_MODE, CLOSED if is_closed else OPEN, Sure.ESTIMATED, pause),
        (keys.RATE, round(sum(each.tps for each in load.transactions), 2), Sure.MEASURED, "of an open loop"),
    ):
        name = KnobName(key, Place.LOAD)
        yield Likeness(key, value, knobs[name].requested, sure, why, name, value)
