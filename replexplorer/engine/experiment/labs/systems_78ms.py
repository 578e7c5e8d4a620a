"""systems-78ms: a commit across 78 ms in each system, alone, among many and on hot rows (docs/labs.md)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.system import ASYNC, GALERA, GROUP, System
from replexplorer.core.text import number
from replexplorer.engine.experiment.labs.contention import CLIENTS, HOT_ROWS, contend
from replexplorer.engine.experiment.labs.evidence import (
    at_most,
    below_the_round_trip,
    faster,
    one_commit_a_round_trip,
    printed,
    protected,
)
from replexplorer.engine.experiment.labs.lab import (
    GAVE_WAY,
    REFUSED,
    RETRIED,
    Lab,
    Length,
    Phase,
    PhaseResult,
    Phases,
    Publication,
    Published,
    Relation,
    Summary,
)

_ROWS: Final = 10_000
"""Drawn from evenly, so that 32 threads seldom want the same one."""
_LOW, _HIGH = 0.93, 1.02
_TIMES: Final = 8
_ASYNC_TIMES: Final = 4
_HOT_SLACK: Final = 1.1
_THREADS: Final = (1, 32)
_HOT: Final = "hot rows"


@dataclass(frozen=True, slots=True)
class _Way:
    """One way to keep several servers the same: a column of the table."""

    name: str
    system: System
    waits_for: str
    settings: tuple[str, ...] = ()
    """That make the system so."""
    all_write: tuple[str, ...] = ()
    """In their place for the hot rows: all members take writes."""
    published: str | None = None
    """Of one thread: as docs/labs.md says, by whom and where."""
    is_hot: bool = True

    @property
    def waits(self) -> bool:
        """A commit waits for another node."""
        return self.state is ProtectionState.PROTECTED

    @property
    def state(self) -> ProtectionState:
        """The protection state that each of its phases has."""
        return ProtectionState.OFF if "semi_sync=off" in self.settings else ProtectionState.PROTECTED

    def phase(self, threads: int) -> str:
        """The name of its phase with this many threads."""
        return f"{self.name}, {threads} thread{'s' if threads > 1 else ''}"

    @property
    def hot(self) -> str:
        """The name of its phase on hot rows."""
        return f"{self.name}, {_HOT}"


_WAYS: Final = (
    _Way(
        "async", ASYNC, "nobody", ("semi_sync=off", "wait_point=after_sync"),
        published="273 TPS", is_hot=False,
    ),
    _Way("AFTER_SYNC", ASYNC, "one replica", ("semi_sync=on", "wait_point=after_sync")),
    _Way(
        "AFTER_COMMIT", ASYNC, "one replica", ("semi_sync=on", "wait_point=after_commit"),
        published="102 ms at 100 ms",
    ),
    _Way(
        "Group Replication", GROUP, "most members", ("group_replication_single_primary_mode=on",),
        all_write=("group_replication_single_primary_mode=off",),
    ),
    _Way("Galera", GALERA, "all members", published="108 ms at 100 ms"),
)  # fmt: skip


def _found(result: PhaseResult, *names: str) -> float:
    """The sum of figures of a phase; one that it does not have is 0."""
    return sum(float(result.figures.get(name, 0.0)) for name in names)


def _judge(phases: Phases) -> Sequence[Relation]:
    async_ = phases[_WAYS[0].phase(1)]
    semi_sync = [each for each in _WAYS if each.system is ASYNC and each.waits]
    groups = [each for each in _WAYS if each.system.is_group]
    relations = [
        protected(tuple(phases[name] for each in semi_sync for name in _names(each))),
        _answered([phases[name] for each in groups for name in _names(each)]),
    ]
    for way in (*semi_sync, *groups):
        one, many = (phases[way.phase(threads)] for threads in _THREADS)
        relations += [
            below_the_round_trip(one, _HIGH),
            faster(async_, one, _ASYNC_TIMES),
            faster(many, one, _TIMES),
        ]
    relations += [
        one_commit_a_round_trip(phases[way.phase(1)], async_.mean_ms, _LOW, _HIGH) for way in semi_sync
    ]
    after_sync, after_commit = (phases[way.hot] for way in semi_sync)
    relations.append(_a_row_a_round_trip(after_sync))
    relations.append(faster(after_commit, after_sync))
    relations += [_nothing_lost(phases[way.hot]) for way in semi_sync]
    relations += [_some_lost(phases[way.hot]) for way in groups]
    relations.append(
        printed(
            "a lone commit, in round trips",
            ", ".join(
                f"{way.name} {number(_trips(phases[way.phase(1)]), 2)}" for way in (*semi_sync, *groups)
            ),
        )
    )
    return relations


def _names(way: _Way) -> Iterator[str]:
    """Its phases."""
    yield from map(way.phase, _THREADS)
    if way.is_hot:
        yield way.hot


def _answered(results: Sequence[PhaseResult]) -> Relation:
    """The groups had their majority at the end of each phase."""
    wrong = [
        f"{each.phase.name}: {each.protection.state}"
        for each in results
        if each.protection.state is not each.phase.state
    ]
    evidence = "; ".join(wrong) or f"{len(results)} of {len(results)} phases"
    return Relation("a majority of the group answered at each phase's end", not wrong, evidence)


def _a_row_a_round_trip(hot: PhaseResult) -> Relation:
    """AFTER_SYNC holds a row's lock while it waits."""
    name = f"{hot.phase.name}: TPS at most {_HOT_SLACK:g} x {HOT_ROWS} rows / RTT"
    if not hot.rtt_measured_ms:
        return Relation(name, False, "no round trip was measured")
    return at_most(name, hot.tps, _HOT_SLACK * HOT_ROWS * 1000 / hot.rtt_measured_ms, "TPS")


def _nothing_lost(hot: PhaseResult) -> Relation:
    """Who waits for a row's lock has it in the end."""
    count = _found(hot, RETRIED)
    name = f"{hot.phase.name}: no transaction is rolled back"
    return Relation(name, count == 0, f"{count:.0f} of {hot.service.count + count:.0f} tries")


def _some_lost(hot: PhaseResult) -> Relation:
    """A group orders two changes of one row, and rolls the second back."""
    told, counted = _found(hot, RETRIED), _found(hot, REFUSED, GAVE_WAY)
    evidence = (
        f"clients were told of {told:.0f} for {hot.service.count:,} commits; its members counted"
        f" {_found(hot, REFUSED):.0f} at certification"
    )
    if GAVE_WAY in hot.figures:
        evidence += f" and {_found(hot, GAVE_WAY):.0f} before it"
    return Relation(f"{hot.phase.name}: transactions are rolled back", told + counted > 0, evidence)


def _trips(result: PhaseResult) -> float | None:
    """Round trips that a mean commit takes; None where none was measured."""
    mean_ms, rtt_ms = result.service.mean_ms, result.rtt_measured_ms
    return mean_ms / rtt_ms if mean_ms and rtt_ms else None


def _summary(phases: Phases) -> Summary | None:
    """The systems side by side, as far as they were measured."""
    ways = [way for way in _WAYS if way.phase(1) in phases]
    if not ways:
        return None

    rows: list[tuple[str, Sequence[float | str | None]]] = [
        ("server", [phases[way.phase(1)].server for way in ways]),
        ("a commit waits for", [way.waits_for for way in ways]),
    ]
    for threads in _THREADS:
        results = [phases.get(way.phase(threads)) for way in ways]
        heading = f"{threads} thread{'s' if threads > 1 else ''}"
        rows += [
            (f"{heading}, TPS", _each(results, lambda each: each.tps)),
            (f"{heading}, at most", _each(results, lambda each: each.ceiling_tps)),
            (f"{heading}, predicted", _each(results, lambda each: each.predicted_tps)),
            (f"{heading}, mean ms", _each(results, lambda each: each.service.mean_ms)),
        ]
        if threads == 1:
            rows.append((f"{heading}, round trips", _each(results, _trips)))
            rows.append((f"{heading}, published", [way.published for way in ways]))
    hot = [phases.get(way.hot) for way in ways]
    rows.append((f"{_HOT}, TPS", _each(hot, lambda each: each.tps)))
    rows += [
        (f"{_HOT}, {name}", [_count(each, name) for each in hot]) for name in (RETRIED, REFUSED, GAVE_WAY)
    ]
    return Summary(
        f"commits a second across 78 ms; {_HOT}: {CLIENTS} clients on {HOT_ROWS} rows",
        tuple(way.name for way in ways),
        tuple((name, tuple(values)) for name, values in rows),
    )


def _each(
    results: Sequence[PhaseResult | None], pick: Callable[[PhaseResult], float | None]
) -> list[float | str | None]:
    """A figure of each; None of one that was not measured."""
    return [None if each is None else pick(each) for each in results]


def _count(result: PhaseResult | None, name: str) -> str | None:
    """A figure that counts; None where the phase has none."""
    if result is None or name not in result.figures:
        return None
    return f"{float(result.figures[name]):,.0f}"


def _phases() -> Iterator[Phase]:
    first = (
        "sync_binlog=1", "innodb_flush_log_at_trx_commit=1", "workload=update_index", "load_mode=closed",
        f"key_spread={_ROWS}", "rtt=78ms",
    )  # fmt: skip
    published: Mapping[str, Published] = {_WAYS[0].phase(1): Published(273, "tps")}
    for way in _WAYS:
        for threads in _THREADS:
            yield Phase(
                way.phase(threads),
                (*first, *way.settings, f"clients={threads}"),
                full=Length(30),
                quick=Length(6 if threads == 1 else 4),
                state=way.state,
                shows=f"a commit waits for {way.waits_for}" if threads == 1 else "commits wait together",
                published=published.get(way.phase(threads)),
                table_size=_ROWS,
                system=way.system.name,
            )
        if way.is_hot:
            yield Phase(
                way.hot,
                (*first, *(way.all_write or way.settings), "clients=0"),
                full=Length(30),
                quick=Length(5),
                state=way.state,
                shows=f"{CLIENTS} clients want the same {HOT_ROWS} rows, at every node that takes writes",
                play=contend,
                system=way.system.name,
            )


SYSTEMS_78MS = Lab(
    name="systems-78ms",
    title="Semi-sync, Group Replication, Galera across 78 ms",
    teaches="Whoever waits for another node commits once a round trip; threads hide it, and hot rows do not.",
    source=Publication(
        "Semi-Sync replication performance in MySQL 5.7.4 DMR",
        "Jay Janssen",
        "https://rimzy.net/category/semi-sync-replication/",
        "us-east-1 / us-west-1, ping 78 ms, flush=1, sync_binlog=1, sysbench 0.5 update_index",
    ),
    phases=tuple(_phases()),
    judge=_judge,
    summary=_summary,
)
