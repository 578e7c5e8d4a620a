"""A session on servers that somebody else made: it reads, and notes what it changes before it changes it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replexplorer.adapters.attached.changes import ChangeJournal, GuardedSql, undo
from replexplorer.adapters.attached.provider import NoSidecar
from replexplorer.core.change.journalled import Fate
from replexplorer.core.errors import MissingPiece, NoSuchStack, ServerRefused, StackUnavailable, UsageError
from replexplorer.core.event import Event
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
from tests.waiting import load_runs, told, until_tick


class AtOnce(ChangeJournal):
    """A journal in whose loop no thread runs, because its time is virtual."""

    async def note(self, entry: Mapping[str, Any]) -> None:
        """See `ChangeJournal`."""
        self.append(entry)


def foreign(world: World, journal: ChangeJournal | None, *abilities: Ability) -> Session:
    """A session on the world's servers, which can do nothing but this."""
    whole = world.session("attach")
    outside, kept = whole.outside, dict[str, Document]()
    outside.provider.abilities = frozenset(abilities)
    guarded = replace(
        outside,
        sql=lambda node, credentials: GuardedSql(outside.sql(node, credentials), journal),
        agent=lambda node: NoSidecar(node, kept),
    )
    return Session(guarded, SessionOptions(holder="attach", reapply="off"))


async def test_watching_changes_nothing_and_names_no_sidecar(world: World) -> None:
    world.primary.variables["sync_binlog"] = "7"
    before = list(world.changes)
    session = foreign(world, None)
    await session.attach()
    status = await session.status()
    assert (status.state, status.links, status.disks, status.load) == ("up", (), (), DrivenLoad(None, 0))
    knob = status.knobs[KnobName("sync_binlog", SOURCE)]
    assert (knob.requested, knob.effective) == (7, 7), "whoever made it wants it so"
    assert not {name.key for name in status.knobs} & {"rtt", "fsync_delay", "clients"}
    for text in ("rtt=5", "fsync_delay=1", "clients=4", "sync_binlog=0"):
        with pytest.raises(UsageError, match="cannot be changed on the servers of"):
            session.console.parse(text)
    await session.disconnect()
    assert world.changes == before


COUNTED = "statement/sql/commit"


def timed(commits: int, ms: float) -> list[dict[str, Any]]:
    return [
        {"kind": "all", "event": COUNTED, "times": commits, "ps": int(ms * 1e9), "fsyncs": 0, "fsync_ps": 0}
    ]


async def test_what_is_seen_of_other_people_s_load_is_their_server_s_counters(world: World) -> None:
    before = list(world.changes)
    session = foreign(world, None)
    world.primary.commit_counters = timed(100, 100.0)
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
    assert (load.p50_ms, load.p99_ms, tick.viewer, tick.links, tick.disks) == (None, None, False, (), ())
    await work
    assert await session.close() == "", "what is somebody else's is no news"
    assert world.changes == before


async def test_a_change_is_noted_and_taken_back_from_the_journal_when_the_visit_ends(
    world: World, tmp_path: Path
) -> None:
    file = tmp_path / "j.json"
    journal = AtOnce.open(file)
    session = foreign(world, journal, Ability.WRITE)
    before = dict(world.primary.variables)
    address = (await session.outside.provider.nodes())[0]
    sql = session.outside.sql

    async def take_back() -> object:
        return await undo(journal, lambda _: sql(address, world.credentials)._sql)  # type: ignore[attr-defined]

    session.options = replace(session.options, at_close=take_back)
    await session.start(lambda *_: None)
    with pytest.raises(UsageError, match="replica_parallel_workers cannot be changed"):
        session.console.parse("replica_parallel_workers=8")
    with pytest.raises(StackUnavailable, match="the servers' own clients"):
        await session.console.toggle_load()
    await turn(session, "sync_binlog=100", "innodb_flush_log_at_trx_commit=2")
    await turn(session, "sync_binlog=0")
    assert world.primary.variables["sync_binlog"] == "0"
    assert [(each.variable, each.before) for each in journal.outstanding] == [
        ("sync_binlog", "1"),
        ("innodb_flush_log_at_trx_commit", "1"),
    ]
    assert await session.close() == ""
    assert (world.primary.variables, journal.outstanding, file.exists()) == (before, (), False)
    journal.close()


async def test_nothing_but_reads_and_noted_settings_is_sent(world: World, tmp_path: Path) -> None:
    server = FakeSql(world.primary, "db1")
    reading = GuardedSql(server, None)
    for statement in ("STOP REPLICA", "INSERT INTO t VALUES (1)", "SET SESSION x = 1"):
        with pytest.raises(MissingPiece, match="is not sent to db1"):
            await reading.query(statement)
    with pytest.raises(MissingPiece, match="sync_binlog of db1 is only read: add --allow-changes"):
        await reading.query("SET GLOBAL sync_binlog = 2")
    assert world.changes == []

    journal = AtOnce.open(tmp_path / "j")
    changing = GuardedSql(server, journal)
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
    world.primary.boot()
    world.primary.variables["sync_binlog"] = "5"
    (left,) = await undo(journal, lambda _: server)
    assert (left.fate, left.found, world.primary.variables["sync_binlog"]) == (Fate.LEFT, "5", "5")
    journal.close()


async def test_semi_sync_is_not_mended_by_restarting_their_threads(world: World, tmp_path: Path) -> None:
    journal = AtOnce.open(tmp_path / "j.json")
    session = foreign(world, journal, Ability.WRITE)
    await session.attach()
    changed = list(world.changes)
    result = await turn(session, "semi_sync=on")
    assert [change.name.key for change in result.changed] == ["semi_sync"]
    statements = [what for _, what in world.changes[len(changed) :]]
    assert not [what for what in statements if "INSERT" in what or "STOP" in what], "no test commit of ours"
    await session.disconnect()
    journal.remove()
    journal.close()


# What a provider cannot do is refused by name before anything is asked of it


def without(session: Session, *abilities: Ability) -> Session:
    """The session, on servers that cannot do these."""
    provider = session.outside.provider
    provider.abilities = provider.abilities - {*abilities}
    return session


@pytest.mark.parametrize(
    ("ability", "absent", "present"),
    [
        (Ability.WRITE, "sync_binlog", "rtt"),
        (Ability.SHAPE_LINKS, "rtt", "fsync_delay"),
        (Ability.DELAY_FSYNC, "fsync_delay", "sync_binlog"),
    ],
)
async def test_a_knob_that_nothing_can_turn_is_absent(
    world: World, session: Session, ability: Ability, absent: str, present: str
) -> None:
    without(session, ability)
    names = {name.key for name in session.state.names()}
    assert absent not in names
    assert {present, "clients"} <= names
    with pytest.raises(UsageError, match=f"{absent} cannot be changed on the servers of"):
        session.console.parse(f"{absent}=1")
    await turn(session, f"{present}=1")
    await session.console.reset()
    assert absent not in str(world.document.content["knobs"])


async def test_servers_that_nobody_may_stop_have_no_process(session: Session) -> None:
    with pytest.raises(StackUnavailable, match="no moon"):
        session.fleet.server_process("moon")
    without(session, Ability.STOP_SERVERS)
    with pytest.raises(MissingPiece, match="cannot have their servers stopped and started from here"):
        session.fleet.server_process("db2")


async def test_servers_of_somebody_else_are_not_repaired_and_not_scaled(
    world: World, session: Session
) -> None:
    without(session, Ability.SCALE)
    for replicas in (2, 0):
        with pytest.raises(MissingPiece, match="cannot become more or fewer"):
            await session.rig.scale(replicas, lambda *_: None)
    await session.rig.scale(1, lambda *_: None)
    assert len(world.servers) == 2
    world.crash("db2")
    without(session, Ability.OWN)
    with pytest.raises(MissingPiece, match="cannot be made, repaired and removed"):
        await bring_up(session.fleet, UpOptions(), lambda *_: None)
    assert not world.servers["db2"].running


# A spectator sees what others do with a stack, and changes nothing of it


@asynccontextmanager
async def watching(world: World, *, patient: bool = False) -> AsyncIterator[Spectator]:
    spectator = Spectator(world.outside(), patient=patient)
    try:
        await spectator.start(lambda *_: None)
        yield spectator
    finally:
        assert await spectator.close() == ""


async def test_the_driver_s_load_knobs_marks_and_selection_are_seen_once(world: World) -> None:
    async with world.started("tui") as driver, watching(world) as spectator:
        await until_tick(driver, load_runs)
        tick = await until_tick(
            spectator, lambda tick: tick.viewer and tick.load is not None and tick.load.tps
        )
        assert tick.load is not None
        assert tick.load.driver is not None
        assert "tui" in tick.load.driver
        await turn(driver, "sync_binlog=0")
        assert (await told(spectator, "sync_binlog 1 → 0, by tui")).mark == 1
        await driver.console.mark("before the demonstration")
        assert (await told(spectator, "before the demonstration, by tui")).mark == 2
        heard = [event.text async for event in _events(driver, 5)]
        assert sum("before the demonstration" in text for text in heard) <= 1
        async with watching(world) as late:
            assert not [event async for event in _events(late, 5) if "demonstration" in event.text]
        await driver.console.select(KnobName("rtt", "db2"))
        await until_tick(spectator, lambda tick: tick.driver_selects == "rtt@db2")
        await driver.console.select(None)
        await until_tick(spectator, lambda tick: tick.viewer and tick.driver_selects is None)


async def test_nothing_is_changed_whatever_happens(world: World) -> None:
    async with world.started("tui") as driver:
        await turn(driver, "semi_sync=on", "sync_binlog=0", "rtt=20")
    before, connections, bridges = len(world.changes), world.open_connections(), world.open_bridges()
    async with watching(world) as spectator:
        await asyncio.sleep(5)
        world.restart("db1")
        await told(spectator, "db1 restarted")
        await asyncio.sleep(10)
        assert not world.primary.enabled
        assert spectator.console is None
    assert len(world.changes) == before
    await until(lambda: not tasks_left())
    assert (world.open_connections(), world.open_bridges()) == (connections, bridges), "what it opened"


async def test_no_stack_is_an_error_or_is_waited_for_and_so_is_each_load() -> None:
    world = World(exists=False)
    impatient = Spectator(world.outside())
    with pytest.raises(NoSuchStack):
        await impatient.start(lambda *_: None)
    await impatient.close()
    steps: list[str] = []
    patient = Spectator(world.outside(), patient=True)
    starting = asyncio.create_task(patient.start(lambda text, _=None: steps.append(text)))
    await asyncio.sleep(5)
    assert not starting.done()
    assert "waiting for the stack" in steps
    async with world.started("tui"):
        await starting
        await until_tick(patient, lambda tick: tick.viewer)
    await until_tick(patient, lambda tick: not tick.viewer)
    async with world.started("tui"):
        await until_tick(patient, lambda tick: tick.viewer)
    await patient.close()


async def _events(session: object, count: int) -> AsyncIterator[Event]:
    seen = 0
    async for tick in session.ticks():  # type: ignore[attr-defined]
        for event in tick.events:
            yield event
        seen += 1
        if seen == count:
            return
