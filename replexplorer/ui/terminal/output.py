"""Writes to the terminal only the cells that differ from what it shows, with the fewest codes.

Textual 8.2.8 writes each changed span again from its widget's left edge, with full colours for
every segment. This keeps what the terminal shows and writes the difference. Law: it reaches into
a private method of the app and two private classes of exactly that version; with any other
version, on any surprise, in inline mode and on Windows, Textual's own output is used.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.console import Console
from rich.style import Style
from textual import _compositor, events
from textual.app import App, ReturnType
from textual.strip import Strip

from replexplorer.core.printable import printable

if TYPE_CHECKING:
    from textual.screen import Screen

KNOWN_VERSION: Final = "8.2.8"
"""The Textual whose private output is known."""

_JUMP: Final = 4
"""Bytes of a code that moves the cursor within its row."""
_ATTRIBUTE_ENDS: Final = {
    **{"1": "22", "2": "22", "3": "23", "4": "24", "5": "25", "6": "25", "7": "27", "8": "28", "9": "29"},
    **{"21": "24", "51": "54", "52": "54", "53": "55"},
}
"""The code that ends each attribute (ECMA-48, 8.3.117); one that ends two ends both."""
_MOST_STYLES: Final = 4096
_NO_STYLE: Final = Style()


class Sgr(NamedTuple):
    """A style as the codes of its three parts."""

    attributes: tuple[str, ...] = ()
    foreground: str = "39"
    """Empty: any, because nothing of it is seen."""
    background: str = "49"


_RESET: Final = Sgr()
_SEEN_ON_BLANKS: Final = frozenset({"4", "5", "6", "7", "9", "21", "51", "52", "53"})
"""Attributes that show where there is no letter: underline, blink, reverse, strike, frames."""

Cell = tuple[str, Sgr] | None
"""What one cell of the terminal shows; None when it is not known."""


class Shadow:
    """What the terminal shows, cell by cell."""

    def __init__(self) -> None:
        self.width = 0
        self.height = 0
        self.rows: list[list[Cell]] = []
        self.broken: Exception | None = None
        """What was not as known; from then on Textual's own output is used."""
        self._system = ColorSystem.TRUECOLOR
        self._codes: dict[Style, Sgr] = {}
        self._interned: dict[Sgr, Sgr] = {}

    def forget(self) -> None:
        """Nothing is known of the terminal any more: updates write all that they cover."""
        self.rows = [[None] * self.width for _ in range(self.height)]

    def fit(self, width: int, height: int, system: ColorSystem) -> None:
        """The terminal's size and colours now; when they are others, nothing of it is known."""
        if (width, height, system) != (self.width, self.height, self._system) or not self.rows:
            self.width, self.height, self._system = width, height, system
            self._codes.clear()
            self.forget()

    def sgr(self, style: Style) -> Sgr:
        """A style's codes for this terminal's colours; equal codes are the same object."""
        found = self._codes.get(style)
        if found is None:
            if len(self._codes) >= _MOST_STYLES:
                self._codes.clear()
            codes = Strip.render_ansi(style.without_color.copy(), self._system)
            front, back = style.color, style.bgcolor
            sgr = Sgr(
                tuple(codes.split(";")) if codes else (),
                ";".join(front.downgrade(self._system).get_ansi_codes()) if front else "39",
                ";".join(back.downgrade(self._system).get_ansi_codes(False)) if back else "49",
            )
            found = self._codes[style] = self._interned.setdefault(sgr, sgr)
        return found

    def blank(self, sgr: Sgr) -> Sgr:
        """What is seen of a style where there is no letter."""
        if _SEEN_ON_BLANKS.intersection(sgr.attributes):
            return sgr
        bare = Sgr((), "", sgr.background)
        return self._interned.setdefault(bare, bare)


class ScreenDifference(_compositor.CompositorUpdate):
    """One of Textual's updates, rendered as the difference from what the terminal shows."""

    def __init__(self, update: _compositor.CompositorUpdate, shadow: Shadow, width: int, height: int) -> None:
        self.update = update
        self.shadow = shadow
        self.size = width, height

    def render_segments(self, console: Console) -> str:
        """The codes that bring the terminal to what it should show; Textual's own on any surprise."""
        shadow = self.shadow
        if shadow.broken is None:
            try:
                shadow.fit(*self.size, console._color_system or ColorSystem.TRUECOLOR)
                return written(
                    [run for span in _spans(self.update) for run in _different(shadow, *span)], shadow
                )
            except Exception as error:  # the picture matters more than its price
                shadow.broken = error
        return self.update.render_segments(console)


class QuietOutput(App[ReturnType]):
    """An App whose updates reach the terminal as differences, where that is possible."""

    shadow: Shadow | None = None
    """What the terminal shows; None while Textual's own output is used."""

    def on_mount(self) -> None:
        """Begin, when this is the Textual that is known."""
        if supported() and not self.is_inline:
            self.shadow = Shadow()
            self.app_suspend_signal.subscribe(self, self._forget_terminal, immediate=True)
            self.app_resume_signal.subscribe(self, self._forget_terminal, immediate=True)

    def on_resize(self, event: events.Resize) -> None:
        """A terminal moves its text about when its size changes."""
        self._forget_terminal()

    def _forget_terminal(self, _: object = None) -> None:
        """Something else may have written to the terminal."""
        if self.shadow is not None:
            self.shadow.forget()

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        """Put the difference in the place of Textual's update."""
        shadow = self.shadow
        if shadow is not None and shadow.broken is not None:
            self.log.warning(f"Textual's own output from now on: {shadow.broken!r}")
            shadow = self.shadow = None
        if shadow is not None and renderable is not None:
            if isinstance(renderable, _compositor.CompositorUpdate):
                renderable = ScreenDifference(renderable, shadow, *self.size)
            else:
                shadow.forget()
        super()._display(screen, renderable)


def supported(found: str | None = None) -> bool:
    """Whether this Textual's output can be replaced: the known version with the parts that we use."""
    if found is None:
        try:
            found = version("textual")
        except PackageNotFoundError:
            return False
    parts = (
        (_compositor, "LayoutUpdate"),
        (_compositor, "ChopsUpdate"),
        (_compositor, "CompositorUpdate"),
        (App, "_display"),
        (Strip, "render_ansi"),
    )
    return found == KNOWN_VERSION and sys.platform != "win32" and all(hasattr(*part) for part in parts)


def _spans(update: _compositor.CompositorUpdate) -> Iterator[tuple[int, int, list[Strip]]]:
    """(row, column, strips) of what an update draws; raise TypeError for an update of another kind."""
    if isinstance(update, _compositor.LayoutUpdate):
        for y, line in enumerate(update.strips, update.region.y):
            yield y, update.region.x, list(line)
    elif isinstance(update, _compositor.ChopsUpdate):
        for y, x1, x2 in update.spans:
            for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
                if strip is not None and x < x2 and end > x1:
                    start = max(x, x1)
                    yield y, start, [strip.crop(start - x, min(end, x2) - x)]
    else:
        raise TypeError(f"not a known update: {type(update).__name__}")


class StyledRun(NamedTuple):
    """Neighbouring cells of one style to write."""

    y: int
    x: int
    text: str
    width: int
    """Cells that the text takes."""
    sgr: Sgr
    link: str = ""
    """Address and id as OSC 8 wants them; empty: no link."""


def _different(shadow: Shadow, y: int, x: int, strips: list[Strip]) -> Iterator[StyledRun]:
    """What a span changes, as runs; the shadow takes it over."""
    if not 0 <= y < shadow.height:
        return
    row = shadow.rows[y]
    for strip in strips:
        for text, style, control in strip._segments:
            if control or not text:
                continue
            style = style or _NO_STYLE
            if not text.isprintable():
                text = _harmless(text)
            width = cell_len(text)
            if width != len(text) or style.link or x + width > shadow.width:
                yield from _unsure(row, y, x, text, width, style, shadow)
            else:
                yield from _compared(row, y, x, text, shadow.sgr(style), shadow)
            x += width


def _harmless(text: str) -> str:
    """The last door to the terminal: what it would obey, and counts as no cell, is left out."""
    return "".join(char for char in text if printable(char) == char)


def _unsure(
    row: list[Cell], y: int, x: int, text: str, width: int, style: Style, shadow: Shadow
) -> Iterator[StyledRun]:
    """A text whose cells cannot be told apart (wide letters, links): always written, never known."""
    if x < shadow.width:
        row[x : x + width] = [None] * (min(shadow.width, x + width) - x)
        link = f"id={style.link_id};{style.link}" if style.link else ""
        yield StyledRun(y, x, text, width, shadow.sgr(style), link)


def _compared(row: list[Cell], y: int, x: int, text: str, sgr: Sgr, shadow: Shadow) -> Iterator[StyledRun]:
    """The cells of a text that the terminal does not show yet."""
    start = end = -1
    blank = shadow.blank(sgr)
    if text.isspace():
        sgr = blank
    for at, char in enumerate(text, x):
        known = row[at]
        seen = blank if char == " " else sgr
        if known is not None and known[0] == char and known[1] is seen:
            continue
        row[at] = (char, seen)
        if start >= 0 and at > end and len(text[end - x : at - x].encode()) >= _JUMP:
            yield StyledRun(y, start, text[start - x : end - x], end - start, sgr)
            start = -1
        if start < 0:
            start = at
        end = at + 1
    if start >= 0:
        yield StyledRun(y, start, text[start - x : end - x], end - start, sgr)


def written(runs: list[StyledRun], shadow: Shadow) -> str:
    """Codes for the runs: by style when they are few, so that a colour is sent once; else by row."""
    if not any(run.link or run.width != len(run.text) for run in runs) and (
        sum(run.width for run in runs) * 4 < shadow.width * shadow.height
    ):
        runs = _by_style(runs)
    out: list[str] = []
    at = (-1, -1)
    now = _RESET
    for run in runs:
        if at != (run.y, run.x):
            out.append(_moved(at, run.y, run.x))
        wanted = _settled(now, run.sgr)
        if wanted != now:
            out.append(_restyled(now, wanted))
            now = wanted
        out.append(f"\x1b]8;{run.link}\x1b\\{run.text}\x1b]8;;\x1b\\" if run.link else run.text)
        # behind the last column, or letters of unsure width, a terminal's cursor may stand elsewhere
        sure = run.x + run.width < shadow.width and run.width == len(run.text)
        at = (run.y, run.x + run.width) if sure else (-1, -1)
    if now != _RESET:
        out.append("\x1b[0m")
    return "".join(out)


def _by_style(runs: list[StyledRun]) -> list[StyledRun]:
    """The runs of each style together, after each style the one that takes the shortest code."""
    of_style: dict[Sgr, list[StyledRun]] = {}
    for run in sorted(runs, key=lambda run: (run.y, run.x)):
        of_style.setdefault(run.sgr, []).append(run)
    ordered: list[StyledRun] = []
    now = _RESET
    while of_style:
        nearest = min(of_style, key=lambda sgr: len(_restyled(now, _settled(now, sgr))))
        ordered += of_style.pop(nearest)
        now = _settled(now, nearest)
    return ordered


def _moved(at: tuple[int, int], y: int, x: int) -> str:
    """The shortest code that puts the cursor at a cell; `at` is where it is, (-1, -1) when not known."""
    there = f"\x1b[{y + 1}H" if x == 0 else f"\x1b[{y + 1};{x + 1}H"
    if at[0] < 0:
        return there
    down, right = y - at[0], x - at[1]
    steps = _steps(down, "B", "A") + ("\b" * -right if -4 < right < 0 else _steps(right, "C", "D"))
    return min(there, steps, key=len)


def _steps(count: int, onward: str, back: str) -> str:
    """The code for this many steps; negative ones go back."""
    many = "" if abs(count) == 1 else str(abs(count))
    return f"\x1b[{many}{onward if count > 0 else back}" if count else ""


def _settled(now: Sgr, wanted: Sgr) -> Sgr:
    """The style to write in: for blanks the one in force on another ground, where nothing else shows."""
    if wanted.foreground:
        return wanted
    if _SEEN_ON_BLANKS.intersection(now.attributes):
        return Sgr((), "39", wanted.background)
    return Sgr(now.attributes, now.foreground, wanted.background)


@lru_cache(maxsize=_MOST_STYLES)
def _restyled(now: Sgr, wanted: Sgr) -> str:
    """The shortest code from one style to another: from where it is, or from none."""
    ends = {_ATTRIBUTE_ENDS.get(code, "0") for code in set(now.attributes) - set(wanted.attributes)}
    anew = ["0", *_begun(_RESET, wanted)]
    if "0" in ends:
        return f"\x1b[{';'.join(anew)}m"
    kept = tuple(code for code in now.attributes if _ATTRIBUTE_ENDS.get(code) not in ends)
    onward = [*sorted(ends), *_begun(now._replace(attributes=kept), wanted)]
    return f"\x1b[{min(';'.join(onward), ';'.join(anew), key=len)}m" if onward else ""


def _begun(now: Sgr, wanted: Sgr) -> list[str]:
    """The codes for what a style has and the one in force has not."""
    codes = [code for code in wanted.attributes if code not in now.attributes]
    if wanted.foreground != now.foreground:
        codes.append(wanted.foreground)
    if wanted.background != now.background:
        codes.append(wanted.background)
    return codes
