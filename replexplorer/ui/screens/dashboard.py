"""The one screen: knobs to the left, what they do to the right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import Input

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.knobs import PRIMARY, Assignment, KnobName, Value, format_value
from replexplorer.core.tick import Tick
from replexplorer.engine.facade import Facade, Preview
from replexplorer.ui.actions import DASHBOARD, Action
from replexplorer.ui.board import Board
from replexplorer.ui.commander import CommandDone, Commander, CommandFailed
from replexplorer.ui.layout import TALL_ROWS, Layout, layout_for
from replexplorer.ui.messages import Ticked
from replexplorer.ui.picture import Picture
from replexplorer.ui.screens.ledger import LedgerScreen
from replexplorer.ui.screens.log import LogScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.widgets.chart import Chart
from replexplorer.ui.widgets.entry import Entry
from replexplorer.ui.widgets.epochs import Epochs, EpochStrip
from replexplorer.ui.widgets.event_log import EventLog
from replexplorer.ui.widgets.footer import Footer
from replexplorer.ui.widgets.header import Header
from replexplorer.ui.widgets.knob_panel import KnobDrawer, KnobPanel
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.widgets.statement import TYPED_WIDTH, Intent, KnobLine, Statement
from replexplorer.ui.widgets.topology import Topology
from replexplorer.ui.widgets.value_strip import BigStrip, TinyNotice, ValueStrip

DRAWER_LEAVES = 6
"""Rows that the drawer does not cover: the header, the last event, the knob line and the keys."""


def bindings_of(actions: tuple[Action, ...]) -> list[BindingType]:
    """The registry's rows as bindings."""
    return [Binding(action.keys, action.method, action.title, show=False, id=action.id) for action in actions]


class DashboardScreen(Screen[None]):
    """Draws the picture, handles the keys, and asks the facade."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_of(DASHBOARD)
    AUTO_FOCUS = ""

    def __init__(self, facade: Facade, settings: Settings) -> None:
        super().__init__()
        self._facade = facade
        self._settings = settings
        self.picture = Picture()
        """What is drawn."""
        self.board = Board()
        """The knobs."""
        self.layout_name = Layout.NORMAL
        """The arrangement in force."""
        self._commander = Commander(self.post_message)
        self._problem = ""

    def compose(self) -> ComposeResult:
        """Every widget of every layout; the layout's class says which are shown."""
        glyphs = self._settings.glyphs
        keymap: Mapping[str, str] = self._settings.keymap
        yield Header(glyphs=glyphs, id="header")
        yield BigStrip(glyphs=glyphs, id="big-strip")
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield Topology(glyphs=glyphs, id="topology")
                yield KnobPanel(self.board, glyphs=glyphs, id="knobs")
                yield Statement(glyphs=glyphs, id="statement")
            with Vertical(id="right"):
                yield Chart(glyphs=glyphs, id="tps-chart")
                yield Chart(glyphs=glyphs, id="latency-chart")
                yield ValueStrip(glyphs=glyphs, id="value-strip")
                yield Epochs(glyphs=glyphs, id="epochs")
                yield EpochStrip(glyphs=glyphs, id="epoch-strip")
        yield EventLog(glyphs=glyphs, id="events")
        yield KnobLine(glyphs=glyphs, id="knob-line")
        yield Footer(keymap, glyphs=glyphs, id="footer")
        yield TinyNotice(glyphs=glyphs, id="tiny")
        yield KnobDrawer(self.board, glyphs=glyphs, id="drawer")
        yield Entry("value")
        yield Entry("filter")

    def on_mount(self) -> None:
        """Begin to listen, to work off commands and to watch what rests."""
        self._arrange(self.app.size.width, self.app.size.height)
        self.watch(self.app, "theme", self._restyle, init=False)
        self.set_interval(0.1, self.apply_rested)
        self._listen()
        self._work_off()

    def on_resize(self, event: events.Resize) -> None:
        """Another size may be another layout."""
        self._arrange(event.size.width, event.size.height)

    def on_screen_resume(self) -> None:
        """Draw what came while another screen stood in front."""
        self._draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Repair only while something is down."""
        return self._node_down if action == "stack_repair" else True

    @work(exclusive=True, group="ticks", exit_on_error=False)
    async def _listen(self) -> None:
        try:
            async for tick in self._facade.ticks():
                self.picture.fold(tick)
                self.board.fold(tick)
                self.post_message(Ticked())
        except ReplexplorerError as error:
            self.post_message(CommandFailed("watching", error.message, error.hint))
        except Exception as error:  # a picture that stands still must say why
            self.post_message(CommandFailed("watching", f"{type(error).__name__}: {error}", ""))

    @work(exclusive=True, group="commands", exit_on_error=False)
    async def _work_off(self) -> None:
        await self._commander.run()

    @on(Ticked)
    def _show_tick(self) -> None:
        if self.is_current:
            self._draw()

    def _draw(self) -> None:
        """Give every visible widget the new picture; each draws only what differs."""
        picture, tick = self.picture, self.picture.tick
        if tick is None:
            return
        with self.app.batch_update():
            header = self.query_one(Header)
            header.point = picture.point
            header.elapsed_s = picture.elapsed_s
            header.frozen = picture.frozen_at_s is not None
            header.tick = tick
            if self.layout_name is Layout.TINY:
                self.query_one(TinyNotice).tick = tick
                return
            self.query_one(Topology).tick = tick
            self.query_one(BigStrip).tick = tick
            self.query_one(ValueStrip).tick = tick
            self.query_one(EventLog).events = tuple(picture.log)[-8:]
            self.query_one(Footer).condition = "down" if self._node_down else ""
            if picture.frozen_at_s is None:
                self._draw_epochs(tick)
            self._draw_charts()
            self._draw_knobs()

    def _draw_epochs(self, tick: Tick) -> None:
        table = self.query_one(Epochs)
        table.origin_s = self.picture.origin_s
        table.epochs = tick.epochs
        self.query_one(EpochStrip).epochs = tick.epochs

    def _draw_charts(self) -> None:
        tps, latency = self.picture.charts(wide=self.layout_name is Layout.WIDE)
        for name, model in (("#tps-chart", tps), ("#latency-chart", latency)):
            chart = self.query_one(name, Chart)
            if chart.display:
                chart.show(model)

    def _draw_knobs(self) -> None:
        """The panel, what the selected knob runs, and the knob line."""
        drawer = self.query_one(KnobDrawer)
        panel = drawer if self.drawer_open else self.query_one("#knobs", KnobPanel)
        panel.show(self.picture.tick)
        intent = self.intent(panel.hidden_below)
        self.query_one(Statement).intent = intent
        line = self.query_one(KnobLine)
        line.intent = intent
        if intent is not None:
            effect = panel.effect(intent.name)
            applying = intent.name in self.board.pending
            line.effect = ("applying…", False) if applying else (effect.text, effect.as_asked)

    def intent(self, hidden_below: int = 0) -> Intent | None:
        """The selected knob with what its value runs and risks."""
        name = self.board.selected
        if name is None or name not in self.board.views:
            return None
        value = self.board.asked(name)
        requested = self.board.views[name].requested
        return Intent(
            name, self.board.label(name), value, requested, self._preview(name, value, requested),
            self.board.place, hidden_below, self._problem,
        )  # fmt: skip

    def _preview(self, name: KnobName, value: Value, requested: Value) -> Preview:
        """What the value runs; for the one in force, what would bring it back from another."""
        try:
            if value != requested:
                return self._facade.preview([Assignment((name,), value)])
            other = next((one for one in name.knob.steps if one != value), value)
            back = self._facade.preview([Assignment((name,), other)])
            return Preview(back.undo, (), self._facade.preview([Assignment((name,), value)]).warnings)
        except ReplexplorerError as error:
            return Preview((), (), (str(error),))

    @property
    def drawer_open(self) -> bool:
        """The drawer with all knobs stands over a small screen."""
        return self.has_class("-drawer")

    @property
    def _node_down(self) -> bool:
        tick = self.picture.tick
        return tick is not None and any(not node.reachable for node in tick.nodes)

    def _arrange(self, width: int, height: int) -> None:
        """Set the layout's class; the stylesheet does the rest."""
        self.layout_name = layout_for(width, height)
        with self.app.batch_update():
            for layout in Layout:
                self.set_class(layout is self.layout_name, f"-{layout}")
            self.set_class(height >= TALL_ROWS, "-tall")
            if self.layout_name is not Layout.COMPACT:
                self.remove_class("-drawer")
            self.query_one(KnobDrawer).styles.height = max(1, height - DRAWER_LEAVES)
            self._close_entries()
            self.query_one(Footer).layout_name = self.layout_name
        self.call_after_refresh(self._draw)

    def _restyle(self) -> None:
        with self.app.batch_update():
            for widget in self.query(Lines):
                widget.restyle()
            for chart in self.query(Chart):
                chart.refresh()

    # knobs

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
        """Apply what is staged now; with nothing staged, open or close the drawer of a small screen."""
        if self.board.staged:
            self._send()
        elif self.layout_name is Layout.COMPACT:
            self.toggle_class("-drawer")
            self.call_after_refresh(self._draw)

    def action_knob_revert(self) -> None:
        """Drop, from the inside out: the field, what is staged, the filter, the drawer."""
        self._problem = ""
        if not (self._close_entries() or self.board.revert()):
            if self.board.filter:
                self.board.narrow("")
            else:
                self.remove_class("-drawer")
        self._draw()

    def action_knob_filter(self) -> None:
        """Open the filter's field at the head of the knobs."""
        if self.layout_name is Layout.COMPACT:
            self.add_class("-drawer")
        self.call_after_refresh(self._open_filter)

    def action_knob_undo(self) -> None:
        """Take the last change back."""
        self._commander.ask("undo", self._facade.undo)

    def action_semisync_toggle(self) -> None:
        """Turn semi-sync on or off."""
        self._flip(KnobName("semi_sync", PRIMARY), "off", "on")

    def action_wait_point_toggle(self) -> None:
        """Switch the wait point."""
        self._flip(KnobName("wait_point", PRIMARY), "after_sync", "after_commit")

    def apply_rested(self) -> None:
        """Apply what has been staged long enough ago."""
        if self.board.due(self._settings.monotonic(), self._settings.rest_s):
            self._send()

    def _move(self, rows: int) -> None:
        self._close_entries()
        self._problem = ""
        self.board.move(rows)
        self._draw_now()

    def _step(self, direction: int, *, coarse: bool = False) -> None:
        self._problem = ""
        self.board.step(direction, self._settings.monotonic(), coarse=coarse)
        self._draw_now()

    def _draw_now(self) -> None:
        with self.app.batch_update():
            self._draw_knobs()

    def _flip(self, name: KnobName, first: str, second: str) -> None:
        if name not in self.board.views:
            self.notify(f"this server has no {name.knob.label}", severity="warning")
            return
        self.board.select(name)
        self.board.stage(
            name, second if self.board.asked(name) == first else first, self._settings.monotonic()
        )
        self._send()

    def _send(self) -> None:
        assignments = self.board.send()
        if assignments:
            self._commander.ask("set", lambda: self._facade.set(assignments))
        self._draw_now()

    @on(CommandDone)
    def _take_result(self, message: CommandDone) -> None:
        if message.label == "set":
            self.board.confirm(applied=True)
        for warning in message.warnings:
            self.notify(warning, severity="warning", timeout=8, markup=False)
        if message.label == "repair":
            self.notify("repaired: every node answers", markup=False)
        self._draw_now()

    @on(CommandFailed)
    def _take_failure(self, message: CommandFailed) -> None:
        if message.label == "set":
            self.board.confirm(applied=False)
        text = f"{message.text}: {message.hint}" if message.hint else message.text
        self.notify(text, title=f"{message.label} failed", severity="error", timeout=10, markup=False)
        self._draw_now()

    def select_knob(self, name: KnobName) -> None:
        """Select a knob, as the palette does."""
        self.board.select(name)
        self._move(0)

    # typing

    def on_key(self, event: events.Key) -> None:
        """A digit begins to type a value of the selected knob."""
        character = event.character or ""
        if not (character.isdigit() or character == ".") or self.board.selected is None:
            return
        if self.layout_name is Layout.TINY:
            return
        event.stop()
        event.prevent_default()
        self._open_value(character)

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

    def _open_filter(self) -> None:
        panel = self._panel
        entry = self.query_one("#filter-entry", Entry)
        entry.placeholder = "filter: words of a name or its help"
        entry.open(self.board.filter, (panel.region.x + 1, panel.region.y), panel.region.width - 2)

    def _close_entries(self) -> bool:
        """Close the open field; whether there was one."""
        opened = [entry for entry in self.query(Entry) if entry.is_open]
        for entry in opened:
            if entry.purpose == "filter":
                self.board.narrow("")
            entry.close()
        self.query_one(KnobLine).typing = False
        return bool(opened)

    @on(Input.Changed, "#filter-entry")
    def _narrow(self, message: Input.Changed) -> None:
        if self.query_one("#filter-entry", Entry).is_open:
            self.board.narrow(message.value)
            self._draw_now()

    @on(Input.Submitted, "#filter-entry")
    def _keep_filter(self) -> None:
        self.query_one("#filter-entry", Entry).close()
        self._draw_now()

    @on(Input.Submitted, "#value-entry")
    def _take_value(self, message: Input.Submitted) -> None:
        name = self.board.selected
        if name is None:
            return
        try:
            assignment = self._facade.parse(f"{name}={message.value}")
        except ReplexplorerError as error:
            self._problem = str(error)
            self._draw_now()
            return
        self._problem = ""
        self._close_entries()
        self.board.stage(name, assignment.value, self._settings.monotonic())
        self._send()

    @on(KnobPanel.Picked)
    def _pick(self, message: KnobPanel.Picked) -> None:
        self.select_knob(message.name)

    @on(KnobPanel.Stepped)
    def _click_step(self, message: KnobPanel.Stepped) -> None:
        self._step(message.direction)

    @on(KnobPanel.Scrolled)
    def _wheel(self, message: KnobPanel.Scrolled) -> None:
        self._move(message.rows)

    # the rest of the registry

    def action_load_toggle(self) -> None:
        """Stop or start the load."""
        self._commander.ask("load", self._facade.toggle_load)

    def action_mark_add(self) -> None:
        """Put a mark on the charts."""
        self._commander.ask("mark", lambda: self._facade.mark("mark"))

    def action_stack_reset(self) -> None:
        """All knobs to their defaults."""
        self.board.revert()
        self._commander.ask("reset", self._facade.reset)

    def action_stack_repair(self) -> None:
        """Bring dead nodes back, telling what is done."""
        self._commander.ask(
            "repair", lambda: self._facade.repair(lambda progress: self.notify(progress.text, markup=False))
        )

    def action_chart_freeze(self) -> None:
        """Hold the charts and the table; the load and the header go on."""
        self.picture.freeze()
        self._draw()

    def action_chart_zoom_in(self) -> None:
        """A shorter page of time."""
        self.picture.zoom(-1)
        self._draw_charts()

    def action_chart_zoom_out(self) -> None:
        """A longer page of time."""
        self.picture.zoom(1)
        self._draw_charts()

    def action_chart_yscale(self) -> None:
        """The next scale of the TPS axis."""
        self.picture.next_scale()
        scale = {None: "automatic", False: "linear", True: "log"}[self.picture.log_scale]
        self.notify(f"TPS axis: {scale}", timeout=2)
        self._draw_charts()

    def action_view_next(self) -> None:
        """The other chart of a small screen."""
        self.toggle_class("-latency")
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
        self.app.push_screen(LedgerScreen(self.picture, self._settings))

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
