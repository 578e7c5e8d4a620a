"""group-delay: waiting for company before a slow fsync, at many clients and at one (docs/labs.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import inf
from typing import Final

from replexplorer.core.server.protection import ProtectionState
from replexplorer.engine.experiment.labs.evidence import at_least, faster, printed, within
from replexplorer.engine.experiment.labs.lab import (
    Act,
    Lab,
    Length,
    Phase,
    PhaseResult,
    Phases,
    Played,
    Relation,
)

_FSYNC_MS: Final = 20
_DELAY_US: Final = 2_000
_MANY: Final = 32
_GAIN: Final = 1.15
_COST: Final = (0.7, 2.0)
"""Of the delay: the leader's sleep ends late rather than early, and medians are known within 1 %."""
_WARMUP_S: Final = 1.5
_GROUP = "commits per binlog fsync"
_KINDS: Final = {
    "no delay": (0, 0),
    "delay": (_DELAY_US, 0),
    "delay until all are there": (_DELAY_US, _MANY),
}
"""How long a group waits in us, and for how many commits at most; 0: for as long as that."""


def _mysql(delay_us: int, count: int) -> tuple[str, ...]:
    return f"binlog_group_commit_sync_delay={delay_us}", f"binlog_group_commit_sync_no_delay_count={count}"


def _mariadb(delay_us: int, count: int) -> tuple[str, ...]:
    """It waits for a number of commits, and without one for none; more than there are clients never come."""
    awaited = count or 10 * _MANY if delay_us else 0
    return f"binlog_commit_wait_usec={delay_us}", f"binlog_commit_wait_count={awaited}"


def _name(kind: str, clients: int) -> str:
    return f"{kind}, {clients} client{'s' if clients > 1 else ''}"


async def _play(act: Act) -> Played:
    """Measure the load, and count the binlog's fsyncs meanwhile."""
    rig, length_s = act.rig, act.phase.length(quick=act.quick).seconds
    clock, source = rig.clock, rig.seen.source
    await rig.load.follow()
    await clock.sleep(_WARMUP_S)
    first, from_s = await rig.look(), clock.monotonic()
    found = await rig.load.measure(
        duration_s=length_s,
        on_interval=lambda _: act.tell("measuring", min(1.0, (clock.monotonic() - from_s) / length_s)),
    )
    last, passed_s = await rig.look(), clock.monotonic() - from_s
    counted = [each.disks[source].fsyncs if source in each.disks else None for each in (first, last)]
    figures: dict[str, float | str] = {}
    if counted[0] is not None and counted[1] is not None:
        fsyncs_a_s = (counted[1].get("binlog", 0) - counted[0].get("binlog", 0)) / passed_s
        figures["binlog fsyncs a second"] = fsyncs_a_s
        figures[_GROUP] = found.load.tps / fsyncs_a_s if fsyncs_a_s else "-"
    return Played.of(found, figures)


def _judge(phases: Phases) -> Sequence[Relation]:
    alone, delayed = (phases[_name(kind, 1)] for kind in ("no delay", "delay"))
    many, together = (phases[_name(kind, _MANY)] for kind in ("no delay", "delay"))
    counted = phases[_name("delay until all are there", _MANY)]
    added_ms = _median_ms(delayed) - _median_ms(alone)
    groups = [float(each.figures.get(_GROUP, "nan")) for each in (many, together)]
    return (
        faster(together, many, _GAIN),
        at_least("its groups are larger", groups[1], groups[0], "commits per binlog fsync"),
        within(
            f"1 client pays the whole delay: {added_ms:.2f} ms of {_DELAY_US / 1000:g} ms",
            added_ms / (_DELAY_US / 1000),
            *_COST,
        ),
        printed(
            f"{_MANY} clients whose leader stops waiting when all are there, against the full delay",
            f"{counted.tps:.1f} against {together.tps:.1f} TPS",
            ratio=counted.tps / together.tps if together.tps else None,
        ),
    )


def _median_ms(result: PhaseResult) -> float:
    """Of a commit: one client's mean is moved by each pause of the machine."""
    return result.service.percentile_ms(50) or inf


def _phases(knobs: Callable[[int, int], tuple[str, ...]]) -> Iterator[Phase]:
    first = (
        "semi_sync=off", "sync_binlog=1", "innodb_flush_log_at_trx_commit=2", "rtt=0",
        f"fsync_delay={_FSYNC_MS}ms", "workload=update_index", "load_mode=closed",
    )  # fmt: skip
    for clients in (1, _MANY):
        for kind, (delay_us, count) in _KINDS.items():
            if clients == 1 and count:
                continue
            yield Phase(
                _name(kind, clients),
                (*first, *knobs(delay_us, count), f"clients={clients}"),
                full=Length(20),
                quick=Length(5),
                state=ProtectionState.OFF,
                shows=_shows(delay_us, clients),
                play=_play,
            )


def _shows(delay_us: int, clients: int) -> str:
    if not delay_us:
        return "who comes while the binlog is fsynced is in the next group"
    if clients == 1:
        return "nobody else comes, and the one commit waits for them all the same"
    return "who has just committed comes back in time for the group that is about to be fsynced"


_LAB = Lab(
    name="group-delay",
    title="Waiting for company before a slow fsync",
    teaches="A short sleep before the binlog's fsync makes one group of two; alone it is only a sleep.",
    phases=tuple(_phases(_mysql)),
    judge=_judge,
)
GROUP_DELAY = replace(_LAB, variants=(replace(_LAB, phases=tuple(_phases(_mariadb))),))
