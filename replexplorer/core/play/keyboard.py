"""Keys as a play writes them: by the character that is typed, or by name.

Law: a key that is read here has the name that the dashboard binds, so that `?` and `question_mark` are one.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from replexplorer.core.errors import UsageError

_RENAMED: Final = {
    "solidus": "slash", "reverse_solidus": "backslash", "commercial_at": "at", "hyphen_minus": "minus",
    "plus_sign": "plus", "low_line": "underscore",
}  # fmt: skip
"""The terminal library's names of characters, where they are not Unicode's."""
_WITHOUT_CHARACTER: Final = frozenset(
    {
        "escape", "up", "down", "left", "right", "home", "end", "pageup", "pagedown", "insert", "delete",
        *(f"f{number}" for number in range(1, 13)),
    }
)  # fmt: skip
_CONTROLS: Final = {"enter": "\r", "tab": "\t", "backspace": "\x7f"}
_MODIFIERS: Final = ("ctrl", "alt", "shift")


@dataclass(frozen=True, slots=True)
class PlayedKey:
    """One key as the dashboard is given it."""

    name: str
    """`s`, `enter`, `question_mark`, `shift+right`."""
    character: str | None = None
    """What it types; None where it types nothing."""


def key_of_character(character: str) -> PlayedKey:
    """The key that types this one printable character."""
    if character.isalnum():
        return PlayedKey(character, character)
    name = unicodedata.name(character, "").lower().replace("-", "_").replace(" ", "_")
    return PlayedKey(_RENAMED.get(name, name or character), character)


_NAMED: Final = {
    each.name: each
    for each in (
        *(key_of_character(chr(code)) for code in range(0x20, 0x7F)),
        *(PlayedKey(name) for name in _WITHOUT_CHARACTER),
        *(PlayedKey(name, character) for name, character in _CONTROLS.items()),
    )
}


def parse_key(word: str) -> PlayedKey:
    """A key by its character (`s`, `?`) or its name (`enter`, `shift+right`, `ctrl+p`); raise UsageError."""
    if len(word) == 1 and word.isprintable():
        return key_of_character(word)
    *modifiers, last = word.split("+")
    name = last if last in _NAMED else last.lower()
    if name not in _NAMED or any(each not in _MODIFIERS for each in modifiers):
        near = get_close_matches(word.lower(), _NAMED, n=1)
        known = "write a character (s, ?), or enter, escape, space, up, shift+right, ctrl+p, f1"
        raise UsageError(f"no key {word!r}", f"did you mean {near[0]}?" if near else known)
    if len(set(modifiers)) != len(modifiers):
        raise UsageError(f"no key {word!r}", "name each of ctrl, alt and shift once")
    if not modifiers:
        return _NAMED[name]
    ordered = [each for each in _MODIFIERS if each in modifiers]
    return PlayedKey("+".join([*ordered, name]))
