"""Which settings meet goals at this round trip and number of clients, and what each of them gives up.

A figure is what sweeps on this machine measured with the same settings, else the model's (fitted.py) with
the error that it has for runs alike; a percentile of the model is its mean times the ratio that sweeps
measured of runs alike. What a failure loses follows from the settings (exposure.py).

Law: a figure is a range. A goal is met where the whole of it is within the bound, missed where none of it
is, and between them it may be met. For losses the range is from the usual to the most.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import product
from math import exp, log, sqrt
from statistics import median
from typing import Final, Literal

from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import SOURCE, KnobName, Value, format_value
from replexplorer.core.model.ceiling import bound
from replexplorer.core.model.exposure import expected_exposure
from replexplorer.core.model.fitted import Calibration, CalibrationRun, OperatingPoint
from replexplorer.core.model.goals import LATENCIES, LOSSES, Goal, GoalFigure
from replexplorer.core.model.operating_point import operating_point_of, unacknowledged, value_of
from replexplorer.core.model.prediction import alone_ms, predict
from replexplorer.core.server.exposure import Exposure, Loss, Unknown
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.stats.student import t_quantile_975
from replexplorer.core.text import number

_PERCENTS: Final = {GoalFigure.P50: 50.0, GoalFigure.P95: 95.0, GoalFigure.P99: 99.0}
_GROUP_DELAYS_US: Final = (0, 1000)
_LEAST_ALIKE: Final = 4
"""Fewer runs alike say nothing of how far others are off."""
_MOST_ERROR_SHARE: Final = 0.9
_UNTAUGHT_ERROR: Final = log(2)
"""Of a workload or a region that the model has seen no run of."""

_ACROSS_A_LINK: Final[Mapping[GoalFigure, tuple[float, float, float]]] = {
    GoalFigure.P50: (0.85, 0.99, 1.0),
    GoalFigure.P95: (1.02, 1.04, 1.73),
    GoalFigure.P99: (1.04, 1.07, 2.6),
}
_AT_HOME: Final[Mapping[GoalFigure, tuple[float, float, float]]] = {
    GoalFigure.P50: (0.57, 0.7, 0.85),
    GoalFigure.P95: (2.0, 3.0, 3.1),
    GoalFigure.P99: (3.0, 5.4, 8.4),
}
"""A percentile over the mean, least, usual and most, where no sweep on this machine says it, for commits that
wait for a delayed link and for others: measured over stretches of five seconds in the recorded tour that
ships (9.7.4, 2 cores, 1 and 32 clients, 0 and 85 ms)."""


class Verdict(IntEnum):
    """What is to be said of a goal, the best first."""

    MEETS = 0
    MAY = 1
    MISSES = 2


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """One run of a sweep on this machine."""

    setting: OperatingPoint
    tps: float
    service: Histogram


@dataclass(frozen=True, slots=True)
class FigureRange:
    """A figure with what encloses it, and where it comes from."""

    value: float
    low: float
    high: float
    origin: Literal["measured", "model", "settings"]


@dataclass(frozen=True, slots=True)
class JudgedGoal:
    """A goal beside the figure that it is about; None: the figure is not known."""

    goal: Goal
    figure: FigureRange | None
    verdict: Verdict

    @property
    def shortfall(self) -> float:
        """How many times the figure is from its bound; 1 and less: it is within."""
        figure, at = self.figure, self.goal.bound
        if figure is None:
            return float("inf")
        if self.goal.wants_more:
            return at / figure.value if figure.value else float("inf")
        return figure.value / at if at else 1 + figure.value


@dataclass(frozen=True, slots=True)
class Advice:
    """One choice of settings."""

    settings: Mapping[KnobName, Value]
    """The knobs that were chosen."""
    figures: Mapping[GoalFigure, FigureRange]
    exposure: Exposure
    judged: tuple[JudgedGoal, ...]
    gives_up: tuple[str, ...]
    """In words, what these settings do not protect from or make slow."""
    price: tuple[float, ...]
    """To order by: kinds of failure that lose commits, the seconds in which they were made, rows that others
    read too early, copies that are not waited for, the mean in ms."""

    @property
    def verdict(self) -> Verdict:
        """The worst of its goals'."""
        return max((each.verdict for each in self.judged), default=Verdict.MEETS)

    @property
    def usually_meets(self) -> bool:
        """By the figures themselves, whatever encloses them."""
        return all(each.figure is not None and each.goal.holds(each.figure.value) for each in self.judged)


@dataclass(frozen=True, slots=True)
class Basis:
    """What figures rest on."""

    calibration: Calibration
    runs: Sequence[CalibrationRun]
    """That it was fitted to."""
    evidence: Sequence[MeasuredRun] = ()


@dataclass(frozen=True, slots=True)
class Advised:
    """All that was looked at, the cheapest of the best verdict first."""

    goals: tuple[Goal, ...]
    found: tuple[Advice, ...]
    """Those that meet the goals, then those that may."""
    closest: Advice | None
    """Where none does or may: the one that is least far off."""
    looked_at: int


def advise(
    goals: Sequence[Goal],
    values: Mapping[KnobName, Value],
    pinned: Iterable[KnobName],
    replicas: Sequence[str],
    basis: Basis,
    *,
    lacking: Collection[KnobName] = (),
) -> Advised:
    """Judge every choice of what decides durability, all other knobs as in `values`; what is `pinned` is
    not chosen, and what the servers are `lacking` is not advised."""
    fixed = {*pinned, *lacking}
    chosen = [
        _advice(goals, {**values, **settings}, _had(settings, lacking), replicas, basis)
        for settings in _choices(values, fixed, replicas)
        if unacknowledged({**values, **settings}, replicas) is None
    ]
    chosen.sort(key=lambda each: (each.verdict, not each.usually_meets, each.price))
    found = _without_idle_delays(each for each in chosen if each.verdict is not Verdict.MISSES)
    closest = min(chosen, key=lambda each: (max(j.shortfall for j in each.judged), each.price), default=None)
    return Advised(tuple(goals), found, None if found else closest, len(chosen))


def _had(settings: Mapping[KnobName, Value], lacking: Collection[KnobName]) -> dict[KnobName, Value]:
    return {name: value for name, value in settings.items() if name not in lacking}


def _choices(
    values: Mapping[KnobName, Value], fixed: set[KnobName], replicas: Sequence[str]
) -> list[dict[KnobName, Value]]:
    """Every combination, each knob that says nothing where semi-sync is off left out."""

    def of(key: str, *choices: Value) -> list[tuple[KnobName, Value]]:
        name = KnobName(key, SOURCE)
        return [(name, value) for value in ((value_of(values, key),) if name in fixed else choices)]

    always = (
        of(keys.SEMI_SYNC, "off", "on"),
        of(keys.SYNC_BINLOG, 1, 0),
        of(keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT, 1, 2, 0),
        of(keys.BINLOG_GROUP_COMMIT_SYNC_DELAY, *_GROUP_DELAYS_US),
    )
    waiting = (
        of(keys.WAIT_POINT, "after_sync", "after_commit"),
        of(keys.SEMI_SYNC_REPLICAS, *range(1, len(replicas) + 1)),
    )
    found: list[dict[KnobName, Value]] = []
    for each in product(*always):
        chosen = dict(each)
        if chosen[KnobName(keys.SEMI_SYNC, SOURCE)] != "on":
            found.append(chosen)
        elif replicas:
            found += [{**chosen, **dict(more)} for more in product(*waiting)]
    return found


def _without_idle_delays(chosen: Iterable[Advice]) -> tuple[Advice, ...]:
    """Without those that differ from a cheaper one by their group delay alone."""
    delay = KnobName(keys.BINLOG_GROUP_COMMIT_SYNC_DELAY, SOURCE)
    seen: list[dict[KnobName, Value]] = []
    kept = []
    for each in chosen:
        rest = {name: value for name, value in each.settings.items() if name != delay}
        if rest not in seen:
            seen.append(rest)
            kept.append(each)
    return tuple(kept)


def _advice(
    goals: Sequence[Goal],
    values: Mapping[KnobName, Value],
    settings: Mapping[KnobName, Value],
    replicas: Sequence[str],
    basis: Basis,
) -> Advice:
    setting = operating_point_of(values, replicas)
    figures = _measured(setting, basis.evidence) or _modelled(setting, basis)
    exposure = expected_exposure(
        values, replicas, setting, figures[GoalFigure.TPS].value, least_rtt_ms=basis.calibration.least_rtt_ms
    )
    judged = tuple(_judged(goal, figures, exposure) for goal in goals)
    return Advice(
        settings,
        figures,
        exposure,
        judged,
        _gives_up(values, replicas, exposure, setting),
        _price(values, replicas, exposure, setting, figures),
    )


def _judged(goal: Goal, figures: Mapping[GoalFigure, FigureRange], exposure: Exposure) -> JudgedGoal:
    figure = figures.get(goal.wanted)
    if goal.wanted in LOSSES:
        figure = _loss(getattr(exposure, goal.wanted.value), goal.unit, figures[GoalFigure.TPS].value)
    if figure is None:
        return JudgedGoal(goal, None, Verdict.MAY)
    ends = [goal.holds(figure.low), goal.holds(figure.high)]
    verdict = Verdict.MEETS if all(ends) else Verdict.MAY if any(ends) else Verdict.MISSES
    return JudgedGoal(goal, figure, verdict)


def _loss(loss: Loss | Unknown, unit: str, tps: float) -> FigureRange | None:
    """From the usual to the most; as time, that in which these were committed."""
    if isinstance(loss, Unknown):
        return None
    scale = 1.0 if unit == "commits" else 1 / tps if tps else 0.0
    return FigureRange(loss.commits * scale, loss.commits * scale, loss.high * scale, "settings")


def _same(one: OperatingPoint, other: OperatingPoint) -> bool:
    """The same settings, whatever was measured of link and disk."""

    def asked(setting: OperatingPoint) -> OperatingPoint:
        waits = setting.semi_sync
        return replace(
            setting,
            rtt_ms=0.0,
            fsync_ms=None,
            rtt_asked_ms=setting.rtt_asked_ms if waits else 0.0,
            after_commit=setting.after_commit and waits,
        )

    return asked(one) == asked(other)


def _measured(
    setting: OperatingPoint, evidence: Sequence[MeasuredRun]
) -> dict[GoalFigure, FigureRange] | None:
    """What sweeps measured with these settings; None where none did."""
    same = [each for each in evidence if _same(each.setting, setting)]
    if not same:
        return None
    merged = Histogram.merged(each.service for each in same)
    figures = {
        GoalFigure.TPS: _spread([each.tps for each in same]),
        GoalFigure.MEAN: _spread([each.service.mean_ms or 0.0 for each in same]),
    }
    for wanted, percent in _PERCENTS.items():
        figures[wanted] = _percentile(merged, percent, [each.service for each in same])
    return figures


def _spread(found: Sequence[float]) -> FigureRange:
    """The mean of runs with Student's interval of their logs; of one run a tenth either way, which is what
    runs of a few seconds differ by."""
    logs = [log(each) for each in found if each > 0]
    if not logs:
        return FigureRange(0.0, 0.0, 0.0, "measured")
    middle = sum(logs) / len(logs)
    half = log(1.1)
    if len(logs) > 1:
        variance = sum((each - middle) ** 2 for each in logs) / (len(logs) - 1)
        half = t_quantile_975(len(logs) - 1) * sqrt(variance / len(logs))
    return FigureRange(exp(middle), exp(middle - half), exp(middle + half), "measured")


def _percentile(merged: Histogram, percent: float, runs: Sequence[Histogram]) -> FigureRange:
    """Of all commits; its range is that of its rank (binomial, 95 %) and of the runs."""
    share = percent / 100
    off = 1.96 * sqrt(share * (1 - share) / max(1, merged.count))
    ends = [merged.percentile_ms(100 * min(1.0, max(0.0, share + by))) or 0.0 for by in (-off, off)]
    ends += [each.percentile_ms(percent) or 0.0 for each in runs]
    value = merged.percentile_ms(percent) or 0.0
    return FigureRange(value, min(*ends, value), max(*ends, value), "measured")


def _modelled(setting: OperatingPoint, basis: Basis) -> dict[GoalFigure, FigureRange]:
    calibration = basis.calibration
    most_tps = None
    if setting.semi_sync:
        ceiling = bound(setting.clients, setting.rtt_ms, alone_ms(setting, calibration))
        most_tps = None if ceiling is None else ceiling.tps
    found = predict(setting, calibration, at_most_tps=most_tps)
    if found is None:
        raise ValueError("nobody commits")
    times = exp(model_error(setting, basis))
    figures = {GoalFigure.TPS: FigureRange(found.tps, found.tps / times, found.tps * times, "model")}
    mean_ms = found.latency_ms
    for wanted in LATENCIES:
        low, usual, high = tail(wanted, setting, basis.evidence)
        figures[wanted] = FigureRange(mean_ms * usual, mean_ms * low / times, mean_ms * high * times, "model")
    return figures


def model_error(setting: OperatingPoint, basis: Basis) -> float:
    """By how much the model is off for nine of ten runs alike, each predicted from the runs of other
    settings, as |log(predicted / measured)|."""
    if setting.workload not in basis.calibration.local:
        return _UNTAUGHT_ERROR
    known = [
        abs(log(run.predicted_tps / run.tps))
        for run in basis.runs
        if run.predicted_tps and run.tps and _alike(run.setting, setting)
    ]
    if len(known) < _LEAST_ALIKE:
        return _UNTAUGHT_ERROR
    return sorted(known)[min(len(known) - 1, int(_MOST_ERROR_SHARE * len(known)))]


def tail(
    wanted: GoalFigure, setting: OperatingPoint, evidence: Sequence[MeasuredRun]
) -> tuple[float, float, float]:
    """A percentile over the mean, least, usual and most, of the runs alike that sweeps measured."""
    if wanted not in _PERCENTS:
        return 1.0, 1.0, 1.0
    alike = [each.service for each in evidence if _alike(each.setting, setting)]
    ratios = [
        value / mean
        for service in alike
        if (value := service.percentile_ms(_PERCENTS[wanted])) and (mean := service.mean_ms)
    ]
    if len(ratios) < _LEAST_ALIKE:
        return (_ACROSS_A_LINK if setting.semi_sync and setting.rtt_asked_ms else _AT_HOME)[wanted]
    return min(ratios), median(ratios), max(ratios)


def _alike(one: OperatingPoint, other: OperatingPoint) -> bool:
    """They wait for the same kinds of things."""

    def kinds(setting: OperatingPoint) -> tuple[bool, bool, bool]:
        across = setting.semi_sync and setting.rtt_asked_ms > 0
        return setting.semi_sync, across, setting.redo_fsyncs + setting.binlog_fsyncs > 0

    return kinds(one) == kinds(other)


def _price(
    values: Mapping[KnobName, Value],
    replicas: Sequence[str],
    exposure: Exposure,
    setting: OperatingPoint,
    figures: Mapping[GoalFigure, FigureRange],
) -> tuple[float, ...]:
    losses = (exposure.process_dies, exposure.power_cut, exposure.source_lost)
    most = [float("inf") if isinstance(loss, Unknown) else float(loss.high) for loss in losses]
    acks = int(value_of(values, keys.SEMI_SYNC_REPLICAS)) if setting.semi_sync else 0
    early = float(setting.semi_sync and setting.after_commit)
    tps = figures[GoalFigure.TPS].value
    lost_s = round(sum(most) / tps, 2) if tps else 0.0
    mean_ms = figures[GoalFigure.MEAN].value
    return sum(each > 0 for each in most), lost_s, early, len(replicas) - acks, mean_ms


def _gives_up(
    values: Mapping[KnobName, Value], replicas: Sequence[str], exposure: Exposure, setting: OperatingPoint
) -> tuple[str, ...]:
    told = [
        f"{what} loses up to {loss.high:,} commits"
        for what, loss in (
            ("mysqld's death", exposure.process_dies),
            ("a power cut of the source", exposure.power_cut),
            ("the source's loss", exposure.source_lost),
        )
        if isinstance(loss, Loss) and loss.high
    ]
    if isinstance(exposure.source_lost, Unknown):
        told.append(f"what the source's loss takes is not known: {exposure.source_lost.why}")
    if not setting.semi_sync:
        return tuple(told)
    acks = int(value_of(values, keys.SEMI_SYNC_REPLICAS))
    if setting.after_commit:
        told.append("others can read a row that the source's loss takes back")
    if acks < len(replicas):
        who = "the one replica" if acks == 1 else f"the {acks} replicas"
        told.append(f"the loss of the source and of {who} that acknowledged, together, loses commits")
    timeout = KnobName(keys.SEMI_SYNC_TIMEOUT, SOURCE)
    after = format_value(timeout.knob, value_of(values, keys.SEMI_SYNC_TIMEOUT))
    few = "no replica" if acks == 1 else f"fewer than {acks} replicas"
    told.append(f"with {few} answering, commits wait {after}, then go on unprotected")
    told.append(f"a commit waits {number(setting.rtt_ms, 1)} ms for the link")
    return tuple(told)
