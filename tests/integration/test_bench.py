"""The benchmarks in short: they run, and what no machine can turn around holds. Ratios are `make bench`'s."""

from __future__ import annotations

import pytest

from bench import dashboard
from tests.integration.conftest import LiveStack
from tests.integration.sessions import attached

pytestmark = pytest.mark.docker

LENGTH_S = 6.0
"""One second may write twice what the next does: a chart gets another scale, or a tick comes late."""


async def test_the_dashboard_draws_beside_a_load(live_stack: LiveStack) -> None:
    async with attached(live_stack) as session:
        seen = await dashboard.under_dashboard(session, LENGTH_S, dashboard.SMALL)
    assert seen.tps > 0
    assert seen.bytes_per_s <= 2 * dashboard.MOST_BYTES_PER_S
