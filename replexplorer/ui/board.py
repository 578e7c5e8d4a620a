"""The knobs as the operator handles them: which is selected, what is staged, which are shown.

Law: a value is staged first and applied after a rest, else walking from 85 to 20 makes four
changes. Only what stands at its default is ever left out, and a filter finds it there as well.
Nothing here talks to a server or reads a clock.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from string import ascii_letters
from typing import Final, NamedTuple

from replexplorer.core.epochs.epochs import Epoch
from replexplorer.core.knobs.names import SOURCE, Assignment, Group, KnobName, KnobView, Place, Value
from replexplorer.core.knobs.names import step as next_step
from replexplorer.core.records import dataclass, field, replace
from replexplorer.core.tick import Tick
from replexplorer.core.topology import in_order

PANEL_ORDER: Final = (
    Group.LINK, Group.SEMI_SYNC, Group.GROUP, Group.GALERA, Group.DURABILITY, Group.DISK, Group.LOAD,
    Group.BINLOG, Group.SERVER, Group.REPLICA,
)  # fmt: skip
"""Headings as the panel shows them: what a demonstration turns stands above the fold."""


LABEL_CELLS: Final = 13
"""What a label may take in the panel."""


class Section(NamedTuple):
    """One heading with its knobs."""

    title: str
    names: tuple[KnobName, ...]
    """The rare ones last."""


def sections(names: Sequence[KnobName]) -> tuple[Section, ...]:
    """The panel's headings: the primary's groups in `PANEL_ORDER`, then each replica's own knobs."""
    nodes = list(in_order({name.node for name in names}))

    def heading(name: KnobName) -> tuple[int, str]:
        if _replica_side(name):
            return len(PANEL_ORDER) + nodes.index(name.node), name.node.upper()
        return PANEL_ORDER.index(name.knob.group), name.knob.group.upper()

    ordered = sorted(names, key=lambda name: (heading(name), name.knob.seldom))
    return tuple(Section(title, tuple(here)) for (_, title), here in groupby(ordered, heading))


def _replica_side(name: KnobName) -> bool:
    """A setting of a replica's own server; a link belongs to the LINK heading."""
    return name.knob.group is not Group.LINK and name.node not in (SOURCE, Place.LOAD)


@dataclass(slots=True)
class Board:
    """Selection, filter, staged and pending values over the knobs of the last tick."""

    views: Mapping[KnobName, KnobView] = field(default_factory=dict)
    selected: KnobName | None = None
    """The knob under the cursor; None when the filter leaves none."""
    shows_all: bool = False
    """Also the rare ones at their defaults."""
    lesson: frozenset[str] | None = None
    """Keys of the only knobs that are shown while somebody presents; None: all."""
    filter: str = ""
    typed: str | None = None
    """What was typed into the open field, of a value or of the filter; None: no field is open."""
    searching: bool = False
    """It is the filter's: the cursor follows the best match."""
    staged: dict[KnobName, Value] = field(default_factory=dict)
    """What the arrow keys or the digits asked for and is not sent yet."""
    staged_at_s: float = 0.0
    """When the last of them was staged."""
    pending: dict[KnobName, Value] = field(default_factory=dict)
    """Sent, and not yet confirmed by a tick."""
    _sent: int = 0
    """Changes that were sent and are not done yet: each is one of its own, so that an undo that is asked for
    behind them takes back the last of them."""
    _before: KnobName | None = None
    """Where the cursor stood when the filter's field was opened."""

    def fold(self, tick: Tick) -> None:
        """Take the knobs of a tick; a selection that is gone moves to the first knob."""
        self.views = tick.knobs
        if not self._sent:
            self.pending.clear()
        self.staged = {name: value for name, value in self.staged.items() if name in self.views}
        self._settle()

    @property
    def sections(self) -> tuple[Section, ...]:
        """Headings and knobs that the filter leaves; without one, those that are shown."""
        found = self._found()
        if self.filter.split():
            return found
        lesson = self.lesson
        if lesson is not None and not any(name.key in lesson for name in self.views):
            lesson = None  # these servers have none of it
        shown = [
            one._replace(names=tuple(name for name in one.names if self._is_shown(name, lesson)))
            for one in found
        ]
        return tuple(one for one in shown if one.names)

    def _is_shown(self, name: KnobName, lesson: frozenset[str] | None) -> bool:
        """Those of a lesson, or those that are turned often or are not at their default; in any case what
        somebody turns."""
        if name == self.selected or name in self.staged or name in self.pending:
            return True
        if lesson is not None:
            return name.key in lesson
        view = self.views[name]
        at_rest = view.requested == view.default and view.effective in (None, view.default)
        return self.shows_all or not (name.knob.seldom and at_rest)

    def reduce(self, lesson: frozenset[str] | None) -> None:
        """Show only the knobs of a lesson, and the selected one; None: all. A filter finds the others."""
        if lesson != self.lesson:
            self.lesson = lesson
            self._settle()

    def _found(self) -> tuple[Section, ...]:
        """Headings and knobs that the filter leaves, the best matches first."""
        text = " ".join(self.filter.lower().split())
        if not text:
            return sections(tuple(self.views))
        ranks = {name: rank for name in self.views if (rank := _rank(name, text)) is not None}
        found = [
            one._replace(names=tuple(sorted(one.names, key=ranks.__getitem__)))
            for one in sections(tuple(ranks))
        ]
        return tuple(sorted(found, key=lambda one: ranks[one.names[0]]))

    @property
    def names(self) -> tuple[KnobName, ...]:
        """Knobs that are shown, in the order of the panel."""
        return tuple(name for section in self.sections for name in section.names)

    @property
    def place(self) -> tuple[int, int]:
        """The selected knob's position from 1, and how many there are, shown or not; (0, n)
        when none is selected."""
        names = [name for section in self._found() for name in section.names]
        return (names.index(self.selected) + 1 if self.selected in names else 0), len(names)

    def label(self, name: KnobName) -> str:
        """The knob's label, with its replica or its link's two nodes where several have it; their numbers
        where that is too long."""
        twins = [other for other in self.views if other.key == name.key and not _replica_side(other)]
        label = name.knob.label
        if len(twins) < 2 or name not in twins:
            return label
        numbers = ":".join(end.lstrip(ascii_letters) for end in name.node.split(":"))
        forms = (f"{label} {name.node}", f"{label} {numbers}".rstrip())
        return next((form for form in forms if len(form) <= LABEL_CELLS), f"{label.split()[-1]} {numbers}")

    def labelled(self, epochs: Iterable[Epoch]) -> tuple[Epoch, ...]:
        """The epochs as their ledger shows them: `innodb_flush 1 → 2`, as the knob is called in the panel."""
        labels = {str(name): self.label(name) for name in self.views}
        if not labels:
            return tuple(epochs)
        longest_first = "|".join(map(re.escape, sorted(labels, key=len, reverse=True)))
        keys = re.compile(rf"(?<![\w@])({longest_first})(?![\w@])")
        return tuple(
            replace(epoch, title=keys.sub(lambda found: labels[found[1]], epoch.title)) for epoch in epochs
        )

    def asked(self, name: KnobName) -> Value:
        """Staged, else pending, else requested."""
        view = self.views[name]
        return self.staged.get(name, self.pending.get(name, view.requested))

    def move(self, rows: int) -> None:
        """Move the cursor; the ends hold."""
        names = self.names
        if names:
            at = names.index(self.selected) if self.selected in names else 0
            self.selected = names[max(0, min(len(names) - 1, at + rows))]

    def select(self, name: KnobName) -> None:
        """Put the cursor here, dropping a filter that hides it; one that is not shown comes forth alone."""
        if name in self.views:
            if self.filter and name not in self.names:
                self.filter = ""
            self.selected = name

    def search(self) -> None:
        """Open the filter's field; what is typed replaces a filter that was kept."""
        self.typed, self.searching = "", True
        self._before = self.selected

    def narrow(self, text: str) -> None:
        """Show only knobs whose key, label, group, node or help has every word of the text, the best
        match first: an exact name, then names and labels, then the rest. The cursor goes to the best."""
        self.filter = text
        if self.searching and text.split():
            names = self.names
            self.selected = names[0] if names else None
        elif self.searching:
            self._back()
        self._settle()

    def type(self, text: str) -> None:
        """Have this in the open field."""
        self.typed = text
        if self.searching:
            self.narrow(text)

    def close(self) -> bool:
        """Close the field, what the filter found stays; whether one was open."""
        was_open = self.typed is not None
        self.typed, self.searching = None, False
        return was_open

    def drop_search(self) -> None:
        """Close the filter's field: all knobs, and the cursor where it stood before."""
        self.close()
        self.filter = ""
        self._back()
        self._settle()

    def _back(self) -> None:
        """Put the cursor where it stood when the field was opened."""
        if self._before is not None:
            self.select(self._before)

    def step(self, direction: int, now_s: float, *, coarse: bool = False) -> None:
        """Stage the next value of the selected knob."""
        name = self.selected
        if name is not None and name in self.views:
            knob = self.views[name].knob
            self.stage(name, next_step(knob, self.asked(name), direction > 0, coarse), now_s)

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
        staged = dict(self.staged)
        self.staged.clear()
        self.pending |= staged
        self._sent += bool(staged)
        return [Assignment((name,), value) for name, value in staged.items()]

    def confirm(self, *, applied: bool) -> None:
        """What was sent is done: shown as pending until the next tick, or at once dropped."""
        self._sent -= 1
        if not applied and not self._sent:
            self.pending.clear()

    def _settle(self) -> None:
        """A selection that is gone moves to the first knob."""
        names = self.names
        if self.selected not in names:
            self.selected = names[0] if names else None


def _rank(name: KnobName, text: str) -> int | None:
    """How well a knob matches: 0 the exact name or label, 1 a name or label that begins with the text,
    2 its words in the name, 3 in the label, 4 in group and help as well; None: not at all."""
    knob = name.knob
    key, label, full = knob.key.lower(), knob.label.lower(), str(name).lower()
    if text in (key, label, full):
        return 0
    if full.startswith(text) or label.startswith(text):
        return 1
    everything = f"{full} {label} {knob.group} {knob.help}".lower()
    found = (all(word in searched for word in text.split()) for searched in (full, label, everything))
    return next((rank for rank, is_so in enumerate(found, 2) if is_so), None)
