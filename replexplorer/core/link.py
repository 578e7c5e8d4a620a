"""From what was asked of a link to what each direction has to do, and back.

Law: `rtt` is the total between primary and replica; of a link between two others the first by name stands
for the primary. The bare path and what an agent's own queue adds
are within it, not on top; a round trip below what the path can do is a floor, said and not hidden.
Every other setting holds for each direction by itself; jitter is that of the round trip, so each
delayed direction has its share of the variance. Packets keep their order: a direction's jitter stays
below half its delay (tc-netem(8) reorders beyond).

A link between two nodes: asked, in force and measured.

How the requested document names a knob: what is asked of a link stays with its two nodes.

Law: a link is kept under both its nodes in order of name and its directions run from the first to the
second, so a document says the same of every wire whichever node is the source. What is asked of the
source goes with the role, and what is asked of each member of a group stays with its node.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field, fields, replace
from typing import Any, Final, cast

from replexplorer.core.errors import UsageError
from replexplorer.core.json_keys import json_keys
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.catalogue import Value
from replexplorer.core.knobs.names import BY_KEY, Backing, KnobName, Place, parse_name
from replexplorer.core.records import frozen
from replexplorer.core.topology import SOURCE, Roster, ends_of, in_order, is_pair, link_between
from replexplorer.core.wire import Flap, LinkState, Shape

TOLERATED_MS = 1.0
TOLERATED_SHARE = 0.05
TOLERATED_JITTERS = 2.0
"""The median of five round trips strays by about half their standard deviation; this is far out."""
SNAP_MS = 0.002
"""Agents keep microseconds: figures that differ by less are the same."""
SNAP = 1e-6
"""As for all that is not a time."""

AUTO: Final = "auto"
"""The word of a one-way delay that is not set by itself: half the rtt."""

DELAYS: Final = frozenset({keys.RTT, keys.DELAY_TO_REPLICA, keys.DELAY_TO_PRIMARY})
"""The knobs whose effect is a round trip."""

NO_PARTITION: Final = "none"
ACKS_LOST: Final = "ack"
"""The partition under which events arrive and their acknowledgements do not."""
CUT: Final = "both"
"""Nothing passes, either way."""
_CUTS: Final = {
    NO_PARTITION: (False, False),
    CUT: (True, True),
    "ack": (False, True),
    "dump": (True, False),
}
"""Partition to the directions that are cut: to the replica, to the primary."""


PLAIN_FIELDS: Final = {keys.LOSS: "loss_percent", keys.BANDWIDTH: "bandwidth_bps"}
"""Key of each link knob that goes to both ends as it is, to its field, here and in a Shape."""

_OTHER_WAY: Final = {
    keys.DELAY_TO_REPLICA: keys.DELAY_TO_PRIMARY,
    keys.DELAY_TO_PRIMARY: keys.DELAY_TO_REPLICA,
}
_OTHER_CUT: Final[Mapping[Value, Value]] = {"ack": "dump", "dump": "ack"}


def turned_round(key: str, value: Value) -> tuple[str, Value]:
    """A link knob with its value, said from the other end: what went to the replica goes to the primary."""
    if key == keys.PARTITION:
        return key, _OTHER_CUT.get(value, value)
    return _OTHER_WAY.get(key, key), value


@frozen
class LinkSettings:
    """What is asked of one link: its knobs' values."""

    rtt_ms: float = 0.0
    delay_to_replica_ms: float | None = None
    """None: half the rtt."""
    delay_to_primary_ms: float | None = None
    jitter_ms: float = 0.0
    """Standard deviation of the round trip."""
    partition: str = NO_PARTITION
    loss_percent: float = 0.0
    """Of packets, each way and each on its own."""
    bandwidth_bps: int = 0
    """Bits a second, each way; 0: no limit."""

    @classmethod
    def of(cls, values: Mapping[str, Value | None]) -> LinkSettings:
        """From knob keys and values; what is missing or unknown has its default."""
        known = {key: value for key, value in values.items() if value is not None}
        return cls(
            rtt_ms=_number(known.get(keys.RTT)),
            delay_to_replica_ms=_override(known.get(keys.DELAY_TO_REPLICA)),
            delay_to_primary_ms=_override(known.get(keys.DELAY_TO_PRIMARY)),
            jitter_ms=_number(known.get(keys.JITTER)),
            partition=str(known.get(keys.PARTITION, NO_PARTITION)),
            loss_percent=_number(known.get(keys.LOSS)),
            bandwidth_bps=int(_number(known.get(keys.BANDWIDTH))),
        )

    @property
    def one_way_ms(self) -> tuple[float, float]:
        """The delays asked to the replica and to the primary; the bare path is within them."""
        half_ms = self.rtt_ms / 2
        to_replica, to_primary = self.delay_to_replica_ms, self.delay_to_primary_ms
        return (half_ms if to_replica is None else to_replica, half_ms if to_primary is None else to_primary)

    @property
    def total_ms(self) -> float:
        """The round trip asked, overrides included."""
        return sum(self.one_way_ms)

    @property
    def jitter_limit_ms(self) -> float:
        """The largest jitter that these delays take without packets overtaking each other."""
        return _jitter_limit_ms(*self.one_way_ms)

    @property
    def is_silent(self) -> bool:
        """No probe can be answered."""
        return self.partition != NO_PARTITION or self.loss_percent >= 100

    def easier(self, other: LinkSettings) -> LinkSettings:
        """These settings with all that `other` asks less of: what falls on the way to it."""
        result = self
        if all(new <= old for new, old in zip(other.one_way_ms, self.one_way_ms, strict=True)):
            result = replace(
                result,
                rtt_ms=other.rtt_ms,
                delay_to_replica_ms=other.delay_to_replica_ms,
                delay_to_primary_ms=other.delay_to_primary_ms,
            )
        if other.jitter_ms <= self.jitter_ms:
            result = replace(result, jitter_ms=other.jitter_ms)
        if other.loss_percent <= self.loss_percent:
            result = replace(result, loss_percent=other.loss_percent)
        if _room(other) >= _room(self):
            result = replace(result, bandwidth_bps=other.bandwidth_bps)
        if all(
            was or not is_ for was, is_ in zip(_CUTS[self.partition], _CUTS[other.partition], strict=True)
        ):
            result = replace(result, partition=other.partition)
        return result

    def values(self) -> dict[str, Value]:
        """Knob key to value; the inverse of `of`."""
        return {
            keys.RTT: self.rtt_ms,
            keys.DELAY_TO_REPLICA: AUTO if self.delay_to_replica_ms is None else self.delay_to_replica_ms,
            keys.DELAY_TO_PRIMARY: AUTO if self.delay_to_primary_ms is None else self.delay_to_primary_ms,
            keys.JITTER: self.jitter_ms,
            **{key: getattr(self, name) for key, name in PLAIN_FIELDS.items()},
            keys.PARTITION: self.partition,
        }


@frozen
class Wanted:
    """What each direction has to do."""

    to_replica: Shape
    to_primary: Shape
    floor_ms: float | None = None
    """The smallest round trip that can be installed above none, when less than that was asked."""


def directions(towards: LinkState, back: LinkState) -> tuple[LinkState, LinkState]:
    """The sides that shape what goes to the replica and what goes to the primary, from the primary's
    side (`towards` the replica) and the replica's: netem holds what is sent, NFQUEUE what is received."""
    return (back, towards) if towards.holds == "received" else (towards, back)


def base_rtt_ms(towards: LinkState, back: LinkState) -> float:
    """The bare path's round trip: the primary's figure, else the replica's, else nothing."""
    known = towards.base_ms if towards.base_ms is not None else back.base_ms
    return known or 0.0


def wanted(settings: LinkSettings, towards: LinkState, back: LinkState) -> Wanted:
    """What each direction has to do for these settings, the bare path's share taken off its delay.

    What is too little for two queues takes one; what is too little for one is the floor, no delay.
    """
    to_replica, to_primary = directions(towards, back)
    delays_ms, floor_ms = _delays_ms(
        settings.one_way_ms, base_rtt_ms(towards, back), to_replica.overhead_ms, to_primary.overhead_ms
    )
    jitter_ms = min(settings.jitter_ms, _jitter_limit_ms(*delays_ms))
    share_ms = jitter_ms / math.sqrt(sum(delay_ms > 0 for delay_ms in delays_ms) or 1)
    shapes = [
        Shape(
            delay_ms,
            share_ms if delay_ms > 0 else 0.0,
            cut,
            settings.loss_percent,
            settings.bandwidth_bps,
        )
        for delay_ms, cut in zip(delays_ms, _CUTS[settings.partition], strict=True)
    ]
    return Wanted(shapes[0], shapes[1], floor_ms)


def _delays_ms(
    asked_ms: tuple[float, float],
    base_ms: float,
    to_replica_overhead_ms: float,
    to_primary_overhead_ms: float,
) -> tuple[tuple[float, float], float | None]:
    """The delays to install, and the floor where one is hit."""
    to_replica_ms, to_primary_ms = (max(0.0, each - base_ms / 2) for each in asked_ms)
    if sum(asked_ms) <= 0:
        return (0.0, 0.0), None
    if (
        min(to_replica_ms, to_primary_ms) > 0
        and to_replica_ms >= to_replica_overhead_ms
        and to_primary_ms >= to_primary_overhead_ms
    ):
        return (to_replica_ms, to_primary_ms), None
    rest_ms = sum(asked_ms) - base_ms
    on_replica = asked_ms[0] >= asked_ms[1]
    overhead_ms = to_replica_overhead_ms if on_replica else to_primary_overhead_ms
    if rest_ms > 0 and rest_ms >= overhead_ms:
        return ((rest_ms, 0.0) if on_replica else (0.0, rest_ms)), None
    return (0.0, 0.0), base_ms + overhead_ms


def installed(requested: LinkSettings, towards: LinkState, back: LinkState) -> tuple[LinkSettings, bool]:
    """What the two sides have in force, said as settings: where the agents do what was asked, the figure
    that was asked; and whether both directions do what the request needs."""
    to_replica, to_primary = (side.shape for side in directions(towards, back))
    want = wanted(requested, towards, back)
    as_asked = _alike(to_replica, want.to_replica) and _alike(to_primary, want.to_primary)
    base_ms = base_rtt_ms(towards, back)
    delays_ms = to_replica.delay_ms + to_primary.delay_ms
    found = requested
    if (
        want.floor_ms is not None
        or abs(to_replica.delay_ms - want.to_replica.delay_ms) >= SNAP_MS
        or abs(to_primary.delay_ms - want.to_primary.delay_ms) >= SNAP_MS
    ):

        def override(asked_ms: float | None, shape: Shape) -> float | None:
            if asked_ms is None:
                return None
            return round(shape.delay_ms + base_ms / 2, 3) if delays_ms else 0.0

        found = replace(
            requested,
            rtt_ms=round(base_ms + delays_ms, 3) if delays_ms or want.floor_ms is not None else 0.0,
            delay_to_replica_ms=override(requested.delay_to_replica_ms, to_replica),
            delay_to_primary_ms=override(requested.delay_to_primary_ms, to_primary),
        )
    jitter_ms = math.hypot(to_replica.jitter_ms, to_primary.jitter_ms)
    if abs(jitter_ms - requested.jitter_ms) > max(SNAP_MS, 0.01 * requested.jitter_ms):
        found = replace(found, jitter_ms=round(jitter_ms, 3))
    cuts = (to_replica.cut, to_primary.cut)
    return replace(
        found,
        loss_percent=max(to_replica.loss_percent, to_primary.loss_percent),
        bandwidth_bps=min(to_replica, to_primary, key=_room).bandwidth_bps,
        partition=next(word for word, each in _CUTS.items() if each == cuts),
    ), as_asked


def _alike(one: Shape, other: Shape) -> bool:
    """Whether an agent that keeps microseconds holds both for the same."""
    return all(
        abs(getattr(one, each.name) - getattr(other, each.name))
        < (SNAP_MS if each.name.endswith("_ms") else SNAP)
        for each in fields(Shape)
    )


def _room(limited: LinkSettings | Shape) -> float:
    """The bandwidth that there is: without a limit, all."""
    return limited.bandwidth_bps or math.inf


def contradiction(
    settings: LinkSettings | None, measured_ms: float | None, base_ms: float | None
) -> str | None:
    """What the measurement says against what was asked, in words; None when they agree or one is
    unknown. They disagree when they differ by more than 1 ms and more than 5 %; jitter widens that,
    and under a bandwidth limit packets may wait for each other, so only too short a time is wrong."""
    if settings is None or measured_ms is None:
        return None
    expected_ms, tolerated_ms = _expected(settings, base_ms)
    too_long = measured_ms - expected_ms > tolerated_ms and not settings.bandwidth_bps
    wrong = too_long or falls_short(settings, measured_ms, base_ms)
    return f"asked {expected_ms:.4g} ms, measured {measured_ms:.4g} ms" if wrong else None


def falls_short(settings: LinkSettings, measured_ms: float | None, base_ms: float | None) -> bool:
    """Whether packets are faster than asked, which no busy machine explains; False while unknown."""
    expected_ms, tolerated_ms = _expected(settings, base_ms)
    return measured_ms is not None and expected_ms - measured_ms > tolerated_ms


def _expected(settings: LinkSettings, base_ms: float | None) -> tuple[float, float]:
    """The round trip that is expected, and by how much a measured one may differ; in ms."""
    expected_ms = max(settings.total_ms, base_ms or 0.0)
    return expected_ms, max(TOLERATED_MS, TOLERATED_SHARE * expected_ms) + (
        TOLERATED_JITTERS * settings.jitter_ms
    )


def _jitter_limit_ms(to_replica_ms: float, to_primary_ms: float) -> float:
    """Half the one-way delay in each delayed direction, as the jitter of the round trip."""
    least_ms = min(to_replica_ms, to_primary_ms)
    if least_ms > 0:
        return math.sqrt(2) * least_ms / 2
    return max(to_replica_ms, to_primary_ms) / 2


def _number(value: Value | None) -> float:
    return 0.0 if value is None else float(cast(float, value))


def _override(value: Value | None) -> float | None:
    return None if value is None or isinstance(value, str) else float(value)


@frozen
class FlapNow:
    """A link that goes down and comes up by the clock."""

    down_s: float
    up_s: float
    is_down: bool
    """Now, at one end at least."""


@json_keys(
    hide="replica source settings values as_asked flap is_down",
    show="a b behind_source rtt_asked_ms jitter_ms loss_percent bandwidth_bps partition flap_now",
    behind_source="replica",
    flap_now="flap",
)
@frozen
class LinkView:
    """The link between the primary and one replica, or between two replicas: asked, in force, measured."""

    replica: str
    """The replica; of a link between two of them both in order of name, `db2:db3`. Its knobs stand here."""
    backend: str | None = None
    """`netem` or `nfqueue`."""
    settings: LinkSettings = field(default_factory=LinkSettings)
    """Requested."""
    values: Mapping[str, Value] | None = None
    """Knob key to what the agents have in force; None while an agent does not answer."""
    as_asked: bool = True
    """What is in force is what the request needs; also True while that is unknown."""
    rtt_measured_ms: float | None = None
    """Median of the last 5 probes sent after the last change; None when none answered."""
    rtt_base_ms: float | None = None
    probes_lost_percent: float | None = None
    """Of the probes since the last change; None when there is none yet."""
    dropped: int | None = None
    """Packets dropped though no loss was asked."""
    healing: bool = False
    """The partition is over and the stream has not moved yet: TCP waits for its next try."""
    flap: Flap | None = None
    """It goes down and comes up by the clock, besides what its knobs ask."""
    is_down: bool = False
    """Because of that it is down now."""
    fault: str | None = None
    """What is wrong with the link, in words; None while it does what was asked."""
    source: str = SOURCE
    """The node at the other end of a link of the source."""

    @property
    def a(self) -> str:
        """The source where it is one of the two, else the first by name."""
        return ends_of(self.replica)[0] if is_pair(self.replica) else self.source

    @property
    def b(self) -> str:
        """The other one."""
        return ends_of(self.replica)[1] if is_pair(self.replica) else self.replica

    @property
    def behind_source(self) -> str | None:
        """`b` where `a` is the source, null for a link between two others."""
        return None if is_pair(self.replica) else self.replica

    @property
    def contradiction(self) -> str | None:
        """What its measured round trip says against the one that was asked for, in words."""
        return contradiction(self.settings, self.rtt_measured_ms, self.rtt_base_ms)

    @property
    def jitter_ms(self) -> float | None:
        """In force; null while that is not known."""
        return None if self.values is None else float(self.values[keys.JITTER])

    @property
    def loss_percent(self) -> float | None:
        """In force; null while that is not known."""
        return None if self.values is None else float(self.values[keys.LOSS])

    @property
    def bandwidth_bps(self) -> int | None:
        """In force, 0 for no limit; null while that is not known."""
        return None if self.values is None else int(self.values[keys.BANDWIDTH])

    @property
    def flap_now(self) -> FlapNow | None:
        """How it goes down and comes up; null while it does not."""
        return None if self.flap is None else FlapNow(self.flap.down_s, self.flap.up_s, self.is_down)

    @property
    def rtt_asked_ms(self) -> float:
        """The round trip requested, one-way overrides included."""
        return self.settings.total_ms

    @property
    def partition(self) -> str | None:
        """The partition in force, be it a flap's; None while unknown."""
        if self.is_down:
            return CUT
        return None if self.values is None else str(self.values[keys.PARTITION])

    @property
    def is_cut(self) -> bool:
        """A partition is in force; False while that is unknown."""
        return self.partition not in (None, NO_PARTITION)

    @property
    def is_shaped(self) -> bool:
        """Something is in force; False while that is unknown."""
        return self.values is not None and LinkSettings.of(self.values) != LinkSettings()


def partition_words(links: Sequence[LinkView]) -> tuple[str, ...]:
    """The partitions in force: `ack`, or `db3 ack` where not all links of several have the same."""
    cut = {link.replica: link.partition for link in links if link.is_cut}
    if len(cut) == len(links) and len(set(cut.values())) == 1:
        return (str(next(iter(cut.values()))),)
    return tuple(f"{replica} {partition}" for replica, partition in cut.items())


def kept(name: KnobName, value: Value, roster: Roster) -> tuple[str, Value]:
    """A knob with its value as the document of a stack with these nodes has them."""
    if name.knob.place is Place.MEMBERS:
        return f"{name.key}@{roster.source if name.node == SOURCE else name.node}", value
    if name.knob.backing is not Backing.LINK:
        return str(name), value
    link = roster.link(name.node)
    key, value = _from_first(name.key, value, link, roster)
    return f"{key}@{link}", value


def unkept(text: str, value: Value, roster: Roster) -> tuple[KnobName, Value] | None:
    """The inverse of `kept`; None for a knob of another version."""
    try:
        name = parse_name(text)
    except UsageError:
        return None
    if name.node == Place.LOAD:
        return name, value
    if name.knob.backing is not Backing.LINK:
        return KnobName(name.key, roster.placed(name.node)), value
    if not is_pair(name.node):
        return None
    placed = roster.placed(name.node)
    key, value = _from_first(name.key, value, roster.link(placed), roster)
    return KnobName(key, placed), value


def kept_all(values: Mapping[KnobName, Value], roster: Roster) -> dict[str, Value]:
    """Knobs with their values as the document has them."""
    return dict(kept(name, value, roster) for name, value in values.items())


def without(written: Mapping[str, Any], gone: Collection[str]) -> dict[str, Any]:
    """A document's knobs less those of nodes that are `gone`, and of the links to them."""
    return {text: value for text, value in written.items() if set(gone).isdisjoint(_nodes_in(text))}


def _nodes_in(text: str) -> tuple[str, ...]:
    """The nodes that a written name speaks of."""
    _, _, node = text.partition("@")
    return ends_of(node) if is_pair(node) else (node,)


def unkept_all(values: Mapping[str, Value], roster: Roster) -> dict[KnobName, Value]:
    """The inverse; knobs that this version does not know are left out."""
    found = (unkept(text, value, roster) for text, value in values.items())
    return dict(each for each in found if each is not None)


def seen_from(values: Mapping[KnobName, Value], before: Roster, now: Roster) -> dict[KnobName, Value]:
    """The same of the same nodes and wires, named as they are once another node is the source; what is asked
    of the source is asked of the node that was it and of the one that is."""
    if before.source == now.source:
        return dict(values)
    found: dict[KnobName, Value] = {}
    for name, value in values.items():
        if name.knob.backing is Backing.LINK:
            found |= unkept_all(dict([kept(name, value, before)]), now)
        elif name.node == Place.LOAD:
            found[name] = value
        else:
            if name.node == SOURCE:
                found[name] = value
            if name.knob.place is not Place.SOURCE or name.knob.extra_nodes:
                node = before.source if name.node == SOURCE else name.node
                found[KnobName(name.key, now.placed(node))] = value
    return found


def moved(written: str, source: str, before: str) -> str:
    """The written name of what is asked of one node's server or disk, or of a link, after these two have
    changed places; a partition stays where it is."""
    key, at, place = written.partition("@")
    knob = BY_KEY.get(key)
    if knob is None or key == keys.PARTITION:
        return written
    if is_pair(place) and set(ends_of(place)) != {source, before}:
        first, last = ({source: before, before: source}.get(end, end) for end in ends_of(place))
        # A pair's directions run from the node that is first by name.
        key = key if in_order((first, last))[0] == first else turned_round(key, knob.default)[0]
        place = link_between(first, last)
    elif knob.backing in (Backing.SERVER, Backing.DISK) and place == source:
        place = before
    return f"{key}{at}{place}"


def moved_all(values: Mapping[KnobName, Value], before: Roster, now: Roster) -> dict[KnobName, Value]:
    """What is asked once the source of `now` has taken the place of the one `before`, named as it is then."""
    written = {moved(text, now.source, before.source): v for text, v in kept_all(values, before).items()}
    return unkept_all(written, now)


def _from_first(key: str, value: Value, link: str, roster: Roster) -> tuple[str, Value]:
    """Said from the link's first node, where it was said from the source; and back."""
    return (key, value) if roster.begins(link) == ends_of(link)[0] else turned_round(key, value)
