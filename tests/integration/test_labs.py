"""A lab on real servers: it runs to its end and gives everything back.

Whether a relation holds is the lab's own verdict, told with its evidence; asserted here is what a busy
machine cannot turn around.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from replexplorer.cli.experiment import LABS
from replexplorer.core.experiment.lab import Length, PhaseResult
from replexplorer.core.server.protection import ProtectionState
from replexplorer.engine.experiment.lab import LabRun
from tests.integration.conftest import LiveStack
from tests.integration.sessions import as_asked, attached
from tests.known import known
from tests.turning import turn

pytestmark = pytest.mark.docker

# The replica does not wait for its disk: what it has to catch up with before each phase is soon applied.
BEFORE = (
    "rtt=3", "sync_binlog=10", "clients=2",
    "sync_binlog@replica=0", "innodb_flush_log_at_trx_commit@replica=0",
)  # fmt: skip


def fastest_ms(result: PhaseResult) -> float:
    """What the fastest tenth of the commits took at most."""
    return known(result.service.percentile_ms(10))


async def test_wan_insert_makes_one_commit_a_round_trip(live_stack: LiveStack) -> None:
    """Its last phase, which waits a round trip for each commit, for a hundred of them."""
    lab = LABS.named("wan-insert")
    *others, last = lab.phases
    hundred = replace(last, quick=Length(last.quick.seconds * 100 / known(last.quick.commits), 100))
    lab = replace(lab, phases=(*others, hundred))
    async with attached(live_stack, f"lab {lab.name}") as session:
        await turn(session, *BEFORE)
        before = as_asked(session)
        result = await LabRun(lab, quick=True).run(session.rig)
        assert as_asked(session) == before
        await session.state.refresh()
        assert session.state.protection().state is ProtectionState.OFF
        assert [view.io_thread for view in session.state.node_views()] == [None, "on"]
    assert (result.aborted, result.unrestored) == (None, ())
    assert [each.phase for each in result.phases] == list(lab.phases)
    assert all(relation.evidence for relation in result.relations)
    [protected] = [each for each in result.relations if each.name.startswith("each phase was protected")]
    assert protected.holds
    alone, async_, receiving, semi = result.phases
    assert receiving.service.count
    # The lab compares with the link as measured; no commit is sooner than the delay that was asked.
    assert semi.tps <= 1.02 * 1000 / 85
    assert known(semi.rtt).ms >= 84
    assert semi.service.count >= 100
    # What else runs here makes commits slower and none faster: the fastest tenth says what a commit takes.
    assert fastest_ms(semi) < 1.5 * 85
    assert max(fastest_ms(alone), fastest_ms(async_)) < 85 / 4
