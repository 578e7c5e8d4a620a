"""One document as the text that a verb prints."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any

from pydantic import BaseModel

from replexplorer.core.printable import json_escaped


def to_json(document: BaseModel | dict[str, Any] | list[Any]) -> str:
    """One JSON document with two spaces of indentation, in the models' order; escaped is also what JSON
    could leave as it is and a terminal obeys."""

    def plain(value: Any) -> Any:
        if isinstance(value, BaseModel):
            return plain(value.model_dump(mode="json"))
        if isinstance(value, float) and not isfinite(value):
            return None
        if isinstance(value, dict):
            return {key: plain(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [plain(inner) for inner in value]
        return value

    return json_escaped(json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False))
