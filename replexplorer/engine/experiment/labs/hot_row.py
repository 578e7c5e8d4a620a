"""hot-row: AFTER_SYNC keeps the row lock across the network, AFTER_COMMIT does not (docs/labs.md)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replexplorer.core.server.protection import ProtectionState
from replexplorer.engine.experiment.labs.evidence import compared, faster, protected
from replexplorer.engine.experiment.labs.lab import (
    Lab,
    Length,
    Phase,
    Phases,
    Publication,
    Published,
    Relation,
)

_SLACK = 1.1
_TIMES = 4
_REFERENCE = {
    ("AFTER_SYNC", 1): 16.0,
    ("AFTER_SYNC", 200): 113.0,
    ("AFTER_COMMIT", 1): 120.0,
    ("AFTER_COMMIT", 200): 124.0,
}


def _name(point: str, rows: int) -> str:
    return f"{point}, {'one row' if rows == 1 else f'{rows} rows'}"


def _judge(phases: Phases) -> Sequence[Relation]:
    hot, released = phases[_name("AFTER_SYNC", 1)], phases[_name("AFTER_COMMIT", 1)]
    name = f"AFTER_SYNC on one row: TPS at most {_SLACK:g} / RTT"
    rtt_ms = hot.rtt_measured_ms
    bound_tps = _SLACK * 1000 / rtt_ms if rtt_ms else 0.0
    holds = 0 < hot.tps <= bound_tps
    return (
        protected(tuple(phases.values())),
        Relation(
            name,
            holds,
            compared(f"{hot.tps:.1f}", "<=", f"{bound_tps:.1f}", "TPS", holds=holds),
            ratio=hot.tps * rtt_ms / 1000 if rtt_ms else None,
            most=_SLACK,
        ),
        faster(released, hot, _TIMES),
    )


def _phases() -> Iterator[Phase]:
    first = (
        "semi_sync=on", "sync_binlog=0", "innodb_flush_log_at_trx_commit=0", "workload=update_index",
        "load_mode=closed", "clients=8", "rtt=60ms",
    )  # fmt: skip
    for (point, rows), tps in _REFERENCE.items():
        yield Phase(
            _name(point, rows),
            (*first, f"wait_point={point.lower()}", f"key_spread={rows}"),
            full=Length(30),
            quick=Length(6),
            state=ProtectionState.PROTECTED,
            shows="eight clients want the same row" if rows == 1 else "eight clients, rows of their own",
            published=Published(tps, "tps"),
        )


HOT_ROW = Lab(
    name="hot-row",
    title="Eight clients on one row, by wait point",
    teaches="AFTER_SYNC holds the row's lock while it waits: one row takes one commit per round trip.",
    source=Publication(
        "Reference measurement", "replexplorer", None, "MySQL 9.7.4, 60 ms, 8 clients, no fsync"
    ),
    phases=tuple(_phases()),
    judge=_judge,
)
