"""Faults as they are typed, recorded and cleared, and whether they still have their effect."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.fault import Fault, clears, given_back, kind_of, parse_fault, without
from replexplorer.core.server.disk import SHOWS_WITHIN_S, is_over
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.topology import Roster
from tests.known import refused
from tests.typed import fields, table_of

THREE = Roster(("db1", "db2", "db3"), "db1")


TYPED = """\
kill                   None    db1
kill@replica           None    db2
power_cut              strict  db1
power-cut=torn@db2     torn    db2
power_cut@db2=torn     torn    db2
partition              both    db2 db3
partition=ack@replica2 ack     db3
applier_stop           None    db2 db3
disk_stall=200ms@db2   200     db2
isolate@primary        None    db1
flap                   2/2     db2 db3
flap=0.5s/10s@db3      0.5/10  db3
flap=5/1@primary       5/1     db1
"""
"""What is typed, its value, and whom it is for."""


def test_what_is_typed() -> None:
    for text, value, *nodes in table_of(TYPED, None):
        request = parse_fault(text, THREE)
        assert str(request.value) == value
        assert request.nodes == tuple(nodes)
        assert str(parse_fault(f"{request.text}@{nodes[0]}", THREE).value) == value, text


MISTAKES = """\
crash
kill=9
kill@db9
power_cut=gentle
partition=up@db2
partition=ack@db1
partition@db2=ack@db3
disk_stall
disk_stall=6000
disk_stall=inf
flap=2
flap=2/x
flap=0/2
flap=nan/2
"""


def test_what_is_wrong_is_named(snapshot: object) -> None:
    assert {each: refused(parse_fault, each, THREE) for each in MISTAKES.splitlines()} == snapshot


FAULT = Fault(3, "partition", "ack", "db2", 1000.5, None, "fault (pid 7)", {"partition@db2": "none"})


LINKS = ("db1:db2", "db1:db3", "db2:db3")


@given(st.lists(st.sets(st.sampled_from(LINKS), min_size=1), max_size=5), st.randoms())
def test_whatever_order_faults_are_cleared_in_every_link_heals(cut: list[set[str]], order: Random) -> None:
    state: dict[str, object] = dict(zip(LINKS, ("none", "ack", "dump"), strict=True))
    asked, faults = dict(state), tuple[Fault, ...]()
    for number, links in enumerate(cut, 1):
        faults += (replace(FAULT, number=number, before={link: str(state[link]) for link in links}),)
        state |= dict.fromkeys(links, "both")
    while faults:
        ended = order.choice(faults)
        state |= given_back(ended, faults)
        faults = without(faults, ended)
        held = {link for fault in faults for link in fault.before}
        assert {link for link, value in state.items() if value == "both"} == held
    assert state == asked


CLEARS = """\
partition             yes
partition@db2         yes
partition=ack@replica yes
partition@db3         no
kill                  no
"""


def test_what_clearing_means() -> None:
    assert clears(FAULT, None, THREE)
    for text, meant in table_of(CLEARS, None):
        assert clears(FAULT, text, THREE) is (meant == "yes"), text
    assert clears(replace(FAULT, kind="power_cut"), "power-cut", THREE)
    assert "unknown fault" in refused(clears, FAULT, "crash", THREE)
    assert "did you mean pause?" in refused(kind_of, "pasue")
    assert "there is no node" in refused(clears, FAULT, "partition@db7", THREE)


# -- whether a fault still has its effect, by what is seen of its node


WHOLE = NodeView("db2", "replica", True, io_thread="on", sql_thread="on")
LATER_S = SHOWS_WITHIN_S + 1


def over(kind: str, seen: NodeView = WHOLE, *, uptime_s: float = 1.0, after_s: float = LATER_S) -> bool:
    """Whether a fault of db2 is over, this long after it was injected."""
    return is_over(Fault(1, kind, None, "db2", 0.0, None, "me", {}), seen, uptime_s, after_s)


STRUCK = """\
kill          reachable=False
stop          reachable=False
pause         reachable=False
applier_stop  sql_thread="off"
receiver_stop io_thread="off"
"""
"""Faults, and how their node is seen then."""


def test_it_is_over_once_its_node_was_seen_whole_for_a_while() -> None:
    for line in STRUCK.splitlines():
        kind, *_ = line.split()
        assert not over(kind, replace(WHOLE, **fields(line))), kind
        assert not over(kind, after_s=SHOWS_WITHIN_S - 1), "it may not be seen yet"
        assert over(kind), kind


def test_what_no_node_shows_lasts_until_it_is_cleared() -> None:
    assert not any(map(over, ("isolate", "partition", "disk_full", "disk_stall")))
    assert not over("kill", uptime_s=99.0), "it has run since before, so it was not killed"
