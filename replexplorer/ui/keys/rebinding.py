"""What another key for an action changes: pure functions from keymap to keymap.

Law: every action has a key, and no key two actions. A keymap holds only what differs from the defaults.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from replexplorer.ui.keys.actions import ACTIONS, DEFAULT_KEYS, keys_of

Keymap = Mapping[str, str]
"""Binding id to comma-separated keys, for ids whose keys are not the default ones."""


def owner_of(key: str, keymap: Keymap) -> str | None:
    """The action that a key belongs to."""
    return next((action.id for action in ACTIONS if key in keys_of(action.id, keymap)), None)


def with_key(keymap: Keymap, action: str, key: str) -> dict[str, str]:
    """The action with this key in place of its own; whose it was gets the first of those in exchange."""
    before, owner = keys_of(action, keymap), owner_of(key, keymap)
    changed: dict[str, Sequence[str]] = {action: (key,)}
    if owner is not None and owner != action:
        changed[owner] = [before[0] if one == key else one for one in keys_of(owner, keymap)]
    return _changed(keymap, changed)


def with_one_more(keymap: Keymap, action: str, key: str) -> dict[str, str] | None:
    """The action with this key beside its own, taken from whose it was; None where that had no other."""
    changed: dict[str, Sequence[str]] = {action: list(dict.fromkeys([*keys_of(action, keymap), key]))}
    owner = owner_of(key, keymap)
    if owner is not None and owner != action:
        changed[owner] = [one for one in keys_of(owner, keymap) if one != key]
        if not changed[owner]:
            return None
    return _changed(keymap, changed)


def reset_with(keymap: Keymap, action: str) -> list[str]:
    """The action, and the others whose keys must be the default ones too so that it can have its own."""
    found = [action]
    for each in found:  # it grows meanwhile
        owners = (owner_of(key, keymap) for key in keys_of(each, {}))
        found += [owner for owner in dict.fromkeys(owners) if owner is not None and owner not in found]
    return found


def without(keymap: Keymap, actions: Sequence[str]) -> dict[str, str]:
    """These actions with their default keys."""
    return {action: keys for action, keys in keymap.items() if action not in actions}


def _changed(keymap: Keymap, changed: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """The keymap with other keys for some actions, without what is as by default."""
    keys = {**keymap, **{action: ",".join(keys) for action, keys in changed.items()}}
    return {action: keys for action, keys in keys.items() if keys != DEFAULT_KEYS[action]}
