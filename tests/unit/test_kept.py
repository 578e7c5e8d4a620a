"""What the document keeps of a link, and what a node that joins is asked for."""

from __future__ import annotations

from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.knobs.names import (
    CATALOGUE,
    Backing,
    KnobName,
    Value,
    expand,
    find,
    for_joined,
    parse_name,
)
from replexplorer.core.link import kept, seen_from, unkept, without
from replexplorer.core.topology import SOURCE, Roster, ends_of
from tests.known import known

NODES = ("db1", "db2", "db3")
BEFORE, AFTER = (Roster(NODES, source) for source in ("db1", "db2"))
LINK_VALUES: dict[str, Value] = {
    "rtt": 85.0, "jitter": 2.0, "loss": 1.0, "bandwidth": 1000, "delay_to_replica": 10.0,
    "delay_to_primary": "auto", "partition": "ack",
}  # fmt: skip


def names(roster: Roster) -> tuple[KnobName, ...]:
    """All of a stack, and those of every link between two nodes that are not the source."""
    return expand(CATALOGUE, roster.others, (":".join(roster.others),))


ASKED: list[tuple[str, Value]] = [
    ("rtt@db2", 85.0), ("rtt@db3", 85.0), ("rtt@db2:db3", 85.0), ("delay_to_replica@db2", 9.0),
    ("partition@db2", "ack"), ("partition@db2", "both"), ("partition@db3", "ack"), ("sync_binlog", 0),
    ("clients", 4),
]  # fmt: skip


def test_after_db2_became_the_source(snapshot: object) -> None:
    """What is asked while db1 is the source, what is written, and what that is then."""
    told = []
    for name, value in ASKED:
        written = kept(parse_name(name), value, BEFORE)
        now = known(unkept(*written, AFTER))
        assert kept(*now, AFTER) == written
        told.append(f"{name} {value}: {written[0]} {written[1]}: {now[0]} {now[1]}")
    assert told == snapshot


def test_what_no_document_of_this_version_has_is_left_out() -> None:
    for text in ("rtt@db2", "rtt@db1", "rtt", "colour@db1:db2"):
        assert unkept(text, 1.0, BEFORE) is None


@given(st.sampled_from(NODES), st.sampled_from(NODES), st.data())
def test_a_link_s_knob_outlives_any_change_of_the_source(first: str, then: str, data: st.DataObject) -> None:
    before, after = Roster(NODES, first), Roster(NODES, then)
    name = data.draw(st.sampled_from([n for n in names(before) if n.knob.backing is Backing.LINK]))
    text, value = kept(name, LINK_VALUES[name.key], before)
    found = unkept(text, value, after)
    assert found is not None
    assert found[0] in names(after)
    assert kept(*found, after) == (text, value)
    assert unkept(text, value, before) == (name, LINK_VALUES[name.key])


def named(values: dict[str, Value]) -> dict[KnobName, Value]:
    return {parse_name(text): value for text, value in values.items()}


def test_where_the_load_has_gone_to_another_member_each_node_and_wire_is_turned_back() -> None:
    asked = named({"rtt@db2": 20.0, "rtt@db3": 20.0, "rtt@db2:db3": 20.0, "undo_journal": "on", "clients": 4})
    assert seen_from(asked, BEFORE, BEFORE) == asked
    turned: dict[str, Value] = {
        "rtt@db1": 20.0,
        "rtt@db1:db3": 20.0,
        "rtt@db3": 20.0,
        "undo_journal@db1": "on",
    }
    assert seen_from(asked, BEFORE, AFTER) == named({**turned, "undo_journal": "on", "clients": 4})


# -- what a node that joins is asked for: what the others share, and nothing else


GROUP = Roster(("db1", "db2", "db3", "db4"), "db1", mesh=True)
"""A group of three that has become one of four."""
REPLICAS = Roster(("db1", "db2", "db3", "db4"), "db1")


JOINED: dict[str, tuple[Roster, dict[str, Value]]] = {
    "all links of a group have one value, and so have the new ones": (
        GROUP,
        {"rtt@db2": 20, "rtt@db3": 20, "rtt@db2:db3": 20},
    ),
    "one link is farther: that stays its own": (GROUP, {"rtt@db2": 20, "rtt@db3": 20, "rtt@db2:db3": 80}),
    "every link has a value of its own: nobody's value": (
        GROUP,
        {"rtt@db2": 10, "rtt@db3": 20, "rtt@db2:db3": 80},
    ),
    "nobody joins behind a partition": (
        GROUP,
        {"partition@db2": "both", "partition@db3": "both", "partition@db2:db3": "both"},
    ),
    "one member has a setting of its own": (
        GROUP,
        {"wsrep_sync_wait": 1, "wsrep_sync_wait@db2": 7, "wsrep_sync_wait@db3": 1},
    ),
    "the only replica's": (Roster(("db1", "db2", "db4"), "db1"), {"rtt@db2": 85}),
    "one of two is no more than half": (REPLICAS, {"rtt@db2": 20, "rtt@db3": 85}),
    "one link was never asked for anything": (GROUP, {"rtt@db2": 20, "rtt@db3": 20}),
    "a setting of all members": (
        GROUP,
        {"wsrep_sync_wait": 1, "wsrep_sync_wait@db2": 1, "wsrep_sync_wait@db3": 1},
    ),
    "replicas have links to the source alone, and the source's settings are its own": (
        REPLICAS,
        {"rtt@db2": 85.0, "rtt@db3": 85.0, "jitter@db2": 2.0, "sync_binlog": 0},
    ),
    "what was asked of a node that had been there before stays": (
        REPLICAS,
        {"rtt@db2": 85.0, "rtt@db3": 85.0, "rtt@db4": 1.0},
    ),
}


def nodes_of(roster: Roster, name: KnobName) -> tuple[str, ...]:
    """Where a knob is carried out."""
    if name.knob.backing is Backing.LINK:
        return ends_of(roster.link(name.node))
    return (roster.source if name.node == SOURCE else name.node,)


def test_a_node_that_joins_takes_what_most_others_share(snapshot: object) -> None:
    knobs = tuple(find(key) for key in ("rtt", "jitter", "partition", "wsrep_sync_wait", "sync_binlog"))
    told = {}
    for case, (roster, wanted) in JOINED.items():
        names = expand(knobs, roster.others, roster.pairs if roster.mesh else ())
        found = for_joined(named(wanted), names, ("db4",), partial(nodes_of, roster))
        told[case] = wanted, {str(name): value for name, value in found.items()}
    assert told == snapshot


def test_what_was_asked_of_nodes_that_are_gone_goes_with_them() -> None:
    written = {"rtt@db1:db2": 20, "rtt@db1:db4": 60, "rtt@db4:db5": 60, "sync_relay_log@db4": 1, "clients": 4}
    assert without(written, ("db4", "db5")) == {"rtt@db1:db2": 20, "clients": 4}
