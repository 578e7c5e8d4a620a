"""A session on servers that somebody else made: it reads, and notes what it changes before it changes it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from replexplorer.adapters.attached.changes import ChangeJournal, GuardedSql, undo
from replexplorer.adapters.attached.provider import NoSidecar
from replexplorer.core.change.journalled import Fate
from replexplorer.core.dialect.question import Row
from replexplorer.core.errors import MissingPiece, ServerUnreachable, StackUnavailable, UsageError
from replexplorer.core.knobs.names import SOURCE, KnobName
from replexplorer.core.load.interval import SERVER
from replexplorer.core.wire import Document
from replexplorer.engine.change.bringup import bring_up
from replexplorer.engine.outcome import DrivenLoad
from replexplorer.engine.session import Session, SessionOptions
from replexplorer.ports import Ability, UpOptions
from tests.fakes.world import World
from tests.turning import turn
from tests.waiting import until_tick


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
    load, anatomy = tick.load, tick.anatomy
    assert load is not None
    assert anatomy is not None
    assert load.state == SERVER
    assert load.tps == pytest.approx(50, rel=0.3)
    assert load.mean_ms == pytest.approx(3.0)
    assert load.latency is None
    assert (load.p50_ms, load.p99_ms, tick.viewer, tick.links, tick.disks) == (None, None, False, (), ())
    assert anatomy.mean_ms == pytest.approx(3.0)
    await work
    assert await session.close() == "", "what is somebody else's is no news"
    assert world.changes == before


async def test_what_was_turned_on_a_visit_is_taken_back_when_it_ends(world: World, tmp_path: Path) -> None:
    journal = AtOnce.open(tmp_path / "j.json")
    session = foreign(world, journal, Ability.WRITE)
    before = dict(world.primary.variables)
    addresses = {node.name: node for node in await session.outside.provider.nodes()}
    sql = session.outside.sql

    async def take_back() -> object:
        return await undo(journal, lambda name: sql(addresses[name], world.credentials)._sql)  # type: ignore[attr-defined]

    session.options = replace(session.options, at_close=take_back)
    visit = session
    await visit.start(lambda *_: None)
    await visit.console.set((visit.console.parse("sync_binlog=100"),))
    assert world.primary.variables["sync_binlog"] == "100"
    with pytest.raises(StackUnavailable, match="the servers' own clients"):
        await visit.console.toggle_load()
    assert await visit.close() == ""
    assert world.primary.variables == before
    assert journal.outstanding == ()
    journal.close()


async def test_a_change_is_noted_first_and_undone_from_the_journal(world: World, tmp_path: Path) -> None:
    journal = AtOnce.open(tmp_path / "j.json")
    session = foreign(world, journal, Ability.WRITE)
    await session.attach()
    with pytest.raises(UsageError, match="replica_parallel_workers cannot be changed"):
        session.console.parse("replica_parallel_workers=8")
    with pytest.raises(StackUnavailable, match="the servers' own clients"):
        await session.console.toggle_load()
    before = dict(world.primary.variables)
    await turn(session, "sync_binlog=100", "innodb_flush_log_at_trx_commit=2")
    await turn(session, "sync_binlog=0")
    await session.disconnect()
    assert world.primary.variables != before
    journal.close()

    left = ChangeJournal.open(tmp_path / "j.json")
    assert [(each.variable, each.before) for each in left.outstanding] == [
        ("sync_binlog", "1"),
        ("innodb_flush_log_at_trx_commit", "1"),
    ]
    sql = session.outside.sql
    address = (await session.outside.provider.nodes())[0]
    done = await undo(left, lambda _: sql(address, world.credentials)._sql)  # type: ignore[attr-defined]
    assert [each.fate for each in done] == [Fate.RESTORED, Fate.RESTORED]
    assert world.primary.variables == before
    assert not (tmp_path / "j.json").exists()


class Recorded:
    """`ports.Sql` that notes what it is sent and what the journal says by then."""

    def __init__(self, file: Path, variables: dict[str, str]) -> None:
        self.node = "db"
        self.file = file
        self.variables = variables
        self.sent: list[tuple[str, str]] = []
        self.silent = False

    async def query(
        self, statement: str, args: Sequence[Any] = (), *, deadline_s: float = 5.0
    ) -> Sequence[Row]:
        """See `ports.Sql`."""
        if self.silent:
            raise ServerUnreachable("db is away")
        self.sent.append((statement, self.file.read_text() if self.file.exists() else ""))
        variable, _, value = statement.removeprefix("SET GLOBAL ").partition(" = ")
        if statement.startswith("SET GLOBAL"):
            self.variables[variable] = value.strip("'")
            return ()
        name = statement.partition("GLOBAL.")[2].partition(" ")[0]
        return [{"value": self.variables[name]}] if name else ()

    async def close(self) -> None:
        """See `ports.Sql`."""


async def test_nothing_but_reads_and_noted_settings_is_sent(tmp_path: Path) -> None:
    server = Recorded(tmp_path / "j", {"x": "1", "odd": "a'b"})
    reading = GuardedSql(server, None)
    for statement in ("STOP REPLICA", "INSERT INTO t VALUES (1)", "SET SESSION x = 1"):
        with pytest.raises(MissingPiece, match="is not sent to db"):
            await reading.query(statement)
    with pytest.raises(MissingPiece, match="x of db is only read: add --allow-changes"):
        await reading.query("SET GLOBAL x = 2")
    assert server.sent == []

    journal = AtOnce.open(tmp_path / "j")
    changing = GuardedSql(server, journal)
    await changing.query("SET GLOBAL x = 2")
    (noted,) = [journal for statement, journal in server.sent if statement == "SET GLOBAL x = 2"]
    assert '"before": "1"' in noted, "it is on the disk before it is sent"
    with pytest.raises(MissingPiece, match="odd of db is left alone"):
        await changing.query("SET GLOBAL odd = 2")
    assert server.variables == {"x": "2", "odd": "a'b"}

    server.silent = True
    (unreached,) = await undo(journal, lambda _: server)
    assert unreached.fate is Fate.UNREACHED
    assert server.file.exists(), "what is still to do stays in the journal"
    server.silent = False
    server.variables["x"] = "5"
    (left,) = await undo(journal, lambda _: server)
    assert (left.fate, left.found, server.variables["x"]) == (Fate.LEFT, "5", "5")
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


async def test_servers_that_nobody_may_stop_have_no_process(world: World, session: Session) -> None:
    await session.fleet.server_process("db2").kill()
    assert not world.servers["db2"].running
    await session.fleet.server_process("db2").start()
    assert world.servers["db2"].running
    with pytest.raises(StackUnavailable, match="no moon"):
        session.fleet.server_process("moon")
    without(session, Ability.STOP_SERVERS)
    with pytest.raises(MissingPiece, match="cannot have their servers stopped and started from here"):
        session.fleet.server_process("db2")
    assert world.servers["db2"].running


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
