"""The arithmetic of a link: total asked, base and overhead subtracted, directions kept, floors named."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.link import (
    LinkSettings,
    base_rtt_ms,
    contradiction,
    installed,
    wanted,
)
from replexplorer.core.wire import LinkState, Shape


def side(
    base_ms: float | None = 0.1,
    overhead_ms: float = 0.05,
    shape: Shape | None = None,
    holds: Literal["sent", "received"] = "sent",
) -> LinkState:
    return LinkState("db2", "netem", "", holds, shape or Shape(), base_ms, overhead_ms, None, 0, 0, 0)


def carried_out(settings: LinkSettings, towards: LinkState, back: LinkState) -> tuple[LinkState, LinkState]:
    """The sides after both agents did what is wanted."""
    want = wanted(settings, towards, back)
    shapes = (want.to_replica, want.to_primary)
    if towards.holds == "received":
        shapes = shapes[::-1]
    return replace(towards, shape=shapes[0]), replace(back, shape=shapes[1])


SPLIT: list[tuple[LinkSettings, float, float, float | None]] = [
    (LinkSettings(), 0, 0, None),
    (LinkSettings(85), 42.45, 42.45, None),
    (LinkSettings(0.2), 0.05, 0.05, None),
    (LinkSettings(0.18), 0.08, 0, None),
    (LinkSettings(0.12), 0, 0, 0.15),
    (LinkSettings(0.01), 0, 0, 0.15),
    (LinkSettings(20, delay_to_replica_ms=40), 39.95, 9.95, None),
    (LinkSettings(20, delay_to_primary_ms=0), 9.9, 0, None),
    (LinkSettings(0, delay_to_primary_ms=30), 0, 29.9, None),
    (LinkSettings(85, delay_to_replica_ms=0, delay_to_primary_ms=0), 0, 0, None),
]
"""What is asked, what each direction then has, and the floor that is named."""


def test_a_round_trip_is_split() -> None:
    for settings, *split in SPLIT:
        want = wanted(settings, side(), side())
        assert [want.to_replica.delay_ms, want.to_primary.delay_ms, want.floor_ms] == pytest.approx(split)


@pytest.mark.parametrize(
    ("partition", "to_replica", "to_primary"),
    [("none", False, False), ("both", True, True), ("ack", False, True), ("dump", True, False)],
)
@pytest.mark.parametrize("holds", ["sent", "received"])
def test_a_partition_cuts_the_direction_that_it_names(
    partition: str, to_replica: bool, to_primary: bool, holds: Literal["sent", "received"]
) -> None:
    settings = LinkSettings(partition=partition)
    towards, back = carried_out(settings, side(holds=holds), side(holds=holds))
    # Netem cuts where a packet is sent, NFQUEUE where it is received.
    assert (towards if holds == "sent" else back).shape.cut == to_replica
    assert (back if holds == "sent" else towards).shape.cut == to_primary
    assert installed(settings, towards, back)[0].partition == partition


def test_the_round_trips_jitter_is_shared_by_the_delayed_directions() -> None:
    want = wanted(LinkSettings(85, jitter_ms=10), side(), side())
    assert math.hypot(want.to_replica.jitter_ms, want.to_primary.jitter_ms) == pytest.approx(10)
    alone = wanted(LinkSettings(0, delay_to_replica_ms=40, jitter_ms=10), side(), side())
    assert alone.to_replica.jitter_ms == pytest.approx(10)
    assert alone.to_primary.jitter_ms == 0
    assert wanted(LinkSettings(jitter_ms=10), side(), side()).to_replica == Shape()


asked = st.builds(
    LinkSettings,
    rtt_ms=st.floats(0, 5000),
    delay_to_replica_ms=st.none() | st.floats(0, 5000),
    delay_to_primary_ms=st.none() | st.floats(0, 5000),
    jitter_ms=st.floats(0, 2000),
    loss_percent=st.floats(0, 100),
    bandwidth_bps=st.just(0) | st.integers(10_000, 10**11),
    partition=st.sampled_from(["none", "both", "ack", "dump"]),
)
sides = st.builds(
    lambda base, one, other, holds: (side(base, one, holds=holds), side(base, other, holds=holds)),
    st.none() | st.floats(0, 3),
    st.floats(0, 1),
    st.floats(0, 1),
    st.sampled_from(["sent", "received"]),
)


@given(asked, sides)
def test_what_is_carried_out_reads_back_as_asked_or_a_floor_or_a_limit_is_named(
    settings: LinkSettings, ends: tuple[LinkState, LinkState]
) -> None:
    want = wanted(settings, *ends)
    for shape in (want.to_replica, want.to_primary):
        assert shape.delay_ms >= 0
        assert shape.jitter_ms <= shape.delay_ms / 2 + 1e-9
    force, as_asked = installed(settings, *carried_out(settings, *ends))
    assert as_asked
    told = force.values()
    if want.floor_ms is not None:
        assert want.floor_ms >= settings.total_ms
        assert want.to_replica.delay_ms == want.to_primary.delay_ms == 0
        told.update(rtt=settings.rtt_ms)
        told.update({key: settings.values()[key] for key in ("delay_to_replica", "delay_to_primary")})
    else:
        total_ms = want.to_replica.delay_ms + want.to_primary.delay_ms
        assert total_ms == pytest.approx(max(0.0, settings.total_ms - base_rtt_ms(*ends)), abs=0.003) or (
            settings.total_ms == 0
        )
    if told["jitter"] != settings.jitter_ms:
        assert float(told["jitter"]) < settings.jitter_ms
        told["jitter"] = settings.jitter_ms
    assert told == settings.values()


@given(asked, asked)
def test_easier_takes_what_falls_and_nothing_that_rises(now: LinkSettings, target: LinkSettings) -> None:
    between = now.easier(target)
    assert between.total_ms <= now.total_ms + 1e-9
    assert between.jitter_ms == min(now.jitter_ms, target.jitter_ms)
    assert between.loss_percent == min(now.loss_percent, target.loss_percent)
    assert (between.bandwidth_bps or 10**12) >= (now.bandwidth_bps or 10**12)
    assert between.easier(target) == between
    for key, value in between.values().items():
        assert value in (now.values()[key], target.values()[key])
    if target.partition == "none":
        assert between.partition == "none"


def test_a_rule_that_is_gone_is_told_as_what_is_in_force() -> None:
    settings = LinkSettings(85, delay_to_replica_ms=20, jitter_ms=3, loss_percent=2, bandwidth_bps=10**6)
    force, as_asked = installed(settings, side(), side())
    assert not as_asked
    assert force == LinkSettings(delay_to_replica_ms=0.0)
    leftover, _ = installed(LinkSettings(), side(shape=Shape(42, cut=True)), side())
    assert leftover.rtt_ms == pytest.approx(42.1)
    assert (leftover.partition, leftover.delay_to_replica_ms) == ("dump", None)


def test_the_primarys_base_counts_first_then_the_replicas() -> None:
    assert base_rtt_ms(side(0.2), side(0.3)) == 0.2
    assert base_rtt_ms(side(None), side(0.3)) == 0.3
    assert base_rtt_ms(side(None), side(None)) == 0


def test_measured_contradicts_asked_beyond_both_tolerances() -> None:
    contradicts = {
        (85, 86.5): False, (85, 89.3): True, (85, 80.7): True, (1, 1.99): False, (1, 2.1): True,
        (0, 0.1): False, (0, 1.05): False, (0, 1.2): True, (85, None): False,
    }  # fmt: skip
    for (asked_ms, measured_ms), told in contradicts.items():
        assert ("measured" in str(contradiction(LinkSettings(asked_ms), measured_ms, 0.1))) is told


def test_jitter_and_a_narrow_link_explain_some_of_what_is_measured() -> None:
    assert contradiction(LinkSettings(85, jitter_ms=5), 95, 0.1) is None
    assert contradiction(LinkSettings(85, jitter_ms=5), 101, 0.1) is not None
    narrow = LinkSettings(85, bandwidth_bps=1_000_000)
    assert contradiction(narrow, 400, 0.1) is None
    assert contradiction(narrow, 0.2, 0.1) == "asked 85 ms, measured 0.2 ms"
    assert contradiction(None, 5, 0.1) is None
