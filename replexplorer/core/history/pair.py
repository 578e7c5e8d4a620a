"""Two stacks on one axis of time: the same stretch of both, how they are set, and B against A.

Law: what is compared is the stretch since the last change on either side, for a change on one may move the
other when they share a machine. B against A is judged as the epoch ledger judges an epoch against the one
before it (`core.epochs`). A side that was down, blocked or degraded meanwhile is of no one state, and
nothing is compared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, NamedTuple

from replexplorer.core.epochs.epoch import BEFORE, TOO_SHORT, Epoch, EpochSide
from replexplorer.core.epochs.epochs import Epochs
from replexplorer.core.epochs.table import interval_of, ratio_of, verdict_words
from replexplorer.core.history.series import History
from replexplorer.core.knobs.knob_view import KnobView
from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.load.interval import Interval
from replexplorer.core.load.load_view import LoadView
from replexplorer.core.server.exposure import Exposure
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.system import ASYNC
from replexplorer.core.tick import Tick

_KEPT: Final = 1200
"""Intervals of a side: ten minutes at two a second."""
_LEAST_INTERVALS: Final = 20
"""A stretch of a recording with fewer is too short to compare: ten seconds."""
_TOGETHER_S: Final = 10.0
"""Changes with one title so near each other on both sides are one row of the ledger."""
_NO_STATE: Final = (ProtectionState.DOWN, ProtectionState.BLOCKED, ProtectionState.DEGRADED)


class ComparedStretch(NamedTuple):
    """What of a recording is compared, in seconds of its clock; nothing where it ends before it begins."""

    from_s: float
    to_s: float
    why: str
    """Why this one, in words."""
    zero_s: float = 0.0
    """The recording's first tick."""


@dataclass(slots=True)
class StackSide:
    """One of two stacks, or a stretch of a recording. Times are seconds on the axis that both share."""

    name: str
    """The stack, or the recording."""
    history: History = field(default_factory=History)
    """Its points, on its own clock."""
    tick: Tick | None = None
    """The newest."""
    offset_s: float = 0.0
    """Added to its own clock for the axis."""
    changed_s: float = float("-inf")
    """When it was changed last."""
    changed_at_s: list[float] = field(default_factory=list)
    """When it was changed, oldest first."""
    intervals: deque[Interval] = field(default_factory=lambda: deque(maxlen=_KEPT))
    exposures: deque[tuple[float, Exposure]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    outages: deque[tuple[float, ProtectionState]] = field(default_factory=lambda: deque(maxlen=_KEPT))
    """Looks that found it in no one state."""
    stretch_taken: ComparedStretch | None = None
    """What of a recording it is; None: of a stack that runs."""
    _newest: Histogram | None = None

    def feed(self, tick: Tick, offset_s: float) -> None:
        """Take a tick; `offset_s` brings its clock to the axis."""
        self.offset_s, self.tick = offset_s, tick
        self.history.feed(tick)
        self.changed_at_s += [event.at_s + offset_s for event in tick.events if event.mark is not None]
        self.changed_s = max([self.changed_s, *self.changed_at_s[-1:]])
        self.see(tick, tick.at_s + offset_s)
        load = tick.load
        if load is not None and load.service is not None and load.service is not self._newest:
            self._newest = load.service
            if load.state == "running" and load.clients and load.duration_s > 0:
                ended_s = tick.at_s if tick.load_ended_s is None else tick.load_ended_s
                self.intervals.append(_interval(load, load.service, ended_s + offset_s))

    def see(self, tick: Tick, at_s: float) -> None:
        """Take what a tick says beside its load: what would be lost, and the state."""
        self.tick = tick
        if tick.exposure is not None:
            self.exposures.append((at_s, tick.exposure))
        if tick.protection.state in _NO_STATE:
            self.outages.append((at_s, tick.protection.state))

    def stretch(self) -> ComparedStretch:
        """What of a recording that was fed whole is compared: the last stretch between two changes with ten
        seconds or more of load and one state, else the last one with so much load; an empty one where no
        stretch has."""
        edges = [float("-inf"), *self.changed_at_s, float("inf")]
        loaded = [
            (low, high)
            for low, high in pairwise(edges)
            if sum(low <= one.start_s and one.end_s <= high for one in self.intervals) >= _LEAST_INTERVALS
        ]
        whole = [edge for edge in loaded if not any(edge[0] <= at_s <= edge[1] for at_s, _ in self.outages)]
        what = f"{_LEAST_INTERVALS // 2} s or more of load between two changes"
        if whole:
            return ComparedStretch(*whole[-1], f"the last with {what} in one state")
        return (
            ComparedStretch(*loaded[-1], f"the last with {what}")
            if loaded
            else ComparedStretch(1.0, 0.0, f"none with {what}")
        )

    def taken(self, stretch: ComparedStretch, ticks: Iterable[Tick]) -> StackSide:
        """That stretch of a recording alone, from where its settings are in effect to where they no longer
        are: a change's mark comes last, and settings that a restart took are set again."""
        side = StackSide(self.name, stretch_taken=stretch)
        settings: dict[KnobName, Value] | None = None
        for tick in ticks:
            if stretch.from_s < tick.at_s <= stretch.to_s:
                views = tick.knobs.items()
                now = {name: view.requested for name, view in views}
                holds = all(view.effective in (None, view.requested) for _, view in views)
                if settings is None and not holds:
                    stretch = stretch._replace(from_s=tick.at_s)
                    continue
                if not holds or now != (settings or now):
                    break
                settings = now
                side.feed(tick, 0.0)
                side.stretch_taken = stretch._replace(to_s=tick.at_s)
        side.intervals = deque(one for one in side.intervals if stretch.from_s <= one.start_s)
        return side

    def points(self, name: str) -> tuple[tuple[float, float | None], ...]:
        """One figure of its history (`history.points.Point`) on the axis."""
        return tuple((point.at_s + self.offset_s, getattr(point, name)) for point in self.history.points)

    @property
    def server(self) -> str:
        """`mysql 9.7.4`, `mysql 9.7.4, group`; empty before anything was looked at."""
        source = None if self.tick is None else self.tick.source
        if self.tick is None or source is None:
            return ""
        system = "" if self.tick.system == ASYNC.name else f", {self.tick.system}"
        return f"{source.flavor or '?'} {source.version or '?'}{system}"


class PairComparison(NamedTuple):
    """B against A over one stretch."""

    epoch: Epoch
    """Its `before` is A and its `after` is B."""
    seconds: float
    """How long the stretch is."""
    outage: str
    """What stands in the way, in words; empty where nothing does."""

    @property
    def a(self) -> EpochSide:
        """A's figures."""
        return self.epoch.before or EpochSide()

    @property
    def b(self) -> EpochSide:
        """B's figures."""
        return self.epoch.after or EpochSide()

    @property
    def ratio(self) -> float | None:
        """B's figure divided by A's: TPS in the closed loop, response p95 in the open one; None where nothing
        is compared."""
        return None if self.outage else self.epoch.ratio

    @property
    def bounds(self) -> tuple[float | None, float | None]:
        """The ratio's 95 % interval; None: no bound."""
        return (None, None) if self.outage else (self.epoch.low_ratio, self.epoch.high_ratio)

    @property
    def verdict(self) -> str:
        """faster, slower (of B), no difference shown, or why nothing is compared."""
        return f"not compared: {self.outage}" if self.outage else self.epoch.verdict

    def words(self) -> str:
        """`x1.31 [1.20, 1.42]: B is 1.3 times faster`."""
        if self.outage:
            return self.verdict
        effect = " ".join(filter(None, (ratio_of(self.epoch), interval_of(self.epoch))))
        word = verdict_words(self.epoch)
        word = f"B is {word}" if self.epoch.verdict in ("faster", "slower") else word
        return f"{effect}: {word}" if effect else word


def compared(a: StackSide, b: StackSide, *, since_s: float | None = None) -> PairComparison:
    """B against A over what both did since the last change on either; with `since_s` over all since then, of
    two runs that have ended."""
    both = [*a.intervals, *b.intervals]
    # While one load runs and the other is not there yet, the one has the machine for itself.
    began_s = [side.intervals[0].start_s for side in (a, b) if side.intervals]
    from_s = max(a.changed_s, b.changed_s, *began_s) if since_s is None else since_s
    taken = [one for one in both if one.start_s >= from_s]
    begin_s = min((one.start_s for one in taken), default=0.0)
    end_s = max((one.end_s for one in taken), default=0.0)
    epochs = Epochs(0.0)
    apart_s = end_s - begin_s + 1.0
    for side, shift_s in ((a, -begin_s), (b, apart_s - begin_s)):
        if side is b:
            epochs.begin(1, apart_s, "B against A")
            epochs.effective(1, apart_s)
        for one in side.intervals:
            if one.start_s >= from_s:
                epochs.add(replace(one, start_s=one.start_s + shift_s, end_s=one.end_s + shift_s))
        for at_s, exposure in side.exposures:
            if begin_s <= at_s <= end_s:
                epochs.expose(at_s + shift_s, exposure)
    if since_s is not None:  # no more is to come
        epochs.end(2 * apart_s)
    outage = "; ".join(
        f"{letter} {_outage(side, begin_s, end_s)}"
        for letter, side in (("A", a), ("B", b))
        if _outage(side, begin_s, end_s)
    )
    row = epochs.rows()[-1]
    row = replace(row, verdict=row.verdict.removesuffix(BEFORE))
    if since_s is None and row.verdict == TOO_SHORT:  # both go on
        row = replace(row, verdict="measuring")
    return PairComparison(row, end_s - begin_s, outage)


def _outage(side: StackSide, begin_s: float, end_s: float) -> str:
    """What keeps a side from being compared; empty where nothing does."""
    stretch = side.stretch_taken
    if stretch is not None and stretch.to_s < stretch.from_s:
        return f"has {stretch.why}"
    states = dict.fromkeys(state.value for at_s, state in side.outages if begin_s <= at_s <= end_s)
    why = "" if stretch is None else ": it has no such stretch in which commits were in one state throughout"
    return f"was {' and '.join(states)}{why}" if states else ""


class KnobDifference(NamedTuple):
    """A knob that the two stacks have at other values."""

    name: KnobName
    a: Value | None
    """None: A has no such knob."""
    b: Value | None


def differences(a: Mapping[KnobName, KnobView], b: Mapping[KnobName, KnobView]) -> tuple[KnobDifference, ...]:
    """Knobs that one side lacks, or that are in effect at other values, A's first."""
    found = []
    for name in dict.fromkeys([*a, *b]):
        old, new = (None if name not in side else in_effect(side[name]) for side in (a, b))
        if old != new:
            found.append(KnobDifference(name, old, new))
    return tuple(found)


def in_effect(view: KnobView) -> Value:
    """What is so, else what is asked for."""
    return view.requested if view.effective is None else view.effective


class SideChange(NamedTuple):
    """A change of one side, or the same one of both."""

    at_s: float
    title: str
    a: Epoch | None
    b: Epoch | None


def changes(a: StackSide, b: StackSide) -> tuple[SideChange, ...]:
    """The epochs of both, a change that was made on both in one row, oldest first."""
    rows: list[SideChange] = []
    left = list(_epochs(b))
    for at_s, epoch in _epochs(a):
        twin = next(
            (one for one in left if one[1].title == epoch.title and abs(one[0] - at_s) <= _TOGETHER_S), None
        )
        if twin is not None:
            left.remove(twin)
        rows.append(SideChange(at_s, epoch.title, epoch, None if twin is None else twin[1]))
    rows += [SideChange(at_s, epoch.title, None, epoch) for at_s, epoch in left]
    return tuple(sorted(rows, key=lambda row: row.at_s))


def effect_words(epoch: Epoch | None) -> str:
    """`x0.31 [0.30, 0.33]`: what a change did to a side; None: it was not made there."""
    if epoch is None:
        return "not changed"
    return f"{ratio_of(epoch)} {interval_of(epoch, short=True)}".strip() or epoch.verdict


def pair_markdown(
    a: StackSide, b: StackSide, verdict: str, footing: str, found: Sequence[SideChange], origin_s: float
) -> str:
    """Both sides, B against A with what that rests on, and what each change did, as Markdown."""
    rows = [f"- {letter}: {side.name}, {side.server}" for letter, side in (("A", a), ("B", b))]
    rows += [f"- B against A: {verdict}", f"- {footing}", "", "| s | change | A | B |", "|---|---|---|---|"]
    for one in found:
        title = one.title.replace("|", "\\|")
        effects = f"{effect_words(one.a)} | {effect_words(one.b)}"
        rows.append(f"| {one.at_s - origin_s:.1f} | {title} | {effects} |")
    return "\n".join(rows)


def _epochs(side: StackSide) -> Iterator[tuple[float, Epoch]]:
    found: Sequence[Epoch] = () if side.tick is None else side.tick.epochs
    return ((epoch.at_s + side.offset_s, epoch) for epoch in found if epoch.number)


def _interval(load: LoadView, service: Histogram, end_s: float) -> Interval:
    """The interval that a tick's load is of."""
    return Interval(
        start_s=end_s - load.duration_s,
        end_s=end_s,
        service=service,
        response=load.response if load.response is not None else Histogram(),
        errors=load.errors,
        unknown=load.unknown,
        reconnects=load.reconnects,
        clients=load.clients,
        connected=load.connected,
        workload=load.workload,
        cpu_percent=load.cpu_percent or 0.0,
        lateness_p99_ms=load.lateness_p99_ms or 0.0,
        mode=load.mode,
    )


def footing(*, at_once: bool, turns: int = 0, cores: int | None = None, percent: float | None = None) -> str:
    """What a comparison rests on, in words: who had the machine meanwhile."""
    if turns:
        each = "once" if turns == 1 else f"{turns} times"
        return f"in turns, {each} each: while one ran the other rested, so neither took CPU from the other"
    if not at_once:
        return "two recordings: each ran by itself, and nothing says whether their machines were alike"
    together = "both loads at once: where they share a machine they take CPU from each other"
    if cores is None:
        return together
    busy = "" if percent is None else f", {percent:.0f} % busy"
    return f"{together}; A's source has {cores} {'core' if cores == 1 else 'cores'}{busy}"
