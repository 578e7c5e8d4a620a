"""JSON of the program's own values: the text that a verb prints, and the JSON Schema of it.

Law: a value is written as its dataclass says: each field under its name, what `core.json_keys` says of it
else. Times are milliseconds unless the name says otherwise, sizes bytes, rates per second, clock times UTC.
What is not known, and a number that is not finite, is null. The schema is made of the same types, and its
descriptions are the docstrings behind their fields.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, reduce
from math import isfinite
from operator import or_
from pathlib import PurePath
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from replexplorer.core.json_keys import JsonKeys
from replexplorer.core.text import json_escaped

if TYPE_CHECKING:
    from pydantic import BaseModel

_DIGITS: Final = 3
"""Behind the point of a number of 1 or more."""
_SMALL_DIGITS: Final = 6
"""Of a smaller one."""


def to_json(document: Any) -> str:
    """One JSON document with two spaces of indentation; escaped is also what JSON could leave as it is and a
    terminal obeys."""
    return json_escaped(json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """A value as dicts, lists, texts and numbers."""
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return round(value, _DIGITS if abs(value) >= 1 else _SMALL_DIGITS) if isfinite(value) else None
    if isinstance(value, Mapping):
        return {
            str(key.value if isinstance(key, Enum) else key): plain(inner) for key, inner in value.items()
        }
    if is_dataclass(value):
        kind: type = type(value)
        attributes = _attributes(kind)
        if attributes is None:
            return str(value)
        return {key: plain(_at(value, path)) for path, key in attributes}
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Iterable):
        return [plain(inner) for inner in value]
    raise TypeError(f"no JSON of {value!r}")


def _at(value: Any, path: str) -> Any:
    """An attribute, or an attribute's attribute; None where one on the way is None."""
    for name in path.split("."):
        value = None if value is None else getattr(value, name)
    return value


@cache
def _attributes(cls: type) -> tuple[tuple[str, str], ...] | None:
    """Attributes of a dataclass with their keys, in order; None where it is written as a text."""
    keys: JsonKeys | None = getattr(cls, "__json_keys__", JsonKeys())
    if keys is None:
        return None
    own = [
        each.name for each in fields(cls) if each.name not in keys.hidden and not each.name.startswith("_")
    ]
    shown = ((path, key) for key, path in keys.shown.items())
    return (*((name, keys.names.get(name, name)) for name in own), *shown)


# -- the schema


def schema(documents: Mapping[str, Any]) -> dict[str, Any]:
    """One JSON Schema with a property for each document's type, by name, and all shapes under `$defs`."""
    from pydantic import TypeAdapter

    properties, definitions = TypeAdapter.json_schemas(
        [(name, "serialization", TypeAdapter(_in_schema(document))) for name, document in documents.items()],
        ref_template="#/$defs/{model}",
    )
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "replexplorer: the JSON document of each verb",
        "type": "object",
        "properties": {name: properties[(name, "serialization")] for name in documents},
        "$defs": definitions.get("$defs", {}),
    }


def _in_schema(kind: Any) -> Any:
    """A type as pydantic is to describe what `plain` makes of its values."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return reduce(or_, (_in_schema(each) for each in inner))
    if origin is Literal:
        return kind
    if origin is tuple and inner[-1:] != (Ellipsis,):
        return tuple[tuple(_in_schema(each) for each in inner)]  # type: ignore[misc]
    if origin is not None and issubclass(origin, Mapping):
        return dict[str, _in_schema(inner[1])]  # type: ignore[misc]
    if origin is not None and issubclass(origin, Iterable):
        return list[_in_schema(inner[0])]  # type: ignore[misc]
    if isinstance(kind, type) and is_dataclass(kind):
        return str if _attributes(kind) is None else _model(kind)
    if isinstance(kind, type) and issubclass(kind, PurePath):
        return str
    return kind


@cache
def _model(cls: type) -> type[BaseModel]:
    """A pydantic model with the keys of a dataclass."""
    from pydantic import ConfigDict, Field, create_model

    found: dict[str, Any] = {}
    for path, key in _attributes(cls) or ():
        kind, words = _declared(cls, path)
        # A key may be a word of Python's, as `from`.
        found[f"{key}_"] = (_in_schema(kind), Field(alias=key, description=_one_line(words)))
    config = ConfigDict(protected_namespaces=())
    return create_model(cls.__name__, __doc__=_one_line(cls.__doc__), __config__=config, **found)


def _declared(cls: type, path: str) -> tuple[Any, str | None]:
    """The type and the docstring of an attribute, or of an attribute's attribute."""
    name, _, rest = path.partition(".")
    shown = getattr(cls, name, None)
    if isinstance(shown, property):
        kind, words = get_type_hints(shown.fget)["return"], shown.__doc__
    else:
        kind, words = get_type_hints(cls)[name], _docstrings(cls).get(name)
    if not rest:
        return kind, words
    inner = next(each for each in (*get_args(kind), kind) if each is not NoneType)
    found, words = _declared(inner, rest)
    return (found if inner is kind else found | None), words


def _docstrings(cls: type) -> dict[str, str]:
    """The docstring behind each field, of the classes that it is made of too."""
    found: dict[str, str] = {}
    for each in reversed(cls.__mro__[:-1]):
        found |= _told_in(each.__module__).get(each.__qualname__, {})
    return found


@cache
def _told_in(module: str) -> dict[str, dict[str, str]]:
    """The docstrings behind fields of each class of a module."""
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {
        node.name: {
            before.target.id: after.value.value
            for before, after in zip(node.body, node.body[1:], strict=False)
            if isinstance(before, ast.AnnAssign)
            and isinstance(before.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        }
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }


def _one_line(text: str | None) -> str | None:
    """A docstring as a description, with JSON's word for what is not known."""
    return None if text is None else re.sub(r"\bNone\b", "null", " ".join(text.split()))
