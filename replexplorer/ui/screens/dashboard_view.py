"""What stands where on the dashboard, and how a tick gets there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from textual import events, on, work
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.geometry import Size
from textual.screen import Screen

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.history.caption import headline
from replexplorer.core.history.series import Recent
from replexplorer.core.knobs.names import Assignment, KnobName, Value
from replexplorer.core.link import ACKS_LOST
from replexplorer.core.server.node_view import LATE_S, SETTLED_S, healthy, troubles, with_lost_acks
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.tick import Tick
from replexplorer.engine.outcome import ExperimentUnderWay, Preview
from replexplorer.engine.view import View
from replexplorer.ui.actions import key_label, keys_of, mode_of
from replexplorer.ui.messages import CommandDone, CommandFailed, LabMoved, Ticked
from replexplorer.ui.settings import Settings
from replexplorer.ui.state.board import Board
from replexplorer.ui.state.experiments import LabControl, SweepControl
from replexplorer.ui.state.picture import Picture
from replexplorer.ui.state.presenter import Presenter
from replexplorer.ui.style.layout import TALL_ROWS, Layout, layout_for
from replexplorer.ui.widgets.anatomy import AnatomyPanel
from replexplorer.ui.widgets.chart import Chart
from replexplorer.ui.widgets.entry import Entry
from replexplorer.ui.widgets.epoch_table import EpochStrip, EpochTable
from replexplorer.ui.widgets.event_log import EventLogPane
from replexplorer.ui.widgets.footer import Footer, PlayerLine, PresenterBar, Shown
from replexplorer.ui.widgets.header import Header
from replexplorer.ui.widgets.knob_panel import KnobDrawer, KnobPanel
from replexplorer.ui.widgets.lab_strip import LabStrip, LabTries
from replexplorer.ui.widgets.lines import Cadence, Lines
from replexplorer.ui.widgets.statement import FoldIntent, Intent, KnobLine, StatementPanel
from replexplorer.ui.widgets.strips import BigStrip, ExposureLine, ReplicaStrip, TinyNotice, ValueStrip
from replexplorer.ui.widgets.topology import Topology
from replexplorer.ui.words.states import InForce, effect_of, measured_of

if TYPE_CHECKING:
    from replexplorer.engine.console import Command

_EVERY_S: Final = 1.0
"""Between two drawings of what only grows: charts are half of what a tick costs to draw and to send. All of
the screen is drawn with one tick, so that a figure is the same wherever it is shown."""
_PREVIEW_EVERY_S: Final = 5.0
"""How long a preview stands while its knob, all values and the nodes' roles do: to plan it costs as much as
drawing the knobs."""
_PLAYER_EVERY_S: Final = 0.25
DRAWER_LEAVES: Final = 6
"""Rows that the drawer does not cover: the header, the last event, the knob line and the keys."""


class DashboardView(Screen[None]):
    """The widgets of every layout, fed from the ticks of a view; it takes no keys."""

    AUTO_FOCUS = ""

    def __init__(self, view: View, settings: Settings) -> None:
        super().__init__()
        self._view = view
        self._settings = settings
        self._player = view.player
        self.mode = mode_of(view, visits=settings.visits)
        """What can be done here."""
        self._stack = view.console
        """Where something can be done; None where one can only watch."""
        self._in_turn = asyncio.Lock()
        """Commands are carried out one after the other."""
        self.under_way: list[str] = []
        """What is done beside them, in words."""
        self._then: Callable[[], None] | None = None
        """What waits until nothing is under way."""
        self._labs = LabControl(
            view.console,
            (*settings.labs, *settings.drills),
            moved=lambda: self.post_message(LabMoved()),
        )
        self._sweep = SweepControl(view.console, settings.learn)
        self.picture = Picture()
        """What is drawn."""
        self.board = Board()
        """The knobs."""
        self.presenter = Presenter()
        """What the room is shown."""
        self.layout_name = Layout.NORMAL
        """The arrangement in force."""
        self._arranged: Size | None = None
        """The size that it is for."""
        self._problem = ""
        """Why what was typed is not taken."""
        self._drawn: tuple[Tick, Recent] | None = None
        """What all figures on the screen are of: a tick, and the load's window that ends with it."""
        self._cadence = Cadence(_EVERY_S)
        self._previewed: tuple[object, float, Preview] | None = None
        """For what and when the last preview was made."""

    def compose(self) -> ComposeResult:
        """Every widget of every layout; the layout's class says which are shown."""
        self._lay_out(self.app.size, update=False)  # each is styled once, as it is mounted
        glyphs = self._settings.glyphs
        keymap = self._settings.keymap
        yield Header(glyphs=glyphs, id="header")
        yield LabStrip(keymap=keymap, glyphs=glyphs, id="lab-strip")
        yield PresenterBar(glyphs=glyphs, id="presenter")
        yield ReplicaStrip(keymap=keymap, glyphs=glyphs, id="replica-strip")
        yield BigStrip(glyphs=glyphs, id="big-strip")
        with Horizontal(id="body"):
            with Vertical(id="left"):
                yield Topology(glyphs=glyphs, id="topology")
                yield KnobPanel(self.board, glyphs=glyphs, id="knobs")
                yield StatementPanel(glyphs=glyphs, id="statement")
            with Vertical(id="right"):
                yield LabTries(glyphs=glyphs, id="lab-tries")
                yield Chart(glyphs=glyphs, id="tps-chart")
                with Horizontal(id="lower"):
                    yield Chart(glyphs=glyphs, id="latency-chart")
                    yield Chart(glyphs=glyphs, id="exposure-chart")
                yield ValueStrip(glyphs=glyphs, id="value-strip")
                yield ExposureLine(glyphs=glyphs, id="exposure")
                yield AnatomyPanel(glyphs=glyphs, id="anatomy")
                yield EpochTable(glyphs=glyphs, id="epochs")
                yield EpochStrip(glyphs=glyphs, id="epoch-strip")
        yield EventLogPane(glyphs=glyphs, id="events")
        if self._player is not None:
            yield PlayerLine(glyphs=glyphs, id="player")
        yield KnobLine(glyphs=glyphs, id="knob-line")
        yield Footer(keymap=keymap, glyphs=glyphs, id="footer")
        yield TinyNotice(glyphs=glyphs, id="tiny")
        yield KnobDrawer(self.board, glyphs=glyphs, id="drawer")
        yield Entry("value")
        yield Entry("filter")

    def key(self, action: str) -> str:
        """The first key of an action, as it is shown."""
        return key_label(keys_of(action, self._settings.keymap)[0])

    def ask(self, label: str, command: Command[Any]) -> None:
        """Carry a command out after those that were asked for before; `label` comes back with its end."""

        async def carry_out() -> None:
            async with self._in_turn:
                await self._carry_out(label, command)

        self.run_worker(carry_out(), group="commands", exit_on_error=False)

    def beside(self, label: str, command: Command[Any], words: str) -> None:
        """Carry a command out beside them; `words` say so meanwhile."""

        async def carry_out() -> None:
            try:
                await self._carry_out(label, command)
            finally:
                self.under_way.remove(words)
                if self._then is not None and not self.under_way:
                    then, self._then = self._then, None
                    then()

        self.under_way.append(words)
        self.run_worker(carry_out(), group="beside", exit_on_error=False)

    async def _carry_out(self, label: str, command: Command[Any]) -> None:
        """A command is never cancelled by the next one, and every failure is told in one place."""
        if self._stack is None:
            return
        try:
            result = await command(self._stack)
        except ReplexplorerError as error:
            self.post_message(CommandFailed(label, error.message, self._remedy(error)))
        except Exception as error:  # a defect must not end the dashboard, nor pass unseen
            self.post_message(CommandFailed(label, f"{type(error).__name__}: {error}", ""))
        else:
            self.post_message(CommandDone(label, result))

    def _remedy(self, error: ReplexplorerError) -> str:
        """What to do about a failure; an experiment of this dashboard's own ends by a key of its own."""
        if not isinstance(error, ExperimentUnderWay):
            return error.hint
        if not error.is_own:
            return "wait for its end (in a shell, `--anyway` does not wait)"
        if error.experiment.kind in ("lab", "drill"):
            return f"abort it first ({self.key('lab.abort')})"
        return f"stop it first ({self.key('sweep.open')}, then x)"

    def on_mount(self) -> None:
        """Begin to listen."""
        self.query_one(Footer).items = self.mode.footer
        self._arrange(self.app.size)
        self.watch(self.app, "theme", self._restyle, init=False)
        if self._player is not None:
            self.query_one(PlayerLine).marks_s = self._player.marks_s
            self.set_interval(_PLAYER_EVERY_S, self._draw_player)
        self._listen()

    def on_resize(self, event: events.Resize) -> None:
        """Another size may be another layout; the first is that which it was mounted for."""
        if event.size != self._arranged:
            self._arrange(event.size)

    def on_screen_resume(self) -> None:
        """Draw what came while another screen stood in front."""
        self._draw()

    @work(exclusive=True, group="ticks", exit_on_error=False)
    async def _listen(self) -> None:
        try:
            async for tick in self._view.ticks():
                self.picture.fold(tick)
                self.board.fold(tick)
                self.post_message(Ticked())
        except ReplexplorerError as error:
            self.post_message(CommandFailed("watching", error.message, error.hint))
        except Exception as error:  # a picture that stands still must say why
            self.post_message(CommandFailed("watching", f"{type(error).__name__}: {error}", ""))

    @on(Ticked)
    def _show_tick(self) -> None:
        """Once a second, and at once what is said in words."""
        if self.is_current and self._is_due():
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
        load = tick.load
        words = (
            log[-1] if log else None,
            (tick.state, tick.protection.state, tick.faults, tick.lost, tick.driver_selects),
            (load is None, load and (load.state, load.clients, load.mode)),
            [(node.name, node.reachable, node.io_thread, node.sql_thread) for node in tick.nodes],
            [(epoch.number, epoch.title, epoch.verdict) for epoch in tick.epochs],
            [(link.partition, link.healing, link.fault) for link in (*tick.links, *tick.pairs)],
            (tick.exposure is None, [disk.fault for disk in tick.disks]),
            (self.board.views, set(self.board.pending), self._sweep.place),
        )
        return self._cadence.is_due(tick.at_s, words)

    def _draw_tick(self) -> None:
        """Give every visible widget the new picture; each draws only what differs."""
        picture = self.picture.shown
        tick, recent = picture.tick, picture.recent
        if tick is None:
            return
        self._drawn = tick, recent
        self.presenter.fold(tick, self._labs.view)
        self._reduce_knobs()
        with self.app.batch_update():
            header = self.query_one(Header)
            header.sweep = self._sweep.place
            header.show(self.picture)
            self._draw_troubles(tick)
            if self.layout_name is Layout.TINY:
                self.query_one(TinyNotice).show(picture)
                return
            for of_tick in (Topology, AnatomyPanel, ExposureLine):
                self.query_one(of_tick).show(tick)
            for of_picture in (BigStrip, ValueStrip, EventLogPane):
                self.query_one(of_picture).show(picture)
            self.query_one(Footer).show("" if self._is_whole else "down")
            epochs = self.board.labelled(tick.epochs)
            table = epochs, picture.origin_s, tick.protection.unprotected
            self.query_one(EpochTable).show(table)
            self.query_one(EpochStrip).show(epochs)
            self._draw_charts()
            self._draw_knobs()
            self._draw_bar()
            self._draw_player()

    def _draw_player(self) -> None:
        """Where a recording stands."""
        if self._player is not None:
            self.query_one(PlayerLine).show(self._player.position)

    def _draw_bar(self) -> None:
        """What the room is shown, while somebody presents."""
        drawn, presenter, lesson = self._drawn, self.presenter, self._labs.view
        if drawn is None or presenter.began_s is None:
            return
        tick, recent = drawn
        now_s = self._settings.monotonic()
        stage, number = presenter.stage(lesson), presenter.stage_number(lesson)
        all_stages = [] if lesson is None else lesson.step.stages if lesson.step else lesson.lab.stages
        self.query_one(PresenterBar).show(
            Shown(
                headline(tick, recent.tps),
                caption=presenter.caption,
                lesson=stage.shows if stage else "",
                stands=f"{number}/{len(all_stages)} {stage.name}" if stage else "",
                is_earlier=presenter.reads is not None,
                longest=max((each.shows for each in all_stages), key=len, default=""),
                timer_s=now_s - presenter.began_s,
                keys=presenter.keys(now_s),
                back=self.key("step.prev"),
                on=self.key("step.next"),
            )
        )

    def _reduce_knobs(self) -> None:
        """Before a room, only the knobs that matter to it."""
        self.board.reduce(self.presenter.lesson_keys(self._labs.view))

    def _draw_troubles(self, tick: Tick) -> None:
        """The replicas' row, while something is wrong with one of them; nothing is while the stack starts."""
        late_s = SETTLED_S if self.has_class("-trouble") else LATE_S
        found = () if tick.state == "starting" else troubles(tick.nodes, tick.truth, late_s)
        if tick.protection.state is not ProtectionState.OFF:
            cut = [link.replica for link in tick.links if link.partition == ACKS_LOST]
            found = with_lost_acks(found, cut)
        self.query_one(ReplicaStrip).show(found)
        if bool(found) is not self.has_class("-trouble"):
            self.set_class(bool(found), "-trouble")
            self._fit_drawer()
            self.call_after_refresh(self._draw)

    def _draw_charts(self) -> None:
        tps, latency = self.picture.charts(wide=self.layout_name is Layout.WIDE)
        for name, model in (("#tps-chart", tps), ("#latency-chart", latency)):
            chart = self.query_one(name, Chart)
            if chart.display:
                chart.show(model)
        exposed = self.query_one("#exposure-chart", Chart)
        if exposed.display:
            exposed.show(self.picture.exposure_chart())

    def _draw_knobs(self) -> None:
        """The panel, what the selected knob runs, and the knob line."""
        with self.app.batch_update():
            drawer = self.query_one(KnobDrawer)
            panel = drawer if self.drawer_open else self.query_one("#knobs", KnobPanel)
            if (tick := self.picture.tick_of_knobs) is None:
                return
            panel.show(tick)
            if intent := self.intent() or self._fold_intent():
                self.query_one(StatementPanel).show(intent)
                self.query_one(KnobLine).show(intent)

    def _fold_intent(self) -> FoldIntent | None:
        """The line of the fold, while the cursor is on it."""
        fold = self.board.at_fold
        if fold is None:
            return None
        return FoldIntent(
            fold.title, tuple(dict.fromkeys(name.knob.label for name in self.board.folded(fold)))
        )

    def intent(self) -> Intent | None:
        """The selected knob with what its value runs and risks."""
        name, tick = self.board.selected, self.picture.tick_of_knobs
        if name is None or name not in self.board.views:
            return None
        view, value = self.board.views[name], self.board.asked(name)
        applying = name in self.board.pending
        return Intent(
            name, self.board.label(name), value, view.requested,
            self._preview(name, value, view.requested), self.board.place,
            InForce("applying…", False) if applying else effect_of(view, tick), measured_of(name, tick),
            self._problem, view.here,
        )  # fmt: skip

    def _preview(self, name: KnobName, value: Value, requested: Value) -> Preview:
        """What the value runs; for the one in force, what would bring it back from another."""
        tick, now_s = self.picture.tick, self._settings.monotonic()
        nodes = [(node.name, node.role, node.reachable) for node in tick.nodes] if tick else []
        of = name, value, requested, self.board.views, nodes
        known = self._previewed
        if known is None or known[0] != of or not 0 <= now_s - known[1] < _PREVIEW_EVERY_S:
            known = self._previewed = of, now_s, self._planned(name, value, requested)
        return known[2]

    def _planned(self, name: KnobName, value: Value, requested: Value) -> Preview:
        console = self._stack
        if console is None:
            return Preview((), (), ())

        def preview(value: Value) -> Preview:
            return console.preview([Assignment((name,), value)])

        try:
            if value != requested:
                return preview(value)
            other = next((one for one in name.knob.steps if one != value), value)
            return Preview(preview(other).undo, (), preview(value).warnings)
        except ReplexplorerError as error:
            return Preview((), (), (str(error),))

    @property
    def drawer_open(self) -> bool:
        """The drawer with all knobs stands over a small screen."""
        return self.has_class("-drawer")

    @property
    def _is_whole(self) -> bool:
        """There is nothing to repair now."""
        tick = self.picture.tick
        return tick is None or healthy(tick.nodes)

    def _arrange(self, size: Size) -> None:
        """Set the layout's class; the stylesheet does the rest."""
        self._arranged = size
        with self.app.batch_update():
            self._lay_out(size)
            self._fit_drawer()
            self._close_entries()
            self.query_one(Footer).layout_name = self.layout_name
            self.query_one(Footer).repaint()
        self.call_after_refresh(self._draw)

    def _lay_out(self, size: Size, *, update: bool = True) -> None:
        self.layout_name = layout_for(*size)
        classes = {f"-{layout}": layout is self.layout_name for layout in Layout}
        classes["-tall"] = size.height >= TALL_ROWS
        if self.layout_name is not Layout.COMPACT:
            classes["-drawer"] = False
        self.update_classes(classes, update=update)

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

    def _close_entries(self) -> bool:
        """Close the open field; whether there was one. What the filter found stays."""
        opened = [entry for entry in self.query(Entry) if entry.is_open]
        self.board.keep_search()
        for entry in opened:
            entry.close()
        self.query_one(KnobLine).type(False)
        return bool(opened)
