"""The labs and drills: which there are, what each teaches and changes, what the last run of each found."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.binding import Binding, BindingType

from replexplorer.core.text import duration_text
from replexplorer.ui.desks.labs import LabDesk
from replexplorer.ui.desks.picture import Picture
from replexplorer.ui.desks.sweep import SweepDesk
from replexplorer.ui.keys.actions import CONDUCTOR, key_label, keys_of
from replexplorer.ui.keys.bindings import bindings_of
from replexplorer.ui.screens.listing import ListingScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.widgets.lab_rows import (
    VERDICTS,
    found_rows,
    lab_details,
    lab_heads,
    lab_row,
)
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, cut
from replexplorer.ui.words.staged import Staged, StagedResult, experiment_of, kind_of, stages, turned_by


class LabsScreen(ListingScreen):
    """The list; the chosen lab is unfolded."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_of(CONDUCTOR),
        Binding("enter", "run(True)", "Run it quick", show=False),
        Binding("f", "run(False)", "Run it full", show=False),
        Binding("b", "by_hand", "Wait for a key between phases", show=False),
        Binding("r", "result", "What its last run found", show=False),
        Binding("y", "yes", "Run it though a load runs", show=False),
    ]

    def __init__(self, desk: LabDesk, sweep: SweepDesk, picture: Picture, settings: Settings) -> None:
        super().__init__(settings)
        self._desk = desk
        self._picture = picture
        self._asks: bool | None = None
        """It asks whether to run the chosen one quick (True) or full; None: it does not ask."""
        self._sweep = sweep
        self._at = desk.labs.index(desk.lab) if desk.lab in desk.labs else 0

    @property
    def chosen(self) -> Staged:
        """The lab under the cursor."""
        return self._desk.labs[self._at]

    def fill(self) -> None:
        """The list; a result that nobody has seen is opened over it."""
        desk, width = self._desk, self.app.size.width - 1
        body: list[Line] = []
        for at, lab in enumerate(desk.labs):
            body.append(lab_row(lab, self._verdict(lab), self.app.size.width, chosen=at == self._at))
            if at == self._at:
                body += [*lab_details(lab, width), []]
        self.listing.arrows_do = "choose"
        self.listing.show(self._title(), [lab_heads()], body)
        if desk.unseen is not None and self.is_current:
            self._open(desk.results[desk.unseen], back=self._leave)

    def _verdict(self, lab: Staged) -> str:
        """Of the last run here."""
        if self._desk.is_running and lab is self._desk.lab:
            return "running"
        result = self._desk.results.get(lab)
        return result.verdict if result else ""

    def _title(self) -> Line:
        """The keys that make sense now."""
        desk = self._desk
        if desk.is_running and desk.lab is not None:
            step = desk.step
            left = f", {duration_text(step.left_s)} left" if step and step.left_s else ""
            number = f" {step.number}/{len(stages(desk.lab, step))}" if step else ""
            words = (("step.next", "next"), ("lab.pause", "pause"), ("lab.abort", "abort"))
            keys = _keys(*(f"{self._key(action)} {word}" for action, word in words))
            return [("Labs ", "title b"), (f"{desk.lab.name} runs{number}{left}   ", "text"), *keys]
        if self._asks is not None:
            return self._question(quick=self._asks)
        hand = "b by itself" if desk.by_hand else "b by hand"
        told = f"by hand: {self._key('step.next')} begins each phase   " if desk.by_hand else ""
        hints = ["Enter quick", "f full", hand, *(["r result"] if self.chosen in desk.results else [])]
        return [("Labs ", "title b"), (told, "warn"), *_keys(*hints)]

    def _question(self, *, quick: bool) -> Line:
        """What would run, what it turns and how long, while a load runs."""
        lab = self.chosen
        turned = ", ".join(sorted(turned_by(lab))) or "what its cells need"
        told = f"for {duration_text(lab.seconds(quick=quick))}: turns {turned}; restores them and the load.  "
        keys = [("y", "key b"), (" runs it, ", "muted"), ("↑↓", "key b"), (" drop it", "muted")]
        room = self.app.size.width - 48 - len(lab.name)
        return [
            (f"Run {lab.name} ", "warn b"),
            *cut([(told, "text")], room, self.settings.glyphs.ellipsis),
            *keys,
        ]

    def _key(self, action: str) -> str:
        """The first key of an action."""
        return key_label(keys_of(action, self.settings.keymap)[0])

    def action_scroll_by(self, rows: int) -> None:
        """Move the cursor."""
        self._at = max(0, min(len(self._desk.labs) - 1, self._at + rows))
        self._asks = None
        self.fill()
        self.listing.reveal(self._at, self._at + len(lab_details(self.chosen, self.app.size.width - 1)))

    def action_scroll_page(self, pages: int) -> None:
        """Move the cursor by a page."""
        self.action_scroll_by(pages * self.listing.page_rows)

    def action_run(self, quick: bool) -> None:
        """Run the chosen lab, on the dashboard; ask first while a load runs."""
        tick = self._picture.tick
        load = tick.load if tick is not None else None
        if self._desk.is_running and self._desk.lab is not None:
            running = f"{kind_of(self._desk.lab)} {self._desk.lab.name}"
            text = f"the {running} runs: abort it first ({self._key('lab.abort')})"
            self.notify(text, severity="warning", timeout=4)
        elif self._sweep.is_running:
            text = f"a sweep runs: stop it first ({self._key('sweep.open')}, then x)"
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
        self._desk.start(self.chosen, quick=quick)
        self.dismiss()

    def action_by_hand(self) -> None:
        """Whether the next lab waits for a key between its phases."""
        self._desk.by_hand = not self._desk.by_hand
        self.fill()

    def action_result(self) -> None:
        """What the last run of the chosen lab found."""
        if self.chosen in self._desk.results:
            self._open(self._desk.results[self.chosen])

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A hand on the lab only while one runs."""
        return self._desk.is_running if action in ("step_next", "lab_pause", "lab_abort") else True

    def action_step_next(self) -> None:
        """The next phase."""
        self._tell(self._desk.next())

    def action_lab_pause(self) -> None:
        """Hold it, or let it go on."""
        self._tell(self._desk.pause())

    def action_lab_abort(self) -> None:
        """End the lab that runs."""
        self._tell(self._desk.abort())

    def _tell(self, text: str) -> None:
        self.notify(text, timeout=3, markup=False)
        self.fill()

    def _leave(self, _: None) -> None:
        """Back to the dashboard."""
        self.dismiss()

    def _open(self, result: StagedResult, back: Callable[[None], None] | None = None) -> None:
        """Show it; `back`: what follows when it is closed."""
        self._desk.unseen = None
        self._at = self._desk.labs.index(experiment_of(result))
        self.app.push_screen(LabResultScreen(result, self.settings), back)


class LabResultScreen(ListingScreen):
    """Published, predicted and measured; what holds, with its evidence."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("c", "copy", "Copy as Markdown", show=False)]

    def __init__(self, result: StagedResult, settings: Settings) -> None:
        super().__init__(settings)
        self._result = result

    def fill(self) -> None:
        """The result."""
        result = self._result
        symbol, role = VERDICTS[result.verdict]
        began = f"{result.server}, {figures.local_time(result.started_wall_s)}"
        title: Line = [
            (f"{experiment_of(result).name} ", "title b"),
            (f"{symbol} {result.verdict} ", f"{role} b"),
            (f"{'quick' if result.quick else 'full'}, {began}   ", "muted"),
            *(_keys("c copy") if self.settings.lab_page else []),
        ]
        width = self.app.size.width - 1
        self.listing.show(title, [], found_rows(result, width))

    def action_copy(self) -> None:
        """Copy the result as Markdown, over OSC 52."""
        if self.settings.lab_page is not None:
            experiment = experiment_of(self._result)
            self.app.copy_to_clipboard(self.settings.lab_page(self._result))
            self.notify(
                f"{kind_of(experiment)} {experiment.name} as Markdown",
                title="copied",
                timeout=4,
                markup=False,
            )


def _keys(*hints: str) -> Line:
    """`KEY word`s."""
    parts = [hint.partition(" ") for hint in hints]
    return [run for key, _, word in parts for run in ((key, "key b"), (f" {word}  ", "muted"))]
