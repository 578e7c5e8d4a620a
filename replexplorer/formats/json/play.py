"""`play`: a script of keys, waits, captions and marks."""

from __future__ import annotations

from typing import Any, Final

from replexplorer.formats.json.model import JsonObject


class PlayedLineJson(JsonObject):
    """A line that was performed."""

    line: int
    """In the file; 0: the start that the play does not write."""
    text: str
    at_s: float
    """When it ended, since the play began."""
    took_s: float
    state: str
    """The protection state then."""
    changed: list[str]
    """What was changed so that the play starts from what it says; empty for other lines."""


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
