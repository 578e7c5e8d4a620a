"""The JSON Schema of what the verbs print.

Law: a module of this room that has `DOCUMENTS` (what is typed to what it prints) is found by itself, so
a verb's JSON is declared in one place.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from typing import Any, Final

from pydantic import TypeAdapter

from replexplorer.formats import json as room


def _collected() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for module in pkgutil.iter_modules(room.__path__, f"{room.__name__}."):
        if module.name != __name__:
            found |= getattr(import_module(module.name), "DOCUMENTS", {})
    return dict(sorted(found.items()))


DOCUMENTS: Final = _collected()
"""Verb to the type of what its --json prints, from every module of this room."""


@cache
def schema() -> dict[str, Any]:
    """One JSON Schema with a property for each verb's document and all shapes under `$defs`."""
    properties, definitions = TypeAdapter.json_schemas(
        [(verb, "serialization", TypeAdapter(document)) for verb, document in DOCUMENTS.items()],
        ref_template="#/$defs/{model}",
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "replexplorer: the JSON document of each verb",
        "type": "object",
        "properties": {verb: properties[(verb, "serialization")] for verb in DOCUMENTS},
        "$defs": definitions.get("$defs", {}),
    }


def document_schema(verb: str) -> dict[str, Any]:
    """One verb's document alone; raise KeyError for an unknown verb."""
    whole = schema()
    return {
        "$schema": whole["$schema"],
        "title": f"replexplorer {verb} --json",
        **whole["properties"][verb],
        "$defs": _reachable(whole["properties"][verb], whole["$defs"]),
    }


def _reachable(start: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """The definitions that a schema leads to."""
    found: dict[str, Any] = {}
    waiting = [start]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            name = str(part.get("$ref", "")).rpartition("/")[2]
            if name in definitions and name not in found:
                found[name] = definitions[name]
                waiting.append(definitions[name])
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
    return {name: found[name] for name in definitions if name in found}
