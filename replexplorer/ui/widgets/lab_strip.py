"""The narrated strip of a lab: which phase, what to watch, how far, and the keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from textual import events

from replexplorer.core.text import duration_text
from replexplorer.engine.experiment.labs.step import LabStep
from replexplorer.ui.desks.labs import LabView
from replexplorer.ui.keys.actions import key_label, keys_of
from replexplorer.ui.terminal.glyphs import BRAILLE, Glyphs
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words.runs import Line, Run, spread, width_of, wrapped
from replexplorer.ui.words.staged import kind_of, stage_of, stages

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
            rows = max(len(wrapped(stage.shows, width - 2)) for stage in stages(self._view.lab))
            self.styles.height = 1 if self._brief else 1 + max(1, min(_TOLD_ROWS, rows))

    def paint(self, width: int, height: int) -> list[Line]:
        """`LAB wan-insert 2/3 async  measuring ━━━━──── 43 s left      n next  P pause  A abort`."""
        view = self._view
        if view is None:
            return []
        stage = stage_of(view.lab, view.step)
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
    number = view.step.number if view.step else 0
    repeats = view.step.repeats if isinstance(view.step, LabStep) else 1
    turn = f" repeat {view.step.repeat}/{repeats}" if isinstance(view.step, LabStep) and repeats > 1 else ""
    return [
        (f" {kind_of(view.lab).upper()} ", "accent b"),
        (view.lab.name, "title b"),
        (f" {number}/{len(stages(view.lab, view.step))}{turn}", "accent b"),
    ]


def _phase(view: LabView) -> list[Run]:
    """The phase's name."""
    stage = stage_of(view.lab, view.step)
    return [(f" {stage.name}", "text b")] if stage else []


def _doing(view: LabView) -> list[Run]:
    """What is done in it."""
    if view.aborting or view.waits:
        return []
    if view.step and (stage := stage_of(view.lab, view.step)) and stage.name == view.step.doing:
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
