"""The protection state: docs/explanation/protection-states.md, and how it is followed from look to look."""

from __future__ import annotations

import itertools
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.server.counters import Sample, ServerStatus
from replexplorer.core.server.protection import (
    Evidence,
    Look,
    Protection,
    ProtectionState,
    Seen,
    States,
    blocked_after_s,
    judge,
    meaning_of,
    turn_words,
    word_of,
)
from tests.typed import fields, table_of

PROTECTED, OFF, ARMED, BLOCKED = (
    ProtectionState.PROTECTED,
    ProtectionState.OFF,
    ProtectionState.ARMED,
    ProtectionState.BLOCKED,
)


def look(text: str) -> Look:
    """`2 blocked 1340 131 0 oldest_wait_s=1.2`: when, the state, commits, yes_tx, no_tx, and more by name."""
    more = fields(text)
    words = [each for each in text.split() if "=" not in each and each != "changing"]
    at_s, state = float(words[0]), ProtectionState(words[1])
    commits, yes_tx, no_tx = [*map(int, words[2:]), 0, 0, 0][:3]
    uptime_s = more.pop("uptime_s", int(1000 + at_s))
    status = ServerStatus(uptime_s=uptime_s, binlog_cache_use=commits, yes_tx=yes_tx, no_tx=no_tx)
    if state is ProtectionState.DOWN:
        status = ServerStatus()
    protection = Protection(state, more.pop("requested", True), timeout_ms=10_000, **more)
    return Look(at_s, protection, Sample(at_s, status), enabled=state not in (OFF, ProtectionState.DOWN))


def follow(looks: str) -> tuple[States, list[Seen]]:
    """What is seen at each look; `changing`: while a change is under way."""
    states = States()
    return states, [states.see(look(each), changing="changing" in each) for each in looks.split(",")]


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
    for case, looks, count in table_of(COUNTED):
        assert follow(looks)[0].unprotected == int(count), case


CABLE_OUT = (
    "0.0 protected 1000 100, 0.5 protected 1300 130, 2.0 blocked 1340 131 oldest_wait_s=1.2 waiting=30,"
    "10.5 blocked 1340 131 oldest_wait_s=9.7 waiting=30, 11.0 degraded 1500 131 20,"
    "12.0 degraded 6500 131 520, 12.5 protected 7000 171 530, 13.0 protected 7300 200 530"
)
COURSES = f"""\
{CABLE_OUT}
0 protected, 0.5 off 10, 1.5 off 400, 2 off 500 requested=False
0 protected, 0.5 off, 1.5 off 100, 2.5 off 200, 3.5 off 300, 4.5 off 400, 5.5 off 500
0 protected, 1 degraded, 1.5 off, 2 off requested=False
0 protected, 1 down, 3 armed, 4 protected
0 off requested=False, 0.5 degraded 10 0 3 changing, 1 protected 20 4 3
0 protected, 2 blocked oldest_wait_s=1.5 waiting=8 changing, 2.5 blocked oldest_wait_s=2.0 waiting=8
0 protected, 2 blocked oldest_wait_s=1.5, 12 degraded 10 0 3 changing
"""


def test_an_outage_has_a_beginning_an_end_and_its_unprotected_commits(snapshot: object) -> None:
    """A cable that is out is a stall, then commits without protection: the timeout says when it fell back,
    the oldest wait when it began. Who switches semi-sync off writes the request down a moment later; armed is
    on its way and ends no outage. What a change passes through is none; one that outlasts the change counts
    from its beginning, and one that is there already waits for no change to end."""
    told = {}
    for line in COURSES.splitlines():
        states, seen = follow(line)
        turns = [one.turn for one in seen if one.turn]
        told[line] = (
            turns,
            [one.stretches for one in seen],
            states.unprotected,
            states.since_s,
            states.settled,
        )
    assert told == snapshot


def test_the_log_says_each_turn_once(snapshot: object) -> None:
    """30 commits went to the binlog before they waited; of the last half second's 500 commits a fifth went in
    queues without an acknowledgement."""
    states, seen = follow(CABLE_OUT)
    assert states.unprotected == 160 + 30 + 5000 + 100
    _, ended = follow("0 protected, 1 down, 2 protected")
    protection = look("0 protected").protection
    assert [turn_words(one.turn, protection) for one in (*seen, *ended) if one.turn] == snapshot


@given(st.lists(st.sampled_from(ProtectionState), min_size=1, max_size=30), st.integers(0, 50))
def test_stretches_follow_one_another_and_hold_all_that_was_counted(
    states: list[ProtectionState], grown: int
) -> None:
    looks = (
        f"{at / 2} {state} {grown * at} {at} {at} oldest_wait_s=1.2 waiting=3"
        for at, state in enumerate(states)
    )
    followed, seen = follow(",".join(looks))
    stretches = [stretch for one in seen for stretch in one.stretches]
    assert all(one.from_s <= one.to_s + 1e-9 for one in stretches)
    assert all(one.to_s <= two.from_s + 1e-9 for one, two in itertools.pairwise(stretches))
    assert sum(one.unprotected for one in stretches) <= followed.unprotected


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
timeouts in the log                           | own_offs=2 logged_timeouts=3 no_times=9
none in the log                               | own_offs=2 logged_timeouts=0 no_times=9
no log: all but those that we switched off    | own_offs=2 logged_timeouts=None no_times=9
fewer than we switched off                    | own_offs=2 logged_timeouts=None no_times=1
neither log nor counter                       | own_offs=2 logged_timeouts=None no_times=None
"""
"""What is so of a source that is sound otherwise."""


def evidence_of(changes: str) -> Evidence:
    """Fields of the evidence and of the server's status in it."""
    changed = fields(changes)
    of_status = {name: changed.pop(name) for name in [*changed] if hasattr(HEALTHY, name)}
    return replace(SOUND, status=replace(HEALTHY, **of_status), **changed)


def test_states(snapshot: object) -> None:
    """Whether a wait is called one at all is a law below."""
    told = {}
    for case, changes in table_of(STATES):
        found = judge(evidence_of(changes))
        told[case] = f"{found.state}, {found.fallbacks} fallbacks"
    assert told == snapshot


some_bool = st.none() | st.booleans()
some_count = st.none() | st.integers(0, 5)
some_evidence = st.builds(
    Evidence,
    reachable=st.booleans(),
    requested=st.booleans(),
    enabled=some_bool,
    required=st.none() | st.integers(1, 3),
    status=st.builds(ServerStatus, operational=some_bool, clients=some_count, yes_tx=some_count),
    yes_tx_at_enabling=some_count,
    asked_rtts_ms=st.tuples(st.floats(0, 5000)),
    oldest_wait_s=st.none() | st.floats(0, 20),
    acks_since_last=some_count,
    links_open=some_count,
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
    assert (told.replicas_required is None) == (evidence.enabled is None or not evidence.reachable)
    if told.no_ack_can_come:
        assert told.state in (PROTECTED, ARMED, BLOCKED)
