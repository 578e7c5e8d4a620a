"""From what was asked of a link to what each direction has to do, and back.

Law: `rtt` is the total between primary and replica; of a link between two others the first by name stands
for the primary. The bare path and what an agent's own queue adds
are within it, not on top; a round trip below what the path can do is a floor, said and not hidden.
Every other setting holds for each direction by itself; jitter is that of the round trip, so each
delayed direction has its share of the variance. Packets keep their order: a direction's jitter stays
below half its delay (tc-netem(8) reorders beyond).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import Field, dataclass, fields, replace
from typing import Any, Final, Protocol, cast

from replexplorer.core.knobs import keys
from replexplorer.core.knobs.catalogue import Value
from replexplorer.core.wire import PLAIN_KNOBS, EachWay, Shape, hardness

TOLERATED_MS = 1.0
TOLERATED_SHARE = 0.05
TOLERATED_JITTERS = 2.0
"""The median of five round trips strays by about half their standard deviation; this is far out."""
SNAP_MS = 0.002
"""Agents keep microseconds: figures that differ by less are the same."""
SNAP = 1e-6
"""As for all that is no time."""

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


class Side(Protocol):
    """One agent's side of a link: `LinkState`, as far as the arithmetic needs it."""

    @property
    def shape(self) -> Shape:
        """In force."""
        ...

    @property
    def holds(self) -> str | None:
        """`sent` or `received`: which packets of its peer's this side shapes."""
        ...

    @property
    def base_ms(self) -> float | None:
        """Round trip of the bare path; None when unknown."""
        ...

    @property
    def overhead_ms(self) -> float:
        """What the queue itself adds, one way: the smallest delay there is above none."""
        ...


@dataclass(frozen=True, slots=True)
class LinkSettings(EachWay):
    """What is asked of one link: its knobs' values."""

    rtt_ms: float = 0.0
    delay_to_replica_ms: float | None = None
    """None: half the rtt."""
    delay_to_primary_ms: float | None = None
    jitter_ms: float = 0.0
    """Standard deviation of the round trip."""
    partition: str = NO_PARTITION

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
            **{each.name: _carried(each, known.get(key)) for key, each in PLAIN_KNOBS.items()},
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
        for each in PLAIN_KNOBS.values():
            now, then = getattr(self, each.name), getattr(other, each.name)
            if hardness(each, then) <= hardness(each, now):
                result = replace(result, **{each.name: then})
        if all(
            was or not is_ for was, is_ in zip(_CUTS[self.partition], _CUTS[other.partition], strict=True)
        ):
            result = replace(result, partition=other.partition)
        return result

    def value(self, key: str) -> Value:
        """The value of one of the link's knobs."""
        return self.values()[key]

    def values(self) -> dict[str, Value]:
        """Knob key to value; the inverse of `of`."""
        return {
            keys.RTT: self.rtt_ms,
            keys.DELAY_TO_REPLICA: AUTO if self.delay_to_replica_ms is None else self.delay_to_replica_ms,
            keys.DELAY_TO_PRIMARY: AUTO if self.delay_to_primary_ms is None else self.delay_to_primary_ms,
            keys.JITTER: self.jitter_ms,
            **{key: getattr(self, each.name) for key, each in PLAIN_KNOBS.items()},
            keys.PARTITION: self.partition,
        }


@dataclass(frozen=True, slots=True)
class Wanted:
    """What each direction has to do."""

    to_replica: Shape
    to_primary: Shape
    floor_ms: float | None = None
    """The smallest round trip that can be installed above none, when less than that was asked."""


@dataclass(frozen=True, slots=True)
class Installed:
    """What a link has in force, in the words of its knobs."""

    values: Mapping[str, Value]
    """Knob key to effective value; where the agents do what was asked, the figure that was asked."""
    as_asked: bool
    """Both directions do what the request needs."""


def directions(towards: Side, back: Side) -> tuple[Side, Side]:
    """The sides that shape what goes to the replica and what goes to the primary, from the primary's
    side (`towards` the replica) and the replica's: netem holds what is sent, NFQUEUE what is received."""
    return (back, towards) if towards.holds == "received" else (towards, back)


def base_rtt_ms(towards: Side, back: Side) -> float:
    """The bare path's round trip: the primary's figure, else the replica's, else nothing."""
    known = towards.base_ms if towards.base_ms is not None else back.base_ms
    return known or 0.0


def wanted(settings: LinkSettings, towards: Side, back: Side) -> Wanted:
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
        Shape(delay_ms, share_ms if delay_ms > 0 else 0.0, cut, **settings.each_way())
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


def installed(requested: LinkSettings, towards: Side, back: Side) -> Installed:
    """What the two sides have in force, as the knobs say it."""
    to_replica, to_primary = (side.shape for side in directions(towards, back))
    want = wanted(requested, towards, back)
    as_asked = _alike(to_replica, want.to_replica) and _alike(to_primary, want.to_primary)
    base_ms = base_rtt_ms(towards, back)
    delays_ms = to_replica.delay_ms + to_primary.delay_ms
    delays_as_asked = want.floor_ms is None and (
        abs(to_replica.delay_ms - want.to_replica.delay_ms) < SNAP_MS
        and abs(to_primary.delay_ms - want.to_primary.delay_ms) < SNAP_MS
    )
    jitter_ms = math.hypot(to_replica.jitter_ms, to_primary.jitter_ms)
    jitter_as_asked = abs(jitter_ms - requested.jitter_ms) <= max(SNAP_MS, 0.01 * requested.jitter_ms)

    def override(asked_ms: float | None, shape: Shape) -> Value:
        if asked_ms is None or delays_as_asked:
            return AUTO if asked_ms is None else asked_ms
        return round(shape.delay_ms + base_ms / 2, 3) if delays_ms else 0.0

    return Installed(
        {
            keys.RTT: requested.rtt_ms
            if delays_as_asked
            else round(base_ms + delays_ms, 3)
            if delays_ms or want.floor_ms is not None
            else 0.0,
            keys.DELAY_TO_REPLICA: override(requested.delay_to_replica_ms, to_replica),
            keys.DELAY_TO_PRIMARY: override(requested.delay_to_primary_ms, to_primary),
            keys.JITTER: requested.jitter_ms if jitter_as_asked else round(jitter_ms, 3),
            **{key: _harder(each, to_replica, to_primary) for key, each in PLAIN_KNOBS.items()},
            keys.PARTITION: next(
                word for word, cuts in _CUTS.items() if cuts == (to_replica.cut, to_primary.cut)
            ),
        },
        as_asked,
    )


def _alike(one: Shape, other: Shape) -> bool:
    """Whether an agent that keeps microseconds holds both for the same."""
    return all(
        abs(getattr(one, each.name) - getattr(other, each.name))
        < (SNAP_MS if each.name.endswith("_ms") else SNAP)
        for each in fields(Shape)
    )


def _harder(knob: Field[Any], one: Shape, other: Shape) -> Value:
    """What the side that asks more of its packets has in force."""
    values: list[Value] = [getattr(shape, knob.name) for shape in (one, other)]
    return max(values, key=lambda value: hardness(knob, cast(float, value)))


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


def _carried(knob: Field[Any], value: Value | None) -> Any:
    """A plain knob's value, whole where its field is."""
    return int(_number(value)) if isinstance(knob.default, int) else _number(value)


def _number(value: Value | None) -> float:
    return 0.0 if value is None else float(cast(float, value))


def _override(value: Value | None) -> float | None:
    return None if value is None or isinstance(value, str) else float(value)
