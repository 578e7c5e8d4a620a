"""bulk-load: what semi-sync adds to each of 300,000 single-row INSERTs (docs/labs.md, after Maxia)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice

from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.stats.histogram import Histogram
from replexplorer.engine.experiment.labs.evidence import printed, protected, unchecked, within
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
_ROWS_A_S = 1_500
"""About what one client inserts next door."""
_REGULAR_S, _SEMI_SYNC_S = 27.997, 84.277
_ADDED_US = (_SEMI_SYNC_S - _REGULAR_S) / _ROWS * 1e6
_FULL_NEXT_DOOR, _FULL, _QUICK = 30_000, 5_000, 800
"""Rows of the phases that do not load all of them: at RTT 0, at 2 ms, and at 2 ms under --quick."""
_ADDED_WITHIN = 0.35
_SAME = (0.85, 1.15)
_TABLE = "replexplorer.employees_dump"
_COLUMNS = (
    "emp_no INT NOT NULL, birth_date DATE NOT NULL, first_name VARCHAR(14) NOT NULL, "
    "last_name VARCHAR(16) NOT NULL, gender ENUM('M','F') NOT NULL, hire_date DATE NOT NULL, "
    "PRIMARY KEY (emp_no)"
)
_DEADLINE_S = 30.0
_TELL_EVERY = 100


_ALL, _NEXT_DOOR = "all rows, ", "next door, "
_BARE_LINK = "here all servers share one machine's cores, which nothing else slows at this distance"


def _name(semi: bool, replicas: int, form: str) -> str:
    how = "semi-sync" if semi else "async"
    where = "one replica" if replicas == 1 else "two replicas"
    return f"{how}, {where}, {form}"


def _judge(phases: Phases) -> Sequence[Relation]:
    regular, semi_sync = phases[_ALL + "async"], phases[_ALL + "semi-sync"]
    receive_ms = semi_sync.mean_ms - regular.mean_ms
    slower = semi_sync.mean_ms / regular.mean_ms
    relations = [
        protected(tuple(phases.values())),
        printed("receive cost: semi-sync minus async at rtt 0", f"{receive_ms * 1000:.0f} us per commit"),
        printed(
            "all rows: semi-sync takes longer than async",
            f"{slower:.1f} times as long; published: {_SEMI_SYNC_S / _REGULAR_S:.1f} times",
            ratio=slower,
        ),
    ]
    for other in ("one replica", "STATEMENT"):
        share = phases[_NEXT_DOOR + other].mean_ms / semi_sync.mean_ms
        same = within(f"next door: {other} takes as long as two with ROW", share, *_SAME)
        relations.append(unchecked(same, _BARE_LINK))
    for replicas in (1, 2):
        for form in ("ROW", "STATEMENT"):
            semi, async_ = phases[_name(True, replicas, form)], phases[_name(False, replicas, form)]
            relations.append(_added(semi, async_, receive_ms))
    one_ms, two_ms = (phases[_name(True, replicas, "ROW")].mean_ms for replicas in (1, 2))
    statement_ms = phases[_name(True, 1, "STATEMENT")].mean_ms
    return (
        *relations,
        within("semi-sync: two replicas take as long as one", two_ms / one_ms, *_SAME),
        within("semi-sync: ROW takes as long as STATEMENT", one_ms / statement_ms, *_SAME),
    )


def _added(semi: PhaseResult, async_: PhaseResult, receive_ms: float) -> Relation:
    """What semi-sync adds to a commit is about one round trip."""
    name = f"{semi.phase.name}: adds the RTT and the receive cost, within {_ADDED_WITHIN:.0%}"
    if semi.rtt_measured_ms is None:
        return Relation(name, False, "no round trip was measured")
    added_ms, expected_ms = semi.mean_ms - async_.mean_ms, semi.rtt_measured_ms + receive_ms
    holds = abs(added_ms - expected_ms) <= _ADDED_WITHIN * expected_ms
    low_us, high_us = (1000 * expected_ms * (1 + side * _ADDED_WITHIN) for side in (-1, 1))
    would_hold = "" if holds else f"; {low_us:.0f} to {high_us:.0f} us would hold"
    ratio = added_ms / expected_ms if expected_ms else None
    return Relation(
        name,
        holds,
        f"{added_ms * 1000:.0f} us, RTT {semi.rtt_measured_ms * 1000:.0f} + receive cost"
        f" {receive_ms * 1000:.0f} = {expected_ms * 1000:.0f} us{would_hold}"
        f" (published {_ADDED_US:.0f} us per commit at an unknown RTT)",
        ratio=ratio,
        least=1 - _ADDED_WITHIN,
        most=1 + _ADDED_WITHIN,
    )


def _phase(name: str, settings: tuple[str, ...], semi: bool, shows: str, replicas: int) -> Phase:
    published_s = _SEMI_SYNC_S if semi else _REGULAR_S
    timed = name.startswith((_ALL, _NEXT_DOOR))
    if timed:
        rows = _ROWS if name.startswith(_ALL) else _FULL_NEXT_DOOR
        full, quick = Length(rows / _ROWS_A_S, rows), Length(2, 2 * _QUICK)
    else:
        full, quick = Length(15 if semi else 4, _FULL), Length(3 if semi else 1, _QUICK)
    return Phase(
        name,
        (f"semi_sync={'on' if semi else 'off'}", *settings),
        full=full,
        quick=quick,
        state=ProtectionState.PROTECTED if semi else ProtectionState.OFF,
        shows=shows,
        published=Published(published_s, "s", _ROWS) if timed else None,
        replicas=replicas,
    )


def _phases() -> Iterator[Phase]:
    first = (
        "wait_point=after_sync", "sync_binlog=0", "innodb_flush_log_at_trx_commit=0", "workload=employees",
        "load_mode=closed", "clients=1", "semi_sync_replicas=1", "binlog_format=row", "rtt=0",
    )  # fmt: skip
    yield _phase(_ALL + "async", first, False, "what an INSERT costs next door", 2)
    yield _phase(_ALL + "semi-sync", (), True, "and what receiving it adds", 2)
    yield _phase(_NEXT_DOOR + "one replica", (), True, "semi-sync, and the other replica is not there", 1)
    statement = ("binlog_format=statement",)
    yield _phase(_NEXT_DOOR + "STATEMENT", statement, True, "semi-sync of statements instead of rows", 2)
    for form in ("ROW", "STATEMENT"):
        for replicas in (1, 2):
            settings = ("rtt=2ms", f"binlog_format={form.lower()}")
            for semi in (False, True):
                shows = "each commit waits for the first acknowledgement" if semi else "commits do not wait"
                yield _phase(_name(semi, replicas, form), settings, semi, shows, replicas)


def bulk_load_of(rows: Callable[[], Iterator[str]]) -> Lab:
    """The lab with the rows of a dump, `(10001,'1953-09-02',...)` each, inserted by one session of its own;
    each phase begins at the dump's first row, and in full mode those of all rows load the whole dump."""
    play = partial(_insert, rows=rows)
    first, *others = (replace(phase, play=play) for phase in BULK_LOAD.phases)
    # The load rests: the dump is the only one that inserts.
    first = replace(first, settings=(*first.settings, "clients=0"))
    return replace(BULK_LOAD, phases=(first, *others))


async def _insert(act: Act, rows: Callable[[], Iterator[str]]) -> Played:
    """Single-row INSERTs, one commit each, through one session."""
    commits = act.phase.length(quick=act.quick).commits or _QUICK
    whole = act.phase.name.startswith(_ALL) and not act.quick
    clock, service = act.rig.clock, Histogram()
    sql = act.rig.sql(act.rig.seen.source)
    try:
        await sql.query(f"DROP TABLE IF EXISTS {_TABLE}", deadline_s=_DEADLINE_S)
        await sql.query(f"CREATE TABLE {_TABLE} ({_COLUMNS}) ENGINE=InnoDB", deadline_s=_DEADLINE_S)
        began_s = before_s = clock.monotonic()
        for number, row in enumerate(islice(rows(), None if whole else commits)):
            await sql.query(f"INSERT INTO {_TABLE} VALUES {row}", deadline_s=_DEADLINE_S)
            now_s = clock.monotonic()
            service.record(round((now_s - before_s) * 1e6))
            before_s = now_s
            if number % _TELL_EVERY == 0:
                pace = f"{number:,} rows, {number / max(now_s - began_s, 1e-3):,.0f} a second"
                act.tell(pace, min(1.0, number / commits))
    finally:
        await sql.query(f"DROP TABLE IF EXISTS {_TABLE}", deadline_s=_DEADLINE_S)
        await sql.close()
    return Played(service=service, duration_s=before_s - began_s)


BULK_LOAD = Lab(
    name="bulk-load",
    title="Single-row INSERTs with one and with two replicas",
    teaches="Semi-sync adds about one round trip to each commit, with one replica or two, ROW or STATEMENT.",
    source=Publication(
        "The price of safe data - Benchmarking semi synchronous replication",
        "Giuseppe Maxia",
        "https://datacharmer.blogspot.com/2011/05/",
        "the employees table, 300,024 single-row INSERTs through one client, one source and two replicas",
    ),
    phases=tuple(_phases()),
    judge=_judge,
    replicas=2,
)
