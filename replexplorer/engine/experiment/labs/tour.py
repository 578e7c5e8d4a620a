"""The tour: what a commit costs, in two minutes, on the live servers."""

from __future__ import annotations

from collections.abc import Sequence

from replexplorer.core.server.protection import ProtectionState
from replexplorer.engine.experiment.labs.evidence import compared, one_commit_a_round_trip, state_as_asked
from replexplorer.engine.experiment.labs.lab import Lab, Length, Phase, Phases, Relation

_ONE_CLIENT_WITHIN = 0.05
_MANY_CLIENTS_TIMES = 8.0
_RTT = "rtt=85ms"


def _judge(phases: Phases) -> Sequence[Relation]:
    """docs/labs.md, "tour"."""
    async_, one, many = phases["async"], phases["semi-sync, 1 client"], phases["32 clients"]
    home, cut, healed = phases["link at 0 ms"], phases["partition"], phases["healed"]
    more = many.tps >= _MANY_CLIENTS_TIMES * one.tps
    gone = home.mean_ms < (one.rtt_measured_ms or 0.0)
    return (
        *(state_as_asked(phase) for phase in phases.values()),
        one_commit_a_round_trip(
            one,
            async_.mean_ms,
            1 - _ONE_CLIENT_WITHIN,
            1 + _ONE_CLIENT_WITHIN,
            "1 client commits within 5 % of 1 / (RTT + async mean)",
        ),
        Relation(
            f"32 clients commit at least {_MANY_CLIENTS_TIMES:g} times as often as 1",
            more,
            f"{many.tps:.1f} / {one.tps:.1f} = {many.tps / one.tps if one.tps else 0:.1f}"
            + ("" if more else f"; {_MANY_CLIENTS_TIMES:g} or more would hold"),
            ratio=many.tps / one.tps if one.tps else None,
            least=_MANY_CLIENTS_TIMES,
        ),
        Relation(
            "without the delay the wait is gone",
            gone,
            compared(f"{home.mean_ms:.2f}", "<", f"{one.rtt_measured_ms or 0.0:.1f}", "ms", holds=gone),
        ),
        Relation(
            "nothing is acknowledged while the acknowledgements are cut",
            cut.service.count == 0,
            f"{cut.service.count} commits" + ("; 0 would hold" if cut.service.count else ""),
        ),
        Relation(
            "after healing commits go on without a fall back to async",
            healed.service.count > 0 and healed.protection.fallbacks == home.protection.fallbacks,
            f"{healed.tps:.1f} TPS, {healed.protection.fallbacks} fallbacks, "
            f"{home.protection.fallbacks} before",
        ),
    )


TOUR = Lab(
    name="tour",
    title="The tour: what a commit costs",
    teaches="What semi-sync, the round trip, the clients, the wait point and fsync do to TPS and latency.",
    phases=(
        Phase(
            "async",
            (
                "semi_sync=off",
                "wait_point=after_sync",
                "semi_sync_timeout=60s",
                "sync_binlog=1",
                "innodb_flush_log_at_trx_commit=1",
                "workload=update_index",
                "clients=1",
                _RTT,
            ),
            full=Length(8),
            quick=Length(4),
            state=ProtectionState.OFF,
            shows="commits do not wait for the replica, however far it is",
        ),
        # From here on one knob a phase, so that each row of the epoch ledger has one cause.
        Phase(
            "semi-sync, 1 client",
            ("semi_sync=on",),
            full=Length(20),
            quick=Length(8),
            state=ProtectionState.PROTECTED,
            shows="each commit waits one round trip",
        ),
        Phase(
            "32 clients",
            ("clients=32",),
            full=Length(12),
            quick=Length(6),
            state=ProtectionState.PROTECTED,
            shows="commits wait together, so the round trip is shared",
        ),
        Phase(
            "after_commit",
            ("wait_point=after_commit",),
            full=Length(12),
            quick=Length(6),
            state=ProtectionState.PROTECTED,
            shows="the same wait, after others can see the row",
        ),
        Phase(
            "relaxed binlog",
            ("sync_binlog=0",),
            full=Length(10),
            quick=Length(5),
            state=ProtectionState.PROTECTED,
            shows="the binlog is not fsynced any more: little is gained while the link is slow",
        ),
        Phase(
            "relaxed fsync",
            ("innodb_flush_log_at_trx_commit=2",),
            full=Length(10),
            quick=Length(5),
            state=ProtectionState.PROTECTED,
            shows="nor is the redo log: the network is durable, the disk is not",
        ),
        Phase(
            "link at 0 ms",
            ("rtt=0",),
            full=Length(8),
            quick=Length(4),
            state=ProtectionState.PROTECTED,
            shows="the replica is next door: the wait is gone",
        ),
        Phase(
            "partition",
            ("partition=ack",),
            full=Length(4),
            quick=Length(2),
            state=ProtectionState.BLOCKED,
            shows="the replica has the commit, its acknowledgement does not come: nothing is lost, all wait",
        ),
        Phase(
            "healed",
            ("partition=none",),
            full=Length(6),
            quick=Length(3),
            state=ProtectionState.PROTECTED,
            shows="TCP tries again, the waiting commit is acknowledged, and the next ones follow",
        ),
    ),
    judge=_judge,
)
