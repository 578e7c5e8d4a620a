"""The names of keys, and keys.toml: `[keys]`, binding id = "keys". Unknown ids and clashes are reported, not
ignored."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from replexplorer.core.errors import UsageError
from replexplorer.core.records import field, frozen
from replexplorer.formats.files import TomlFile
from replexplorer.formats.paths import is_there

_MODIFIERS: Final = ("ctrl", "shift", "alt", "super", "meta", "hyper")
NAMED_KEYS: Final = frozenset((
    "up", "down", "left", "right", "home", "end", "pageup", "pagedown", "insert", "delete",
    "backspace", "enter", "escape", "tab", "space", "add", "subtract", "multiply", "divide",
    "decimal", "equal", "separator", "kp_begin", "menu", "pause", "print_screen", "caps_lock",
    "num_lock", "scroll_lock", "lower_volume", "raise_volume", "mute_volume", "media_play",
    "media_pause", "media_play_pause", "media_stop", "media_record", "media_reverse",
    "media_rewind", "media_fast_forward", "media_track_next", "media_track_previous",
    *(f"f{number}" for number in range(1, 36)),
))  # fmt: skip
"""Keys that type no character, as Textual names them."""
_RENAMED: Final = {
    "solidus": "slash", "reverse_solidus": "backslash", "commercial_at": "at", "hyphen_minus": "minus",
    "plus_sign": "plus", "low_line": "underscore",
}  # fmt: skip
"""Characters that Textual names otherwise than Unicode."""
_TAKEN: Final = {
    **dict.fromkeys((*"0123456789", "full_stop"), "it types a value for the selected knob"),
    "ctrl+c": "it quits at once, whatever is open",
}
"""Keys that no action can have, and what they do instead."""
_KEY: Final = re.compile(r"((?:[A-Za-z]+\+)*)(\S|\w+)")


def _character_name(character: str) -> str:
    """The name of a character that is not a letter or digit, as Textual spells it."""
    name = unicodedata.name(character, "").lower().replace("-", "_").replace(" ", "_")
    return _RENAMED.get(name, name)


_NAMES: Final = NAMED_KEYS | {_character_name(chr(code)) for code in range(0x20, 0x7F)}


def key_name(written: str) -> str:
    """A key as the terminal library names it: `?` is `question_mark`, `Ctrl+P` is `ctrl+p`. Raises UsageError
    for what is not a key."""
    found = _KEY.fullmatch(written.strip())
    held, last = (found[1].lower().split("+")[:-1], found[2]) if found else ([], "")
    if len(last) == 1:
        last = last.lower() if {"ctrl", "alt"} & {*held} else last
        last = last if last.isalnum() else _character_name(last)
    elif last.lower() in _NAMES:
        last = last.lower()
    else:
        last = ""
    if not last or len({*held}) < len(held) or not {*held} <= {*_MODIFIERS}:
        raise UsageError(f"`{written.strip()}` is not a key")
    return "+".join([*sorted(held), last])


@frozen
class Keymap:
    """What the user's file changes, and what is wrong with it."""

    keys: Mapping[str, str] = field(default_factory=dict)
    """Binding id to comma-separated key names; only ids that exist."""
    problems: tuple[str, ...] = ()
    """One line each, with file, line and key; the rest of the file still counts."""


def load_keymap(path: Path, defaults: Mapping[str, str]) -> Keymap:
    """Read keys.toml; an absent file changes nothing, one that is not TOML is a UsageError."""
    if not is_there(path):
        return Keymap()
    file = TomlFile(path, "key bindings")
    table = file.tables.get("keys", {})
    problems = [
        str(file.wrong((name,), "unknown table, only [keys] is read"))
        for name in file.tables
        if name != "keys" or not isinstance(table, dict)
    ]
    keys: dict[str, str] = {}
    for action, written in _flat(table) if isinstance(table, dict) else ():
        try:
            keys[action] = _keys_of(action, written, defaults)
        except UsageError as error:
            problems.append(str(file.wrong(("keys", action), error.message)))
    while clash := next(_clashes(keys, defaults), None):
        action, words = clash
        problems.append(str(file.wrong(("keys", action), words)))
        del keys[action]
    return Keymap(keys, tuple(problems))


def _flat(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """`knob.undo = "u"` written bare is a nested table in TOML: join the names again."""
    for name, held in table.items():
        if isinstance(held, dict):
            yield from _flat(held, f"{prefix}{name}.")
        else:
            yield prefix + name, held


def _keys_of(action: str, written: object, defaults: Mapping[str, str]) -> str:
    """The names of the keys of an action, checked; raises UsageError."""
    if action not in defaults:
        raise UsageError("no such action; `replexplorer config keys` lists them")
    if not isinstance(written, str) or not written.strip():
        raise UsageError('must be a text such as "up,k"')
    names = [key_name(key) for key in written.split(",")]
    for name in names:
        if name in _TAKEN:
            raise UsageError(f"`{name}` cannot be given away: {_TAKEN[name]}")
    return ",".join(names)


def _clashes(keys: Mapping[str, str], defaults: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Actions that would take a key from another one."""
    kept = {action: written for action, written in defaults.items() if action not in keys}
    owners = {key_name(key): action for action, written in kept.items() for key in written.split(",")}
    for action, written in keys.items():
        for key in written.split(","):
            if (owner := owners.setdefault(key, action)) != action:
                yield action, f"`{key}` already belongs to {owner}"
