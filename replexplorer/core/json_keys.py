"""How a value is named in JSON, said at its class: by default each field under its own name.

What JSON makes of it, and the schema, is `formats.documents`; this only notes the differences, so that a
value keeps one form from where it is measured to where it is printed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TypeVar

T = TypeVar("T", bound=type)


@dataclass(frozen=True, slots=True)
class JsonKeys:
    """The differences between a value's attributes and its keys in JSON."""

    shown: tuple[str, ...] = ()
    """Properties that are keys too, behind the fields."""
    hidden: frozenset[str] = frozenset()
    """Fields that are no keys."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The key of an attribute that has another name."""


def json_keys(*, show: str = "", hide: str = "", **names: str) -> Callable[[T], T]:
    """Decorate a dataclass: `show` these properties, `hide` these fields (names with blanks between), and
    call an attribute as given: `json_keys(hide="kind", source="to")`.

    Raises TypeError for what the class does not have, and for two attributes of one key.
    """
    keys = JsonKeys(tuple(show.split()), frozenset(hide.split()), names)

    def decorated(cls: T) -> T:
        own = [each.name for each in fields(cls)]
        unknown = (keys.hidden | keys.names.keys()) - {*own, *keys.shown}
        unknown |= {name for name in keys.shown if not isinstance(getattr(cls, name, None), property)}
        if unknown:
            raise TypeError(f"{cls.__name__} has no {', '.join(sorted(unknown))}")
        visible = [*(name for name in own if name not in keys.hidden), *keys.shown]
        written = Counter(keys.names.get(name, name) for name in visible)
        if twice := [key for key, times in written.items() if times > 1]:
            raise TypeError(f"{cls.__name__} has {', '.join(twice)} twice")
        cls.__json_keys__ = keys  # type: ignore[attr-defined]
        return cls

    return decorated


def json_text(cls: T) -> T:
    """Decorate a class whose values are written as the text that `str` gives."""
    cls.__json_keys__ = None  # type: ignore[attr-defined]
    return cls
