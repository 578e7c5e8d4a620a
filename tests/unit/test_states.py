"""The protection state: docs/explanation/protection-states.md, and how it is followed from look to look."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.server.counters import Sample, ServerStatus
from replexplorer.core.server.protection import (
    Evidence,
    Look,
    OutageSpan,
    Protection,
    ProtectionState,
    Seen,
    States,
    acks_between,
    blocked_after_s,
    judge,
    meaning_of,
    turn_words,
    unprotected_between,
    word_of,
)
from tests.typed import fields, table_of

PROTECTED, BLOCKED, DEGRADED = ProtectionState.PROTECTED, ProtectionState.BLOCKED, ProtectionState.DEGRADED
DOWN, OFF, ARMED = ProtectionState.DOWN, ProtectionState.OFF, ProtectionState.ARMED


def look(
    at_s: float,
    state: ProtectionState,
    commits: int = 0,
    yes_tx: int = 0,
    no_tx: int = 0,
    *,
    oldest_s: float | None = None,
    waiting: int | None = None,
    requested: bool = True,
    uptime_s: float | None = None,
) -> Look:
    protection = Protection(state, requested, timeout_ms=10_000, oldest_wait_s=oldest_s, waiting=waiting)
    status = ServerStatus(
        uptime_s=int(1000 + at_s if uptime_s is None else uptime_s),
        binlog_cache_use=commits,
        yes_tx=yes_tx,
        no_tx=no_tx,
    )
    counters = Sample(at_s, status if state is not DOWN else ServerStatus())
    return Look(at_s, protection, counters, enabled=state not in (OFF, DOWN))


def looks(text: str) -> list[Look]:
    """`2 blocked 1340 131 oldest_s=1.2`: when, the state, commits, yes_tx and no_tx, and more by name."""
    found = []
    for each in text.split(","):
        at_s, state, *counts = (word for word in each.split() if "=" not in word)
        found.append(look(float(at_s), ProtectionState(state), *map(int, counts), **fields(each)))
    return found


def follow(seen: Iterable[Look]) -> tuple[States, list[Seen]]:
    states = States()
    return states, [states.see(one) for one in seen]


CABLE_OUT = looks(
    "0.0 protected 1000 100, 0.5 protected 1300 130, 2.0 blocked 1340 131 oldest_s=1.2 waiting=30,"
    "10.5 blocked 1340 131 oldest_s=9.7 waiting=30, 11.0 degraded 1500 131 20, 12.0 degraded 6500 131 520,"
    "12.5 protected 7000 171 530, 13.0 protected 7300 200 530"
)


def test_a_cable_that_is_out_is_a_stall_then_commits_without_protection(snapshot: object) -> None:
    """The timeout says when it fell back, the oldest wait when it began; 30 commits went to the binlog
    before they waited; of the last half second's 500 commits a fifth went in queues that nobody
    acknowledged."""
    states, seen = follow(CABLE_OUT)
    turns = [one.turn for one in seen if one.turn]
    assert [(turn.before, turn.after, round(turn.at_s, 6)) for turn in turns] == snapshot
    assert states.unprotected == turns[2].unprotected == 160 + 30 + 5000 + 100
    assert (turns[1].lasted_s, turns[2].outage_s) == pytest.approx((10.0, 0.8))
    stretches = [stretch for one in seen for stretch in one.stretches]
    for state, length_s in ((BLOCKED, 10.0), (DEGRADED, 1.7)):
        assert sum(one.to_s - one.from_s for one in stretches if one.state is state) == pytest.approx(
            length_s
        )
    assert sum(one.unprotected for one in stretches) == states.unprotected


COUNTED = """\
after_sync       | 0 degraded 10007 827, 1 degraded 80319 827 7995 | 70312
acknowledged     | 0 protected 100 10, 1 protected 300 30          | 0
FLUSH STATUS     | 0 degraded 100 10 50, 1 degraded 40 0 4         | 40
restart          | 0 degraded 100 10 50, 1 degraded 900 0 60 uptime_s=1 | 0
off though asked | 0 off 100, 1 off 150                            | 50
off              | 0 off 100 requested=False, 1 off 150 requested=False | 0
switched on      | 0 off 100, 1 degraded 150 0 5                   | 0
was down         | 0 down, 1 degraded 150 0 5                      | 0
"""


def test_what_counts_as_unprotected() -> None:
    """As measured: the semi-sync counters count queues."""
    for case, seen, count in table_of(COUNTED):
        assert unprotected_between(*looks(seen)) == int(count), case


def test_a_state_that_a_change_passes_through_is_no_outage() -> None:
    states = States()
    assert states.see(look(0.0, OFF, requested=False)) == Seen()
    assert states.see(look(0.5, DEGRADED, 10, 0, 3), changing=True) == Seen()
    assert not states.settled
    found = states.see(look(1.0, PROTECTED, 20, 4, 3))
    assert found.stretches == ()
    assert found.turn is not None
    assert states.settled is True
    assert states.unprotected == 0


def test_an_outage_that_outlasts_the_change_counts_from_its_beginning() -> None:
    """The cable is pulled: the change is done a second after the first commit began to wait."""
    states = States()
    states.see(look(0.0, PROTECTED))
    states.see(look(2.0, BLOCKED, oldest_s=1.5, waiting=8), changing=True)
    found = states.see(look(2.5, BLOCKED, oldest_s=2.0, waiting=8))
    assert found.stretches == (OutageSpan(BLOCKED, 0.5, 2.5, is_first=True),)
    assert states.state == BLOCKED
    assert states.since_s == 0.5


COURSES = """\
0 protected, 0.5 off 10, 1.5 off 400, 2 off 500 requested=False
0 protected, 0.5 off, 1.5 off 100, 2.5 off 200, 3.5 off 300, 4.5 off 400, 5.5 off 500
0 protected, 1 degraded, 1.5 off, 2 off requested=False
0 protected, 1 down, 3 armed, 4 protected
"""


def test_off_though_asked_for_is_an_outage_only_when_it_stays_so(snapshot: object) -> None:
    """Who switches it off writes the request down a moment later; armed is on its way and ends no outage."""
    told = {}
    for line in COURSES.splitlines():
        states, seen = follow(looks(line))
        turns = [one.turn for one in seen if one.turn]
        told[line] = turns, [one.stretches for one in seen], states.unprotected
    assert told == snapshot


def test_an_outage_that_gets_another_state_waits_for_no_change_to_end() -> None:
    states, _ = follow(looks("0 protected, 2 blocked oldest_s=1.5"))
    found = states.see(look(12, DEGRADED, 10, 0, 3), changing=True)
    assert found.turn is not None
    assert found.turn.before == BLOCKED
    assert found.turn.after == DEGRADED


@given(
    states=st.lists(st.sampled_from(list(ProtectionState)), min_size=1, max_size=30),
    grown=st.integers(0, 50),
)
def test_stretches_follow_one_another_and_hold_all_that_was_counted(
    states: list[ProtectionState], grown: int
) -> None:
    followed, seen = follow(
        look(0.5 * at, state, grown * at, at, at, oldest_s=1.2, waiting=3) for at, state in enumerate(states)
    )
    stretches = [stretch for one in seen for stretch in one.stretches]
    assert all(one.from_s <= one.to_s + 1e-9 for one in stretches)
    assert all(one.to_s <= two.from_s + 1e-9 for one, two in itertools.pairwise(stretches))
    assert sum(one.unprotected for one in stretches) <= followed.unprotected


def test_the_log_says_each_turn_once(snapshot: object) -> None:
    _, seen = follow(CABLE_OUT)
    protection = CABLE_OUT[0].protection
    _, ended = follow(looks("0 protected, 1 down, 2 protected"))
    assert [turn_words(one.turn, protection) for one in (*seen, *ended) if one.turn] == snapshot


ASKED = Protection(OFF, requested=True, replicas_acking=1, replicas_required=1, timeout_ms=10_000)
MEANT = """\
replicas_required=None
requested=False

state="armed" replicas_acking=0
state="armed"
state="armed" replicas_acking=None
state="protected" no_ack_can_come=True
"""


def asked_for(changes: str) -> Protection:
    changed = fields(changes)
    return replace(ASKED, **{**changed, "state": ProtectionState(changed.get("state", OFF))})


def test_a_state_says_what_the_next_commit_does_and_why(snapshot: object) -> None:
    found = [asked_for(line) for line in MEANT.splitlines()]
    assert [f"{word_of(each.state)}: {meaning_of(each)}" for each in found] == snapshot


# -- what is judged of one look, and the traps that docs/explanation/semi-sync.md warns of


HEALTHY = ServerStatus(operational=True, clients=1, yes_tx=50, no_tx=0, no_times=0)
SOUND = Evidence(
    wait_point="after_sync",
    status=HEALTHY,
    asked_rtts_ms=(85.0,),
    **fields(
        "reachable=True requested=True enabled=True timeout_ms=10_000 required=1 yes_tx_at_enabling=40"
        " acks_since_last=5 logged_timeouts=0"
    ),
)


def with_status(**changes: bool | int | None) -> Evidence:
    return replace(SOUND, status=replace(HEALTHY, **changes))  # type: ignore[arg-type]


STATES = """\
all is well                                   |
idle: nothing acknowledged lately             | acks_since_last=0
no login                                      | reachable=False
off, as is a source that restarted            | enabled=False
the server has no semi-sync                   | enabled=None
silent fallback                               | operational=False
on, with no client: right after enabling      | clients=0
fewer clients than required                   | required=2
clients unknown                               | clients=None
status unknown                                | operational=None
no acknowledgement since enabling             | yes_tx_at_enabling=50
counter unknown                               | yes_tx=None
reset, one acknowledgement since              | yes_tx=1
reset, no acknowledgement since               | yes_tx=0
reset after enabling, as many since as kept   | yes_tx=40 since_flush_s=60 enabled_for_s=62.5
reset within the second of enabling: no proof | yes_tx=40 since_flush_s=62 enabled_for_s=62.5
enabled by hand, acknowledged                 | yes_tx_at_enabling=None
enabled by hand, never acknowledged           | yes_tx_at_enabling=None yes_tx=0
a server without the count needs one          | required=None
waits long, nothing comes                     | oldest_wait_s=1.5 acks_since_last=0
waits long, no replica                        | oldest_wait_s=1.5 acks_since_last=0 clients=0
waits within three round trips                | oldest_wait_s=1.5 acks_since_last=0 asked_rtts_ms=(85.0,501.0)
waits longer than those                       | oldest_wait_s=1.5 acks_since_last=0 asked_rtts_ms=(85.0,499.0)
fell back while it waited                     | oldest_wait_s=1.5 acks_since_last=0 operational=False
"""
"""What is so of a source that is sound otherwise."""


def evidence_of(changes: str) -> Evidence:
    """Fields of the evidence and of the server's status in it."""
    changed = fields(changes)
    of_status = {name: changed.pop(name) for name in [*changed] if hasattr(HEALTHY, name)}
    return replace(SOUND, status=replace(HEALTHY, **of_status), **changed)


def test_states(snapshot: object) -> None:
    """Whether a wait is called one at all is a law below."""
    cases = (line.split("|") for line in STATES.splitlines())
    assert {case.strip(): judge(evidence_of(changes)).state.value for case, changes in cases} == snapshot


FALLBACKS = """\
3 9 3
0 9 0
- 9 7
- 1 0
- - -
"""
"""Timeouts in the log, `no_times`, and what fallbacks that makes where this program switched it off twice."""


def told(text: str) -> list[int | None]:
    """Counts; `-`: unknown."""
    return [None if each == "-" else int(each) for each in text.split()]


def test_fallbacks_count_timeouts_only() -> None:
    for line in FALLBACKS.splitlines():
        logged, no_times, fallbacks = told(line)
        evidence = replace(with_status(no_times=no_times), logged_timeouts=logged, own_offs=2)
        assert judge(evidence).fallbacks == fallbacks, line
    untouched = replace(with_status(no_times=1), logged_timeouts=None)
    assert judge(untouched).fallbacks == 1, "nobody has switched anything off"


ACKS = """\
3 5 2
5 5 0
5 1 -
5 - -
- 5 -
"""
"""`yes_tx` of two samples, and the acknowledgements between them."""


def test_acknowledgements_between_samples() -> None:
    for line in ACKS.splitlines():
        before, after, acks = told(line)
        assert acks_between(ServerStatus(yes_tx=before), ServerStatus(yes_tx=after)) == acks, line
    assert acks_between(None, ServerStatus(yes_tx=5)) is None


some_bool = st.none() | st.booleans()
some_count = st.none() | st.integers(0, 5)
some_evidence = st.builds(
    Evidence,
    reachable=st.booleans(),
    requested=st.booleans(),
    enabled=some_bool,
    required=st.none() | st.integers(1, 3),
    status=st.builds(
        ServerStatus, operational=some_bool, clients=some_count, yes_tx=some_count, no_times=some_count
    ),
    yes_tx_at_enabling=some_count,
    asked_rtts_ms=st.tuples(st.floats(0, 5000)),
    oldest_wait_s=st.none() | st.floats(0, 20),
    acks_since_last=some_count,
    logged_timeouts=some_count,
    links_open=some_count,
    own_offs=st.integers(0, 5),
)


@given(some_evidence)
def test_protected_needs_every_piece_of_evidence(evidence: Evidence) -> None:
    told = judge(evidence)
    status = evidence.status
    if told.state is PROTECTED:
        assert evidence.reachable
        assert evidence.enabled
        assert status.operational
        assert status.yes_tx
        assert status.clients is not None
        assert status.clients >= (evidence.required or 1)
    if told.state is BLOCKED:
        assert evidence.acks_since_last == 0
        assert (evidence.oldest_wait_s or 0) > blocked_after_s(evidence.asked_rtts_ms)
    assert told.fallbacks is None or told.fallbacks >= 0
    assert (told.replicas_required is None) == (evidence.enabled is None or not evidence.reachable)
    if told.no_ack_can_come:
        assert told.state in (PROTECTED, ARMED, BLOCKED)
