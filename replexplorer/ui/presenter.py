"""Presenting: since when, what was said last, which keys were pressed, which caption of a lesson is read."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final

from textual import events

from replexplorer.core.experiment.experiment import Stage
from replexplorer.core.history.caption import caption
from replexplorer.core.records import dataclass, field
from replexplorer.core.tick import Tick
from replexplorer.ui.actions import key_label
from replexplorer.ui.experiments import ExperimentControl

KEY_SHOWN_S: Final = 4.0
"""How long a key that was pressed is shown."""


@dataclass(slots=True)
class Presenter:
    """What the room sees next to the picture; it watches even while no one presents."""

    labs: ExperimentControl
    """Whose lab is the lesson."""
    began_s: float | None = None
    """When presenting began, on the dashboard's clock; None while no one presents."""
    caption: str = ""
    """What happened last."""
    reads: int | None = None
    """Number of the lesson's stage whose caption is read, from 1; None: the one under way."""
    _seen: Tick | None = None
    _keys: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=12))
    _under_way: tuple[object, int] | None = None
    """The lesson and its stage as last seen."""

    def toggle(self, now_s: float) -> None:
        """Begin to present, or end it."""
        self.began_s = now_s if self.began_s is None else None
        self.reads = None

    def fold(self, tick: Tick) -> None:
        """Take a tick, and the lesson under way."""
        before, self._seen = self._seen, tick
        if before is not None and before.at_s <= tick.at_s and before.stack == tick.stack:
            self.caption = caption(before, tick) or self.caption
        under_way = self.labs.running, self._number
        if under_way != self._under_way:
            self._under_way, self.reads = under_way, None

    @property
    def lesson_keys(self) -> frozenset[str] | None:
        """Keys of the knobs that the lesson turns, which all stay in view; without one, before a room, of
        those that are not at their default. None: all knobs."""
        lesson = self.labs.running
        if lesson is not None and lesson.experiment.turns:
            return frozenset(text.partition("@")[0] for text in lesson.experiment.turns)
        if self.began_s is None or self._seen is None:
            return None
        moved = {name.key for name, knob in self._seen.knobs.items() if knob.requested != knob.default}
        return frozenset(moved) or None

    def press(self, event: events.Key, now_s: float) -> None:
        """A key was pressed."""
        plain = event.is_printable and event.character not in (None, " ")
        self._keys.append((now_s, str(event.character) if plain else key_label(event.key)))

    def keys(self, now_s: float) -> tuple[str, ...]:
        """The keys of the last seconds, oldest first."""
        return tuple(label for at_s, label in self._keys if now_s - at_s < KEY_SHOWN_S)

    @property
    def _number(self) -> int:
        """Of the lesson's stage under way, from 1; 0 before the first."""
        lesson = self.labs.running
        return lesson.step.number if lesson is not None and lesson.step is not None else 0

    def read(self, steps: int) -> bool:
        """Read the caption before (-1), or the next one up to the stage under way; whether there was one."""
        number = (self.reads or self._number) + steps
        if not 0 < number <= self._number:
            return False
        self.reads = number if number < self._number else None
        return True

    @property
    def question(self) -> str | None:
        """What the lesson asks the room; None while no question is open."""
        lesson = self.labs.lesson
        asks = lesson.step.ask if lesson is not None and lesson.is_open else None
        return asks.text if asks is not None else None

    @property
    def stages(self) -> Sequence[Stage]:
        """The lesson's."""
        lesson = self.labs.running
        return () if lesson is None else (lesson.step or lesson.experiment).stages

    @property
    def stage(self) -> Stage | None:
        """The one whose caption is read; None before the first, and without a lesson."""
        number = self.stage_number
        return self.stages[number - 1] if number else None

    @property
    def stage_number(self) -> int:
        """Of the stage whose caption is read, from 1; 0 before the first."""
        return self.reads or self._number
