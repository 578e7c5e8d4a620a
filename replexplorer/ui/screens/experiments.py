"""The labs, drills and the sweep: which there are, what each teaches and changes, what the last run found."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Final

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, OptionList

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.drill import Drill
from replexplorer.core.experiment.experiment import ExperimentResult, NamedExperiment
from replexplorer.core.experiment.lab import Lab
from replexplorer.core.experiment.matrix import Matrix, matrix_cells
from replexplorer.core.experiment.sweep import Grid, runs_text
from replexplorer.core.experiment.sweep_result import CellFigures, figures_of, heat_map
from replexplorer.core.text import duration_text, folded
from replexplorer.reports.experiment_report import experiment_report
from replexplorer.reports.report import block_text, markdown, plain_text
from replexplorer.reports.sweep_report import effects_notes, sweep_table
from replexplorer.ui.experiments import LabControl, SweepControl
from replexplorer.ui.picture import Picture
from replexplorer.ui.screens.listing import ChoiceScreen, ListScreen, key_hints
from replexplorer.ui.settings import Settings
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, hung

VERDICTS: Final = {"holds": ("✓", "good"), "deviates": ("▲", "bad"), "aborted": ("✖", "warn")}
"""A verdict's symbol and token."""


class LabsScreen(ChoiceScreen[NamedExperiment]):
    """The list; Enter runs the chosen one quick."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "run(False)", "Run it full", show=False),
        Binding("b", "by_hand", "Wait for a key between phases", show=False),
        Binding("r", "result", "What its last run found", show=False),
        Binding("y", "yes", "Run it though a load runs", show=False),
    ]

    def __init__(self, labs: LabControl, sweep: SweepControl, picture: Picture, settings: Settings) -> None:
        super().__init__(settings, labs.last.lab if labs.last is not None else None)
        self._labs = labs
        self._sweep = sweep
        self._picture = picture
        self._asks: bool | None = None
        """It asks whether to run the chosen one quick (True) or full; None: it does not ask."""

    @property
    def parts(self) -> Sequence[tuple[str, Sequence[NamedExperiment]]]:
        """The labs, then the drills."""
        return (("", self._labs.labs),)

    def fill(self) -> None:
        """The list; a result that has not been seen is opened over it."""
        labs = self._labs
        head: Line = [(f"  {'LAB':<18}{'quick':>8}{'full':>8}  {'last run':<11}title", "muted")]
        self.show(self._title(), [head], [[], *_details(self.chosen, self.width)])
        if labs.unseen is not None and self.is_current:
            self._open(labs.results[labs.unseen], back=lambda _: self.action_close())

    def row(self, row: NamedExperiment, *, chosen: bool) -> Line:
        """Name, durations, verdict and title."""
        result = self._labs.results.get(row)
        run = self._labs.running
        verdict = "running" if run is not None and run.lab is row else result.verdict if result else ""
        symbol, token = VERDICTS.get(verdict, ("", "accent"))
        quick, full = (duration_text(row.seconds(quick=quick)) for quick in (True, False))
        return [
            (f"{'▸' if chosen else ' '} {row.name:<18}", "title b"),
            (f"{quick:>8}{full:>8}  ", "text"),
            (f"{f'{symbol} {verdict}'.strip():<11}", f"{token} b"),
            (_titled(row), "text"),
        ]

    def _title(self) -> Line:
        """What runs, or what would, and the keys that make sense now."""
        labs, run, name = self._labs, self._labs.running, ("Labs ", "title b")
        if run is not None:
            step = run.step
            left = f", {duration_text(step.left_s)} left" if step and step.left_s else ""
            number = f" {step.number}/{len(step.stages)}" if step else ""
            return [name, (f"{run.lab.name} runs{number}{left}   ", "text")]
        if self._asks is not None:
            lab = self.chosen
            lasts = duration_text(lab.seconds(quick=self._asks))
            asked = f"Run {lab.name} for {lasts}? The load is restored.  "
            return [(asked, "warn b"), *key_hints(("y", "runs it,"), ("↑↓", "drop it"))]
        hints = [("Enter", "quick"), ("f", "full"), ("b", "by itself" if labs.by_hand else "by hand")]
        hints += [("r", "result")] if self.chosen in labs.results else []
        told = f"by hand: {self.key('step.next')} begins each phase   " if labs.by_hand else ""
        return [name, (told, "warn"), *key_hints(*hints)]

    def moved(self) -> None:
        """Another lab takes the question back."""
        self._asks = None

    @on(OptionList.OptionSelected)
    def _run_quick(self) -> None:
        self.action_run(True)

    def action_run(self, quick: bool) -> None:
        """Run the chosen lab, on the dashboard; ask first while a load runs."""
        load = self._picture.tick.load if self._picture.tick is not None else None
        if (run := self._labs.running) is not None:
            text = f"the {run.lab.kind} {run.lab.name} runs: abort it first ({self.key('lab.abort')})"
            self.notify(text, severity="warning", timeout=4)
        elif self._sweep.running is not None:
            text = f"a sweep runs: stop it first ({self.key('sweep.open')}, then x)"
            self.notify(text, severity="warning", timeout=4)
        else:
            self._asks = quick
            if load is not None and load.clients and load.state == "running":
                self.fill()
            else:
                self.action_yes()

    def action_yes(self) -> None:
        """Run what it asks about."""
        if self._asks is not None:
            self._labs.start(self.chosen, quick=self._asks)
            self.dismiss()

    def action_by_hand(self) -> None:
        """Whether the next lab waits for a key between its phases."""
        self._labs.by_hand = not self._labs.by_hand
        self.fill()

    def action_result(self) -> None:
        """What the last run of the chosen lab found."""
        if self.chosen in self._labs.results:
            self._open(self._labs.results[self.chosen])

    def _open(self, result: ExperimentResult, back: Callable[[None], None] | None = None) -> None:
        """Show it; `back`: what follows when it is closed."""
        self._labs.unseen = None
        self.app.push_screen(LabResultScreen(result, self.settings), back)


def _titled(lab: NamedExperiment) -> str:
    return lab.title if lab.kind == "lab" else f"{lab.kind}: {lab.title}"


def _details(lab: NamedExperiment, width: int) -> Sequence[Line]:
    """What it teaches, whose experiment it is, what it does and what it will change."""
    told = [("title", _titled(lab)), ("teaches", lab.teaches)]
    changes = f"{', '.join(lab.turns)}; all are restored at the end"
    match lab:
        case Lab():
            if lab.systems:
                stacks = f"stacks of its own, one after the other: {', '.join(lab.systems)}"
                changes = f"nothing here: it makes {stacks}; in a shell, replexplorer lab run {lab.name}"
            elif lab.replicas > 1:
                changes += f"; it brings up replicas up to {lab.replicas}, and removes again what it made"
            told += [
                ("after", f"{lab.source.author}: {lab.source.title}" if lab.source is not None else ""),
                ("failure", lab.failure),
                ("phases", "; ".join(phase.name for phase in lab.phases)),
            ]
        case Matrix():
            whole, quick = (matrix_cells(quick=quick) for quick in (False, True))
            told.append(("steps", f"{len(whole)} cells, {len(quick)} of them quick"))
            told.append(("expects", "each cell loses what theory says and what the exposure meter said"))
        case Drill():
            told.append(("steps", "; ".join(step.text for step in lab.steps)))
            told.append(("expects", "; ".join(each.name for each in lab.expects)))
            changes += ", and every fault is cleared"
    told.append(("changes", changes))
    return [row for head, text in told if text for row in hung([(f"    {head:<10}", "muted")], text, width)]


class LabResultScreen(ListScreen):
    """The report of a run: published, predicted and measured; what holds, with its evidence."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("c", "copy", "Copy as Markdown", show=False)]

    def __init__(self, result: ExperimentResult, settings: Settings) -> None:
        super().__init__(settings)
        self._result = result

    def fill(self) -> None:
        """The report as the command line prints it."""
        result = self._result
        symbol, token = VERDICTS[result.verdict]
        began = f"{result.server}, {figures.local_time(result.started_wall_s)}"
        title: Line = [
            (f"{result.experiment.name} ", "title b"),
            (f"{symbol} {result.verdict} ", f"{token} b"),
            (f"{'quick' if result.quick else 'full'}, {began}   ", "muted"),
            *key_hints(("c", "copy")),
        ]
        self.show(title, [], report_rows(plain_text(experiment_report(result), self.width - 1), self.width))

    def action_copy(self) -> None:
        """Copy the result as Markdown, as `--report` writes it, over OSC 52."""
        result = self._result
        experiment = result.experiment
        words = [
            "replexplorer",
            experiment.kind,
            "run",
            experiment.name,
            *(["--quick"] if result.quick else []),
        ]
        result.again = [shlex.join(words)]
        told = f"{experiment.kind} {experiment.name} as Markdown"
        self.app.copy_to_clipboard(markdown(experiment_report(result)))
        self.notify(told, title="copied", timeout=4)


def report_rows(text: str, width: int) -> Sequence[Line]:
    """A report's text: what begins a part stands out, and verdicts have their color."""
    rows: list[Line] = []
    for part in text.split("\n\n"):
        head, *more = part.splitlines()
        is_title = bool(more) and "  " not in head and not head.endswith(".")
        for at, line in enumerate((head, *more)):
            token = VERDICTS.get(line.split(" ", 1)[0].lower(), ("", "text"))[1]
            words = "accent b" if is_title and at == 0 else token
            rows += [[(f" {row}", words)] for row in folded(line, width).splitlines()]
        rows.append([])
    return rows[:-1]


_ABOUT: Final[Sequence[Line]] = (
    [],
    [(" KEY=V1,V2,...", "title b"), ("   every combination is measured, in random order", "text")],
    [(" scene=none,local,network,both", "title b"), ("   named sets of knobs", "text")],
    [(" duration=5 repeat=3", "title b"), ("   seconds of a run; passes over all combinations", "text")],
    [],
    [(" Knobs are restored at the end, also of a sweep that is stopped.", "muted")],
    [(" Esc leaves it running behind the dashboard.", "muted")],
)


class SweepScreen(ListScreen):
    """The field, and below it what the sweep is, does and found."""

    DEFAULT_CSS = """
    SweepScreen Input, SweepScreen Input:focus {
        height: 1; border: none; padding: 0 1; background: $rx-select; color: $rx-title;
        background-tint: transparent 0%;
    }
    SweepScreen Input:disabled { background: $rx-panel; color: $rx-text; opacity: 100%; }
    """
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "stop", "Stop the sweep", show=False),
        Binding("e", "edit", "Type another sweep", show=False),
    ]

    def __init__(self, sweep: SweepControl, settings: Settings) -> None:
        super().__init__(settings)
        self._sweep = sweep
        self._followed = sweep.running is not None
        """A sweep ran when it was last looked at."""

    def compose(self) -> ComposeResult:
        """The field over the list."""
        yield Input(self._sweep.line, compact=True, select_on_focus=False)
        yield from super().compose()

    def on_mount(self) -> None:
        """Take the line at once, unless a sweep runs."""
        super().on_mount()
        self._field.cursor_blink = False
        self._follow()

    @property
    def _field(self) -> Input:
        return self.query_one(Input)

    @property
    def takes_letters(self) -> bool:
        """The field does while it has the keys."""
        return self.focused is self._field

    def _follow(self) -> None:
        """The field takes keys while nothing runs and nothing was found that one may want to scroll."""
        if self._sweep.running is None and self._sweep.swept is None:
            self.action_edit()
        else:
            self._field.disabled = self._sweep.running is not None
            self.set_focus(self.query_one("#body"))

    def action_edit(self) -> None:
        """Type another line."""
        if self._sweep.running is None:
            self._field.disabled = False
            self.set_focus(self._field)

    def action_stop(self) -> None:
        """Stop; the knobs are restored."""
        if self._sweep.running is not None:
            self._sweep.stop()
            self.notify("stopping the sweep, restoring the knobs", timeout=3)

    def on_key(self, event: events.Key) -> None:
        """The arrows scroll also while the field has the keys."""
        if self.takes_letters and event.key in ("up", "down", "pageup", "pagedown"):
            body = self.query_one("#body")
            scrolls = {"up": body.scroll_up, "down": body.scroll_down, "pageup": body.scroll_page_up}
            scrolls.get(event.key, body.scroll_page_down)()
            event.stop()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._sweep.line = event.value
        self.fill()

    @on(Input.Submitted)
    def _start(self) -> None:
        try:
            self._sweep.start(self._sweep.read())
        except UsageError as error:
            self.notify(str(error), severity="error", timeout=6)
            return
        self._followed = True
        self._follow()
        self.fill()

    def fill(self) -> None:
        """What can be typed while nothing ran yet; else what was found so far."""
        sweep = self._sweep
        if self._followed and sweep.running is None:
            self._followed = False
            self._follow()
        rows: list[Line] = [[(f" {sweep.problem}", "warn")], []] if sweep.problem else []
        rows += [[(f" {note}", "muted")] for note in sweep.notes]
        if sweep.sweep is not None:
            grid = sweep.sweep.grid
            rows += self._found(grid, figures_of(grid, sweep.runs))
        self.show(self._title(), [], rows or _ABOUT)

    def _found(self, grid: Grid, found: Sequence[CellFigures]) -> Iterator[Line]:
        """The map, each knob's effect and the table."""
        width = self.width - 1
        heat = heat_map(grid, found)
        blocks = [] if heat is None else [tuple(heat.lines)]
        if self._sweep.swept is not None:
            blocks.append(tuple(block_text(effects_notes(grid, found), width).splitlines()))
        blocks.append(tuple(block_text(sweep_table(grid, found), width).splitlines()))
        for head, *lines in filter(None, blocks):
            yield from ([(f" {head}", "accent b")], *([(f" {line}", "text")] for line in lines), [])

    def _title(self) -> Line:
        """What enter would start, what runs, or what ran."""
        sweep, name = self._sweep, ("Sweep ", "title b")
        if sweep.running is not None:
            progress = sweep.progress
            now = f" {progress.stage.name}" if progress and progress.stage else ""
            left = f" · {duration_text(progress.left_s)} left" if progress and progress.left_s else ""
            done = f"{progress.kept if progress else 0}/{sweep.running.total}"
            return [name, (f"{done}{now}{left}   ", "text"), *key_hints(("x", "stop"))]
        if not self.takes_letters:
            ran = runs_text(len(sweep.swept.runs)) if sweep.swept else "ended"
            return [name, (f"{ran}   ", "text"), *key_hints(("e", "another"))]
        try:
            return [name, (f"{sweep.read().words}   ", "text"), *key_hints(("enter", "start"))]
        except UsageError as error:
            return [name, (str(error), "warn")]
