"""The benchmarks in short: they fail on gross regressions only, at half of what the targets ask.

Each compares A and B in turns and is content with the best of three, so that a busy machine never blocks;
what is slower by its nature is so every time.
"""

from __future__ import annotations

import shutil

import pytest

from replexplorer.ports import LoadSettings
from tests.bench import dashboard, semi_sync
from tests.bench.load_parity import DURABILITY, TABLE_SIZE, our_run, sysbench_of
from tests.integration.conftest import LiveStack
from tests.integration.sessions import attached
from tests.turning import turn

pytestmark = pytest.mark.docker

ROUNDS = 3
LENGTH_S = 2.0


@pytest.mark.skipif(shutil.which("sysbench") is None, reason="no sysbench to compare with")
@pytest.mark.parametrize(("workload", "clients"), [("update_index", 1), ("insert", 16)])
async def test_a_closed_loop_keeps_half_of_sysbench_s_pace(
    live_stack: LiveStack, workload: str, clients: int
) -> None:
    settings = LoadSettings(clients, workload, TABLE_SIZE)
    least, ratios = 0.85 / 2, list[float]()
    async with attached(live_stack) as session:
        target = await session.driving.target()
        await turn(session, *DURABILITY["nothing durable"])
        async with sysbench_of(target) as sysbench:
            while len(ratios) < ROUNDS and max(ratios, default=0.0) < least:
                ours, theirs = (
                    await our_run(target, settings, LENGTH_S),
                    await sysbench.run(settings, LENGTH_S),
                )
                ratios.append(ours.tps / theirs.tps)
    assert max(ratios) >= least, ratios


async def test_one_semi_synchronous_client_keeps_half_of_what_the_link_allows(live_stack: LiveStack) -> None:
    least, ratios = 0.97 / 2, list[float]()
    async with attached(live_stack) as session:
        target = await session.driving.target()
        while len(ratios) < ROUNDS and max(ratios, default=0.0) < least:
            figure = await semi_sync.one_client(session, target, rounds=1, length_s=LENGTH_S)
            ratios.append(figure.samples["ratio"][0])
            # Each waits for its round trip; one more may end within the time than began in it.
            assert figure.samples["tps"][0] <= 1000 / semi_sync.RTT_MS + 1 / LENGTH_S
    assert max(ratios) >= least, ratios


async def test_the_dashboard_costs_at_most_twice_what_it_may(live_stack: LiveStack) -> None:
    async with attached(live_stack) as session:
        seen = await dashboard.under_dashboard(session, 2 * LENGTH_S, dashboard.WIDE)
    assert seen.tps > 0
    assert seen.cpu_percent <= 2 * 6
    assert seen.bytes_per_s <= 2 * 4096
