"""keys.toml: `[keys]`, binding id = "keys". Unknown ids and clashes are reported, not ignored."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from replexplorer.core.errors import UsageError
from replexplorer.core.text import one_line
from replexplorer.formats.files import read_text
from replexplorer.formats.paths import is_there
from replexplorer.formats.toml_file import MOST_TOML_BYTES, WrongToml, line_of, parse_toml

MODIFIERS = ("ctrl", "shift", "alt", "super", "meta", "hyper")
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
    "solidus": "slash",
    "reverse_solidus": "backslash",
    "commercial_at": "at",
    "hyphen_minus": "minus",
    "plus_sign": "plus",
    "low_line": "underscore",
}
"""Characters that Textual names otherwise than Unicode."""
_TAKEN: Final = {
    **dict.fromkeys((*"0123456789", "full_stop"), "it types a value for the selected knob"),
    "ctrl+c": "it quits at once, whatever is open",
}
"""Keys that no action can have, and what they do instead."""


@dataclass(frozen=True, slots=True)
class Keymap:
    """What the user's file changes, and what is wrong with it."""

    keys: Mapping[str, str] = field(default_factory=dict)
    """Binding id to comma-separated key names; only ids that exist."""
    problems: tuple[str, ...] = ()
    """One line each, with file, line and key; the rest of the file still counts."""


def key_name(written: str) -> str:
    """A key as the terminal library names it: `?` is `question_mark`, `Ctrl+P` is `ctrl+p`."""
    text = written.strip()
    if len(text) == 1:
        return text if text.isalnum() else _character_name(text)
    *modifiers, last = text.split("+") if not text.endswith("+") else [*text[:-2].split("+"), "+"]
    held = {modifier.strip().lower() for modifier in modifiers}
    last = key_name(last.lower() if held & {"ctrl", "alt"} else last) if len(last) == 1 else last.lower()
    return "+".join([*(modifier.strip().lower() for modifier in modifiers if modifier), last])


def _character_name(character: str) -> str:
    """The name of a character that is not a letter or digit, as Textual spells it."""
    name = unicodedata.name(character, "").lower().replace("-", "_").replace(" ", "_")
    return _RENAMED.get(name, name)


def parse_keymap(text: str, defaults: Mapping[str, str], source: str) -> Keymap:
    """Read the file's text; UsageError when it is no TOML, problems for what can be skipped."""
    try:
        document = parse_toml(text)
    except WrongToml as error:
        key = f"{'.'.join(map(str, error.where))}: " if error.where else ""
        raise UsageError(f"{source}: {key}{error.words}", "correct the file or move it away") from None
    lines = text.splitlines()

    def told(where: tuple[str, ...], what: str) -> str:
        """A problem in one line."""
        return f"{source}:{line_of(lines, where)}: {one_line('.'.join(where), 100)}: {what}"

    problems = [told((name,), "unknown table, only [keys] is read") for name in document if name != "keys"]
    table = document.get("keys", {})
    if not isinstance(table, dict):
        return Keymap({}, (told(("keys",), "must be a table"), *problems))
    keys: dict[str, str] = {}
    for action, written in _flat(table):
        where = ("keys", action)
        if action not in defaults:
            problems.append(told(where, "no such action; `replexplorer keys` lists them"))
        elif not isinstance(written, str) or not written.strip():
            problems.append(told(where, 'must be a text such as "up,k"'))
        elif wrong := next(filter(None, map(why_no_key, written.split(","))), ""):
            problems.append(told(where, wrong))
        else:
            keys[action] = ",".join(key_name(key) for key in written.split(","))
    return _without_clashes(keys, defaults, told, problems)


def why_no_key(written: str) -> str:
    """Why no action can have this key, in words; "" when one can."""
    name = key_name(written)
    if not is_key(name):
        return f"`{written.strip()}` is not a key"
    return f"`{written.strip()}` cannot be given away: {_TAKEN[name]}" if name in _TAKEN else ""


def load_keymap(path: Path, defaults: Mapping[str, str]) -> Keymap:
    """Read keys.toml; an absent file changes nothing, an unreadable one is a UsageError."""
    if not is_there(path):
        return Keymap()
    return parse_keymap(read_text(path, "key bindings", MOST_TOML_BYTES), defaults, str(path))


def _flat(table: Mapping[str, object], prefix: str = "") -> list[tuple[str, object]]:
    """`knob.undo = "u"` written bare is a nested table in TOML: join the names again."""
    found: list[tuple[str, object]] = []
    for name, held in table.items():
        if isinstance(held, dict):
            found += _flat(held, f"{prefix}{name}.")
        else:
            found.append((prefix + name, held))
    return found


def is_key(name: str) -> bool:
    """Whether that is the name of a key, with its modifiers."""
    *modifiers, last = name.split("+")
    is_one = (len(last) == 1 and last.isalnum()) or last in NAMED_KEYS or _is_character(last)
    return is_one and all(word in MODIFIERS for word in modifiers)


def _is_character(name: str) -> bool:
    """Whether it is what Textual calls a character: Unicode's name with `_` for blanks, of ASCII also for
    hyphens."""
    if any(_character_name(chr(code)) == name for code in range(0x20, 0x7F)):
        return True
    try:
        return bool(unicodedata.lookup(name.replace("_", " ")))
    except KeyError:
        return False


def _without_clashes(
    keys: dict[str, str],
    defaults: Mapping[str, str],
    told: Callable[[tuple[str, ...], str], str],
    problems: list[str],
) -> Keymap:
    """Give up what would take a key from another action, until nothing clashes."""
    owners = {
        key_name(key): action
        for action, written in defaults.items()
        if action not in keys
        for key in written.split(",")
    }
    for action, written in keys.items():
        clash = next((key for key in written.split(",") if owners.get(key, action) != action), None)
        if clash is not None:
            problems.append(told(("keys", action), f"`{clash}` already belongs to {owners[clash]}"))
            rest = {name: kept for name, kept in keys.items() if name != action}
            return _without_clashes(rest, defaults, told, problems)
        owners |= dict.fromkeys(written.split(","), action)
    return Keymap(keys, tuple(problems))
