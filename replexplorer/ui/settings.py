"""What the dashboard is started with; the composition root fills it from the configuration."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from replexplorer.core.experiment.drill import Drill
from replexplorer.core.experiment.drill_result import DrillResult
from replexplorer.core.experiment.matrix import Matrix
from replexplorer.core.experiment.matrix_result import MatrixResult
from replexplorer.core.experiment.swept import Swept
from replexplorer.core.machine import Machine
from replexplorer.engine.experiment.labs.lab import Lab, LabResult
from replexplorer.engine.view import View
from replexplorer.formats.themes import Theme
from replexplorer.ui.terminal.glyphs import BRAILLE, Glyphs


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The other stacks that the dashboard's own may be compared with."""

    names: Callable[[], Awaitable[Sequence[str]]]
    """All but its own, in order; raises ReplexplorerError."""
    view: Callable[[str, bool], View]
    """One of them, not started yet; True: its start drives its load, False: that waits to be started."""
    machine: Callable[[], Awaitable[Machine | None]]
    """What the machine of the dashboard's own source has worked so far."""


@dataclass(frozen=True, slots=True)
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
    labs: tuple[Lab, ...] = ()
    """The user's own labs, listed after ours."""
    drills: tuple[Drill | Matrix, ...] = ()
    """Those that ship, the matrix and the user's own, listed after the labs."""
    lab_page: Callable[[LabResult | DrillResult | MatrixResult], str] | None = None
    """A lab's, a drill's or the matrix' result as a Markdown page to copy; None: it cannot be copied."""
    neighbours: Neighbours | None = None
    """Stacks to compare with; None: nobody knows any."""
    visits: bool = False
    """The servers are somebody else's: what only a stack of our own can do is refused by name."""
    loads: bool = False
    """And a load of this app's runs there, which can be stopped and started."""
    ends_after_s: float | None = None
    """The dashboard leaves by itself after this long; None: never."""
    monotonic: Callable[[], float] = time.monotonic
    """Seconds that never go back: measures the rest of a staged value."""
