"""Whose hand it was: requests and variables as they were left, so that what others turn is noticed."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Sequence

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.fault import Fault
from replexplorer.core.knobs.names import Backing, Desired, KnobName, Value, same_value
from replexplorer.engine.change.turns import Turns
from replexplorer.engine.observe.state import StackState
from replexplorer.engine.requested import Requested, SharedMark


class DriftDetector:
    """What this session knows the knobs to be, and by whom."""

    def __init__(self, sight: StackState, turns: Turns) -> None:
        self._sight = sight
        self._turns = turns
        self.noted: dict[KnobName, Value] = {}
        """The requests that this session knows of: its own, and those of others that it marked."""
        self._left: dict[KnobName, Value] = {}
        """Server variables as apps have left them, or as this session found them."""
        self.faults: dict[tuple[str, str, float], Fault] = {}
        """The faults that this session knows to be in force, by `Fault.id`."""
        self.marks: set[str] = set()
        """Ids of the marks that this session knows."""

    def open(self) -> None:
        """What is requested by now, and set, is nobody's news."""
        requested = self._sight.requested
        self.noted = dict(requested.values)
        self.faults = {fault.id: fault for fault in requested.faults}
        self.marks = {mark.id for mark in requested.marks}
        for node in self._sight.fleet.members:
            self.found(node)

    def forget(self) -> None:
        """Another stack has this one's name: nothing is known of it."""
        for known in (self.noted, self._left, self.faults, self.marks):
            known.clear()

    def turned(self, desired: Desired) -> None:
        """An app has turned these: variables are as it left them."""
        self._left |= {name: value for name, value in desired.items() if name.knob.backing is Backing.SERVER}

    def lose(self, names: Iterable[KnobName]) -> None:
        """Nobody can say how these were left."""
        for name in names:
            self._left.pop(name, None)

    def found(self, node: str) -> None:
        """What a node's variables are now is no news: it was seen at the start, or came with a restart."""
        self._left |= self._variables(node)

    def fault_news(self) -> tuple[tuple[Fault, ...], tuple[Fault, ...]]:
        """Faults that others injected since this session last knew, and those that others took back."""
        now = {fault.id: fault for fault in self._sight.requested.faults}
        injected = tuple(fault for key, fault in now.items() if key not in self.faults)
        cleared = tuple(fault for key, fault in self.faults.items() if key not in now)
        self.faults = now
        return injected, cleared

    def mark_news(self) -> tuple[SharedMark, ...]:
        """Marks that others put since this session last knew."""
        news = tuple(mark for mark in self._sight.requested.marks if mark.id not in self.marks)
        self.marks.update(mark.id for mark in news)
        return news

    async def keep_losses(self, node: str, lines: Sequence[str], since_wall_s: float) -> Sequence[str]:
        """Keep what a node came back without for all who watch, a fact each; answers those that are ours to
        tell: none where another app has found the same since this moment, in seconds since 1970."""
        by, wall_s = self._turns.actor.writer, self._sight.fleet.outside.clock.wall()
        marks = [SharedMark(uuid.uuid4().hex, line, by, node, wall_s) for line in lines]
        self.marks.update(mark.id for mark in marks)

        def unless_known(now: Requested) -> Requested:
            is_known = any(
                each.loss_of == node and each.wall_s >= since_wall_s and each not in marks
                for each in now.marks
            )
            return now if is_known else now.with_marks(*marks)

        if marks:
            with contextlib.suppress(StackUnavailable):
                await self._sight.write(unless_known)
                if marks[0] not in self._sight.requested.marks:
                    return ()
        return lines

    def _variables(self, node: str) -> dict[KnobName, Value]:
        """A node's variables, as last looked at, where they are known."""
        placed = self._sight.fleet.roster.placed(node)
        names = (name for name in self._sight.names() if name.node == placed)
        found = {n: self._sight.effective_value(n) for n in names if n.knob.backing is Backing.SERVER}
        return {name: value for name, value in found.items() if value is not None}

    async def news(self) -> tuple[Desired, Desired]:
        """What others requested since this session last knew, and what was requested of it before."""
        async with self._turns.alone():
            await self._sight.read_document()
            before = self.noted
            changed = {
                name: value
                for name, value in self._sight.requested.values.items()
                if before.get(name, name.knob.default) != value
            }
            self.noted = {**before, **changed}
            self.turned(changed)
            return changed, before

    def unaccounted(self, node: str) -> dict[KnobName, tuple[Value, Value]]:
        """Variables of a node that are not as they were left, each before and now; another app's change
        that is not written down yet is among them. One that was never seen is accounted for now."""
        now = self._variables(node)
        before = {name: self._left.setdefault(name, value) for name, value in now.items()}
        return {
            name: (before[name], value)
            for name, value in now.items()
            if not same_value(name.knob, before[name], value)
        }

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
        noted = self.noted.get(name, self._sight.default_value(name))
        return noted != wanted and same_value(name.knob, wanted, value)
