"""Two runs of a load, one against the other: two recordings, or two stacks that were measured in turns.

Law: B against A is judged as the epoch ledger judges an epoch against the one before it. A run that was
down, blocked or degraded meanwhile is of several states, and nothing is compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from replexplorer.core.epochs.epochs import BEFORE, Epoch, Epochs
from replexplorer.core.json_keys import json_keys
from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.load.interval import Interval
from replexplorer.core.server.exposure import Exposure
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.system import ASYNC
from replexplorer.core.tick import Tick

LEAST_INTERVALS: Final = 20
"""A stretch of a recording with fewer is too short to compare: ten seconds."""
_NO_STATE: Final = (ProtectionState.DOWN, ProtectionState.BLOCKED, ProtectionState.DEGRADED)


@dataclass(slots=True)
class ComparedRun:
    """What one load did under one set of settings. Times are seconds on a clock of its own."""

    name: str
    """The stack's, or the recording's."""
    intervals: list[Interval] = field(default_factory=list)
    exposures: list[Exposure] = field(default_factory=list)
    outages: list[ProtectionState] = field(default_factory=list)
    """Looks that found it in no one state."""
    knobs: Mapping[KnobName, Value] = field(default_factory=dict)
    """In effect, else as requested."""
    zero_s: float = 0.0
    """The recording's first tick, on the clock of its own."""
    from_s: float = 0.0
    """The first look at it."""
    tick: Tick | None = None
    """The last one."""

    @property
    def server(self) -> str:
        """`mysql 9.7.4`, `mysql 9.7.4, group`; empty before anything was looked at."""
        source = None if self.tick is None else self.tick.source
        if self.tick is None or source is None:
            return ""
        system = "" if self.tick.system == ASYNC.name else f", {self.tick.system}"
        return f"{source.flavor or '?'} {source.version or '?'}{system}"

    def look(self, tick: Tick) -> None:
        """Take what a tick says besides its load: settings, state, and what a failure would lose."""
        self.from_s = tick.at_s if self.tick is None else self.from_s
        self.tick = tick
        views = tick.knobs.items()
        self.knobs = {
            name: view.requested if view.effective is None else view.effective for name, view in views
        }
        if tick.exposure is not None:
            self.exposures.append(tick.exposure)
        if tick.protection.state in _NO_STATE:
            self.outages.append(tick.protection.state)


def recorded_run(name: str, ticks: Iterable[Tick]) -> tuple[ComparedRun, Sequence[Epoch]]:
    """What of a recording is compared, and all its epochs: the last stretch between two changes with ten
    seconds or more of load in one state, else the last one with so much load; without intervals where
    there is none."""
    run, best = ComparedRun(name), ComparedRun(name)
    requested, changed_s = dict[KnobName, Value](), 0.0
    newest, zero_s, epochs = None, None, tuple[Epoch, ...]()
    for tick in ticks:
        zero_s = tick.at_s if zero_s is None else zero_s
        epochs = tick.epochs or epochs
        now = {knob: view.requested for knob, view in tick.knobs.items()}
        in_effect = all(view.effective in (None, view.requested) for view in tick.knobs.values())
        # A change is in force before its mark, and what a restart took is requested without being in force.
        marks_s = [event.at_s for event in tick.events if event.mark is not None]
        if not in_effect or now != requested or marks_s:
            best, changed_s = _better(best, run), max(marks_s, default=tick.at_s)
            run, requested = ComparedRun(name, zero_s=zero_s), now
        if not in_effect:
            continue
        run.look(tick)
        load = tick.load
        if load is None or load.service is None or load.service is newest or load.state != "running":
            continue
        newest = load.service
        end_s = tick.at_s if tick.load_ended_s is None else tick.load_ended_s
        start_s = end_s - load.duration_s
        if load.clients and load.duration_s > 0 and start_s >= changed_s:
            run.intervals.append(
                Interval(
                    start_s=start_s, end_s=end_s, service=load.service, response=load.response or Histogram(),
                    errors=load.errors, unknown=load.unknown, reconnects=load.reconnects,
                    clients=load.clients, connected=load.connected, workload=load.workload, mode=load.mode,
                    cpu_percent=load.cpu_percent or 0.0, lateness_p99_ms=load.lateness_p99_ms or 0.0,
                )
            )  # fmt: skip
    return _better(best, run), epochs


def _better(best: ComparedRun, run: ComparedRun) -> ComparedRun:
    """The later one, unless it has too little load, or was in no one state and the other was."""
    if len(run.intervals) < LEAST_INTERVALS or (run.outages and best.intervals and not best.outages):
        return best
    return run


def compared(a: ComparedRun, b: ComparedRun) -> Epoch:
    """An epoch whose `before` is A and whose `after` is B."""
    epochs, end_s = Epochs(0.0), 0.0
    for run in (a, b):
        if run is b:
            epochs.begin(1, end_s, "B against A")
            epochs.effective(1, end_s)
        for one in run.intervals:  # one after the other: turns have rests between them
            epochs.add(replace(one, start_s=end_s, end_s=end_s + one.duration_s))
            end_s += one.duration_s
        for exposure in run.exposures:
            epochs.expose(end_s, exposure)
    epochs.end(end_s)
    row = epochs.rows()[-1]
    outage = "; ".join(
        f"{letter} was {' and '.join(dict.fromkeys(run.outages))}"
        for letter, run in (("A", a), ("B", b))
        if run.outages
    )
    if outage:
        return replace(
            row, verdict=f"not compared: {outage}", delta_percent=None, low_percent=None, high_percent=None
        )
    return replace(row, verdict=row.verdict.removesuffix(BEFORE))


@json_keys(name="knob")
@dataclass(frozen=True, slots=True)
class KnobDifference:
    """A knob that the two have at other values."""

    name: KnobName
    a: Value | None
    """None: A has no such knob."""
    b: Value | None


def differences(a: ComparedRun, b: ComparedRun) -> tuple[KnobDifference, ...]:
    """Knobs that one lacks, or that are in effect at other values, A's first."""
    names = dict.fromkeys([*a.knobs, *b.knobs])
    found = (KnobDifference(name, a.knobs.get(name), b.knobs.get(name)) for name in names)
    return tuple(one for one in found if one.a != one.b)


def changes(a: Sequence[Epoch], b: Sequence[Epoch]) -> tuple[tuple[str, Epoch | None, Epoch | None], ...]:
    """What each change did to A and to B, by its title; None where it was not made. A's order, then B's."""
    left = [epoch for epoch in b if epoch.number]
    rows: list[tuple[str, Epoch | None, Epoch | None]] = []
    for epoch in a:
        if epoch.number:
            twin = next((one for one in left if one.title == epoch.title), None)
            left = [one for one in left if one is not twin]
            rows.append((epoch.title, epoch, twin))
    return (*rows, *((epoch.title, None, epoch) for epoch in left))
