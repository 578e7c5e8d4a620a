"""What a verb prints with --json, with its keys as attributes."""

from __future__ import annotations

import json
from typing import Any


class Document(dict[str, Any]):
    """An object of a JSON document, whose keys are attributes too."""

    def __getattr__(self, key: str) -> Any:
        """The value of a key; raises AttributeError for one that is not there."""
        try:
            return self[key]
        except KeyError:
            raise AttributeError(key) from None


def document(text: str) -> Any:
    """One JSON document."""
    return json.loads(text, object_hook=Document)
