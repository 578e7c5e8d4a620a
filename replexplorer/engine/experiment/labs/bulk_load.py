"""bulk-load: what semi-sync adds to each of 300,000 single-row INSERTs (docs/labs.md, after Maxia)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.stats.histogram import Histogram
from replexplorer.engine.experiment.labs.evidence import printed, protected, within
from replexplorer.engine.experiment.labs.lab import (
    Act,
    Lab,
    Length,
    Phase,
    PhaseResult,
    Phases,
    Played,
    Publication,
    Published,
    Relation,
)

_ROWS = 300_024
_REGULAR_S, _SEMI_SYNC_S = 27.997, 84.277
_ADDED_US = (_SEMI_SYNC_S - _REGULAR_S) / _ROWS * 1e6
_FULL, _QUICK = 20_000, 1_200
_ADDED_WITHIN = 0.35
_SAME_WITHIN = 0.15
_TABLE = "replexplorer.employees_dump"
_COLUMNS = (
    "emp_no INT NOT NULL, birth_date DATE NOT NULL, first_name VARCHAR(14) NOT NULL, "
    "last_name VARCHAR(16) NOT NULL, gender ENUM('M','F') NOT NULL, hire_date DATE NOT NULL, "
    "PRIMARY KEY (emp_no)"
)
_DEADLINE_S = 30.0
_TELL_EVERY = 100


def _name(semi: bool, replicas: int, form: str, again: bool = False) -> str:
    how = "semi-sync" if semi else "async"
    where = "one replica" if replicas == 1 else "two replicas"
    return f"{how}, {where}, {form}{', again' if again else ''}"


def _judge(phases: Phases) -> Sequence[Relation]:
    receive_ms = phases["semi-sync, rtt 0"].mean_ms - phases["async, rtt 0"].mean_ms
    relations = [
        protected(tuple(phases.values())),
        printed("receive cost: semi-sync minus async at rtt 0", f"{receive_ms * 1000:.0f} us per commit"),
    ]
    for replicas in (1, 2):
        for form in ("ROW", "STATEMENT"):
            semi, async_ = phases[_name(True, replicas, form)], phases[_name(False, replicas, form)]
            relations.append(_added(semi, async_, receive_ms))
    one = _both(phases, 1)
    two = _both(phases, 2)
    row, statement = phases[_name(True, 1, "ROW")].mean_ms, phases[_name(True, 1, "STATEMENT")].mean_ms
    same = (1 - _SAME_WITHIN, 1 + _SAME_WITHIN)
    slower = phases[_name(True, 1, "ROW")].mean_ms / phases[_name(False, 1, "ROW")].mean_ms
    return (
        *relations,
        within("semi-sync: two replicas take as long as one", two / one, *same),
        within("semi-sync: ROW takes as long as STATEMENT", row / statement, *same),
        printed(
            "semi-sync takes longer than async",
            f"{slower:.1f} times as long; published: {_SEMI_SYNC_S / _REGULAR_S:.1f} times",
        ),
    )


def _both(phases: Phases, replicas: int) -> float:
    """Mean of the two alternating runs, weighted by their commits."""
    results = [phases[_name(True, replicas, "ROW", again)] for again in (False, True)]
    total_us = sum(each.service.sum_us for each in results)
    return total_us / max(1, sum(each.service.count for each in results)) / 1000


def _added(semi: PhaseResult, async_: PhaseResult, receive_ms: float) -> Relation:
    """What semi-sync adds to a commit is about one round trip."""
    name = f"{semi.phase.name}: adds the RTT and the receive cost, within {_ADDED_WITHIN:.0%}"
    if semi.rtt_measured_ms is None:
        return Relation(name, False, "no round trip was measured")
    added_ms, expected_ms = semi.mean_ms - async_.mean_ms, semi.rtt_measured_ms + receive_ms
    holds = abs(added_ms - expected_ms) <= _ADDED_WITHIN * expected_ms
    low_us, high_us = (1000 * expected_ms * (1 + side * _ADDED_WITHIN) for side in (-1, 1))
    would_hold = "" if holds else f"; {low_us:.0f} to {high_us:.0f} us would hold"
    return Relation(
        name,
        holds,
        f"{added_ms * 1000:.0f} us, RTT {semi.rtt_measured_ms * 1000:.0f} + receive cost"
        f" {receive_ms * 1000:.0f} = {expected_ms * 1000:.0f} us{would_hold}"
        f" (published {_ADDED_US:.0f} us per commit at an unknown RTT)",
    )


def _phase(name: str, settings: tuple[str, ...], semi: bool, shows: str, replicas: int) -> Phase:
    published_s = _SEMI_SYNC_S if semi else _REGULAR_S
    return Phase(
        name,
        (f"semi_sync={'on' if semi else 'off'}", *settings),
        full=Length(45 if semi else 20, _FULL),
        quick=Length(5 if semi else 2, _QUICK),
        state=ProtectionState.PROTECTED if semi else ProtectionState.OFF,
        shows=shows,
        published=None if "rtt 0" in name else Published(published_s, "s"),
        replicas=replicas,
    )


def _phases() -> Iterator[Phase]:
    first = (
        "wait_point=after_sync", "sync_binlog=0", "innodb_flush_log_at_trx_commit=0", "workload=employees",
        "load_mode=closed", "clients=1", "semi_sync_replicas=1", "binlog_format=row", "rtt=0",
    )  # fmt: skip
    yield _phase("async, rtt 0", first, False, "what an INSERT costs next door", 1)
    yield _phase("semi-sync, rtt 0", ("rtt=0",), True, "and what receiving it adds", 1)
    for form in ("ROW", "STATEMENT"):
        order = [(1, False), (2, False), (1, True), (2, True)] if form == "ROW" else [(1, False), (2, False)]
        for replicas, again in order:
            settings = ("rtt=2ms", f"binlog_format={form.lower()}")
            for semi in (False, True):
                if again and not semi:
                    continue
                shows = "each commit waits for the first acknowledgement" if semi else "commits do not wait"
                yield _phase(_name(semi, replicas, form, again), settings, semi, shows, replicas)


def bulk_load_of(rows: Callable[[], Iterator[str]]) -> Lab:
    """The lab with the rows of a dump, `(10001,'1953-09-02',...)` each, inserted by one session of its own;
    each phase begins at the dump's first row."""
    play = partial(_insert, rows=rows)
    first, *others = (replace(phase, play=play) for phase in BULK_LOAD.phases)
    # The load rests: the dump is the only one that inserts.
    first = replace(first, settings=(*first.settings, "clients=0"))
    return replace(BULK_LOAD, phases=(first, *others))


async def _insert(act: Act, rows: Callable[[], Iterator[str]]) -> Played:
    """Single-row INSERTs, one commit each, through one session."""
    commits = act.phase.length(quick=act.quick).commits or _QUICK
    clock, service = act.rig.clock, Histogram()
    sql = act.rig.sql(act.rig.seen.source)
    try:
        await sql.query(f"DROP TABLE IF EXISTS {_TABLE}", deadline_s=_DEADLINE_S)
        await sql.query(f"CREATE TABLE {_TABLE} ({_COLUMNS}) ENGINE=InnoDB", deadline_s=_DEADLINE_S)
        began_s = before_s = clock.monotonic()
        for number, row in enumerate(islice(rows(), commits)):
            await sql.query(f"INSERT INTO {_TABLE} VALUES {row}", deadline_s=_DEADLINE_S)
            now_s = clock.monotonic()
            service.record(round((now_s - before_s) * 1e6))
            before_s = now_s
            if number % _TELL_EVERY == 0:
                act.tell(
                    f"{number:,} rows, {number / max(now_s - began_s, 1e-3):,.0f} a second", number / commits
                )
    finally:
        await sql.query(f"DROP TABLE IF EXISTS {_TABLE}", deadline_s=_DEADLINE_S)
        await sql.close()
    return Played(service=service, duration_s=before_s - began_s)


BULK_LOAD = Lab(
    name="bulk-load",
    title="Single-row INSERTs with one and with two replicas",
    teaches="Semi-sync adds about one round trip to each commit, with one replica or two, ROW or STATEMENT.",
    source=Publication(
        "semi-synchronous replication performance",
        "Giuseppe Maxia",
        None,
        "the employees table, 300,024 single-row INSERTs through one client, one source and two replicas",
    ),
    phases=tuple(_phases()),
    judge=_judge,
    replicas=2,
)
