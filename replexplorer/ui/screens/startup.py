"""What stands before the first tick: the steps of the start-up, or one clear failure."""

from __future__ import annotations

from typing import ClassVar, Final

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.text import with_stack
from replexplorer.engine.outcome import Progress
from replexplorer.engine.view import View
from replexplorer.ui.charts.raster import plotext
from replexplorer.ui.messages import StartAdvanced, Started, StartFailed
from replexplorer.ui.settings import Settings
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words.runs import Line, Run, hung, spread

_WIDTH: Final = 72


class StartSteps(Lines[object]):
    """Done steps, the present one with its progress and seconds, or the failure with its remedy."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(glyphs=settings.glyphs, id="start-steps")
        self._stack = settings.stack
        self._steps: list[Progress] = []
        self.failure: ReplexplorerError | None = None
        """Why it could not start."""
        self._seconds = 0

    def begin(self) -> None:
        """Nothing is done yet."""
        self._steps, self.failure, self._seconds = [Progress("looking for the stack")], None, 0
        self.repaint()

    def advance(self, progress: Progress) -> None:
        """A step with another text has the one before done."""
        if self._steps and self._steps[-1].text == progress.text:
            self._steps.pop()
        self._steps.append(progress)
        self.repaint()

    def fail(self, failure: ReplexplorerError) -> None:
        """Show the failure below what was done."""
        self.failure = failure
        self.repaint()

    def count(self, seconds: int) -> None:
        """Show the seconds."""
        self._seconds = seconds
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """A block in the middle."""
        room = min(_WIDTH, width - 4)
        title: Line = [("replexplorer", "title b"), (f"  stack {self._stack}", "muted")]
        block: list[Line] = [spread(title, [(f"{self._seconds} s", "muted")], room), []]
        done = self._steps[:-1][-max(1, height - 10) :]
        block += [[("✓ ", "good"), (step.text, "muted")] for step in done]
        if self.failure is not None:
            message, hint = (
                with_stack(text, self._stack) for text in (self.failure.message, self.failure.hint)
            )
            block += hung([("✖ ", "bad b")], message, room, "bad b")
            block += [*hung([("  ", "text")], hint, room), []]
            block.append([("  r", "key b"), (" retry   ", "muted"), ("q", "key b"), (" quit", "muted")])
        elif self._steps:
            step = self._steps[-1]
            done_text = "" if step.done is None else f" {min(1.0, max(0.0, step.done)):.0%}"
            block.append([("▸ ", "accent b"), (step.text, "text b"), (f"…{done_text}", "text")])
        margin: Run = (" " * ((width - room) // 2), "text")
        top = max(0, (height - len(block)) // 2 - 1)
        return [*([[]] * top), *([margin, *row] for row in block)]


class StartupScreen(Screen[None]):
    """Runs `View.start` and shows what it does; `r` tries again after a failure."""

    BINDINGS: ClassVar[list[BindingType]] = [("r", "retry", "Retry")]

    def __init__(self, view: View, settings: Settings) -> None:
        super().__init__()
        self._view = view
        self._settings = settings
        self._began_s = 0.0

    def compose(self) -> ComposeResult:
        """The steps."""
        yield StartSteps(self._settings)

    @property
    def _steps(self) -> StartSteps:
        return self.query_one(StartSteps)

    def on_mount(self) -> None:
        """Start the stack in a worker, and count the seconds."""
        self.set_interval(1.0, self._count)
        self.run_worker(plotext, group="plotext", thread=True, exit_on_error=False)
        self._begin()

    def action_retry(self) -> None:
        """Begin again after a failure."""
        if self._steps.failure is not None:
            self._begin()

    @on(StartAdvanced)
    def _advance(self, message: StartAdvanced) -> None:
        self._steps.advance(message.progress)

    @on(StartFailed)
    def _fail(self, message: StartFailed) -> None:
        self._steps.fail(message.error)

    def _begin(self) -> None:
        self._began_s = self._settings.monotonic()
        self._steps.begin()
        self._start()

    def _count(self) -> None:
        if self._steps.failure is None:
            self._steps.count(int(self._settings.monotonic() - self._began_s))

    @work(exclusive=True, group="start", exit_on_error=False)
    async def _start(self) -> None:
        def advance(progress: Progress) -> None:
            self.post_message(StartAdvanced(progress))

        try:
            await self._view.start(advance)
        except ReplexplorerError as error:
            self.post_message(StartFailed(error))
        except Exception as error:  # any other failure is a defect, and still one line with a way out
            self.log.error(error)
            text = f"{type(error).__name__}: {error}"
            self.post_message(
                StartFailed(ReplexplorerError(text, "the log file has the details; r tries again"))
            )
        else:
            self.post_message(Started())
