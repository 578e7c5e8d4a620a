"""Whose hand it was: requests and variables as they were left, so that what others turn is noticed."""

from __future__ import annotations

from collections.abc import Iterable

from replexplorer.core.fault import Fault
from replexplorer.core.history.kept_mark import KeptMark
from replexplorer.core.knobs.names import Backing, Desired, KnobName, Value, same_value
from replexplorer.engine.change.turns import Turns
from replexplorer.engine.observe.sight import Sight

FaultId = tuple[str, str, float]
"""`Fault.id`."""


class Accounts:
    """What this session knows the knobs to be, and by whom."""

    def __init__(self, sight: Sight, turns: Turns) -> None:
        self._sight = sight
        self._turns = turns
        self._noted: dict[KnobName, Value] = {}
        """The requests that this session knows of: its own, and those of others that it marked."""
        self._left: dict[KnobName, Value] = {}
        """Server variables as apps have left them, or as this session found them."""
        self._faults: dict[FaultId, Fault] = {}
        """The faults that this session knows to be in force."""
        self._marks: set[str] = set()
        """Ids of the marks that this session knows."""

    def open(self) -> None:
        """What is requested by now, and set, is nobody's news."""
        self._noted = dict(self._sight.requested.values)
        self._faults = {fault.id: fault for fault in self._sight.requested.faults}
        self._marks = {mark.id for mark in self._sight.requested.marks}
        for node in self._sight.fleet.members:
            self.found(node)

    def forget(self) -> None:
        """Another stack has this one's name: nothing is known of it."""
        self._noted = {}
        self._left.clear()
        self._faults.clear()
        self._marks.clear()

    def requested(self, desired: Desired) -> None:
        """This session wrote these requests down."""
        self._noted.update(desired)

    def turned(self, desired: Desired) -> None:
        """An app has turned these: variables are as it left them."""
        self._left.update(
            {name: value for name, value in desired.items() if name.knob.backing is Backing.SERVER}
        )

    def fault_recorded(self, fault: Fault) -> None:
        """This session wrote down that this fault is in force."""
        self._faults[fault.id] = fault

    def fault_forgotten(self, fault: Fault) -> None:
        """This session has taken this fault back."""
        self._faults.pop(fault.id, None)

    def fault_news(self) -> tuple[tuple[Fault, ...], tuple[Fault, ...]]:
        """Faults that others injected since this session last knew, and those that others took back."""
        now = {fault.id: fault for fault in self._sight.requested.faults}
        injected = tuple(fault for key, fault in now.items() if key not in self._faults)
        cleared = tuple(fault for key, fault in self._faults.items() if key not in now)
        self._faults = now
        return injected, cleared

    def marked(self, mark: KeptMark) -> None:
        """This session puts this mark."""
        self._marks.add(mark.id)

    def mark_news(self) -> tuple[KeptMark, ...]:
        """Marks that others put since this session last knew."""
        news = tuple(mark for mark in self._sight.requested.marks if mark.id not in self._marks)
        self._marks.update(mark.id for mark in news)
        return news

    def lose(self, names: Iterable[KnobName]) -> None:
        """Nobody can say how these were left."""
        for name in names:
            self._left.pop(name, None)

    def found(self, node: str) -> None:
        """What a node's variables are now is no news: it was seen at the start, or came with a restart."""
        self.turned({name: value for name, value in self._variables(node).items() if value is not None})

    def _variables(self, node: str) -> dict[KnobName, Value | None]:
        sight = self._sight
        placed = sight.fleet.roster.placed(node)
        return {
            name: sight.effective_value(name)
            for name in sight.names()
            if name.node == placed and name.knob.backing is Backing.SERVER
        }

    async def news(self) -> tuple[Desired, Desired]:
        """What others requested since this session last knew, and what was requested of it before."""
        async with self._turns.alone():
            await self._sight.read_document()
            before = self._noted
            changed = {
                name: value
                for name, value in self._sight.requested.values.items()
                if before.get(name, name.knob.default) != value
            }
            self._noted = {**before, **changed}
            self.turned(changed)
            return changed, before

    def unaccounted(self, node: str) -> dict[KnobName, tuple[Value, Value]]:
        """Variables of a node that are not as they were left, each before and now; another app's change
        that is not written down yet is among them. One that was never seen is accounted for now."""
        found = {}
        for name, value in self._variables(node).items():
            if value is None:
                continue
            before = self._left.setdefault(name, value)
            if not same_value(name.knob, before, value):
                found[name] = (before, value)
        return found

    async def set_by_hand(self, node: str) -> dict[KnobName, tuple[Value, Value]]:
        """What somebody else has set at this node, each before and now; answered once. Raises
        StackUnavailable while another app changes anything, for then nobody can say whose it is."""
        async with self._turns.quiet():
            await self._sight.read_document()
            await self._sight.look(node)
            by_hand = {
                name: values
                for name, values in self.unaccounted(node).items()
                if not self._is_newly_requested(name, values[1])
            }
            self.found(node)
            return by_hand

    def _is_newly_requested(self, name: KnobName, value: Value) -> bool:
        """Another app asked for it, which `news` will say."""
        wanted = self._sight.requested_value(name)
        noted = self._noted.get(name, self._sight.default_value(name))
        return noted != wanted and same_value(name.knob, wanted, value)
