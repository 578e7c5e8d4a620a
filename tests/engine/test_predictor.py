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


def load(*durations_us: int, clients: int = 1) -> LoadView:
    service = Histogram.of(durations_us)
    mean_ms = service.mean_ms
    tps = clients * 1000 / mean_ms if mean_ms else None
    return LoadView(clients, clients, "update_index", tps, mean_ms=mean_ms, service=service)


async def test_no_commit_moves_the_ceiling_or_the_model_s_round_trip(session: Session) -> None:
    """They come from the probe and from commits without the link: what is faster contradicts them."""
    await turned(session, "semi_sync=on", "rtt=2")
    predictor = session.predictor
    predictor.ceiling(OFF, load(5000, 9000))
    ceilings = [predictor.ceiling(PROTECTED, load(each_us)) for each_us in (9000, 2500, 100)]
    assert len(set(ceilings)) == 1
    assert known(ceilings[0]).local_ms == pytest.approx(7, rel=0.02)
    predicted = [predictor.predicted(PROTECTED, load(each_us)) for each_us in (9000, 100)]
    assert predicted[0] == predicted[1]


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


async def test_the_least_local_cost_counts_until_the_disk_or_the_workload_is_another(
    session: Session,
) -> None:
    await turned(session, "semi_sync=on", "rtt=20")
    predictor = session.predictor

    def local_ms() -> float:
        ceiling = predictor.ceiling(PROTECTED, replace(load(30_000), service=None))
        return known(ceiling).local_ms

    assert local_ms() == 0  # unknown: still a bound
    predictor.ceiling(OFF, load(3000))
    predictor.ceiling(OFF, load(2000))
    predictor.ceiling(OFF, load(4000))
    assert local_ms() == 2
    await turned(session, "fsync_delay=5")
    assert local_ms() == 0


async def test_the_prediction_takes_the_measured_local_cost(session: Session) -> None:
    now = load(2000)
    slow = Anatomy(5.0, 500, 4.0, {Part.EXECUTE: 4.0, Part.REDO: 1.0, Part.BINLOG: 1.0, Part.OTHER: 0.0})
    calibrated, measured = (session.predictor.predicted(OFF, now, anatomy=each) for each in (None, slow))
    assert known(measured).latency_ms == pytest.approx(6.0, rel=0.05)
    assert known(calibrated).latency_ms < 3.0


async def test_a_fallen_back_primary_is_predicted_as_it_commits_now_and_a_dead_one_not_at_all(
    session: Session,
) -> None:
    await turned(session, "semi_sync=on", "rtt=85")
    states = (ProtectionState.PROTECTED, ProtectionState.DEGRADED, ProtectionState.DOWN)
    waits, fallen, down = (
        session.predictor.predicted(replace(PROTECTED, state=state), replace(load(90_000), service=None))
        for state in states
    )
    expected = session.predictor.expected_tps(PROTECTED, 170.0)
    assert (known(waits).latency_ms > 85, known(fallen).latency_ms < 10, down) == (True, True, None)
    assert expected == pytest.approx(8000 / 171, rel=0.1)
