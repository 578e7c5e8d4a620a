"""A lab under way: which phase, what to watch, how far; and who sees the row first, try by try."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from replexplorer.core.experiment.experiment import Try
from replexplorer.core.text import duration_text
from replexplorer.engine.lesson import LessonRun
from replexplorer.ui.actions import RESET
from replexplorer.ui.experiments import RunningExperiment
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words import figures
from replexplorer.ui.words.runs import Line, Run, apart, fit, hint, rule, spread, width_of, wrapped

_BAR: Final = 12
_TOLD_ROWS: Final = 3
_SIGNS: Final = {True: ("✓", "good b"), False: ("✖", "bad b"), None: ("▲", "warn b")}
"""Of an answer that is right, or not, or cannot be judged, with its ink."""
_REST_ROWS: Final = 12
"""Of a screen what a lesson leaves: a chart and the rows around it."""
_BRIEF_ROWS: Final = 7
"""What it takes where its sentences stand elsewhere."""


class LabStrip(Lines[RunningExperiment]):
    """A row that says where the lab is, and what to watch below it; as high throughout a lab."""

    GROUND = "panel"
    DEFAULT_CSS = "LabStrip { height: 2; }"

    brief = False
    """What to watch stands elsewhere."""
    wall_s = 0.0
    """The time, for a lesson's clock."""

    def repaint(self) -> None:
        """Take rows for the longest of the lab's sentences, or for what a lesson has to say, and paint."""
        if self.shown is not None:
            width = self.app.size.width - 2
            rows = max(len(wrapped(stage.shows, width)) for stage in self.shown.experiment.stages)
            height = 1 if self.brief else 1 + max(1, min(_TOLD_ROWS, rows))
            if isinstance(lesson := self.shown.procedure, LessonRun):
                height = 1 + len(self._said(lesson, width + 2))
            self.take_rows(height)
        super().repaint()

    def draw(self, shown: RunningExperiment, width: int, height: int) -> list[Line]:
        """`LAB wan-insert 2/3 async  measuring ━━━━──── 43 s left      n next  P pause  A abort`."""
        stage = shown.step and shown.step.stage
        lesson = shown.procedure if isinstance(shown.procedure, LessonRun) else None
        shows = wrapped(stage.shows, width - 2) if stage else [shown.experiment.teaches]
        below = [] if self.brief else [_row_of(row, "title") for row in shows]
        keys: Line = []
        if lesson is not None:
            below, keys = self._said(lesson, width), self._keys_of(lesson)
        elif not shown.hand.aborted:
            hints = [
                hint(self.key("step.next"), "next", "warn b" if shown.hand.waits else "muted"),
                hint(self.key("lab.pause"), "resume" if shown.hand.paused else "pause"),
                hint(self.key("lab.abort"), "abort"),
            ]
            hints = hints[-1:] if shown.experiment.kind == "sweep" else hints  # it waits for nobody
            keys = [*apart(hints, "  "), (" ", "text")]
        stands = [*_which(shown), *(self._state(shown) if lesson is None else self._time(lesson))]
        doing, bar, left = _rest(shown)
        rests: list[Line] = [[*doing, *bar, *left], [*doing, *left], left, []]
        return [
            spread(fit(([*stands, *rest] for rest in rests), width - width_of(keys) - 1), keys, width),
            *below,
        ]

    def _said(self, lesson: LessonRun, width: int) -> list[Line]:
        """What is said, the question with its choices, and what became of it; where there is no room for all
        the end of what is said is missing."""
        step, most = lesson.step, _BRIEF_ROWS if self.brief else self.app.size.height - _REST_ROWS
        found = [each for each in lesson.answers if each.step == step.name and not lesson.is_open]
        texts = [] if step.ask is None else [(step.ask.text, "accent b")]
        texts += [(f"{_SIGNS[each.is_right][0]} {each.words}", _SIGNS[each.is_right][1]) for each in found]
        asked = [_row_of(row, ink) for text, ink in texts for row in wrapped(text, width - 2)]
        if step.ask is not None and not found:
            asked += [hint(f" {number}", each.text) for number, each in enumerate(step.ask.choices, 1)]
        said = [] if self.brief else [_row_of(row, "title") for row in wrapped(step.say, width - 2)]
        return [*said[: max(1, most - len(asked))], *asked]

    def _keys_of(self, lesson: LessonRun) -> Line:
        """What can be done now."""
        is_last = lesson.at + 1 == len(lesson.lesson.steps)
        next_one = (
            ("lesson.answer", "answer") if lesson.is_open else ("step.next", "end" if is_last else "next")
        )
        keys = [next_one, ("step.prev", "back"), (RESET, "reset")]
        keys = [("lab.abort", "ends it")] if lesson.busy else keys
        return [*apart([hint(self.key(key), word) for key, word in keys], "  "), (" ", "text")]

    def _time(self, lesson: LessonRun) -> Line:
        """` · 12:31 of 30 min`."""
        used_s = max(0, int(self.wall_s - lesson.state.began_wall_s))
        late = "warn b" if used_s > 60 * lesson.lesson.minutes else "text"
        return [(f" · {used_s // 60}:{used_s % 60:02d} of {lesson.lesson.minutes} min", late)]

    def _state(self, view: RunningExperiment) -> list[Run]:
        """What a presenter must not overlook, and the phase's name."""
        stage = view.step and view.step.stage
        name: list[Run] = [(f" {stage.name}", "text b")] if stage else []
        notice = (
            f"waits for {self.key('step.next')}"
            if view.hand.waits
            else "will wait"
            if view.hand.paused
            else ""
        )
        if view.hand.aborted:
            notice = "ending, restoring the knobs"
        return [(f"  {notice} ", "warn b"), *name] if notice else name


def _row_of(text: str, ink: str) -> Line:
    return [(f" {text}", ink)]


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
    doing: Line = [(f"  {step.doing if step else 'beginning'}", "muted")]
    if rests or (step and step.stage and step.stage.name == step.doing):  # a drill's step is named already
        doing = []
    if isinstance(view.procedure, LessonRun) and view.procedure.busy:
        doing = [(f"  {view.procedure.busy} …", "warn b")]
    bar: Line = []
    if step and step.done is not None and not rests:
        done = round(step.done * _BAR)
        bar = [("  ", "text"), ("━" * done, "accent"), ("─" * (_BAR - done), "rule")]
    left_s = 0 if step is None or view.hand.aborted else step.left_s or 0
    return doing, bar, [(f"  {duration_text(left_s)} left", "text")] if left_s >= 1 else []


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
        rows: list[Line] = []
        for phase in dict.fromkeys(each.phase for each in tries):
            here = [each for each in tries if each.phase == phase]
            over = [each for each in here if each.returned_ms is not None]
            early = sum(each.is_early for each in over)
            summary = f"  {early} of {len(over)} seen before COMMIT returned" if over else ""
            rows.append([(f" {phase}", "accent b"), (summary, "warn b" if early else "good b")])
            rows += [_row(each, width, end_ms) for each in here]
        title: Line = [("Tries ", "title b"), ("when another session sees a new row", "muted")]
        scale: Line = [(f"0 to {figures.millis(end_ms)} ms", "muted")]
        return [rule(title, scale, width), *rows[-(height - 1) :]]


def _row(attempt: Try, width: int, end_ms: float) -> Line:
    """`  3 ●━━━━━━━━━━    seen        9 ms  COMMIT waits     612 ms`; its columns never move."""
    seen_ms, returned_ms = attempt.seen_ms, attempt.returned_ms
    ink = "warn b" if attempt.is_early else "good b"
    last_ms = attempt.lasts_ms if returned_ms is None else returned_ms
    seen = "not seen" if seen_ms is None else f"seen     {figures.millis(seen_ms):>5} ms"
    waits = f"its COMMIT {'waits' if returned_ms is None else 'returned':<8} {figures.millis(last_ms):>5} ms"
    outcome: Line = [
        (f"  {seen:<17}", "muted" if seen_ms is None else ink),
        (f"  {waits}", "muted" if returned_ms is None else "text"),
    ]
    room = width - 6 - width_of(outcome)
    bar = round(last_ms / end_ms * (room - 1))
    cells: list[Run] = [("━" if at <= bar else " ", "p99") for at in range(room)]
    if returned_ms is not None:
        cells[bar] = ("┤", "p99")
    if seen_ms is not None:
        cells[min(round(seen_ms / end_ms * (room - 1)), bar)] = ("●", ink)
    return [(f" {attempt.number:>2}  ", "muted"), *cells, *outcome]
