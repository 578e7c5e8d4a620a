"""A load in the foreground: what counts of it, and what its anatomy covers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replexplorer.core.load.interval import Interval
from tests.fakes.clock import virtual
from tests.fakes.world import World


@virtual
async def test_the_warm_up_counts_neither_for_the_figures_nor_for_the_anatomy() -> None:
    world, heard = World(), list[Interval]()
    async with world.attached("load", tick_s=1.0) as session:
        load = session.foreground()
        async with session.observed():
            await load.drive(replace(load.requested(), clients=2), lambda _: None)
            await load.measure(duration_s=6, warmup_s=4, on_interval=heard.append)
        assert load.path == "direct"
        assert load.measured.duration_s == pytest.approx(6, abs=0.1)
        assert heard[0].start_s < load.measured.intervals[0].start_s - 3
        from_s, to_s = load.span_s
        assert to_s - from_s == pytest.approx(6, abs=0.1)
        covered_from_s, covered_to_s = load.covered_s
        assert 0 <= covered_from_s < covered_to_s <= 6.5
        assert load.anatomy() is not None
