"""Faults at hand: what is in force and how long, and what can be injected, with the very commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType

from replexplorer.core.errors import UsageError
from replexplorer.core.fault import KINDS, Fault, FaultKind, kind_of
from replexplorer.core.role_change import ChangeKind
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.topology import Roster
from replexplorer.ui.desks.faults import FaultDesk
from replexplorer.ui.desks.picture import Picture
from replexplorer.ui.desks.roles import ROLE_KINDS, RoleDesk, RoleKind
from replexplorer.ui.screens.listing import ListingScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.widgets.fault_rows import (
    in_force_details,
    in_force_row,
    kind_details,
    kind_row,
    role_details,
    role_row,
)
from replexplorer.ui.words.runs import Line

_FIGURES: Final = {"ms": ".", "s/s": "./"}
"""What a typed value may have beside digits, by unit."""
Row = Fault | FaultKind | RoleKind
"""What the cursor may be on."""


class FaultsScreen(ListingScreen):
    """The list; the chosen row is unfolded. What is done is done behind the dashboard, shown then."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "act", "Inject it; clear it where it is in force", show=False),
        Binding("left,h", "target(-1)", "The node before", show=False),
        Binding("right,l", "target(1)", "The next node", show=False),
        Binding("minus", "value(-1)", "The value before", show=False),
        Binding("plus,equals_sign", "value(1)", "The next value", show=False),
        Binding("x", "clear", "Clear the chosen fault in force", show=False),
        Binding("X", "clear_all", "Clear every fault", show=False),
    ]

    def __init__(self, desk: FaultDesk, roles: RoleDesk, picture: Picture, settings: Settings) -> None:
        super().__init__(settings)
        self._desk = desk
        self._roles = roles
        self._asked: RoleKind | None = None
        """A change of roles that Enter was pressed for: a second one does it."""
        self._picture = picture
        self._chosen: Row | None = None

    @property
    def _rows(self) -> list[Row]:
        """Faults in force, the newest first, then the kinds, then what changes roles."""
        tick = self._picture.tick
        return [*reversed(tick.faults if tick is not None else ()), *KINDS, *ROLE_KINDS]

    @property
    def _servers(self) -> Sequence[NodeView]:
        tick = self._picture.tick
        return tick.nodes if tick is not None else ()

    @property
    def _roster(self) -> Roster | None:
        tick = self._picture.tick
        return tick.roster if tick is not None else None

    @property
    def _at(self) -> int:
        """Where the cursor is: on what was chosen, else on the first row."""
        rows = self._rows
        return rows.index(self._chosen) if self._chosen in rows else 0

    @property
    def chosen(self) -> Row:
        """What is under the cursor."""
        return self._rows[self._at]

    def fill(self) -> None:
        """The rows as they are now."""
        width, rows, at = self.app.size.width, self._rows, self._at
        body: list[Line] = []
        heads = {Fault: "IN FORCE", FaultKind: "INJECT", RoleKind: "ROLES"}
        for place, row in enumerate(rows):
            if place == 0 or type(row) is not type(rows[place - 1]):
                body += [*([[]] if body else []), [(f" {heads[type(row)]}", "accent b")]]
            body += self._drawn(row, width, chosen=place == at)
        self.listing.arrows_do = "choose"
        self.listing.show(self._title(), [], body)

    def _drawn(self, row: Row, width: int, *, chosen: bool) -> list[Line]:
        """A row, and below the chosen one what it means."""
        if isinstance(row, Fault):
            tick = self._picture.tick
            head = in_force_row(row, tick.wall_s if tick else row.since_wall_s, width, chosen=chosen)
            if not chosen:
                return [head]
            return [head, *in_force_details(kind_of(row.kind), self._desk.preview_of(row), width - 1)]
        if isinstance(row, RoleKind):
            return self._role(row, width, chosen=chosen)
        roster = self._roster
        if roster is None:
            return [kind_row(row, self._desk.value(row), "nobody yet", width, chosen=chosen)]
        target = self._desk.target(row, roster)
        head = kind_row(row, self._desk.value(row), target.words if target else "", width, chosen=chosen)
        return [head, *(kind_details(row, self._desk.preview(row, roster), width - 1) if chosen else [])]

    def _role(self, row: RoleKind, width: int, *, chosen: bool) -> list[Line]:
        """A change of roles; while it is asked for with the question."""
        target = self._roles.target(row, self._servers)
        head = role_row(row.key, target.words if target else None, row.does, width, chosen=chosen)
        if not chosen:
            return [head]
        node = next((each for each in self._servers if target and each.name == target.node), None)
        errant = node.errant_gtids if node is not None and row.kind is ChangeKind.REJOIN else None
        told = f"{node.name} would lose what the source lacks: {errant}" if node and errant else ""
        question = f"{row.key}: Enter again does it, any other key does not" if self._asked is row else ""
        return [head, *role_details(row.does, told, question, width - 1)]

    def _title(self) -> Line:
        """What the keys do to the chosen row, and what is under way."""
        chosen = self.chosen
        if isinstance(chosen, Fault):
            hints = [("Enter", "clear it"), ("X", "clear all")]
        elif isinstance(chosen, RoleKind):
            hints = [("Enter", "do it" if self._asked is chosen else "asks, then does it"), ("←→", "node")]
        else:
            hints = [("Enter", "inject"), ("←→", "node")]
            if self._desk.value(chosen) is not None:
                hints.append(("-+ 0-9" if chosen.unit else "-+", "value"))
            if isinstance(self._rows[0], Fault):
                hints.append(("X", "clear all"))
        under_way = [*self._roles.under_way, *self._desk.under_way]
        told = f"{under_way[-1]}…  " if under_way else ""
        keys = [run for key, word in hints for run in ((key, "key b"), (f" {word}  ", "muted"))]
        return [("Faults ", "title b"), (told, "warn"), *keys]

    def action_scroll_by(self, rows: int) -> None:
        """Move the cursor."""
        self._asked = None
        self._chosen = self._rows[max(0, min(len(self._rows) - 1, self._at + rows))]
        self.fill()
        self._reveal()

    def action_scroll_page(self, pages: int) -> None:
        """Move the cursor by a page."""
        self.action_scroll_by(pages * self.listing.page_rows)

    def _reveal(self) -> None:
        """Scroll until the chosen row and what is below it are seen."""
        before = [self._drawn(row, self.app.size.width, chosen=False) for row in self._rows[: self._at]]
        kinds = [type(row) for row in self._rows[: self._at + 1]]
        first = sum(map(len, before)) + 2 * len(set(kinds)) - 1  # a head and a blank row for each heading
        last = first + len(self._drawn(self.chosen, self.app.size.width, chosen=True)) - 1
        self.listing.reveal(0 if self._at == 0 else first, last)

    def action_target(self, steps: int) -> None:
        """Another node."""
        self._asked = None
        if isinstance(self.chosen, RoleKind):
            self._roles.next_target(self.chosen, self._servers, steps)
            self._show_chosen()
        elif isinstance(self.chosen, FaultKind) and (roster := self._roster):
            self._desk.next_target(self.chosen, roster, steps)
            self._show_chosen()

    def action_value(self, steps: int) -> None:
        """Another value."""
        if isinstance(self.chosen, FaultKind):
            self._desk.next_value(self.chosen, steps)
            self._show_chosen()

    def on_key(self, event: events.Key) -> None:
        """Figures of a value; any key but the one that was asked for takes a question back."""
        if self._asked is not None and event.key != "enter":
            self._asked = None
            self._show_chosen()
        chosen = self.chosen
        if isinstance(chosen, FaultKind) and chosen.unit is not None:
            character = event.character or ""
            is_figure = character.isdigit() or character in tuple(_FIGURES[chosen.unit])
            if is_figure or event.key == "backspace":
                self._desk.type(chosen, "" if event.key == "backspace" else character)
                event.stop()
                self._show_chosen()

    def _show_chosen(self) -> None:
        self._chosen = self.chosen
        self.fill()
        self._reveal()

    def action_act(self) -> None:
        """Inject what is chosen, or clear it where it is in force, and show the charts."""
        chosen, roster = self.chosen, self._roster
        if isinstance(chosen, Fault):
            self.action_clear()
        elif isinstance(chosen, RoleKind):
            self._change_roles(chosen)
        elif roster is not None:
            try:
                self._desk.inject(chosen, roster)
            except UsageError as error:
                self.notify(str(error), severity="warning", timeout=6, markup=False)
                return
            self.dismiss()

    def _change_roles(self, chosen: RoleKind) -> None:
        """Ask first; asked, do it and show the charts."""
        target = self._roles.target(chosen, self._servers)
        if target is None:
            told = "every node follows the source or is it: nobody can rejoin"
            self.notify(told, severity="warning", timeout=6, markup=False)
        elif self._asked is chosen:
            self._roles.change(chosen, target)
            self.dismiss()
        else:
            self._asked = chosen
            self._show_chosen()

    def action_clear(self) -> None:
        """Take the chosen fault back."""
        if isinstance(self.chosen, Fault):
            self._desk.clear(self.chosen)
            self.dismiss()

    def action_clear_all(self) -> None:
        """Take every fault back."""
        if isinstance(self._rows[0], Fault):
            self._desk.clear(None)
            self.dismiss()
