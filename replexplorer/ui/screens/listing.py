"""A screen of rows that can be scrolled: the epoch ledger, the log and the help are such lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from replexplorer.ui.actions import DEFAULT_KEYS, QUIT, key_label, keys_of
from replexplorer.ui.settings import Settings
from replexplorer.ui.widgets.lines import Lines
from replexplorer.ui.words.runs import Line, Run, rule


class Listing(Lines[object]):
    """A titled rule, fixed head rows, and as many body rows from the top one on as fit."""

    DEFAULT_CSS = "Listing { height: 1fr; }"

    def __init__(self, settings: Settings, arrows_do: str) -> None:
        super().__init__(glyphs=settings.glyphs, id="listing")
        self._title: Line = []
        self._head: Sequence[Line] = ()
        self._body: Sequence[Line] = ()
        self._keymap = settings.keymap
        self.top = 0
        """The first body row that is shown."""
        self._arrows_do = arrows_do
        self.is_typed_beside = False
        """A field beside it takes the letters."""

    def show(  # type: ignore[override]
        self, title: Line, head: Sequence[Line], body: Sequence[Line]
    ) -> None:
        """Show these rows."""
        self._title, self._head, self._body = title, head, body
        self.scroll_rows(0)

    def scroll_rows(self, rows: int) -> None:
        """Move by rows; the ends hold."""
        last = max(0, len(self._body) - self._room)
        self.top = max(0, min(last, self.top + rows))
        self.repaint()

    def reveal(self, first: int, last: int) -> None:
        """Scroll as little as shows these body rows; the first where not all fit."""
        self.scroll_rows(max(0, last - self._room + 1 - self.top))
        self.scroll_rows(min(0, first - self.top))

    @property
    def page_rows(self) -> int:
        """Rows of a page."""
        return max(1, self._room - 1)

    @property
    def _room(self) -> int:
        return max(1, self.size.height - 2 - len(self._head))

    def paint(self, width: int, height: int) -> list[Line]:
        """Rule, head, body, and the keys in the last row."""
        room = self._room
        end = min(len(self._body), self.top + room)
        place: Line = (
            [(f"{self.top + 1}-{end} of {len(self._body)}", "muted")] if len(self._body) > room else []
        )
        rows = [rule(self._title, place, width), *self._head, *self._body[self.top : end]]
        rows += [[]] * (height - 1 - len(rows))
        closes = key_label(keys_of(QUIT, self._keymap)[0])
        keys: Line = [
            (" esc" if self.is_typed_beside else f" esc {closes}", "key b"), (" back   ", "muted"),
            ("↑↓", "key b"), (f" {self._arrows_do}", "muted"),
        ]  # fmt: skip
        return [*rows[: height - 1], keys]


class ListingScreen(Screen[None]):
    """Keys and wheel of a listing; subclasses fill it in `fill`."""

    AUTO_FOCUS = ""
    ARROWS: ClassVar[str] = "scroll"
    """What the arrows up and down do, in a word."""
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "Back", show=False),
        Binding(DEFAULT_KEYS[QUIT], "close", "Back", show=False, id=QUIT),
        Binding("up,k", "scroll_by(-1)", "Up", show=False),
        Binding("down,j", "scroll_by(1)", "Down", show=False),
        Binding("pageup", "scroll_page(-1)", "Page up", show=False),
        Binding("pagedown,space", "scroll_page(1)", "Page down", show=False),
        Binding("home", "scroll_by(-100000)", "Top", show=False),
        Binding("end", "scroll_by(100000)", "End", show=False),
    ]

    def __init__(self, settings: Settings) -> None:
        super().__init__()
        self.settings = settings
        """How the dashboard was started."""

    def compose(self) -> ComposeResult:
        """The listing."""
        yield Listing(self.settings, self.ARROWS)

    def on_mount(self) -> None:
        """Fill it once its size is known, and keep it up to date."""
        self.watch(self.app, "theme", self._restyle, init=False)
        self.set_interval(0.5, self.fill)

    def on_resize(self) -> None:
        """Fill the new size."""
        self.call_after_refresh(self.fill)

    def fill(self) -> None:
        """Give the listing its rows."""
        raise NotImplementedError

    @property
    def listing(self) -> Listing:
        """The widget."""
        return self.query_one(Listing)

    def key(self, action: str) -> str:
        """The first key of an action, as it is shown."""
        return key_label(keys_of(action, self.settings.keymap)[0])

    def copy(self, text: str, what: str) -> None:
        """Put a text on the clipboard, over OSC 52, and say what it was."""
        self.app.copy_to_clipboard(text)
        self.notify(what, title="copied", timeout=4, markup=False)

    def action_close(self) -> None:
        """Back to the screen behind."""
        self.dismiss()

    def action_scroll_by(self, rows: int) -> None:
        """Move by rows."""
        self.listing.scroll_rows(rows)

    def action_scroll_page(self, pages: int) -> None:
        """Move by pages."""
        self.action_scroll_by(pages * self.listing.page_rows)

    def on_mouse_scroll_down(self) -> None:
        """Three rows down."""
        self.listing.scroll_rows(3)

    def on_mouse_scroll_up(self) -> None:
        """Three rows up."""
        self.listing.scroll_rows(-3)

    def _restyle(self) -> None:
        self.listing.restyle()


def key_hints(*hints: tuple[str, str]) -> list[Run]:
    """Keys, each with what it does."""
    return [run for key, word in hints for run in ((key, "key b"), (f" {word}  ", "muted"))]
