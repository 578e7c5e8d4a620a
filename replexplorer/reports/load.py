"""A foreground load's figures: the interval line, the final report, nothing that waits or reads."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Final, Literal

from replexplorer.core.experiment.drill_result import Passage
from replexplorer.core.load.interval import Interval, Measurement
from replexplorer.core.load.pacing import HIDES, OPEN
from replexplorer.core.loss.ledger import LossLedger
from replexplorer.core.server.anatomy import Anatomy, Limit, limit_of
from replexplorer.core.server.counters import CommitCost
from replexplorer.core.server.protection import word_of
from replexplorer.core.stats.histogram import Histogram, Latency
from replexplorer.core.system import Conditions
from replexplorer.core.text import number, table, utc, utc_for_people
from replexplorer.ports import LoadSettings
from replexplorer.reports.conditions import cost_line
from replexplorer.reports.conditions import rows as condition_rows


@dataclass(kw_only=True, slots=True)
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


@dataclass(kw_only=True, slots=True)
class ProcessShare:
    """What one process of the generator did of the load."""

    process: int
    """From 1; the first one prepares the tables."""
    clients: int
    commits: int
    tps: float
    share_percent: float | None
    """Of the load's commits; null where there are none."""
    cpu_percent: float
    """Of one core."""


@dataclass(kw_only=True, slots=True)
class GeneratorHealth:
    """The load generator's own health."""

    processes: int
    cpu_percent: float | None
    lateness_p99_ms: float | None
    backlog_max: int | None = None
    dropped: int | None = None
    arrivals: int | None = None
    limited: str | None = None
    path: Literal["direct", "published"] | None
    client_log: ClientLogHealth | None = None
    shares: list[ProcessShare] = field(default_factory=list)
    """Of each process; they add up to the load."""


@dataclass(kw_only=True, slots=True)
class LoadInterval:
    """One second of a load."""

    t_s: float
    tps: float
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    errors: int
    qps: float
    response_p50_ms: float | None
    response_p95_ms: float | None
    response_p99_ms: float | None
    backlog: int | None
    dropped: int | None
    unknown: int
    reconnects: int


@dataclass(kw_only=True, slots=True)
class StatementLatency:
    """One class of statements of the workload."""

    name: str
    n: int
    latency_ms: Latency


@dataclass(kw_only=True, slots=True)
class CourseEvent:
    """Something that happened in a measurement: a knob turned, a fault, a change of state."""

    t_s: float
    """Since the measurement began."""
    at: str
    severity: str
    text: str


@dataclass(kw_only=True, slots=True)
class LoadCourse:
    """What a measurement went through."""

    protection_s: dict[str, float]
    """Seconds in each protection state."""
    fallbacks: int | None
    """Falls back to asynchronous by a timeout."""
    unprotected_commits: int | None
    """Acknowledged while semi-sync was on and no replica had them, by the server's count."""
    events: list[CourseEvent]


@dataclass(kw_only=True, slots=True)
class LoadReport:
    """`load --json`."""

    workload: str
    mode: Literal["closed", "open"]
    clients: int
    rate_asked_tps: float | None
    duration_s: float
    commits: int
    errors: int
    unknown: int
    reconnects: int
    tps: float
    latency_ms: Latency
    response_ms: Latency | None
    generator: GeneratorHealth
    intervals: list[LoadInterval]
    qps: float
    queries: dict[Literal["read", "write", "other"], int]
    deadlocks: int
    lock_timeouts: int
    conflicts: int = 0
    """Transactions that were retried because another changed a row first: a group's certification refused
    them, or MariaDB's snapshot isolation did."""
    errors_by_number: dict[str, int]
    statements: list[StatementLatency] | None
    anatomy: Anatomy | None
    """Where the time of the mean commit went, by the server's counters."""
    commit_cost: CommitCost | None = None
    """Null where it is not known: a workload that reads, an early end."""
    hides: str
    started: str | None = None
    warmup_s: float = 0.0
    table_size: int | None = None
    """Rows; null with a file of one's own."""
    workload_text: str | None = None
    """Of a file of one's own."""
    interrupted: str | None = None
    """Why it ended before its time."""
    conditions: Conditions | None = None
    course: LoadCourse | None = None
    ledger: LossLedger | None = None
    """Of the workload `ledger`: what became of its rows, the source the survivor."""
    limit: Limit | None = None
    """Null where nothing shows what it was."""
    again: list[str] = field(default_factory=list)
    """The commands that run the same elsewhere."""


_NOTHING: Final = Interval(
    0.0, 0.0, Histogram(), errors=0, unknown=0, reconnects=0, clients=0, connected=0, workload="",
    cpu_percent=0.0, lateness_p99_ms=0.0,
)  # fmt: skip
"""A load that ended before its first interval."""
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
) -> LoadReport:
    """The whole run: percentiles from the merged histogram, counts summed; the mean commit taken apart
    over what of it lies between two samples of the primary."""
    elapsed_s = 0.0
    rows = []
    for interval in measured.intervals:
        elapsed_s += interval.duration_s
        rows.append(_interval_shape(interval, elapsed_s))
    total = measured.total or _NOTHING
    is_open = settings.mode == OPEN
    limited = _limit(measured)
    limit = None
    if measured.total is not None:
        limit = limit_of(total, limited=limited, machine_percent=machine_percent, anatomy=anatomy)
    return LoadReport(
        workload=settings.workload,
        mode="open" if is_open else "closed",
        clients=settings.clients,
        rate_asked_tps=settings.rate_tps if is_open else None,
        duration_s=measured.duration_s,
        commits=measured.commits,
        errors=measured.errors,
        unknown=measured.unknown,
        reconnects=measured.reconnects,
        tps=measured.tps,
        latency_ms=measured.service.latency,
        response_ms=total.response.latency if is_open else None,
        generator=GeneratorHealth(
            processes=max((each.processes for each in measured.intervals), default=1),
            cpu_percent=measured.cpu_percent,
            lateness_p99_ms=measured.lateness_p99_ms,
            backlog_max=total.backlog_max,
            dropped=total.dropped,
            arrivals=total.arrivals if is_open else None,
            limited=limited,
            path=path,
            client_log=_client_log(total),
            shares=_shares(total),
        ),
        limit=limit,
        intervals=rows,
        qps=_rate(total.queries, measured.duration_s),
        queries={
            "read": total.reads,
            "write": total.writes,
            "other": total.others,
        },
        deadlocks=total.deadlocks,
        lock_timeouts=total.lock_timeouts,
        conflicts=total.conflicts,
        errors_by_number=dict(total.errors_by_number),
        statements=_statements(total) if settings.by_statement else None,
        anatomy=anatomy,
        commit_cost=cost,
        hides=HIDES[settings.mode],
        warmup_s=warmup_s,
        ledger=ledger,
        table_size=settings.table_size if settings.script is None else None,
        workload_text=settings.script,
    )


def load_course(passage: Passage, from_s: float) -> LoadCourse:
    """What a measurement that began at `from_s`, as the events count, went through."""
    return LoadCourse(
        protection_s=passage.seconds,
        fallbacks=passage.fallbacks,
        unprotected_commits=passage.unprotected,
        events=[
            CourseEvent(
                t_s=event.at_s - from_s,
                at=utc(event.wall_s),
                severity=event.severity.value,
                text=event.text,
            )
            for event in passage.events
        ],
    )


def _limit(measured: Measurement) -> str | None:
    """What limited the whole run, or the interval in which most arrivals waited."""
    worst = max(measured.intervals, key=lambda each: each.backlog, default=None)
    if worst is not None and worst.backlog and worst.limited is not None:
        return worst.limited
    return None if measured.total is None else measured.total.limited


def _shares(total: Interval) -> list[ProcessShare]:
    """What each process did of the run."""
    return [
        ProcessShare(
            process=each.number,
            clients=each.clients,
            commits=each.commits,
            tps=each.tps,
            share_percent=100 * each.commits / total.commits if total.commits else None,
            cpu_percent=each.cpu_percent,
        )
        for each in total.work
    ]


def _statements(total: Interval) -> list[StatementLatency]:
    """Each class of statements with its own distribution."""
    return [
        StatementLatency(name=name, n=found.count, latency_ms=found.latency)
        for name, found in total.statements.items()
    ]


class IntervalLines:
    """The lines of a running load, numbered from the first interval that counts: by its seconds, or by its
    intervals where they are shorter."""

    def __init__(self, warmup_s: float = 0.0, interval_s: float = 1.0) -> None:
        self._warmup_s = warmup_s
        self._interval_s = interval_s
        self._counts_from_s: float | None = None
        self._from_s: float | None = None
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
    seconds = interval.duration_s
    p95_ms = interval.latency.percentile_ms(95) or 0.0
    errors = interval.errors + interval.unknown + interval.retries
    kinds = "/".join(
        f"{_rate(count, seconds):.2f}" for count in (interval.reads, interval.writes, interval.others)
    )
    line = (
        f"[ {second}s ] thds: {interval.clients} tps: {interval.tps:.2f} "
        f"qps: {_rate(interval.queries, seconds):.2f} (r/w/o: {kinds}) lat (ms,95%): {p95_ms:.2f} "
        f"err/s: {_rate(errors, seconds):.2f} reconn/s: {_rate(interval.reconnects, seconds):.2f}"
    )
    if interval.mode == OPEN:
        line += f"\n[ {second}s ] queue length: {interval.backlog}, concurrency: {interval.under_way}"
        if interval.dropped:
            line += f", dropped: {interval.dropped}"
    return line


def render(report: LoadReport) -> str:
    """The final report for people."""
    loop = "closed loop"
    if report.rate_asked_tps is not None:
        loop = f"open loop at {number(report.rate_asked_tps, 1)} TPS"
    rows = [
        ("workload", f"{report.workload}, {report.clients} clients, {loop}"),
        ("commits", f"{report.commits:,} in {report.duration_s:.1f} s{_until(report)}"),
        ("TPS", f"{number(report.tps, 2)} ({number(report.qps, 2)} statements per second)"),
        ("latency ms", _spread(report.latency_ms)),
    ]
    if report.response_ms is not None:
        rows.append(("response ms", f"{_spread(report.response_ms)}  (from the intended start)"))
    rows += [
        (f"  {each.name} ms", f"{_spread(each.latency_ms)}  n {each.n:,}") for each in report.statements or []
    ]
    if report.anatomy is not None:
        rows.append(("commit ms", _taken_apart(report.anatomy, report.commits)))
    if report.commit_cost is not None:
        rows.append(("a commit costs", cost_line(report.commit_cost)))
    trouble = f"errors {report.errors}, outcome unknown {report.unknown}, reconnects {report.reconnects}"
    if report.deadlocks or report.lock_timeouts or report.conflicts:
        trouble += f"; retried: deadlocks {report.deadlocks}, lock timeouts {report.lock_timeouts}"
        trouble += f", conflicts {report.conflicts}" if report.conflicts else ""
    if report.errors_by_number:
        counts = ", ".join(f"{name}: {times}" for name, times in report.errors_by_number.items())
        trouble += f"; by number {counts}"
    rows.append(("trouble", trouble))
    generator = report.generator
    health = (
        f"{generator.processes} process{'es' * (generator.processes > 1)}, "
        f"CPU {number(generator.cpu_percent, 0)} %, "
        f"lateness p99 {number(generator.lateness_p99_ms, 2)} ms, path {generator.path or 'unknown'}"
    )
    if report.mode == "open":
        health += f"; backlog at most {generator.backlog_max}, dropped {generator.dropped}"
    rows.append(("generator", health))
    if len(generator.shares) > 1:
        rows += [(f"  process {each.process}", _share(each)) for each in generator.shares]
    if (noted := generator.client_log) is not None:
        rows.append(
            (
                "client log",
                f"{noted.fsyncs:,} fsyncs of {number(noted.fsync_ms, 2)} ms; a row waits "
                f"{number(noted.wait_ms, 2)} ms before it is sent, {number(noted.wait_percent, 0)} % of a "
                "client's time, in no latency above",
            )
        )
    if report.ledger is not None:
        rows.append(("ledger", _ledger(report.ledger)))
    if report.limit is not None:
        rows.append(("limit", f"{report.limit.by}: {report.limit.words}"))
        if generator.limited is not None and generator.limited not in report.limit.words:
            rows.append(("", generator.limited))
    rows.append(("mode", report.hides))
    if report.conditions is not None:
        rows += condition_rows(report.conditions)
    if report.course is not None:
        rows += _course_rows(report.course)
    return table(rows)


def _share(share: ProcessShare) -> str:
    """One process in one line."""
    part = "" if share.share_percent is None else f" ({number(share.share_percent, 1)} %)"
    return (
        f"{share.clients} client{'s' * (share.clients != 1)}: {number(share.tps, 2)} TPS{part}, "
        f"CPU {number(share.cpu_percent, 0)} %"
    )


def _client_log(total: Interval) -> ClientLogHealth | None:
    """What noting each row cost; None for a load that notes nothing."""
    if not total.log_sync.count:
        return None
    wait_us, service_us = total.log_wait.sum_us, total.service.sum_us
    spent_us = wait_us + service_us
    return ClientLogHealth(
        fsyncs=total.log_sync.count,
        fsync_ms=total.log_sync.mean_ms,
        fsync_p99_ms=total.log_sync.percentile_ms(99),
        wait_ms=total.log_wait.mean_ms,
        wait_p99_ms=total.log_wait.percentile_ms(99),
        wait_percent=100 * wait_us / spent_us if spent_us else None,
    )


def _ledger(ledger: LossLedger) -> str:
    """What became of each row, on one line."""
    told = f"{ledger.acknowledged:,} acknowledged, {ledger.failed:,} failed, {ledger.unknown:,} unknown"
    lacks = "; ".join(f"{name} lacks {node.missing:,}" for name, node in ledger.nodes.items())
    phantoms = f"; phantom reads {ledger.phantom_reads:,}" if ledger.phantom_reads else ""
    return f"{told}: {lacks}{phantoms}"


def _until(report: LoadReport) -> str:
    """When it began, and why it did not run to its end."""
    begun = "" if report.started is None else f", from {utc_for_people(report.started)}"
    return begun if report.interrupted is None else f"{begun}; ended early: {report.interrupted}"


def _course_rows(course: LoadCourse) -> list[tuple[str, str]]:
    """Protection, and what happened, a line each."""
    states = ", ".join(f"{word_of(state)} {seconds:.1f} s" for state, seconds in course.protection_s.items())
    falls, unprotected = course.fallbacks, course.unprotected_commits
    told = [
        states or "not seen",
        *([f"fell back to asynchronous {falls} time{'s' * (falls != 1)}"] if falls else ()),
        *([f"{unprotected:,} commits that no replica had"] if unprotected else ()),
    ]
    found = [f"{event.t_s:.1f} s: {event.text}" for event in course.events]
    rest = len(found) - _MOST_EVENTS
    if rest > 0:
        found = [*found[:_MOST_EVENTS], f"{rest} more, in --json"]
    return [
        ("protection", "; ".join(told)),
        *(("meanwhile" * (not at), text) for at, text in enumerate(found)),
    ]


def _spread(lat: Latency) -> str:
    """A distribution in one line."""
    return "  ".join(f"{name} {number(value, 2)}" for name, value in asdict(lat).items())


def _taken_apart(found: Anatomy, commits: int) -> str:
    """The parts of the mean commit in one line; not of a small part of the run, which says little of all."""
    if found.commits < _LEAST_SHARE * commits:
        return f"not taken apart: the server was read around {found.commits:,} of {commits:,} commits alone"
    parts = "  ".join(f"{part.value.replace('_', ' ')} {number(ms, 2)}" for part, ms in found.parts.items())
    when = "" if found.from_s is None else f", from {found.from_s:.1f} s to {found.to_s:.1f} s"
    told = f"mean {number(found.mean_ms, 2)} of {found.commits:,} of {commits:,} commits{when}"
    if found.excess_ms >= _EXCESS_FROM_MS:
        told += f"; together the parts are {number(found.excess_ms, 2)} more"
    if found.untimed:
        told += f"; {found.untimed_words}"
    return f"{parts}  ({told})"


def _interval_shape(interval: Interval, elapsed_s: float) -> LoadInterval:
    return LoadInterval(
        t_s=elapsed_s,
        tps=interval.tps,
        p50_ms=interval.service.percentile_ms(50),
        p95_ms=interval.service.percentile_ms(95),
        p99_ms=interval.service.percentile_ms(99),
        errors=interval.errors,
        qps=_rate(interval.queries, interval.duration_s),
        response_p50_ms=interval.response.percentile_ms(50),
        response_p95_ms=interval.response.percentile_ms(95),
        response_p99_ms=interval.response.percentile_ms(99),
        backlog=interval.backlog if interval.mode == OPEN else None,
        dropped=interval.dropped if interval.mode == OPEN else None,
        unknown=interval.unknown,
        reconnects=interval.reconnects,
    )


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0
