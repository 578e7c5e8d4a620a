"""The one-line field for a typed value or a filter, over the row that it is about."""

from __future__ import annotations

from textual.widgets import Input


class Entry(Input):
    """A field without a frame; enter submits it, escape leaves it."""

    DEFAULT_CSS = """
    Entry, Entry:focus {
        position: absolute;
        layer: entry;
        height: 1;
        border: none;
        padding: 0;
        background: $rx-select;
        color: $rx-title;
        background-tint: transparent 0%;
    }
    """

    def __init__(self, purpose: str) -> None:
        super().__init__(compact=True, select_on_focus=False, id=f"{purpose}-entry")
        self.cursor_blink = False
        self.display = False
        self._at: tuple[int, int] | None = None
        self.purpose = purpose
        """`value` or `filter`."""

    @property
    def is_open(self) -> bool:
        """Whether it takes the keys now."""
        return bool(self.display)

    def open(self, text: str, offset: tuple[int, int], width: int) -> None:
        """Show it at a place of the screen with a first text and give it the keys."""
        self.move(offset)
        self.styles.width = width
        self.value = text
        self.display = True
        # At once: a focus that comes after the field was closed again would swallow every key.
        self.screen.set_focus(self)
        self.cursor_position = len(text)

    def move(self, offset: tuple[int, int]) -> None:
        """Show it at this place of the screen from now on."""
        if self._at != offset:
            self._at = self.styles.offset = offset

    def close(self) -> None:
        """Hide it and give the keys back."""
        if self.is_open:
            self.display = False
            self.value = ""
            self.screen.set_focus(None)
