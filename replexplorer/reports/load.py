"""A load's figures: the interval line and the final report of ours, and what was captured of a server's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, field
from itertools import accumulate
from typing import Final, Literal

from replexplorer.core.experiment.drill_result import Passage
from replexplorer.core.json_keys import json_keys
from replexplorer.core.load.captured import CapturedLeftOut, CapturedWorkload
from replexplorer.core.load.interval import Interval, Measurement
from replexplorer.core.load.pacing import HIDES, OPEN
from replexplorer.core.loss.ledger import LossLedger
from replexplorer.core.records import dataclass, printed
from replexplorer.core.server.anatomy import Anatomy, Limit, limit_of
from replexplorer.core.server.counters import CommitCost
from replexplorer.core.server.protection import word_of
from replexplorer.core.server.truth import Lag
from replexplorer.core.stats.histogram import Latency
from replexplorer.core.system import Conditions
from replexplorer.core.text import number, table, utc_for_people
from replexplorer.ports import LoadSettings
from replexplorer.reports.conditions import cost_line
from replexplorer.reports.conditions import rows as condition_rows
from replexplorer.reports.report import Block, Report, ReportNotes, ReportTable, numbers, plain_text, words


@dataclass(slots=True)
class ClientLogHealth:
    """What the client log of the workload `ledger` costs."""

    fsyncs: int
    fsync_ms: float | None
    """Mean."""
    fsync_p99_ms: float | None
    wait_ms: float | None
    """Mean, of each transaction, before it was sent: in no latency."""
    wait_p99_ms: float | None
    wait_percent: float | None
    """Of a client's time: wait / (wait + latency)."""


@json_keys(
    hide="total",
    show="cpu_percent=total.cpu_percent lateness_p99_ms=total.lateness_p99_ms backlog_max=total.backlog_max"
    " dropped=total.dropped shares=total.work",
)
@printed
class GeneratorHealth:
    """The load generator's own health."""

    total: Interval
    """The whole run."""
    processes: int
    arrivals: int | None
    limited: str | None
    path: Literal["direct", "published"] | None
    client_log: ClientLogHealth | None


@json_keys(
    hide="interval service response",
    show="tps=interval.tps p50_ms=service.p50 p95_ms=service.p95 p99_ms=service.p99 errors=interval.errors"
    " response_p50_ms=response.p50 response_p95_ms=response.p95"
    " response_p99_ms=response.p99 unknown=interval.unknown reconnects=interval.reconnects",
)
@dataclass(slots=True)
class LoadInterval:
    """One second of a load."""

    t_s: float
    interval: Interval
    qps: float
    service: Latency
    response: Latency
    backlog: int | None
    dropped: int | None


@json_keys(
    hide="total settings",
    show="workload=settings.workload clients=settings.clients workload_text=settings.script"
    " duration_s=total.duration_s commits=total.commits errors=total.errors unknown=total.unknown"
    " reconnects=total.reconnects tps=total.tps latency_ms=total.service.latency"
    " deadlocks=total.deadlocks lock_timeouts=total.lock_timeouts conflicts=total.conflicts"
    " errors_by_number=total.errors_by_number",
)
@printed
class LoadReport:
    """`load --json`."""

    total: Interval
    """The whole run."""
    settings: LoadSettings
    mode: Literal["closed", "open"]
    rate_asked_tps: float | None
    response_ms: Latency | None
    generator: GeneratorHealth
    intervals: list[LoadInterval]
    qps: float
    queries: dict[Literal["read", "write", "other"], int]
    anatomy: Anatomy | None
    """Where the time of the mean commit went, by the server's counters."""
    commit_cost: CommitCost | None
    """Null where it is not known: a workload that reads, an early end."""
    hides: str
    started: str | None = None
    warmup_s: float
    table_size: int | None
    """Rows; null with a file of one's own."""
    interrupted: str | None = None
    """Why it ended before its time."""
    conditions: Conditions | None = None
    course: Passage | None = None
    ledger: LossLedger | None
    """Of the workload `ledger`: what became of its rows, the source the survivor."""
    lag_s: Lag | None
    """How far replicas were behind; null where none says."""
    limit: Limit | None
    """Null where nothing shows what it was."""
    again: list[str] = field(default_factory=list)
    """The commands that run the same elsewhere."""


_LEAST_SHARE = 0.5
"""Of the run's commits: an anatomy of fewer is not shown."""
_MOST_EVENTS = 12
"""Lines of what happened meanwhile."""
_EXCESS_FROM_MS = 0.005
"""By how much the parts must be more than the mean to be seen in two digits."""


def load_report(
    measured: Measurement,
    settings: LoadSettings,
    *,
    path: Literal["direct", "published"] | None,
    anatomy: Anatomy | None = None,
    warmup_s: float = 0.0,
    ledger: LossLedger | None = None,
    cost: CommitCost | None = None,
    machine_percent: float | None = None,
    lag: Lag | None = None,
) -> LoadReport:
    """The whole run: percentiles from the merged histogram, counts summed; the mean commit taken apart
    over what of it lies between two samples of the primary."""
    total, is_open = measured.total, settings.mode == OPEN
    limited = _limit(measured)
    limit = None
    if measured.intervals:
        limit = limit_of(total, limited=limited, machine_percent=machine_percent, anatomy=anatomy)
    ends_s = accumulate(each.duration_s for each in measured.intervals)
    return LoadReport(
        total=total,
        settings=settings,
        mode="open" if is_open else "closed",
        rate_asked_tps=settings.rate_tps if is_open else None,
        response_ms=total.response.latency if is_open else None,
        generator=GeneratorHealth(
            total=total,
            processes=total.processes or 1,
            arrivals=total.arrivals if is_open else None,
            limited=limited,
            path=path,
            client_log=_client_log(total),
        ),
        limit=limit,
        intervals=[_second(each, end_s) for each, end_s in zip(measured.intervals, ends_s, strict=True)],
        qps=total.qps,
        queries={"read": total.reads, "write": total.writes, "other": total.others},
        anatomy=anatomy,
        commit_cost=cost,
        lag_s=lag,
        hides=HIDES[settings.mode],
        warmup_s=warmup_s,
        ledger=ledger,
        table_size=settings.table_size if settings.script is None else None,
    )


def _second(interval: Interval, t_s: float) -> LoadInterval:
    queue = (interval.backlog, interval.dropped) if interval.mode == OPEN else (None, None)
    latencies = interval.service.latency, interval.response.latency
    return LoadInterval(t_s, interval, interval.qps, *latencies, *queue)


def _limit(measured: Measurement) -> str | None:
    """What limited the whole run, or the interval in which most arrivals waited."""
    worst = max(measured.intervals, key=lambda each: each.backlog, default=measured.total)
    if worst.backlog and worst.limited is not None:
        return worst.limited
    return measured.total.limited


def _client_log(total: Interval) -> ClientLogHealth | None:
    """What noting each row cost; None for a load that notes nothing."""
    synced, waited = total.log_sync, total.log_wait
    if not synced.count:
        return None
    spent_us = waited.sum_us + total.service.sum_us
    share = 100 * waited.sum_us / spent_us if spent_us else None
    of_sync, of_wait = synced.latency, waited.latency
    return ClientLogHealth(synced.count, of_sync.mean, of_sync.p99, of_wait.mean, of_wait.p99, share)


@dataclass(eq=False)
class IntervalLines:
    """The lines of a running load, numbered from the first interval that counts: by its seconds, or by its
    intervals where they are shorter."""

    _warmup_s: float
    _interval_s: float = 1.0
    _counts_from_s: float | None = None
    _from_s: float | None = None
    """Begin of the first that counts."""

    def line(self, interval: Interval) -> str | None:
        """The interval's line; None while the table is prepared and while the load warms up."""
        if interval.state in ("preparing", "drained"):
            return None
        if self._counts_from_s is None:
            self._counts_from_s = interval.start_s + self._warmup_s
        if interval.start_s < self._counts_from_s - 1e-3:
            return None
        if self._from_s is None:
            self._from_s = interval.start_s
        return interval_line(interval, round((interval.end_s - self._from_s) / self._interval_s))


def interval_line(interval: Interval, second: int) -> str:
    """One interval as sysbench 1.0 prints it, so that existing parsers read it.

    In the open loop the latency is the response time, and a line with the queue follows, as with
    sysbench's `--rate`.
    """
    counts = (
        interval.reads,
        interval.writes,
        interval.others,
        interval.errors + interval.unknown + interval.retries,
        interval.reconnects,
    )
    seconds = interval.duration_s
    reads, writes, others, errors, reconnects = (count / seconds if seconds > 0 else 0.0 for count in counts)
    line = (
        f"[ {second}s ] thds: {interval.clients} tps: {interval.tps:.2f} "
        f"qps: {interval.qps:.2f} (r/w/o: {reads:.2f}/{writes:.2f}/{others:.2f}) "
        f"lat (ms,95%): {interval.latency.percentile_ms(95) or 0.0:.2f} "
        f"err/s: {errors:.2f} reconn/s: {reconnects:.2f}"
    )
    if interval.mode == OPEN:
        line += f"\n[ {second}s ] queue length: {interval.backlog}, concurrency: {interval.under_way}"
        line += f", dropped: {interval.dropped}" if interval.dropped else ""
    return line


def render(report: LoadReport) -> str:
    """The final report for people."""
    return table(list(_rows(report)))


def _rows(report: LoadReport) -> Iterator[tuple[str, str]]:
    loop, total = "closed loop", report.total
    if report.rate_asked_tps is not None:
        loop = f"open loop at {number(report.rate_asked_tps)} TPS"
    yield "workload", f"{report.settings.workload}, {report.settings.clients} clients, {loop}"
    when = "" if report.started is None else f", from {utc_for_people(report.started)}"
    when += "" if report.interrupted is None else f"; ended early: {report.interrupted}"
    yield "commits", f"{total.commits:,} in {total.duration_s:.1f} s{when}"
    yield "TPS", f"{number(total.tps, 2)} ({number(report.qps, 2)} statements per second)"
    yield "latency ms", _spread(total.service.latency)
    if report.response_ms is not None:
        yield "response ms", f"{_spread(report.response_ms)}  (from the intended start)"
    if report.anatomy is not None:
        yield "commit ms", _taken_apart(report.anatomy, total.commits)
    if report.commit_cost is not None:
        yield "a commit costs", cost_line(report.commit_cost)
    if report.lag_s is not None:
        yield "lag", report.lag_s.words
    trouble = f"errors {total.errors}, outcome unknown {total.unknown}, reconnects {total.reconnects}"
    retried = {
        "deadlocks": total.deadlocks, "lock timeouts": total.lock_timeouts, "conflicts": total.conflicts,
    }  # fmt: skip
    if any(retried.values()):
        trouble += f"; retried: {', '.join(f'{name} {times}' for name, times in retried.items() if times)}"
    if total.errors_by_number:
        counts = ", ".join(f"{name}: {times}" for name, times in total.errors_by_number.items())
        trouble += f"; by number {counts}"
    yield "trouble", trouble
    yield from _generator_rows(report)
    if (ledger := report.ledger) is not None:
        lacks = "; ".join(f"{name} lacks {node.missing:,}" for name, node in ledger.nodes.items())
        phantoms = f"; phantom reads {ledger.phantom_reads:,}" if ledger.phantom_reads else ""
        counts = f"{ledger.acknowledged:,} acknowledged, {ledger.failed:,} failed, {ledger.unknown:,} unknown"
        yield "ledger", f"{counts}: {lacks}{phantoms}"
    if report.limit is not None:
        yield "limit", f"{report.limit.by}: {report.limit.words}"
        limited = report.generator.limited
        if limited is not None and limited not in report.limit.words:
            yield "", limited
    yield "mode", report.hides
    if report.conditions is not None:
        yield from condition_rows(report.conditions)
    if report.course is not None:
        yield from _course_rows(report.course)


def _generator_rows(report: LoadReport) -> Iterator[tuple[str, str]]:
    found, total = report.generator, report.total
    health = (
        f"{found.processes} process{'es' * (found.processes > 1)}, CPU {number(total.cpu_percent, 0)} %, "
        f"lateness p99 {number(total.lateness_p99_ms, 2)} ms, path {found.path or 'unknown'}"
    )
    if report.mode == "open":
        health += f"; backlog at most {total.backlog_max}, dropped {total.dropped}"
    yield "generator", health
    for each in total.work if len(total.work) > 1 else ():
        shown = f"{each.clients} clients: {number(each.tps, 2)} TPS, CPU {number(each.cpu_percent, 0)} %"
        yield f"  process {each.number}", shown
    if (noted := found.client_log) is not None:
        yield (
            "client log",
            f"{noted.fsyncs:,} fsyncs of {number(noted.fsync_ms, 2)} ms; a row waits "
            f"{number(noted.wait_ms, 2)} ms before it is sent, {number(noted.wait_percent, 0)} % of a "
            "client's time, in no latency above",
        )


def _course_rows(course: Passage) -> Iterator[tuple[str, str]]:
    """Protection, and what happened, a line each."""
    states = ", ".join(f"{word_of(state)} {seconds:.1f} s" for state, seconds in course.seconds.items())
    told, falls = [states or "not seen"], course.fallbacks
    if falls:
        told.append(f"fell back to asynchronous {falls} time{'s' * (falls != 1)}")
    if course.unprotected:
        told.append(f"{course.unprotected:,} commits that no replica had")
    yield "protection", "; ".join(told)
    for at, event in enumerate(course.events[:_MOST_EVENTS]):
        yield "meanwhile" * (not at), f"{event.t_s:.1f} s: {event.text}"
    if (rest := len(course.events) - _MOST_EVENTS) > 0:
        yield "", f"{rest} more, in --json"


def _spread(lat: Latency) -> str:
    """A distribution in one line."""
    return "  ".join(f"{name} {number(value, 2)}" for name, value in asdict(lat).items())


def _taken_apart(found: Anatomy, commits: int) -> str:
    """The parts of the mean commit in one line; not of a small part of the run, which says little of all."""
    if found.commits < _LEAST_SHARE * commits:
        return f"not taken apart: the server was read around {found.commits:,} of {commits:,} commits alone"
    parts = "  ".join(f"{part.value.replace('_', ' ')} {number(ms, 2)}" for part, ms in found.parts.items())
    told = f"mean {number(found.mean_ms, 2)} of {found.commits:,} of {commits:,} commits"
    if found.excess_ms >= _EXCESS_FROM_MS:
        told += f"; together the parts are {number(found.excess_ms, 2)} more"
    return f"{parts}  ({told}{f'; {found.untimed_words}' if found.untimed else ''})"


# -- a server's load

_MOST_SHOWN: Final = 12
_STATEMENT_SHOWN: Final = 60


def captured_text(found: CapturedWorkload, columns: int | None) -> str:
    """What was captured of a server, in words."""
    share = found.imitated / found.statements if found.statements else 0.0
    told = (
        f"{found.address} ({found.server}), {found.duration_s:.0f} s:"
        f" {number(found.statements / found.duration_s)} statements/s, {share:.1%} of them imitated"
    )
    kinds = [
        (
            number(each.tps),
            f"{each.share:.1%}",
            str(len(each.statements)),
            each.boundaries,
            _shortened(each.statements),
        )
        for each in found.transactions[:_MOST_SHOWN]
    ]
    rest = len(found.transactions) - _MOST_SHOWN
    heads = (*numbers("TPS", "share", "statements"), *words("boundaries", "transaction"))
    sizes = [
        (f"{each.database}.{each.table}", f"{each.rows_there:,}", f"{each.rows:,}") for each in found.tables
    ]
    blocks: list[Block] = [
        ReportTable(heads, kinds, note=f"... and {rest} more kinds" if rest > 0 else ""),
        ReportTable((*words("table"), *numbers("rows there", "rows made")), sizes),
        ReportNotes(found.notes, "not as it was:"),
        ReportNotes([_left(each, found) for each in found.left_out], "left out:"),
    ]
    return plain_text(Report(told, (), blocks), columns)


def _left(left: CapturedLeftOut, found: CapturedWorkload) -> str:
    share, cpu = left.times / max(1, found.statements), left.server_ms / found.duration_s / 10
    return (
        f"{number(left.times / found.duration_s)}/s ({share:.1%} of the statements, {cpu:.2f} % of a core's"
        f" time): {left.reason}"
    )


def _shortened(statements: Sequence[str]) -> str:
    """Each statement once with how often it comes, the first two of them."""
    counted = Counter(statements)
    shown = [
        f"{times} x {_clipped(text)}" if times > 1 else _clipped(text)
        for text, times in list(counted.items())[:2]
    ]
    more = f"; and {len(counted) - 2} more" if len(counted) > 2 else ""
    return "; ".join(shown) + more


def _clipped(text: str) -> str:
    plain = text.replace("`", "")
    return plain if len(plain) <= _STATEMENT_SHOWN else f"{plain[: _STATEMENT_SHOWN - 1]}…"
