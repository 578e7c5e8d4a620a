"""A foreground load's figures: the interval line, the final report, nothing that waits or reads."""

from __future__ import annotations

from typing import Literal

from replexplorer.cli.console import number, table
from replexplorer.config.shapes import Generator, Latency, LoadInterval, LoadReport
from replexplorer.core.histogram import Histogram
from replexplorer.core.interval import Interval
from replexplorer.engine.measure import Measurement


def load_report(
    measured: Measurement, *, workload: str, clients: int, path: Literal["direct", "published"] | None
) -> LoadReport:
    """The whole run: percentiles from the merged histogram, counts summed."""
    elapsed_s = 0.0
    rows = []
    for interval in measured.intervals:
        elapsed_s += interval.duration_s
        rows.append(_interval_shape(interval, elapsed_s))
    return LoadReport(
        workload=workload,
        mode="closed",
        clients=clients,
        rate_asked_tps=None,
        duration_s=round(measured.duration_s, 3),
        commits=measured.commits,
        errors=measured.errors,
        unknown=measured.unknown,
        reconnects=measured.reconnects,
        tps=round(measured.tps, 2),
        latency_ms=latency(measured.service),
        response_ms=None,
        generator=Generator(
            processes=1,
            cpu_percent=None if measured.cpu_percent is None else round(measured.cpu_percent, 1),
            lateness_p99_ms=_rounded(measured.lateness_p99_ms),
            path=path,
        ),
        intervals=rows,
    )


class IntervalLines:
    """The lines of a running load, numbered from the first interval that counts."""

    def __init__(self, warmup_s: float = 0.0) -> None:
        self._warmup_s = warmup_s
        self._counts_from_s: float | None = None
        self._elapsed_s = 0.0

    def line(self, interval: Interval) -> str | None:
        """The interval's line; None while the table is prepared and while the load warms up."""
        if interval.state == "preparing":
            return None
        if self._counts_from_s is None:
            self._counts_from_s = interval.start_s + self._warmup_s
        if interval.start_s < self._counts_from_s - 1e-3:
            return None
        self._elapsed_s += interval.duration_s
        return interval_line(interval, self._elapsed_s)


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


def interval_line(interval: Interval, elapsed_s: float) -> str:
    """One interval as sysbench 1.0 prints it, so that existing parsers read it.

    Every workload of ours is one writing statement a commit: qps is tps, and all of it writes.
    """
    seconds = interval.duration_s
    tps = interval.tps
    p95_ms = interval.service.percentile_ms(95) or 0.0
    errors = interval.errors + interval.unknown
    return (
        f"[ {elapsed_s:.0f}s ] thds: {interval.clients} tps: {tps:.2f} qps: {tps:.2f} "
        f"(r/w/o: 0.00/{tps:.2f}/0.00) lat (ms,95%): {p95_ms:.2f} "
        f"err/s: {_rate(errors, seconds):.2f} reconn/s: {_rate(interval.reconnects, seconds):.2f}"
    )


def render(report: LoadReport) -> str:
    """The final report for people."""
    lat = report.latency_ms
    rows = [
        ("workload", f"{report.workload}, {report.clients} clients, {report.mode} loop"),
        ("commits", f"{report.commits:,} in {report.duration_s:.1f} s"),
        ("TPS", number(report.tps, 2)),
        ("latency ms", "  ".join(f"{name} {number(value, 2)}" for name, value in lat.model_dump().items())),
        (
            "trouble",
            f"errors {report.errors}, outcome unknown {report.unknown}, reconnects {report.reconnects}",
        ),
        (
            "generator",
            f"CPU {number(report.generator.cpu_percent, 0)} %, "
            f"lateness p99 {number(report.generator.lateness_p99_ms, 2)} ms, "
            f"path {report.generator.path or 'unknown'}",
        ),
    ]
    return table(rows)


def _interval_shape(interval: Interval, elapsed_s: float) -> LoadInterval:
    return LoadInterval(
        t_s=round(elapsed_s, 3),
        tps=round(interval.tps, 2),
        p50_ms=_rounded(interval.service.percentile_ms(50)),
        p95_ms=_rounded(interval.service.percentile_ms(95)),
        p99_ms=_rounded(interval.service.percentile_ms(99)),
        errors=interval.errors,
    )


def _rate(count: int, seconds: float) -> float:
    return count / seconds if seconds > 0 else 0.0


def _rounded(value_ms: float | None) -> float | None:
    return None if value_ms is None else round(value_ms, 3)
