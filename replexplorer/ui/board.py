"""The knobs as the operator handles them: which is selected, what is staged, what is being applied.

Law: a value is staged first and applied after a rest, else walking from 85 to 20 makes four
changes; nothing here talks to a server or reads a clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from replexplorer.core.knobs import PRIMARY, Assignment, Group, KnobName, Place, Value
from replexplorer.core.knobs import step as next_step
from replexplorer.core.tick import KnobView, Tick

PANEL_ORDER: Final = (
    Group.LINK, Group.SEMI_SYNC, Group.DURABILITY, Group.LOAD, Group.BINLOG, Group.REPLICA,
)  # fmt: skip
"""Headings as the panel shows them: what a demonstration turns stands above the fold."""


@dataclass(frozen=True, slots=True)
class Section:
    """One heading with its knobs."""

    title: str
    names: tuple[KnobName, ...]


def sections(names: Sequence[KnobName]) -> tuple[Section, ...]:
    """The panel's headings: the primary's groups in `PANEL_ORDER`, then each replica's own knobs."""
    replicas = sorted({name.node for name in names} - {PRIMARY, Place.LOAD.value})
    found: list[Section] = []
    for group in PANEL_ORDER:
        if group is Group.REPLICA:
            continue
        here = tuple(name for name in names if name.knob.group is group and not _replica_side(name))
        if here:
            found.append(Section(group.upper(), here))
    for replica in replicas:
        here = tuple(name for name in names if _replica_side(name) and name.node == replica)
        if here:
            found.append(Section(replica.upper(), here))
    return tuple(found)


def _replica_side(name: KnobName) -> bool:
    """A setting of a replica's own server; a link belongs to the LINK heading."""
    return name.knob.group is not Group.LINK and name.node not in (PRIMARY, Place.LOAD)


@dataclass(slots=True)
class Board:
    """Selection, filter, staged and pending values over the knobs of the last tick."""

    views: Mapping[KnobName, KnobView] = field(default_factory=dict)
    selected: KnobName | None = None
    filter: str = ""
    staged: dict[KnobName, Value] = field(default_factory=dict)
    """What the arrow keys or the digits asked for and nobody has sent yet."""
    staged_at_s: float = 0.0
    """When the last of them was staged."""
    pending: dict[KnobName, Value] = field(default_factory=dict)
    """Sent, and not yet confirmed by a tick."""
    _sent: bool = False

    def fold(self, tick: Tick) -> None:
        """Take the knobs of a tick; a selection that is gone moves to the first knob."""
        self.views = tick.knobs
        if not self._sent:
            self.pending.clear()
        self.staged = {name: value for name, value in self.staged.items() if name in self.views}
        self._settle()

    @property
    def sections(self) -> tuple[Section, ...]:
        """Headings and knobs that the filter leaves."""
        words = self.filter.lower().split()
        return sections([name for name in self.views if all(word in _searched(name) for word in words)])

    @property
    def names(self) -> tuple[KnobName, ...]:
        """Knobs in the order of the panel."""
        return tuple(name for section in self.sections for name in section.names)

    @property
    def place(self) -> tuple[int, int]:
        """The selected knob's position from 1, and how many there are; (0, n) when none is."""
        names = self.names
        return (names.index(self.selected) + 1 if self.selected in names else 0), len(names)

    def label(self, name: KnobName) -> str:
        """The knob's label, with its replica where several have the knob."""
        twins = [other for other in self.views if other.key == name.key and not _replica_side(other)]
        return f"{name.knob.label} {name.node}" if len(twins) > 1 and name in twins else name.knob.label

    def asked(self, name: KnobName) -> Value:
        """Staged, else pending, else requested."""
        view = self.views[name]
        return self.staged.get(name, self.pending.get(name, view.requested))

    def move(self, rows: int) -> None:
        """Select another knob; the ends hold."""
        names = self.names
        if names:
            at = names.index(self.selected) if self.selected in names else 0
            self.selected = names[max(0, min(len(names) - 1, at + rows))]

    def select(self, name: KnobName) -> None:
        """Select this knob, dropping a filter that hides it."""
        if name in self.views:
            if name not in self.names:
                self.filter = ""
            self.selected = name

    def narrow(self, text: str) -> None:
        """Show only knobs whose key, label, group, node or help has every word of the text."""
        self.filter = text
        self._settle()

    def step(self, direction: int, now_s: float, *, coarse: bool = False) -> None:
        """Stage the next value of the selected knob."""
        name = self.selected
        if name is not None and name in self.views:
            self.stage(name, next_step(name.knob, self.asked(name), direction > 0, coarse), now_s)

    def stage(self, name: KnobName, value: Value, now_s: float) -> None:
        """Stage a value; back at what is already asked for, nothing is staged."""
        self.staged_at_s = now_s
        if value == self.pending.get(name, self.views[name].requested):
            self.staged.pop(name, None)
        else:
            self.staged[name] = value

    def revert(self) -> bool:
        """Drop what is staged; whether there was anything."""
        dropped = bool(self.staged)
        self.staged.clear()
        return dropped

    def due(self, now_s: float, rest_s: float) -> bool:
        """Staged values have rested long enough and no others are under way."""
        return bool(self.staged) and not self._sent and now_s - self.staged_at_s >= rest_s

    def send(self) -> list[Assignment]:
        """Hand the staged values out; they are pending until `confirm`."""
        if self._sent or not self.staged:
            return []
        self.pending = dict(self.staged)
        self.staged.clear()
        self._sent = True
        return [Assignment((name,), value) for name, value in self.pending.items()]

    def confirm(self, *, applied: bool) -> None:
        """What was sent is done: shown as pending until the next tick, or at once dropped."""
        self._sent = False
        if not applied:
            self.pending.clear()

    def _settle(self) -> None:
        names = self.names
        if self.selected not in names:
            self.selected = names[0] if names else None


def _searched(name: KnobName) -> str:
    knob = name.knob
    return f"{name} {knob.label} {knob.group} {knob.help}".lower()
