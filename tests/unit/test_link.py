"""A link: its arithmetic, what the document keeps of it, and what a node that joins is asked for."""

from __future__ import annotations

from ast import literal_eval
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from replexplorer.core.knobs.names import CATALOGUE, Backing, KnobName, expand, find, for_joined
from replexplorer.core.link import (
    LinkSettings,
    contradiction,
    installed,
    kept,
    seen_from,
    unkept,
    wanted,
    without,
)
from replexplorer.core.topology import SOURCE, Roster, ends_of
from replexplorer.core.wire import LinkState, Shape
from tests.known import known
from tests.typed import fields, table_of, typed, values_of


def side(
    base_ms: float | None = 0.1, overhead_ms: float = 0.05, shape: Shape | None = None, holds: Any = "sent"
) -> LinkState:
    return LinkState("db2", "netem", "", holds, shape or Shape(), base_ms, overhead_ms, None, 0, 0, 0)


def carried_out(settings: LinkSettings, towards: LinkState, back: LinkState) -> tuple[LinkState, LinkState]:
    """The sides after both agents did what is wanted."""
    want = wanted(settings, towards, back)
    shapes = (want.to_replica, want.to_primary)
    if towards.holds == "received":
        shapes = shapes[::-1]
    return replace(towards, shape=shapes[0]), replace(back, shape=shapes[1])


SPLIT = """\

rtt@db2=85
rtt@db2=0.2
rtt@db2=0.18
rtt@db2=0.12
rtt@db2=20 delay_to_replica@db2=40
rtt@db2=20 delay_to_primary@db2=0
delay_to_primary@db2=30
rtt@db2=85 delay_to_replica@db2=0 delay_to_primary@db2=0
rtt@db2=85 jitter@db2=10
rtt@db2=20 jitter@db2=500
delay_to_replica@db2=40 jitter@db2=10
jitter@db2=10
rtt@db2=1234.567 jitter@db2=33.333 loss@db2=0.37 bandwidth@db2=123456 partition@db2=dump
"""


def test_a_round_trip_is_split_and_reads_back_as_asked_or_a_floor_or_a_limit_is_named(
    snapshot: object,
) -> None:
    """What each direction has, the floor that is named, and each delayed direction's share of the jitter;
    then what is in force and was not asked for."""
    told = {}
    for line in SPLIT.splitlines():
        asked = LinkSettings.of({name.key: value for name, value in typed(line).items()})
        want = wanted(asked, side(), side())
        ends = want.to_replica, want.to_primary
        figures = *(end.delay_ms for end in ends), want.floor_ms, *(end.jitter_ms for end in ends)
        for holds, base_ms in (("sent", 0.1), ("received", 0.1), ("sent", None)):
            both = side(base_ms, holds=holds), side(base_ms, 0.02, holds=holds)
            force, as_asked = installed(asked, *carried_out(asked, *both))
            assert as_asked
            other = {key: value for key, value in force.values().items() if value != asked.values()[key]}
            told[f"{line} {holds} {base_ms}"] = (
                " ".join("-" if each is None else f"{each:.4g}" for each in figures),
                other,
            )
    assert told == snapshot


CUT = """\
"none" False False
"both" True  True
"ack"  False True
"dump" True  False
"""
"""Whether what goes to the replica is cut, and what goes to the primary."""


def test_a_partition_cuts_the_direction_that_it_names() -> None:
    """Netem cuts where a packet is sent, NFQUEUE where it is received."""
    for partition, *cuts in values_of(CUT):
        for holds, at in (("sent", cuts), ("received", cuts[::-1])):
            ends = carried_out(LinkSettings(partition=partition), side(holds=holds), side(holds=holds))
            assert [each.shape.cut for each in ends] == at, partition


EASIER = """\
rtt_ms=85.0 jitter_ms=2.0 | rtt_ms=20.0 jitter_ms=5.0 | rtt_ms=20.0 jitter_ms=2.0
rtt_ms=20.0 | rtt_ms=20.0 delay_to_replica_ms=5.0 | rtt_ms=20.0 delay_to_replica_ms=5.0
rtt_ms=20.0 delay_to_replica_ms=5.0 | rtt_ms=20.0 | rtt_ms=20.0 delay_to_replica_ms=5.0
loss_percent=1.0 bandwidth_bps=1000 | loss_percent=2.0 bandwidth_bps=50 | loss_percent=1.0 bandwidth_bps=1000
bandwidth_bps=1000 | bandwidth_bps=5000 | bandwidth_bps=5000
loss_percent=1.0 bandwidth_bps=1000 |  |
rtt_ms=20.0 | rtt_ms=10.0 bandwidth_bps=1000 | rtt_ms=10.0
partition='both' | partition='ack' | partition='ack'
partition='ack' | partition='dump' | partition='ack'
"""
"""What is asked now, what is to be, and what is in between."""


def test_easier_takes_what_falls_and_nothing_that_rises() -> None:
    for line in table_of(EASIER):
        now, target, between = (LinkSettings(**fields(cell)) for cell in line)
        assert now.easier(target) == between, line


def test_a_rule_that_is_gone_is_told_as_what_is_in_force(snapshot: object) -> None:
    settings = LinkSettings(85, delay_to_replica_ms=20, jitter_ms=3, loss_percent=2, bandwidth_bps=10**6)
    leftover = installed(LinkSettings(), side(shape=Shape(42, cut=True)), side())
    assert [installed(settings, side(), side()), leftover] == snapshot


CONTRADICTS = """\
rtt_ms=85                        | 86.5 |
rtt_ms=85                        | 89.3 | measured
rtt_ms=85                        | 80.7 | measured
rtt_ms=1                         | 1.99 |
rtt_ms=1                         | 2.1  | measured
rtt_ms=0                         | 0.1  |
rtt_ms=0                         | 1.05 |
rtt_ms=0                         | 1.2  | measured
rtt_ms=85                        | None |
rtt_ms=85 jitter_ms=5            | 95   |
rtt_ms=85 jitter_ms=5            | 101  | measured
rtt_ms=85 bandwidth_bps=1000000  | 400  |
rtt_ms=85 bandwidth_bps=1000000  | 0.2  | asked 85 ms, measured 0.2 ms
"""


def test_measured_contradicts_asked_beyond_both_tolerances_and_what_jitter_and_a_narrow_link_explain() -> (
    None
):
    for asked, measured_ms, told in table_of(CONTRADICTS):
        found = contradiction(LinkSettings(**fields(asked)), literal_eval(measured_ms), 0.1)
        assert told in (found or ""), (asked, measured_ms)
        assert bool(found) is bool(told), (asked, measured_ms)
    assert contradiction(None, 5, 0.1) is None


# -- what the document keeps of a link


NODES = ("db1", "db2", "db3")
BEFORE, AFTER = (Roster(NODES, source) for source in ("db1", "db2"))
LINK_VALUES = fields(
    "rtt=85.0 jitter=2.0 loss=1.0 bandwidth=1000 delay_to_replica=10.0 delay_to_primary='auto'"
    " partition='ack'"
)


def names(roster: Roster) -> tuple[KnobName, ...]:
    """All of a stack, and those of every link between two nodes that are not the source."""
    return expand(CATALOGUE, roster.others, (":".join(roster.others),))


ASKED = (
    "rtt@db2=85 rtt@db3=85 rtt@db2:db3=85 delay_to_replica@db2=9 partition@db2=ack partition@db3=ack"
    " sync_binlog=0 clients=4"
)


def test_after_db2_became_the_source(snapshot: object) -> None:
    """What is asked while db1 is the source, what is written, and what that is then."""
    told = []
    for name, value in typed(ASKED).items():
        written = kept(name, value, BEFORE)
        now = known(unkept(*written, AFTER))
        assert kept(*now, AFTER) == written
        told.append(f"{name} {value}: {written[0]} {written[1]}: {now[0]} {now[1]}")
    assert told == snapshot


def test_what_no_document_of_this_version_has_is_left_out() -> None:
    for text in ("rtt@db2", "rtt@db1", "rtt", "colour@db1:db2"):
        assert unkept(text, 1.0, BEFORE) is None


def test_a_link_s_knob_outlives_any_change_of_the_source() -> None:
    rosters = [Roster(NODES, source) for source in NODES]
    for before, after in product(rosters, rosters):
        for name in names(before):
            if name.knob.backing is Backing.LINK:
                value = LINK_VALUES[name.key]
                written = kept(name, value, before)
                now = known(unkept(*written, after))
                assert now[0] in names(after)
                assert kept(*now, after) == written
                assert unkept(*written, before) == (name, value)


def test_where_the_load_has_gone_to_another_member_each_node_and_wire_is_turned_back() -> None:
    asked = typed("rtt@db2=20 rtt@db3=20 rtt@db2:db3=20 undo_journal=on clients=4")
    assert seen_from(asked, BEFORE, BEFORE) == asked
    turned = "rtt@db1=20 rtt@db1:db3=20 rtt@db3=20 undo_journal@db1=on undo_journal=on clients=4"
    assert seen_from(asked, BEFORE, AFTER) == typed(turned)


# -- what a node that joins is asked for: what the others share, and nothing else


ROSTERS = {
    "group": Roster(("db1", "db2", "db3", "db4"), "db1", mesh=True),
    "replicas": Roster(("db1", "db2", "db3", "db4"), "db1"),
    "pair": Roster(("db1", "db2", "db4"), "db1"),
}
"""A group of three that has become one of four, and stacks with replicas that db4 has joined."""
JOINED = """\
group    | rtt@db2=20 rtt@db3=20 rtt@db2:db3=20                       | all links have one value
group    | rtt@db2=20 rtt@db3=20 rtt@db2:db3=80                       | one link is farther: it stays so
group    | rtt@db2=10 rtt@db3=20 rtt@db2:db3=80                       | every link has a value of its own
group    | partition@db2=both partition@db3=both partition@db2:db3=both | nobody joins behind a partition
group    | wsrep_sync_wait=1 wsrep_sync_wait@db2=7 wsrep_sync_wait@db3=1 | one member has a setting of its own
pair     | rtt@db2=85                                                 | the only replica's
replicas | rtt@db2=20 rtt@db3=85                                      | one of two is no more than half
group    | rtt@db2=20 rtt@db3=20                                      | one link was never asked for anything
replicas | rtt@db2=85 rtt@db3=85 jitter@db2=2 sync_binlog=0           | the source's settings are its own
replicas | rtt@db2=85 rtt@db3=85 rtt@db4=1                            | what was asked before of db4 stays
"""


def nodes_of(roster: Roster, name: KnobName) -> tuple[str, ...]:
    """Where a knob is carried out."""
    if name.knob.backing is Backing.LINK:
        return ends_of(roster.link(name.node))
    return (roster.source if name.node == SOURCE else name.node,)


def test_a_node_that_joins_takes_what_most_others_share(snapshot: object) -> None:
    knobs = tuple(find(key) for key in ("rtt", "jitter", "partition", "wsrep_sync_wait", "sync_binlog"))
    told = {}
    for name, requested, case in table_of(JOINED):
        roster = ROSTERS[name]
        names = expand(knobs, roster.others, roster.pairs if roster.mesh else ())
        found = for_joined(typed(requested), names, ("db4",), partial(nodes_of, roster))
        told[case] = requested, {str(name): value for name, value in found.items()}
    assert told == snapshot


def test_what_was_asked_of_nodes_that_are_gone_goes_with_them() -> None:
    written = {"rtt@db1:db2": 20, "rtt@db1:db4": 60, "rtt@db4:db5": 60, "sync_relay_log@db4": 1, "clients": 4}
    assert without(written, ("db4", "db5")) == {"rtt@db1:db2": 20, "clients": 4}
