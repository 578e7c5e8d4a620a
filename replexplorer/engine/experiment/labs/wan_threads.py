"""wan-threads: what more threads win across 78 ms (docs/labs.md, after Jay Janssen)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from replexplorer.core.server.protection import ProtectionState
from replexplorer.engine.experiment.labs.evidence import faster, one_commit_a_round_trip, printed, protected
from replexplorer.engine.experiment.labs.lab import (
    Lab,
    Length,
    Phase,
    Phases,
    Publication,
    Published,
    Reference,
    Relation,
)

_LOW, _HIGH = 0.93, 1.02
_TIMES = 8
_ROWS = 250_000
_POINTS = ("AFTER_SYNC", "AFTER_COMMIT")


def _name(point: str, clients: int) -> str:
    return f"{point}, {clients} thread{'s' if clients > 1 else ''}"


def _judge(phases: Phases) -> Sequence[Relation]:
    async_ = phases["async, 1 thread"]
    relations = [protected(tuple(phases.values()))]
    for point in _POINTS:
        one, many = phases[_name(point, 1)], phases[_name(point, 32)]
        relations.append(one_commit_a_round_trip(one, async_.mean_ms, _LOW, _HIGH))
        relations.append(faster(many, one, _TIMES))
        relations.append(
            printed(
                f"{point}: a thread's own commit with 32 threads and with 1",
                f"{many.mean_ms:.1f} ms and {one.mean_ms:.1f} ms",
                ratio=many.mean_ms / one.mean_ms if one.service.count else None,
            )
        )
    return relations


def _before(phases: Phases) -> Sequence[Reference]:
    """What 5.5 and 5.6 could commit here: their dump thread waits for each acknowledgement before it sends
    the next transaction (worklog 6630), so once a round trip with any number of threads."""
    rtt_ms = phases[_name("AFTER_SYNC", 32)].rtt_measured_ms
    return (
        (Reference("before MySQL 5.7, 1 / RTT with any number of threads", 1000 / rtt_ms),) if rtt_ms else ()
    )


def _phases() -> Iterator[Phase]:
    yield Phase(
        "async, 1 thread",
        (
            "semi_sync=off", "wait_point=after_sync", "sync_binlog=1", "innodb_flush_log_at_trx_commit=1",
            "workload=update_index", "load_mode=closed", "clients=1", "rtt=78ms",
        ),
        full=Length(60),
        quick=Length(5),
        state=ProtectionState.OFF,
        shows="what one thread commits without waiting for a replica",
        published=Published(273, "tps"),
        table_size=_ROWS,
    )  # fmt: skip
    for point in _POINTS:
        for clients in (1, 32):
            settings = ("semi_sync=on", f"wait_point={point.lower()}", f"clients={clients}")
            yield Phase(
                _name(point, clients),
                settings,
                full=Length(60),
                quick=Length(12 if clients == 1 else 6),
                state=ProtectionState.PROTECTED,
                shows="one commit a round trip" if clients == 1 else "waits overlap since MySQL 5.7",
                table_size=_ROWS,
            )


WAN_THREADS = Lab(
    name="wan-threads",
    title="1 and 32 threads across 78 ms",
    teaches="Since MySQL 5.7 waits for acknowledgements overlap: threads hide the round trip, one cannot.",
    source=Publication(
        "Semi-Sync replication performance in MySQL 5.7.4 DMR",
        "Jay Janssen",
        "https://rimzy.net/category/semi-sync-replication/",
        "m3.medium us-east-1 / us-west-1, ping 78 ms, flush=1, sync_binlog=1, sysbench 0.5 update_index",
    ),
    phases=tuple(_phases()),
    judge=_judge,
    references=_before,
    failure="counted on MySQL 9.7.4: of a source that is lost neither wait point loses an acknowledged"
    " commit; under AFTER_COMMIT 8 rows that other sessions had read were gone, one of each client,"
    " under AFTER_SYNC none",
)
