"""What a node that joins is asked for: what the others share, and nothing else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.kept import without
from replexplorer.core.knobs.common import changed, everywhere_after, for_joined, kept_by
from replexplorer.core.knobs.names import Backing, KnobName, Value, addressed, expand, find, parse_name
from replexplorer.core.topology import SOURCE, Roster, ends_of

GROUP = Roster(("db1", "db2", "db3", "db4"), "db1", mesh=True)
"""A group of three that has become one of four."""
REPLICAS = Roster(("db1", "db2", "db3", "db4"), "db1")


def nodes_of(name: KnobName, roster: Roster) -> tuple[str, ...]:
    """Where a knob is carried out."""
    if name.knob.backing is Backing.LINK:
        return ends_of(roster.link(name.node))
    return (roster.source if name.node == SOURCE else name.node,)


@pytest.mark.parametrize(
    ("roster", "wanted", "joined"),
    [
        pytest.param(
            GROUP,
            {"rtt@db2": 20, "rtt@db3": 20, "rtt@db2:db3": 20},
            {"rtt@db4": 20, "rtt@db2:db4": 20, "rtt@db3:db4": 20},
            id="all links of a group have one value, and so have the new ones",
        ),
        pytest.param(
            GROUP,
            {"rtt@db2": 20, "rtt@db3": 20, "rtt@db2:db3": 80},
            {"rtt@db4": 20, "rtt@db2:db4": 20, "rtt@db3:db4": 20},
            id="one link is farther: that stays its own, the new ones get what the bare key asked for",
        ),
        pytest.param(
            GROUP,
            {"rtt@db2": 10, "rtt@db3": 20, "rtt@db2:db3": 80},
            {},
            id="every link has a value of its own: nobody's value",
        ),
        pytest.param(
            GROUP,
            {"partition@db2": "both", "partition@db3": "both", "partition@db2:db3": "both"},
            {},
            id="nobody joins behind a partition",
        ),
        pytest.param(
            GROUP,
            {"wsrep_sync_wait": 1, "wsrep_sync_wait@db2": 7, "wsrep_sync_wait@db3": 1},
            {"wsrep_sync_wait@db4": 1},
            id="one member has a setting of its own",
        ),
        pytest.param(REPLICAS, {"rtt@db2": 20, "rtt@db3": 85}, {}, id="one of two is no more than half"),
        pytest.param(GROUP, {"rtt@db2": 20, "rtt@db3": 20}, {}, id="one link was never asked for anything"),
        pytest.param(
            GROUP,
            {"wsrep_sync_wait": 1, "wsrep_sync_wait@db2": 1, "wsrep_sync_wait@db3": 1},
            {"wsrep_sync_wait@db4": 1},
            id="a setting of all members",
        ),
        pytest.param(
            REPLICAS,
            {"rtt@db2": 85.0, "rtt@db3": 85.0, "jitter@db2": 2.0, "sync_binlog": 0},
            {"rtt@db4": 85.0},
            id="replicas have links to the source alone, and the source's settings are its own",
        ),
        pytest.param(
            REPLICAS,
            {"rtt@db2": 85.0, "rtt@db3": 85.0, "rtt@db4": 1.0},
            {},
            id="what was asked of a node that had been there before stays",
        ),
    ],
)
def test_a_node_that_joins_takes_what_most_others_share(
    roster: Roster, wanted: dict[str, Value], joined: dict[str, Value]
) -> None:
    asked = {parse_name(name): value for name, value in wanted.items()}
    knobs = tuple(find(key) for key in ("rtt", "jitter", "partition", "wsrep_sync_wait", "sync_binlog"))
    names = expand(knobs, roster.others, roster.pairs if roster.mesh else ())
    found = for_joined(asked, {}, names, ("db4",), lambda name: nodes_of(name, roster))
    assert {str(name): value for name, value in found.items()} == joined


def test_the_only_link_there_was_says_nothing_of_the_next() -> None:
    roster = Roster(("db1", "db2", "db3"), "db1")
    names = expand((find("rtt"),), roster.others)
    asked: dict[KnobName, Value] = {KnobName("rtt", "db2"): 85.0}
    assert for_joined(asked, {}, names, ("db3",), lambda name: nodes_of(name, roster)) == {}
    found = for_joined(asked, {"rtt": 85.0}, names, ("db3",), lambda name: nodes_of(name, roster))
    assert found == {KnobName("rtt", "db3"): 85.0}, "the bare key asked it of all"


THREE = Roster(("db1", "db2", "db3"), "db1", mesh=True)


@pytest.mark.parametrize(
    ("known", "change", "after"),
    [
        pytest.param({}, {"rtt@db2": 20, "rtt@db3": 20, "rtt@db2:db3": 20}, {"rtt": 20}, id="the bare key"),
        pytest.param({"rtt": 20}, {"rtt@db2": 60}, {"rtt": 20}, id="one link is farther"),
        pytest.param({"rtt": 20}, {"rtt@db2": 60, "rtt@db3": 60}, {"rtt": 20}, id="two of three are farther"),
        pytest.param(
            {"rtt": 20}, {"rtt@db2": 60, "rtt@db3": 20, "rtt@db2:db3": 60}, {}, id="each has its own"
        ),
        pytest.param(
            {"rtt": 20, "loss": 1},
            {"rtt@db2": 0, "rtt@db3": 0},
            {"loss": 1},
            id="back at rest, idle links left out",
        ),
        pytest.param(
            {},
            {"partition@db2": "both", "partition@db3": "both", "partition@db2:db3": "both"},
            {},
            id="cut off",
        ),
        pytest.param({}, {"sync_binlog": 0}, {}, id="a setting of the source"),
        pytest.param(
            {},
            {"wsrep_sync_wait": 1, "wsrep_sync_wait@db2": 1, "wsrep_sync_wait@db3": 1},
            {"wsrep_sync_wait": 1},
            id="a setting of all members",
        ),
    ],
)
def test_what_is_asked_of_all_is_kept_until_it_is_taken_back(
    known: dict[str, Value], change: dict[str, Value], after: dict[str, Value]
) -> None:
    asked = {parse_name(name): value for name, value in change.items()}
    assert everywhere_after(known, asked, THREE) == after


@given(st.integers(1, 500), st.integers(1, 500), st.sampled_from(["rtt@db2", "rtt@db3", "rtt@db2:db3"]))
def test_whatever_one_link_is_asked_afterwards_a_newcomer_gets_what_all_were(
    all_ms: int, one_ms: int, link: str
) -> None:
    bare = dict.fromkeys(addressed("rtt", THREE), all_ms)
    everywhere = everywhere_after({}, bare, THREE)
    everywhere = everywhere_after(everywhere, {parse_name(link): one_ms}, THREE)
    names = expand((find("rtt"),), GROUP.others, GROUP.pairs)
    wanted = {**bare, parse_name(link): one_ms}
    found = for_joined(wanted, everywhere, names, ("db4",), lambda name: nodes_of(name, GROUP))
    assert {str(name) for name in found} == {"rtt@db4", "rtt@db2:db4", "rtt@db3:db4"}
    assert set(found.values()) == {all_ms}


VALUES = st.sampled_from([0, 20, 60])


@given(
    st.dictionaries(st.sampled_from(["rtt", "jitter", "wsrep_sync_wait"]), st.sampled_from([1, 2])),
    st.dictionaries(
        st.sampled_from(["rtt@db2", "rtt@db3", "rtt@db2:db3", "jitter@db2", "sync_binlog"]), VALUES
    ),
)
def test_what_a_change_keeps_is_taken_back_by_what_was_kept_before(
    known: dict[str, Value], change: dict[str, Value]
) -> None:
    kept = kept_by(known, {parse_name(name): value for name, value in change.items()}, THREE)
    before = {key: known.get(key) for key in kept}
    assert changed(changed(known, kept), before) == known


def test_what_was_asked_of_nodes_that_are_gone_goes_with_them() -> None:
    written = {"rtt@db1:db2": 20, "rtt@db1:db4": 60, "rtt@db4:db5": 60, "sync_relay_log@db4": 1, "clients": 4}
    assert without(written, ("db4", "db5")) == {"rtt@db1:db2": 20, "clients": 4}
