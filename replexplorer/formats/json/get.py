"""`get`: all that is known of a knob."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from replexplorer.formats.json.model import JsonObject, Scalar


class GetKnob(JsonObject):
    """A knob in `get`: all that the catalogue and the stack know of it."""

    requested: Scalar | None
    effective: Scalar | None
    default: Scalar = Field(description="what the stack begins with, and `reset` returns to")
    server_default: Scalar | None = Field(
        default=None,
        description="what the server comes with, less the stack's option file; null: none, or it depends",
    )
    min: float | int | None
    max: float | int | None
    unit: str | None
    node: str
    scope: str = Field(description="global (a server variable), link or load")
    restart: Literal["none", "applier", "sessions"]
    note: str | None
    choices: list[str] | None = None
    help: str


DOCUMENTS: Final[dict[str, Any]] = {"get": dict[str, GetKnob]}
