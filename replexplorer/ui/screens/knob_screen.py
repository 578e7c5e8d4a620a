"""How knobs are turned: selecting, staging, typing, filtering, and telling what came of it."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from textual import events, on, work
from textual.screen import Screen
from textual.widgets import Input

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.hints import with_stack
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.knob import Kind
from replexplorer.core.knobs.names import SOURCE, KnobName, describe_range, with_unit_of
from replexplorer.engine.console import Select, Turn, Undo
from replexplorer.engine.view import View
from replexplorer.ui.desks.board import Fold
from replexplorer.ui.desks.commander import CommandDone, CommandFailed
from replexplorer.ui.keys.actions import LEAVE_KEY
from replexplorer.ui.screens.knob_keys import KnobKeys
from replexplorer.ui.screens.watching import WatchingScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.style.layout import Layout
from replexplorer.ui.widgets.entry import Entry
from replexplorer.ui.widgets.knob_panel import KnobDrawer, KnobPanel
from replexplorer.ui.widgets.statement import TYPED_WIDTH, KnobLine

_POINT_EVERY_S: Final = 0.3
"""Between two looks whether another knob is selected: who watches learns it within a second."""
NOTHING_TO_REPAIR: Final = "nothing to repair: every server answers and no replication thread is stopped"


class KnobScreen(KnobKeys, WatchingScreen):
    """The picture with the keys and the mouse of the knobs."""

    def __init__(self, view: View, settings: Settings) -> None:
        super().__init__(view, settings)
        self._early: list[events.Key] | None = None
        """Keys that came while the drawer that the filter stands over is laid out."""
        self._pointed_at: KnobName | None = None
        """The selected knob as who watches was last shown it."""
        self._is_pointing = False
        """They are being shown it."""

    def on_mount(self) -> None:
        """Begin to work off commands and to watch what rests."""
        self.set_interval(0.1, self.apply_rested)
        self.screen_layout_refresh_signal.subscribe(self, self._keep_in_its_row)
        if self._view.console is not None:
            self.set_interval(_POINT_EVERY_S, self._point)
        self._work_off()

    @work(exclusive=True, group="commands", exit_on_error=False)
    async def _work_off(self) -> None:
        await self._commander.run()

    def action_knob_apply(self) -> None:
        """Apply what is staged now; with nothing staged, turn the fold under the cursor, else open or
        close the drawer of a small screen."""
        if self.board.staged:
            self._send()
        elif (fold := self.board.at_fold) and (self.layout_name is not Layout.COMPACT or self.drawer_open):
            self._turn_fold(fold)
        elif self.layout_name is Layout.COMPACT:
            self.toggle_class("-drawer")
            self.call_after_refresh(self._draw)

    def action_knob_revert(self) -> None:
        """Drop, from the inside out: the field, what is staged, the filter, the drawer."""
        self._problem = ""
        if self.board.searching:
            self._close_entries()
            self.board.drop_search()
        elif not (self._close_entries() or self.board.revert()):
            if self.board.filter:
                self.board.narrow("")
            else:
                self.remove_class("-drawer")
        self._draw()

    def action_knob_filter(self) -> None:
        """Open the filter's field at the head of the knobs."""
        if self.layout_name is Layout.TINY:
            return
        if self.layout_name is Layout.COMPACT and not self.drawer_open:
            self.add_class("-drawer")
            self._early = []
            self.call_after_refresh(self._open_filter_late)
        else:
            self._open_filter()

    def action_knob_undo(self) -> None:
        """Take the last change back."""
        self._commander.ask("undo", Undo())

    def action_semisync_toggle(self) -> None:
        """Turn semi-sync on or off."""
        self._flip(KnobName(keys.SEMI_SYNC, SOURCE), "off", "on")

    def action_wait_point_toggle(self) -> None:
        """Switch the wait point."""
        self._flip(KnobName(keys.WAIT_POINT, SOURCE), "after_sync", "after_commit")

    def action_fault_partition(self) -> None:
        """Pull the cable: cut every link, both ways."""
        self._set_partition("both")

    def action_fault_heal(self) -> None:
        """Plug it in again, whatever was cut."""
        self._set_partition("none")

    def apply_rested(self) -> None:
        """Apply what has been staged long enough ago."""
        if self.board.due(self._settings.monotonic(), self._settings.rest_s):
            self._send()

    def _point(self) -> None:
        """Show who watches the selected knob, once it is another one."""
        if self.board.selected != self._pointed_at and not self._is_pointing:
            self._pointed_at, self._is_pointing = self.board.selected, True
            self._tell_watchers(self.board.selected)

    @work(group="point", exit_on_error=False)
    async def _tell_watchers(self, knob: KnobName | None) -> None:
        """One at a time; where it does not get through, the next one is tried."""
        try:
            with suppress(ReplexplorerError):
                await self._commander.do(Select(knob))
        finally:
            self._is_pointing = False

    def _move(self, rows: int) -> None:
        if not self.board.searching:
            self._close_entries()
        self._problem = ""
        self.board.move(rows)
        self._draw_now()

    def _step(self, direction: int, *, coarse: bool = False) -> None:
        self._problem = ""
        self.board.step(direction, self._settings.monotonic(), coarse=coarse)
        self._draw_now()

    def _turn_fold(self, fold: Fold) -> None:
        self.board.turn(fold)
        self._draw_now()

    def _keep_in_its_row(self, _: Screen[Any]) -> None:
        """What is typed stays over its knob where a line above has come or gone."""
        entry = self.query_one("#value-entry", Entry)
        if entry.is_open and (place := self._value_place()) is not None:
            entry.move(place)

    def _draw_now(self) -> None:
        with self.app.batch_update():
            self._draw_knobs()

    def action_knob_type(self) -> None:
        """Open the field for a value that begins with a letter: a word of the knob."""
        if self.board.selected is not None and self.layout_name is not Layout.TINY:
            self._open_value("")

    def _flip(self, name: KnobName, first: str, second: str) -> None:
        if name not in self.board.views:
            self.notify(f"this server has no {name.knob.label}", severity="warning")
            return
        # What is so decides, not what was asked: after a restart the two may differ.
        view = self.board.views[name]
        now = self.board.asked(name) if view.effective in (None, view.requested) else view.effective
        self.board.stage(name, second if now == first else first, self._settings.monotonic())
        self._send()

    def _set_partition(self, value: str) -> None:
        for name in self.board.views:
            if name.key == keys.PARTITION:
                self.board.stage(name, value, self._settings.monotonic())
        self._send()

    def _send(self) -> None:
        assignments = self.board.send()
        if assignments:
            self._commander.ask("set", Turn(tuple(assignments)))
        self._draw_now()

    @on(CommandDone)
    def _take_result(self, message: CommandDone) -> None:
        if message.label == "set":
            self.board.confirm(applied=True)
        for warning in message.warnings:
            self.notify(warning, severity="warning", timeout=8, markup=False)
        if message.label == "repair":
            done = message.result if isinstance(message.result, tuple) else ()
            text = f"repaired: {'; '.join(done)}" if done else NOTHING_TO_REPAIR
            self.notify(text, timeout=8, markup=False)
        self._draw_now()

    @on(CommandFailed)
    def _take_failure(self, message: CommandFailed) -> None:
        if message.label == "set":
            self.board.confirm(applied=False)
        text = f"{message.text}: {message.hint}" if message.hint else message.text
        text = with_stack(text, self._settings.stack)
        self.notify(text, title=f"{message.label} failed", severity="error", timeout=10, markup=False)
        self._draw_now()

    def select_knob(self, name: KnobName) -> None:
        """Select a knob, as the palette does."""
        self._close_entries()
        self.board.select(name)
        self._move(0)

    async def take_key(self, event: events.Key) -> bool:
        """Take a key the moment it is read; False leaves it to Textual.

        Textual forwards a key to the widget that has the focus and looks for a binding when it comes
        back unused. In a burst (a slow line, a paste) an Enter would so overtake the digits before
        it, and 123 would be 3; here keys act in the order in which they were typed.
        """
        if event.key == LEAVE_KEY:
            return False
        if self._early is not None:
            self._early.append(event)
            return True
        entry = next((entry for entry in self.query(Entry) if entry.is_open), None)
        if entry is not None:
            return self._feed(entry, event)
        character = event.character or ""
        can_type = self.board.selected is not None and self.layout_name is not Layout.TINY
        if can_type and (character.isdigit() or character == "."):
            self._type(character)
            return True
        bound = self.active_bindings.get(event.key)
        if bound is None or not bound.enabled:
            return False
        await self.app.run_action(bound.binding.action, bound.node)
        return True

    def _feed(self, entry: Entry, event: events.Key) -> bool:
        """Give a key to the open field; what moves within it is the field's own."""
        if event.key == "enter":
            if entry.purpose == "value":
                self._take_value(entry.value)
            else:
                self._keep_filter()
        elif event.key == "escape":
            self.action_knob_revert()
        elif event.key in ("up", "down") and entry.purpose == "filter":
            self._move(-1 if event.key == "up" else 1)
        elif event.key == "backspace":
            entry.action_delete_left()
            self._narrow()
        elif event.is_printable and event.character:
            entry.replace(event.character, *entry.selection)
            self._narrow()
        else:
            return False
        return True

    def _type(self, digit: str) -> None:
        """Begin a value with a digit; a knob whose values are words says so at once."""
        name = self.board.selected
        words = name.knob.choices if name is not None and name.knob.kind is Kind.CHOICE else ()
        if name is not None and words and not any(word.startswith(digit) for word in words):
            self._turn_down(f"{name.knob.label} is {describe_range(name.knob)}: ←→ change it, ↑↓ leave it")
        else:
            self._open_value(digit)

    def _turn_down(self, problem: str) -> None:
        """Say why a value is not taken, and give the keys back."""
        self._problem = problem
        self._close_entries()
        self._draw_now()

    def _open_value(self, text: str) -> None:
        self._problem = ""
        place = self._value_place()
        if place is not None:
            self.query_one(KnobLine).typing = True
            self.query_one("#value-entry", Entry).open(text, place, TYPED_WIDTH)

    def _value_place(self) -> tuple[int, int] | None:
        """Where the selected knob's value stands on the screen."""
        name = self.board.selected
        if name is None:
            return None
        if self.layout_name is Layout.COMPACT and not self.drawer_open:
            line = self.query_one(KnobLine)
            return line.region.x + line.value_column, line.region.y + 1
        panel = self._panel
        row = panel.row_of(name)
        return None if row is None else (panel.region.x + panel.COLUMNS.asked, panel.region.y + row)

    @property
    def _panel(self) -> KnobPanel:
        return self.query_one(KnobDrawer) if self.drawer_open else self.query_one("#knobs", KnobPanel)

    async def _open_filter_late(self) -> None:
        """Once the drawer is laid out, open the field over it, then act on the keys that came meanwhile."""
        if self.drawer_open and not self._panel.size.height:
            self.set_timer(0.02, self._open_filter_late)  # after_refresh comes before the layout in a burst
            return
        early, self._early = self._early, None
        self.action_knob_filter()
        for event in early or ():
            await self.take_key(event)

    def _open_filter(self) -> None:
        panel = self._panel
        entry = self.query_one("#filter-entry", Entry)
        entry.placeholder = "words of a name, or of its help"
        self.board.search()
        column = panel.FILTER_COLUMN
        entry.open(
            self.board.filter, (panel.region.x + column, panel.region.y), panel.region.width - column - 1
        )
        entry.select_all()  # typing replaces a filter that was kept
        self._draw_now()

    @on(Input.Changed, "#filter-entry")
    def _narrow(self) -> None:
        """At once with each key: an Enter may be the next one."""
        entry = self.query_one("#filter-entry", Entry)
        if entry.is_open and entry.value != self.board.filter:
            self.board.narrow(entry.value)
            self._draw_now()

    def _keep_filter(self) -> None:
        self._close_entries()
        self._draw_now()

    def _take_value(self, text: str) -> None:
        name = self.board.selected
        if name is None:
            return
        try:
            assignment = self._commander.parse(
                f"{name}={with_unit_of(name.knob, text, self.board.asked(name))}"
            )
        except ReplexplorerError as error:
            self._turn_down(str(error))
            return
        self._problem = ""
        self._close_entries()
        self.board.stage(name, assignment.value, self._settings.monotonic())
        self._send()

    @on(KnobPanel.Picked)
    def _pick(self, message: KnobPanel.Picked) -> None:
        self._close_entries()
        self.board.select(message.row)
        if isinstance(message.row, Fold):
            self._turn_fold(message.row)
        self._move(0)

    @on(KnobPanel.Stepped)
    def _click_step(self, message: KnobPanel.Stepped) -> None:
        self._step(message.direction)

    @on(KnobPanel.Scrolled)
    def _wheel(self, message: KnobPanel.Scrolled) -> None:
        self._move(message.rows)
