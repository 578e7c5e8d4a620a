"""A foreground load's figures: the interval line, the final report, nothing that waits or reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from replexplorer.core.experiment.course import Passage
from replexplorer.core.load.interval import Interval
from replexplorer.core.load.measurement import Measurement
from replexplorer.core.load.pacing import HIDES, OPEN
from replexplorer.core.loss.ledger import LossLedger
from replexplorer.core.server.anatomy import Anatomy
from replexplorer.core.server.commit_cost import CommitCost
from replexplorer.core.server.load_limit import limit_of
from replexplorer.core.server.state_words import word_of
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.text import number, table
from replexplorer.formats.json.ledger import LossLedgerJson
from replexplorer.formats.json.load import (
    ClientLogHealth,
    Course,
    CourseEvent,
    GeneratorHealth,
    LimitJson,
    LoadAnatomy,
    LoadInterval,
    LoadReport,
    ProcessShare,
    StatementLatency,
)
from replexplorer.formats.json.measured import Conditions, Latency
from replexplorer.ports import LoadSettings
from replexplorer.reports.commit_cost import cost_document, cost_line
from replexplorer.reports.conditions import rows as condition_rows

_LEAST_SHARE = 0.5
"""Of the run's commits: an anatomy of fewer is not shown."""
_MOST_EVENTS = 12
"""Lines of what happened meanwhile."""
_EXCESS_FROM_MS = 0.005
"""By how much the parts must be more than the mean to be seen in two digits."""


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a load ran under and went through."""

    conditions: Conditions
    passage: Passage
    from_s: float
    """When it began, as the events count."""
    started_wall_s: float
    covered_s: tuple[float, ...] = ()
    """From when to when the server's counters were read, since it began."""
    again: Sequence[str] = ()
    interrupted: str | None = None


def load_report(
    measured: Measurement,
    settings: LoadSettings,
    *,
    path: Literal["direct", "published"] | None,
    anatomy: Anatomy | None = None,
    circumstances: Circumstances | None = None,
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
    total = measured.total
    is_open = settings.mode == OPEN
    limited = _limit(measured)
    limit = (
        None
        if total is None
        else limit_of(total, limited=limited, machine_percent=machine_percent, anatomy=anatomy)
    )
    return LoadReport(
        workload=settings.workload,
        mode="open" if is_open else "closed",
        clients=settings.clients,
        rate_asked_tps=settings.rate_tps if is_open else None,
        duration_s=round(measured.duration_s, 3),
        commits=measured.commits,
        errors=measured.errors,
        unknown=measured.unknown,
        reconnects=measured.reconnects,
        tps=round(measured.tps, 2),
        latency_ms=latency(measured.service),
        response_ms=latency(total.response) if is_open and total is not None else None,
        generator=GeneratorHealth(
            processes=max((each.processes for each in measured.intervals), default=1),
            cpu_percent=None if measured.cpu_percent is None else round(measured.cpu_percent, 1),
            lateness_p99_ms=_rounded(measured.lateness_p99_ms),
            backlog_max=total.backlog_max if total is not None else None,
            dropped=total.dropped if total is not None else None,
            arrivals=total.arrivals if is_open and total is not None else None,
            limited=limited,
            path=path,
            client_log=_client_log(total) if total is not None else None,
            shares=[] if total is None else _shares(total),
        ),
        limit=None if limit is None else LimitJson(by=limit.by, words=limit.words),
        intervals=rows,
        qps=round(_rate(total.queries, measured.duration_s), 2) if total is not None else 0.0,
        queries={
            "read": total.reads if total is not None else 0,
            "write": total.writes if total is not None else 0,
            "other": total.others if total is not None else 0,
        },
        deadlocks=total.deadlocks if total is not None else 0,
        lock_timeouts=total.lock_timeouts if total is not None else 0,
        conflicts=total.conflicts if total is not None else 0,
        errors_by_number=dict(total.errors_by_number) if total is not None else {},
        statements=_statements(total) if settings.by_statement and total is not None else None,
        anatomy=_anatomy(anatomy, circumstances) if anatomy is not None else None,
        commit_cost=cost_document(cost),
        hides=HIDES[settings.mode],
        started=_moment(circumstances.started_wall_s) if circumstances else None,
        warmup_s=warmup_s,
        ledger=None if ledger is None else LossLedgerJson.of(ledger),
        table_size=settings.table_size if settings.script is None else None,
        workload_text=settings.script,
        interrupted=circumstances.interrupted if circumstances else None,
        conditions=circumstances.conditions if circumstances else None,
        course=_course(circumstances) if circumstances else None,
        again=list(circumstances.again) if circumstances else [],
    )


def _course(circumstances: Circumstances) -> Course:
    passage = circumstances.passage
    return Course(
        protection_s={state: round(seconds, 1) for state, seconds in passage.seconds.items()},
        fallbacks=passage.fallbacks,
        unprotected_commits=passage.unprotected,
        events=[
            CourseEvent(
                t_s=round(event.at_s - circumstances.from_s, 1),
                at=_moment(event.wall_s),
                severity=event.severity.value,
                text=event.text,
            )
            for event in passage.events
        ],
    )


def _moment(wall_s: float) -> str:
    return datetime.fromtimestamp(wall_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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
            host=each.place or None,
            clients=each.clients,
            commits=each.commits,
            tps=round(each.tps, 2),
            share_percent=round(100 * each.commits / total.commits, 1) if total.commits else None,
            cpu_percent=round(each.cpu_percent, 1),
        )
        for each in total.work
    ]


def _statements(total: Interval) -> list[StatementLatency]:
    """Each class of statements with its own distribution."""
    return [
        StatementLatency(name=name, n=found.count, latency_ms=latency(found))
        for name, found in total.statements.items()
    ]


def _anatomy(found: Anatomy, circumstances: Circumstances | None) -> LoadAnatomy:
    covered = circumstances.covered_s if circumstances else ()
    from_s, to_s = (round(each, 1) for each in covered) if covered else (None, None)
    return LoadAnatomy(
        from_s=from_s,
        to_s=to_s,
        duration_s=round(found.duration_s, 3),
        commits=found.commits,
        mean_ms=round(found.mean_ms, 3),
        parts_ms={part.value: round(ms, 3) for part, ms in found.parts.items()},
        excess_ms=round(found.excess_ms, 3),
        untimed=[part.value for part in found.untimed],
    )


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


def latency(histogram: Histogram) -> Latency:
    """A distribution in milliseconds."""
    return Latency(
        mean=_rounded(histogram.mean_ms),
        min=_rounded(histogram.min_ms),
        p50=_rounded(histogram.percentile_ms(50)),
        p95=_rounded(histogram.percentile_ms(95)),
        p99=_rounded(histogram.percentile_ms(99)),
        max=_rounded(histogram.max_ms),
    )


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
    where = "" if share.host is None else f" on {share.host}"
    part = "" if share.share_percent is None else f" ({number(share.share_percent, 1)} %)"
    return (
        f"{share.clients} client{'s' * (share.clients != 1)}{where}: {number(share.tps, 2)} TPS{part}, "
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
        fsync_ms=_rounded(total.log_sync.mean_ms),
        fsync_p99_ms=_rounded(total.log_sync.percentile_ms(99)),
        wait_ms=_rounded(total.log_wait.mean_ms),
        wait_p99_ms=_rounded(total.log_wait.percentile_ms(99)),
        wait_percent=round(100 * wait_us / spent_us, 1) if spent_us else None,
    )


def _ledger(ledger: LossLedgerJson) -> str:
    """What became of each row, on one line."""
    told = f"{ledger.acknowledged:,} acknowledged, {ledger.failed:,} failed, {ledger.unknown:,} unknown"
    lacks = "; ".join(f"{name} lacks {node.missing:,}" for name, node in ledger.nodes.items())
    phantoms = f"; phantom reads {ledger.phantom_reads:,}" if ledger.phantom_reads else ""
    return f"{told}: {lacks}{phantoms}"


def _until(report: LoadReport) -> str:
    """When it began, and why it did not run to its end."""
    begun = (
        "" if report.started is None else f", from {report.started.replace('T', ' ').removesuffix('Z')} UTC"
    )
    return begun if report.interrupted is None else f"{begun}; ended early: {report.interrupted}"


def _course_rows(course: Course) -> list[tuple[str, str]]:
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
    return "  ".join(f"{name} {number(value, 2)}" for name, value in lat.model_dump().items())


def _taken_apart(found: LoadAnatomy, commits: int) -> str:
    """The parts of the mean commit in one line; not of a small part of the run, which says little of all."""
    if found.commits < _LEAST_SHARE * commits:
        return f"not taken apart: the server was read around {found.commits:,} of {commits:,} commits alone"
    parts = "  ".join(f"{name.replace('_', ' ')} {number(ms, 2)}" for name, ms in found.parts_ms.items())
    when = "" if found.from_s is None else f", from {found.from_s:.1f} s to {found.to_s:.1f} s"
    told = f"mean {number(found.mean_ms, 2)} of {found.commits:,} of {commits:,} commits{when}"
    if found.excess_ms >= _EXCESS_FROM_MS:
        told += f"; together the parts are {number(found.excess_ms, 2)} more"
    if found.untimed:
        told += f"; {', '.join(found.untimed)} are not timed here: in other"
    return f"{parts}  ({told})"


def _interval_shape(interval: Interval, elapsed_s: float) -> LoadInterval:
    return LoadInterval(
        t_s=round(elapsed_s, 3),
        tps=round(interval.tps, 2),
        p50_ms=_rounded(interval.service.percentile_ms(50)),
        p95_ms=_rounded(interval.service.percentile_ms(95)),
        p99_ms=_rounded(interval.service.percentile_ms(99)),
        errors=interval.errors,
        qps=round(_rate(interval.queries, interval.duration_s), 2),
        response_p50_ms=_rounded(interval.response.percentile_ms(50)),
        response_p95_ms=_rounded(interval.response.percentile_ms(95)),
        response_p99_ms=_rounded(interval.response.percentile_ms(99)),
        backlog=interval.backlog if interval.mode == OPEN else None,
        dropped=interval.dropped if interval.mode == OPEN else None,
        unknown=interval.unknown,
        reconnects=interval.reconnects,
    )


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0


def _rounded(value_ms: float | None) -> float | None:
    return None if value_ms is None else round(value_ms, 3)
