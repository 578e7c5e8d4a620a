"""What a provider cannot do is refused by name before anything is asked of it."""

from __future__ import annotations

import pytest

from replexplorer.core.errors import MissingPiece, StackUnavailable, UsageError
from replexplorer.engine.change.bringup import bring_up
from replexplorer.engine.session import Session
from replexplorer.ports import Ability, UpOptions
from tests.fakes.world import World
from tests.turning import turn


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
    with pytest.raises(UsageError, match=f"{absent} is not available: nothing here can turn it"):
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
