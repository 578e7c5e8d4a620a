"""The protection state: the table of docs/facts.md, and the traps that it warns of."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replexplorer.core.server.counters import ServerStatus
from replexplorer.core.server.protection import (
    Evidence,
    ProtectionState,
    acks_between,
    blocked_after_s,
    judge,
)

HEALTHY = ServerStatus(operational=True, clients=1, yes_tx=50, no_tx=0, no_times=0)
PROTECTED = Evidence(
    reachable=True,
    requested=True,
    enabled=True,
    wait_point="after_sync",
    timeout_ms=10_000,
    required=1,
    status=HEALTHY,
    yes_tx_at_enabling=40,
    asked_rtts_ms=(85.0,),
    acks_since_last=5,
    logged_timeouts=0,
)


def with_status(**changes: bool | int | None) -> Evidence:
    return replace(PROTECTED, status=replace(HEALTHY, **changes))  # type: ignore[arg-type]


WAITS = replace(PROTECTED, oldest_wait_s=1.5, acks_since_last=0)
STATES = [
    ("all is well", PROTECTED, "protected"),
    ("idle: nothing acknowledged lately", replace(PROTECTED, acks_since_last=0), "protected"),
    ("no login", replace(PROTECTED, reachable=False), "down"),
    ("off", replace(PROTECTED, enabled=False), "off"),
    ("the server has no semi-sync", replace(PROTECTED, enabled=None), "off"),
    ("the primary restarted and lost its settings", replace(PROTECTED, enabled=False), "off"),
    ("silent fallback", with_status(operational=False), "degraded"),
    ("on, with no client, which is normal right after enabling", with_status(clients=0), "armed"),
    ("fewer clients than required", replace(PROTECTED, required=2), "armed"),
    ("clients unknown", with_status(clients=None), "armed"),
    ("status unknown", with_status(operational=None), "armed"),
    ("no acknowledgement since enabling", replace(PROTECTED, yes_tx_at_enabling=50), "armed"),
    ("counter unknown", with_status(yes_tx=None), "armed"),
    ("counters reset, one acknowledgement since", with_status(yes_tx=1), "protected"),
    ("counters reset, none since", with_status(yes_tx=0), "armed"),
    (
        "counters reset after enabling, and as many since as were kept",
        replace(with_status(yes_tx=40, since_flush_s=60), enabled_for_s=62.5),
        "protected",
    ),
    (
        "counters reset before enabling, none since",
        replace(with_status(yes_tx=40, since_flush_s=63), enabled_for_s=62.5),
        "armed",
    ),
    (
        "counters reset within the second of enabling: whole seconds prove nothing",
        replace(with_status(yes_tx=40, since_flush_s=62), enabled_for_s=62.5),
        "armed",
    ),
    (
        "counters reset after enabling, none since",
        replace(with_status(yes_tx=0, since_flush_s=5), enabled_for_s=62.5),
        "armed",
    ),
    ("enabled by hand, acknowledged", replace(PROTECTED, yes_tx_at_enabling=None), "protected"),
    (
        "enabled by hand, never acknowledged",
        replace(PROTECTED, yes_tx_at_enabling=None, status=replace(HEALTHY, yes_tx=0)),
        "armed",
    ),
    ("nobody asked, but it is on", replace(PROTECTED, requested=False), "protected"),
    ("a server without the count needs one", replace(PROTECTED, required=None), "protected"),
    ("waits long, nothing comes", WAITS, "blocked"),
    ("waits long, no replica", replace(WAITS, status=replace(HEALTHY, clients=0)), "blocked"),
    ("just began to wait, no replica", replace(with_status(clients=0), oldest_wait_s=0.4), "armed"),
    ("waits long, but others are acknowledged", replace(WAITS, acks_since_last=1), "protected"),
    ("waits long, sampled once only", replace(WAITS, acks_since_last=None), "protected"),
    ("waits within three round trips", replace(WAITS, asked_rtts_ms=(85.0, 600.0)), "protected"),
    ("waits exactly so long", replace(WAITS, oldest_wait_s=1.0), "protected"),
    ("fell back while it waited", replace(WAITS, status=replace(HEALTHY, operational=False)), "degraded"),
]


@pytest.mark.parametrize(
    ("evidence", "state"), [case[1:] for case in STATES], ids=[case[0] for case in STATES]
)
def test_states(evidence: Evidence, state: str) -> None:
    assert judge(evidence).state.value == state


@pytest.mark.parametrize(
    ("logged", "no_times", "own_offs", "fallbacks"),
    [(3, 9, 2, 3), (0, 9, 2, 0), (None, 9, 2, 7), (None, 1, 2, 0), (None, None, 2, None)],
)
def test_fallbacks_count_timeouts_only(
    logged: int | None, no_times: int | None, own_offs: int, fallbacks: int | None
) -> None:
    evidence = replace(with_status(no_times=no_times), logged_timeouts=logged, own_offs=own_offs)
    assert judge(evidence).fallbacks == fallbacks


@pytest.mark.parametrize(("rtts", "after_s"), [((), 1.0), ((85.0,), 1.0), ((1000.0, 5.0), 3.0)])
def test_when_a_wait_is_long(rtts: tuple[float, ...], after_s: float) -> None:
    assert blocked_after_s(rtts) == after_s


@pytest.mark.parametrize(
    ("before", "after", "acks"),
    [(None, 5, None), (3, 5, 2), (5, 5, 0), (5, 1, None), (5, None, None)],
)
def test_acknowledgements_between_samples(before: int | None, after: int | None, acks: int | None) -> None:
    earlier = None if before is None else ServerStatus(yes_tx=before)
    assert acks_between(earlier, ServerStatus(yes_tx=after)) == acks


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
    if told.state is ProtectionState.PROTECTED:
        assert evidence.reachable
        assert evidence.enabled
        assert status.operational
        assert status.yes_tx
        assert status.clients is not None
        assert status.clients >= (evidence.required or 1)
    if told.state is ProtectionState.BLOCKED:
        assert evidence.acks_since_last == 0
        assert (evidence.oldest_wait_s or 0) > blocked_after_s(evidence.asked_rtts_ms)
    assert told.fallbacks is None or told.fallbacks >= 0
    assert (told.replicas_required is None) == (evidence.enabled is None or not evidence.reachable)
    if told.no_ack_can_come:
        assert told.state in (ProtectionState.PROTECTED, ProtectionState.ARMED, ProtectionState.BLOCKED)
