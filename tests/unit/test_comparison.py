"""Two runs of a load, one against the other."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from replexplorer.core.epochs.epochs import Epoch
from replexplorer.core.event import Event, Severity
from replexplorer.core.knobs.names import KnobName
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.tick import Tick
from replexplorer.reports.recordings import (
    ComparedRun,
    KnobDifference,
    changes,
    compared,
    differences,
    recorded_run,
)
from tests.fakes.facade import make_tick
from tests.fakes.load import interval_of
from tests.known import known


def run_of(name: str, tps: int, *, seconds: int = 40, seed: int = 1) -> ComparedRun:
    chance = random.Random(seed)
    # Turns with a rest between them, on the clock of the session.
    found = [
        interval_of(at * (1.0 if at < seconds // 2 else 2.0), [2000] * (tps + chance.randint(-5, 5)), 1.0)
        for at in range(seconds)
    ]
    return ComparedRun(name, intervals=found)


RUNS = """\
100 200 40 faster
200 100 40 slower
150 150 40 no difference shown
100 105 5  too short
100 105 0  too short
"""
"""TPS of A and of B, for how many seconds, and the verdict."""


def test_b_against_a_is_judged_as_an_epoch_against_the_one_before() -> None:
    for line in RUNS.splitlines():
        *figures, verdict = line.split(maxsplit=3)
        a_tps, b_tps, seconds = map(int, figures)
        a, b = run_of("a", a_tps, seconds=seconds, seed=1), run_of("b", b_tps, seconds=seconds, seed=2)
        found = compared(a, b)
        assert found.verdict == verdict
        if seconds == 40:
            assert known(found.low_ratio) <= b_tps / a_tps <= known(found.high_ratio)
            before, after = known(found.before), known(found.after)
            assert (before.tps.value, after.tps.value) == pytest.approx((a_tps, b_tps), rel=0.03)
            assert after.length_s == pytest.approx(39, abs=1.1)
        b.outages.append(ProtectionState.BLOCKED)
        outage = compared(a, b)
        assert (outage.ratio, outage.low_ratio, outage.high_ratio) == (None, None, None)
        assert outage.verdict == "not compared: B was blocked"


def test_differences_name_what_a_side_lacks() -> None:
    rtt, semi = KnobName("rtt", "db2"), KnobName("semi_sync", "primary")
    a, b = ComparedRun("a", knobs={rtt: 20.0, semi: "on"}), ComparedRun("b", knobs={rtt: 85.0})
    assert differences(a, b) == (KnobDifference(rtt, 20.0, 85.0), KnobDifference(semi, "on", None))
    assert differences(a, a) == ()


def test_one_change_made_on_both_is_one_row() -> None:
    start, turned = Epoch(0, 0.0, "baseline", None, 1.0), Epoch(1, 20.0, "rtt 0 -> 20 ms", 1.0, 1.0)
    there, other = replace(turned, at_s=11.0), Epoch(2, 30.0, "sync_binlog 1 -> 0", 1.0, 1.0)
    both, alone = changes((start, turned), (there, other))
    assert (both.title, known(both.a).epoch, known(both.b).epoch) == ("rtt 0 -> 20 ms", turned, there)
    assert (alone.title, alone.a, known(alone.b).epoch) == ("sync_binlog 1 -> 0", None, other)


def stretch(from_s: float, ticks: int, tps: float, mark: str = "", state: str = "protected") -> list[Tick]:
    """Ticks of a recording with half a second of load each, and a mark at the first."""
    service = Histogram.of([2000] * int(tps / 2))
    found = []
    for at in range(ticks):
        tick = make_tick(from_s + at / 2, tps=tps, state=ProtectionState(state))
        found.append(replace(tick, load=replace(known(tick.load), service=replace(service), duration_s=0.5)))
    events = (Event(from_s, 0.0, Severity.INFO, mark, mark=1),) if mark else ()
    return [replace(found[0], events=events), *found[1:]]


def test_of_a_recording_the_last_stretch_with_enough_load_in_one_state_is_taken() -> None:
    ticks = [
        *stretch(10.0, 30, 400),
        *stretch(25.0, 30, 100, "rtt 0 -> 20 ms"),
        *stretch(40.0, 30, 10, "cut", "blocked"),
        *stretch(55.0, 6, 300, "healed"),
    ]
    run, _ = recorded_run("one", ticks)
    assert (run.from_s - run.zero_s, known(run.tick).at_s, run.outages) == (15.0, 39.5, [])
    assert [one.service.count for one in run.intervals] == [50] * 29, "one began before the change"
    only, _ = recorded_run("one", ticks[60:])
    assert set(only.outages) == {ProtectionState.BLOCKED}
    none, _ = recorded_run("one", ticks[90:])
    assert (none.intervals, none.tick) == ([], None)
