"""`play`: a script of keys, waits, captions and marks."""

from __future__ import annotations

from typing import Any, Final

from replexplorer.formats.json.model import JsonObject


class PlayedLineJson(JsonObject):
    """A line that was performed."""

    line: int
    text: str
    at_s: float
    """When it ended, since the play began."""
    took_s: float
    state: str
    """The protection state then."""


class PlayJson(JsonObject):
    """A play that was performed to its end."""

    script: str
    title: str
    over: str | None
    """The recording; null on live servers."""
    lines: list[PlayedLineJson]
    cast: str | None
    """The cast that was written."""


DOCUMENTS: Final[dict[str, Any]] = {"play": PlayJson}
