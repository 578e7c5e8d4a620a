"""A lab under way: which phase, what to watch, how far; and who sees the row first, try by try."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from textual import events

from replexplorer.core.experiment.experiment import Try
from replexplorer.core.text import duration_text
from replexplorer.ui.actions import key_label, keys_of
from replexplorer.ui.state.experiments import LabView
from replexplorer.ui.terminal.glyphs import BRAILLE, Glyphs
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, rule, spread, width_of, wrapped

_BAR: Final = 12
_TOLD_ROWS: Final = 3


class LabStrip(Lines):
    """A row that says where the lab is, and what to watch below it; as high throughout a lab."""

    GROUND: ClassVar[str] = "panel"
    DEFAULT_CSS = "LabStrip { height: 2; }"

    def __init__(self, keymap: Mapping[str, str], *, glyphs: Glyphs = BRAILLE, id: str | None = None) -> None:
        super().__init__(glyphs=glyphs, id=id)
        self._keymap = keymap
        self._view: LabView | None = None
        self._brief = False

    @property
    def brief(self) -> bool:
        """Only its first row: what to watch stands elsewhere."""
        return self._brief

    @brief.setter
    def brief(self, brief: bool) -> None:
        self._brief = brief
        self._fit()
        self.repaint()

    def show(self, view: LabView | None) -> None:
        """Show the lab as it is now."""
        self._view = view
        self._fit()
        self.repaint()

    def on_resize(self, event: events.Resize) -> None:
        """Another width may need other rows."""
        self._fit()
        super().on_resize(event)

    def _fit(self) -> None:
        """Rows for the longest of the lab's sentences."""
        width = self.app.size.width
        if self._view is not None:
            rows = max(len(wrapped(stage.shows, width - 2)) for stage in self._view.lab.stages)
            self.styles.height = 1 if self._brief else 1 + max(1, min(_TOLD_ROWS, rows))

    def paint(self, width: int, height: int) -> list[Line]:
        """`LAB wan-insert 2/3 async  measuring ━━━━──── 43 s left      n next  P pause  A abort`."""
        view = self._view
        if view is None:
            return []
        stage = view.step and view.step.stage
        shows = wrapped(stage.shows, width - 2) if stage else [view.lab.teaches]
        told: list[Line] = [] if self._brief else [[(" ", "text"), (row, "title")] for row in shows]
        return [self._head(view, width), *told]

    def _head(self, view: LabView, width: int) -> list[Run]:
        """The row in the fullest form that fits."""
        keys = self._keys(view)
        room = width - width_of(keys) - 1
        stands = [*_which(view), *self._state(view), *_phase(view)]
        doing, bar, left = _doing(view), _bar(view), _left(view)
        for rest in ([*doing, *bar, *left], [*doing, *left], left, []):
            if width_of(row := [*stands, *rest]) <= room:
                break
        return spread(row, keys, width)

    def _state(self, view: LabView) -> list[Run]:
        """What a presenter must not overlook."""
        if view.aborting:
            return [("  ending, restoring the knobs ", "warn b")]
        if view.waits:
            return [(f"  waits for {self._key('step.next')} ", "warn b")]
        return [("  will wait ", "warn b")] if view.paused else []

    def _key(self, action: str) -> str:
        return key_label(keys_of(action, self._keymap)[0])

    def _keys(self, view: LabView) -> list[Run]:
        words = [
            ("step.next", "next"),
            ("lab.pause", "go on" if view.paused else "pause"),
            ("lab.abort", "abort"),
        ]
        if view.aborting:
            return []
        runs: list[Run] = []
        for action, word in words:
            key = self._key(action)
            lit = "warn b" if view.waits and action == "step.next" else "muted"
            runs += [(" " if not runs else "  ", "text"), (key, "key b"), (f" {word}", lit)]
        return [*runs, (" ", "text")]


def _which(view: LabView) -> list[Run]:
    """The lab, and which of its phases."""
    step = view.step
    which = f"{step.number}/{len(step.stages)}" if step else f"0/{len(view.lab.stages)}"
    turn = f" repeat {step.repeat}/{step.repeats}" if step and step.repeats > 1 else ""
    return [
        (f" {view.lab.kind.upper()} ", "accent b"),
        (view.lab.name, "title b"),
        (f" {which}{turn}", "accent b"),
    ]


def _phase(view: LabView) -> list[Run]:
    """The phase's name."""
    stage = view.step and view.step.stage
    return [(f" {stage.name}", "text b")] if stage else []


def _doing(view: LabView) -> list[Run]:
    """What is done in it."""
    if view.aborting or view.waits:
        return []
    if view.step and (stage := view.step.stage) and stage.name == view.step.doing:
        return []  # a step of a drill is what is done
    return [(f"  {view.step.doing if view.step else 'beginning'}", "muted")]


def _bar(view: LabView) -> list[Run]:
    """How far the phase is."""
    step = view.step
    if step is None or step.done is None or view.waits or view.aborting:
        return []
    done = round(step.done * _BAR)
    return [("  ", "text"), ("━" * done, "accent"), ("─" * (_BAR - done), "rule")]


def _left(view: LabView) -> list[Run]:
    """About how long until the lab's end."""
    step = view.step
    if step is None or step.left_s is None or step.left_s < 1 or view.aborting:
        return []
    return [(f"  {duration_text(step.left_s)} left", "text")]


WIDE_FROM: Final = 100
"""Columns from which what happened is said in whole words."""
_SHORT: Final = (("not seen", "seen"), ("waits", "returned"))
_SPELLED: Final = (("row not seen", "row seen after"), ("its COMMIT waits", "its COMMIT returned after"))
"""Of the row and of its COMMIT: not yet, and since when."""
_BEYOND: Final = 1.15
"""The bars' scale ends that much after the round trip that is asked for."""


class LabTries(Lines):
    """A bar a try: as long as the writer waits, with a dot where the reader sees the row."""

    DEFAULT_CSS = "LabTries { height: 1fr; }"

    _tries: Sequence[Try] = ()
    _rtt_ms = 0.0

    def show(self, tries: Sequence[Try], rtt_ms: float) -> None:
        """Show these, over a round trip that is asked to be so long."""
        self._tries, self._rtt_ms = tries, rtt_ms
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """Each phase with its tries under it; where there is no room for all, the newest."""
        if not self._tries:
            return []
        end_ms = max(_BEYOND * self._rtt_ms, *(each.lasts_ms for each in self._tries))
        words = _SPELLED if width >= WIDE_FROM else _SHORT
        rows: list[Line] = []
        for phase in dict.fromkeys(each.phase for each in self._tries):
            here = [each for each in self._tries if each.phase == phase]
            rows.append(_heading(phase, here))
            rows += [_row(each, width, end_ms, words) for each in here]
        title: Line = [("Tries ", "title b"), ("when another session sees a new row", "muted")]
        scale: Line = [(f"bar: 0 to {figures.millis(end_ms)} ms since INSERT", "muted")]
        return [rule(title, scale if width >= WIDE_FROM else [], width), *rows[-(height - 1) :]]


def _heading(phase: str, tries: Sequence[Try]) -> Line:
    """`AFTER_COMMIT  7 of 7 seen before COMMIT returned`."""
    over = [each for each in tries if each.returned_ms is not None]
    early = sum(each.is_early for each in over)
    told = f"  {early} of {len(over)} seen before COMMIT returned" if over else ""
    return [(f" {phase}", "accent b"), (told, "warn b" if early else "good b")]


def _row(attempt: Try, width: int, end_ms: float, words: Sequence[Sequence[str]]) -> Line:
    """`  3 ●━━━━━━━━━━    row seen after 9 ms  COMMIT waits 612 ms`; its columns never move."""
    ink = "warn b" if attempt.is_early else "good b"
    told: list[Run] = []
    for (pending, done), ms, style in (
        (words[0], attempt.seen_ms, ink),
        (words[1], attempt.returned_ms, "text"),
    ):
        figure = figures.millis(attempt.lasts_ms if ms is None else ms)
        figure = "" if ms is None and pending == words[0][0] else f"{figure} ms"
        text = f"{pending if ms is None else done:<{max(len(pending), len(done))}} {figure:>7}"
        told.append((f"  {text}", "muted" if ms is None else style))
    room = width - 6 - sum(len(text) for text, _ in told)
    bar = round((attempt.returned_ms or attempt.lasts_ms) / end_ms * (room - 1))
    cells: list[Run] = [("━" if at <= bar else " ", "p99") for at in range(room)]
    if attempt.returned_ms is not None:
        cells[bar] = ("┤", "p99")
    if attempt.seen_ms is not None:
        cells[min(round(attempt.seen_ms / end_ms * (room - 1)), bar)] = ("●", ink)
    return [(f" {attempt.number:>2}  ", "muted"), *cells, *told]
