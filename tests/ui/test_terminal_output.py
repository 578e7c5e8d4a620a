"""The difference that is written leaves the terminal as Textual's own output would."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from rich.color import ColorSystem
from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate, InlineUpdate, LayoutUpdate
from textual.app import App, ComposeResult
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widgets import Static

from replexplorer.ui.terminal.output import QuietOutput, ScreenDifference, Shadow, supported

WIDTH, HEIGHT = 24, 6
_TOKEN = re.compile(r"\x1b\]8;[^\x1b]*\x1b\\|\x1b\[([0-9;]*)([A-Za-z])|([^\x1b])")
_STEPS = {"A": (-1, 0), "B": (1, 0), "C": (0, 1), "D": (0, -1)}
_ENDS = {"22": "12", "23": "3", "24": "4", "25": "5", "27": "7", "28": "8", "29": "9"}
_CODES = re.compile(r"38;2;\d+;\d+;\d+|48;2;\d+;\d+;\d+|\d+")


class Terminal:
    """As much of a terminal as these codes need."""

    def __init__(self) -> None:
        self.cells = [[("?", frozenset[str]())] * WIDTH for _ in range(HEIGHT)]
        self.x = self.y = 0
        self.style: dict[str, str] = {}

    def feed(self, text: str) -> None:
        assert "".join(match[0] for match in _TOKEN.finditer(text)) == text, "an unknown code"
        for match in _TOKEN.finditer(text):
            if match[3] == "\n":
                self.y += 1
            elif match[3] == "\b":
                self.x -= 1
            elif match[3]:
                self._put(match[3])
            elif match[2] == "H":
                row, _, column = (match[1] or "1").partition(";")
                self.y, self.x = int(row or 1) - 1, int(column or 1) - 1
            elif match[2] in _STEPS:
                down, right = _STEPS[match[2]]
                self.y += down * int(match[1] or 1)
                self.x += right * int(match[1] or 1)
            elif match[2] == "m":
                self._restyle(match[1])

    def _put(self, char: str) -> None:
        shown = frozenset(self.style.values())
        if char == " ":  # of a blank only the ground, the reverse and the underline are seen
            shown = frozenset(code for code in shown if code.startswith("48") or code in "479")
            shown |= frozenset(self.style.values()) if "7" in shown else frozenset()
        if 0 <= self.y < HEIGHT and 0 <= self.x < WIDTH:
            self.cells[self.y][self.x] = (char, shown)
        self.x += 2 if char in "日本" else 1
        if char in "日本" and self.x <= WIDTH:
            self.cells[self.y][self.x - 1] = ("", shown)

    def _restyle(self, codes: str) -> None:
        for code in _CODES.findall(codes or "0"):
            if code == "0":
                self.style.clear()
            elif code.startswith("38") or code == "39":
                self.style["fore"] = code
            elif code.startswith("48") or code == "49":
                self.style["back"] = code
            elif code in _ENDS:
                for ended in _ENDS[code]:
                    self.style.pop(ended, None)
            else:
                self.style[code] = code
        for part in ("fore", "back"):
            if self.style.get(part) in {"39", "49"}:
                del self.style[part]


STYLES = [
    Style.parse("#ffffff on #000000"),
    Style.parse("bold #ff8800 on #000000"),
    Style.parse("#ff8800 on #222222"),
    Style.parse("reverse"),
    Style.parse("underline #0088ff"),
    Style.parse("dim"),
    Style.parse("bold dim italic #ff8800 on #222222"),
    Style.parse("strike #0088ff on #222222"),
    Style(),
]


def strip_of(rng: random.Random, width: int) -> Strip:
    segments = []
    left = width
    while left:
        length = min(left, rng.randint(1, 7))
        text = "".join(rng.choice("ab ●  ") for _ in range(length))
        if rng.random() < 0.1 and length >= 2:
            text = "日" + text[2:]
        segments.append(Segment(text, rng.choice(STYLES)))
        left -= length
    return Strip(segments, width)


def updates(rng: random.Random, frames: int) -> Iterator[CompositorUpdate]:
    """A full update, then partial ones as the compositor makes them: chops, spans, ends."""
    cut = 9
    chops = [{0: strip_of(rng, cut), cut: strip_of(rng, WIDTH - cut)} for _ in range(HEIGHT)]
    yield LayoutUpdate([list(line.values()) for line in chops], Region(0, 0, WIDTH, HEIGHT))
    for _ in range(frames):
        spans = []
        for y in sorted(rng.sample(range(HEIGHT), rng.randint(1, HEIGHT))):
            at = rng.choice((0, cut))
            if rng.random() < 0.7:
                chops[y][at] = strip_of(rng, cut if at == 0 else WIDTH - cut)
            spans.append((y, at, at + (cut if at == 0 else WIDTH - cut)))
        yield ChopsUpdate([dict(line) for line in chops], spans, [[cut, WIDTH] for _ in range(HEIGHT)])


def console() -> Console:
    return Console(color_system="truecolor", force_terminal=True, width=WIDTH)


@pytest.mark.parametrize("seed", range(30))
def test_the_terminal_shows_the_same(seed: int) -> None:
    shadow, own, quiet = Shadow(), Terminal(), Terminal()
    for update in updates(random.Random(seed), 25):
        own.feed(update.render_segments(console()))
        own.style.clear()
        quiet.feed(ScreenDifference(update, shadow, WIDTH, HEIGHT).render_segments(console()))
        assert shadow.broken is None
        assert quiet.style == {}, "a style was left on"
        assert quiet.cells == own.cells


def test_what_is_shown_already_costs_nothing() -> None:
    row = Strip([Segment("TPS 528", STYLES[1]), Segment(" " * (WIDTH - 7), STYLES[0])], WIDTH)
    update = LayoutUpdate([[row]], Region(0, 0, WIDTH, 1))
    shadow = Shadow()
    assert ScreenDifference(update, shadow, WIDTH, HEIGHT).render_segments(console())
    assert ScreenDifference(update, shadow, WIDTH, HEIGHT).render_segments(console()) == ""
    shadow.forget()
    assert ScreenDifference(update, shadow, WIDTH, HEIGHT).render_segments(console())


def test_one_digit_costs_one_digit() -> None:
    shadow = Shadow()
    for figure in ("528", "529"):
        row = Strip([Segment(f"TPS {figure}".ljust(WIDTH), STYLES[0])], WIDTH)
        codes = ScreenDifference(
            LayoutUpdate([[row]], Region(0, 0, WIDTH, 1)), shadow, WIDTH, HEIGHT
        ).render_segments(console())
    assert codes == "\x1b[1;7H\x1b[38;2;255;255;255;48;2;0;0;0m9\x1b[0m"


def test_another_size_or_other_colours_forget_the_terminal() -> None:
    shadow = Shadow()
    shadow.fit(4, 2, ColorSystem.TRUECOLOR)
    shadow.rows[0][0] = ("a", shadow.sgr(STYLES[0]))
    shadow.fit(4, 2, ColorSystem.TRUECOLOR)
    assert shadow.rows[0][0] is not None
    shadow.fit(4, 2, ColorSystem.STANDARD)
    assert shadow.rows[0][0] is None
    assert shadow.sgr(STYLES[0]).foreground == "97"
    shadow.fit(5, 2, ColorSystem.STANDARD)
    assert [len(row) for row in shadow.rows] == [5, 5]


def test_an_unknown_update_is_textuals_own_and_ends_the_difference() -> None:
    shadow = Shadow()
    update = InlineUpdate([Strip([Segment("abc", STYLES[0])], 3)])
    assert ScreenDifference(update, shadow, WIDTH, HEIGHT).render_segments(
        console()
    ) == update.render_segments(console())
    assert isinstance(shadow.broken, TypeError)


def test_only_the_known_version_is_replaced() -> None:
    assert supported("8.2.8")
    assert not supported("8.2.9")
    assert not supported("9.0.0")


class _Board(QuietOutput[None]):
    """An app that notes what it hands to Textual's own `_display`."""

    def compose(self) -> ComposeResult:
        yield Static("one", id="one")


async def test_the_app_uses_it_with_the_pinned_textual(monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[object] = []
    original = App._display

    def noted(self: App[None], screen: Screen[Any], update: Any) -> None:
        handed.append(update)
        original(self, screen, update)

    monkeypatch.setattr(App, "_display", noted)
    app = _Board()
    async with app.run_test() as pilot:
        handed.clear()
        app.query_one("#one", Static).update("two")
        await pilot.pause()
        assert app.shadow is not None
        assert any(isinstance(update, ScreenDifference) for update in handed)
        app.shadow.broken = ValueError("surprise")
        handed.clear()
        app.query_one("#one", Static).update("three")
        await pilot.pause()
        assert app.shadow is None
        assert not any(isinstance(update, ScreenDifference) for update in handed)


async def test_another_textual_keeps_its_own_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replexplorer.ui.terminal.output.version", lambda name: "8.3.0")
    app = _Board()
    async with app.run_test():
        assert app.shadow is None
