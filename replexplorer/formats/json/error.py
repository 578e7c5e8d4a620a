"""What stdout carries when a verb with --json fails."""

from __future__ import annotations

from typing import Any, Final

from replexplorer.formats.json.model import JsonObject


class ErrorDetail(JsonObject):
    """What went wrong, for scripts."""

    code: str
    message: str
    hint: str


class ErrorDocument(JsonObject):
    """What stdout carries instead of a result when a verb with --json fails."""

    error: ErrorDetail


DOCUMENTS: Final[dict[str, Any]] = {"error": ErrorDocument}
