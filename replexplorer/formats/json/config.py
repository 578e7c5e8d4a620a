"""`config`: the effective configuration."""

from __future__ import annotations

from typing import Any, Final

from replexplorer.formats.json.model import JsonObject


class ConfigValue(JsonObject):
    """One configuration key with its origin."""

    value: Any
    origin: str


class ConfigDocument(JsonObject):
    """`config --json`."""

    file: str
    file_found: bool
    values: dict[str, ConfigValue]
    paths: dict[str, str]
    unknown_variables: list[str]


DOCUMENTS: Final[dict[str, Any]] = {"config": ConfigDocument}
