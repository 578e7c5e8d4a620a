"""GTID sets as text: a table of what servers write, and the laws of sets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.server.gtid import gtid_count, hole, parse_gtids, subtract_gtids, write_gtids
from tests.typed import table_of

A = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
B = "3e11fa47-71ca-11e1-9e33-c80aa9429563"

numbers = st.sets(st.integers(1, 60))
sets = st.dictionaries(st.sampled_from([A, B, f"{A}:backup"]), numbers)


def text_of(members: dict[str, set[int]]) -> str:
    """Every number for itself, in no order: as untidy as a set can be written."""
    return ",\n".join(
        f"{key}:{number}" for key, found in members.items() for number in sorted(found, key=hash)
    )


def members_of(text: str) -> set[tuple[str, int]]:
    return {
        (key, number)
        for key, spans in parse_gtids(text).items()
        for first, last in spans
        for number in range(first, last + 1)
    }


LACKED = """\
u:1-10:20-30     | u:5-22:25      | u:1-4:23-24:26-30
u:1-3, v:1-5     | u:1-3          | v:1-5
u:1-3:backup:1-4 | u:1-3:backup:2 | u:backup:1:3-4
U:7              | u:7            |
u:1:2,u:3        |                | u:1-3
nonsense         |                |
u:9-3            |                |
                 | u:1            |
"""


def test_what_one_has_and_the_other_lacks() -> None:
    for left, right, difference in table_of(LACKED):
        assert subtract_gtids(left, right) == difference, left


def test_what_a_session_owns_is_on_its_way() -> None:
    """As @@GLOBAL.gtid_owned writes it: each number with the thread that holds it."""
    assert subtract_gtids(f"{A}:1-12", f"{A}:1-10", f"{A}:11#48:12#51") == ""


HOLES = """\
u:1-8377         | u:1-8382,v:1-30      | u:8378-8382
u:1-8382         | u:1-8377,v:1-30      |
u:1-5            | u:1-6 + u:4-5:8      | u:6:8
u:1-5:backup:1   | U:1-5:backup:1-3     | u:backup:2-3
u:1-5            | v:1-9 +              |
                 | u:1                  | u:1
"""
"""What u has itself, what the others have, and what it lost of its own."""


def test_a_server_that_lost_the_end_of_its_own_log_has_a_hole() -> None:
    for own, others, lost in table_of(HOLES):
        assert hole("u", own, *map(str.strip, others.split("+"))) == lost, own


@given(sets, sets)
def test_subtraction_is_that_of_sets_and_equal_sets_are_equal_texts(
    left: dict[str, set[int]], right: dict[str, set[int]]
) -> None:
    there, here = text_of(left), text_of(right)
    difference, rest = subtract_gtids(there, here), members_of(there) - members_of(here)
    assert members_of(difference) == rest
    assert gtid_count(difference) == len(rest)
    assert subtract_gtids(difference, here) == difference == write_gtids(parse_gtids(difference))
    assert subtract_gtids(there, there) == ""
    assert members_of(write_gtids(parse_gtids(there))) == members_of(there)
