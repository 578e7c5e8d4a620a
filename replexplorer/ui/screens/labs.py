"""The labs and drills: which there are, what each teaches and changes, what the last run of each found."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from textual.binding import Binding, BindingType

from replexplorer.core.experiment.drill import Drill
from replexplorer.core.experiment.experiment import ExperimentResult, NamedExperiment
from replexplorer.core.experiment.lab import Lab
from replexplorer.core.experiment.matrix import Matrix, matrix_cells
from replexplorer.core.text import duration_text, folded
from replexplorer.reports.experiment_report import experiment_report
from replexplorer.reports.report import plain_text
from replexplorer.ui.screens.listing import ListingScreen, key_hints
from replexplorer.ui.settings import Settings
from replexplorer.ui.state.experiments import LabControl, SweepControl
from replexplorer.ui.state.picture import Picture
from replexplorer.ui.state.presenter import turned_by
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, cut, hung, spread, width_of

VERDICTS: Final = {"holds": ("✓", "good"), "deviates": ("▲", "bad"), "aborted": ("✖", "warn")}
"""A verdict's symbol and token."""


class LabsScreen(ListingScreen):
    """The list; the chosen lab is unfolded."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "run(True)", "Run it quick", show=False),
        Binding("f", "run(False)", "Run it full", show=False),
        Binding("b", "by_hand", "Wait for a key between phases", show=False),
        Binding("r", "result", "What its last run found", show=False),
        Binding("y", "yes", "Run it though a load runs", show=False),
    ]
    ARROWS = "choose"

    def __init__(self, labs: LabControl, sweep: SweepControl, picture: Picture, settings: Settings) -> None:
        super().__init__(settings)
        self._labs = labs
        self._sweep = sweep
        self._picture = picture
        self._asks: bool | None = None
        """It asks whether to run the chosen one quick (True) or full; None: it does not ask."""
        self._at = labs.labs.index(labs.lab) if labs.lab in labs.labs else 0

    @property
    def chosen(self) -> NamedExperiment:
        """The lab under the cursor."""
        return self._labs.labs[self._at]

    def fill(self) -> None:
        """The list; a result that has not been seen is opened over it."""
        labs, width = self._labs, self.app.size.width - 1
        heads: Line = [(f"  {'LAB':<18}{'quick':>8}{'full':>8}  {'last run':<11}title", "muted")]
        body: list[Line] = []
        for at, lab in enumerate(labs.labs):
            row = self._row(lab, ground=" on select" if at == self._at else "")
            body.append(spread(row, [], self.app.size.width, row[0][1].removesuffix(" b")))
            if at == self._at:
                body += [*_details(lab, width, with_title=width_of(row) > width), []]
        self.listing.show(self._title(), [heads], body)
        if labs.unseen is not None and self.is_current:
            self._open(labs.results[labs.unseen], back=lambda _: self.action_close())

    def _row(self, lab: NamedExperiment, *, ground: str) -> Line:
        result, view = self._labs.results.get(lab), self._labs.view
        verdict = "running" if view and view.lab is lab else result.verdict if result else ""
        symbol, token = VERDICTS.get(verdict, ("", "accent"))
        quick, full = (duration_text(lab.seconds(quick=quick)) for quick in (True, False))
        return [
            (f"{'▸' if ground else ' '} {lab.name:<18}", f"title{ground} b"),
            (f"{quick:>8}{full:>8}  ", f"text{ground}"),
            (f"{f'{symbol} {verdict}'.strip():<11}", f"{token}{ground} b"),
            (_titled(lab), f"text{ground}"),
        ]

    def _title(self) -> Line:
        """What runs, or what would, and the keys that make sense now."""
        view, name = self._labs.view, ("Labs ", "title b")
        if view is not None:
            step = view.step
            left = f", {duration_text(step.left_s)} left" if step and step.left_s else ""
            number = f" {step.number}/{len(step.stages)}" if step else ""
            return [name, (f"{view.lab.name} runs{number}{left}   ", "text")]
        if self._asks is not None:
            return self._question(quick=self._asks)
        by_hand = self._labs.by_hand
        hints = [("Enter", "quick"), ("f", "full"), ("b", "by itself" if by_hand else "by hand")]
        hints += [("r", "result")] if self.chosen in self._labs.results else []
        told = f"by hand: {self.key('step.next')} begins each phase   " if by_hand else ""
        return [name, (told, "warn"), *key_hints(*hints)]

    def _question(self, *, quick: bool) -> Line:
        """What would run, what it turns and how long, while a load runs."""
        lab = self.chosen
        turned = ", ".join(sorted(turned_by(lab))) or "what its cells need"
        told = f"for {duration_text(lab.seconds(quick=quick))}: turns {turned}; restores them and the load.  "
        return [
            (f"Run {lab.name} ", "warn b"),
            *cut([(told, "text")], self.app.size.width - 48 - len(lab.name), self.settings.glyphs.ellipsis),
            *key_hints(("y", "runs it,"), ("↑↓", "drop it")),
        ]

    def action_scroll_by(self, rows: int) -> None:
        """Move the cursor."""
        self._at = max(0, min(len(self._labs.labs) - 1, self._at + rows))
        self._asks = None
        self.fill()
        self.listing.reveal(self._at, self._at + len(_details(self.chosen, self.app.size.width - 1)))

    def action_run(self, quick: bool) -> None:
        """Run the chosen lab, on the dashboard; ask first while a load runs."""
        tick = self._picture.tick
        load = tick.load if tick is not None else None
        if (view := self._labs.view) is not None:
            text = f"the {view.lab.kind} {view.lab.name} runs: abort it first ({self.key('lab.abort')})"
            self.notify(text, severity="warning", timeout=4)
        elif self._sweep.is_running:
            text = f"a sweep runs: stop it first ({self.key('sweep.open')}, then x)"
            self.notify(text, severity="warning", timeout=4)
        elif load is not None and load.clients and load.state == "running":
            self._asks = quick
            self.fill()
        else:
            self._start(quick)

    def action_yes(self) -> None:
        """Run what it asks about."""
        if self._asks is not None:
            self._start(self._asks)

    def _start(self, quick: bool) -> None:
        self._labs.start(self.chosen, quick=quick)
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
        self._at = self._labs.labs.index(result.experiment)
        self.app.push_screen(LabResultScreen(result, self.settings), back)


def _titled(lab: NamedExperiment) -> str:
    return lab.title if lab.kind == "lab" else f"{lab.kind}: {lab.title}"


def _details(lab: NamedExperiment, width: int, *, with_title: bool = True) -> list[Line]:
    """What it teaches, whose experiment it is, what it does and what it will change."""
    told = [("title", _titled(lab) if with_title else ""), ("teaches", lab.teaches)]
    changes = f"{', '.join(lab.turns)}; all are restored at the end"
    match lab:
        case Lab():
            source = lab.source
            if lab.systems:
                stacks = f"stacks of its own, one after the other: {', '.join(lab.systems)}"
                changes = f"nothing here: it makes {stacks}; in a shell, replexplorer lab run {lab.name}"
            elif lab.replicas > 1:
                changes += f"; it brings up replicas up to {lab.replicas}, and removes again what it made"
            told += [
                ("after", f"{source.author}: {source.title}" if source is not None else ""),
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


class LabResultScreen(ListingScreen):
    """The report of a run: published, predicted and measured; what holds, with its evidence."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("c", "copy", "Copy as Markdown", show=False)]

    def __init__(self, result: ExperimentResult, settings: Settings) -> None:
        super().__init__(settings)
        self._result = result

    def fill(self) -> None:
        """The report as the command line prints it."""
        result, width = self._result, self.app.size.width - 1
        symbol, token = VERDICTS[result.verdict]
        began = f"{result.server}, {figures.local_time(result.started_wall_s)}"
        title: Line = [
            (f"{result.experiment.name} ", "title b"),
            (f"{symbol} {result.verdict} ", f"{token} b"),
            (f"{'quick' if result.quick else 'full'}, {began}   ", "muted"),
            *(key_hints(("c", "copy")) if self.settings.lab_page else []),
        ]
        report = experiment_report(result)
        self.listing.show(title, [], report_rows(plain_text(report, width - 1), width))

    def action_copy(self) -> None:
        """Copy the result as Markdown, over OSC 52."""
        if self.settings.lab_page is not None:
            experiment = self._result.experiment
            told = f"{experiment.kind} {experiment.name} as Markdown"
            self.copy(self.settings.lab_page(self._result), told)


def report_rows(text: str, width: int) -> list[Line]:
    """A report's text: what begins a part stands out, and verdicts have their color."""
    rows: list[Line] = []
    for part in text.split("\n\n"):
        head, *more = part.splitlines()
        is_title = bool(more) and "  " not in head and not head.endswith(".")
        for at, line in enumerate((head, *more)):
            word = line.split(" ", 1)[0].lower()
            token = VERDICTS.get(word, ("", "text"))[1]
            for row in folded(line, width).splitlines():
                rows.append([(f" {row}", "accent b" if is_title and at == 0 else token)])
        rows.append([])
    return rows[:-1]
