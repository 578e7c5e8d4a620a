"""What restarts took: SET GLOBAL does not survive one, nor do a link's rules. It is restored at once,
after a question, or not at all."""

from __future__ import annotations

from typing import Final

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.event import Severity
from replexplorer.core.knobs.names import Desired, KnobName, Value, format_value
from replexplorer.engine.change.controls import Controls
from replexplorer.engine.change.marked import MarkedChanges
from replexplorer.engine.change.turns import Turns
from replexplorer.engine.incidents.absence import restarts_since_the_request
from replexplorer.engine.observe.sight import Sight
from replexplorer.engine.outcome import ExperimentUnderWay
from replexplorer.engine.record.chronicle import Chronicle

AGAIN: Final = "re-applied: "
"""How the mark of what is restored begins."""


class Lost:
    """The requested values that restarts took and nobody has answered for yet."""

    def __init__(
        self,
        sight: Sight,
        turns: Turns,
        controls: Controls,
        changes: MarkedChanges,
        chronicle: Chronicle,
        *,
        reapply: str,
        asks: bool,
    ) -> None:
        """`reapply` is auto, ask or off; `asks`: somebody is there who can be asked."""
        self._sight = sight
        self._turns = turns
        self._controls = controls
        self._changes = changes
        self._chronicle = chronicle
        self._reapply_as = reapply
        self.asks = reapply == "ask" and asks
        """Whether what is lost waits for an answer."""
        self._waiting: dict[KnobName, Value] = {}

    def waiting(self) -> Desired:
        """What restarts took, is still not so, and waits for `give_back`."""
        if self._waiting:
            still = self._sight.lost_values(self._sight.fleet.members)
            self._waiting = {name: value for name, value in self._waiting.items() if name in still}
        return self._waiting

    def words(self) -> tuple[str, ...]:
        """What waits for an answer, a request each: `sync_binlog 0`."""
        return tuple(f"{name} {format_value(name.knob, value)}" for name, value in self.waiting().items())

    def keep(self, lost: Desired) -> None:
        """Let this wait for an answer."""
        self._waiting.update(lost)

    def forget(self) -> None:
        """It was restored, or is of a stack that is gone."""
        self._waiting.clear()

    async def catch_up(self, written_s: float | None) -> None:
        """Restore what restarts took while no app was attached, since the requests were written at this time.
        Not under somebody's experiment: what it restarted on purpose is its own to restore."""
        servers, sidecars = await restarts_since_the_request(self._sight, written_s)
        if not servers and not sidecars:
            return
        try:
            await self._turns.refuse_under_experiment()
        except ExperimentUnderWay:
            return
        for node in servers:
            if lost := self._sight.lost_values((node,)):
                await self.restore(f"{node} restarted while no app was attached", lost)
        for node in sidecars:
            if lost := self._sight.lost_by_sidecar(node):
                await self.restore(f"the sidecar of {node} restarted while no app was attached", lost)

    async def restore(self, what: str, lost: Desired) -> None:
        """Give back what was lost as configured, and say `what` happened; nothing may be lost."""
        lost = await self._still(lost)
        if not lost:
            self._chronicle.tell(Severity.WARN, what)
            return
        names = ", ".join(str(name) for name in lost)
        if self._reapply_as != "auto" and not self.asks:
            self._chronicle.tell(Severity.WARN, f"{what} and lost {names} (reapply = {self._reapply_as})")
            return
        self._chronicle.tell(Severity.WARN, f"{what} and lost {names}")
        if self.asks:
            self.keep(lost)
        else:
            await self._reapply(lost)

    async def _still(self, lost: Desired) -> Desired:
        """What of this is lost when no change is under way: in the midst of one what is requested and what is
        in force differ, and nothing was lost."""
        if not lost:
            return lost
        try:
            async with self._turns.change(anyway=True):
                await self._sight.refresh()
        except ReplexplorerError:
            return lost
        still = self._sight.lost_values(self._sight.fleet.members)
        return {name: value for name, value in still.items() if name in lost}

    async def give_back(self, yes: bool) -> None:
        """The answer to what waits: re-apply it, or leave it and do not ask again."""
        lost = self.waiting()
        self._waiting = {}
        if lost and yes:
            await self._reapply(lost)
        elif lost:
            self._chronicle.tell(Severity.INFO, f"left as it came: {', '.join(map(str, lost))}")

    async def _reapply(self, lost: Desired) -> None:
        """All of it, or else one by one as much as can be."""
        for part in (lost, *({name: value} for name, value in lost.items())):
            try:
                await self._changes.turn(part, AGAIN, anyway=True)
            except ReplexplorerError:  # it stands in the log
                continue
            if part is lost:
                await self._controls.confirm()
                return
