"""Labs on real servers: they run to their end and give everything back, whatever happens to a server.

Whether a relation holds is the lab's own verdict, told with its evidence; asserted here is what a busy
machine cannot turn around.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from replexplorer.cli.experiment import LABS
from replexplorer.core.experiment.experiment import ExperimentProgress
from replexplorer.core.experiment.lab import Lab, LabResult, Length, PhaseResult
from replexplorer.core.server.protection import ProtectionState
from replexplorer.engine.experiment.lab import LabRun
from tests.integration.conftest import LiveStack, ids
from tests.integration.sessions import as_asked, attached
from tests.turning import turn

pytestmark = pytest.mark.docker

# The replica does not wait for its disk: what it has to catch up with before each phase is soon applied.
BEFORE = (
    "rtt=3", "sync_binlog=10", "clients=2",
    "sync_binlog@replica=0", "innodb_flush_log_at_trx_commit@replica=0",
)  # fmt: skip


def held(result: LabResult, name: str) -> bool:
    """Whether the relation whose name begins so holds."""
    [relation] = [each for each in result.relations if each.name.startswith(name)]
    return relation.holds


def shortened(lab: Lab) -> Lab:
    """Every phase of it, measured for a second: the same method."""
    return replace(lab, phases=tuple(replace(phase, quick=Length(1)) for phase in lab.phases))


def fastest_ms(result: PhaseResult) -> float:
    """What the fastest tenth of the commits took at most."""
    took_ms = result.service.percentile_ms(10)
    assert took_ms is not None
    return took_ms


def fewer_commits(lab: Lab, most: int) -> Lab:
    """The phase that waits a round trip for each commit, the last one, for no more of them than that."""
    *others, last = lab.phases
    assert last.quick.commits is not None
    length = Length(last.quick.seconds * most / last.quick.commits, most)
    return replace(lab, phases=(*others, replace(last, quick=length)))


async def rerun(live_stack: LiveStack, lab: Lab) -> LabResult:
    """The quick lab on the shared stack with knobs of somebody's own, which it gives back."""
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
    return result


async def test_wan_insert_makes_one_commit_a_round_trip(live_stack: LiveStack, in_full: bool) -> None:
    commits = 300 if in_full else 100
    result = await rerun(live_stack, fewer_commits(LABS.named("wan-insert"), commits))
    alone, async_, receiving, semi = result.phases
    assert receiving.service.count
    assert held(result, "each phase was protected")
    # The lab compares with the link as measured; no commit is sooner than the delay that was asked.
    assert semi.tps <= 1.02 * 1000 / 85
    assert semi.rtt is not None
    assert semi.rtt.ms >= 84
    assert semi.service.count >= commits
    # What else runs here makes commits slower and none faster: the fastest tenth says what a commit takes.
    assert fastest_ms(semi) < 1.5 * 85
    assert max(fastest_ms(alone), fastest_ms(async_)) < 85 / 4


@pytest.mark.in_full
async def test_durability_modes_run_in_every_mode(live_stack: LiveStack) -> None:
    result = await rerun(live_stack, LABS.named("durability-modes"))
    tps = {each.phase.name: each.tps for each in result.phases}
    assert held(result, "each phase was protected")
    assert min(tps.values()) > 0
    # An fsync of 2 ms and a round trip of 2 ms: no commit is faster than both, and without them many are.
    fast_ms = {each.phase.name: fastest_ms(each) for each in result.phases}
    assert fast_ms["none, 1 client"] < 4 <= fast_ms["both, 1 client"]
    fsync_ms = {each.phase.name: each.fsync_measured_ms for each in result.phases}
    assert (fsync_ms["local, 1 client"] or 0) >= 2


@pytest.mark.in_full
async def test_phantom_read_holds_ten_times_of_ten(live_stack: LiveStack) -> None:
    result = await rerun(live_stack, LABS.named("phantom-read"))
    assert result.verdict == "holds", result.relations
    commit, sync = result.phases
    seen, returned = (
        float(commit.figures[name]) for name in ("row seen after, ms", "COMMIT returned after, ms")
    )
    assert seen < 1000 <= returned
    assert float(sync.figures["row seen after, ms"]) >= 990


@pytest.mark.in_full
async def test_a_replica_that_applies_slowly_acknowledges_as_before(live_stack: LiveStack) -> None:
    result = await rerun(live_stack, shortened(LABS.named("applier-lag")))
    up, slow, parallel = result.phases
    assert held(result, "each phase was protected")
    assert min(each.service.count for each in (up, slow, parallel)) > 0
    lag_s = [float(each.figures["lag at the end, s"]) for each in (slow, parallel)]
    assert lag_s[0] > 0, "one worker applies 100 of 300 a second at most"
    assert float(slow.figures["acknowledged, not applied at the end"]) > 0
    assert float(slow.figures["catches up in, s"]) > 0


@pytest.mark.in_full
async def test_a_delay_before_the_fsync_makes_larger_groups(live_stack: LiveStack) -> None:
    result = await rerun(live_stack, shortened(LABS.named("group-delay")))
    group = {each.phase.name: float(each.figures["commits per binlog fsync"]) for each in result.phases}
    assert group["no delay, 1 client"] == pytest.approx(1, rel=0.5)
    assert group["no delay, 32 clients"] > 2, "they share fsyncs"
    alone, delayed = (each.service.percentile_ms(50) for each in result.phases[:2])
    assert alone is not None
    assert delayed is not None
    assert min(alone, delayed) >= 20, "the fsync's delay"


@pytest.mark.in_full
async def test_a_quorum_waits_for_its_last_replica(live_stack: LiveStack) -> None:
    """It brings two replicas up, and removes them again."""
    result = await rerun(live_stack, shortened(LABS.named("quorum-of-n")))
    _, *quorums = result.phases
    for result_of, rtt_ms in zip(quorums, (10, 40, 85), strict=True):
        assert result_of.rtt is not None
        assert result_of.rtt.ms == pytest.approx(rtt_ms, abs=5)
        assert result_of.service.min_ms is not None
        assert result_of.service.min_ms >= rtt_ms - 1, "no commit is sooner than its last acknowledgement"
    clients = "SELECT variable_value FROM performance_schema.global_status WHERE variable_name = '{}'"
    counted = await live_stack.value("db1", clients.format("Rpl_semi_sync_source_clients"))
    assert int(counted) == 1, "those that were removed are not waited for by whoever counts"


async def test_a_server_killed_in_a_lab_aborts_it_and_the_knobs_come_back_with_it(
    live_stack: LiveStack, docker_client: Any
) -> None:
    async with attached(live_stack, "lab wan-insert") as session:
        await turn(session, *BEFORE)
        before = as_asked(session)
        killed = asyncio.Event()

        def watch(step: ExperimentProgress) -> None:
            if step.number == 2 and step.doing == "measuring" and not killed.is_set():
                killed.set()
                docker_client.kill(ids(docker_client, live_stack.stack.name)["db2", "mysqld"])

        result = await LabRun(shortened(LABS.named("wan-insert")), True, watch).run(session.rig)
        assert killed.is_set()
        assert result.verdict == "aborted"
        assert result.aborted is not None
        assert "db2" in result.aborted
        await session.up(lambda *_: None)
        assert as_asked(session) == before
        await session.state.refresh()
        rtt = next(view for name, view in session.state.views().items() if name.key == "rtt")
        assert rtt.effective == 3
