"""The one screen: knobs to the left, what they do to the right; its mode says which keys do something."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import events, on, work
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import Input

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.experiment.experiment import ExperimentResult, NamedExperiment
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.catalogue import Kind
from replexplorer.core.knobs.names import SOURCE, KnobName, describe_range, format_value, with_unit_of
from replexplorer.core.role_change import RoleChange
from replexplorer.core.text import with_stack
from replexplorer.engine.outcome import Injected, SetResult
from replexplorer.engine.view import View
from replexplorer.ui.actions import (
    CONDUCTOR,
    DASHBOARD,
    FAR_S,
    LEAVE_KEY,
    PLAYER,
    QUIT,
    SEEK_S,
    VIEW,
    bindings_of,
    keys_of,
)
from replexplorer.ui.messages import CommandDone, CommandFailed, LabMoved
from replexplorer.ui.screens.dashboard_view import DashboardView
from replexplorer.ui.screens.faults import FaultChoices, FaultsScreen, change_words
from replexplorer.ui.screens.labs import LabsScreen
from replexplorer.ui.screens.lists import EpochLedgerScreen, LogScreen, NodesScreen
from replexplorer.ui.screens.sweep import SweepScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.state.board import Fold
from replexplorer.ui.style.layout import Layout
from replexplorer.ui.widgets.entry import Entry
from replexplorer.ui.widgets.footer import Footer
from replexplorer.ui.widgets.knob_panel import KnobDrawer, KnobPanel
from replexplorer.ui.widgets.lab_strip import LabStrip, LabTries
from replexplorer.ui.widgets.statement import TYPED_WIDTH, Intent, KnobLine
from replexplorer.ui.words.questions import lost_question, quit_question
from replexplorer.ui.words.runs import Line

if TYPE_CHECKING:
    from replexplorer.engine.console import Console

_POINT_EVERY_S: Final = 0.3
"""Between two looks whether another knob is selected: who watches learns it within a second."""
_REFUSED_S: Final = 3.0
"""How long it stands that a key does nothing here."""
NOTHING_TO_REPAIR: Final = "nothing to repair: every server answers and no replication thread is stopped"


class DashboardScreen(DashboardView):
    """The picture with the keys and the mouse of whoever turns, watches or plays it.

    A knob's value is staged by steps or typed, and sent after a rest or at once; a key of an action that
    the mode refuses is answered in one line.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings_of((*DASHBOARD, *CONDUCTOR, *PLAYER))

    def __init__(self, view: View, settings: Settings) -> None:
        super().__init__(view, settings)
        self._refused_s = -math.inf
        """When it was last said that a key does nothing here."""
        self._followed: str | None = None
        """The knob that the driver had selected when the cursor here last went there."""
        self._choices = FaultChoices()
        self._quitting = False
        """It asks whether to quit."""
        self._answered: tuple[str, ...] = ()
        """What was lost and is answered for."""

    def on_mount(self) -> None:
        """Begin to work off commands and to watch what rests."""
        self.set_interval(0.1, self.apply_rested)
        self.screen_layout_refresh_signal.subscribe(self, self._keep_in_its_row)
        if self._view.console is not None:
            self._point(self._view.console)

    def on_screen_resume(self) -> None:
        """Show the lab that was started in front of it."""
        self._show_lab()

    @work(group="point", exit_on_error=False)
    async def _point(self, console: Console) -> None:
        """Show who watches the selected knob, once it is another one."""
        pointed_at: KnobName | None = None
        while True:
            await asyncio.sleep(_POINT_EVERY_S)
            if self.board.selected != pointed_at:
                pointed_at = self.board.selected
                with suppress(ReplexplorerError):
                    await console.select(pointed_at)

    def _draw_tick(self) -> None:
        """Where one watches, the cursor goes where the driver's goes; between two of its moves it is one's
        own."""
        tick = self.picture.tick
        selected = tick.driver_selects if tick is not None else None
        if self.mode is VIEW and selected != self._followed and not self._types:
            self._followed = selected
            name = next((each for each in self.board.views if str(each) == selected), None)
            if name is not None:
                self.board.select(name)
        super()._draw_tick()
        if not self._quitting:
            self._ask(())

    # -- keys

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What the mode allows; a hand on a lab only while one runs, its captions for who presents."""
        if action in self.mode.refused:
            return False
        if self._player is not None:
            return True
        if action in ("step_next", "lab_pause", "lab_abort"):
            return self._labs.view is not None
        if action == "step_prev":
            return self._labs.view is not None and self.presenter.is_on
        return not action.startswith("replay_")

    async def take_key(self, event: events.Key) -> bool:
        """Take a key the moment it is read; False leaves it to Textual.

        Textual forwards a key to the widget that has the focus and looks for a binding when it comes
        back unused. In a burst (a slow line, a paste) an Enter would so overtake the digits before
        it, and 123 would be 3; here keys act in the order in which they were typed. While it asks whether
        to quit, the key that quits says yes and any other no; while it asks whether to give back what was
        lost, y and n answer and all other keys are as ever.
        """
        if self.presenter.is_on:
            self.presenter.press(event, self._settings.monotonic())
            self._draw_bar()
        if event.key == LEAVE_KEY:
            return False
        if self._quitting:
            self._ask(())
            if event.key in keys_of(QUIT, self._settings.keymap):
                await self.app.run_action("app_leave")
            return True
        entry = next((entry for entry in self.query(Entry) if entry.is_open), None)
        if entry is not None:
            return self._feed(entry, event)
        if event.key in ("y", "n") and self._lost:
            self._answered = self._lost
            self._ask(())
            self.ask("re-apply", lambda console: console.give_back(event.key == "y"))
            return True
        if self._is_refused(event.key):
            self._refuse()
            return True
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

    @property
    def _types(self) -> bool:
        """A value or a filter is being typed."""
        return any(entry.is_open for entry in self.query(Entry))

    def _is_refused(self, key: str) -> bool:
        return any(
            key in keys_of(action.id, self._settings.keymap)
            for action in (*DASHBOARD, *CONDUCTOR)
            if action.method in self.mode.refused
        )

    def _refuse(self) -> None:
        """In one toast, however many keys are tried while it stands."""
        now_s = self._settings.monotonic()
        if now_s - self._refused_s >= _REFUSED_S:
            self._refused_s = now_s
            self.notify(self.mode.why, timeout=_REFUSED_S)

    def _feed(self, entry: Entry, event: events.Key) -> bool:
        """Give a key to the open field; what moves within it is the field's own."""
        if event.key == "enter":
            if entry.purpose == "value":
                self._take_value(entry.value)
            else:
                self._close_entries()
                self._draw_knobs()
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

    # -- questions of the last row

    def asks_before_quit(self) -> bool:
        """Ask in the last row before our load, lab or sweep is ended; False: nothing to ask."""
        if self.mode.refused:  # nothing ends with it
            return False
        view = self._labs.view
        runs = f"{view.lab.kind} {view.lab.name}" if view else ""
        sweeps = "sweep" if self._sweep.is_running else ""
        question = quit_question(self.picture.tick, runs or sweeps, self.key(QUIT))
        self._ask(question)
        return bool(question)

    def _ask(self, question: tuple[Line, ...]) -> None:
        self._quitting = bool(question)
        shown = question or lost_question(self._lost)
        self.query_one(Footer).ask(shown)
        self.set_class(bool(shown), "-asking")

    @property
    def _lost(self) -> tuple[str, ...]:
        """What restarts took and nobody has answered for; what was answered is not asked again."""
        tick = self.picture.tick
        lost = tick.lost if tick is not None else ()
        if not lost:
            self._answered = ()
        return () if lost == self._answered else lost

    # -- knobs

    def action_knob_prev(self) -> None:
        """Select the knob above."""
        self._move(-1)

    def action_knob_next(self) -> None:
        """Select the knob below."""
        self._move(1)

    def action_knob_less(self) -> None:
        """Stage one step less."""
        self._step(-1)

    def action_knob_more(self) -> None:
        """Stage one step more."""
        self._step(1)

    def action_knob_coarse_less(self) -> None:
        """Stage a coarse step less."""
        self._step(-1, coarse=True)

    def action_knob_coarse_more(self) -> None:
        """Stage a coarse step more."""
        self._step(1, coarse=True)

    def action_knob_apply(self) -> None:
        """Apply what is staged now; with nothing staged, turn the fold under the cursor, else open or
        close the drawer of a small screen."""
        if self.board.staged:
            self._send()
        elif (fold := self.board.at_fold) and (self.layout_name is not Layout.COMPACT or self.drawer_open):
            self.board.turn(fold)
            self._draw_knobs()
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
        """Open the filter's field at the head of the knobs; a small screen's drawer opens with it."""
        if self.layout_name is Layout.TINY:
            return
        if self.layout_name is Layout.COMPACT:
            self.add_class("-drawer")
        entry = self.query_one("#filter-entry", Entry)
        entry.placeholder = "words of a name, or of its help"
        self.board.search()
        entry.open(self.board.filter, self._filter_place, 1)
        entry.select_all()  # typing replaces a filter that was kept
        self._keep_in_its_row()
        self._draw_knobs()

    def action_knob_type(self) -> None:
        """Open the field for a value that begins with a letter: a word of the knob."""
        if self.board.selected is not None and self.layout_name is not Layout.TINY:
            self._open_value("")

    def action_knob_undo(self) -> None:
        """Take the last change back."""
        self.ask("undo", lambda console: console.undo())

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

    def action_stack_reset(self) -> None:
        """All knobs to their defaults."""
        self.board.revert()
        self.ask("reset", lambda console: console.reset())

    def action_statement_copy(self) -> None:
        """Copy what the selected knob runs and how to take it back, over OSC 52."""
        intent = self.intent()
        if intent is not None:
            text = script_of(intent)
            self.app.copy_to_clipboard(text)
            self.notify(text, title="copied", timeout=4)

    def select_knob(self, name: KnobName) -> None:
        """Select a knob, as the palette does."""
        self._close_entries()
        self.board.select(name)
        self._move(0)

    def apply_rested(self) -> None:
        """Apply what has been staged long enough ago."""
        if self.board.due(self._settings.monotonic(), self._settings.rest_s):
            self._send()

    def _move(self, rows: int) -> None:
        if not self.board.searching:
            self._close_entries()
        self._problem = ""
        self.board.move(rows)
        self._draw_knobs()

    def _step(self, direction: int, *, coarse: bool = False) -> None:
        """A step of the selected knob, or through a recording."""
        if self._player is not None:
            self._player.seek(direction * (FAR_S if coarse else SEEK_S))
        else:
            self._problem = ""
            self.board.step(direction, self._settings.monotonic(), coarse=coarse)
            self._draw_knobs()

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
            self.ask("set", lambda console: console.set(tuple(assignments)))
        self._draw_knobs()

    def _type(self, digit: str) -> None:
        """Begin a value with a digit; a knob whose values are words says so at once."""
        name = self.board.selected
        words = name.knob.choices if name is not None and name.knob.kind is Kind.CHOICE else ()
        if "knob_type" in self.mode.refused:
            self._refuse()
        elif name is not None and words and not any(word.startswith(digit) for word in words):
            self._turn_down(f"{name.knob.label} is {describe_range(name.knob)}: ←→ change it, ↑↓ leave it")
        else:
            self._open_value(digit)

    def _turn_down(self, problem: str) -> None:
        """Say why a value is not taken, and give the keys back."""
        self._problem = problem
        self._close_entries()
        self._draw_knobs()

    def _open_value(self, text: str) -> None:
        self._problem = ""
        place = self._value_place or self._filter_place  # until the drawer is laid out
        self.query_one(KnobLine).type(True)
        self.query_one("#value-entry", Entry).open(text, place, TYPED_WIDTH)

    def _take_value(self, text: str) -> None:
        name = self.board.selected
        if name is None or self._stack is None:
            return
        try:
            value = with_unit_of(name.knob, text, self.board.asked(name))
            assignment = self._stack.parse(f"{name}={value}")
        except ReplexplorerError as error:
            self._turn_down(str(error))
            return
        self._problem = ""
        self._close_entries()
        self.board.stage(name, assignment.value, self._settings.monotonic())
        self._send()

    @property
    def _panel(self) -> KnobPanel:
        return self.query_one(KnobDrawer) if self.drawer_open else self.query_one("#knobs", KnobPanel)

    @property
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
    def _filter_place(self) -> tuple[int, int]:
        panel = self._panel
        return panel.region.x + panel.FILTER_COLUMN, panel.region.y

    def _keep_in_its_row(self, _: Screen[Any] | None = None) -> None:
        """What is typed stays where it belongs when a line above has come or gone, or the drawer opened."""
        value, text = self.query_one("#value-entry", Entry), self.query_one("#filter-entry", Entry)
        if value.is_open and (place := self._value_place) is not None:
            value.move(place)
        if text.is_open:
            text.move(self._filter_place)
            text.styles.width = max(1, self._panel.region.width - self._panel.FILTER_COLUMN - 1)

    @on(Input.Changed, "#filter-entry")
    def _narrow(self) -> None:
        """At once with each key: an Enter may be the next one."""
        entry = self.query_one("#filter-entry", Entry)
        if entry.is_open and entry.value != self.board.filter:
            self.board.narrow(entry.value)
            self._draw_knobs()

    @on(KnobPanel.Picked)
    def _pick(self, message: KnobPanel.Picked) -> None:
        self._close_entries()
        self.board.select(message.row)
        if isinstance(message.row, Fold):
            self.board.turn(message.row)
        self._move(0)

    @on(KnobPanel.Stepped)
    def _click_step(self, message: KnobPanel.Stepped) -> None:
        if "knob_type" in self.mode.refused:
            self._refuse()
        else:
            self._step(message.direction)

    @on(KnobPanel.Scrolled)
    def _wheel(self, message: KnobPanel.Scrolled) -> None:
        self._move(message.rows)

    # -- commands and what came of them

    def action_load_toggle(self) -> None:
        """Stop or start the load."""
        self.ask("load", lambda console: console.toggle_load())

    def action_mark_add(self) -> None:
        """Put a mark on the charts."""
        self.ask("mark", lambda console: console.mark("mark"))

    def action_stack_repair(self) -> None:
        """Start what is dead or stopped, telling what is done."""

        def repair(console: Console) -> Awaitable[tuple[str, ...]]:
            return console.repair(lambda progress: self.notify(progress.text))

        if self.under_way:
            self._then = partial(self.ask, "repair", repair)
            self.notify(f"repair begins when this is done: {', '.join(self.under_way)}", timeout=4)
        else:
            self.ask("repair", repair)

    @on(CommandDone)
    def _take_result(self, message: CommandDone) -> None:
        """Confirm what was set, and tell what only the result says; that it was done stands in the log."""
        result = message.result
        if message.label == "set":
            self.board.confirm(applied=True)
        for warning in result.warnings if isinstance(result, SetResult) else ():
            self.notify(warning, severity="warning", timeout=8)
        done = result if isinstance(result, tuple) else ()
        if message.label == "repair":
            text = f"repaired: {'; '.join(done)}" if done else NOTHING_TO_REPAIR
            self.notify(text, timeout=8)
        if isinstance(result, RoleChange):
            self.notify(change_words(result), timeout=10)
        injected = [each for each in done if isinstance(each, Injected)]
        lost = [f"{each.fault.node} lost of {line}" for each in injected for line in each.lost_files]
        if lost:
            self.notify("\n".join(lost), title="power cut", severity="warning", timeout=10)
        self._draw_knobs()

    @on(CommandFailed)
    def _take_failure(self, message: CommandFailed) -> None:
        if message.label == "set":
            self.board.confirm(applied=False)
        text = f"{message.text}: {message.hint}" if message.hint else message.text
        text = with_stack(text, self._settings.stack)
        self.notify(text, title=f"{message.label} failed", severity="error", timeout=10)
        self._draw_knobs()

    # -- charts

    def action_chart_freeze(self) -> None:
        """Hold the whole picture or let it go, while the load goes on and the knobs can be turned; pause or
        play a recording."""
        if self._player is not None:
            self._player.toggle()
        else:
            self.picture.freeze()
        self._draw()

    def action_chart_zoom_in(self) -> None:
        """A shorter page of time."""
        self.picture.zoom(-1)
        self._draw()

    def action_chart_zoom_out(self) -> None:
        """A longer page of time."""
        self.picture.zoom(1)
        self._draw()

    def action_chart_yscale(self) -> None:
        """The TPS axis linear or logarithmic; it never changes by itself."""
        self.picture.log_scale = not self.picture.log_scale
        self._draw()

    def action_chart_heat(self) -> None:
        """Latency as lines or as a density; where it is not seen, it is turned to."""
        self.picture.as_density = not self.picture.as_density
        self.remove_class("-exposure")
        if self.has_class("-compact") and not self.has_class("-tall"):
            self.add_class("-latency")
        self.call_after_refresh(self._draw)

    def action_view_next(self) -> None:
        """The next chart of a small screen: TPS, latency, exposure."""
        shown = "-latency" if self.has_class("-latency") else "-exposure" * self.has_class("-exposure")
        self._turn_to({"": "-latency", "-latency": "-exposure", "-exposure": ""}[shown])

    def action_chart_exposure(self) -> None:
        """What a failure would lose over time, in place of another chart, or that one again; a large
        screen has room for all."""
        self._turn_to("" if self.has_class("-exposure") else "-exposure")

    def _turn_to(self, view: str) -> None:
        """Show this chart: `-latency`, `-exposure`, or TPS for none."""
        for name in ("-latency", "-exposure"):
            self.set_class(name == view, name)
        self.call_after_refresh(self._draw)

    # -- a recording, a lab, a room

    def action_replay_faster(self) -> None:
        """The next speed."""
        self._change_speed(faster=True)

    def action_replay_slower(self) -> None:
        """The speed before."""
        self._change_speed(faster=False)

    def _change_speed(self, *, faster: bool) -> None:
        if self._player is not None:
            self._player.change_speed(faster)
            self._draw_player()

    def action_step_next(self) -> None:
        """The next mark of a recording; the caption behind the one that is read again; the next phase, while
        a lab waits for it."""
        if self._player is not None:
            self._player.step(forward=True)
        elif self.presenter.read_on(self._labs.view):
            self._draw_bar()
        else:
            self._tell_lab(self._labs.next())

    def action_step_prev(self) -> None:
        """The mark of a recording, or the caption, before."""
        if self._player is not None:
            self._player.step(forward=False)
        else:
            self.presenter.read_back(self._labs.view)
            self._draw_bar()

    def action_lab_pause(self) -> None:
        """Hold the lab before its next phase, or let it go on."""
        self._tell_lab(self._labs.pause())

    def action_lab_abort(self) -> None:
        """End the lab; what it turned is restored."""
        self._tell_lab(self._labs.abort())

    async def run_experiment(self, experiment: NamedExperiment, *, quick: bool) -> ExperimentResult | None:
        """Run a lab or drill by itself to its end; None where it found nothing."""
        await asyncio.wait([self._labs.start(experiment, quick=quick)])
        return self._labs.results.get(experiment)

    def action_present_toggle(self) -> None:
        """Begin to present, or end it."""
        self.presenter.toggle(self._settings.monotonic())
        self.set_class(self.presenter.is_on, "-present")
        self.query_one(LabStrip).brief = self.presenter.is_on
        self.query_one(LabStrip).repaint()
        self._reduce_knobs()
        self._draw_bar()
        self.call_after_refresh(self._draw)

    @on(LabMoved)
    def _show_lab(self) -> None:
        """The strip of the lab that runs, its tries in place of the charts where it has such; a toast when it
        has ended."""
        view = self._labs.view
        if view is not None:
            self.query_one(LabStrip).show(view)
        self.set_class(view is not None, "-lab")
        tries = view.step.tries if view is not None and view.step is not None else ()
        self.set_class(bool(tries), "-tries")
        link = self.picture.tick.rtt if self.picture.tick is not None else None
        self.query_one(LabTries).show((tries, link.rtt_asked_ms if link is not None else 0.0))
        if self._labs.end is not None:
            (text, severity), self._labs.end = self._labs.end, None
            if self._labs.unseen is not None:
                text += f" ({self.key('lab.open')} opens it)"
            self.notify(text, severity=severity, timeout=10)

    def _tell_lab(self, text: str) -> None:
        self.notify(text, timeout=3)
        self._show_lab()

    # -- other screens

    def action_lab_open(self) -> None:
        """The labs, or what the one that has just ended found."""
        self.app.push_screen(LabsScreen(self._labs, self._sweep, self.picture, self._settings))

    def action_sweep_open(self) -> None:
        """Measure combinations of knobs, or see the sweep that runs."""
        self.app.push_screen(SweepScreen(self._sweep, self._settings))

    def action_fault_open(self) -> None:
        """Break something on purpose, or clear what is in force."""
        if self._stack is None:
            return
        self.app.push_screen(
            FaultsScreen(
                self._choices,
                self._stack.preview_fault,
                self.beside,
                self.under_way,
                self.picture,
                self._settings,
            )
        )

    def action_nodes_open(self) -> None:
        """Every server with its threads and lag."""
        self.app.push_screen(NodesScreen(self.picture, self._settings))

    def action_log_open(self) -> None:
        """All events."""
        self.app.push_screen(LogScreen(self.picture, self._settings))

    def action_ledger_open(self) -> None:
        """All epochs."""
        self.app.push_screen(EpochLedgerScreen(self.picture, self.board, self._settings))


def script_of(intent: Intent) -> str:
    """The statements and their undo as a script to paste."""
    knob = intent.name.knob
    value = format_value(knob, intent.value)
    rows = [f"-- {intent.name} = {value}, runs on {intent.runs_on}"]
    rows += [f"{statement};" for statement in intent.preview.statements]
    rows += [f"-- undo: {statement};" for statement in intent.preview.undo]
    return "\n".join(rows)
