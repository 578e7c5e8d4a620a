"""A session on servers that somebody else made: it reads, and notes what it changes before it changes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replexplorer.adapters.attached.changes import ChangeJournal, GuardedSql, undo
from replexplorer.adapters.attached.provider import NoSidecar
from replexplorer.core.change.journalled import Fate
from replexplorer.core.errors import MissingPiece, NoSuchStack, ServerRefused, StackUnavailable, UsageError
from replexplorer.core.knobs.names import SOURCE, KnobName
from replexplorer.core.load.interval import SERVER
from replexplorer.core.wire import Document
from replexplorer.engine.change.bringup import bring_up
from replexplorer.engine.outcome import DrivenLoad
from replexplorer.engine.session import Session, SessionOptions, Spectator
from replexplorer.ports import Ability, UpOptions
from tests.fakes.clock import until
from tests.fakes.sql import FakeSql
from tests.fakes.world import World, tasks_left
from tests.known import known
from tests.turning import turn
from tests.typed import fields, table_of
from tests.waiting import tick_after, told, until_tick


class AtOnce(ChangeJournal):
    """A journal in whose loop no thread runs, because its time is virtual."""

    async def note(self, entry: Mapping[str, Any]) -> None:
        """See `ChangeJournal`."""
        self.append(entry)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[ChangeJournal]:
    journal = AtOnce.open(tmp_path / "j.json")
    yield journal
    journal.close()


def foreign(world: World, journal: ChangeJournal | None, *abilities: Ability) -> Session:
    """A session on the world's servers, which can do nothing but this."""
    outside, kept = world.outside(), dict[str, Document]()
    outside.provider.abilities = frozenset(abilities)
    guarded = replace(
        outside,
        sql=lambda node, credentials: GuardedSql(outside.sql(node, credentials), journal),
        agent=lambda node: NoSidecar(node, kept),
    )
    return Session(guarded, SessionOptions(holder="attach", reapply="off"))


def timed(commits: int, ms: float) -> list[dict[str, Any]]:
    return [
        fields(
            f"kind='all' event='statement/sql/commit' times={commits} ps={int(ms * 1e9)} fsyncs=0 fsync_ps=0"
        )
    ]


async def test_watching_shows_their_server_s_counters_changes_nothing_and_names_no_sidecar(
    world: World,
) -> None:
    world.primary.variables["sync_binlog"] = "7"
    world.primary.commit_counters = timed(100, 100.0)
    before, session = list(world.changes), foreign(world, None)
    await session.start(lambda *_: None)

    async def works() -> None:
        for count in range(1, 40):
            world.primary.commits += 5
            world.primary.commit_counters = timed(100 + 5 * count, 100.0 + 15.0 * count)
            await session.outside.clock.sleep(0.1)

    work = asyncio.create_task(works())
    tick = await until_tick(session, lambda tick: tick.anatomy is not None)
    load = known(tick.load)
    assert load.state == SERVER
    assert load.tps == pytest.approx(50, rel=0.3)
    assert load.mean_ms == known(tick.anatomy).mean_ms == pytest.approx(3.0)
    await work
    status = await session.status()
    knob = status.knobs[KnobName("sync_binlog", SOURCE)]
    assert [load.p50_ms, load.p99_ms, tick.viewer, tick.links, tick.disks] == [None, None, False, (), ()]
    assert [status.state, status.links, status.disks, status.load] == ["up", (), (), DrivenLoad(None, 0)]
    assert (knob.requested, knob.effective) == (7, 7), "whoever made it wants it so"
    assert not {name.key for name in status.knobs} & {"rtt", "fsync_delay", "clients"}
    for text in ("rtt=5", "fsync_delay=1", "clients=4", "sync_binlog=0"):
        with pytest.raises(UsageError, match="cannot be changed on the servers of"):
            session.console.parse(text)
    assert await session.close() == "", "what is somebody else's is no news"
    assert world.changes == before


async def test_a_change_is_noted_and_taken_back_from_the_journal_when_the_visit_ends(
    world: World, journal: ChangeJournal
) -> None:
    session = foreign(world, journal, Ability.WRITE)
    before = dict(world.primary.variables)

    async def take_back() -> object:
        return await undo(journal, lambda _: FakeSql(world.primary, "db1"))

    session.options = replace(session.options, at_close=take_back)
    await session.start(lambda *_: None)
    with pytest.raises(UsageError, match="replica_parallel_workers cannot be changed"):
        session.console.parse("replica_parallel_workers=8")
    with pytest.raises(StackUnavailable, match="the servers' own clients"):
        await session.console.toggle_load()
    await turn(session, "sync_binlog=100", "innodb_flush_log_at_trx_commit=2")
    await turn(session, "sync_binlog=0")
    assert world.primary.variables["sync_binlog"] == "0"
    noted = {each.variable: each.before for each in journal.outstanding}
    assert noted == {"sync_binlog": "1", "innodb_flush_log_at_trx_commit": "1"}
    assert await session.close() == ""
    assert (world.primary.variables, journal.outstanding, journal.file.exists()) == (before, (), False)


async def test_nothing_but_reads_and_noted_settings_is_sent(world: World, journal: ChangeJournal) -> None:
    server = FakeSql(world.primary, "db1")
    reading, changing = GuardedSql(server, None), GuardedSql(server, journal)
    for statement in ("STOP REPLICA", "INSERT INTO t VALUES (1)", "SET SESSION x = 1"):
        with pytest.raises(MissingPiece, match="is not sent to db1"):
            await changing.query(statement)
    with pytest.raises(MissingPiece, match="sync_binlog of db1 is only read: add --allow-changes"):
        await reading.query("SET GLOBAL sync_binlog = 2")
    assert world.changes == []

    world.trouble_at = 0
    with pytest.raises(ServerRefused):
        await changing.query("SET GLOBAL sync_binlog = 2")
    assert '"before": "1"' in journal.file.read_text(), "it is on the disk before it is sent"
    await changing.query("SET GLOBAL sync_binlog = 2")
    world.primary.variables["binlog_format"] = "a'b"
    with pytest.raises(MissingPiece, match="binlog_format of db1 is left alone"):
        await changing.query("SET GLOBAL binlog_format = 'ROW'")

    world.crash("db1")
    (unreached,) = await undo(journal, lambda _: server)
    assert unreached.fate is Fate.UNREACHED
    assert journal.file.exists(), "what is still to do stays in the journal"


async def test_semi_sync_commits_nothing_and_restarts_none_of_their_threads(
    world: World, journal: ChangeJournal
) -> None:
    session = foreign(world, journal, Ability.WRITE)
    await session.attach()
    world.changes.clear()
    [change] = (await turn(session, "semi_sync=on")).changed
    assert change.name.key == "semi_sync"
    assert {what.partition(" rpl_")[0] for _, what in world.changes} == {"SET GLOBAL"}
    await session.disconnect()


# What a provider cannot do is refused by name before anything is asked of it


def without(session: Session, *abilities: Ability) -> None:
    """Have the session on servers that cannot do these."""
    session.outside.provider.abilities -= {*abilities}


TURNED_BY = """\
WRITE       | sync_binlog | rtt
SHAPE_LINKS | rtt         | fsync_delay
DELAY_FSYNC | fsync_delay | sync_binlog"""


@pytest.mark.parametrize(("ability", "absent", "present"), table_of(TURNED_BY))
async def test_a_knob_that_nothing_can_turn_is_absent(
    world: World, session: Session, ability: str, absent: str, present: str
) -> None:
    without(session, Ability[ability])
    names = {name.key for name in session.state.names()}
    assert names & {absent, present, "clients"} == {present, "clients"}
    with pytest.raises(UsageError, match=f"{absent} cannot be changed on the servers of"):
        session.console.parse(f"{absent}=1")
    await turn(session, f"{present}=1")
    await session.console.reset()
    assert absent not in str(world.document.content["knobs"])


async def test_servers_of_others_are_not_stopped_repaired_or_scaled(world: World, session: Session) -> None:
    with pytest.raises(StackUnavailable, match="no moon"):
        session.fleet.server_process("moon")
    without(session, Ability.STOP_SERVERS, Ability.SCALE)
    with pytest.raises(MissingPiece, match="cannot have their servers stopped and started from here"):
        session.fleet.server_process("db2")
    for replicas in (2, 0):
        with pytest.raises(MissingPiece, match="cannot become more or fewer"):
            await session.rig.scale(replicas, lambda *_: None)
    await session.rig.scale(1, lambda *_: None)
    world.crash("db2")
    without(session, Ability.OWN)
    with pytest.raises(MissingPiece, match="cannot be made, repaired and removed"):
        await bring_up(session.fleet, UpOptions(), lambda *_: None)
    assert [server.running for server in world.servers.values()] == [True, False]


# A spectator sees what others do with a stack, and changes nothing of it


@asynccontextmanager
async def watching(world: World) -> AsyncIterator[Spectator]:
    spectator = Spectator(world.outside())
    try:
        await spectator.start(lambda *_: None)
        yield spectator
    finally:
        assert await spectator.close() == ""


async def test_the_driver_s_load_knobs_marks_and_selection_are_seen_once(world: World) -> None:
    async with world.started("tui") as driver, watching(world) as spectator:
        tick = await until_tick(spectator, lambda tick: tick.viewer and known(tick.load).tps)
        assert "tui" in known(known(tick.load).driver)
        await turn(driver, "sync_binlog=0")
        assert (await told(spectator, "sync_binlog 1 → 0, by tui")).mark == 1
        await driver.console.mark("before the demonstration")
        assert (await told(spectator, "before the demonstration, by tui")).mark == 2
        async with watching(world) as late:
            await asyncio.sleep(3)
            own, later = [(await tick_after(each)).events for each in (driver, late)]
        assert sum("demonstration" in event.text for event in own) == 1
        assert not any("demonstration" in event.text for event in later)
        await driver.console.select(KnobName("rtt", "db2"))
        await until_tick(spectator, lambda tick: tick.driver_selects == "rtt@db2")
        await driver.console.select(None)
        await until_tick(spectator, lambda tick: tick.viewer and tick.driver_selects is None)


async def test_a_spectator_changes_nothing_whatever_happens(world: World) -> None:
    async with world.started("tui") as driver:
        await turn(driver, "semi_sync=on", "sync_binlog=0", "rtt=20")
    before, there = len(world.changes), (world.open_connections(), world.open_bridges())
    async with watching(world) as spectator:
        await asyncio.sleep(5)
        world.restart("db1")
        await told(spectator, "db1 restarted")
        await asyncio.sleep(10)
        assert not world.primary.enabled
    assert len(world.changes) == before
    await until(lambda: not tasks_left())
    assert (world.open_connections(), world.open_bridges()) == there, "what it opened"


async def test_no_stack_is_an_error_or_is_waited_for_and_so_is_each_load() -> None:
    world, steps = World(exists=False), list[str]()
    impatient, patient = (Spectator(world.outside(), patient=patient) for patient in (False, True))
    with pytest.raises(NoSuchStack):
        await impatient.start(lambda *_: None)
    await impatient.close()
    starting = asyncio.create_task(patient.start(lambda text, _=None: steps.append(text)))
    await asyncio.sleep(5)
    assert not starting.done()
    assert "waiting for the stack" in steps
    for _ in range(2):
        async with world.started("tui"):
            await starting
            await until_tick(patient, lambda tick: tick.viewer)
        await until_tick(patient, lambda tick: not tick.viewer)
    await patient.close()
