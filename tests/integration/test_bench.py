"""The benchmarks in short: they run, and what no machine can turn around holds. Ratios are `make bench`'s."""

from __future__ import annotations

import shutil

import pytest

from bench import dashboard, semi_sync
from bench.load_parity import DURABILITY, TABLE_SIZE, our_run, sysbench_of
from replexplorer.ports import LoadSettings
from tests.integration.conftest import LiveStack
from tests.integration.sessions import attached
from tests.turning import turn

pytestmark = pytest.mark.docker

LENGTH_S = 1.0


@pytest.mark.skipif(shutil.which("sysbench") is None, reason="no sysbench to compare with")
async def test_the_load_and_sysbench_commit_on_the_same_table(live_stack: LiveStack) -> None:
    settings = LoadSettings(16, "insert", TABLE_SIZE)
    async with attached(live_stack) as session:
        target = await session.driving.target()
        await turn(session, *DURABILITY["nothing durable"])
        async with sysbench_of(target) as sysbench:
            ours = await our_run(target, settings, LENGTH_S)
            theirs = await sysbench.run(settings, LENGTH_S)
    assert min(ours.tps, theirs.tps) > 0


async def test_one_semi_synchronous_client_commits_once_a_round_trip(live_stack: LiveStack) -> None:
    async with attached(live_stack) as session:
        target = await session.driving.target()
        figure = await semi_sync.one_client(session, target, rounds=1, length_s=LENGTH_S)
    # Each waits for its round trip; one more may end within the time than began in it.
    assert 0 < figure.samples["tps"][0] <= 1000 / semi_sync.RTT_MS + 1 / LENGTH_S


async def test_the_dashboard_draws_beside_a_load(live_stack: LiveStack) -> None:
    async with attached(live_stack) as session:
        seen = await dashboard.under_dashboard(session, 2 * LENGTH_S, dashboard.WIDE)
    assert seen.tps > 0
    assert seen.bytes_per_s <= 2 * 4096
