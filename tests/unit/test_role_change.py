"""Who can be promoted, and how an interrupted change of roles is ended."""

from __future__ import annotations

import pytest

from replexplorer.core.errors import StackUnavailable
from replexplorer.core.role_change import (
    BootRoles,
    Candidate,
    ChangeKind,
    Lineage,
    RecoveryPoint,
    RoleChange,
    RoleStep,
    choose,
)
from tests.typed import table_of

S, X, Y = "5555", "2222", "3333"
"""Server UUIDs of the source that is gone, of db2 and of db3; 0000 was the source long ago."""


UUIDS = {"db2": X, "db3": Y}


def candidates(text: str) -> list[Candidate]:
    """`db2 5555:1-9 | db3 (is down)`: what each has, and why it cannot be promoted."""
    found = []
    for each in filter(None, text.split(" | ")):
        has, _, trouble = each.partition(" (")
        node, _, received = has.partition(" ")
        found.append(Candidate(node, received, trouble.rstrip(")") or None, UUIDS.get(node, "")))
    return found


KNOWN = Lineage(S, "0000:1-9")


BETTER = """\
prefix              | 5555:1-12           | 5555:1-9
errant              | 5555:1-60           | 5555:1-40, YY:1-200
errant by hand      | 5555:1-60           | 5555:1-40, ffff:1-200
history             | 5555:1-9, 0000:1-9  | 5555:1-9, 0000:1-8, YY:1-5
hole                | 5555:1-9, YY:1-39   | 5555:1-9, YY:1-30
errant, else equal  | 5555:1-9            | 5555:1-9, YY:1
gap                 | 5555:1-5:7-9        | 5555:1-5:7:9
"""
"""What the one has that is promoted, and the other; `YY` is the UUID of the other."""


def test_the_one_that_has_all_of_the_source_s_is_promoted() -> None:
    for case, good, other in table_of(BETTER):
        first = choose(candidates(f"db2 {good} | db3 {other}".replace("YY", Y)), KNOWN)
        second = choose(candidates(f"db2 {other} | db3 {good}".replace("YY", X)), KNOWN)
        assert (first.node, first.lacks, first.donor) == ("db2", "", None), case
        assert (second.node, second.lacks, second.donor) == ("db3", "", None), case


LACKING = """\
each has some                 -> db2 5555:1-9 | db3 5555:1-7:20, 3333:1
each of three has             -> db2 5555:1-9 | db3 5555:1-7:20 | db4 5555:30
detached, it has more         -> db2 5555:1-9 | db3 5555:1-12 (follows no source)
the wanted one lacks some     -> db2 5555:1-9 | db3 5555:1-12 -> db2
one has nothing               -> db2 | db3 5555:1-3 (follows no source)
a hole hands nothing on       -> db2 5555:1-9, 3333:1-9 | db3 5555:1-12, 3333:1-8
a hole is wanted              -> db2 5555:1-9, 3333:1-9 | db3 5555:1-12, 3333:1-8 -> db3
"""
"""What each has, and who is wanted."""


def test_what_the_chosen_one_lacks_is_fetched_or_has_to_be_accepted(snapshot: object) -> None:
    told = {}
    for line in LACKING.splitlines():
        case, text, *wanted = map(str.strip, line.split("->"))
        accepted = choose(candidates(text), KNOWN, *wanted, accept_loss=True)
        told[case] = f"{accepted.node} lacks {accepted.lacks}, which {accepted.donor} has"
        if accepted.donor is None:
            with pytest.raises(StackUnavailable, match=r"promoting db2 would lose \d trans.*\(db2 lacks"):
                choose(candidates(text), KNOWN, *wanted)
    assert told == snapshot


REFUSED = """\

db2 5555:1-9 (has an error) | db3 (is down)
db2 5555:1-9 | db3 5555:1-5:30 | db4 5555:40
db2 5555:1-9 | db3 (is down) -> db3
db2 5555:1-9, 3333:1-9 | db3 5555:1-9, 3333:1-4 -> db3
"""


def test_who_cannot_be_promoted_is_refused_in_one_line(snapshot: object) -> None:
    told = []
    for line in REFUSED.splitlines():
        text, *wanted = line.split(" -> ")
        with pytest.raises(StackUnavailable) as refused:
            choose(candidates(text), KNOWN, *wanted)
        told.append(str(refused.value))
    assert told == snapshot


OWN_LOG = Lineage(S, f"{X}:1-8382")
ALONE = {
    "diverged": (Candidate("db2", f"{S}:1-9", None, X, "wrote 3 GTIDs again"), KNOWN),
    "of two nodes, the one that took over has what the other has lost": (
        Candidate("db2", f"{X}:1-8377, {S}:1-30", None, X),
        OWN_LOG,
    ),
}


def test_a_node_that_diverged_or_lost_the_end_of_its_log_is_promoted_only_by_name(snapshot: object) -> None:
    told = {}
    for case, (alone, known) in ALONE.items():
        with pytest.raises(StackUnavailable) as refused:
            choose([alone], known)
        told[case] = str(refused.value), choose([alone], known, "db2", accept_loss=True)
    assert told == snapshot


def test_a_switchover_prefers_the_one_without_transactions_of_its_own_though_it_is_behind() -> None:
    both = candidates("db2 5555:1-9, 2222:1-200 | db3 5555:1-8")
    assert choose(both, Lineage(S, f"{S}:1-9"), catches_up=True).node == "db3"


def test_boot_roles_are_lines_for_the_start_script() -> None:
    assert BootRoles("db2", frozenset({"db3", "db1"})).text == "source=db2\ndetached=db1\ndetached=db3\n"


def test_who_comes_back_to_a_group_is_said_to_follow_nobody(snapshot: object) -> None:
    step = RoleStep("join", "db3", (), 5.0)
    follows = RoleChange(ChangeKind.REJOIN, "db3", "db1")
    back = RoleChange(ChangeKind.REJOIN, "db3", "db1", (step,), RecoveryPoint(2), in_group=True)
    assert [follows.words, back.words] == snapshot
