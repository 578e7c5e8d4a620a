"""`themes`: built-in and own themes."""

from __future__ import annotations

from typing import Any, Final, Literal

from replexplorer.formats.json.model import JsonObject


class ThemeEntry(JsonObject):
    """A theme in `themes --json`; a broken one has an error and is not used."""

    name: str
    dark: bool | None
    origin: Literal["built-in", "user"]
    file: str | None
    description: str = ""
    error: str | None = None


DOCUMENTS: Final[dict[str, Any]] = {"themes": list[ThemeEntry]}
