"""A dataclass of ours behaves as one of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from dataclasses import field
from itertools import product
from typing import Any

import pytest

from replexplorer.core import records


def _pair(make: Any) -> tuple[type, type]:
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
    for values, others, which in product(MADE, MADE, (0, 1)):
        ours, theirs = _pair(records.dataclass)[which], _pair(dataclasses.dataclass)[which]
        one, two = ours(*values), ours(*others)
        first, second = theirs(*values), theirs(*others)
        assert (one == two) is (first == second)
        assert (hash(one) == hash(two)) is (hash(first) == hash(second))
        assert repr(one) == repr(first)
        assert one != values
        assert dataclasses.replace(one, b="db9").b == "db9"
        assert copy.deepcopy(one) == one


def test_a_subclass_is_not_equal_to_its_base_and_what_changes_has_no_hash() -> None:
    link, shaped = _pair(records.dataclass)
    assert link("db1") != shaped("db1")

    @records.dataclass(slots=True)
    class Counter:
        """Changes."""

        n: int = 0

    assert Counter(1) == Counter(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Counter())


@records.dataclass(slots=True, frozen=True)
class Own:
    """Says itself when two are equal and how one is shown."""

    name: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Own) and self.name.lower() == other.name.lower()

    def __hash__(self) -> int:
        return hash(self.name.lower())

    def __repr__(self) -> str:
        return self.name


def test_methods_of_its_own_stay() -> None:
    assert len({Own("RTT"), Own("rtt")}) == 1
    assert repr(Own("RTT")) == "RTT"
    assert pickle.loads(pickle.dumps(Own("RTT"))) == Own("rtt")
