"""What stands before the first tick: the steps of the start-up, or one clear failure."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Final

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen
from textual.widgets import Static

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.text import with_stack
from replexplorer.engine.view import View
from replexplorer.ui.charts.raster import plotext
from replexplorer.ui.screens.lists import drawn, key_hints
from replexplorer.ui.settings import Settings
from replexplorer.ui.words.runs import Line, hung, spread

_WIDTH: Final = 72


class StartupScreen(Screen[None]):
    """Runs `View.start` and shows what it does; `r` tries again after a failure."""

    DEFAULT_CSS = """
    StartupScreen { align: center middle; }
    #start-steps { width: 72; max-width: 95%; height: auto; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [("r", "retry", "Retry")]

    def __init__(self, view: View, settings: Settings, started: Callable[[], object]) -> None:
        """`started` is called once the stack answers and the load runs."""
        super().__init__()
        self._view = view
        self._settings = settings
        self._started = started
        self._began_s = 0.0
        self._steps: list[tuple[str, float | None]] = []
        self.failure: ReplexplorerError | None = None
        """Why it could not start."""

    def compose(self) -> ComposeResult:
        """The steps."""
        yield Static(id="start-steps")

    def on_mount(self) -> None:
        """Start the stack in a worker, and count the seconds."""
        self.set_interval(1.0, self._show)
        self.run_worker(plotext, group="plotext", thread=True, exit_on_error=False)
        self._start()

    def on_resize(self) -> None:
        """Wrap again."""
        self._show()

    def action_retry(self) -> None:
        """Begin again after a failure."""
        if self.failure is not None:
            self._start()

    def _show(self) -> None:
        """Done steps, the present one with its progress and seconds, or the failure with its remedy."""
        if self.failure is None:
            self._seconds = int(self._settings.monotonic() - self._began_s)
        width, height = self.app.size
        room, stack = min(_WIDTH, width * 95 // 100), self._settings.stack
        title: Line = [("replexplorer", "title b"), (f"  stack {stack}", "muted")]
        *before, (doing, done) = self._steps
        rows: list[Line] = [spread(title, [(f"{self._seconds} s", "muted")], room), []]
        rows += [[("✓ ", "good"), (text, "muted")] for text, _ in before[-max(1, height - 10) :]]
        if self.failure is None:
            part = "" if done is None else f" {min(1.0, max(0.0, done)):.0%}"
            rows.append([("▸ ", "accent b"), (doing, "text b"), (f"…{part}", "text")])
        else:
            rows += hung([("✖ ", "bad b")], with_stack(self.failure.message, stack), room, "bad b")
            rows += [*hung([("  ", "text")], with_stack(self.failure.hint, stack), room), []]
            rows.append([("  ", "text"), *key_hints(("r", "retry "), ("q", "quit"))])
        text = Text("\n").join(drawn(self.app, self._settings.glyphs, row) for row in rows)
        self.query_one("#start-steps", Static).update(text)

    def _advance(self, text: str, done: float | None = None) -> None:
        """A step with another text has the one before done."""
        if self._steps[-1][0] == text:
            self._steps.pop()
        self._steps.append((text, done))
        self._show()

    @work(exclusive=True, group="start", exit_on_error=False)
    async def _start(self) -> None:
        self._began_s = self._settings.monotonic()
        self._steps, self.failure = [("looking for the stack", None)], None
        self._show()
        try:
            await self._view.start(self._advance)
        except Exception as error:  # whatever it is, it is one line with a way out
            if not isinstance(error, ReplexplorerError):
                self.log.error(error)
                hint = "the log file has the details; r tries again"
                error = ReplexplorerError(f"{type(error).__name__}: {error}", hint)
            self.failure = error
            self._show()
        else:
            self._started()
