"""`scene`: named sets of knobs."""

from __future__ import annotations

from typing import Any, Final, Literal

from replexplorer.formats.json.model import JsonObject, Scalar
from replexplorer.formats.json.set import RolledBack, SetReport


class SceneEntry(JsonObject):
    """A scene in `scene list --json`."""

    name: str
    title: str
    origin: Literal["shipped", "user"]
    file: str
    knobs: dict[str, Scalar]
    error: str | None = None


DOCUMENTS: Final[dict[str, Any]] = {
    "scene list": list[SceneEntry],
    "scene save": SceneEntry,
    "scene apply": SetReport | RolledBack,
}
