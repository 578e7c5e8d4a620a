"""applier-lag: semi-sync waits until a replica has a commit, never until it has applied it (docs/labs.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from replexplorer.core.dialect.dialect import Behind
from replexplorer.core.load.interval import Interval
from replexplorer.core.load.pacing import OPEN
from replexplorer.core.server.gtid import gtid_count
from replexplorer.core.server.protection import ProtectionState
from replexplorer.engine.asking import ask
from replexplorer.engine.experiment.foreground import caught_up
from replexplorer.engine.experiment.labs.evidence import at_least, at_most, busy, printed, protected
from replexplorer.engine.experiment.labs.lab import Act, Lab, Length, Phase, Phases, Played, Relation

_RATE_TPS: Final = 300
_FSYNC_MS: Final = 5
_SAME_SHARE: Final = 0.95
_LAG_A_SECOND: Final = 0.3
"""One worker pays two fsyncs of 5 ms for a transaction, so it applies at most 100 of 300 a second and falls
behind by two thirds of a second each second; less than half of that would hold."""
_MENDED_SHARE: Final = 0.2
_WARMUP_S: Final = 1.5
_UP, _SLOW, _PARALLEL = "applier keeps up", "one slow worker", "sixteen slow workers"
_LAG, _WAITING, _CATCHING_UP = "lag at the end, s", "acknowledged, not applied at the end", "catches up in, s"


async def _play(act: Act) -> Played:
    """Measure the load; then how far the replica is behind, and how long it needs to catch up."""
    rig, length_s = act.rig, act.phase.length(quick=act.quick).seconds
    clock, replica = rig.clock, rig.seen.replicas[0]
    await rig.load.follow()
    began_s = clock.monotonic()

    def show(_: Interval) -> None:
        act.tell("measuring", min(1.0, (clock.monotonic() - began_s) / length_s))

    found = await rig.load.measure(duration_s=length_s, from_s=began_s + _WARMUP_S, on_interval=show)
    source, behind_it = rig.sql(rig.seen.source), rig.sql(replica)
    try:
        executed = await ask(source, rig.dialect(rig.seen.source).executed())
        behind = await ask(behind_it, rig.dialect(replica).behind(executed))
    finally:
        await asyncio.gather(source.close(), behind_it.close())
    waiting = gtid_count(behind.queued or "") if behind else 0
    lag_s = _lag_s(behind, waiting, found.load.tps)
    act.tell("the replica catches up", None)
    await rig.load.follow(clients=0)
    resting_s = clock.monotonic()
    await caught_up(rig, among=[replica])
    figures = {_LAG: lag_s, _WAITING: waiting, _CATCHING_UP: clock.monotonic() - resting_s}
    await rig.load.follow()
    return Played.of(found, figures)


def _lag_s(behind: Behind | None, waiting: int, tps: float) -> float:
    """Age of the oldest transaction that waits; where transactions carry no time, by how fast they came."""
    if behind is None or not waiting:
        return 0.0
    if behind.applying_us is not None:
        return behind.applying_us / 1e6
    return waiting / tps if tps else 0.0


def _figure(phases: Phases, phase: str, name: str) -> float:
    return float(phases[phase].figures[name])


def _judge(phases: Phases) -> Sequence[Relation]:
    up, slow = phases[_UP], phases[_SLOW]
    lag_s, mended_s = (_figure(phases, phase, _LAG) for phase in (_SLOW, _PARALLEL))
    runs = max(1, len(slow.repeats))
    waiting, catching_s = (_figure(phases, _SLOW, name) for name in (_WAITING, _CATCHING_UP))
    return (
        protected(tuple(phases.values())),
        at_least(
            f"acknowledgements go on: a slow applier leaves at least {_SAME_SHARE:.0%} of the TPS",
            slow.tps,
            _SAME_SHARE * up.tps,
            beside=busy(up, slow),
        ),
        at_least(
            f"one slow worker falls behind by at least {_LAG_A_SECOND:g} s a second",
            lag_s,
            _LAG_A_SECOND * slow.duration_s / runs,
            "s",
        ),
        at_most(
            f"parallel workers leave at most {_MENDED_SHARE:.0%} of that lag",
            mended_s,
            _MENDED_SHARE * lag_s,
            "s",
        ),
        printed(
            "what semi-sync does not promise: that what it acknowledged can be read on the replica",
            f"{waiting:,.0f} commits could not, and a failover would have waited {catching_s:.1f} s for them",
        ),
    )


def _phase(name: str, settings: tuple[str, ...], shows: str) -> Phase:
    return Phase(
        name,
        settings,
        full=Length(15),
        quick=Length(4),
        state=ProtectionState.PROTECTED,
        shows=shows,
        replicas=1,
        play=_play,
    )


APPLIER_LAG = Lab(
    name="applier-lag",
    title="A replica that acknowledges faster than it applies",
    teaches="An acknowledgement says received, not applied: lag grows while semi-sync is content.",
    phases=(
        _phase(
            _UP,
            (
                "semi_sync=on", "wait_point=after_sync", "semi_sync_replicas=1", "semi_sync_timeout=60s",
                "sync_binlog=0", "innodb_flush_log_at_trx_commit=0", "rtt=0", "sync_binlog@replica=1",
                "innodb_flush_log_at_trx_commit@replica=1", "fsync_delay@replica=0",
                "replica_parallel_workers@replica=4", "workload=insert", f"load_mode={OPEN}",
                f"rate={_RATE_TPS}", "clients=16",
            ),
            "300 commits a second, received and applied",
        ),
        _phase(
            _SLOW,
            (f"fsync_delay@replica={_FSYNC_MS}ms", "replica_parallel_workers@replica=1"),
            "its disk takes 5 ms for an fsync and one worker applies: it acknowledges as before",
        ),
        _phase(
            _PARALLEL,
            ("replica_parallel_workers@replica=16",),
            "the same disk: sixteen workers commit in groups and share each fsync",
        ),
    ),
    judge=_judge,
)  # fmt: skip
