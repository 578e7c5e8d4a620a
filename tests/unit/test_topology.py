"""Names, roles and links of a stack's nodes, and the systems that it can be."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from replexplorer.core.errors import UsageError
from replexplorer.core.knobs.catalogue import BY_KEY
from replexplorer.core.knobs.names import KnobName, Value, addressed
from replexplorer.core.model.operating_point import bound_rtt_ms, operating_point_of, unacknowledged
from replexplorer.core.server.node_view import Conflicts, Membership, conflicts_of, judge_group, majority_of
from replexplorer.core.system import ASYNC, GALERA, GROUP, SYSTEMS, new_stack, system_of, who_has
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


SOURCES: list[tuple[list[Standing], str | None, str | None]] = [
    # one takes writes, the other follows
    ([takes_writes("db1"), follows("db2", "db1")], None, "db1"),
    # the others follow it after a failover
    ([follows("db1", "db2"), takes_writes("db2")], "db1", "db2"),
    # just made: nobody follows yet
    ([takes_writes("db1"), takes_writes("db2")], None, "db1"),
    # two take writes: the one that is followed
    ([takes_writes("db1"), takes_writes("db2"), follows("db3", "db2")], "db1", "db2"),
    # two take writes and nobody follows: the one before
    ([takes_writes("db1"), takes_writes("db2")], "db2", "db2"),
    # down and still followed
    ([down("db1"), follows("db2", "db1")], None, "db1"),
    # down, and another was promoted
    ([down("db1"), takes_writes("db2"), follows("db3", "db1")], "db1", "db2"),
    # the source refuses writes
    ([follows("db1", None), follows("db2", "db1")], None, "db1"),
    # a chain
    ([takes_writes("db1"), follows("db2", "db1"), follows("db3", "db2")], None, "db1"),
    # a replica of somebody outside
    ([takes_writes("db1"), follows("db2", "elsewhere")], "db1", "db1"),
    # nobody answers
    ([down("db1"), down("db2")], "db2", "db2"),
    # no nodes
    ([], "db1", None),
]


def test_the_source_is_seen_and_not_named() -> None:
    for standings, before, source in SOURCES:
        assert source_of(standings, before) == source, standings


def test_a_role_is_what_a_node_does() -> None:
    roles = {
        takes_writes("db1"): Role.PRIMARY,
        takes_writes("db2"): Role.PRIMARY,  # a second one that takes writes
        follows("db2", "db1"): Role.REPLICA,
        follows("db2", None): Role.DETACHED,
        follows("db1", None): Role.PRIMARY,  # a fenced source
        down("db1"): Role.DOWN,
    }
    assert {standing: role_of(standing, "db1") for standing in roles} == roles


def test_aliases_follow_the_roles() -> None:
    found = {
        "primary": ("db1", "db2"),
        "replica": ("db2", "db1"),
        "replica2": ("db3", "db3"),
        "db1": ("db1", "db1"),
        **dict.fromkeys(("replica3", "replica1", "db4"), (None, None)),
    }
    assert {text: (THREE.find(text), AFTER_A_FAILOVER.find(text)) for text in found} == found


def test_a_knob_s_place_is_said_from_the_source() -> None:
    places = {
        "db1": SOURCE,
        "primary": SOURCE,
        "replica": "db2",
        "db1:db3": "db3",
        "db3:primary": "db3",
        "db3:db2": "db2:db3",
        "replica2:replica": "db2:db3",
    }
    assert {node: THREE.placed(node) for node in places} == places


def test_a_link_stays_where_it_is_and_is_said_from_the_source() -> None:
    """Where its knobs stand, and which end they take for the primary, before and after a failover."""
    for link, *said in (
        ("db1:db2", ("db2", "db1"), ("db1", "db2")),
        ("db1:db3", ("db3", "db1"), ("db1:db3", "db1")),
        ("db2:db3", ("db2:db3", "db2"), ("db3", "db2")),
    ):
        for roster, (placed, begins) in zip((THREE, AFTER_A_FAILOVER), said, strict=True):
            assert (roster.placed(link), roster.begins(link)) == (placed, begins)
            assert roster.link(placed) == link


def test_nodes_stand_in_the_order_of_their_making() -> None:
    names = tuple(f"db{number}" for number in range(1, 12))
    assert tuple(in_order(reversed(names))) == names


MEMBER, CUT, JOINING, OUTSIDE = Belonging.MEMBER, Belonging.CUT_OFF, Belonging.JOINING, Belonging.OUTSIDE
MESH = Roster(("db1", "db2", "db3"), "db2", mesh=True)


def test_a_stack_that_says_nothing_is_asynchronous() -> None:
    assert system_of(None) is ASYNC
    with pytest.raises(UsageError, match="no system 'grp'"):
        system_of("grp")


def test_what_cannot_be_made_is_refused_in_one_line(snapshot: object) -> None:
    wanted = [("galera", "mysql", None), ("async", None, 0), ("async", None, 9)]
    assert [refused(new_stack, *each) for each in wanted] == snapshot


def test_a_new_stack_is_what_its_system_says() -> None:
    for system in SYSTEMS.values():
        assert new_stack(system.name, None, None) == (system, system.flavors[0], system.nodes - 1)


def test_who_has_a_knob_that_another_system_lacks() -> None:
    semi_sync = BY_KEY["semi_sync"]
    assert ASYNC.has(semi_sync)
    assert not GROUP.has(semi_sync)
    assert not GALERA.has(semi_sync)
    assert "`up --system async`" in who_has(semi_sync)
    assert who_has(BY_KEY["sync_binlog"]) == ""


def member(
    name: str, belongs: Belonging | None = MEMBER, *, writes: bool = False, answers: bool = True
) -> Standing:
    return Standing(name, answers, None, not writes if belongs else None, belongs)


GROUPS: dict[str, tuple[list[Standing], str | None, str, str]] = {
    "after an election": (
        [member("db1"), member("db2", writes=True), member("db3", JOINING)],
        "db1", "db2", "secondary primary joining",
    ),
    "several take writes: the one of before": (
        [member("db1", writes=True), member("db2", writes=True)], "db2", "db2", "primary primary",
    ),
    "isolated, it does not know yet that it is the source no more": (
        [member("db1", CUT, writes=True), member("db2", writes=True), member("db3")],
        "db1", "db2", "primary primary secondary",
    ),
    "the majority is lost": (
        [member("db1", CUT, writes=True), *(member(name, None, answers=False) for name in ("db2", "db3"))],
        "db1", "db1", "primary down down",
    ),
    "before the election": (
        [member("db1", writes=True, answers=False), member("db2"), member("db3")],
        "db1", "db1", "down secondary secondary",
    ),
    "nobody is a member": (
        [member("db1", OUTSIDE), member("db2", OUTSIDE)], None, "db1", "detached detached",
    ),
}  # fmt: skip
"""Who stands how, who was the source before, who is it now, and each one's role."""


def test_who_takes_the_writes_of_a_group() -> None:
    for case, (standings, before, source, roles) in GROUPS.items():
        assert source_of(standings, before) == source, case
        assert [role_of(each, source) for each in standings] == roles.split(), case


def test_a_majority_is_more_than_half() -> None:
    assert [majority_of(size) for size in (1, 2, 3, 4, 5, 9)] == [1, 2, 2, 3, 3, 5]


def online(size: int, answering: int, belongs: Belonging = MEMBER) -> Membership:
    return Membership(belongs, "ONLINE", size=size, answering=answering)


def group_of(members: Mapping[str, Membership | None], *writers: str) -> tuple[str, int | None, int | None]:
    """What a group of three is judged to be, how many acknowledge, and how many must."""
    found = judge_group(GROUP, members, writers, requested_size=3)
    return found.state.value, found.replicas_acking, found.replicas_required


def test_a_group_is_protected_while_a_majority_answers_and_takes_writes() -> None:
    whole = dict.fromkeys(("db1", "db2", "db3"), online(3, 3))
    assert group_of(whole, "db1") == ("protected", 2, 1)
    assert group_of(dict.fromkeys(("db1", "db2"), online(3, 2)), "db1") == ("protected", 1, 1)
    assert group_of({"db1": online(3, 1, CUT), "db2": None}, "db1") == ("blocked", 0, 1)
    went_on = {"db1": online(3, 1, CUT), "db2": online(2, 2), "db3": online(2, 2)}
    assert group_of(went_on, "db1", "db2") == ("protected", 1, 1)
    elects_nobody_yet = dict.fromkeys(("db2", "db3"), online(3, 3))
    assert group_of(elects_nobody_yet) == ("blocked", 1, 1)
    assert group_of({"db1": None}, "db1") == ("blocked", 0, 1)
    assert group_of({}) == ("down", None, None)


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
    both: dict[KnobName, Value | None] = {**values, KnobName("semi_sync_replicas", SOURCE): 2}
    assert bound_rtt_ms(both, others) == 80
    assert bound_rtt_ms({**both, KnobName("partition", "db3"): "both"}, others) == 20
    cut = {**values, KnobName("partition", "db2"): "both", KnobName("partition", "db3"): "both"}
    assert "1 other node must have it" in str(unacknowledged(cut, others, GROUP))
    assert unacknowledged(values, others, GROUP) is None
