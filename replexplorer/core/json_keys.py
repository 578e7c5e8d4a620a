"""How a value is named in JSON, said at its class: by default each field under its own name.

What JSON makes of it, and the schema, is `formats.documents`; this only notes the differences, so that a
value keeps one form from where it is measured to where it is printed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from typing import TypeVar

from replexplorer.core.records import frozen

T = TypeVar("T", bound=type)


@frozen
class JsonKeys:
    """The differences between a value's attributes and its keys in JSON."""

    shown: Mapping[str, str] = field(default_factory=dict)
    """Keys behind those of the fields, each with the attribute that it shows: `phase.name` of a `phase`."""
    hidden: frozenset[str] = frozenset()
    """Fields that are not keys."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The key of an attribute that has another name."""


def json_keys(*, show: str = "", hide: str = "", **names: str) -> Callable[[T], T]:
    """Decorate a dataclass: `show` these properties, `hide` these fields (names with blanks between), and
    call an attribute as given: `json_keys(show="verdict n=service.count", hide="kind", source="to")`. What
    is shown may be an attribute's attribute, under a key of its own; it is null where the former is None.

    Raises TypeError for what the class does not have, and for two attributes of one key.
    """
    shown: dict[str, str] = {}
    for text in show.split():
        key, _, path = text.rpartition("=")
        shown[key or names.get(path, path)] = path
    keys = JsonKeys(shown, frozenset(hide.split()), names)

    def decorated(cls: T) -> T:
        own = [each.name for each in fields(cls)]
        unknown = (keys.hidden | keys.names.keys()) - {*own, *shown.values()}
        for name, inner, _ in (path.partition(".") for path in shown.values()):
            is_there = isinstance(getattr(cls, name, None), property) or (inner and name in own)
            unknown |= set() if is_there else {name}
        if unknown:
            raise TypeError(f"{cls.__name__} has no {', '.join(sorted(unknown))}")
        written = Counter(keys.names.get(name, name) for name in own if name not in keys.hidden)
        written.update(shown.keys())
        if twice := [key for key, times in written.items() if times > 1]:
            raise TypeError(f"{cls.__name__} has {', '.join(twice)} twice")
        cls.__json_keys__ = keys  # type: ignore[attr-defined]
        return cls

    return decorated


def json_text(cls: T) -> T:
    """Decorate a class whose values are written as the text that `str` gives."""
    cls.__json_keys__ = None  # type: ignore[attr-defined]
    return cls
