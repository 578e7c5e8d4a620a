"""Which settings meet goals at this round trip and number of clients, and what each of them gives up.

A figure is the model's (fitted.py); a percentile is its mean times a ratio. What a failure loses follows from
the settings (`expected_exposure`).

Laws. All choices are judged by one model: a run is never compared with a prediction. A figure is a range, as
wide as what nine of ten cells are within. A goal is met where the whole of it is within the bound, missed
where none of it is, and between them it may be met. For losses the range is from the usual to the most. What
the model does not know may be met.
"""

from __future__ import annotations

import operator
import re
import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import product
from math import ceil, inf
from typing import Final, Literal, NamedTuple

from replexplorer.core.errors import UsageError
from replexplorer.core.json_keys import json_keys
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import SEMI_SYNC, SOURCE, KnobName, Value, format_value
from replexplorer.core.link import LinkSettings
from replexplorer.core.model.fitted import Calibration, OperatingPoint
from replexplorer.core.model.operating_point import (
    READ_ONLY,
    Values,
    applier_of,
    beyond,
    link_of,
    operating_point_of,
    unacknowledged,
    value_of,
)
from replexplorer.core.model.prediction import ReplicaLag, link_bound_tps, predict, replica_lag
from replexplorer.core.records import frozen
from replexplorer.core.server.comeback import redo_fsyncs
from replexplorer.core.server.exposure import FAILURES, Exposure, Loss, Unknown, after_power_cut, silent
from replexplorer.core.text import closest, number


class GoalFigure(StrEnum):
    """A figure that a goal is about."""

    MEAN = "mean"
    """Service time of a commit, ms."""
    P50 = "p50"
    P95 = "p95"
    P99 = "p99"
    TPS = "tps"
    """Acknowledged commits a second."""
    PROCESS_DIES = "process_dies"
    """Commits that mysqld's death loses, or the seconds in which they were made."""
    POWER_CUT = "power_cut"
    """The same of a power cut of the source's machine."""
    SOURCE_LOST = "source_lost"
    """The same of the loss of the source, a replica taking over."""
    LAG = "lag_s"
    """How far the replica that is farthest behind is after a minute of load, s."""


RPO: Final = "rpo"
"""Recovery point objective: the same as `source_lost`."""
_NAMES: Final = {
    **{each.value: each for each in GoalFigure},
    "lag": GoalFigure.LAG,
    RPO: GoalFigure.SOURCE_LOST,
}
_LATENCIES: Final = (GoalFigure.MEAN, GoalFigure.P50, GoalFigure.P95, GoalFigure.P99)
_LATENCY_UNITS: Final = {"": (1.0, "ms"), "us": (0.001, "ms"), "ms": (1.0, "ms"), "s": (1000.0, "ms")}
_LAG_UNITS: Final = {"ms": (0.001, "s"), "s": (1.0, "s"), "min": (60.0, "s")}
_LOSS_UNITS: Final = {**dict.fromkeys(("", "commit", "commits"), (1.0, "commits")), **_LAG_UNITS}
_TAKES: Final[Mapping[GoalFigure, tuple[Sequence[str], Mapping[str, tuple[float, str]]]]] = {
    **dict.fromkeys(_LATENCIES, (("<", "<="), _LATENCY_UNITS)),
    GoalFigure.TPS: ((">", ">="), dict.fromkeys(("", "tps", "/s"), (1.0, "tps"))),
    **dict.fromkeys(map(GoalFigure, FAILURES), (("<", "<=", "="), _LOSS_UNITS)),
    GoalFigure.LAG: (("<", "<="), _LAG_UNITS),
}
"""Signs of a goal about a figure, and what a bound's unit is multiplied by to be in which one."""
_HOLDS: Final = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq}
_GOAL: Final = re.compile(
    r"\s*(?P<name>[a-z_0-9-]+)\s*(?P<sign><=|>=|==|<|>|=)\s*(?P<bound>[0-9]*\.?[0-9]+)\s*(?P<unit>[a-z/]*)\s*"
)
_EXAMPLE: Final = "for example 'p99 < 20ms, rpo = 0'"


@json_keys(hide="name", show="text", wanted="figure")
@frozen
class Goal:
    """One figure with its bound."""

    wanted: GoalFigure
    sign: str
    """`<`, `<=`, `>`, `>=` or `=`."""
    bound: float
    unit: str
    """`ms`, `tps`, `commits` or `s`."""
    name: str
    """As it was typed."""

    @property
    def text(self) -> str:
        """As it was read: `p99 < 20 ms`, `rpo (source lost) = 0 commits`."""
        name = f"{RPO} (source lost)" if self.name == RPO else self.name
        return f"{name} {self.sign} {self.bound:g} {self.unit if self.unit != 'tps' else 'TPS'}"

    def holds(self, value: float) -> bool:
        """Whether a figure in this unit meets it."""
        return bool(_HOLDS[self.sign](value, self.bound))


def read_goals(text: str) -> tuple[Goal, ...]:
    """Read goals with commas or `and` between them; raises UsageError."""
    goals = tuple(_read(part) for part in re.split(r",|;|\band\b", text.lower()) if part.strip())
    if not goals:
        raise UsageError("no goal is given", _EXAMPLE)
    if len({goal.wanted for goal in goals}) < len(goals):
        raise UsageError("a figure is given twice", "give each goal once")
    return goals


def _read(text: str) -> Goal:
    match = _GOAL.fullmatch(text)
    if match is None:
        raise UsageError(f"{text.strip()[:40]!r} is not a goal", f"give FIGURE SIGN BOUND, {_EXAMPLE}")
    name, sign, unit = match["name"].replace("-", "_"), match["sign"].replace("==", "="), match["unit"]
    wanted = _NAMES.get(name)
    if wanted is None:
        hint = closest(name, _NAMES) or f"use one of {', '.join(_NAMES)}"
        raise UsageError(f"{name!r} is not a figure of a goal", hint)
    signs, units = _TAKES[wanted]
    if sign not in signs:
        bound = "minimum" if ">" in signs else "maximum"
        wanted_as = f"its bound is a {bound}: write {name} {' or '.join(signs)} N"
        raise UsageError(f"{text.strip()!r} is not a goal", wanted_as)
    if unit not in units:
        raise UsageError(f"{text.strip()!r} has the wrong unit", f"give {', '.join(filter(None, units))}")
    factor, unit = units[unit]
    return Goal(wanted, sign, float(match["bound"]) * factor, unit, name)


_EACH_COMMIT = 1
_AT_INTERVALS = 0
_SAFE = Loss(0, 0, 0)


def expected_exposure(
    values: Values,
    replicas: Sequence[str],
    setting: OperatingPoint,
    tps: float | None,
    *,
    least_rtt_ms: float,
) -> Exposure:
    """Under these knobs with `tps` acknowledged commits a second; None: no commit is acknowledged.

    `least_rtt_ms` is the bare link's round trip. Replicas are taken to keep up, and semi-sync not to have
    fallen back.
    """
    if setting.workload in READ_ONLY:
        return Exposure(_SAFE, _SAFE, _SAFE)
    if tps is None:
        return silent("no commit is acknowledged; once semi-sync has fallen back, no replica gets one")
    flush = int(value_of(values, keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT))
    sync = int(value_of(values, keys.SYNC_BINLOG))
    # The background thread that flushes wakes up once a second.
    every_s = max(1.0, float(value_of(values, keys.INNODB_FLUSH_LOG_AT_TIMEOUT)))
    # All since the last flush, which may be just over or just about to come.
    until_flush = Loss(round(tps * every_s / 2), 0, ceil(tps * every_s), 1000 * every_s / 2)
    if not redo_fsyncs(flush):
        power_cut = until_flush
    elif sync != _EACH_COMMIT:
        # The last group's: its redo is flushed by the next commits, one of each client at most is at risk.
        power_cut = Loss(ceil(setting.clients / 2), 0, setting.clients)
    else:
        power_cut = _SAFE
    lost = _source_lost(values, replicas, setting, tps, least_rtt_ms)
    binlog, after = after_power_cut(sync, flush, waits=setting.semi_sync, clients=setting.clients)
    dies = until_flush if flush == _AT_INTERVALS else _SAFE
    return Exposure(dies, power_cut, lost, binlog_lost=binlog, replication_after=after)


def _source_lost(
    values: Values, replicas: Sequence[str], setting: OperatingPoint, tps: float, least_rtt_ms: float
) -> Loss | Unknown:
    """What is on its way to the nearest replica; nothing where commits wait for one."""
    if not replicas:
        return Unknown("there is no replica")
    links = [link_of(values, replica) for replica in replicas]
    ways_ms = [_way_ms(link, least_rtt_ms) for link in links if not link.is_silent]
    if not ways_ms:
        return Unknown("no replica gets events over the links as they are: all commits since they were cut")
    if setting.semi_sync:
        return _SAFE
    way_ms = min(ways_ms)
    commits = round(tps * way_ms / 1000)
    return Loss(commits, 0, 2 * commits + setting.clients, way_ms if commits else None)


def _way_ms(link: LinkSettings, least_rtt_ms: float) -> float:
    to_replica_ms, _ = link.one_way_ms
    return max(to_replica_ms, least_rtt_ms / 2)


_UNTAUGHT: Final = 2.0
"""How many times the model may be off for a workload that it has seen no run of."""

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
"""A percentile over the mean, least, usual and most, for commits that wait for a delayed link and for others:
measured over stretches of five seconds in the recorded tour that ships (9.7.4, 2 cores, 1 and 32 clients, 0
and 85 ms)."""


class Verdict(StrEnum):
    """What is to be said of a goal, the best first."""

    MEETS = "meets"
    MAY = "may meet"
    MISSES = "misses"


_RANK: Final = {verdict: rank for rank, verdict in enumerate(Verdict)}


@frozen
class FigureRange:
    """A figure with what encloses it, and where it comes from."""

    value: float
    low: float
    high: float
    origin: Literal["model", "settings"]


@json_keys(hide="goal", show="goal=goal.text")
@frozen
class JudgedGoal:
    """A goal with the figure that it is about; None: the figure is not known."""

    goal: Goal
    figure: FigureRange | None
    verdict: Verdict

    @property
    def shortfall(self) -> float:
        """How many times the figure is from its bound; 1 and less: it is within."""
        if self.figure is None:
            return inf
        value, bound = self.figure.value, self.goal.bound
        if self.goal.wanted is GoalFigure.TPS:
            return bound / value if value else inf
        return value / bound if bound else 1 + value


@json_keys(
    hide="price guessed",
    show="command verdict usually_meets calibrated",
    command="set",
    judged="goals",
)
@frozen
class Advice:
    """One choice of settings."""

    settings: Mapping[KnobName, Value]
    """The knobs that were chosen."""
    figures: Mapping[GoalFigure, FigureRange]
    """Latencies in ms, TPS in commits a second."""
    exposure: Exposure
    judged: tuple[JudgedGoal, ...]
    gives_up: tuple[str, ...]
    """In words, what these settings do not protect from or make slow."""
    price: tuple[float, ...]
    """To order by: kinds of failure that lose commits, the seconds in which they were made, rows that others
    read too early, copies that are not waited for, the mean in ms."""
    guessed: tuple[str, ...]
    """What the runs that the model was fitted to say nothing of."""

    @property
    def command(self) -> str:
        """What turns them."""
        return shlex.join(
            ["replexplorer", "set", *(f"{name}={value}" for name, value in self.settings.items())]
        )

    @property
    def verdict(self) -> Verdict:
        """The worst of its goals'."""
        return max((each.verdict for each in self.judged), key=_RANK.__getitem__, default=Verdict.MEETS)

    @property
    def usually_meets(self) -> bool:
        """By the figures themselves, whatever encloses them; what is not known says nothing."""
        return all(each.figure is None or each.goal.holds(each.figure.value) for each in self.judged)

    @property
    def calibrated(self) -> bool:
        """False where the runs that the model was fitted to say nothing of these settings."""
        return not self.guessed


class Advised(NamedTuple):
    """All that was looked at; of each verdict what gives up least comes first."""

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
    calibration: Calibration,
    *,
    lacking: Collection[KnobName],
) -> Advised:
    """Judge every choice of what decides durability, all other knobs as in `values`, by the calibration;
    what is `pinned` is not chosen, and what the servers are `lacking` is not
    advised."""

    def judged(settings: Mapping[KnobName, Value]) -> Advice:
        turned = {**values, **settings}
        setting = operating_point_of(turned, replicas)
        figures = _modelled(setting, calibration)
        tps = figures[GoalFigure.TPS].value
        exposure = expected_exposure(turned, replicas, setting, tps, least_rtt_ms=calibration.least_rtt_ms)
        return Advice(
            {name: value for name, value in settings.items() if name not in lacking},
            figures,
            exposure,
            tuple(
                _judged(goal, figures, exposure, _lag(turned, replicas, tps, calibration)) for goal in goals
            ),
            _gives_up(turned, replicas, exposure, setting),
            _price(turned, replicas, exposure, setting, figures),
            beyond(setting, turned, replicas, calibration),
        )

    chosen = [
        judged(settings)
        for settings in _choices(values, {*pinned, *lacking}, replicas)
        if unacknowledged({**values, **settings}, replicas) is None
    ]
    chosen.sort(key=lambda each: (_RANK[each.verdict], not each.usually_meets, each.price))
    found = tuple(each for each in chosen if each.verdict is not Verdict.MISSES)
    closest = min(chosen, key=lambda each: (max(j.shortfall for j in each.judged), each.price), default=None)
    return Advised(found, None if found else closest, len(chosen))


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
        if chosen[SEMI_SYNC] != "on":
            found.append(chosen)
        elif replicas:
            found += [{**chosen, **dict(more)} for more in product(*waiting)]
    return found


def replica_lags(
    values: Values, replicas: Sequence[str], tps: float, calibration: Calibration
) -> list[ReplicaLag]:
    """What a minute of a load of this TPS leaves each replica to apply; none of which that is not known."""
    found = [replica_lag(each, applier_of(values, each), tps, calibration) for each in replicas]
    return [each for each in found if each is not None]


def _lag(values: Values, replicas: Sequence[str], tps: float, calibration: Calibration) -> FigureRange | None:
    """Of the replica that falls back farthest; None where one's is not known."""
    known = replica_lags(values, replicas, tps, calibration)
    if not known or len(known) < len(replicas):
        return None
    worst = max(known, key=lambda each: each.lag_s)
    return FigureRange(worst.lag_s, worst.least_s, worst.most_s, "model")


def _judged(
    goal: Goal, figures: Mapping[GoalFigure, FigureRange], exposure: Exposure, lag: FigureRange | None
) -> JudgedGoal:
    figure = lag if goal.wanted is GoalFigure.LAG else figures.get(goal.wanted)
    if goal.wanted in FAILURES:
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


def _modelled(setting: OperatingPoint, calibration: Calibration) -> dict[GoalFigure, FigureRange]:
    most_tps = link_bound_tps(setting, setting.rtt_ms, calibration)
    found = predict(setting, calibration, at_most_tps=most_tps)
    if found is None:
        raise ValueError("no client commits")
    is_known = setting.workload in calibration.local
    times, mean_ms = 1 + calibration.validation.p90_error if is_known else _UNTAUGHT, found.latency_ms
    figures = {GoalFigure.TPS: FigureRange(found.tps, found.tps / times, found.tps * times, "model")}
    tails = _ACROSS_A_LINK if setting.semi_sync and setting.rtt_asked_ms else _AT_HOME
    for wanted in _LATENCIES:
        low, usual, high = tails.get(wanted, (1.0, 1.0, 1.0))
        figures[wanted] = FigureRange(mean_ms * usual, mean_ms * low / times, mean_ms * high * times, "model")
    return figures


def _price(
    values: Mapping[KnobName, Value],
    replicas: Sequence[str],
    exposure: Exposure,
    setting: OperatingPoint,
    figures: Mapping[GoalFigure, FigureRange],
) -> tuple[float, ...]:
    losses = [getattr(exposure, failure) for failure in FAILURES]
    most = [float("inf") if isinstance(loss, Unknown) else float(loss.high) for loss in losses]
    acks = int(value_of(values, keys.SEMI_SYNC_REPLICAS)) if setting.semi_sync else 0
    early = float(setting.semi_sync and setting.after_commit)
    tps = figures[GoalFigure.TPS].value
    lost_s = round(sum(most) / tps, 2) if tps else 0.0
    mean_ms = figures[GoalFigure.MEAN].value
    return sum(each > 0 for each in most), lost_s, early, len(replicas) - acks, mean_ms


_OF_FAILURES: Final = ("mysqld's death", "a power cut of the source", "the source's loss")


def _gives_up(
    values: Mapping[KnobName, Value], replicas: Sequence[str], exposure: Exposure, setting: OperatingPoint
) -> tuple[str, ...]:
    told = []
    for what, failure in zip(_OF_FAILURES, FAILURES, strict=True):
        loss: Loss | Unknown = getattr(exposure, failure)
        if isinstance(loss, Unknown):
            told.append(f"what {what} takes is not known: {loss.why}")
        elif loss.high:
            told.append(f"{what} loses up to {loss.high:,} commits")
    if not setting.semi_sync:
        return tuple(told)
    acks = int(value_of(values, keys.SEMI_SYNC_REPLICAS))
    if setting.after_commit:
        told.append("others can read a row that is lost with the source")
    if acks < len(replicas):
        told.append("losing the source and the replicas that acknowledged, together, loses commits")
    timeout = KnobName(keys.SEMI_SYNC_TIMEOUT, SOURCE)
    after = format_value(timeout.knob, value_of(values, keys.SEMI_SYNC_TIMEOUT))
    few = "no replica" if acks == 1 else f"fewer than {acks} replicas"
    told.append(f"with {few} answering, commits wait {after}, then continue unprotected")
    told.append(f"a commit waits {number(setting.rtt_ms)} ms for the link")
    return tuple(told)
