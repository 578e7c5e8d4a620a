"""Ceiling and prediction of the ticks, on fakes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from replexplorer.core.load.interval import LoadView
from replexplorer.core.server.anatomy import Anatomy, Part
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.stats.histogram import Histogram
from replexplorer.engine.observe.predictor import Predictor
from replexplorer.engine.session import Session
from replexplorer.formats.calibration import shipped_calibration
from tests.fakes.world import LOCAL_MS, World
from tests.known import known
from tests.turning import turn
from tests.waiting import tick_after

CALIBRATION = shipped_calibration().calibration


@pytest.fixture
async def session(world: World) -> AsyncIterator[Session]:
    """One that predicts."""
    async with world.attached(calibration=CALIBRATION) as session:
        yield session


async def turned(session: Session, *texts: str) -> None:
    await turn(session, *texts)
    await session.state.refresh()


async def test_a_tick_predicts_what_the_far_link_leaves_and_not_what_waits_for_nothing(world: World) -> None:
    async with world.started() as session:
        assert (await tick_after(session)).predicted is None, "without a calibration"
    async with world.started(calibration=CALIBRATION) as session:
        await turned(session, "semi_sync=on", "rtt=85", "clients=4")
        tick = await tick_after(session)
        await turned(session, "workload=point_select")
        assert (await tick_after(session)).ceiling is None, "what only reads"
        await turned(session, "workload=update_index", "partition=both")
        assert (await tick_after(session)).predicted is None
        await turned(session, "semi_sync=off")
        away = await tick_after(session)
    predicted = known(tick.predicted)
    assert predicted.tps == pytest.approx(4000 / (85 + 3 * LOCAL_MS), rel=0.06)
    assert predicted.tps <= known(tick.ceiling).tps
    assert predicted.limit.startswith("network wait: 9")
    assert predicted.calibrated is None
    assert away.predicted is not None, "nothing waits for the link now"
    assert away.ceiling is None


PROTECTED = Protection(ProtectionState.PROTECTED, requested=True, replicas_required=1)
OFF = Protection(ProtectionState.OFF, requested=False)


def load(*durations_us: int) -> LoadView:
    """One client, whose commits took so long."""
    service = Histogram.of(durations_us)
    return LoadView(
        1, 1, "update_index", 1000 / known(service.mean_ms), mean_ms=service.mean_ms, service=service
    )


async def test_the_least_local_cost_counts_until_the_disk_or_the_workload_is_another(
    session: Session,
) -> None:
    """No commit that waits moves the ceiling or the model's round trip: they come from the probe and from
    commits without the link, and what is faster contradicts them."""
    await turned(session, "semi_sync=on", "rtt=20")
    predictor = session.predictor

    def local_ms(*durations_us: int) -> float:
        """Once commits that do not wait have taken so long, and whatever those that wait take."""
        if durations_us:
            predictor.ceiling(OFF, load(*durations_us))
        waiting = [load(each_us) for each_us in (9000, 2500, 100)]
        [ceiling] = {known(predictor.ceiling(PROTECTED, each)) for each in waiting}
        slow, fast = (predictor.predicted(PROTECTED, each) for each in (waiting[0], waiting[-1]))
        assert slow == fast
        return ceiling.local_ms

    found = [local_ms(), local_ms(5000, 9000), local_ms(3000), local_ms(2000), local_ms(4000)]
    assert found == pytest.approx([0, 7, 3, 2, 2], rel=0.02), "0 is unknown: still a bound"
    await turned(session, "fsync_delay=5")
    assert local_ms() == 0


async def test_commits_that_beat_the_ceiling_are_a_finding(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fake's commits wait for the link as it is; the probe is made to read 10 ms more."""
    async with world.started(calibration=CALIBRATION) as session:
        await turned(session, "semi_sync=on", "rtt=20", "clients=1")
        honest = await tick_after(session, 15.0)
        assert known(honest.ceiling).beaten_tps is None
        real = Predictor._rtts_ms
        monkeypatch.setattr(Predictor, "_rtts_ms", lambda self: [each and each + 10 for each in real(self)])
        said: list[str] = []
        async with asyncio.timeout(60):
            async for tick in session.ticks():
                said += [event.text for event in tick.events]
                if any("beat the ceiling" in text for text in said):
                    break
    ceiling = known(tick.ceiling)
    assert known(ceiling.beaten_tps) > ceiling.most_tps > ceiling.tps
    assert len([text for text in said if "beat the ceiling" in text]) == 1


async def test_the_prediction_takes_the_measured_local_cost_and_the_link_as_commits_wait_now(
    session: Session,
) -> None:
    """A fallen back primary does not wait for it, and a dead one commits nothing."""
    await turned(session, "semi_sync=on", "rtt=85")
    predictor = session.predictor
    slow = Anatomy(5.0, 500, 4.0, {Part.EXECUTE: 4.0, Part.REDO: 1.0, Part.BINLOG: 1.0, Part.OTHER: 0.0})
    calibrated, measured = (
        known(predictor.predicted(OFF, load(2000), anatomy=each)).latency_ms for each in (None, slow)
    )
    assert measured == pytest.approx(6.0, rel=0.05)
    assert calibrated < 3.0
    waits, fallen, down = (
        predictor.predicted(replace(PROTECTED, state=state), load(90_000))
        for state in (ProtectionState.PROTECTED, ProtectionState.DEGRADED, ProtectionState.DOWN)
    )
    assert (known(waits).latency_ms > 85, known(fallen).latency_ms < 10, down) == (True, True, None)
    assert predictor.expected_tps(PROTECTED, 170.0) == pytest.approx(8000 / 171, rel=0.1)
