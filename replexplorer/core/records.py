"""Dataclasses that are made in a third of the time: a command makes three hundred before it starts.

`frozen` is what most of ours are, and `printed` what verbs print. `dataclass`, for the others, is the
standard library's to the type checker and to whoever reads a class. The library compiles six methods for
each class (0.39 ms, CPython 3.11), of which `__init__` alone has to be code of its own: equality and hash are
of what one attrgetter takes, as fast; that a frozen one never changes is left to the type checker.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import field as field
from dataclasses import replace as replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, *, frozen=False, eq=True, order=False, **how):
        """See `dataclasses.dataclass`; only mypy keeps an instance of a frozen class from being changed."""

        def make(cls):
            if order:
                return dataclasses.dataclass(cls, frozen=frozen, order=True, **how)
            own = cls.__dict__
            made = dataclasses.dataclass(cls, eq=False, repr=False, **how)
            methods = {"__repr__": _repr}
            if eq:
                fields = dataclasses.fields(made)
                taken = _taker(each.name for each in fields if each.compare)
                methods["__eq__"] = lambda one, other: (
                    taken(one) == taken(other) if other.__class__ is one.__class__ else NotImplemented
                )
                # Python itself puts None there for a class that says when two are equal.
                if own.get("__hash__") is None:
                    of = _taker(
                        each.name for each in fields if (each.compare if each.hash is None else each.hash)
                    )
                    made.__hash__ = (lambda one: hash(of(one))) if frozen else None
            for name, method in methods.items():
                if name not in own:
                    setattr(made, name, method)
            return made

        return make if cls is None else make(cls)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(cls: type[T]) -> type[T]:
    """A dataclass whose instances have slots and never change."""
    return dataclass(cls, frozen=True, slots=True)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def printed(cls: type[T]) -> type[T]:
    """A dataclass that is made by keywords alone: what a verb prints with --json, or a part of that."""
    return dataclass(cls, kw_only=True, slots=True)


def _taker(names: Iterable[str]) -> Callable[[Any], Any]:
    """What takes the values of these attributes."""
    some = tuple(names)
    return attrgetter(*some) if some else lambda _: ()


def _repr(one: Any) -> str:
    shown = (f"{each.name}={getattr(one, each.name)!r}" for each in dataclasses.fields(one) if each.repr)
    return f"{type(one).__qualname__}({', '.join(shown)})"
