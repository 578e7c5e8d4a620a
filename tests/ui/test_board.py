"""Selection, staging and the panel's order, without a terminal."""

from __future__ import annotations

import pytest

from replexplorer.core.knobs import CATALOGUE, KnobName, expand
from replexplorer.ui.board import Board, sections
from tests.fakes.facade import make_tick

SYNC = KnobName("sync_binlog", "primary")
RTT = KnobName("rtt", "replica")


@pytest.fixture
def board() -> Board:
    board = Board()
    board.fold(make_tick(rtt=(85.0, 85.0)))
    return board


def test_every_knob_stands_once_under_a_heading() -> None:
    names = expand(CATALOGUE, ["replica", "replica2"])
    found = sections(names)
    assert sorted(name for section in found for name in section.names) == sorted(names)
    assert [section.title for section in found] == [
        "LINK", "SEMI-SYNC", "DURABILITY", "LOAD", "BINLOG", "REPLICA", "REPLICA2",
    ]  # fmt: skip
    assert {name.node for name in found[0].names} == {"replica", "replica2"}


def test_a_link_says_its_replica_only_where_there_are_several(board: Board) -> None:
    assert board.label(RTT) == "rtt"
    board.fold(make_tick(replicas=2))
    assert board.label(KnobName("rtt", "replica2")) == "rtt replica2"
    assert board.label(SYNC) == "sync_binlog"


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
    gone = KnobName("rtt", "replica2")
    board.select(gone)
    board.stage(gone, 5, 0.0)
    board.fold(make_tick(replicas=1))
    assert board.staged == {}
    assert board.selected in board.names
