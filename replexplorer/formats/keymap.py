"""keys.toml: `[keys]`, binding id = "keys". Unknown ids and clashes are reported, not ignored."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from replexplorer.core.errors import UsageError
from replexplorer.formats.paths import is_there
from replexplorer.formats.small_file import MOST_TOML_BYTES, WrongToml, parse_toml, read_text

MODIFIERS = ("ctrl", "shift", "alt", "super", "meta", "hyper")


@dataclass(frozen=True, slots=True)
class Keymap:
    """What the user's file changes, and what is wrong with it."""

    keys: Mapping[str, str] = field(default_factory=dict)
    """Binding id to comma-separated key names; only ids that exist."""
    problems: tuple[str, ...] = ()
    """One line each, with file and key; the rest of the file still counts."""


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
    renamed = {"solidus": "slash", "reverse_solidus": "backslash", "commercial_at": "at"}
    renamed |= {"hyphen_minus": "minus", "plus_sign": "plus", "low_line": "underscore"}
    name = unicodedata.name(character, "").lower().replace("-", "_").replace(" ", "_")
    return renamed.get(name, name)


def parse_keymap(text: str, defaults: Mapping[str, str], source: str) -> Keymap:
    """Read the file's text; UsageError when it is no TOML, problems for what can be skipped."""
    try:
        document = parse_toml(text)
    except WrongToml as error:
        key = f"{'.'.join(map(str, error.where))}: " if error.where else ""
        raise UsageError(f"{source}: {key}{error.words}", "correct the file or move it away") from None
    problems = [
        f"{source}: {name}: unknown table, only [keys] is read" for name in document if name != "keys"
    ]
    table = document.get("keys", {})
    if not isinstance(table, dict):
        return Keymap({}, (f"{source}: keys: must be a table", *problems))
    keys: dict[str, str] = {}
    for action, written in _flat(table):
        if action not in defaults:
            problems.append(f"{source}: keys.{action}: no such action; `replexplorer keys` lists them")
        elif not isinstance(written, str) or not written.strip():
            problems.append(f'{source}: keys.{action}: must be a text such as "up,k"')
        elif bad := [key for key in written.split(",") if not _is_key(key_name(key))]:
            problems.append(f"{source}: keys.{action}: `{bad[0].strip()}` is not a key")
        else:
            keys[action] = ",".join(key_name(key) for key in written.split(","))
    return _without_clashes(keys, defaults, source, problems)


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


def _is_key(name: str) -> bool:
    *modifiers, last = name.split("+")
    return bool(last) and last.replace("_", "").isalnum() and all(word in MODIFIERS for word in modifiers)


def _without_clashes(
    keys: dict[str, str], defaults: Mapping[str, str], source: str, problems: list[str]
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
            problems.append(f"{source}: keys.{action}: `{clash}` already belongs to {owners[clash]}")
            rest = {name: kept for name, kept in keys.items() if name != action}
            return _without_clashes(rest, defaults, source, problems)
        owners |= dict.fromkeys(written.split(","), action)
    return Keymap(keys, tuple(problems))
