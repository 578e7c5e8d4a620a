"""The sweep: typed as one line, its map and table fill as it runs."""

from __future__ import annotations

from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.heat import heat_map, risk_map
from replexplorer.core.experiment.load_curve import curves_of
from replexplorer.core.experiment.sweep_effects import effects_of
from replexplorer.core.experiment.sweep_runs import figures_of
from replexplorer.core.experiment.sweep_text import AT_RISK_NOTE, plan_text, runs_text
from replexplorer.core.text import duration_text
from replexplorer.ui.desks.sweep import SweepDesk
from replexplorer.ui.screens.listing import ListingScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.style.theme import inks_of
from replexplorer.ui.widgets.curve_rows import curve_rows
from replexplorer.ui.widgets.sweep_rows import effect_rows, heat_rows, table_rows
from replexplorer.ui.words.runs import Line, wrapped


class SweepField(Input):
    """Where the sweep is typed."""

    DEFAULT_CSS = """
    SweepField, SweepField:focus {
        height: 1;
        border: none;
        padding: 0 1;
        background: $rx-select;
        color: $rx-title;
        background-tint: transparent 0%;
    }
    SweepField:disabled { background: $rx-panel; color: $rx-text; opacity: 100%; }
    """

    def __init__(self, line: str) -> None:
        super().__init__(line, compact=True, select_on_focus=False)
        self.cursor_blink = False


class SweepScreen(ListingScreen):
    """The field, and below it what the sweep is, does and found."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "stop", "Stop the sweep", show=False),
        Binding("e", "edit", "Type another sweep", show=False),
        Binding("m", "other_map", "The map of TPS, or of what is at risk", show=False),
    ]

    def __init__(self, desk: SweepDesk, settings: Settings) -> None:
        super().__init__(settings)
        self._desk = desk
        self._followed = desk.is_running
        """A sweep ran when it was last looked at."""
        self._of_risk = False
        """The map is the one of what is at risk."""

    def compose(self) -> ComposeResult:
        """The field over the listing."""
        yield SweepField(self._desk.line)
        yield from super().compose()

    def on_mount(self) -> None:
        """Take the line at once, unless a sweep runs."""
        super().on_mount()
        self._follow()

    @property
    def field(self) -> SweepField:
        """The line."""
        return self.query_one(SweepField)

    def _follow(self) -> None:
        """The field takes keys while nothing runs and nothing was found that one may want to scroll."""
        if self._desk.is_running:
            self.field.disabled = True
        elif self._desk.swept is None:
            self.action_edit()

    def action_edit(self) -> None:
        """Type another line."""
        if not self._desk.is_running:
            self.field.disabled = False
            self.set_focus(self.field)

    def action_stop(self) -> None:
        """Stop; the knobs are restored."""
        if self._desk.is_running:
            self._desk.stop()
            self.notify("stopping the sweep, restoring the knobs", timeout=3)

    def action_other_map(self) -> None:
        """The map of TPS, or of what is at risk."""
        self._of_risk = not self._of_risk
        self.fill()

    def on_key(self, event: events.Key) -> None:
        """The arrows scroll also while the field has the keys."""
        if event.key in ("up", "down", "pageup", "pagedown") and self.focused is self.field:
            pages = self.listing.page_rows if event.key.startswith("page") else 1
            self.listing.scroll_rows(-pages if event.key.endswith("up") else pages)
            event.stop()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._desk.line = event.value
        self.fill()

    @on(Input.Submitted)
    def _start(self) -> None:
        if self._desk.is_running:
            return
        try:
            sweep = self._desk.read(self._desk.line)
        except UsageError as error:
            self.notify(str(error), severity="error", timeout=6, markup=False)
            return
        self.field.disabled = True
        self.set_focus(None)
        self._desk.start(sweep)
        self._followed = True
        self.fill()

    def fill(self) -> None:
        """What is typed while nothing ran yet; else the map, the effects and the table."""
        desk, width = self._desk, self.app.size.width - 1
        if self._followed and not desk.is_running:
            self._followed = False
            self._follow()
        body: list[Line] = []
        if desk.problem:
            body += [[(f" {desk.problem}", "warn")], []]
        body += [[(f" {note}", "muted")] for note in desk.notes]
        if desk.sweep is not None:
            grid = desk.sweep.grid
            figures = figures_of(grid, desk.swept.runs if desk.swept else desk.runs)
            risk = risk_map(grid, figures)
            heat = risk if self._of_risk and risk else heat_map(grid, figures)
            if risk is not None:
                other = "TPS" if heat is risk else "what is at risk"
                body += [[(" m", "key b"), (f" the map of {other}", "muted")]]
            if heat is not None:
                body += [*heat_rows(heat, self.settings.glyphs, tones=inks_of(self.app).tones), []]
            for curve in curves_of(grid, figures):
                body += [*curve_rows(curve, width, self.settings.glyphs), []]
            if desk.swept is not None:
                body += [*effect_rows(effects_of(grid, figures), width), []]
            body += table_rows(grid, figures, width)
            if risk is not None:
                body += [[], *([(f" {text}", "muted")] for text in wrapped(AT_RISK_NOTE, max(20, width - 2)))]
        self.listing.is_typed_beside = self.focused is self.field
        self.listing.show(self._title(), [], body or _about())

    def _title(self) -> Line:
        """What enter would start, what runs, or what ran."""
        desk = self._desk
        if desk.is_running and desk.sweep is not None:
            progress = desk.progress
            done = f"{progress.done if progress else 0}/{desk.sweep.total}"
            cell = progress.cell if progress else None
            now = f" {desk.sweep.grid.describe(cell)}" if cell is not None else ""
            left = f" · {duration_text(progress.left_s)} left" if progress else ""
            return [
                ("Sweep ", "title b"), (f"{done}{now}{left}   ", "text"), ("x", "key b"), (" stop", "muted"),
            ]  # fmt: skip
        if self.focused is not self.field:
            ran = runs_text(len(desk.swept.runs)) if desk.swept else "ended"
            return [("Sweep ", "title b"), (f"{ran}   ", "text"), ("e", "key b"), (" another", "muted")]
        try:
            sweep = desk.read(desk.line)
        except UsageError as error:
            return [("Sweep ", "title b"), (str(error), "warn")]
        return [
            ("Sweep ", "title b"),
            (f"{plan_text(sweep)}   ", "text"),
            ("enter", "key b"),
            (" start", "muted"),
        ]


def _about() -> list[Line]:
    """What can be typed."""
    return [
        [],
        [(" KEY=V1,V2,...", "title b"), ("   every combination is measured, in random order", "text")],
        [(" scene=none,local,network,both", "title b"), ("   named sets of knobs", "text")],
        [(" duration=5 repeat=3", "title b"), ("   seconds of a run; passes over all combinations", "text")],
        [],
        [(" Knobs are restored at the end, also of a sweep that is stopped.", "muted")],
        [(" Esc leaves it running behind the dashboard.", "muted")],
    ]
