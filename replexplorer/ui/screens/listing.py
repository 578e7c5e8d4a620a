"""Lists over the whole terminal: a titled text that scrolls, or rows to choose from with what the chosen one
means below them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, Generic, TypeVar

from rich.style import Style
from rich.text import Text
from textual import on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import Screen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from replexplorer.core.text import printable
from replexplorer.ui.actions import DEFAULT_KEYS, QUIT, key_label, keys_of
from replexplorer.ui.settings import Settings
from replexplorer.ui.style.theme import inks_of
from replexplorer.ui.terminal.glyphs import Glyphs
from replexplorer.ui.words.runs import Line, Run, cut, rule

Row = TypeVar("Row")
_QUIET: Final = frozenset({"muted", "faint"})
"""Tokens that cannot be read on the ground of what is chosen."""


def drawn(app: App[Any], glyphs: Glyphs, row: Line, *, chosen: bool = False) -> Text:
    """A row in the colors of the app's theme, in its glyphs, with nothing that a terminal would obey; on the
    ground of what is chosen where it is that."""
    inks = inks_of(app)
    parts: list[tuple[str, Style]] = []
    for told, words in cut(row, app.size.width - 1):
        token, _, more = words.partition(" ")
        if chosen:
            token = "text" if token in _QUIET else token
            more += "" if "on" in more.split() else " on select"
        parts.append((glyphs.text(printable(told)), inks.style(f"{token} {more}")))
    return Text.assemble(*parts)


class ListScreen(Screen[None]):
    """A title, fixed rows, a text that scrolls, and the keys; subclasses fill it in `fill`."""

    AUTO_FOCUS = "#body"
    DEFAULT_CSS = """
    ListScreen {
        Static { height: auto; text-wrap: nowrap; text-overflow: ellipsis; }
        #body, #body:focus {
            height: 1fr; min-height: 3; padding: 0; border: none; background: $rx-bg;
            background-tint: transparent 0%; text-wrap: nowrap; overflow-x: hidden;
            scrollbar-size-vertical: 1;
        }
        #keys { height: 1; }
    }
    """
    ARROWS: ClassVar[str] = "scroll"
    """What the arrows up and down do, in a word."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Back", show=False),
        Binding(DEFAULT_KEYS[QUIT], "close", "Back", show=False, id=QUIT),
        Binding("k", "app.simulate_key('up')", "Up", show=False),
        Binding("j", "app.simulate_key('down')", "Down", show=False),
        Binding("space", "app.simulate_key('pagedown')", "Page down", show=False),
    ]

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings
        """How the dashboard was started."""
        self._shown: dict[str, object] = {}

    def compose(self) -> ComposeResult:
        """Title, head, text and keys."""
        yield Static(id="title")
        yield Static(id="head")
        with VerticalScroll(id="body"):
            yield Static(id="rows")
        yield Static(id="keys")

    def on_mount(self) -> None:
        """Keep it up to date."""
        self.watch(self.app, "theme", self.fill, init=False)
        self.set_interval(0.5, self.fill)

    def on_resize(self) -> None:
        """Fill the new size."""
        self.call_after_refresh(self.fill)

    def fill(self) -> None:
        """Show what is so now."""
        raise NotImplementedError

    @property
    def width(self) -> int:
        """Cells of a row beside the scroll bar."""
        return self.app.size.width - 1

    def show(self, title: Line, head: Sequence[Line], rows: Sequence[Line]) -> None:
        """Show these rows."""
        self.draw("title", [rule(title, [], self.width)])
        self.draw("head", head)
        self.draw("rows", rows)
        closes = " ".join(["esc", *([] if self.takes_letters else [self.key(QUIT)])])
        self.draw("keys", [key_hints((f" {closes}", "back "), ("↑↓", self.ARROWS))])

    @property
    def takes_letters(self) -> bool:
        """A field beside the list takes the letters."""
        return False

    def draw(self, name: str, rows: Sequence[Line]) -> None:
        """Give a part its rows, where they are others than before."""
        inks = inks_of(self.app)
        if self._shown.get(name) != (inks, rows):
            self._shown[name] = inks, rows
            part = self.query_one(f"#{name}", Static)
            part.display = bool(rows)
            part.update(Text("\n").join(self.text(row) for row in rows))

    def text(self, row: Line, *, chosen: bool = False) -> Text:
        """One row in the colors of the theme."""
        return drawn(self.app, self.settings.glyphs, row, chosen=chosen)

    def key(self, action: str) -> str:
        """The first key of an action, as it is shown."""
        return key_label(keys_of(action, self.settings.keymap)[0])

    def copy(self, text: str, what: str) -> None:
        """Put a text on the clipboard, over OSC 52, and say what it was."""
        self.app.copy_to_clipboard(text)
        self.notify(what, title="copied", timeout=4)

    def action_close(self) -> None:
        """Back to the screen behind."""
        self.dismiss()


class ChoiceScreen(ListScreen, Generic[Row]):
    """Rows to choose from; subclasses say which, how each is drawn, and what the chosen one means."""

    ARROWS = "choose"
    DEFAULT_CSS = """
    ChoiceScreen OptionList > .option-list--option { padding: 0; }
    ChoiceScreen #body > .option-list--option-highlighted { background: $rx-select; }
    ChoiceScreen #rows { max-height: 16; }
    """

    def __init__(self, settings: Settings, chosen: Row | None = None) -> None:
        super().__init__(settings)
        self._chosen = chosen
        self._listed: list[tuple[Row | None, Text]] = []
        """The rows as they are drawn; None for a heading."""

    def compose(self) -> ComposeResult:
        """The rows, what the chosen one means below them."""
        yield Static(id="title")
        yield Static(id="head")
        yield OptionList(id="body")
        yield Static(id="rows")
        yield Static(id="keys")

    @property
    def parts(self) -> Sequence[tuple[str, Sequence[Row]]]:
        """What can be chosen now, each part with its heading."""
        raise NotImplementedError

    def row(self, row: Row, *, chosen: bool) -> Line:
        """How one is drawn."""
        raise NotImplementedError

    @property
    def chosen(self) -> Row:
        """What is under the cursor: what was chosen while it is there, else the first."""
        rows = [row for _, part in self.parts for row in part]
        return self._chosen if self._chosen is not None and self._chosen in rows else rows[0]

    def show(self, title: Line, head: Sequence[Line], rows: Sequence[Line]) -> None:
        """Show the rows of now, and these below them."""
        super().show(title, head, rows)
        options, chosen, before = self.query_one(OptionList), self.chosen, self._listed
        listed: list[tuple[Row | None, Text]] = []
        for heading, part in self.parts:
            listed += [(None, self.text([(f" {heading}", "accent b")]))] * bool(heading and part)
            listed += [
                (row, self.text(self.row(row, chosen=row == chosen), chosen=row == chosen)) for row in part
            ]
        self._listed = listed
        if [row for row, _ in listed] != [row for row, _ in before]:
            options.set_options(Option(text, disabled=row is None) for row, text in listed)
            options.highlighted = next(at for at, (row, _) in enumerate(listed) if row == chosen)
        else:
            for at, (old, new) in enumerate(zip(before, listed, strict=True)):
                if old != new:
                    options.replace_option_prompt_at_index(at, new[1])

    @on(OptionList.OptionHighlighted)
    def _choose(self, event: OptionList.OptionHighlighted) -> None:
        row = self._listed[event.option_index][0]
        if row is not None and row != self._chosen:
            self._chosen = row
            self.moved()
            self.fill()
            self.call_after_refresh(event.option_list.scroll_to_highlight)  # what is below it may take more

    def moved(self) -> None:
        """The cursor went to another row."""


def key_hints(*hints: tuple[str, str]) -> list[Run]:
    """Keys, each with what it does."""
    return [run for key, word in hints for run in ((key, "key b"), (f" {word}  ", "muted"))]
