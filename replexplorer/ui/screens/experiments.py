"""The labs, drills and the sweep: which there are, what each teaches and changes, what the last run found."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, Final

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input, OptionList

from replexplorer.core.errors import UsageError
from replexplorer.core.experiment.drill import Drill
from replexplorer.core.experiment.experiment import ExperimentGroup, ExperimentResult, NamedExperiment
from replexplorer.core.experiment.lab import Lab
from replexplorer.core.experiment.lesson import Lesson
from replexplorer.core.experiment.matrix import Matrix, matrix_cells
from replexplorer.core.experiment.sweep_result import Swept, figures_of, heat_map
from replexplorer.core.system import system_of
from replexplorer.core.text import duration_text
from replexplorer.engine.experiment.sweep import SweepRun
from replexplorer.reports.experiment_report import experiment_report
from replexplorer.reports.report import block_text, markdown, plain_text
from replexplorer.reports.sweep_report import sweep_table
from replexplorer.ui.experiments import ExperimentControl
from replexplorer.ui.picture import Picture
from replexplorer.ui.screens.lists import ChoiceScreen, Listed, ListScreen, key_hints
from replexplorer.ui.settings import Settings
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, hung

VERDICTS: Final = {
    "holds": ("✓", "good"),
    "deviates": ("▲", "bad"),
    "aborted": ("✖", "warn"),
    "measured": ("✓", "good"),
}
"""A verdict's symbol and token."""
_NAME_CELLS: Final = 22
"""As long as the longest name that ships."""


class LabsScreen(ChoiceScreen[NamedExperiment]):
    """The list; Enter runs the chosen one quick."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "run(False)", "Run it full", show=False),
        Binding("r", "result", "What its last run found", show=False),
        Binding("y", "yes", "Run it though a load runs", show=False),
    ]

    def __init__(self, control: ExperimentControl, picture: Picture, settings: Settings) -> None:
        super().__init__(settings, control.last.experiment if control.last is not None else None)
        self._control = control
        self._picture = picture
        self._asks: bool | None = None
        """It asks whether to run the chosen one quick (True) or full; None: it does not ask."""

    @property
    def parts(self) -> Sequence[tuple[str, Sequence[NamedExperiment]]]:
        """The labs, the drills and the last sweep, by what they are about."""
        every = self._control.experiments
        return [(group.upper(), [each for each in every if each.group is group]) for group in ExperimentGroup]

    def listed(self) -> Listed:
        """What the chosen one is."""
        head: Line = [(f"  {'LAB':<{_NAME_CELLS}}{'quick':>8}{'full':>8}  {'last run':<11}title", "muted")]
        return Listed(self._title(), [[], *_details(self.chosen, self.width)], [head])

    def fill(self) -> None:
        """The list; a result that has not been seen is opened over it."""
        super().fill()
        if self._control.unseen is not None and self.is_current:
            self._open(self._control.unseen, back=lambda _: self.action_close())

    def row(self, row: NamedExperiment, *, chosen: bool) -> Line:
        """Name, durations, verdict and title; of one that cannot run here why."""
        result, run = self._control.result_of(row), self._control.running
        verdict = "running" if run is not None and run.experiment is row else _verdict(result)
        symbol, token = VERDICTS.get(verdict, ("", "accent"))
        quick, full = (duration_text(row.seconds(quick=quick)) for quick in (True, False))
        name = row.name if len(row.name) <= _NAME_CELLS else f"{row.name[: _NAME_CELLS - 1]}…"
        named, takes = f"{'▸' if chosen else ' '} {name:<{_NAME_CELLS}}", f"{quick:>8}{full:>8}  "
        if why := self._unfit(row):
            return [(f"{named}{takes}{why}", "muted")]
        return [
            (named, "title b"),
            (takes, "text"),
            (f"{f'{symbol} {verdict}'.strip():<11}", f"{token} b"),
            (_titled(row), "text"),
        ]

    def _unfit(self, experiment: NamedExperiment) -> str:
        """Why it cannot run on this stack."""
        tick = self._picture.tick
        return "" if tick is None else experiment.unfit(system_of(tick.system))

    def _title(self) -> Line:
        """What runs, or what would, and the keys that make sense now."""
        control, run, name = self._control, self._control.running, ("Labs ", "title b")
        if run is not None:
            step = run.step
            left = f", {duration_text(step.left_s)} left" if step and step.left_s else ""
            number = f" {step.number}/{len(step.stages)}" if step else ""
            return [name, (f"{run.experiment.name} runs{number}{left}   ", "text")]
        if self._asks is not None:
            lab = self.chosen
            lasts = duration_text(lab.seconds(quick=self._asks))
            asked = f"Run {lab.name} for {lasts}? The load is restored.  "
            return [(asked, "warn b"), *key_hints(("y", "runs it,"), ("↑↓", "drop it"))]
        hints = [("Enter", "quick"), ("f", "full")]
        hints = [("Enter", "begin it")] if self.chosen.kind == "lesson" else hints
        hints += [("r", "result")] if control.result_of(self.chosen) else []
        return [name, *key_hints(*hints)]

    def moved(self) -> None:
        """Another lab takes the question back."""
        self._asks = None

    @on(OptionList.OptionSelected)
    def _run_quick(self) -> None:
        self.action_run(True)

    def action_run(self, quick: bool) -> None:
        """Run the chosen lab, on the dashboard; ask first while a load runs, and say why it cannot run."""
        if why := self._unfit(self.chosen):
            told = f"the {self.chosen.kind} {self.chosen.name} cannot run here: it {why}"
            self.notify(told, severity="warning", timeout=6)
            return
        load = self._picture.tick.load if self._picture.tick is not None else None
        if not _refuses(self, self._control):
            self._asks = quick
            if self.chosen.kind != "lesson" and load is not None and load.clients and load.state == "running":
                self.fill()
            else:
                self.action_yes()

    def action_yes(self) -> None:
        """Run what it asks about."""
        if self._asks is not None:
            self._control.start(self.chosen, quick=self._asks)
            self.dismiss()

    def action_result(self) -> None:
        """What the last run of the chosen lab found."""
        result = self._control.result_of(self.chosen)
        if result is not None:
            self._open(result)

    def _open(self, result: ExperimentResult, back: Callable[[None], None] | None = None) -> None:
        """Show it; `back`: what follows when it is closed."""
        self._control.unseen = None
        self.app.push_screen(ListScreen(self.settings, "result", partial(_result, result)), back)


def _refuses(screen: ListScreen, control: ExperimentControl) -> bool:
    """Say what runs already; whether something does."""
    run = control.running
    if run is not None:
        text = f"the {run.experiment.kind} {run.experiment.name} runs: abort it first"
        screen.notify(f"{text} ({screen.key('lab.abort')})", severity="warning", timeout=4)
    return run is not None


def _verdict(result: ExperimentResult | None) -> str:
    """Nothing is expected of a sweep."""
    return "" if result is None else "measured" if isinstance(result, Swept) else result.verdict


def _titled(lab: NamedExperiment) -> str:
    return lab.title if lab.kind == "lab" else f"{lab.kind}: {lab.title}"


def _details(lab: NamedExperiment, width: int) -> Sequence[Line]:
    """What it teaches, whose experiment it is, what it does and what it will change."""
    told = [("title", _titled(lab)), ("teaches", lab.teaches)]
    changes = f"{', '.join(lab.turns)}; all are restored at the end"
    match lab:
        case Lab():
            if lab.systems:
                changes = f"nothing here: it has a stack for each of {', '.join(lab.systems)}"
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
        case Lesson():
            told.append(("steps", "; ".join(step.name for step in lab.steps)))
        case Drill():
            told.append(("steps", "; ".join(step.text for step in lab.steps)))
            told.append(("expects", "; ".join(each.name for each in lab.expects)))
            changes += ", and every fault is cleared"
    told.append(("changes", changes))
    return [row for head, text in told if text for row in hung([(f"    {head:<10}", "muted")], text, width)]


def _result(result: ExperimentResult, width: int) -> Listed:
    """The report of a run as the command line prints it: published, predicted and measured; what holds, with
    its evidence."""
    verdict = _verdict(result)
    symbol, token = VERDICTS[verdict]
    began = f"{result.server}, {figures.local_time(result.started_wall_s)}"
    title: Line = [
        (f"{result.experiment.name} ", "title b"),
        (f"{symbol} {verdict} ", f"{token} b"),
        (f"{'quick' if result.quick else 'full'}, {began}   ", "muted"),
        *key_hints(("c", "copy")),
    ]
    rows = [_report_row(line) for line in plain_text(experiment_report(result), width - 1).splitlines()]
    return Listed(title, rows, copies=partial(_as_markdown, result))


def _as_markdown(result: ExperimentResult) -> tuple[str, str]:
    """The report as `--report` writes it, with the command that runs the same again."""
    experiment, quick = result.experiment, ["--quick"] if result.quick else []
    if not result.again:
        result.again = [shlex.join(["replexplorer", experiment.kind, "run", experiment.name, *quick])]
    return markdown(experiment_report(result)), f"{experiment.kind} {experiment.name} as Markdown"


def _report_row(line: str) -> Line:
    """Verdicts have their color."""
    return [(f" {line}", VERDICTS.get(line.split(" ", 1)[0].lower(), ("", "text"))[1])]


_ABOUT: Final[Sequence[Line]] = (
    [],
    [(" KEY=V1,V2,...", "title b"), ("   every combination is measured, in random order", "text")],
    [(" preset=none,local,network,both", "title b"), ("   named sets of knobs", "text")],
    [(" duration=5 repeat=3", "title b"), ("   seconds of a run; passes over all combinations", "text")],
    [],
    [(" It runs behind the dashboard; knobs are restored at the end, also of one that is aborted.", "muted")],
)


class SweepScreen(ListScreen):
    """A sweep is typed, and begun behind the dashboard; while one runs, what it has found so far."""

    DEFAULT_CSS = """
    SweepScreen Input, SweepScreen Input:focus {
        height: 1; border: none; padding: 0 1; background: $rx-select; color: $rx-title;
        background-tint: transparent 0%;
    }
    SweepScreen Input:disabled { background: $rx-panel; color: $rx-text; opacity: 100%; }
    """
    AUTO_FOCUS = "Input, #body"

    def __init__(self, control: ExperimentControl, settings: Settings) -> None:
        super().__init__(settings)
        self._control = control

    def body(self) -> Sequence[Widget]:
        """The field over the list."""
        disabled = self._control.running is not None
        field = Input(self._control.line, compact=True, select_on_focus=False, disabled=disabled)
        return [field, *super().body()]

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        self._control.line = event.value
        self.fill()

    @on(Input.Submitted)
    def _start(self) -> None:
        try:
            sweep = self._control.read_sweep()
        except UsageError as error:
            self.notify(str(error), severity="error", timeout=6)
            return
        if not _refuses(self, self._control):
            self._control.start(sweep)
            self.dismiss()

    def listed(self) -> Listed:
        """What enter would start and how it is typed; of the one that runs, its map and its table so far."""
        run, name = self._control.running, ("Sweep ", "title b")
        if run is not None and isinstance(run.procedure, SweepRun):
            grid = run.procedure.sweep.grid
            found = figures_of(grid, run.procedure.runs)
            heat, table = heat_map(grid, found), block_text(sweep_table(grid, found), self.width)
            rows = [_report_row(line) for line in (*(heat.lines if heat else ()), "", *table.splitlines())]
            done = f"{run.step.kept if run.step else 0}/{run.procedure.sweep.total}"
            return Listed([name, (f"{done}, {self.key('lab.abort')} on the dashboard ends it", "text")], rows)
        try:
            return Listed(
                [name, (f"{self._control.read_sweep().words}   ", "text"), *key_hints(("enter", "start"))],
                _ABOUT,
            )
        except UsageError as error:
            return Listed([name, (str(error), "warn")], _ABOUT)
