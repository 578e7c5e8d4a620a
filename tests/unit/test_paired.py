"""The paired comparison of the benchmarks: drift falls out, it ends when it knows."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp

import pytest

from bench import paired
from bench.figure import shift_figure


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


async def test_a_drift_is_no_difference_and_a_tie_is_not_decided() -> None:
    turns: list[bool] = []

    async def turn(on: bool) -> float:
        turns.append(on)
        return 0.5 * len(turns) + (3.0 if on else 0.0)

    with_it, without = await paired.differing(turn, paired.LEAST_BLOCKS)
    assert paired.shift_of_blocks(with_it, without) == paired.Shift(3.0, 3.0, 3.0)
    for most, holds in ((3.5, True), (2.0, False)):
        assert shift_figure("P3", "more", with_it, without, most=most).holds is holds
    assert shift_figure("P3", "more", with_it[:2], without[:2], most=3.5).holds is None
