"""Names, roles and links of a stack's nodes, and the systems that it can be."""

from __future__ import annotations

import pytest

from replexplorer.core.errors import UsageError
from replexplorer.core.knobs.catalogue import BY_KEY
from replexplorer.core.knobs.names import KnobName, Value, addressed
from replexplorer.core.model.operating_point import bound_rtt_ms, operating_point_of, unacknowledged
from replexplorer.core.server.node_view import Conflicts, Membership, conflicts_of, judge_group, majority_of
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.system import ASYNC, GALERA, GROUP, SYSTEMS, System, new_stack, system_of, who_has
from replexplorer.core.topology import (
    SOURCE,
    Belonging,
    Role,
    Roster,
    Standing,
    in_order,
    role_of,
    source_of,
)
from tests.known import refused

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


MEMBER, CUT, JOINING, OUTSIDE = (
    Belonging.MEMBER,
    Belonging.CUT_OFF,
    Belonging.JOINING,
    Belonging.OUTSIDE,
)
MESH = Roster(("db1", "db2", "db3"), "db2", mesh=True)


def test_a_stack_that_says_nothing_is_asynchronous() -> None:
    assert system_of(None) is ASYNC
    with pytest.raises(UsageError, match="no system 'grp'"):
        system_of("grp")


def test_what_cannot_be_made_is_refused_in_one_line(snapshot: object) -> None:
    wanted = [("galera", "mysql", None), ("async", None, 0), ("async", None, 9)]
    assert [refused(new_stack, *each) for each in wanted] == snapshot


@pytest.mark.parametrize("system", SYSTEMS.values(), ids=str)
def test_a_new_stack_is_what_its_system_says(system: System) -> None:
    assert new_stack(system.name, None, None) == (system, system.flavors[0], system.nodes - 1)


def test_who_has_a_knob_that_another_system_lacks() -> None:
    semi_sync = BY_KEY["semi_sync"]
    assert ASYNC.has(semi_sync)
    assert not GROUP.has(semi_sync)
    assert not GALERA.has(semi_sync)
    assert "`up --system async`" in who_has(semi_sync)
    assert who_has(BY_KEY["sync_binlog"]) == ""


@pytest.mark.parametrize(
    ("standings", "before", "source", "roles"),
    [
        pytest.param(
            [("db1", True, MEMBER, True), ("db2", True, MEMBER, False), ("db3", True, JOINING, True)],
            "db1",
            "db2",
            [Role.SECONDARY, Role.PRIMARY, Role.JOINING],
            id="after an election",
        ),
        pytest.param(
            [("db1", True, MEMBER, False), ("db2", True, MEMBER, False)],
            "db2",
            "db2",
            [Role.PRIMARY, Role.PRIMARY],
            id="several take writes: the one of before",
        ),
        pytest.param(
            [("db1", True, CUT, False), ("db2", True, MEMBER, False), ("db3", True, MEMBER, True)],
            "db1",
            "db2",
            [Role.PRIMARY, Role.PRIMARY, Role.SECONDARY],
            id="isolated, it does not know yet that it is the source no more",
        ),
        pytest.param(
            [("db1", True, CUT, False), ("db2", False, None, None), ("db3", False, None, None)],
            "db1",
            "db1",
            [Role.PRIMARY, Role.DOWN, Role.DOWN],
            id="the majority is lost",
        ),
        pytest.param(
            [("db1", False, MEMBER, False), ("db2", True, MEMBER, True), ("db3", True, MEMBER, True)],
            "db1",
            "db1",
            [Role.DOWN, Role.SECONDARY, Role.SECONDARY],
            id="before the election",
        ),
        pytest.param(
            [("db1", True, OUTSIDE, True), ("db2", True, OUTSIDE, True)],
            None,
            "db1",
            [Role.DETACHED, Role.DETACHED],
            id="nobody is a member",
        ),
    ],
)
def test_who_takes_the_writes_of_a_group(
    standings: list[tuple[str, bool, Belonging | None, bool | None]],
    before: str | None,
    source: str,
    roles: list[Role],
) -> None:
    seen = [
        Standing(name, reachable, None, refuses, belongs) for name, reachable, belongs, refuses in standings
    ]
    assert source_of(seen, before) == source
    assert [role_of(each, source) for each in seen] == roles


@pytest.mark.parametrize(("size", "majority"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3), (9, 5)])
def test_a_majority_is_more_than_half(size: int, majority: int) -> None:
    assert majority_of(size) == majority
    assert 2 * majority > size >= 2 * (majority - 1)


@pytest.mark.parametrize(
    ("members", "writers", "state", "acking", "required"),
    [
        pytest.param(
            {"db1": (MEMBER, 3, 3), "db2": (MEMBER, 3, 3), "db3": (MEMBER, 3, 3)},
            ["db1"], ProtectionState.PROTECTED, 2, 1, id="whole",
        ),
        pytest.param(
            {"db1": (MEMBER, 3, 2), "db2": (MEMBER, 3, 2)},
            ["db1"], ProtectionState.PROTECTED, 1, 1, id="two of three",
        ),
        pytest.param(
            {"db1": (CUT, 3, 1), "db2": None},
            ["db1"], ProtectionState.BLOCKED, 0, 1, id="the majority is lost",
        ),
        pytest.param(
            {"db1": (CUT, 3, 1), "db2": (MEMBER, 2, 2), "db3": (MEMBER, 2, 2)},
            ["db1", "db2"], ProtectionState.PROTECTED, 1, 1, id="the others went on without it",
        ),
        pytest.param(
            {"db2": (MEMBER, 3, 3), "db3": (MEMBER, 3, 3)},
            [], ProtectionState.BLOCKED, 1, 1, id="killed, and nobody is elected yet",
        ),
        pytest.param({"db1": None}, ["db1"], ProtectionState.BLOCKED, 0, 1, id="no member"),
        pytest.param({}, [], ProtectionState.DOWN, None, None, id="nobody answers"),
    ],
)  # fmt: skip
def test_a_group_is_protected_while_a_majority_answers_and_takes_writes(
    members: dict[str, tuple[Belonging, int, int] | None],
    writers: list[str],
    state: ProtectionState,
    acking: int | None,
    required: int | None,
) -> None:
    seen = {
        name: None if each is None else Membership(each[0], "ONLINE", size=each[1], answering=each[2])
        for name, each in members.items()
    }
    found = judge_group(GROUP, seen, writers, requested_size=3)
    assert (found.state, found.replicas_acking, found.replicas_required) == (state, acking, required)


def test_members_that_certify_alike_have_each_counted_what_others_count_alone() -> None:
    ours = Membership(MEMBER, "ONLINE", conflicts=5, gave_way=2)
    theirs = Membership(MEMBER, "ONLINE", conflicts=3, gave_way=1)
    unknown = Membership(OUTSIDE, "OFFLINE")
    assert conflicts_of(GROUP, [ours, theirs, None]).refused == 5
    assert conflicts_of(GALERA, [ours, theirs, unknown]) == Conflicts(8, 3)
    assert conflicts_of(GALERA, [unknown, None]) == Conflicts(None, None)
    later = Conflicts(9, 3)
    assert later.since(Conflicts(8, 1)) == Conflicts(1, 2)
    assert later.since(Conflicts(None, 4)) == Conflicts(None, None), "unknown, or counted again from 0"


def test_a_links_knob_without_a_node_turns_every_link_of_a_mesh() -> None:
    assert {name.node for name in addressed("rtt", MESH)} == {"db1", "db3", "db1:db3"}
    assert addressed("rtt@db1:db3", MESH) == (KnobName("rtt", "db1:db3"),)
    assert addressed("rtt@db1:db2", MESH) == (KnobName("rtt", "db1"),)
    assert addressed("sync_binlog", MESH) == (KnobName("sync_binlog", SOURCE),)


def test_a_lone_commit_of_a_group_waits_for_a_majority_and_then_for_the_farthest() -> None:
    """As measured: 42 ms where all links have 20, 108 where the farthest member has 80."""
    values: dict[KnobName, Value | None] = {KnobName("rtt", "db2"): 20.0, KnobName("rtt", "db3"): 80.0}
    others = ("db2", "db3")
    assert operating_point_of(values, others, system=GROUP).rtt_ms == 100
    assert operating_point_of(values, others, system=GROUP).semi_sync
    assert bound_rtt_ms(values, others, GROUP) == 20
    assert operating_point_of(values, others, system=GALERA).rtt_ms == 80
    assert not operating_point_of(values, others).semi_sync
    assert operating_point_of(values, others).rtt_ms == bound_rtt_ms(values, others) == 20
    cut = {**values, KnobName("partition", "db2"): "both", KnobName("partition", "db3"): "both"}
    assert "1 other node must have it" in str(unacknowledged(cut, others, GROUP))
    assert unacknowledged(values, others, GROUP) is None
