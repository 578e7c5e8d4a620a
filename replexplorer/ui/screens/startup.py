"""What stands before the first tick: the steps of the start-up, or one clear failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.reactive import reactive
from textual.screen import Screen

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.hints import with_stack
from replexplorer.engine.progress import Progress
from replexplorer.engine.view import View
from replexplorer.ui.messages import StartAdvanced, Started, StartFailed
from replexplorer.ui.settings import Settings
from replexplorer.ui.widgets.chart import load_plotext
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words.runs import Line, Run, spread, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable


class StartSteps(Lines):
    """Done steps, the present one with its progress and seconds, or the failure with its remedy."""

    WIDTH: ClassVar = 72

    progress: reactive[Progress | None] = reactive(None)
    """The present step."""
    failure: reactive[tuple[str, str] | None] = reactive(None)
    """What happened and what to do."""
    seconds: reactive[int] = reactive(0)
    """Since the start-up began."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(glyphs=settings.glyphs, id="start-steps")
        self._settings = settings
        self._done: list[str] = []

    def watch_progress(self, old: Progress | None, new: Progress | None) -> None:
        """A step with another text is done."""
        if old is not None and new is not None and old.text != new.text:
            self._done.append(old.text)
        if new is None:
            self._done.clear()
        self.repaint()

    def watch_failure(self) -> None:
        """Replace the steps by the failure."""
        self.repaint()

    def watch_seconds(self) -> None:
        """Draw the seconds."""
        self.repaint()

    def paint(self, width: int, height: int) -> list[Line]:
        """A block in the middle."""
        room = min(self.WIDTH, width - 4)
        seconds: Line = [(f"{self.seconds} s", "muted")]
        title: Line = [("replexplorer", "title b"), (f"  stack {self._settings.stack}", "muted")]
        block: list[Line] = [spread(title, seconds, room), []]
        keep = max(1, height - 10)
        block += [[("✓ ", "good"), (text, "muted")] for text in self._done[-keep:]]
        if self.failure is not None:
            text, hint = self.failure
            block += [
                [("✖ " if at == 0 else "  ", "bad b"), (row, "bad b")]
                for at, row in enumerate(wrapped(text, room - 2))
            ]
            block += [[("  ", "text"), (row, "text")] for row in wrapped(hint, room - 2)]
            block += [[], [("  r", "key b"), (" retry   ", "muted"), ("q", "key b"), (" quit", "muted")]]
        elif self.progress is not None:
            block.append([("▸ ", "accent b"), (self.progress.text, "text b"), ("…", "text")])
            if self.progress.done is not None:
                block.append(_bar(self.progress.done, room - 2))
        top = max(0, (height - len(block)) // 2 - 1)
        margin: Run = (" " * ((width - room) // 2), "text")
        return [*([[]] * top), *([margin, *row] for row in block)]


def _bar(done: float, width: int) -> Line:
    """A bar with its percentage."""
    share = min(1.0, max(0.0, done))
    cells = max(1, width - 8)
    full = round(share * cells)
    return [
        ("  ", "text"), ("━" * full, "accent"), ("─" * (cells - full), "rule"),
        (f" {share * 100:3.0f} %", "muted"),
    ]  # fmt: skip


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

    def on_mount(self) -> None:
        """Start the stack in a worker, and count the seconds."""
        self.set_interval(1.0, self._count)
        self.run_worker(load_plotext, group="plotext", thread=True, exit_on_error=False)
        self._begin()

    def action_retry(self) -> None:
        """Begin again after a failure."""
        if self.query_one(StartSteps).failure is not None:
            self._begin()

    @on(StartAdvanced)
    def _advance(self, message: StartAdvanced) -> None:
        self.query_one(StartSteps).progress = message.progress

    @on(StartFailed)
    def _fail(self, message: StartFailed) -> None:
        self.query_one(StartSteps).failure = (
            with_stack(message.text, self._settings.stack),
            with_stack(message.hint, self._settings.stack),
        )

    def _begin(self) -> None:
        self._began_s = self._settings.monotonic()
        steps = self.query_one(StartSteps)
        with self.app.batch_update():
            steps.progress = None
            steps.failure = None
            steps.seconds = 0
            steps.progress = Progress("looking for the stack")
        self._start()

    def _count(self) -> None:
        steps = self.query_one(StartSteps)
        if steps.failure is None:
            steps.seconds = int(self._settings.monotonic() - self._began_s)

    @work(exclusive=True, group="start", exit_on_error=False)
    async def _start(self) -> None:
        tell: Callable[[Progress], object] = lambda progress: self.post_message(StartAdvanced(progress))  # noqa: E731
        try:
            await self._view.start(lambda progress: (tell(progress), None)[1])
        except ReplexplorerError as error:
            self.post_message(StartFailed(error.message, error.hint))
        except Exception as error:  # any other failure is a defect, and still one line with a way out
            self.log.error(error)
            self.post_message(
                StartFailed(f"{type(error).__name__}: {error}", "the log file has the details; r tries again")
            )
        else:
            self.post_message(Started())
