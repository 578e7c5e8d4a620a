"""Selection, staging and the panel's order, without a terminal."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replexplorer.core.knobs.names import CATALOGUE, KnobName, KnobView, expand
from replexplorer.core.system import ASYNC
from replexplorer.core.topology import SOURCE
from replexplorer.ui.board import LABEL_CELLS, Board, sections
from tests.fakes.facade import make_tick

SYNC = KnobName("sync_binlog", SOURCE)
RTT = KnobName("rtt", "db2")
PARTITION = KnobName("partition", "db2")
JITTER = KnobName("jitter", "db2")
LOSS = KnobName("loss", "db2")


@pytest.fixture
def board() -> Board:
    board = Board()
    board.fold(make_tick(rtt=(85.0, 85.0)))
    return board


def test_every_knob_stands_once_under_a_heading() -> None:
    names = [name for name in expand(CATALOGUE, ["db2", "db3"]) if ASYNC.has(name.knob)]
    found = sections(names)
    assert sorted(name for section in found for name in section.names) == sorted(names)
    assert [section.title for section in found] == [
        "LINK", "SEMI-SYNC", "DURABILITY", "DISK", "LOAD", "BINLOG", "SERVER", "DB2", "DB3",
    ]  # fmt: skip
    assert {name.node for name in found[0].names} == {"db2", "db3"}
    assert [str(name) for name in found[0].names[:4]] == [
        "rtt@db2", "rtt@db3", "partition@db2", "partition@db3",
    ]  # fmt: skip


def test_a_link_says_its_replica_only_where_there_are_several(board: Board) -> None:
    assert board.label(RTT) == "rtt"
    board.fold(make_tick(replicas=2))
    assert board.label(KnobName("rtt", "db3")) == "rtt db3"
    assert board.label(KnobName("partition", "db3")) == "partition db3"
    assert board.label(KnobName("delay_to_replica", "db3")) == "to replica 3"
    assert len({board.label(name) for name in board.names if name.knob.group == "link"}) == 4
    assert all(len(board.label(name)) <= LABEL_CELLS for name in board.views if name.knob.group == "link")
    assert board.label(SYNC) == "sync_binlog"


def test_a_link_between_two_replicas_says_both(board: Board) -> None:
    tick = make_tick(replicas=2)
    pair = {
        name: KnobView(name, name.knob.default, name.knob.default)
        for key in ("rtt", "partition", "delay_to_replica", "delay_to_primary")
        for name in (KnobName(key, "db2:db3"),)
    }
    board.fold(replace(tick, knobs={**tick.knobs, **pair}))
    assert [board.label(name) for name in pair] == [
        "rtt db2:db3",
        "partition 2:3",
        "replica 2:3",
        "primary 2:3",
    ]
    board.shows_all = True
    assert pair.keys() <= {*board.names}


def test_steps_are_staged_and_sent_once_after_a_rest(board: Board) -> None:
    board.select(RTT)
    board.step(-1, 10.0)
    board.step(-1, 10.3)
    assert board.asked(RTT) == 25
    assert not board.due(10.8, 0.6)
    assert board.due(11.0, 0.6)
    assert [(one.names, one.value) for one in board.send()] == [((RTT,), 25)]
    assert board.send() == []
    assert (board.staged, board.pending) == ({}, {RTT: 25})


def test_nothing_more_is_due_while_a_change_is_under_way(board: Board) -> None:
    board.select(RTT)
    board.step(1, 0.0)
    board.send()
    board.step(1, 1.0)
    assert board.asked(RTT) == 300
    assert not board.due(99.0, 0.6)
    board.confirm(applied=True)
    assert board.due(99.0, 0.6)


def test_a_pending_value_is_shown_until_a_tick_after_its_confirmation(board: Board) -> None:
    board.stage(SYNC, 0, 0.0)
    board.send()
    board.fold(make_tick())
    assert board.pending == {SYNC: 0}
    board.confirm(applied=True)
    assert board.asked(SYNC) == 0
    board.fold(make_tick(values={SYNC: 0}))
    assert (board.pending, board.asked(SYNC)) == ({}, 0)


def test_a_refused_value_goes_back_at_once(board: Board) -> None:
    board.stage(SYNC, 0, 0.0)
    board.send()
    board.confirm(applied=False)
    assert board.asked(SYNC) == 1


def test_stepping_back_to_what_is_asked_stages_nothing(board: Board) -> None:
    board.select(RTT)
    board.step(1, 0.0)
    board.step(-1, 0.1)
    assert board.staged == {}


def test_the_filter_keeps_groups_and_moves_the_selection(board: Board) -> None:
    board.select(RTT)
    board.narrow("binlog commit")
    assert board.selected != RTT
    assert all("binlog" in f"{name} {name.knob.help}".lower() for name in board.names)
    board.narrow("no such thing")
    assert (board.names, board.selected) == ((), None)
    board.narrow("")
    assert board.selected == board.names[0]


def test_a_knob_that_is_gone_is_no_longer_staged_or_selected(board: Board) -> None:
    board.fold(make_tick(replicas=2))
    gone = KnobName("rtt", "db3")
    board.select(gone)
    board.stage(gone, 5, 0.0)
    board.fold(make_tick(replicas=1))
    assert board.staged == {}
    assert board.selected in board.names


def link_rows(board: Board) -> list[object]:
    return list(board.sections[0].names)


def test_seldom_knobs_are_shown_by_all_while_at_their_defaults(board: Board) -> None:
    assert link_rows(board) == [RTT, PARTITION]
    hidden = {name.key for name in board.views if name not in board.names}
    assert hidden == {knob.key for knob in CATALOGUE if knob.seldom and ASYNC.has(knob)}
    assert board.place == (1, len(board.views))
    board.shows_all = True
    assert {*board.names} == {*board.views}


@pytest.mark.parametrize("asked", ["requested", "effective", "staged", "pending", "selected"])
def test_a_knob_of_which_there_is_something_to_see_is_never_folded_away(board: Board, asked: str) -> None:
    tick = make_tick()
    if asked == "requested":
        tick = make_tick(values={JITTER: 1.0})
    elif asked == "effective":
        views = {**tick.knobs, JITTER: replace(tick.knobs[JITTER], effective=1.0)}
        tick = replace(tick, knobs=views)
    elif asked == "selected":
        board.select(JITTER)
    else:
        board.stage(JITTER, 1.0, 0.0)
        if asked == "pending":
            board.send()
    board.fold(tick)
    assert link_rows(board) == [RTT, PARTITION, JITTER]


def test_a_knob_that_is_back_at_its_default_stays_until_the_cursor_leaves(board: Board) -> None:
    board.fold(make_tick(values={LOSS: 1.0}))
    board.select(LOSS)
    board.fold(make_tick())
    assert board.selected == LOSS
    assert LOSS in board.names
    board.move(-1)
    assert board.selected == PARTITION
    assert LOSS not in board.names
