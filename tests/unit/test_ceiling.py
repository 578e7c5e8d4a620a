"""The bound that the link sets."""

from __future__ import annotations

import random

import pytest

from replexplorer.core.model.ceiling import (
    Ceiling,
    CeilingWatch,
    acknowledging_rtt_ms,
    beaten,
    bound,
    local_cost_ms,
)
from replexplorer.core.stats.histogram import Histogram
from tests.typed import table_of, values_of

BOUNDS = """\
1 85.0 None
48 85.4 3.0
32 0.0 2.0
0 85.0 1.0
8 None 1.0
8 0.0 0.0
"""
"""Clients, their round trip and the local cost in ms."""


def test_bound(snapshot: object) -> None:
    assert [(each, bound(*each)) for each in values_of(BOUNDS)] == snapshot


WAITS = """\
(85.0,5.0)  1 5.0
(85.0,5.0)  2 85.0
(85.0,None) 1 85.0
(85.0,None) 2 None
()          1 None
"""
"""Round trips of replicas in ms, how many must acknowledge, and how long a commit waits for them."""


def test_a_commit_waits_for_the_fastest_that_suffice() -> None:
    for rtts_ms, required, waits_ms in values_of(WAITS):
        assert acknowledging_rtt_ms(rtts_ms, required) == waits_ms, (rtts_ms, required)


FAR = Ceiling(88.5, 8, 87.4, 3.0)


def readings(mean_tps: float, noise: float, count: int = 60, seed: int = 3) -> list[float]:
    source = random.Random(seed)
    return [mean_tps * source.gauss(1, noise) for _ in range(count)]


BEATEN = """\
far  86.0   0.02      | no
far  89.0   0.02      | no, within what the probe may be off
far  95.0   0.02      | yes
far  95.0   0.30      | no, the readings scatter by more
far  95.0   0.02 0.0  | yes, by a steady probe
far  95.0   0.02 0.4  | no, a probe that scatters is part of the error
near 1100.0 0.02      | no, half a millisecond is much of a short trip
near 1500.0 0.02      | yes
"""
"""The link, TPS, how they scatter and how the probe does, and whether the ceiling is beaten."""


def test_the_ceiling_is_beaten_by_more_than_the_measurements_err() -> None:
    ceilings = {"far": FAR, "near": Ceiling(800.0, 1, 0.75, 0.5)}
    for case, is_beaten in table_of(BEATEN):
        link, mean_tps, noise, *probe = case.split()
        bounds_tps = [readings(88.5, float(each), seed=4) for each in probe]
        found = beaten(ceilings[link], readings(float(mean_tps), float(noise)), *bounds_tps, each_s=0.5)
        assert found == (pytest.approx(float(mean_tps), rel=0.02) if "yes" in is_beaten else None), case


def test_few_readings_say_nothing_and_those_of_other_settings_are_forgotten() -> None:
    watch = CeilingWatch()
    found = [watch.take(FAR, 95.0 + at % 3, 0.5, "semi-sync") for at in range(30)]
    assert found[:15] == [None] * 15
    assert found[-1] is not None
    assert watch.take(FAR, 95.0, 0.5, "rtt 20") is None
    assert watch.take(None, 95.0, 0.5, "rtt 20") is None


def test_many_clients_queue_so_their_fastest_commit_counts() -> None:
    for clients, cost_ms in ((1, 3.0), (8, 1.0)):
        assert local_cost_ms(clients, Histogram.of([1000, 3000, 5000])) == pytest.approx(cost_ms, rel=0.02)
