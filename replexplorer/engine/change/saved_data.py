"""The rows of all nodes, saved with all that is requested, and set back: a state to return to.

Law: what is to be so afterwards is in the stack's document before data are replaced, and no server starts
with the rows of another moment than the others: whoever is killed leaves the rest to `up`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from replexplorer.core.errors import ReplexplorerError, StackUnavailable, UsageError
from replexplorer.core.link import kept_all
from replexplorer.core.role_change import BootRoles
from replexplorer.core.saved_data import DataChange, SavedData
from replexplorer.core.server.node_view import wholeness
from replexplorer.engine.load import is_low
from replexplorer.engine.outcome import SetResult
from replexplorer.engine.requested import Requested
from replexplorer.ports import Reporter, Snapshots

if TYPE_CHECKING:
    from replexplorer.engine.change.controls import Controls
    from replexplorer.engine.change.faults import Faults
    from replexplorer.engine.change.restore import Restorer

_MB: Final = 1e6


@dataclass(eq=False)
class SavedStates:
    """One stack's saved rows."""

    _controls: Controls
    _faults: Faults
    _restorer: Restorer

    def __post_init__(self) -> None:
        """Take what is needed most."""
        self._state, self._fleet = self._controls.state, self._controls.fleet

    async def save(self, name: str, report: Reporter, *, anyway: bool) -> SavedData:
        """Stop the servers, copy their data, start them again. Raises UsageError where nothing can be copied,
        StackUnavailable where replication is not whole, a fault is in force, or there is no room."""
        copies, state = self._copies(), self._state
        await state.refresh(with_gtids=True)
        stack = self._fleet.outside.provider.name
        lacks = [f"the fault {fault} is in force" for fault in state.faults]
        lacks += wholeness(await state.in_full(), state.protection(), stack).failed
        if lacks:
            raise StackUnavailable(f"not a state to return to: {lacks[0]}", "`replexplorer up` repairs it")
        members = self._fleet.members.values()
        looks = await asyncio.gather(*(each.agent.health(footprint=True) for each in members))
        await self._need_room(sum(each.footprint_bytes or 0 for each in looks))
        values = {each: view.requested for each, view in state.views().items()}
        knobs = kept_all(values, self._fleet.roster)

        async def copy() -> None:
            report("copying the data of all nodes")
            made, size = await copies.save_data()
            saved = SavedData(
                made,
                size,
                self._controls.clock.wall(),
                self._fleet.source_name,
                (*self._fleet.members,),
                knobs,
            )
            await self._keep(lambda found: {**found, name: saved})

        await self._while_stopped(f"preset save {name}", report, copy, sets_back=False, anyway=anyway)
        return state.requested.saved[name]

    async def restore(self, name: str, report: Reporter, *, anyway: bool) -> SetResult:
        """Clear all faults, stop the servers, give each the data that it had, start them, turn
        the knobs; raises UsageError for a name that has no rows here, or those of other nodes,
        StackUnavailable where there is no room."""
        copies, state = self._copies(), self._state
        await state.refresh()
        saved, before = state.requested.saved.get(name), state.requested
        if saved is None:
            stack = self._fleet.outside.provider.name
            raise UsageError(
                f"the preset {name} has no rows in stack {stack}",
                f"`replexplorer preset save {name} --data` saves them; they go with `down`",
            )
        if saved.nodes != tuple(self._fleet.members):
            raise UsageError(
                f"the preset {name} has the rows of {', '.join(saved.nodes)}, and this stack has"
                f" {', '.join(self._fleet.members)}",
                f"make the stack as it was, or save it again: `replexplorer preset save {name} --data`",
            )
        await self._need_room(saved.bytes)

        def as_saved(now: Requested) -> Requested:
            was = replace(now, knobs=saved.knobs, diverged={}, alone=None, history="", role_change=None)
            return replace(was, yes_tx_at_enabling=None, enabled_s=None)

        async def set_back() -> None:
            await self._faults.drop()
            await state.write(as_saved)
            self._controls.drift.turned(state.requested.values)
            report(f"copying {saved.bytes / _MB:,.0f} MB back")
            try:
                await copies.restore_data(saved.copy)
            except ReplexplorerError:
                await state.write(lambda now: replace(now, knobs=before.knobs, diverged=before.diverged))
                raise

        await self._while_stopped(f"preset apply {name}", report, set_back, sets_back=True, anyway=anyway)
        await self._fleet.outside.provider.keep_roles(BootRoles(self._fleet.source_name))
        wanted = {each: value for each, value in state.requested.values.items() if each in state.names()}
        return await self._controls.turn(wanted, f"preset {name}: ", anyway=anyway, is_part=True)

    async def forget(self, name: str) -> bool:
        """Remove the rows of a preset; answers whether it had any."""
        await self._state.read_document()
        if had := name in self._state.requested.saved:
            async with self._controls.turns.change(anyway=True):
                await self._keep(lambda found: {each: found[each] for each in found if each != name})
        return had

    async def _keep(self, change: Callable[[dict[str, SavedData]], dict[str, SavedData]]) -> None:
        """Note which rows are saved, then remove the copies that no preset has any more."""
        await self._state.write(lambda now: replace(now, saved=change({**now.saved})))
        await self._copies().keep_data([each.copy for each in self._state.requested.saved.values()])

    def _copies(self) -> Snapshots:
        found, system = self._fleet.outside.snapshots, self._fleet.system
        if found is None or system.is_group:
            what = system.title if found else "servers that are not on this machine"
            raise UsageError(f"the rows of {what} cannot be saved with a preset", "leave out --data")
        return found

    async def _need_room(self, needed: int) -> None:
        """Raise StackUnavailable where copies take room that a load needs."""
        disk = (await self._fleet.source.agent.health()).volumes["data"]
        if is_low(disk.free_bytes - needed, disk.total_bytes):
            raise StackUnavailable(
                f"the copy takes {needed / _MB:,.0f} MB, of {disk.free_bytes / _MB:,.0f} MB that are free",
                "make room: 5 GB and 10 % are to stay free",
            )

    async def _while_stopped(
        self,
        title: str,
        report: Reporter,
        work: Callable[[], Awaitable[None]],
        *,
        sets_back: bool,
        anyway: bool,
    ) -> None:
        """Do something while all servers are stopped, and bring them back whatever becomes of it."""
        turns, clock, fleet = self._controls.turns, self._controls.clock, self._fleet
        change = DataChange(title, turns.actor.writer, clock.wall(), sets_back)
        log = self._controls.event_log
        mark = log.begin_change(title)
        try:
            try:
                async with turns.change(anyway=anyway):
                    await self._state.write(lambda now: replace(now, data_change=change))
                    report("stopping the servers")
                    await asyncio.gather(*(self._stop(each, kill=sets_back) for each in fleet.members))
                    await work()
            finally:
                if await fleet.outside.provider.nodes():  # else the stack was taken away
                    await self._restorer.bring_up(report)
        except (ReplexplorerError, asyncio.CancelledError) as error:
            log.change_failed(mark, f"{title} failed: {error}")
            raise
        log.change_effective(mark, title, f"{title} is done")

    async def _stop(self, node: str, *, kill: bool) -> None:
        """End a server: what is replaced need not be written first."""
        process = self._fleet.server_process(node)
        await (process.kill() if kill else process.stop())
