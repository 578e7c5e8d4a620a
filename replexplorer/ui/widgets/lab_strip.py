"""A lab under way: which phase, what to watch, how far; and who sees the row first, try by try."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from replexplorer.core.experiment.experiment import Try
from replexplorer.core.text import duration_text
from replexplorer.ui.experiments import RunningExperiment
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, apart, fit, hint, rule, spread, width_of, wrapped

_BAR: Final = 12
_TOLD_ROWS: Final = 3


class LabStrip(Lines[RunningExperiment]):
    """A row that says where the lab is, and what to watch below it; as high throughout a lab."""

    GROUND: ClassVar[str] = "panel"
    DEFAULT_CSS = "LabStrip { height: 2; }"

    brief = False
    """Only its first row: what to watch stands elsewhere."""

    def repaint(self) -> None:
        """Take rows for the longest of the lab's sentences, and paint."""
        if self.shown is not None:
            width = self.app.size.width - 2
            rows = max(len(wrapped(stage.shows, width)) for stage in self.shown.experiment.stages)
            height = 1 if self.brief else 1 + max(1, min(_TOLD_ROWS, rows))
            if self.styles.height is None or self.styles.height.value != height:
                self.styles.height = height
        super().repaint()

    def draw(self, shown: RunningExperiment, width: int, height: int) -> list[Line]:
        """`LAB wan-insert 2/3 async  measuring ━━━━──── 43 s left      n next  P pause  A abort`."""
        stage = shown.step and shown.step.stage
        shows = wrapped(stage.shows, width - 2) if stage else [shown.experiment.teaches]
        told = [] if self.brief else [[(f" {row}", "title")] for row in shows]
        keys: list[Run] = []
        if not shown.hand.aborted:
            hints = [
                hint(self.key("step.next"), "next", "warn b" if shown.hand.waits else "muted"),
                hint(self.key("lab.pause"), "go on" if shown.hand.paused else "pause"),
                hint(self.key("lab.abort"), "abort"),
            ]
            hints = hints[-1:] if shown.experiment.kind == "sweep" else hints  # it waits for nobody
            keys = [*apart(hints, "  "), (" ", "text")]
        stands = [*_which(shown), *self._state(shown)]
        doing, bar, left = _rest(shown)
        rests: list[Line] = [[*doing, *bar, *left], [*doing, *left], left, []]
        return [
            spread(fit(([*stands, *rest] for rest in rests), width - width_of(keys) - 1), keys, width),
            *told,
        ]

    def _state(self, view: RunningExperiment) -> list[Run]:
        """What a presenter must not overlook, and the phase's name."""
        stage = view.step and view.step.stage
        name: list[Run] = [(f" {stage.name}", "text b")] if stage else []
        told = (
            f"waits for {self.key('step.next')}"
            if view.hand.waits
            else "will wait"
            if view.hand.paused
            else ""
        )
        if view.hand.aborted:
            told = "ending, restoring the knobs"
        return [(f"  {told} ", "warn b"), *name] if told else name


def _which(view: RunningExperiment) -> list[Run]:
    """The lab, and which of its phases."""
    step = view.step
    which = f"{step.number}/{len(step.stages)}" if step else f"0/{len(view.experiment.stages)}"
    turn = f" repeat {step.repeat}/{step.repeats}" if step and step.repeats > 1 else ""
    return [
        (f" {view.experiment.kind.upper()} ", "accent b"),
        (view.experiment.name, "title b"),
        (f" {which}{turn}", "accent b"),
    ]


def _rest(view: RunningExperiment) -> tuple[Line, Line, Line]:
    """What is done in the phase, how far it is, and about how long until the lab's end."""
    step, rests = view.step, view.hand.waits or view.hand.aborted
    doing = step.doing if step else "beginning"
    is_named = step is not None and step.stage is not None and step.stage.name == doing  # a drill's step
    bar: Line = []
    if step and step.done is not None and not rests:
        done = round(step.done * _BAR)
        bar = [("  ", "text"), ("━" * done, "accent"), ("─" * (_BAR - done), "rule")]
    has_left = step and step.left_s is not None and step.left_s >= 1 and not view.hand.aborted
    left = f"  {duration_text(step.left_s or 0)} left" if step and has_left else ""
    return [] if rests or is_named else [(f"  {doing}", "muted")], bar, [(left, "text")] if left else []


WIDE_FROM: Final = 100
"""Columns from which what happened is said in whole words."""
_SHORT: Final = (("not seen", "seen"), ("waits", "returned"))
_SPELLED: Final = (("row not seen", "row seen after"), ("its COMMIT waits", "its COMMIT returned after"))
"""Of the row and of its COMMIT: not yet, and since when."""
_BEYOND: Final = 1.15
"""The bars' scale ends that much after the round trip that is asked for."""


class LabTries(Lines[tuple[Sequence[Try], float]]):
    """A bar a try: as long as the writer waits, with a dot where the reader sees the row; of the tries, and
    of the round trip in ms that is asked for."""

    DEFAULT_CSS = "LabTries { height: 1fr; }"

    def draw(self, shown: tuple[Sequence[Try], float], width: int, height: int) -> list[Line]:
        """Each phase with its tries under it; where there is no room for all, the newest."""
        tries, rtt_ms = shown
        if not tries:
            return []
        end_ms = max(_BEYOND * rtt_ms, *(each.lasts_ms for each in tries))
        words = _SPELLED if width >= WIDE_FROM else _SHORT
        rows: list[Line] = []
        for phase in dict.fromkeys(each.phase for each in tries):
            here = [each for each in tries if each.phase == phase]
            over = [each for each in here if each.returned_ms is not None]
            early = sum(each.is_early for each in over)
            told = f"  {early} of {len(over)} seen before COMMIT returned" if over else ""
            rows.append([(f" {phase}", "accent b"), (told, "warn b" if early else "good b")])
            rows += [_row(each, width, end_ms, words) for each in here]
        title: Line = [("Tries ", "title b"), ("when another session sees a new row", "muted")]
        scale: Line = [(f"bar: 0 to {figures.millis(end_ms)} ms since INSERT", "muted")]
        return [rule(title, scale if width >= WIDE_FROM else [], width), *rows[-(height - 1) :]]


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
