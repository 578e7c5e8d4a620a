"""What the dashboard is started with; the composition root fills it from the configuration."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from replexplorer.core.experiment.experiment import NamedExperiment
from replexplorer.core.experiment.lesson import Lesson
from replexplorer.core.experiment.sweep_result import Swept
from replexplorer.core.records import field, frozen
from replexplorer.engine.lesson import LessonRun
from replexplorer.formats.themes import Theme
from replexplorer.ui.terminal.glyphs import BRAILLE, Glyphs

Give = Callable[[Lesson, Callable[[], object]], AbstractContextManager[LessonRun]]
"""Gives a lesson on the session; the second is called whenever there is something else to show."""


@frozen
class Settings:
    """How the dashboard looks and behaves; every field has a working default."""

    stack: str = "default"
    """The stack's name, for the header and the start-up screen."""
    theme: str = "dark"
    """Name of the theme to begin with."""
    themes: tuple[Theme, ...] = ()
    """Every theme that could be read; without any, the built-in ones are loaded."""
    glyphs: Glyphs = BRAILLE
    """What the terminal's font can draw."""
    no_color: bool = False
    """NO_COLOR is set: roles are bold, dim and reverse."""
    on_quit: str = "keep"
    """`keep` or `remove`: shown to the user in the help; the session carries it out."""
    keymap: Mapping[str, str] = field(default_factory=dict)
    """Binding id to comma-separated keys, for the ids that the user changed."""
    notices: tuple[str, ...] = ()
    """Lines to show as toasts at start: broken themes, problems of keys.toml."""
    rest_s: float = 0.6
    """A staged value is applied after this much rest."""
    close_deadline_s: float = 1.0
    """How long a lost terminal waits for the load to stop, before the process ends anyway."""
    learn: Callable[[Swept], str] | None = None
    """What a finished sweep teaches the model, in words; it may take a second."""
    experiments: tuple[NamedExperiment, ...] = ()
    """Lessons, labs and drills: of each kind those that ship, then the user's own."""
    lesson: Lesson | None = None
    """It begins at once."""
    give: Give | None = None
    """None: no lesson can be given."""
    visits: bool = False
    """The servers are somebody else's: what only a stack of our own can do is refused by name."""
    ends_after_s: float | None = None
    """The dashboard leaves by itself after this long; None: never."""
    monotonic: Callable[[], float] = time.monotonic
    """Seconds that never go back: measures the rest of a staged value."""
