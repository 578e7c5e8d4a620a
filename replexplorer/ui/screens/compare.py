"""Two stacks on one screen: the charts of both, one panel of knobs, and what each change did to either."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import ClassVar, Final

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.screen import Screen

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.history.pair import StackSide, changes, compared, footing, pair_markdown
from replexplorer.core.history.series import page_of
from replexplorer.core.machine import Machine, busy_percent
from replexplorer.engine.console import ToggleLoad, Turn, Undo
from replexplorer.engine.pair import PairedViews
from replexplorer.ui.charts.contents import zoomed
from replexplorer.ui.charts.pair import pair_models
from replexplorer.ui.desks.commander import CommandDone, Commander, CommandFailed
from replexplorer.ui.desks.twins import LETTERS, Twins
from replexplorer.ui.keys.actions import COMPARED, PAIR_FOOTER, FooterItem
from replexplorer.ui.keys.bindings import bindings_of
from replexplorer.ui.messages import Ticked
from replexplorer.ui.screens.knob_keys import KnobKeys
from replexplorer.ui.settings import Settings
from replexplorer.ui.style.layout import Layout
from replexplorer.ui.widgets.chart import Chart
from replexplorer.ui.widgets.footer import Footer
from replexplorer.ui.widgets.lines import Cadence, Lines
from replexplorer.ui.widgets.pair_rows import PairHead, PairKnobs, PairLedger

_WIDE_COLUMNS: Final = 110
"""From this width on the exposure stands beside the latency."""
_PAGE_S: Final = 60.0
"""Length of the page at start: these charts are half and a third as wide as the dashboard's."""
_MACHINE_EVERY_S: Final = 2.0
_COMPARED_EVERY_S: Final = 2.0
_CHARTS_EVERY_S: Final = 1.0


class CompareScreen(KnobKeys, Screen[None]):
    """The picture of two sessions; a knob turns on the side that is chosen, or on both."""

    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = bindings_of(COMPARED)
    HINTS: ClassVar[tuple[FooterItem, ...]] = PAIR_FOOTER
    """What the last row shows."""
    DEFAULT_CSS = """
    CompareScreen #charts { height: 3fr; }
    CompareScreen #charts Chart { width: 1fr; height: 1fr; }
    CompareScreen #lower { height: 2fr; }
    """

    def __init__(
        self,
        views: PairedViews,
        settings: Settings,
        machine: Callable[[], Awaitable[Machine | None]],
    ) -> None:
        """`machine`: what the machine of both has worked so far."""
        super().__init__()
        self._views, self._settings, self._machine_of = views, settings, machine
        self.sides = tuple(map(StackSide, views.names))
        """A and B as they are drawn."""
        self.twins = Twins()
        """The knobs."""
        self._commanders = tuple(
            Commander(view.console, partial(self._post_of, at)) for at, view in enumerate(views.sides)
        )
        self._machine: Machine | None = None
        self._percent: float | None = None
        self._page_s = _PAGE_S
        self._exposure = False
        self._compared = Cadence(_COMPARED_EVERY_S)
        self._charted = Cadence(_CHARTS_EVERY_S)
        self._origin_s: float | None = None
        self._held_s: float | None = None
        """Where time stands while the picture is held."""

    def compose(self) -> ComposeResult:
        """Head, charts, knobs beside the ledger, keys."""
        glyphs = self._settings.glyphs
        yield PairHead(glyphs=glyphs, id="pair-head")
        with Horizontal(id="charts"):
            yield Chart(glyphs=glyphs, id="tps-chart")
            yield Chart(glyphs=glyphs, id="latency-chart")
            yield Chart(glyphs=glyphs, id="exposure-chart")
        with Horizontal(id="lower"):
            yield PairKnobs(self.twins, glyphs=glyphs, id="pair-knobs")
            yield PairLedger(glyphs=glyphs, id="pair-ledger")
        yield Footer(self._settings.keymap, glyphs=glyphs, id="footer")

    def on_mount(self) -> None:
        """Listen to both, work off commands, look at the machine."""
        self.query_one(Footer).items = self.HINTS
        self.query_one(PairHead).sides = self.sides
        self.watch(self.app, "theme", self._restyle, init=False)
        for at in range(len(self.sides)):
            self._listen(at)
            self._work_off(at)
        self.set_interval(0.1, self._apply_rested)
        self.set_interval(_MACHINE_EVERY_S, self._look_at_machine)
        self._arrange()

    def on_resize(self) -> None:
        """Another width may have room for another chart."""
        self._arrange()

    def asks_before_quit(self) -> bool:
        """Both stacks keep running."""
        return False

    # -- what comes in

    @work(group="ticks", exit_on_error=False)
    async def _listen(self, at: int) -> None:
        side = self.sides[at]
        offset_s: float | None = None
        try:
            async for tick in self._views.sides[at].ticks():
                # Clocks of sessions begin with them: the wall clock of its first tick places each.
                offset_s = tick.wall_s - tick.at_s if offset_s is None else offset_s
                self._origin_s = min(self._origin_s or tick.wall_s, tick.at_s + offset_s)
                side.feed(tick, offset_s)
                self.twins.boards[at].fold(tick)
                self.post_message(Ticked())
        except ReplexplorerError as error:
            self._post_of(at, CommandFailed("watching", error.message, error.hint))
        except Exception as error:  # a picture that stands still must say why
            self._post_of(at, CommandFailed("watching", f"{type(error).__name__}: {error}", ""))

    @work(group="commands", exit_on_error=False)
    async def _work_off(self, at: int) -> None:
        await self._commanders[at].run()

    @work(exclusive=True, group="machine", exit_on_error=False)
    async def _look_at_machine(self) -> None:
        found = await self._machine_of()
        self._percent, self._machine = busy_percent(self._machine, found), found

    def _post_of(self, at: int, message: CommandDone | CommandFailed) -> None:
        message.label = f"{LETTERS[at]} {message.label}"
        self.post_message(message)

    def on_screen_resume(self) -> None:
        """Draw what came while another screen stood in front."""
        self._charted.forget()
        self._compared.forget()
        self._draw()

    @on(Ticked)
    def _show_ticks(self) -> None:
        if self._held_s is None:
            self._draw()

    def _draw(self) -> None:
        if not self.is_current or self._origin_s is None:
            return
        if self._held_s is not None:
            self._draw_charts(self._held_s)
            return
        a, b = self.sides
        now_s = self._now_s
        views = [board.views for board in self.twins.boards]
        if not self._charted.is_due(now_s, (self._page_s, self._exposure, views)):
            return
        with self.app.batch_update():
            head = self.query_one(PairHead)
            if self._compared.is_due(now_s, (a.changed_s, b.changed_s)):
                found = compared(a, b)
                head.verdict = f"{found.words()}, over {found.seconds:.0f} s"
                ledger = self.query_one(PairLedger)
                ledger.origin_s = self._origin_s
                ledger.changes = changes(a, b)
            head.footing = self._footing()
            head.repaint()
            self.query_one(PairKnobs).repaint()
            self._draw_charts(now_s)

    @property
    def _now_s(self) -> float:
        """The newest look at either."""
        return max(side.tick.at_s + side.offset_s for side in self.sides if side.tick is not None)

    def _draw_charts(self, now_s: float) -> None:
        """The page of time that ends here."""
        origin_s = self._origin_s or 0.0
        begin_s, end_s = page_of(now_s, origin_s, self._page_s)
        models = pair_models(self.sides, page=(begin_s, min(end_s, now_s)), origin_s=origin_s)
        for chart, model in zip(self.query(Chart), models, strict=True):
            if chart.display:
                chart.show(replace(model, end_s=end_s))

    def _footing(self) -> str:
        resting = [
            f"{letter} rests: the other has the machine for itself"
            for letter, side in zip(LETTERS, self.sides, strict=True)
            if side.tick is not None and (side.tick.load is None or side.tick.load.state == "stopped")
        ]
        if len(resting) == len(self.sides):
            return "no load runs on either side from here: nothing is compared"
        cores = None if self._machine is None else self._machine.cores
        return "; ".join(resting) or footing(at_once=True, cores=cores, percent=self._percent)

    # -- keys

    def action_side_next(self) -> None:
        """Turn both, A, B."""
        self.twins.choose_next()
        self.query_one(PairKnobs).repaint()

    def action_knob_apply(self) -> None:
        """Apply what is staged now."""
        for at in range(len(self.sides)):
            self._send(at)

    def action_knob_revert(self) -> None:
        """Drop what is staged."""
        self.twins.revert()
        self.query_one(PairKnobs).repaint()

    def action_knob_undo(self) -> None:
        """Undo the last change of each chosen side."""
        for at in self.twins.chosen:
            self._commanders[at].ask("undo", Undo())

    def action_load_toggle(self) -> None:
        """Stop or start the load of each chosen side."""
        for at in self.twins.chosen:
            self._commanders[at].ask("load", ToggleLoad())

    def action_chart_freeze(self) -> None:
        """Hold the picture or let it go; both loads go on, and knobs can be turned."""
        if self._held_s is not None:
            self._held_s = None
            self._charted.forget()
            self._compared.forget()
            self._draw()
        elif self._origin_s is not None:
            self._held_s = self._now_s
            head = self.query_one(PairHead)
            head.footing = "the picture is held, both stacks run on"
            head.repaint()

    def action_ledger_copy(self) -> None:
        """Copy what is known of both, and what each change did, over OSC 52."""
        a, b = self.sides
        found = changes(a, b)
        verdict, origin_s = self.query_one(PairHead).verdict, self._origin_s or 0.0
        self.app.copy_to_clipboard(pair_markdown(a, b, verdict, self._footing(), found, origin_s))
        self.notify(f"B against A and {len(found)} changes as Markdown", title="copied", timeout=4)

    def action_chart_zoom_in(self) -> None:
        """Show less time."""
        self._page_s = zoomed(self._page_s, -1)
        self._draw()

    def action_chart_zoom_out(self) -> None:
        """Show more time."""
        self._page_s = zoomed(self._page_s, 1)
        self._draw()

    def action_chart_exposure(self) -> None:
        """On a narrow screen, the exposure in place of the latency."""
        self._exposure = not self._exposure
        self._arrange()
        self._draw()

    def _move(self, rows: int) -> None:
        self.twins.move(rows)
        self.query_one(PairKnobs).repaint()

    def _step(self, direction: int, *, coarse: bool = False) -> None:
        lacking = self.twins.step(direction, self._settings.monotonic(), coarse=coarse)
        selected = self.twins.selected
        for letter in lacking:
            name = self.sides[LETTERS.index(letter)].name
            self.notify(f"{letter} ({name}) has no {selected}", severity="warning", timeout=4)
        self.query_one(PairKnobs).repaint()

    def _apply_rested(self) -> None:
        for at, board in enumerate(self.twins.boards):
            if board.due(self._settings.monotonic(), self._settings.rest_s):
                self._send(at)

    def _send(self, at: int) -> None:
        assignments = self.twins.boards[at].send()
        if assignments:
            self._commanders[at].ask("set", Turn(tuple(assignments)))
        self.query_one(PairKnobs).repaint()

    @on(CommandDone)
    def _take_result(self, message: CommandDone) -> None:
        self._confirm(message.label, applied=True)
        for warning in message.warnings:
            self.notify(f"{message.label[0]}: {warning}", severity="warning", timeout=8)

    @on(CommandFailed)
    def _take_failure(self, message: CommandFailed) -> None:
        self._confirm(message.label, applied=False)
        text = f"{message.text}: {message.hint}" if message.hint else message.text
        self.notify(text, title=f"{message.label} failed", severity="error", timeout=10)

    def _confirm(self, label: str, *, applied: bool) -> None:
        letter, _, what = label.partition(" ")
        if what == "set":
            self.twins.boards[LETTERS.index(letter)].confirm(applied=applied)

    def _arrange(self) -> None:
        wide = self.app.size.width >= _WIDE_COLUMNS
        self.query_one("#latency-chart").display = wide or not self._exposure
        self.query_one("#exposure-chart").display = wide or self._exposure
        self.query_one(Footer).layout_name = Layout.WIDE if wide else Layout.COMPACT

    def _restyle(self) -> None:
        for widget in self.query(Lines):
            widget.restyle()
        for chart in self.query(Chart):
            chart.refresh()
