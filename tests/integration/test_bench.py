"""The benchmarks in short: they run, and what no machine can turn around holds. Ratios are `make bench`'s."""

from __future__ import annotations

import pytest

from bench import dashboard
from tests.integration.conftest import LiveStack
from tests.integration.sessions import attached

pytestmark = pytest.mark.docker

LENGTH_S = 1.0


async def test_the_dashboard_draws_beside_a_load(live_stack: LiveStack) -> None:
    async with attached(live_stack) as session:
        seen = await dashboard.under_dashboard(session, 2 * LENGTH_S, dashboard.SMALL)
    assert seen.tps > 0
    assert seen.bytes_per_s <= 2 * dashboard.MOST_BYTES_PER_S
