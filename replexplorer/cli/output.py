"""Where a verb writes: data to stdout, narration and progress to stderr, never mixed.

Law: nothing is written here that a terminal would obey, whoever wrote it first (`core.printable`).
"""

from __future__ import annotations

import io
import re
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TextIO

from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.text import (
    DEFAULT_STACK,
    LAYOUT,
    folded,
    json_escaped,
    one_line,
    printable,
    shortened,
    with_stack,
)

if TYPE_CHECKING:
    from replexplorer.core.event import Event

_ERASE_LINE = "\r\x1b[K"
_ERASE_SCREEN = "\x1b[H\x1b[2J"
_FIGURES = re.compile(r"[\d.,]+")
_SAID_AGAIN_S = 10.0
"""Of a step off a terminal whose figures alone change a line is printed so often."""
_MOST_SAID = 500
"""Characters of an error's message, and of its hint."""


class Output:
    """The two streams of a verb; `json` promises that stdout gets exactly one document."""

    def __init__(
        self,
        *,
        json: bool = False,
        verbose: bool = False,
        out: TextIO | None = None,
        err: TextIO | None = None,
    ) -> None:
        self.json = json
        self.verbose = verbose
        self.stack = DEFAULT_STACK
        """Which one is addressed: the commands that a remedy names say so."""
        self._out = out
        self._err = err
        self._progress = ""
        self._progress_s = 0.0
        self._documented = False

    @property
    def out(self) -> TextIO:
        """Where data goes: stdout, unless the caller gave another stream."""
        return self._out or sys.stdout

    @property
    def err(self) -> TextIO:
        """Where text for people goes: stderr, unless the caller gave another stream."""
        return self._err or sys.stderr

    def print(self, text: str) -> None:
        """A line of data."""
        self._put(printable(text, LAYOUT))

    def redraw(self, text: str) -> None:
        """Data in place of what a terminal shows; elsewhere behind what was printed before."""
        if self.out.isatty():
            self.out.write(_ERASE_SCREEN)
        self.print(text)

    def document(self, document: Any) -> None:
        """The one JSON document of a verb with --json."""
        from replexplorer.formats.documents import to_json

        self._documented = True
        self._put(to_json(document))

    def deliver(self, document: Any, text: Callable[[], str], write: Callable[[], str] | None = None) -> int:
        """The result of a verb: its document with --json, else its text. A report is written first and said;
        the result is not lost with one that cannot be: that is a line, and the exit code that is returned."""
        code = 0
        try:
            if write is not None:
                self.narrate(write())
        except UsageError as error:
            self.narrate(f"replexplorer: {error}")
            code = error.exit_code
        if self.json:
            self.document(document)
        else:
            self.print(text())
        return code

    @property
    def columns(self) -> int | None:
        """Width of the terminal that data goes to; None when it goes elsewhere."""
        return _columns() if self.out.isatty() else None

    def recount(self, text: str) -> None:
        """As `narrate`, a long line cut between words for the terminal."""
        self.narrate(folded(text, _columns() if self.err.isatty() else None))

    def narrate(self, text: str) -> None:
        """A line for the person who watches."""
        self._end_progress()
        self._to_err(printable(with_stack(text, self.stack), LAYOUT) + "\n")

    @property
    def can_ask(self) -> bool:
        """Whether somebody sees a question and can answer it."""
        return not self.json and sys.stdin is not None and sys.stdin.isatty() and self.err.isatty()

    async def says_yes(self, question: str) -> bool:
        """Ask and wait for the line; anything but y or yes is no, and so is the end of the input."""
        return (await self.typed(f"{question} [y/N]")).lower() in ("y", "yes")

    async def typed(self, question: str) -> str:
        """Ask and wait for the line that is typed, empty at the end of the input."""
        import asyncio

        self._end_progress()
        self._to_err(one_line(question) + " ")
        loop = asyncio.get_running_loop()
        typed: asyncio.Queue[str] = asyncio.Queue()
        loop.add_reader(sys.stdin, lambda: typed.put_nowait(sys.stdin.readline()))
        try:
            return (await typed.get()).strip()
        finally:
            loop.remove_reader(sys.stdin)

    def warn(self, text: str) -> None:
        """A warning, which changes no exit code."""
        self.narrate(f"warning: {one_line(text, 2 * _MOST_SAID)}")

    def hear(self, event: Event) -> None:
        """A fact of the session, where it is one to be warned of."""
        from replexplorer.core.event import Severity

        if event.severity in (Severity.WARN, Severity.BAD):
            self.warn(event.text)

    def progress(self, text: str, done: float | None = None, more: str = "") -> None:
        """What is being done now: one line that is rewritten on a terminal, else a line a step, of a long one
        now and then another; `more` moves with every call, and stands on a terminal only."""
        text = one_line(text)
        if self.err.isatty():
            percent = f" {done:4.0%}" if done is not None else ""
            shown, columns = text + percent + more, _columns()
            if len(shown) >= columns:
                shown = shown[: max(columns - 2, 0)] + "…"
            self._to_err(f"{_ERASE_LINE}{shown}")
        elif _FIGURES.sub("", text) != _FIGURES.sub("", self._progress) or (
            text != self._progress and time.monotonic() - self._progress_s >= _SAID_AGAIN_S
        ):
            self._to_err(text + "\n")
            self._progress_s = time.monotonic()
        self._progress = text

    def fail(self, error: ReplexplorerError) -> None:
        """The one line of an error, what it repeats shortened, and its document where JSON was promised and
        is not there yet."""
        parts = (one_line(text, _MOST_SAID) for text in (error.message, error.hint))
        self.narrate(f"replexplorer: {': '.join(filter(None, parts))}")
        if self.json and not self._documented:
            import json

            message, hint = (
                shortened(with_stack(text, self.stack), _MOST_SAID) for text in (error.message, error.hint)
            )
            detail = {"code": error.code, "message": message, "hint": hint}
            document = json.dumps({"error": detail, **error.beside}, indent=2, ensure_ascii=False)
            self._put(json_escaped(document))

    def traceback(self) -> None:
        """The traceback of the exception being handled; only when the user asked for it."""
        import traceback

        self.narrate(traceback.format_exc().rstrip("\n"))

    def _put(self, text: str) -> None:
        self._end_progress()
        self.out.write(text + "\n")
        self.out.flush()

    def _end_progress(self) -> None:
        if self._progress and self.err.isatty():
            self._to_err(_ERASE_LINE)
        self._progress = ""

    def _to_err(self, text: str) -> None:
        try:
            self.err.write(text)
            self.err.flush()
        except BrokenPipeError:
            self._err = io.StringIO()


def _columns() -> int:
    import shutil

    return shutil.get_terminal_size().columns
