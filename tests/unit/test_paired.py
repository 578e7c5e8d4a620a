"""The paired comparison of the benchmarks: its interval holds, drift falls out, it ends when it knows."""

from __future__ import annotations

import random
from collections.abc import Mapping
from math import exp, log

import pytest

from bench import paired
from bench.figure import shift_figure
from tests.known import known


def test_the_interval_has_the_truth_19_times_of_20() -> None:
    rng = random.Random(5)
    held = 0
    for _ in range(400):
        noise = [rng.gauss(0, 0.02) + (rng.gauss(0, 0.3) if rng.random() < 0.05 else 0) for _ in range(12)]
        found = paired.ratio_of_blocks([log(0.97) + each for each in noise])
        held += known(found.low) <= 0.97 <= known(found.high)
    assert 370 <= held <= 395


def test_few_blocks_bound_nothing() -> None:
    for count in range(1, 6):
        found = paired.ratio_of_blocks([0.0] * count)
        assert found.value == 1.0
        assert found.low is None
        assert found.high is None


async def test_what_drifts_falls_out_and_what_is_known_ends_it() -> None:
    turns: list[bool] = []

    async def turn(on: bool) -> Mapping[str, float]:
        turns.append(on)
        drifting = 1000 * exp(0.01 * len(turns))
        return {"tps": drifting * (0.96 if on else 1.0)}

    found = (await paired.compare(turn, "tps"))["tps"]
    assert found.ratio.value == pytest.approx(0.96)
    assert found.is_known
    assert len(turns) == 4 * paired.LEAST_BLOCKS
    assert turns[:8] == [True, False, False, True, False, True, True, False]
    assert str(found).startswith("0.960 (0.960 to 0.960, 12 pairs): ")


async def test_time_ends_what_stays_unknown() -> None:
    rng = random.Random(3)

    async def turn(on: bool) -> Mapping[str, float]:
        return {"tps": rng.uniform(500, 2000)}

    found = (await paired.compare(turn, "tps", limit_s=0.0))["tps"]
    assert found.pairs == 2
    assert not found.is_known


async def test_a_drift_is_no_difference_and_a_tie_is_not_decided() -> None:
    turns: list[bool] = []

    async def turn(on: bool) -> float:
        turns.append(on)
        return 0.5 * len(turns) + (3.0 if on else 0.0)

    with_it, without = await paired.differing(turn, paired.LEAST_BLOCKS)
    assert paired.shift_of_blocks(with_it, without) == paired.Shift(3.0, 3.0, 3.0)
    assert shift_figure("P3", "more", with_it, without, most=3.5).holds is True
    assert shift_figure("P3", "more", with_it, without, most=2.0).holds is False
    swaying = [3.0 + (-1) ** (at // 2) * at / 8 for at in range(len(with_it))]
    assert shift_figure("P3", "more", swaying, [0.0] * len(swaying), most=3.0).holds is None
    assert shift_figure("P3", "more", with_it[:2], without[:2], most=3.5).holds is None
