"""`doctor`: what is here and what is missing."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from replexplorer.formats.json.model import JsonObject


class Check(JsonObject):
    """One thing that doctor looked at."""

    name: str
    state: Literal["ok", "warning", "missing", "unknown"]
    detail: str
    remedy: str | None = None
    packages: list[str] = Field(default=[], description="host packages that remedy it, by Debian's names")


class Doctor(JsonObject):
    """`doctor --json`."""

    version: str
    ready: bool = Field(description="nothing that `up` needs is missing")
    checks: list[Check]


DOCUMENTS: Final[dict[str, Any]] = {"doctor": Doctor}
