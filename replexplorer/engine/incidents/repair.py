"""Bringing a stack up, or back: what is dead is started, what was requested is in force again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace

from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import Desired, KnobName
from replexplorer.engine.change.bringup import Raised, bring_up
from replexplorer.engine.change.effect import SEMI_SYNC, doubtful, switched_off, unmet
from replexplorer.engine.change.faults import Faults
from replexplorer.engine.change.joining import form_group
from replexplorer.engine.change.marked import MarkedChanges
from replexplorer.engine.change.roles import RoleChanges
from replexplorer.engine.change.unfinished import Unfinished
from replexplorer.engine.incidents.lost import AGAIN, Lost
from replexplorer.engine.observe.sight import Sight
from replexplorer.engine.progress import Progress, ProgressCallback
from replexplorer.ports import UpOptions

Consent = Callable[[Desired], Awaitable[bool]]
"""Whether what a restart took is to be restored."""


class Repairer:
    """Creates and repairs one stack."""

    def __init__(
        self,
        sight: Sight,
        changes: MarkedChanges,
        lost: Lost,
        faults: Faults,
        roles: RoleChanges,
        unfinished: Unfinished,
        options: UpOptions,
    ) -> None:
        self._sight = sight
        self._roles = roles
        self._unfinished = unfinished
        self._faults = faults
        self._changes = changes
        self._lost = lost
        self._options = options
        self.created = False
        """Whether this session made the stack."""
        self.repaired: tuple[str, ...] = ()
        """What the last call started again, undid or re-applied, in words."""

    async def bring_up(self, progress: ProgressCallback, consent: Consent | None = None) -> Raised:
        """Create or repair the stack, wait until it answers, re-apply what was requested; with `consent`
        only where that says yes to what was lost. Raises ReplexplorerError."""
        sight = self._sight
        raised = await bring_up(sight.fleet, self._options, lambda text, done: progress(Progress(text, done)))
        self.created = self.created or raised.created
        await sight.refresh()
        if raised.created and (came_with := sight.own_defaults()):
            await self._changes.request(came_with)
        if shared := sight.for_joined(raised.joined):
            await self._changes.request(shared)
            await sight.look_at_links()  # as they are asked for now
        settled = await self._roles.settle()
        await self._roles.seed(raised.to_copy, lambda text: progress(Progress(text)))
        over = [settled] if settled else []
        for node in raised.restarted:
            over += await self._faults.came_back(node)
        for cleared in await self._faults.clear():
            over.append(f"fault {cleared.fault} undone")
            if cleared.comeback is not None:
                over += cleared.comeback.words(sight.fleet.outside.provider.name)
        over += await self._unfinished.finish()
        if sight.fleet.system.is_group:  # a node whose links were cut can be let in only now
            await form_group(sight.fleet, over.append)
            await sight.refresh()
        lost = sight.lost_values(sight.fleet.members)
        unfit = self._roles.too_few_to_acknowledge()
        if unfit is not None:
            progress(Progress(unfit))
            lost = {name: value for name, value in lost.items() if name.key != keys.SEMI_SYNC}
        again: list[KnobName] = []
        if lost and (consent is None or await consent(lost)):
            self._lost.forget()
            progress(Progress("re-applying what was requested"))
            await self._changes.turn(lost, AGAIN, anyway=True)
            again += lost
        again += [name for name in await self._mend(progress) if name not in again]
        done = [f"{', '.join(str(name) for name in again)} set again"] if again else []
        self.repaired = (*raised.repaired, *over, *done)
        return replace(raised, repaired=self.repaired)

    async def _mend(self, progress: ProgressCallback) -> Collection[KnobName]:
        """Carry out again what was requested, is set and has no effect; answers what that was."""
        wanted = self._sight.requested.values
        doubted = {name: wanted[name] for name in doubtful(self._sight) if name in wanted}
        if unmet(self._sight, doubted) or (SEMI_SYNC in doubted and switched_off(self._sight)):
            progress(Progress("mending what was requested"))
            await self._changes.turn(doubted, "mended: ", anyway=True)
            return doubted
        return ()

    async def later(self, lost: Desired) -> bool:
        """No consent yet: the picture asks once it is there."""
        self._lost.keep(lost)
        return False
