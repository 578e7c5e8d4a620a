"""The bound that the link sets."""

from __future__ import annotations

import random
from collections.abc import Sequence

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


@pytest.mark.parametrize(
    ("clients", "rtt_ms", "local_ms", "tps"),
    [
        (1, 85.0, None, 11.7647),
        (48, 85.4, 3.0, 542.986),
        (32, 0.0, 2.0, 16_000.0),
        (0, 85.0, 1.0, None),
        (8, None, 1.0, None),
        (8, 0.0, 0.0, None),
    ],
)
def test_bound(clients: int, rtt_ms: float | None, local_ms: float | None, tps: float | None) -> None:
    ceiling = bound(clients, rtt_ms, local_ms)
    assert (ceiling and ceiling.tps) == (tps and pytest.approx(tps, rel=1e-4))
    if ceiling is not None:
        assert (ceiling.clients, ceiling.rtt_ms, ceiling.local_ms) == (clients, rtt_ms, local_ms or 0.0)


@pytest.mark.parametrize(
    ("rtts", "required", "waits_ms"),
    [
        ((85.0, 5.0), 1, 5.0),
        ((85.0, 5.0), 2, 85.0),
        ((85.0, None), 1, 85.0),
        ((85.0, None), 2, None),
        ((), 1, None),
    ],
)
def test_a_commit_waits_for_the_fastest_that_suffice(
    rtts: Sequence[float | None], required: int, waits_ms: float | None
) -> None:
    assert acknowledging_rtt_ms(rtts, required) == waits_ms


FAR = Ceiling(88.5, 8, 87.4, 3.0)


def readings(mean_tps: float, noise: float, count: int = 60, seed: int = 3) -> list[float]:
    source = random.Random(seed)
    return [mean_tps * source.gauss(1, noise) for _ in range(count)]


@pytest.mark.parametrize(
    ("ceiling", "mean_tps", "noise", "is_beaten"),
    [
        (FAR, 86.0, 0.02, False),
        (FAR, 89.0, 0.02, False),  # within what the probe may be off
        (FAR, 95.0, 0.02, True),
        (FAR, 95.0, 0.30, False),  # the readings scatter by more
        (Ceiling(800.0, 1, 0.75, 0.5), 1100.0, 0.02, False),  # half a millisecond is much of a short trip
        (Ceiling(800.0, 1, 0.75, 0.5), 1500.0, 0.02, True),
    ],
)
def test_the_ceiling_is_beaten_by_more_than_the_measurements_err(
    ceiling: Ceiling, mean_tps: float, noise: float, is_beaten: bool
) -> None:
    found = beaten(ceiling, readings(mean_tps, noise), each_s=0.5)
    assert (found is not None) == is_beaten
    assert found is None or found == pytest.approx(mean_tps, rel=0.02)


def test_a_probe_that_scatters_is_part_of_the_error() -> None:
    tps = readings(95.0, 0.02)
    steady, wild = [88.5] * 60, readings(88.5, 0.4, seed=4)
    assert beaten(FAR, tps, steady, each_s=0.5) is not None
    assert beaten(FAR, tps, wild, each_s=0.5) is None


def test_few_readings_say_nothing_and_those_of_other_settings_are_forgotten() -> None:
    watch = CeilingWatch()
    found = [watch.take(FAR, 95.0 + at % 3, 0.5, "semi-sync") for at in range(30)]
    assert found[:15] == [None] * 15
    assert found[-1] is not None
    assert watch.take(FAR, 95.0, 0.5, "rtt 20") is None
    assert watch.take(None, 95.0, 0.5, "rtt 20") is None


@pytest.mark.parametrize(("clients", "cost_ms"), [(1, 3.0), (8, 1.0)])
def test_many_clients_queue_so_their_fastest_commit_counts(clients: int, cost_ms: float) -> None:
    assert local_cost_ms(clients, Histogram.of([1000, 3000, 5000])) == pytest.approx(cost_ms, rel=0.02)
