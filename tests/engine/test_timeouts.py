"""Timeouts of semi-sync by a server's log: somebody's SET is none."""

from __future__ import annotations

from dataclasses import replace

from replexplorer.core.server.counters import ServerStatus
from replexplorer.engine.observe.samples import NodeSample, TimeoutLook
from replexplorer.engine.session import Session
from replexplorer.ports import Ability
from tests.fakes.world import World

TIMEOUT = (
    "26 [Warning] Timeout waiting for reply of binlog (file: binlog.000001, pos: 483), semi-sync up to file"
)
SWITCHED = "26 [Note] Semi-sync replication switched OFF."


async def test_of_all_times_that_it_went_off_only_timeouts_count(world: World, session: Session) -> None:
    look, view = TimeoutLook(session.fleet), session.state.samples["db1"].view

    def seen(no_times: int | None, at_s: float) -> NodeSample:
        return NodeSample(at_s, view, ServerStatus(no_times=no_times))

    async def counted(now: NodeSample, before: NodeSample | None) -> NodeSample:
        carried = before.logged_timeouts if before else None
        moved = before is None or before.status.no_times != now.status.no_times
        now = replace(now, logged_timeouts=None if moved else carried)
        return replace(now, logged_timeouts=await look.look("db1", now, before))

    assert (await counted(seen(None, 0), None)).logged_timeouts is None
    never = await counted(seen(0, 0), None)
    assert never.logged_timeouts == 0
    by_hand = await counted(seen(1, 1), never)
    assert by_hand.logged_timeouts == 0
    early = await counted(seen(2, 2), by_hand)
    world.logs["db1"] = [TIMEOUT, SWITCHED]
    late = await counted(seen(2, 2.5), early)
    assert (early.logged_timeouts, late.logged_timeouts) == (0, 1)
    world.logs["db1"] = []  # longer by now than what is read of it
    assert (await counted(seen(3, 60), late)).logged_timeouts == 1
    assert (await counted(seen(1, 61), late)).logged_timeouts == 0
    provider = session.outside.provider
    provider.abilities = provider.abilities - {Ability.STOP_SERVERS}
    assert (await counted(seen(4, 70), late)).logged_timeouts is None
