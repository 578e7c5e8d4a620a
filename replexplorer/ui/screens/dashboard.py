"""The one screen: knobs to the left, what they do to the right."""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Final

from textual import events, on
from textual.binding import BindingType

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.knobs.names import format_value
from replexplorer.core.role_change import RoleChange
from replexplorer.engine.console import GiveBack, Mark, Repair, Reset, ToggleLoad
from replexplorer.engine.outcome import ExperimentUnderWay, Injected
from replexplorer.engine.view import View
from replexplorer.ui.desks.commander import CommandDone
from replexplorer.ui.desks.faults import FaultDesk
from replexplorer.ui.desks.labs import LabDesk, LabView
from replexplorer.ui.desks.roles import RoleDesk, change_words
from replexplorer.ui.desks.sweep import SweepDesk
from replexplorer.ui.keys.actions import CONDUCTOR, DASHBOARD, LEAVE_KEY, QUIT, key_label, keys_of
from replexplorer.ui.keys.bindings import bindings_of
from replexplorer.ui.messages import LabMoved
from replexplorer.ui.screens.epoch_ledger import EpochLedgerScreen
from replexplorer.ui.screens.faults import FaultsScreen
from replexplorer.ui.screens.labs import LabsScreen
from replexplorer.ui.screens.log import LogScreen
from replexplorer.ui.screens.neighbours import NeighbouringScreen
from replexplorer.ui.screens.nodes import NodesScreen
from replexplorer.ui.screens.sweep import SweepScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.widgets.entry import Entry
from replexplorer.ui.widgets.footer import Footer
from replexplorer.ui.widgets.lab_strip import LabStrip
from replexplorer.ui.widgets.statement import Intent
from replexplorer.ui.words.lost_question import lost_question
from replexplorer.ui.words.quit_question import quit_question
from replexplorer.ui.words.runs import Line
from replexplorer.ui.words.staged import kind_of

_OF_A_LAB: Final = frozenset({"step_next", "step_prev", "lab_pause", "lab_abort"})


class DashboardScreen(NeighbouringScreen):
    """Draws the picture, handles the keys, and gives commands."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of((*DASHBOARD, *CONDUCTOR))

    def __init__(self, view: View, settings: Settings) -> None:
        super().__init__(view, settings)
        self._desk = SweepDesk(self._commander, settings.learn)
        self._quitting = False
        """It asks whether to quit."""
        self._answered: tuple[str, ...] = ()
        """What was lost and is answered for."""
        beside = partial(self.run_worker, group="faults", exit_on_error=False)
        self._faults = FaultDesk(self._commander, beside)
        self._roles = RoleDesk(self._commander, beside)
        self._labs = LabDesk(self._commander, settings, moved=lambda: self.post_message(LabMoved()))

    def on_screen_resume(self) -> None:
        """Show the lab that was started in front of it."""
        self._show_lab()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A hand on the lab only while one runs; its captions are read again by who presents."""
        if action in _OF_A_LAB:
            return self._labs.is_running and (action != "step_prev" or self.presenter.is_on)
        return super().check_action(action, parameters)

    @property
    def lesson(self) -> LabView | None:
        """The lab or drill under way."""
        return self._labs.view

    def asks_before_quit(self) -> bool:
        """Ask in the last row before our load, lab or sweep is ended; False: nothing to ask."""
        key = key_label(keys_of(QUIT, self._settings.keymap)[0])
        question = quit_question(self.picture.tick, self._experiment, key)
        self._ask(question)
        return bool(question)

    @property
    def _experiment(self) -> str:
        """The lab or sweep under way."""
        if self._labs.is_running and self._labs.lab is not None:
            return f"{kind_of(self._labs.lab)} {self._labs.lab.name}"
        return "sweep" if self._desk.is_running else ""

    def _ask(self, question: tuple[Line, ...]) -> None:
        self._quitting = bool(question)
        shown = question or lost_question(self._lost)
        self.query_one(Footer).question = shown
        self.set_class(bool(shown), "-asking")

    @property
    def _lost(self) -> tuple[str, ...]:
        """What restarts took and nobody has answered for; what was answered is not asked again."""
        tick = self.picture.tick
        lost = tick.lost if tick is not None else ()
        if not lost:
            self._answered = ()
        return () if lost == self._answered else lost

    def _draw_tick(self) -> None:
        super()._draw_tick()
        if not self._quitting:
            self._ask(())

    async def take_key(self, event: events.Key) -> bool:
        """While it asks whether to quit, the key that quits says yes and any other no; while it asks
        whether to give back what was lost, y and n answer and all other keys are as ever."""
        self.note_key(event)
        if event.key == LEAVE_KEY:
            return await super().take_key(event)
        if self._quitting:
            self._ask(())
            if event.key in keys_of(QUIT, self._settings.keymap):
                await self.app.run_action("app_leave")
            return True
        if event.key in ("y", "n") and self._lost and not self._types:
            self._answered = self._lost
            self._ask(())
            yes = event.key == "y"
            self._commander.ask("re-apply", GiveBack(yes))
            return True
        return await super().take_key(event)

    @property
    def _types(self) -> bool:
        """A value or a filter is being typed."""
        return any(entry.is_open for entry in self.query(Entry))

    @property
    def sweep_place(self) -> str:
        """`sweep 3 of 12`, while one runs."""
        return self._desk.place

    def remedy(self, error: ReplexplorerError) -> str:
        """An experiment of this dashboard's own ends by a key of its own; flags belong to a shell."""
        if not isinstance(error, ExperimentUnderWay):
            return error.hint
        if not error.is_own:
            return "wait for its end (in a shell, `--anyway` does not wait)"
        if error.experiment.kind in ("lab", "drill"):
            return f"abort it first ({key_label(keys_of('lab.abort', self._settings.keymap)[0])})"
        return f"stop it first ({key_label(keys_of('sweep.open', self._settings.keymap)[0])}, then x)"

    def action_load_toggle(self) -> None:
        """Stop or start the load."""
        self._commander.ask("load", ToggleLoad())

    def action_mark_add(self) -> None:
        """Put a mark on the charts."""
        self._commander.ask("mark", Mark("mark"))

    def action_stack_reset(self) -> None:
        """All knobs to their defaults."""
        self.board.revert()
        self._commander.ask("reset", Reset())

    def action_stack_repair(self) -> None:
        """Start what is dead or stopped, telling what is done."""
        repair = Repair(lambda progress: self.notify(progress.text, markup=False))
        if first := self._faults.when_done(lambda: self._commander.ask("repair", repair)):
            self.notify(f"repair begins when this is done: {first}", timeout=4, markup=False)

    def action_chart_freeze(self) -> None:
        """Hold the whole picture or let it go; the load goes on, and the knobs can be turned."""
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

    def action_statement_copy(self) -> None:
        """Copy what the selected knob runs and how to take it back, over OSC 52."""
        intent = self.intent()
        if intent is None:
            return
        text = script_of(intent)
        self.app.copy_to_clipboard(text)
        self.notify(text, title="copied", timeout=4, markup=False)

    def action_ledger_open(self) -> None:
        """All epochs."""
        self.app.push_screen(EpochLedgerScreen(self.picture, self.board, self._settings))

    def action_step_next(self) -> None:
        """The caption behind the one that is read again; the next phase, while a lab waits for it."""
        if not self.read_on():
            self._tell_lab(self._labs.next())

    def action_step_prev(self) -> None:
        """The caption before."""
        self.read_back()

    def action_lab_pause(self) -> None:
        """Hold the lab before its next phase, or let it go on."""
        self._tell_lab(self._labs.pause())

    def action_lab_abort(self) -> None:
        """End the lab; what it turned is restored."""
        self._tell_lab(self._labs.abort())

    def action_lab_open(self) -> None:
        """The labs, or what the one that has just ended found."""
        self.app.push_screen(LabsScreen(self._labs, self._desk, self.picture, self._settings))

    @on(LabMoved)
    def _show_lab(self) -> None:
        """The strip of the lab that runs; a toast when it has ended."""
        strip = self.query_one(LabStrip)
        strip.show(self._labs.view)
        self.set_class(self._labs.is_running, "-lab")
        ended = self._labs.take_end()
        if ended is not None:
            text, severity = ended
            if self._labs.unseen is not None:
                text += f" ({key_label(keys_of('lab.open', self._settings.keymap)[0])} opens it)"
            self.notify(text, severity=severity, timeout=10, markup=False)

    def _tell_lab(self, text: str) -> None:
        self.notify(text, timeout=3, markup=False)
        self._show_lab()

    def action_sweep_open(self) -> None:
        """Measure combinations of knobs, or see the sweep that runs."""
        self.app.push_screen(SweepScreen(self._desk, self._settings))

    def action_fault_open(self) -> None:
        """Break something on purpose, or clear what is in force."""
        self.app.push_screen(FaultsScreen(self._faults, self._roles, self.picture, self._settings))

    @on(CommandDone)
    def _tell_fault(self, message: CommandDone) -> None:
        """What a power cut took, and how long a change of roles; that it was done stands in the log."""
        if isinstance(message.result, RoleChange):
            self.notify(change_words(message.result), timeout=10, markup=False)
        done = message.result if isinstance(message.result, tuple) else ()
        injected = [each for each in done if isinstance(each, Injected)]
        lost = [f"{each.fault.node} lost of {line}" for each in injected for line in each.lost_files]
        if lost:
            self.notify("\n".join(lost), title="power cut", severity="warning", timeout=10, markup=False)

    def action_nodes_open(self) -> None:
        """Every server with its threads and lag."""
        self.app.push_screen(NodesScreen(self.picture, self._settings))

    def action_log_open(self) -> None:
        """All events."""
        self.app.push_screen(LogScreen(self.picture, self._settings))


def script_of(intent: Intent) -> str:
    """The statements and their undo as a script to paste."""
    knob = intent.name.knob
    value = format_value(knob, intent.value)
    rows = [f"-- {intent.name} = {value}, runs on {intent.runs_on}"]
    rows += [f"{statement};" for statement in intent.preview.statements]
    rows += [f"-- undo: {statement};" for statement in intent.preview.undo]
    return "\n".join(rows)
