"""Names, roles and links of a stack's nodes, and the systems that it can be."""

from __future__ import annotations

from dataclasses import replace

from replexplorer.core.knobs.catalogue import BY_KEY
from replexplorer.core.knobs.names import addressed
from replexplorer.core.model.operating_point import bound_rtt_ms, operating_point_of, unacknowledged
from replexplorer.core.server.node_view import Conflicts, Membership, conflicts_of, judge_group
from replexplorer.core.system import ASYNC, GALERA, GROUP, SYSTEMS, new_stack, system_of, who_has
from replexplorer.core.topology import (
    Belonging,
    Roster,
    Standing,
    role_of,
    source_of,
)
from tests.known import refused
from tests.typed import table_of, typed

THREE = Roster(("db1", "db2", "db3"), "db1")
AFTER_A_FAILOVER = Roster(("db1", "db2", "db3"), "db2")


def standing(text: str) -> Standing:
    """`db1 writes`, `db2 follows db1`, `db1 refuses`, `db3 down`."""
    name, how, *whom = text.split()
    refuses = None if how == "down" else how != "writes"
    return Standing(name, how != "down", follows=next(iter(whom), None), refuses_writes=refuses)


SOURCES = """\
one takes writes, the other follows        |     | db1 | db1 writes, db2 follows db1
the others follow it after a failover      | db1 | db2 | db1 follows db2, db2 writes
just made: nobody follows yet              |     | db1 | db1 writes, db2 writes
two take writes: the one that is followed  | db1 | db2 | db1 writes, db2 writes, db3 follows db2
and nobody follows: the one before         | db2 | db2 | db1 writes, db2 writes
down and still followed                    |     | db1 | db1 down, db2 follows db1
down, and another was promoted             | db1 | db2 | db1 down, db2 writes, db3 follows db1
the source refuses writes                  |     | db1 | db1 refuses, db2 follows db1
a chain                                    |     | db1 | db1 writes, db2 follows db1, db3 follows db2
a replica of somebody outside              | db1 | db1 | db1 writes, db2 follows elsewhere
nobody answers                             | db2 | db2 | db1 down, db2 down
no nodes                                   | db1 |     |
"""
"""Which one was the source before, which is it now, and how the nodes stand."""


def test_the_source_is_seen_and_not_named() -> None:
    for case, before, source, nodes in table_of(SOURCES):
        standings = [standing(each) for each in nodes.split(", ") if each]
        assert (source_of(standings, before or None) or "") == source, case


ROLES = """\
db1 writes      | primary
db2 writes      | primary
db2 follows db1 | replica
db2 refuses     | detached
db1 refuses     | primary
db1 down        | down
"""
"""A second one may take writes, and a fenced source refuses them."""


def test_a_role_is_what_a_node_does() -> None:
    for text, role in table_of(ROLES):
        assert role_of(standing(text), "db1") == role, text


NAMES = """\
primary  db1 db2
replica  db2 db1
replica2 db3 db3
db1      db1 db1
replica3 -   -
replica1 -   -
db4      -   -
"""
"""Of which node, before and after a failover."""
PLACES = """\
db1              primary
primary          primary
replica          db2
db1:db3          db3
db3:primary      db3
db3:db2          db2:db3
replica2:replica db2:db3
"""


def test_aliases_follow_the_roles_and_a_knob_s_place_is_said_from_the_source() -> None:
    for text, *nodes in table_of(NAMES, None):
        assert [roster.find(text) or "-" for roster in (THREE, AFTER_A_FAILOVER)] == nodes, text
    for node, place in table_of(PLACES, None):
        assert THREE.placed(node) == place, node


def test_a_link_stays_where_it_is_and_is_said_from_the_source(snapshot: object) -> None:
    """Where its knobs are, and which end they take for the primary, before and after a failover."""
    told = {}
    for link in ("db1:db2", "db1:db3", "db2:db3"):
        told[link] = [(each.placed(link), each.begins(link)) for each in (THREE, AFTER_A_FAILOVER)]
        assert THREE.link(THREE.placed(link)) == AFTER_A_FAILOVER.link(AFTER_A_FAILOVER.placed(link)) == link
    assert told == snapshot


MESH = Roster(("db1", "db2", "db3"), "db2", mesh=True)


def test_a_new_stack_is_what_its_system_says_and_what_cannot_be_made_is_refused(snapshot: object) -> None:
    assert system_of(None) is ASYNC
    for system in SYSTEMS.values():
        assert new_stack(system.name, None, None) == (system, system.flavors[0], system.nodes - 1)
    wanted = [("grp", None, None), ("galera", "mysql", None), ("async", None, 0), ("async", None, 9)]
    assert [refused(new_stack, *each) for each in wanted] == snapshot


def test_who_has_a_knob_that_another_system_lacks() -> None:
    semi_sync = BY_KEY["semi_sync"]
    assert [system.has(semi_sync) for system in (ASYNC, GROUP, GALERA)] == [True, False, False]
    assert "`up --system async`" in who_has(semi_sync)
    assert who_has(BY_KEY["sync_binlog"]) == ""


def member(text: str) -> Standing:
    """`db1 member`, `db2 member writes`, `db3 cut off`, `db3 away`."""
    name, _, how = text.partition(" ")
    belongs = next((each for each in Belonging if how.startswith(each)), None)
    refuses = None if belongs is None else "writes" not in how
    return Standing(name, "away" not in how, None, refuses, belongs)


GROUPS = """\
after an election | db1 | db2 | secondary primary joining | db1 member, db2 member writes, db3 joining
several writers   | db2 | db2 | primary primary           | db1 member writes, db2 member writes
isolated, unaware | db1 | db2 | primary primary secondary | db1 cut off writes, db2 member writes, db3 member
majority lost     | db1 | db1 | primary down down         | db1 cut off writes, db2 away, db3 away
before election   | db1 | db1 | down secondary secondary  | db1 member writes away, db2 member, db3 member
no members        |     | db1 | detached detached         | db1 outside, db2 outside
"""
"""Which one was the source before, which is it now, each one's role, and how the nodes stand."""


def test_who_takes_the_writes_of_a_group() -> None:
    for case, before, source, roles, nodes in table_of(GROUPS):
        standings = [member(each) for each in nodes.split(", ")]
        assert source_of(standings, before or None) == source
        assert [role_of(each, source) for each in standings] == roles.split(), case


JUDGED = """\
group  | db1 3/3, db2 3/3, db3 3/3      | db1         | protected 2 1
group  | db1 3/2, db2 3/2               | db1         | protected 1 1
group  | db1 3/1 cut, db2 -             | db1         | blocked 0 1
group  | db1 3/1 cut, db2 2/2, db3 2/2  | db1 db2     | protected 1 1
group  | db2 3/3, db3 3/3               |             | blocked 1 1
group  | db1 -                          | db1         | blocked 0 1
group  |                                |             | down None None
galera | db1 3/3, db2 3/3, db3 3/3      | db1 db2 db3 | protected 2 2
galera | db1 3/3, db3 3/3               | db1 db2 db3 | protected 1 2
galera | db1 1/1 cut                    | db1         | blocked 0 2
"""
"""Of three members those that say how many they see, and how many of them answer; who takes writes; what the
group is judged to be, how many acknowledge a commit, and how many must. The view of two members of a cluster
has the dead one still."""


def test_a_group_is_protected_while_a_majority_answers_and_takes_writes() -> None:
    """A commit in a cluster waits for all others."""
    for system, members, writers, judged in table_of(JUDGED):
        seen: dict[str, Membership | None] = {}
        for name, counts, *cut in (each.split() for each in members.split(", ") if each):
            size, _, answering = counts.partition("/")
            belongs = Belonging.CUT_OFF if cut else Belonging.MEMBER
            seen[name] = (
                Membership(belongs, "", size=int(size), answering=int(answering)) if answering else None
            )
        found = judge_group(SYSTEMS[system], seen, writers.split(), requested_size=3)
        assert f"{found.state} {found.replicas_acking} {found.replicas_required}" == judged, system


def test_members_that_certify_alike_have_each_counted_what_others_count_alone(snapshot: object) -> None:
    """And what is unknown now or before, or was counted again from 0, is unknown since then."""
    ours = Membership(Belonging.MEMBER, "ONLINE", conflicts=5, gave_way=2)
    theirs = replace(ours, conflicts=3, gave_way=1)
    unknown = Membership(Belonging.OUTSIDE, "OFFLINE")
    seen = ((GROUP, [ours, theirs, None]), (GALERA, [ours, theirs, unknown]), (GALERA, [unknown, None]))
    since = [Conflicts(9, 3).since(before) for before in (Conflicts(8, 1), Conflicts(None, 4))]
    assert [*(conflicts_of(*each) for each in seen), *since] == snapshot


def test_a_links_knob_without_a_node_turns_every_link_of_a_mesh(snapshot: object) -> None:
    names = ("rtt", "rtt@db1:db3", "rtt@db1:db2", "sync_binlog")
    assert {name: [*map(str, addressed(name, MESH))] for name in names} == snapshot


CUT = "partition@db2=both partition@db3=both"


def test_a_lone_commit_of_a_group_waits_for_a_majority_and_then_for_the_farthest(snapshot: object) -> None:
    """As measured: 42 ms where all links have 20, 108 where the farthest member has 80."""
    others, told = ("db2", "db3"), {}
    for more in ("", "semi_sync_replicas=2", "semi_sync_replicas=2 partition@db3=both", CUT):
        values = typed(f"rtt@db2=20 rtt@db3=80 {more}")
        for system in SYSTEMS.values():
            point = operating_point_of(values, others, system=system)
            bound_ms, why = bound_rtt_ms(values, others, system), unacknowledged(values, others, system)
            told[f"{system.name}: {more}"] = point.rtt_ms, point.semi_sync, bound_ms, why
    assert told == snapshot
