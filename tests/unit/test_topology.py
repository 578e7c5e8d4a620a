"""Names, roles and links of a stack's nodes."""

from __future__ import annotations

import pytest

from replexplorer.core.topology import (
    SOURCE,
    Role,
    Roster,
    Standing,
    in_order,
    role_of,
    source_of,
)

THREE = Roster(("db1", "db2", "db3"), "db1")
AFTER_A_FAILOVER = Roster(("db1", "db2", "db3"), "db2")


def follows(name: str, host: str | None) -> Standing:
    return Standing(name, reachable=True, follows=host, refuses_writes=True)


def takes_writes(name: str) -> Standing:
    return Standing(name, reachable=True, refuses_writes=False)


def down(name: str) -> Standing:
    return Standing(name, reachable=False)


@pytest.mark.parametrize(
    ("standings", "before", "source"),
    [
        ([takes_writes("db1"), follows("db2", "db1")], None, "db1"),
        ([follows("db1", "db2"), takes_writes("db2")], "db1", "db2"),
        ([takes_writes("db1"), takes_writes("db2")], None, "db1"),
        ([takes_writes("db1"), takes_writes("db2"), follows("db3", "db2")], "db1", "db2"),
        ([takes_writes("db1"), takes_writes("db2")], "db2", "db2"),
        ([down("db1"), follows("db2", "db1")], None, "db1"),
        ([down("db1"), takes_writes("db2"), follows("db3", "db1")], "db1", "db2"),
        ([follows("db1", None), follows("db2", "db1")], None, "db1"),
        ([takes_writes("db1"), follows("db2", "db1"), follows("db3", "db2")], None, "db1"),
        ([takes_writes("db1"), follows("db2", "elsewhere")], "db1", "db1"),
        ([down("db1"), down("db2")], "db2", "db2"),
        ([], "db1", None),
    ],
    ids=[
        "one takes writes, the other follows", "the others follow it after a failover",
        "just made: nobody follows yet", "two take writes: the one that is followed",
        "two take writes and nobody follows: the one before", "down and still followed",
        "down, and another was promoted", "the source refuses writes", "a chain",
        "a replica of somebody outside", "nobody answers", "no nodes",
    ],
)  # fmt: skip
def test_the_source_is_seen_and_not_named(
    standings: list[Standing], before: str | None, source: str | None
) -> None:
    assert source_of(standings, before) == source


@pytest.mark.parametrize(
    ("standing", "role"),
    [
        (takes_writes("db1"), Role.PRIMARY),
        (takes_writes("db2"), Role.PRIMARY),
        (follows("db2", "db1"), Role.REPLICA),
        (follows("db2", None), Role.DETACHED),
        (follows("db1", None), Role.PRIMARY),
        (down("db1"), Role.DOWN),
    ],
    ids=["the source", "a second one that takes writes", "a replica", "detached", "a fenced source", "down"],
)
def test_a_role_is_what_a_node_does(standing: Standing, role: Role) -> None:
    assert role_of(standing, "db1") == role


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        ("primary", "db1", "db2"),
        ("replica", "db2", "db1"),
        ("replica2", "db3", "db3"),
        ("db1", "db1", "db1"),
        ("replica3", None, None),
        ("replica1", None, None),
        ("db4", None, None),
    ],
)
def test_aliases_follow_the_roles(text: str, before: str | None, after: str | None) -> None:
    assert (THREE.find(text), AFTER_A_FAILOVER.find(text)) == (before, after)


@pytest.mark.parametrize(
    ("node", "placed"),
    [
        ("db1", SOURCE),
        ("primary", SOURCE),
        ("replica", "db2"),
        ("db1:db3", "db3"),
        ("db3:primary", "db3"),
        ("db3:db2", "db2:db3"),
        ("replica2:replica", "db2:db3"),
    ],
)
def test_a_knob_s_place_is_said_from_the_source(node: str, placed: str) -> None:
    assert THREE.placed(node) == placed


@pytest.mark.parametrize(
    ("link", "before", "after"),
    [
        ("db1:db2", ("db2", "db1"), ("db1", "db2")),
        ("db1:db3", ("db3", "db1"), ("db1:db3", "db1")),
        ("db2:db3", ("db2:db3", "db2"), ("db3", "db2")),
    ],
    ids=["between the sources before and after", "not the new source's any more", "the new source's"],
)
def test_a_link_stays_where_it_is_and_is_said_from_the_source(
    link: str, before: tuple[str, str], after: tuple[str, str]
) -> None:
    """Where its knobs stand, and which end they take for the primary."""
    for roster, (placed, begins) in ((THREE, before), (AFTER_A_FAILOVER, after)):
        assert roster.placed(link) == placed
        assert roster.link(placed) == link
        assert roster.begins(link) == begins


def test_nodes_stand_in_the_order_of_their_making() -> None:
    names = tuple(f"db{number}" for number in range(1, 12))
    assert tuple(in_order(reversed(names))) == names
