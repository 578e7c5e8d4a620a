"""A dataclass of ours behaves as one of the standard library."""

from __future__ import annotations

import dataclasses
from dataclasses import field
from itertools import product
from typing import Any

import pytest

from replexplorer.core import records


def made_by(make: Any) -> tuple[type, type]:
    """The same class and one that inherits from it, made by this decorator."""

    @make(frozen=True, slots=True)
    class Link:
        """Two nodes."""

        a: str
        b: str = "db2"
        note: str = field(default="", compare=False, repr=False)
        seen: list[int] = field(default_factory=list, hash=False)

    @make(frozen=True)
    class Shaped(Link):
        """And how it is."""

        rtt_ms: float = 0.0

    return Link, Shaped


MADE = (("db1",), ("db1", "db3"), ("db1", "db2", "slow"), ("db1", "db2", "fast"), ("db3", "db1", "x"))


def test_they_are_equal_hashed_and_shown_alike() -> None:
    (link, shaped), theirs = made_by(records.dataclass), made_by(dataclasses.dataclass)
    for values, others, (ours, standard) in product(MADE, MADE, ((link, theirs[0]), (shaped, theirs[1]))):
        one, two, first, second = ours(*values), ours(*others), standard(*values), standard(*others)
        assert (one == two) is (first == second)
        assert (hash(one) == hash(two)) is (hash(first) == hash(second))
        assert repr(one) == repr(first)
    assert link("db1") != shaped("db1")

    @records.dataclass
    class Counter:
        """Changes."""

    with pytest.raises(TypeError, match="unhashable"):
        hash(Counter())
