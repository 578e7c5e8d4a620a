"""`keys`: the key bindings."""

from __future__ import annotations

from typing import Any, Final

from replexplorer.formats.json.model import JsonObject


class KeyBinding(JsonObject):
    """A binding in `keys --json`."""

    id: str
    keys: list[str]
    default_keys: list[str]
    help: str


DOCUMENTS: Final[dict[str, Any]] = {"keys": list[KeyBinding]}
