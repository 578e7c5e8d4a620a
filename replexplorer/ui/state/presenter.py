"""Presenting: since when, what was said last, which keys were pressed, which caption of a lesson is read."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from textual import events

from replexplorer.core.experiment.experiment import NamedExperiment, Stage
from replexplorer.core.history.caption import caption
from replexplorer.core.tick import Tick
from replexplorer.ui.actions import key_label
from replexplorer.ui.state.experiments import LabView

KEY_SHOWN_S: Final = 4.0
"""How long a key that was pressed is shown."""
_MOST_KEYS: Final = 12


@dataclass(slots=True)
class Presenter:
    """What the room is shown beside the picture; it watches also while nobody presents."""

    began_s: float | None = None
    """When presenting began, on the dashboard's clock; None while nobody presents."""
    caption: str = ""
    """What happened last."""
    reads: int | None = None
    """Number of the lesson's stage whose caption is read, from 1; None: the one under way."""
    _seen: Tick | None = None
    _keys: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=_MOST_KEYS))
    _turned: set[str] = field(default_factory=set)
    """Keys of the knobs that were turned since presenting began."""
    _under_way: tuple[object, int] | None = None
    """The lesson and its stage as last seen."""

    @property
    def is_on(self) -> bool:
        """Somebody presents."""
        return self.began_s is not None

    def toggle(self, now_s: float) -> None:
        """Begin to present, or end it."""
        self.began_s = None if self.is_on else now_s
        self.reads = None
        self._turned.clear()

    def fold(self, tick: Tick, view: LabView | None) -> None:
        """Take a tick, and the lesson under way."""
        before, self._seen = self._seen, tick
        if before is not None and before.at_s <= tick.at_s and before.stack == tick.stack:
            said = caption(before, tick)
            self.caption = said or self.caption
            self._turned.update(
                name.key
                for name, knob in tick.knobs.items()
                if name in before.knobs and before.knobs[name].requested != knob.requested
            )
        under_way = None if view is None or view.step is None else (view.lab, view.step.number)
        if under_way != self._under_way:
            self._under_way, self.reads = under_way, None

    def lesson_keys(self, view: LabView | None) -> frozenset[str] | None:
        """Keys of the knobs that the lesson turns, which all stay in view; without one, before a room, of
        those that are not at their default, or were turned meanwhile. None: all knobs."""
        if view is not None and (turned := turned_by(view.lab)):
            return turned
        if not self.is_on or self._seen is None:
            return None
        moved = {name.key for name, knob in self._seen.knobs.items() if knob.requested != knob.default}
        return frozenset(moved | self._turned) or None

    def press(self, event: events.Key, now_s: float) -> None:
        """A key was pressed."""
        if self.is_on:
            plain = event.is_printable and event.character not in (None, " ")
            self._keys.append((now_s, str(event.character) if plain else key_label(event.key)))

    def keys(self, now_s: float) -> tuple[str, ...]:
        """The keys of the last seconds, oldest first."""
        while self._keys and now_s - self._keys[0][0] >= KEY_SHOWN_S:
            self._keys.popleft()
        return tuple(label for _, label in self._keys)

    def read_back(self, view: LabView | None) -> bool:
        """Read the caption before; answers whether there is one."""
        at = self.stage_number(view)
        if view is None or at < 2:
            return False
        self.reads = at - 1
        return True

    def read_on(self, view: LabView | None) -> bool:
        """Read the next caption up to the stage under way; answers whether an earlier one was read."""
        if self.reads is None or view is None or view.step is None:
            return False
        self.reads = None if self.reads + 1 >= view.step.number else self.reads + 1
        return True

    def stage_number(self, view: LabView | None) -> int:
        """Of the caption that is read, from 1; 0 before the first."""
        if view is None or view.step is None:
            return 0
        return view.step.number if self.reads is None else self.reads

    def stage(self, view: LabView | None) -> Stage | None:
        """The stage whose caption is read."""
        at = self.stage_number(view)
        if view is None or view.step is None or not at:
            return None
        return view.step.stages[at - 1]


def turned_by(experiment: NamedExperiment) -> frozenset[str]:
    """Keys of the knobs that it turns, without nodes."""
    return frozenset(text.partition("@")[0] for text in experiment.turns)
