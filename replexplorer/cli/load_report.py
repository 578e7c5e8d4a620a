"""A foreground load's figures: the interval line, the final report, nothing that waits or reads."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

from replexplorer.cli.console import number, table
from replexplorer.config.shapes import Generator, Latency, LoadInterval, LoadReport
from replexplorer.core.histogram import Histogram
from replexplorer.core.interval import Interval


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """How long to count, cut into intervals of about a second that end exactly where it ends."""

    duration_s: float
    warmup_s: float = 0.0

    @property
    def counted(self) -> int:
        """Intervals that count."""
        return math.ceil(self.duration_s)

    @property
    def interval_s(self) -> float:
        """Length of one interval, at most a second."""
        return self.duration_s / self.counted

    @property
    def warmup(self) -> int:
        """Intervals before those that count; the warm-up is rounded up to whole intervals."""
        return math.ceil(round(self.warmup_s / self.interval_s, 6))


@dataclass(slots=True)
class LoadRun:
    """The intervals of one load, added as they come."""

    plan: LoadPlan
    workload: str
    clients: int
    path: Literal["direct", "published"] | None = None
    intervals: list[Interval] = field(default_factory=list)
    """Those that count."""
    seen: int = 0
    """All, with the warm-up's."""

    @property
    def is_complete(self) -> bool:
        """Whether every interval that counts is here."""
        return len(self.intervals) >= self.plan.counted

    def add(self, interval: Interval) -> str | None:
        """Count an interval; answers its line, or None while warming up."""
        self.seen += 1
        if self.seen <= self.plan.warmup or self.is_complete:
            return None
        self.intervals.append(interval)
        return interval_line(interval, self.elapsed_s)

    @property
    def elapsed_s(self) -> float:
        """Seconds counted so far."""
        return sum(interval.duration_s for interval in self.intervals)

    def report(self) -> LoadReport:
        """The whole run: percentiles from the merged histogram, counts summed."""
        total = Histogram.merged(interval.service for interval in self.intervals)
        seconds = self.elapsed_s
        elapsed = 0.0
        rows = []
        for interval in self.intervals:
            elapsed += interval.duration_s
            rows.append(_interval_shape(interval, elapsed))
        return LoadReport(
            workload=self.workload,
            mode="closed",
            clients=self.clients,
            rate_asked_tps=None,
            duration_s=round(seconds, 3),
            commits=total.count,
            errors=sum(interval.errors for interval in self.intervals),
            unknown=sum(interval.unknown for interval in self.intervals),
            reconnects=sum(interval.reconnects for interval in self.intervals),
            tps=round(total.count / seconds, 2) if seconds > 0 else 0.0,
            latency_ms=latency(total),
            response_ms=None,
            generator=self._generator(seconds),
            intervals=rows,
        )

    def _generator(self, seconds: float) -> Generator:
        busy = sum(interval.cpu_percent * interval.duration_s for interval in self.intervals)
        return Generator(
            processes=1,
            cpu_percent=round(busy / seconds, 1) if seconds > 0 else None,
            lateness_p99_ms=max((round(i.lateness_p99_ms, 3) for i in self.intervals), default=None),
            path=self.path,
        )


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
