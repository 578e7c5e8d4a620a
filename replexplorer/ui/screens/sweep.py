"""The sweep: typed as one line, its map and table fill as it runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.sweep import Grid, runs_text
from replexplorer.core.experiment.sweep_result import CellFigures, figures_of, heat_map
from replexplorer.core.text import duration_text
from replexplorer.reports.report import block_text
from replexplorer.reports.sweep_report import effects_notes, sweep_table
from replexplorer.ui.screens.listing import ListingScreen, key_hints
from replexplorer.ui.settings import Settings
from replexplorer.ui.state.experiments import SweepControl
from replexplorer.ui.words.runs import Line

_ABOUT: Final[Sequence[Line]] = (
    [],
    [(" KEY=V1,V2,...", "title b"), ("   every combination is measured, in random order", "text")],
    [(" scene=none,local,network,both", "title b"), ("   named sets of knobs", "text")],
    [(" duration=5 repeat=3", "title b"), ("   seconds of a run; passes over all combinations", "text")],
    [],
    [(" Knobs are restored at the end, also of a sweep that is stopped.", "muted")],
    [(" Esc leaves it running behind the dashboard.", "muted")],
)


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
    ]

    def __init__(self, sweep: SweepControl, settings: Settings) -> None:
        super().__init__(settings)
        self._sweep = sweep
        self._followed = sweep.is_running
        """A sweep ran when it was last looked at."""

    def compose(self) -> ComposeResult:
        """The field over the listing."""
        yield SweepField(self._sweep.line)
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
        if self._sweep.is_running:
            self.field.disabled = True
        elif self._sweep.swept is None:
            self.action_edit()

    def action_edit(self) -> None:
        """Type another line."""
        if not self._sweep.is_running:
            self.field.disabled = False
            self.set_focus(self.field)

    def action_stop(self) -> None:
        """Stop; the knobs are restored."""
        if self._sweep.is_running:
            self._sweep.stop()
            self.notify("stopping the sweep, restoring the knobs", timeout=3)

    def on_key(self, event: events.Key) -> None:
        """The arrows scroll also while the field has the keys."""
        if event.key in ("up", "down", "pageup", "pagedown") and self.focused is self.field:
            pages = self.listing.page_rows if event.key.startswith("page") else 1
            self.listing.scroll_rows(-pages if event.key.endswith("up") else pages)
            event.stop()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._sweep.line = event.value
        self.fill()

    @on(Input.Submitted)
    def _start(self) -> None:
        if self._sweep.is_running:
            return
        try:
            sweep = self._sweep.read(self._sweep.line)
        except UsageError as error:
            self.notify(str(error), severity="error", timeout=6, markup=False)
            return
        self.field.disabled = True
        self.set_focus(None)
        self._sweep.start(sweep)
        self._followed = True
        self.fill()

    def fill(self) -> None:
        """What can be typed while nothing ran yet; else what was found so far."""
        sweep = self._sweep
        if self._followed and not sweep.is_running:
            self._followed = False
            self._follow()
        body: list[Line] = [[(f" {sweep.problem}", "warn")], []] if sweep.problem else []
        body += [[(f" {note}", "muted")] for note in sweep.notes]
        if sweep.sweep is not None:
            grid = sweep.sweep.grid
            body += self._found(grid, figures_of(grid, sweep.runs))
        self.listing.is_typed_beside = self.focused is self.field
        self.listing.show(self._title(), [], body or _ABOUT)

    def _found(self, grid: Grid, figures: Sequence[CellFigures]) -> Iterator[Line]:
        """The map, each knob's effect and the table."""
        width = self.app.size.width - 2
        heat = heat_map(grid, figures)
        blocks = [] if heat is None else [[*heat.lines]]
        if self._sweep.swept is not None:
            blocks.append(block_text(effects_notes(grid, figures), width).splitlines())
        blocks.append(block_text(sweep_table(grid, figures), width).splitlines())
        for head, *lines in filter(None, blocks):
            yield from ([(f" {head}", "accent b")], *([(f" {line}", "text")] for line in lines), [])

    def _title(self) -> Line:
        """What enter would start, what runs, or what ran."""
        sweep, name = self._sweep, ("Sweep ", "title b")
        if sweep.is_running and sweep.sweep is not None:
            progress = sweep.progress
            done = f"{progress.kept if progress else 0}/{sweep.sweep.total}"
            now = f" {progress.stage.name}" if progress and progress.stage else ""
            left = f" · {duration_text(progress.left_s)} left" if progress and progress.left_s else ""
            return [name, (f"{done}{now}{left}   ", "text"), *key_hints(("x", "stop"))]
        if self.focused is not self.field:
            ran = runs_text(len(sweep.swept.runs)) if sweep.swept else "ended"
            return [name, (f"{ran}   ", "text"), *key_hints(("e", "another"))]
        try:
            return [name, (f"{sweep.read(sweep.line).words}   ", "text"), *key_hints(("enter", "start"))]
        except UsageError as error:
            return [name, (str(error), "warn")]
