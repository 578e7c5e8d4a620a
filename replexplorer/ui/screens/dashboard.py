"""The one screen: knobs to the left, what they do to the right; its mode says which keys do something."""

from __future__ import annotations

import asyncio
import math
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, ClassVar, Final

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.geometry import Size
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Input

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.experiment.lesson import LessonQuestion
from replexplorer.core.history.series import Recent
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import (
    SOURCE,
    Assignment,
    KnobName,
    Value,
    format_value,
    with_unit_of,
)  # fmt: skip
from replexplorer.core.link import ACKS_LOST
from replexplorer.core.records import dataclass
from replexplorer.core.role_change import RoleChange
from replexplorer.core.server.node_view import LATE_S, SETTLED_S, healthy, troubles
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.text import with_stack
from replexplorer.core.tick import Tick
from replexplorer.engine.lesson import LessonRun
from replexplorer.engine.outcome import ExperimentUnderWay, Injected, Preview, SetResult
from replexplorer.engine.view import BREATHE_EVERY, View
from replexplorer.ui.actions import (
    DASHBOARD,
    FAR_S,
    LEAVE_KEY,
    QUIT,
    RESET,
    SEEK_S,
    VIEW,
    DashboardMode,
    bindings_of,
    first_key,
    keys_of,
    mode_of,
)  # fmt: skip
from replexplorer.ui.board import Board
from replexplorer.ui.charts.contents import zoomed
from replexplorer.ui.experiments import ExperimentControl
from replexplorer.ui.picture import Picture, veiled
from replexplorer.ui.presenter import Presenter
from replexplorer.ui.screens.experiments import LabsScreen, SweepScreen
from replexplorer.ui.screens.faults import FaultsScreen
from replexplorer.ui.screens.lists import ListScreen, NodesScreen, epochs_screen, log_screen
from replexplorer.ui.screens.waits import WaitsScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.style.theme import TALL_ROWS, Layout, layout_for, sheet_rows
from replexplorer.ui.widgets.anatomy import AnatomyPanel
from replexplorer.ui.widgets.footer import Footer, PlayerLine, PresenterBar
from replexplorer.ui.widgets.header import Header
from replexplorer.ui.widgets.knob_panel import KnobDrawer, KnobPanel
from replexplorer.ui.widgets.lab_strip import LabStrip, LabTries
from replexplorer.ui.widgets.ledger import EpochStrip, EpochTable, EventLogPane
from replexplorer.ui.widgets.lines import Cadence, Chart, Lines
from replexplorer.ui.widgets.statement import Intent, KnobLine, StatementPanel
from replexplorer.ui.widgets.strips import BigStrip, ExposureLine, ReplicaStrip, TinyNotice, ValueStrip
from replexplorer.ui.widgets.topology import Topology
from replexplorer.ui.words.runs import Line, hint
from replexplorer.ui.words.states import KnobEffect, effect_of, lost_question, measured_of, quit_question

if TYPE_CHECKING:
    from replexplorer.engine.console import Command, Console

_EVERY_S: Final = 1.0
"""Between two drawings of what only grows: charts are half of what a tick costs to draw and to send. All of
the screen is drawn with one tick, so that a figure is the same wherever it is shown."""
_PLAYER_EVERY_S: Final = 0.25
_REFUSED_S: Final = 3.0
"""How long it stands that a key does nothing here."""
DRAWER_LEAVES: Final = 6
"""Rows that the drawer does not cover: the header, the last event, the knob line and the keys."""
NOTHING_TO_REPAIR: Final = "nothing to repair: every server answers and no replication thread is stopped"


class Ticked(Message):
    """The picture has moved on; the newest is enough."""

    def can_replace(self, message: Message) -> bool:
        """It says all that an older one does."""
        return isinstance(message, Ticked)


@dataclass
class CommandDone(Message):
    """A command has ended."""

    label: str
    result: object


@dataclass
class CommandFailed(Message):
    """A command was refused or went wrong: one line, with what to do."""

    label: str
    text: str


class DashboardScreen(Screen[None]):
    """The picture with the keys and the mouse of whoever turns, watches or plays it.

    A knob's value is staged by steps or typed, and sent after a rest or at once; a key of an action that
    the mode refuses is answered in one line.
    """

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(DASHBOARD)

    def __init__(self, view: View, settings: Settings) -> None:
        super().__init__()
        self._view = view
        self._settings = settings
        self._player = view.player
        self._stack = view.console
        """Where something can be done; None where one can only watch."""
        self.mode = mode_of(view, visits=settings.visits)
        """What can be done here."""
        self.experiments = ExperimentControl(
            view.console, [*settings.experiments], lambda: self.call_later(self._show_lab),
            settings.learn, settings.give,
        )  # fmt: skip
        """What runs behind the picture."""
        self.picture = Picture()
        """What is drawn."""
        self.board = Board()
        """The knobs."""
        self.presenter = Presenter(self.experiments)
        """What the room is shown."""
        self.layout_name = Layout.NORMAL
        """The arrangement in force."""
        self._in_turn = asyncio.Lock()
        """Commands are carried out one after the other."""
        self.under_way: list[str] = []
        """What is done meanwhile, in words."""
        self._problem = ""
        """Why what was typed is not taken."""
        self._drawn: tuple[Tick, Recent] | None = None
        """What all figures on the screen are of: a tick, and the load's window that ends with it."""
        self._cadence = Cadence(_EVERY_S)
        self._refused_s = -math.inf
        """When it was last said that a key does nothing here."""
        self._pointed_at: KnobName | None = None
        """The knob that others were told of."""
        self._followed: str | None = None
        """The knob that the driver had selected when the cursor here last went there."""
        self._asks = ""
        """The action of which it asks whether it is meant; its key says yes."""
        self._answered: tuple[str, ...] = ()
        """What was lost and is answered for."""
        self._asked_s = math.inf
        """When the lesson's question was opened."""
        self._moment_s = 0.0
        """Which the held picture is of, or will be."""

    def compose(self) -> ComposeResult:
        """Every widget of every layout; the layout's class says which are shown."""
        self._lay_out(self.app.size, update=False)  # each is styled once, as it is mounted
        settings = self._settings
        yield Header(settings, "header")
        yield LabStrip(settings, "lab-strip")
        yield Input(placeholder="a number; nothing reveals the answer", id="lesson-answer", compact=True)
        yield PresenterBar(self.presenter, settings, "presenter")
        yield ReplicaStrip(settings, "replica-strip")
        yield BigStrip(settings, "big-strip")
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield Topology(settings, "topology")
                yield KnobPanel(self.board, settings, "knobs")
                yield StatementPanel(settings, "statement")
            with Vertical(id="right"):
                yield LabTries(settings, "lab-tries")
                yield Chart(settings, "tps-chart")
                with Horizontal(id="lower"):
                    yield Chart(settings, "latency-chart")
                    yield Chart(settings, "exposure-chart")
                yield ValueStrip(settings, "value-strip")
                yield ExposureLine(settings, "exposure")
                yield AnatomyPanel(settings, "anatomy")
                yield EpochTable(settings, "epochs")
                yield EpochStrip(settings, "epoch-strip")
        yield EventLogPane(settings, "events")
        if self._player is not None:
            yield PlayerLine(settings, "player")
        yield KnobLine(settings, "knob-line")
        yield Footer(settings, "footer")
        yield TinyNotice(settings, "tiny")
        yield KnobDrawer(self.board, settings, "drawer")

    def on_mount(self) -> None:
        """Begin to listen, and to watch what rests."""
        self.query_one(Footer).items = self.allowed.footer
        self.watch(self.app, "theme", self._restyle, init=False)
        self.set_interval(0.1, self.apply_rested)
        if self._player is not None:
            self.query_one(PlayerLine).marks_s = self._player.marks_s
            self.set_interval(_PLAYER_EVERY_S, self._draw_player)
        self._listen()
        if self._settings.lesson is not None:
            self.experiments.start(self._settings.lesson)

    def on_resize(self, event: events.Resize) -> None:
        """Another size may be another layout."""
        self._arrange(event.size)

    def on_screen_resume(self) -> None:
        """Draw what came while another screen stood in front, and the lab that was started there."""
        if self.has_class("-sheet"):
            self.remove_class("-sheet")
            self._arrange(self.app.size)
        self._draw()
        self._show_lab()

    @work(exclusive=True, group="ticks", exit_on_error=False)
    async def _listen(self) -> None:
        try:
            async for found in self._view.ticks():
                tick = self._shown_of(found)
                self.picture.fold(tick)
                self.board.fold(tick)
                self.post_message(Ticked())
        except Exception as error:  # a picture that stands still must say why
            self._fail("watching", error)

    @property
    def _question(self) -> LessonQuestion | None:
        """What the room is asked now."""
        lesson = self.experiments.lesson
        return lesson.step.ask if lesson is not None and lesson.is_open else None

    def _shown_of(self, tick: Tick) -> Tick:
        """Of a tick what may be shown: nothing that answers an open question, from when it is open."""
        if self._question is None:
            self._asked_s = math.inf
            return tick
        self._asked_s = min(self._asked_s, self.picture.tick.at_s if self.picture.tick else 0.0)
        return tick if tick.at_s < self._asked_s else veiled(tick, self._question.figure)

    # -- keys

    @property
    def allowed(self) -> DashboardMode:
        """The mode, in which a held picture's time can be moved."""
        return self.mode.frozen if self.picture.is_frozen else self.mode

    def key(self, action: str) -> str:
        """The first key of an action, as it is shown."""
        return first_key(action, self._settings.keymap)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """What the mode allows; a hand on a lab only while one runs, its captions for who presents."""
        if action in self.allowed.refused:
            return False
        if self._player is not None:
            return True
        lesson, run = self.experiments.lesson, self.experiments.running
        if action == "lesson_answer":
            return self._question is not None
        if action == "lesson_reset" or (action == "step_prev" and self.presenter.began_s is None):
            return lesson is not None
        if action in ("step_next", "step_prev", "lab_pause", "lab_abort"):
            return run is not None and (lesson is None or action != "lab_pause")
        return action != "speed"

    async def take_key(self, event: events.Key) -> bool:
        """Take a key the moment it is read; False leaves it to Textual.

        Here keys act in the order in which they were typed, also in a burst (a slow line): a binding that
        Textual looks for comes later. An open field takes every key. While it asks whether something is
        meant, its key says yes and any other no; while it asks whether to restore what was lost, y and n
        answer and all other keys are as ever.
        """
        keymap = self._settings.keymap
        if self.presenter.began_s is not None:
            self.presenter.press(event, self._settings.monotonic())
            self._draw_bar()
        if event.key == LEAVE_KEY:
            return False
        if asked := self._asks:
            self._ask(())
            if event.key in keys_of(asked, keymap):
                if asked == QUIT:
                    await self.app.run_action("app_leave")
                else:
                    self.experiments.order(LessonRun.reset)
            return True
        if self.focused is not None:  # the field of an answer
            if event.key == "escape":
                self._close_answer()
            return event.key == "escape"
        if self.board.typed is not None:
            self._feed(self.board.typed, event)
            return True
        if event.key in ("y", "n") and self._lost:
            self._answered = self._lost
            self._ask(())
            self.ask("re-apply", lambda console: console.give_back(event.key == "y"))
            return True
        refused = self.allowed.refused
        if any(event.key in keys_of(one.id, keymap) for one in DASHBOARD if one.method in refused):
            self._refuse()
            return True
        character = event.character or ""
        if self._can_type and (character.isdigit() or character == "."):
            if "knob_type" in self.mode.refused:
                self._refuse()
            else:
                self._open_value(character)
            return True
        bound = self.active_bindings.get(event.key)
        if bound is None or not bound.enabled:
            return False
        await self.app.run_action(bound.binding.action, bound.node)
        return True

    @property
    def _can_type(self) -> bool:
        return self.board.selected is not None and self.layout_name is not Layout.TINY

    def _refuse(self) -> None:
        """In one toast, however many keys are tried while it stands."""
        now_s = self._settings.monotonic()
        if now_s - self._refused_s >= _REFUSED_S:
            self._refused_s = now_s
            self.notify(self.mode.why, timeout=_REFUSED_S)

    def _feed(self, typed: str, event: events.Key) -> None:
        """Give a key to the open field."""
        searching = self.board.searching
        if event.key == "enter" and not searching:
            self._take_value(typed)
        elif event.key == "escape":
            self.action_knob_revert()
        elif event.key in ("up", "down") and searching:
            self.action_move(-1 if event.key == "up" else 1)
        else:
            if event.key == "enter":
                self.board.close()
            elif event.key == "backspace":
                self.board.type(typed[:-1])
            elif event.is_printable and event.character:
                self.board.type(typed + event.character)
            self._draw_knobs()

    def on_paste(self, event: events.Paste) -> None:
        """Into the open field, the first line."""
        if self.board.typed is not None:
            self.board.type(self.board.typed + event.text.partition("\n")[0])
            self._draw_knobs()

    def asks_before_quit(self) -> bool:
        """Ask in the last row before our load, lab or sweep is ended; False: nothing to ask."""
        if self.mode.refused:  # nothing ends with it
            return False
        run = self.experiments.running
        runs = f"{run.experiment.kind} {run.experiment.name}" if run else ""
        question = quit_question(self.picture.tick, runs, self.key(QUIT))
        self._ask(question)
        return bool(question)

    def _ask(self, question: tuple[Line, ...], action: str = QUIT) -> None:
        self._asks = action if question else ""
        shown = question or lost_question(self._lost)
        self.query_one(Footer).ask(shown)
        self.set_class(bool(shown), "-asking")

    @property
    def _lost(self) -> tuple[str, ...]:
        """What restarts took and nobody has answered for; what was answered is not asked again."""
        lost = self.picture.tick.lost if self.picture.tick is not None else ()
        if not lost:
            self._answered = ()
        return () if lost == self._answered else lost

    # -- knobs

    def action_move(self, rows: int) -> None:
        """Select a knob above or below."""
        if not self.board.searching:
            self.board.close()
        self._problem = ""
        self.board.move(rows)
        self._draw_knobs()

    def action_step(self, direction: int, coarse: bool = False) -> None:
        """A step of the selected knob, or through a recording, or of a held picture through this session."""
        by_s = direction * (FAR_S if coarse else SEEK_S)
        if self._player is not None:
            self._player.seek(by_s)
        elif self.picture.is_frozen and self.picture.tick is not None:
            self._moment_s += by_s
            self._moment_s = min(max(self._moment_s, self.picture.origin_s), self.picture.tick.at_s)
            self._look_back(self._moment_s)
        else:
            self._stage(direction, coarse)

    def _stage(self, direction: int, coarse: bool = False) -> None:
        """A step of the selected knob."""
        self._problem = ""
        self.board.step(direction, self._settings.monotonic(), coarse=coarse)
        self._draw_knobs()

    def action_knob_apply(self) -> None:
        """Apply what is staged now; with nothing staged, show all knobs, in the drawer of a small screen, or
        the usual ones again."""
        if self.board.staged:
            self._send()
        elif self.layout_name is Layout.COMPACT:
            self.toggle_class("-drawer")
            self.call_after_refresh(self._draw)
        else:
            self.board.shows_all = not self.board.shows_all
            self._draw_knobs()

    def action_knob_revert(self) -> None:
        """Drop, from the inside out: the field, what is staged, the filter, the drawer."""
        self._problem = ""
        if self.board.searching:
            self.board.drop_search()
        elif not (self.board.close() or self.board.revert()):
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
        self.board.search()
        self._draw_knobs()

    def action_knob_type(self) -> None:
        """Open the field for a value that begins with a letter: a word of the knob."""
        if self._can_type:
            self._open_value("")

    def action_knob_undo(self) -> None:
        """Take the last change back."""
        self.ask("undo", lambda console: console.undo())

    def action_flip(self, key: str, first: str, second: str) -> None:
        """Switch a knob of the source between two values. What is so decides, not what was asked: after a
        restart the two may differ."""
        name = KnobName(key, SOURCE)
        if name not in self.board.views:
            self.notify(f"this server has no {name.knob.label}", severity="warning")
            return
        view = self.board.views[name]
        now = self.board.asked(name) if view.effective in (None, view.requested) else view.effective
        self.board.stage(name, second if now == first else first, self._settings.monotonic())
        self._send()

    def action_partition(self, value: str) -> None:
        """Pull the cable of every link (`both`), or plug it in again, whatever was cut (`none`)."""
        for name in self.board.views:
            if name.key == keys.PARTITION:
                self.board.stage(name, value, self._settings.monotonic())
        self._send()

    def action_stack_reset(self) -> None:
        """All knobs to their defaults."""
        self.board.revert()
        self.ask("reset", lambda console: console.reset())

    def action_statement_copy(self) -> None:
        """Copy what the selected knob runs and how to take it back, over OSC 52."""
        intent = self.intent()
        if intent is not None:
            value = format_value(intent.name.knob, intent.value)
            rows = [f"-- {intent.name} = {value}, runs on {intent.runs_on}"]
            rows += [f"{statement};" for statement in intent.preview.statements]
            rows += [f"-- undo: {statement};" for statement in intent.preview.undo]
            self.app.copy_to_clipboard("\n".join(rows))
            self.notify("\n".join(rows), title="copied", timeout=4)

    def select_knob(self, name: KnobName) -> None:
        """Select a knob, as the palette and a click do."""
        self.board.close()
        self.board.select(name)
        self.action_move(0)

    def apply_rested(self) -> None:
        """Apply what has been staged long enough ago."""
        if self.board.due(self._settings.monotonic(), self._settings.rest_s):
            self._send()

    def _send(self) -> None:
        assignments = self.board.send()
        if assignments:
            self.ask("set", lambda console: console.set(tuple(assignments)))
        self._draw_knobs()

    def _open_value(self, text: str) -> None:
        self._problem = ""
        self.board.typed = text
        self._draw_knobs()

    def _take_value(self, text: str) -> None:
        name = self.board.selected
        if name is None or self._stack is None:
            return
        try:
            value = with_unit_of(name.knob, text, self.board.asked(name))
            assignment = self._stack.parse(f"{name}={value}")
        except ReplexplorerError as error:
            self._problem = str(error)
        else:
            self._problem = ""
            self.board.stage(name, assignment.value, self._settings.monotonic())
        self.board.close()
        self._send()

    @property
    def drawer_open(self) -> bool:
        """The drawer with all knobs stands over a small screen."""
        return self.has_class("-drawer")

    @on(KnobPanel.Picked)
    def _pick(self, message: KnobPanel.Picked) -> None:
        self.select_knob(message.name)

    @on(KnobPanel.Stepped)
    def _click_step(self, message: KnobPanel.Stepped) -> None:
        if "knob_type" in self.mode.refused:
            self._refuse()
        else:
            self._stage(message.direction)

    @on(KnobPanel.Scrolled)
    def _wheel(self, message: KnobPanel.Scrolled) -> None:
        self.action_move(message.rows)

    # -- commands and what came of them

    def ask(self, label: str, command: Command[Any], beside: str = "") -> None:
        """Carry a command out after those that were asked for before, or, where `beside` says what is done
        meanwhile, next to them; `label` comes back with its end."""
        self.run_worker(self._carry_out(label, command, beside), group="commands", exit_on_error=False)

    async def _carry_out(self, label: str, command: Command[Any], beside: str) -> None:
        """A command is never cancelled by the next one, and every failure is reported in one place."""
        if self._stack is None:
            return
        self.under_way += [beside] if beside else []
        try:
            async with nullcontext() if beside else self._in_turn:
                self.post_message(CommandDone(label, await command(self._stack)))
        except Exception as error:  # a defect must not end the dashboard, nor pass unseen
            self._fail(label, error)
        finally:
            if beside:
                self.under_way.remove(beside)

    def _fail(self, label: str, error: Exception) -> None:
        """Say what went wrong and what to do; an experiment of this dashboard's own ends by a key."""
        text = str(error) if isinstance(error, ReplexplorerError) else f"{type(error).__name__}: {error}"
        if isinstance(error, ExperimentUnderWay):
            hint = "wait for its end (in a shell, `--force` does not wait)"
            hint = f"abort it first ({self.key('lab.abort')})" if error.is_own else hint
            text = f"{error.message}: {hint}"
        self.post_message(CommandFailed(label, text))

    @on(CommandDone)
    def _take_result(self, message: CommandDone) -> None:
        """Confirm what was set, and report what only the result says; that it was done is in the log."""
        result = message.result
        if message.label == "set":
            self.board.confirm(applied=True)
        for warning in result.warnings if isinstance(result, SetResult) else ():
            self.notify(warning, severity="warning", timeout=8)
        done = result if isinstance(result, tuple) else ()
        if message.label == "repair":
            self.notify(f"repaired: {'; '.join(done)}" if done else NOTHING_TO_REPAIR, timeout=8)
        if isinstance(result, RoleChange):
            self.notify(result.words, timeout=10)
        injected = [each for each in done if isinstance(each, Injected)]
        lost = [f"{each.fault.node} lost of {line}" for each in injected for line in each.lost_files]
        if lost:
            self.notify("\n".join(lost), title="power cut", severity="warning", timeout=10)
        self._draw_knobs()

    @on(CommandFailed)
    def _take_failure(self, message: CommandFailed) -> None:
        if message.label == "set":
            self.board.confirm(applied=False)
        text = with_stack(message.text, self._settings.stack)
        self.notify(text, title=f"{message.label} failed", severity="error", timeout=10)
        self._draw_knobs()

    def action_load_toggle(self) -> None:
        """Stop or start the load."""
        self.ask("load", lambda console: console.toggle_load())

    def action_mark_add(self) -> None:
        """Put a mark on the charts."""
        self.ask("mark", lambda console: console.mark("mark"))

    def action_stack_repair(self) -> None:
        """Start what is dead or stopped, telling what is done."""
        if self.under_way:
            told = f"repair again when this is done: {', '.join(self.under_way)}"
            self.notify(told, severity="warning", timeout=4)
        else:
            self.ask("repair", lambda console: console.repair(lambda text, _=None: self.notify(text)))

    # -- charts

    def action_chart_freeze(self) -> None:
        """Hold the whole picture or let it go, while the load goes on and the knobs can be turned; pause or
        play a recording."""
        if self._player is not None:
            self._player.toggle()
        else:
            self.picture.freeze()
            self._moment_s = self.picture.tick.at_s if self.picture.tick else 0.0
            self.query_one(Footer).items = self.allowed.footer
        self._draw()

    @work(exclusive=True, group="past", exit_on_error=False)
    async def _look_back(self, until_s: float) -> None:
        """Hold the picture as it was at this moment, folded from the ticks until then."""
        past = Picture()
        try:
            for number, tick in enumerate(self._view.past()):
                if past.tick is not None and tick.at_s > until_s:
                    break
                past.fold(self._shown_of(tick))
                if number % BREATHE_EVERY == 0:
                    await asyncio.sleep(0)
        except ReplexplorerError as error:
            self._fail("looking back", error)
        self.picture.hold(past)
        if until_s < past.origin_s:
            self._moment_s = past.origin_s
            self.notify("this session is not recorded: only its last minutes are kept", severity="warning")
        self._draw()

    def action_zoom(self, steps: int) -> None:
        """A shorter (-1) or longer page of time."""
        self.picture.page_s = zoomed(self.picture.page_s, steps)
        self._draw()

    def action_chart_yscale(self) -> None:
        """The TPS axis linear or logarithmic; it never changes by itself."""
        self.picture.log_scale = not self.picture.log_scale
        self._draw()

    def action_view_next(self) -> None:
        """The next of the charts that take turns: all where there is room for one, else what stands next to
        TPS and latency."""
        small = self.layout_name is Layout.COMPACT and not self.has_class("-tall")
        views: tuple[str, ...] = ("", "-exposure", "-lag")
        if self.layout_name is Layout.WIDE:
            views = ("", "-lag")
        elif small or self.presenter.began_s is not None:
            views = ("", "-latency", "-exposure", "-lag")
        shown = next((each for each in ("-lag", "-latency", "-exposure") if self.has_class(each)), "")
        self._turn_to(views[(views.index(shown) + 1) % len(views)] if shown in views else views[1])

    def action_chart_exposure(self) -> None:
        """What a failure would lose over time, in place of another chart, or that one again; a large
        screen has room for all."""
        shows = self.has_class("-exposure") and not self.has_class("-lag")
        self._turn_to("" if shows else "-exposure")

    def _turn_to(self, view: str) -> None:
        """Show this chart: `-latency`, `-exposure`, `-lag` (in the place of exposure), or TPS for none."""
        self.set_class(view == "-latency", "-latency")
        self.set_class(view in ("-exposure", "-lag"), "-exposure")
        self.set_class(view == "-lag", "-lag")
        self.call_after_refresh(self._draw)

    # -- a recording, a lab, a room

    def action_speed(self, faster: bool) -> None:
        """The next speed of a recording, or the one before."""
        if self._player is not None:
            self._player.change_speed(faster)
            self._draw_player()

    def action_step_next(self) -> None:
        """The next mark of a recording; the caption behind the one that is read again; the next phase, while
        a lab waits for it."""
        if self._player is not None:
            self._player.step(forward=True)
        elif (lesson := self.experiments.lesson) is not None:
            is_last = lesson.at + 1 == len(lesson.lesson.steps) and not lesson.is_open
            self.experiments.order(None if is_last else LessonRun.next)
        elif self.presenter.read(1):
            self._draw_bar()
        else:
            self._tell_lab(self.experiments.next())

    def action_step_prev(self) -> None:
        """The mark of a recording, or the caption, before."""
        if self._player is not None:
            self._player.step(forward=False)
        elif self.experiments.lesson is not None:
            self.experiments.order(LessonRun.back)
        elif self.presenter.read(-1):
            self._draw_bar()

    def action_lesson_answer(self) -> None:
        """Open the field for the room's answer."""
        self.add_class("-answers")
        field = self.query_one("#lesson-answer", Input)
        field.clear()
        field.focus()

    @on(Input.Submitted, "#lesson-answer")
    def _take_answer(self, event: Input.Submitted) -> None:
        """A number, also that of a choice; nothing reveals the answer."""
        question, text = self._question, event.value.strip()
        if question is not None:
            choices = {str(number): each.text for number, each in enumerate(question.choices, 1)}
            given = choices.get(text, text) or None
            self.experiments.order(lambda lesson: lesson.answer(given))
        self._close_answer()

    def _close_answer(self) -> None:
        self.set_focus(None)
        self.remove_class("-answers")

    def action_lesson_reset(self) -> None:
        """Ask whether the lesson's step is to begin again."""
        keys = hint(self.key(RESET), "does, any other key cancels")
        self._ask(([(" Begin this step again, rows and all?  ", "warn b"), *keys],), RESET)

    def action_lab_pause(self) -> None:
        """Hold the lab before its next phase, or let it go on."""
        self._tell_lab(self.experiments.pause())

    def action_lab_abort(self) -> None:
        """End the lab; what it turned is restored."""
        self._tell_lab(self.experiments.abort())

    def _tell_lab(self, text: str) -> None:
        self.notify(text, timeout=3)
        self._show_lab()

    def _show_lab(self) -> None:
        """The strip of the lab that runs, its tries in place of the charts where it has such; a toast when it
        has ended."""
        labs, run = self.experiments, self.experiments.running
        if run is not None:
            strip = self.query_one(LabStrip)
            strip.wall_s = self.picture.tick.wall_s if self.picture.tick is not None else 0.0
            strip.show(run)
        self.set_class(run is not None, "-lab")
        self.set_class(labs.lesson is not None, "-lesson")
        if self._question is None and self.focused is not None:
            self._close_answer()
        tries = run.step.tries if run is not None and run.step is not None else ()
        self.set_class(bool(tries), "-tries")
        link = self.picture.tick.rtt if self.picture.tick is not None else None
        self.query_one(LabTries).show((tries, link.rtt_asked_ms if link is not None else 0.0))
        if labs.end is not None:
            (text, severity), labs.end = labs.end, None
            if labs.unseen is not None:
                text += f" ({self.key('lab.open')} opens it)"
            self.notify(text, severity=severity, timeout=10)

    def action_present_toggle(self) -> None:
        """Begin to present, or end it."""
        self.presenter.toggle(self._settings.monotonic())
        presents = self.presenter.began_s is not None
        self.set_class(presents, "-present")
        self.query_one(LabStrip).brief = presents
        self.query_one(LabStrip).repaint()
        self.board.reduce(self.presenter.lesson_keys)
        self._draw_bar()
        self.call_after_refresh(self._draw)

    # -- other screens

    def action_lab_open(self) -> None:
        """The labs, or what the one that has just ended found."""
        self._open_sheet(LabsScreen(self.experiments, self.picture, self._settings))

    def action_sweep_open(self) -> None:
        """Measure combinations of knobs, or see the sweep that runs."""
        self._open_sheet(SweepScreen(self.experiments, self._settings))

    def action_fault_open(self) -> None:
        """Break something on purpose, or clear what is in force."""
        if self._stack is not None:
            self._open_sheet(
                FaultsScreen(self._stack, self.ask, self.under_way, self.picture, self._settings)
            )

    def action_nodes_open(self) -> None:
        """Every server with its threads, lag, GTID sets and binlogs."""
        self._open_sheet(NodesScreen(self.picture, self._stack, self._settings))

    def action_waits_open(self) -> None:
        """What the source's sessions wait for."""
        if self._player is None:
            self._open_sheet(WaitsScreen(self._view, self._settings))
        else:
            self.notify("a recording does not include what sessions waited for", severity="warning")

    def action_log_open(self) -> None:
        """All events."""
        self.app.push_screen(log_screen(self.picture, self._settings))

    def action_ledger_open(self) -> None:
        """All epochs."""
        self._open_sheet(epochs_screen(self.picture, self.board, self._settings))

    def _open_sheet(self, screen: ListScreen) -> None:
        """Open it below the charts, which go on."""
        screen.is_sheet = True
        self.add_class("-sheet")
        self.app.push_screen(screen)
        self._arrange(self.app.size)

    # -- what is drawn

    @on(Ticked)
    def _show_tick(self) -> None:
        """Once a second, and at once what is said in words."""
        above = self.app.screen_stack[self.app.screen_stack.index(self) + 1 :]
        if all(screen.styles.background.a < 1 for screen in above) and self._is_due():
            self._draw_tick()

    def _draw(self) -> None:
        """Give every visible widget the picture after something else than a tick has changed it."""
        self._is_due()  # it counts as drawn
        self._draw_tick()

    def _is_due(self) -> bool:
        """Whether it is time to draw, by the clock or because something else is said than figures."""
        tick, log = self.picture.shown.tick, self.picture.shown.log
        if tick is None:
            return False
        words = (
            log[-1] if log else None,
            (tick.state, tick.protection.state, tick.lost, tick.driver_selects),
            (tick.load is None, tick.exposure is None),
            [(link.partition, link.healing, link.fault) for link in (*tick.links, *tick.pairs)],
            [(node.reachable, node.io_thread, node.sql_thread) for node in tick.nodes],
            (self.board.views, set(self.board.pending)),
        )
        return self._cadence.is_due(tick.at_s, words)

    def _draw_tick(self) -> None:
        """Give every visible widget the new picture; each draws only what differs."""
        picture = self.picture.shown
        tick, recent = picture.tick, picture.recent
        if tick is None:
            return
        self._drawn = tick, recent
        self._follow(tick)
        self.presenter.fold(tick)
        self.board.reduce(self.presenter.lesson_keys)
        find, now = self.query_one, self.picture.tick or tick
        with self.app.batch_update():
            find(Header).show(self.picture)
            self._draw_troubles(tick)
            if self.layout_name is Layout.TINY:
                find(TinyNotice).show(picture)
            else:
                for of_tick in (Topology, AnatomyPanel, ExposureLine):
                    find(of_tick).show(tick)
                for of_picture in (BigStrip, ValueStrip, EventLogPane):
                    find(of_picture).show(picture)
                find(Footer).show("" if healthy(now.nodes) else "down")
                epochs = self.board.labelled(tick.epochs)
                find(EpochTable).show((epochs, picture.origin_s, tick.protection.unprotected))
                find(EpochStrip).show(epochs)
                self._draw_charts()
                self._draw_knobs()
                self._draw_bar()
                self._draw_player()
        if self.experiments.lesson is not None:
            self._show_lab()
        if not self._asks:
            self._ask(())

    def _follow(self, tick: Tick) -> None:
        """Where one watches, the cursor goes where the driver's goes; between two of its moves it is one's
        own."""
        if self.mode is VIEW and tick.driver_selects != self._followed and self.board.typed is None:
            self._followed = tick.driver_selects
            name = next((each for each in self.board.views if str(each) == self._followed), None)
            if name is not None:
                self.board.select(name)

    def _draw_player(self) -> None:
        """Where a recording stands."""
        if self._player is not None:
            self.query_one(PlayerLine).show(self._player.position)

    def _draw_bar(self) -> None:
        """What the room is shown, while somebody presents."""
        if self._drawn is not None and self.presenter.began_s is not None:
            tick, recent = self._drawn
            self.query_one(PresenterBar).show((tick, recent.tps, self._settings.monotonic()))

    def _draw_troubles(self, tick: Tick) -> None:
        """The replicas' row, while something is wrong with one of them; nothing is while the stack starts."""
        late_s = SETTLED_S if self.has_class("-trouble") else LATE_S
        waits = tick.protection.state is not ProtectionState.OFF
        lost = [link.replica for link in tick.links if waits and link.partition == ACKS_LOST]
        found = () if tick.state == "starting" else troubles(tick.nodes, tick.truth, late_s, lost)
        self.query_one(ReplicaStrip).show(found)
        if bool(found) is not self.has_class("-trouble"):
            self.set_class(bool(found), "-trouble")
            self._fit_drawer()
            self.call_after_refresh(self._draw)

    def _draw_charts(self) -> None:
        for chart in self.query(Chart):
            if chart.display:
                name = str(chart.id).removesuffix("-chart")
                lag = name == "exposure" and self.has_class("-lag")
                chart.show(self.picture.chart("lag" if lag else name))

    def _draw_knobs(self) -> None:
        """The panel, what the selected knob runs, and the knob line."""
        board, tick = self.board, self.picture.tick_of_knobs
        if tick is None:
            return
        if self.layout_name is Layout.COMPACT:
            board.shows_all = self.drawer_open
        shown = self.intent()
        with self.app.batch_update():
            panel = self.query_one(KnobDrawer) if self.drawer_open else self.query_one("#knobs", KnobPanel)
            panel.show(tick)
            if shown is not None:
                self.query_one(StatementPanel).show(shown)
                self.query_one(KnobLine).show(shown)
        if self._stack is not None and board.selected != self._pointed_at:
            self._pointed_at = board.selected
            self._point(self._stack, board.selected)

    @work(exclusive=True, group="point", exit_on_error=False)
    async def _point(self, console: Console, name: KnobName | None) -> None:
        """Show who watches which knob is selected."""
        with suppress(ReplexplorerError):
            await console.select(name)

    def intent(self) -> Intent | None:
        """The selected knob with what its value runs and risks."""
        name, tick = self.board.selected, self.picture.tick_of_knobs
        if name is None or name not in self.board.views:
            return None
        view, value = self.board.views[name], self.board.asked(name)
        applying = name in self.board.pending
        return Intent(
            name, self.board.label(name), value, view.requested,
            self._planned(name, value, view.requested), self.board.place,
            KnobEffect("applying…", False) if applying else effect_of(view, tick), measured_of(name, tick),
            self._problem, view.here, None if self.board.searching else self.board.typed,
        )  # fmt: skip

    def _planned(self, name: KnobName, value: Value, requested: Value) -> Preview:
        """What the value runs; for the one in force, what would bring it back from another."""
        if self._stack is None:
            return Preview((), (), ())
        other = next((one for one in name.knob.steps if one != value), value)
        try:
            planned = self._stack.preview([Assignment((name,), value)])
            if value != requested:
                return planned
            back = self._stack.preview([Assignment((name,), other)])
            return Preview(back.undo, (), planned.warnings)
        except ReplexplorerError as error:
            return Preview((), (), (str(error),))

    def _arrange(self, size: Size) -> None:
        """Set the layout's class; the stylesheet does the rest."""
        with self.app.batch_update():
            self._lay_out(size)
            self._fit_drawer()
            self.board.close()
            self.query_one(Footer).layout_name = self.layout_name
            self.query_one(Footer).repaint()
        self.call_after_refresh(self._draw)

    def _lay_out(self, size: Size, *, update: bool = True) -> None:
        self.layout_name = layout_for(*size)
        classes = {f"-{layout}": layout is self.layout_name for layout in Layout}
        classes["-tall"] = size.height >= TALL_ROWS
        classes["-present"] = self.presenter.began_s is not None and not self.has_class("-sheet")
        if self.layout_name is not Layout.COMPACT:
            classes["-drawer"] = False
        self.update_classes(classes, update=update)
        self.styles.padding = (0, 0, sheet_rows(*size) if self.has_class("-sheet") else 0, 0)

    def _fit_drawer(self) -> None:
        """Leave the rows above and below the drawer free, that of the replicas' troubles too."""
        leaves = DRAWER_LEAVES + self.has_class("-trouble")
        self.query_one(KnobDrawer).styles.height = max(1, self.app.size.height - leaves)

    def _restyle(self) -> None:
        with self.app.batch_update():
            for widget in self.query(Lines):
                widget.restyle()
            for chart in self.query(Chart):
                chart.refresh()
