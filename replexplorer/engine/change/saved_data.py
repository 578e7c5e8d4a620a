"""The rows of all nodes, saved with all that is requested, and set back: a state to return to.

Law: the stack's document says what was saved only once all nodes have those rows, whoever was killed
meanwhile: `up` lets what has begun to set them back finish, and notes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from replexplorer.core.errors import StackUnavailable, UsageError
from replexplorer.core.link import kept_all
from replexplorer.core.preset import DataChange, SavedData
from replexplorer.core.records import dataclass, replace
from replexplorer.core.role_change import BootRoles
from replexplorer.core.server.node_view import wholeness
from replexplorer.engine.change.controls import Controls
from replexplorer.engine.change.faults import Faults
from replexplorer.engine.change.restore import Restorer
from replexplorer.engine.load import is_low
from replexplorer.engine.outcome import SetResult
from replexplorer.engine.requested import Requested
from replexplorer.ports import Reporter, Snapshots


@dataclass(eq=False)
class SavedStates:
    """One stack's saved rows."""

    _controls: Controls
    _faults: Faults
    _restorer: Restorer

    def __post_init__(self) -> None:
        """Take what is needed most."""
        self._state, self._fleet = self._controls.state, self._controls.fleet
        self._restorer.settle_data = self._settle

    async def by_preset(self) -> Mapping[str, SavedData]:
        """What is saved now."""
        await self._state.read_document()
        return self._state.requested.saved

    async def save(self, name: str, report: Reporter, *, anyway: bool) -> SavedData:
        """Stop the servers, copy their data, start them again. Raises UsageError where nothing can be copied,
        StackUnavailable where replication is not whole, a fault is in force, or there is no room."""
        state, fleet, copies = self._state, self._fleet, self._copies()
        await state.refresh(with_gtids=True)
        lacks = [f"fault {fault}" for fault in state.faults]
        lacks += wholeness(await state.in_full(), state.protection()).failed
        if lacks:
            raise StackUnavailable(f"not a state to return to: {lacks[0]}", "`replexplorer up` repairs it")
        looks = [each.agent.health(footprint=True) for each in fleet.members.values()]
        await self._need_room(sum(each.footprint_bytes or 0 for each in await asyncio.gather(*looks)))
        knobs = kept_all({each: view.requested for each, view in state.views().items()}, fleet.roster)
        now_s = self._controls.clock.wall()

        async def copy() -> None:
            report("copying the data of all nodes")
            await self._keep(name, SavedData(*await copies.save_data(), now_s, (*fleet.members,), knobs))

        await self._while_stopped(DataChange(name, now_s), copy, report, anyway)
        return state.requested.saved[name]

    async def restore(self, name: str, report: Reporter, *, anyway: bool) -> SetResult:
        """End all faults, give each server the data that it had, start all, turn the knobs. Raises UsageError
        where these nodes have no rows of that name, StackUnavailable where there is no room."""
        state, fleet, copies = self._state, self._fleet, self._copies()
        await state.refresh()
        saved = state.requested.saved.get(name)
        if saved is None or saved.nodes != (*fleet.members,):
            of = "no node" if saved is None else ", ".join(saved.nodes)
            raise UsageError(
                f"the preset {name} has rows of {of} here, where the nodes are {', '.join(fleet.members)}",
                f"save them: `replexplorer preset save {name} --data`",
            )
        await self._need_room(saved.bytes)
        change = DataChange(name, self._controls.clock.wall(), sets_back=True)

        async def set_back() -> None:
            await self._faults.drop()
            report(f"copying {saved.bytes / 1e6:,.0f} MB back")
            await copies.restore_data(saved.copy, str(change.began_s))

        await self._while_stopped(change, set_back, report, anyway)
        await fleet.outside.provider.keep_roles(BootRoles(fleet.source_name))
        wanted = {each: state.requested_value(each) for each in state.names()}
        return await self._controls.turn(wanted, f"preset {name}: ", anyway=anyway, is_part=True)

    async def _settle(self) -> list[str]:
        """Note what became of a change that is under way: with rows that are back, what was requested then is
        requested again."""
        state, change = self._state, self._state.requested.data_change
        if change is None or change.ended_s is not None:
            return []
        saved, copies = state.requested.saved, self._copies()
        is_back = change.sets_back and await copies.was_restored(str(change.began_s))
        ended = replace(change, ended_s=self._controls.clock.wall())
        by = self._controls.turns.actor.writer

        def noted(now: Requested) -> Requested:
            if not is_back:
                return replace(now, data_change=ended)
            then, run = saved[change.preset].knobs, now.ledger_run
            return Requested(then, writer=by, marks=now.marks, ledger_run=run, saved=saved, data_change=ended)

        await state.write(noted)
        self._controls.drift.turned(state.requested.values)
        await copies.keep_data([each.copy for each in saved.values()])
        is_saved = change.began_s in (each.saved_s for each in saved.values())
        over = "is done" if is_back or is_saved else "was interrupted and has changed nothing: run it again"
        return [f"{change} {over}"]

    async def forget(self, name: str) -> bool:
        """Remove the rows of a preset; answers whether it had any."""
        had = name in await self.by_preset()
        if had:
            async with self._controls.turns.change(anyway=True):
                await self._keep(name, None)
        return had

    async def _keep(self, name: str, saved: SavedData | None) -> None:
        """Note the rows of a preset, then remove the copies that no preset has any more."""
        kept = {each: found for each, found in self._state.requested.saved.items() if each != name}
        if saved is not None:
            kept[name] = saved
        await self._state.write(lambda now: replace(now, saved=kept))
        await self._copies().keep_data([each.copy for each in kept.values()])

    def _copies(self) -> Snapshots:
        found, system = self._fleet.outside.snapshots, self._fleet.system
        if found is None or system.is_group:
            what = system.title if found else "a stack that is not on this machine alone"
            raise UsageError(f"the rows of {what} cannot be saved", "leave out --data")
        return found

    async def _need_room(self, needed: int) -> None:
        """Raise StackUnavailable where copies take room that a load needs."""
        disk = (await self._fleet.source.agent.health()).volumes["data"]
        if is_low(disk.free_bytes - needed, disk.total_bytes):
            has = f"{disk.free_bytes / 1e6:,.0f} MB are free, and 5 GB and 10 % must stay free"
            raise StackUnavailable(f"the copy takes {needed / 1e6:,.0f} MB: {has}", "make room")

    async def _while_stopped(
        self, change: DataChange, work: Callable[[], Awaitable[None]], report: Reporter, anyway: bool
    ) -> None:
        """Do something while all servers are stopped, and bring them back whatever becomes of it. What is to
        be replaced need not be written first."""
        fleet = self._fleet
        async with self._faults.marked(str(change)):
            try:
                async with self._controls.turns.change(anyway=anyway):
                    await self._state.write(lambda now: replace(now, data_change=change))
                    report("stopping the servers")
                    servers = map(fleet.server_process, fleet.members)
                    await asyncio.gather(
                        *(each.kill() if change.sets_back else each.stop() for each in servers)
                    )
                    await work()
            finally:
                if await fleet.outside.provider.nodes():  # else the stack was taken away
                    await self._restorer.bring_up(report)
