"""The editor of keys: every action with its keys; a key is pressed to bind it, and conflicts are told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar, Final

from textual import events
from textual.binding import Binding, BindingType

from replexplorer.core.errors import ReplexplorerError
from replexplorer.formats.keymap import WrongKeymap, why_no_key
from replexplorer.ui.desks.keys import KeyDesk
from replexplorer.ui.keys.actions import ACTIONS, LEAVE_KEY, Action, key_label, keys_of
from replexplorer.ui.keys.rebinding import owner_of, reset_with, with_key, with_one_more, without
from replexplorer.ui.screens.listing import ListingScreen
from replexplorer.ui.settings import Settings
from replexplorer.ui.words.runs import Line, Run, hung, spread

_ID_CELLS: Final = 20
_KEYS_CELLS: Final = 22
_HEAD_ROWS: Final = 2
"""Rows that what is asked or told has at least, so that the list does not move."""
_MOST_PROBLEMS: Final = 3
"""Lines of keys.toml's problems that are shown; how many more there are is said."""


class KeysScreen(ListingScreen):
    """The list; what is changed is in force and in keys.toml at once."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "bind", "Give the chosen action another key", show=False),
        Binding("a", "add", "Give it one more key", show=False),
        Binding("slash", "filter", "Show some actions only", show=False),
        Binding("u", "undo", "Undo the last change", show=False),
        Binding("d", "reset", "Give it its default keys", show=False),
        Binding("D", "reset_all", "Give every action its default keys", show=False),
    ]

    def __init__(self, desk: KeyDesk, settings: Settings) -> None:
        super().__init__(settings)
        self._desk = desk
        self._chosen = ACTIONS[0]
        self._waits: Callable[[str], None] | None = None
        """Takes the key that is pressed next."""
        self._question = ""
        self._yes: Callable[[], None] | None = None
        """What Enter does while something is asked."""
        self._told = ""
        """What came of the last change."""
        self._filter = ""
        self._is_typing = False
        """The filter takes the letters."""

    def on_mount(self) -> None:
        """Begin with the file as it is now."""
        super().on_mount()
        self._desk.read()
        self.listing.arrows_do = "choose"

    async def take_key(self, event: events.Key) -> bool:
        """Take the key that is to be bound, the answer to a question, and the letters of the filter."""
        if event.key == LEAVE_KEY:
            return False
        if self._waits is not None:
            waits, self._waits = self._waits, None
            if event.key != "escape":
                waits(event.key)
        elif self._yes is not None:
            yes, self._yes, self._question = self._yes, None, ""
            if event.key == "enter":
                yes()
        elif self._is_typing:
            self._type(event)
        elif event.key == "escape" and self._filter:
            self._filter = ""
        else:
            return False
        self._show_chosen()
        return True

    def _type(self, event: events.Key) -> None:
        """A key of the filter."""
        if event.key in ("enter", "escape"):
            self._is_typing = False
            self._filter = "" if event.key == "escape" else self._filter
        elif event.key in ("up", "down"):
            self._move(-1 if event.key == "up" else 1)
        elif event.key == "backspace":
            self._filter = self._filter[:-1]
        elif event.is_printable and event.character:
            self._filter += event.character

    @property
    def _found(self) -> list[Action]:
        """The actions that the filter leaves: each of its words stands in id, title or keys."""
        words = self._filter.lower().split()
        return [action for action in ACTIONS if all(word in self._text_of(action) for word in words)]

    def _text_of(self, action: Action) -> str:
        return f"{action.id} {action.title} {self._keys(action.id)}".lower()

    def _keys(self, action: str, keymap: Mapping[str, str] | None = None) -> str:
        """The keys of an action in short."""
        keymap = self._desk.keys if keymap is None else keymap
        in_ascii = self.settings.glyphs.ascii
        return " ".join(key_label(key, in_ascii=in_ascii) for key in keys_of(action, keymap))

    def fill(self) -> None:
        """What is asked or told, what is wrong with the file, and the actions."""
        width = self.app.size.width - 1
        body = [row for action in self._found for row in self._rows(action, width)]
        self.listing.is_typed_beside = self._is_typing
        self.listing.show(
            self._title(), self._head(width), body or [[(" no action has these words", "muted")]]
        )

    def _rows(self, action: Action, width: int) -> list[Line]:
        """One action; what differs from the default is said."""
        is_chosen = action == self._chosen
        ground = " on select" if is_chosen else ""
        title = action.title
        if action.id in self._desk.keys:
            title += f" (yours; default {self._keys(action.id, {})})"
        head: list[Run] = [
            (f"{'▸' if is_chosen else ' '} {action.id:<{_ID_CELLS}}", f"title{ground}"),
            (f"{self._keys(action.id):<{_KEYS_CELLS}}", f"key{ground} b"),
        ]
        rows = hung(head, title, width, f"text{ground}")
        return [spread(row, [], width, f"text{ground}") for row in rows] if is_chosen else rows

    def _title(self) -> Line:
        hints = [("Enter", "other key"), ("a", "one more"), ("d", "default"), ("D", "all"), ("/", "filter")]
        if self._desk.can_undo:
            hints.append(("u", "undo"))
        return [("Keys ", "title b"), *(run for key, word in hints for run in _hint(key, word))]

    def _head(self, width: int) -> list[Line]:
        """What is asked, typed or told; below it what is wrong with the file."""
        if self._waits is not None:
            rows = hung(
                [(" ▸ ", "accent b")], f"press the key for {self._chosen.id}; esc: none", width, "title b"
            )
        elif self._yes is not None:
            rows = hung(
                [(" ? ", "warn b")], f"{self._question} Enter does it, any other key does not", width, "warn"
            )
        else:
            rows = []
            if self._is_typing or self._filter:
                rows.append(
                    [(" / ", "key b"), (f"{self._filter}{'▏' if self._is_typing else ''}", "title b")]
                )
            if told := self._told or ("" if rows else self._where):
                rows += hung([(" ", "text")], told, width, "muted")
        rows += [[]] * (_HEAD_ROWS - len(rows))
        problems = self._desk.problems
        for problem in problems[:_MOST_PROBLEMS]:
            rows += hung([(" ▲ ", "warn b")], problem, width, "warn")
        if len(problems) > _MOST_PROBLEMS:
            rows.append([(f"   and {len(problems) - _MOST_PROBLEMS} more: `replexplorer keys`", "warn")])
        return rows

    @property
    def _where(self) -> str:
        """Where changes go."""
        if self._desk.file is None:
            return "Changes hold until the program ends."
        return f"Changes hold at once and are written to {self._desk.file}"

    def action_scroll_by(self, rows: int) -> None:
        """Move the cursor."""
        self._told = ""
        self._move(rows)
        self._show_chosen()

    def action_scroll_page(self, pages: int) -> None:
        """Move the cursor by a page."""
        self.action_scroll_by(pages * self.listing.page_rows)

    def _move(self, rows: int) -> None:
        found = self._found
        at = found.index(self._chosen) if self._chosen in found else 0
        if found:
            self._chosen = found[max(0, min(len(found) - 1, at + rows))]

    def _show_chosen(self) -> None:
        """Fill, and scroll until the chosen action is seen."""
        found, width = self._found, self.app.size.width - 1
        if found and self._chosen not in found:
            self._chosen = found[0]
        self.fill()
        if self._chosen in found:
            first = sum(len(self._rows(action, width)) for action in found[: found.index(self._chosen)])
            self.listing.reveal(first, first + len(self._rows(self._chosen, width)) - 1)

    def action_bind(self) -> None:
        """Wait for the key that the chosen action gets in place of its own."""
        self._wait_for(self._bind)

    def action_add(self) -> None:
        """Wait for the key that it gets beside its own."""
        self._wait_for(self._add)

    def action_filter(self) -> None:
        """Type words of the actions to show."""
        self._is_typing = True
        self.fill()

    def action_undo(self) -> None:
        """Take the last change back."""
        if self._desk.can_undo:
            self._try(self._desk.undo, "undone")

    def action_reset(self) -> None:
        """The default keys of the chosen action, and of those that have one of them."""
        keys, others = self._desk.keys, reset_with(self._desk.keys, self._chosen.id)
        do = partial(self._change, without(keys, others), f"{' and '.join(others)}: default keys")
        if len(others) == 1:
            do()
        else:
            self._ask(f"{' and '.join(others[1:])} would get the default keys too.", do)

    def action_reset_all(self) -> None:
        """Every default key, once it is agreed to."""
        if self._desk.keys:
            number = len(self._desk.keys)
            words = "1 action has keys" if number == 1 else f"{number} actions have keys"
            self._ask(
                f"{words} of yours: all default keys again?", partial(self._change, {}, "all default keys")
            )

    def _wait_for(self, taker: Callable[[str], None]) -> None:
        if self._chosen in self._found:
            self._waits = taker
            self.fill()

    def _bind(self, key: str) -> None:
        """A key in place of the action's own; whose it is swaps with it, if that is agreed to."""
        if self._is_refused(key):
            return
        action, label, owner = self._chosen.id, key_label(key), owner_of(key, self._desk.keys)
        keys = with_key(self._desk.keys, action, key)
        if owner is None or owner == action:
            self._change(keys, f"{action}: {label}")
        else:
            swap = f"{label} belongs to {owner}, which would get {self._keys(owner, keys)}."
            self._ask(
                swap, partial(self._change, keys, f"{action}: {label}; {owner}: {self._keys(owner, keys)}")
            )

    def _add(self, key: str) -> None:
        """A key beside the action's own."""
        if self._is_refused(key):
            return
        action, label, owner = self._chosen.id, key_label(key), owner_of(key, self._desk.keys)
        keys = with_one_more(self._desk.keys, action, key)
        if keys is None:
            self._told = f"{label} is the only key of {owner}: Enter in place of a swaps the two"
        elif owner is None or owner == action:
            self._change(keys, f"{action}: {self._keys(action, keys)}")
        else:
            told = f"{action}: {self._keys(action, keys)}; {owner}: {self._keys(owner, keys)}"
            self._ask(f"{label} belongs to {owner}, which would lose it.", partial(self._change, keys, told))

    def _is_refused(self, key: str) -> bool:
        """A key that no action can have: why is told."""
        why = why_no_key(key)
        if why:
            self._told = why
        return bool(why)

    def _ask(self, question: str, yes: Callable[[], None]) -> None:
        self._question, self._yes = question, yes
        self.fill()

    def _change(self, keys: Mapping[str, str], told: str) -> None:
        self._try(partial(self._desk.change, keys), told)

    def _try(self, change: Callable[..., None], told: str, *, drop_wrong: bool = False) -> None:
        """Change and say so; ask before wrong lines of the file go, and say why nothing was changed."""
        try:
            change(drop_wrong=drop_wrong)
        except WrongKeymap as error:
            number = len(error.problems)
            self._desk.problems = error.problems
            lines = (
                "a mistake: writing it drops that line."
                if number == 1
                else f"{number} mistakes: writing it drops those lines."
            )
            self._ask(f"{self._desk.file} has {lines}", partial(self._try, change, told, drop_wrong=True))
        except ReplexplorerError as error:
            self._told = f"nothing changed: {error}"
        else:
            self._told = told
        self._show_chosen()


def _hint(key: str, word: str) -> list[Run]:
    return [(key, "key b"), (f" {word}  ", "muted")]
