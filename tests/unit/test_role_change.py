"""Who can be promoted, and how an interrupted change of roles is ended."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.cli.roles import outcome_words
from replexplorer.core.errors import StackUnavailable
from replexplorer.core.role_change import (
    BootRoles,
    Candidate,
    ChangeKind,
    Ending,
    RecoveryPoint,
    RoleChange,
    RoleStep,
    UnderWay,
    choose,
    ending_of,
    from_record,
    to_record,
)
from replexplorer.core.server.gtid import gtid_count, subtract_gtids, unite_gtids
from replexplorer.ui.desks.roles import change_words

A, B = "aaaa", "bbbb"


@pytest.mark.parametrize(
    ("received", "wanted", "chosen"),
    [
        ({"db2": f"{A}:1-9", "db3": f"{A}:1-12"}, None, "db3"),
        ({"db2": f"{A}:1-12", "db3": f"{A}:1-12"}, None, "db2"),
        ({"db2": f"{A}:1-12", "db3": f"{A}:1-12"}, "db3", "db3"),
        ({"db2": f"{A}:1-5:7-9", "db3": f"{A}:1-7"}, None, "db2"),
        ({"db2": f"{A}:1-9", "db3": f"{A}:1-9, {B}:1-2"}, None, "db3"),
    ],
)
def test_the_one_that_has_received_most_is_promoted(
    received: dict[str, str], wanted: str | None, chosen: str
) -> None:
    candidates = [Candidate(node, gtids) for node, gtids in received.items()]
    assert choose(candidates, wanted).node == chosen


@pytest.mark.parametrize(
    ("candidates", "wanted", "told"),
    [
        ([], None, "no replica could be promoted"),
        (
            [Candidate("db2", f"{A}:1-9", "has an error"), Candidate("db3", "", "is down")],
            None,
            "no replica could be promoted: db2 has an error; db3 is down: db2 has received most",
        ),
        (
            [Candidate("db2", f"{A}:1-9"), Candidate("db3", f"{A}:1-8")],
            "db3",
            "db3 lacks 1 transaction that another replica has received: they would be lost:"
            " db2 has received most",
        ),
        (
            [Candidate("db2", f"{A}:1-9"), Candidate("db3", "", "is down")],
            "db3",
            "db3 cannot be promoted: it is down: db2 has received most",
        ),
    ],
)
def test_who_cannot_be_promoted_is_refused_in_one_line(
    candidates: list[Candidate], wanted: str | None, told: str
) -> None:
    with pytest.raises(StackUnavailable) as refused:
        choose(candidates, wanted)
    assert str(refused.value).startswith(told)


def test_one_in_trouble_is_passed_over_though_it_has_received_more() -> None:
    candidates = [Candidate("db2", f"{A}:1-9", "has an error"), Candidate("db3", f"{A}:1-8")]
    assert choose(candidates).node == "db3"


numbers = st.lists(st.integers(1, 40), max_size=12)


def gtids(found: list[int]) -> str:
    return unite_gtids(*(f"{A}:{number}" for number in found))


@given(st.lists(numbers, min_size=1, max_size=4))
def test_nobody_has_more_transactions_than_the_chosen(found: list[list[int]]) -> None:
    candidates = [Candidate(f"db{at}", gtids(each)) for at, each in enumerate(found, 2)]
    chosen = choose(candidates)
    assert gtid_count(chosen.received) == max(len(set(each)) for each in found)


@given(numbers, numbers)
def test_a_union_holds_both_and_nothing_else(left: list[int], right: list[int]) -> None:
    both = unite_gtids(gtids(left), gtids(right))
    assert gtid_count(both) == len({*left, *right})
    assert subtract_gtids(gtids(left), both) == ""


def under_way(kind: ChangeKind) -> UnderWay:
    return UnderWay(kind, "db1", "db2", "promote", "failover (pid 7)", 1_760_000_000.5)


@pytest.mark.parametrize(
    ("kind", "to_takes_writes", "source_answers", "ending"),
    [
        (ChangeKind.FAILOVER, True, False, Ending.FINISH),
        (ChangeKind.FAILOVER, True, True, Ending.FINISH),
        (ChangeKind.FAILOVER, False, True, Ending.TAKE_BACK),
        (ChangeKind.FAILOVER, False, False, Ending.LEAVE),
        (ChangeKind.SWITCHOVER, True, True, Ending.FINISH),
        (ChangeKind.SWITCHOVER, False, True, Ending.TAKE_BACK),
        (ChangeKind.SWITCHOVER, False, False, Ending.LEAVE),
        (ChangeKind.REJOIN, False, False, Ending.FINISH),
    ],
)
def test_an_interrupted_change_is_finished_only_where_the_new_source_takes_writes(
    kind: ChangeKind, to_takes_writes: bool, source_answers: bool, ending: Ending
) -> None:
    change = under_way(kind)
    assert ending_of(change, to_takes_writes=to_takes_writes, source_answers=source_answers) is ending


@pytest.mark.parametrize("kind", ChangeKind)
def test_a_record_is_read_as_it_was_written(kind: ChangeKind) -> None:
    assert from_record(to_record(under_way(kind))) == under_way(kind)


@pytest.mark.parametrize("content", [None, [], {}, {"kind": "merger"}, {"kind": "failover", "to": "db2"}])
def test_what_is_no_record_is_none(content: object) -> None:
    assert from_record(content) is None


def test_boot_roles_are_lines_for_the_start_script() -> None:
    assert BootRoles("db2", frozenset({"db3", "db1"})).text == "source=db2\ndetached=db1\ndetached=db3\n"


@pytest.mark.parametrize(
    ("in_group", "standing"), [(False, "db3 follows db1"), (True, "db3 is a member of the group")]
)
def test_who_comes_back_to_a_group_is_said_to_follow_nobody(in_group: bool, standing: str) -> None:
    done = RoleChange(ChangeKind.REJOIN, "db3", "db1", in_group=in_group)
    assert outcome_words(done) == f"{standing} already: nothing was done"
    step = RoleStep("join", "db3", (), 5.0)
    back = RoleChange(ChangeKind.REJOIN, "db3", "db1", (step,), RecoveryPoint(2), in_group=in_group)
    assert outcome_words(back) == f"{standing} again, and lost 2 transactions"
    assert change_words(back) == f"rejoin: {standing} again, 2 transactions are lost"
