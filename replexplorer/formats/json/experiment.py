"""What can be rerun or rehearsed, as `lab list` and `drill list` have it."""

from __future__ import annotations

from pydantic import Field

from replexplorer.formats.json.model import JsonObject


class ExperimentEntry(JsonObject):
    """An experiment by name; one whose file cannot be used has a name, a file and an error."""

    name: str
    title: str
    teaches: str = ""
    seconds: float | None = Field(default=None, description="with its repeats")
    quick_seconds: float | None = None
    turns: list[str] = Field(default=[], description="keys of the knobs that it turns")
    replicas: int = 1
    file: str | None = Field(default=None, description="of one's own")
    error: str | None = Field(default=None, description="why the file cannot be used")
