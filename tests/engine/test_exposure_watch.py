"""What each tick says of what a failure would lose, while servers work, stop and come back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from replexplorer.core.server.exposure import Exposure, Loss, Unknown, silent
from replexplorer.core.system import ASYNC
from replexplorer.engine.fleet import Fleet
from replexplorer.engine.session import Session
from tests.fakes.world import World
from tests.known import known
from tests.turning import inject, turn
from tests.waiting import until_tick

NOTHING = Loss(0, 0, 0)


async def exposure(session: Session, holds: Callable[[Exposure], bool]) -> Exposure:
    """That of the first tick for which this holds."""
    tick = await until_tick(session, lambda tick: tick.exposure and holds(tick.exposure), within_s=30)
    return known(tick.exposure)


def at_risk(found: Loss | Unknown) -> int:
    """So many commits; -1: it is not known."""
    return found.commits if isinstance(found, Loss) else -1


async def test_where_members_number_apart_gtids_do_not_say_what_is_lost_with_one(
    tui: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    await exposure(tui, lambda seen: seen.source_lost == NOTHING)
    monkeypatch.setattr(Fleet, "system", replace(ASYNC, numbers_alike=False))
    seen = await exposure(tui, lambda seen: at_risk(seen.source_lost) < 0)
    assert seen.process_dies == seen.power_cut == NOTHING


async def test_what_no_commit_flushes_is_at_risk_until_the_flush_of_each_second(
    world: World, tui: Session
) -> None:
    await turn(tui, "innodb_flush_log_at_trx_commit=2")
    seen = await exposure(tui, lambda seen: at_risk(seen.power_cut) > 100)
    assert isinstance(seen.power_cut, Loss)
    assert seen.power_cut.low <= world.primary.commits - world.primary.redo_flushed
    assert (seen.power_cut.age_ms is None, seen.process_dies) == (False, NOTHING)
    await turn(tui, "innodb_flush_log_at_trx_commit=0")
    await exposure(tui, lambda seen: at_risk(seen.process_dies) > 100)
    await turn(tui, "innodb_flush_log_at_trx_commit=1")
    await exposure(tui, lambda seen: seen.power_cut == seen.process_dies == NOTHING)


async def test_what_a_replica_lacks_grows_and_is_told_with_its_age_and_is_unknown_once_it_is_silent(
    world: World, tui: Session
) -> None:
    await exposure(tui, lambda seen: seen.source_lost == NOTHING)
    world.replica.received = world.primary.commits
    lost = (await exposure(tui, lambda seen: at_risk(seen.source_lost) > 1000)).source_lost
    assert isinstance(lost, Loss)
    assert known(lost.age_ms) > 100
    assert lost.low > 500, "the replica was asked after the source had executed them"
    world.crash("db2")
    seen = await exposure(tui, lambda seen: at_risk(seen.source_lost) < 0)
    assert seen.source_lost.words.startswith("not known: no replica answers; ")
    assert seen.power_cut == NOTHING


async def test_of_a_source_that_is_silent_refuses_or_answers_late_it_is_said_and_how_old_the_reading_is(
    world: World, tui: Session
) -> None:
    """All of a durable source whose replica keeps up is that it risks nothing."""
    source, usual_s = world.primary, world.primary.statement_s

    async def until_known() -> None:
        await exposure(
            tui, lambda seen: seen.source_lost == seen.power_cut == NOTHING and seen.read_ago_s < 0.5
        )

    async def once_unknown() -> Exposure:
        return await exposure(tui, lambda seen: at_risk(seen.power_cut) < 0)

    await until_known()
    world.crash("db1")
    assert await once_unknown() == silent("db1 does not answer")
    source.boot()
    await until_known()
    source.reading_refused = 1142
    assert (await once_unknown()).power_cut == Unknown("db1: 1142 refused by the test")
    source.reading_refused = None
    await until_known()
    source.statement_s = 0.4
    await exposure(tui, lambda seen: seen.power_cut == NOTHING and seen.read_ago_s >= 1)
    source.statement_s = 1.0
    assert await once_unknown() == silent("db1 was not looked at for more than 2 s")
    source.statement_s = usual_s
    await until_known()


async def test_a_status_looks_until_a_flush_has_shown_what_is_at_risk(world: World) -> None:
    world.primary.variables["innodb_flush_log_at_trx_commit"] = "2"
    async with world.attached("status") as session:
        await asyncio.sleep(0.4)
        world.primary.commits += 500
        seen = (await session.status()).exposure
    assert (at_risk(seen.power_cut) >= 0, seen.source_lost) == (True, NOTHING)
    world.crash("db1")
    async with world.attached("status") as session:
        assert (await session.status()).exposure.power_cut == Unknown("the source was not reached")


@pytest.mark.parametrize("seen_by", ["fault", "tui", "none"])
async def test_a_status_counts_what_went_unprotected_since_the_last_replica_went(
    world: World, seen_by: str, snapshot: object
) -> None:
    """Not since its own first look: where no app looked at that moment the number is unknown. A replica that
    came back meanwhile may have got it all."""
    if seen_by == "tui":
        async with world.started("tui") as session:
            await session.driving.stop()
            await exposure(session, lambda seen: seen.source_lost == NOTHING)
            world.crash("db2")
            await asyncio.sleep(5)
    elif seen_by == "fault":
        async with world.attached("fault") as session:
            await inject(session, "kill@db2")
    else:
        world.crash("db2")
    world.primary.commits += 500
    await asyncio.sleep(60)
    told = list[str]()
    for _ in range(2):
        async with world.attached("status") as session:
            told.append((await session.status()).exposure.source_lost.words)
        world.servers["db2"].boot()
        await asyncio.sleep(1)
        world.crash("db2")
    assert told == snapshot


async def test_what_is_kept_of_the_last_replica_s_end_goes_with_its_fault(session: Session) -> None:
    await inject(session, "kill@db2")
    assert session.state.requested.alone is not None
    await session.console.clear()
    assert session.state.requested.alone is None


@pytest.mark.parametrize("fault", ["kill", "stop", "power_cut", "isolate", "partition=both@db2"])
async def test_the_meter_looks_right_before_a_fault_and_what_it_saw_stays(
    world: World, session: Session, fault: str
) -> None:
    await turn(session, "undo_journal=on")
    exposures = session.state.exposures
    await exposures.look()
    await asyncio.sleep(5)
    world.replica.received = world.primary.commits
    world.primary.commits += 300
    asked_s = session.outside.clock.monotonic()
    await inject(session, fault)
    looked_s, seen = said = known(session.rig.at_risk())
    assert looked_s >= asked_s
    assert at_risk(seen.source_lost) == 300
    if not world.primary.running:
        await exposures.look()
        assert exposures.exposure() == silent("db1 does not answer")
        assert session.rig.at_risk() == said


async def test_no_look_waits_for_a_source_that_did_not_answer_before_the_fault(
    world: World, session: Session
) -> None:
    exposures = session.state.exposures
    await exposures.look()
    said = session.rig.at_risk()
    world.crash("db1")
    await exposures.look()
    world.servers["db1"].boot()
    await exposures.look_before_failure()
    assert session.rig.at_risk() == said
