"""`set`, and `reset` and `scene apply`, which turn knobs too."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

from replexplorer.formats.json.error import ErrorDocument
from replexplorer.formats.json.model import JsonObject, Scalar


class ChangedKnob(JsonObject):
    """One knob that a `set` turned."""

    key: str
    node: str
    name: str = Field(description="as it is typed: the key, with the node where it is not the primary's")
    before: Scalar | None
    requested: Scalar
    effective: Scalar | None
    took_ms: float
    statements: list[str]
    note: str | None = None
    measured_ms: float | None = Field(
        default=None, description="since the change: a link's round trip, or an fsync of a disk"
    )


class SetReport(JsonObject):
    """`set --json`, and `reset` and `scene apply` with --json."""

    changed: list[ChangedKnob]
    warnings: list[str]
    rolled_back: bool
    dry_run: bool = False
    took_ms: float | None = Field(
        default=None, description="from the verb's start until all was in effect: connecting and waiting too"
    )


class RolledBack(ErrorDocument):
    """A `set` that failed on the way, and whether what it had done was rolled back."""

    changed: list[ChangedKnob] = Field(default=[])
    warnings: list[str] = Field(default=[])
    rolled_back: bool = Field(
        description="true: nothing is changed; false: something could not be rolled back, the hint names it"
    )


DOCUMENTS: Final[dict[str, Any]] = {"set": SetReport | RolledBack, "reset": SetReport | RolledBack}
