"""Which settings meet goals at this round trip and number of clients, and what each of them gives up.

A figure is the model's (fitted.py), at the pace that sweeps of this workload measured on this machine; a
percentile is its mean times the ratio that sweeps measured of runs alike. What a failure loses follows from
the settings (exposure.py).

Laws. All choices are judged by one model at one pace: a run is never compared with a prediction. A figure is
a range. A goal is met where the whole of it is within the bound, missed where none of it is, and between them
it may be met. For losses the range is from the usual to the most.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from itertools import product
from math import exp, log
from statistics import median
from typing import Final, Literal

from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import SOURCE, KnobName, Place, Value, format_value
from replexplorer.core.model.ceiling import bound
from replexplorer.core.model.exposure import expected_exposure
from replexplorer.core.model.fitted import Calibration, CalibrationRun, OperatingPoint, solve
from replexplorer.core.model.goals import LATENCIES, LOSSES, Goal, GoalFigure
from replexplorer.core.model.operating_point import operating_point_of, unacknowledged, value_of
from replexplorer.core.model.prediction import alone_ms, local_cost, paced, predict, where_zero
from replexplorer.core.model.validation import alone
from replexplorer.core.server.exposure import Exposure, Loss, Unknown
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.text import number

_PERCENTS: Final = {GoalFigure.P50: 50.0, GoalFigure.P95: 95.0, GoalFigure.P99: 99.0}
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
    origin: Literal["scaled", "model", "settings"]
    """`scaled`: the model at the pace of this machine's sweeps."""


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
class MachinePace:
    """What sweeps say of this machine, compared with the calibrated one."""

    runs: int
    """Of the same workload."""
    slowness: float
    """How many times as long all but the network takes here."""
    error: float | None
    """|log(predicted / measured)| of nine of ten of their cells at this pace; None: too few."""


@dataclass(frozen=True, slots=True)
class Advised:
    """All that was looked at; of each verdict what gives up least comes first."""

    goals: tuple[Goal, ...]
    found: tuple[Advice, ...]
    """Those that meet the goals, then those that may."""
    closest: Advice | None
    """Where none does or may: the one that is least far off."""
    looked_at: int
    pace: MachinePace | None
    """None: no sweep of the workload was made here."""


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
    pace = _pace(str(value_of(values, keys.WORKLOAD, Place.LOAD)), basis)
    if pace is not None:
        basis = replace(basis, calibration=paced(basis.calibration, pace.slowness))
    chosen = [
        _advice(goals, {**values, **settings}, _had(settings, lacking), replicas, basis, pace)
        for settings in _choices(values, fixed, replicas)
        if unacknowledged({**values, **settings}, replicas) is None
    ]
    chosen.sort(key=lambda each: (each.verdict, not each.usually_meets, each.price))
    found = tuple(each for each in chosen if each.verdict is not Verdict.MISSES)
    closest = min(chosen, key=lambda each: (max(j.shortfall for j in each.judged), each.price), default=None)
    return Advised(tuple(goals), found, None if found else closest, len(chosen), pace)


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


def _advice(
    goals: Sequence[Goal],
    values: Mapping[KnobName, Value],
    settings: Mapping[KnobName, Value],
    replicas: Sequence[str],
    basis: Basis,
    pace: MachinePace | None,
) -> Advice:
    setting = operating_point_of(values, replicas)
    figures = _modelled(setting, basis, pace)
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


def _pace(workload: str, basis: Basis) -> MachinePace | None:
    """The slowness at which the model is too high for as many of the cells as it is too low for."""
    cells: dict[OperatingPoint, list[float]] = {}
    for run in basis.evidence:
        if run.setting.workload == workload and run.tps > 0:
            cells.setdefault(alone(run.setting), []).append(run.tps)
    if not cells:
        return None

    def misses(slowness: float) -> list[float]:
        calibration = paced(basis.calibration, slowness)
        cost = local_cost(workload, calibration)
        return [log(solve(cell, calibration, cost).tps / median(tps)) for cell, tps in cells.items()]

    slowness = where_zero(lambda tried: median(misses(tried)))
    errors = sorted(map(abs, misses(slowness)))
    error = errors[min(len(errors) - 1, int(_MOST_ERROR_SHARE * len(errors)))]
    runs = sum(map(len, cells.values()))
    return MachinePace(runs, slowness, error if len(errors) >= _LEAST_ALIKE else None)


def _modelled(
    setting: OperatingPoint, basis: Basis, pace: MachinePace | None
) -> dict[GoalFigure, FigureRange]:
    calibration = basis.calibration
    most_tps = None
    if setting.semi_sync:
        ceiling = bound(setting.clients, setting.rtt_ms, alone_ms(setting, calibration))
        most_tps = None if ceiling is None else ceiling.tps
    found = predict(setting, calibration, at_most_tps=most_tps)
    if found is None:
        raise ValueError("nobody commits")
    known = None if pace is None else pace.error
    times = exp(model_error(setting, basis) if known is None else known)
    origin: Literal["scaled", "model"] = "model" if pace is None else "scaled"
    figures = {GoalFigure.TPS: FigureRange(found.tps, found.tps / times, found.tps * times, origin)}
    mean_ms = found.latency_ms
    for wanted in LATENCIES:
        low, usual, high = tail(wanted, setting, basis.evidence)
        figures[wanted] = FigureRange(mean_ms * usual, mean_ms * low / times, mean_ms * high * times, origin)
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
