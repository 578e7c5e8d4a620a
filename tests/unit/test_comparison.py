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


def test_b_against_a_is_judged_as_an_epoch_against_the_one_before() -> None:
    for a_tps, b_tps, verdict in (
        (100, 200, "faster"),
        (200, 100, "slower"),
        (150, 150, "no difference shown"),
    ):
        found = compared(run_of("a", a_tps, seed=1), run_of("b", b_tps, seed=2))
        assert found.verdict == verdict
        assert found.ratio == pytest.approx(b_tps / a_tps, rel=0.05)
        assert known(found.low_ratio) <= b_tps / a_tps <= known(found.high_ratio)
        before, after = known(found.before), known(found.after)
        assert (before.tps.value, after.tps.value) == pytest.approx((a_tps, b_tps), rel=0.03)
        assert after.length_s == pytest.approx(39, abs=1.1)


def test_an_outage_on_either_side_leaves_nothing_to_compare() -> None:
    a, b = run_of("a", 100), run_of("b", 200)
    b.outages.append(ProtectionState.BLOCKED)
    found = compared(a, b)
    assert found.ratio is None
    assert found.low_ratio is None
    assert found.high_ratio is None
    assert found.verdict == "not compared: B was blocked"


def test_little_or_nothing_measured_is_no_ratio() -> None:
    for seconds in (0, 5):
        found = compared(run_of("a", 100, seconds=seconds), run_of("b", 105, seconds=seconds))
        assert found.ratio is None or found.low_ratio is None
        assert found.verdict == "too short"


def test_differences_name_what_a_side_lacks() -> None:
    rtt, semi = KnobName("rtt", "db2"), KnobName("semi_sync", "primary")
    a, b = ComparedRun("a", knobs={rtt: 20.0, semi: "on"}), ComparedRun("b", knobs={rtt: 85.0})
    assert differences(a, b) == (KnobDifference(rtt, 20.0, 85.0), KnobDifference(semi, "on", None))
    assert differences(a, a) == ()


def test_one_change_made_on_both_is_one_row() -> None:
    start, turned = Epoch(0, 0.0, "baseline", None, 1.0), Epoch(1, 20.0, "rtt 0 -> 20 ms", 1.0, 1.0)
    there, other = replace(turned, at_s=11.0), Epoch(2, 30.0, "sync_binlog 1 -> 0", 1.0, 1.0)
    assert [
        (one.title, one.a and one.a.epoch, one.b and one.b.epoch)
        for one in changes((start, turned), (there, other))
    ] == [
        ("rtt 0 -> 20 ms", turned, there),
        ("sync_binlog 1 -> 0", None, other),
    ]


def loaded(at_s: float, tps: float, *, state: ProtectionState | None = None, mark: str = "") -> Tick:
    """A tick of a recording with half a second of load."""
    events = (Event(at_s, 0.0, Severity.INFO, mark, mark=1),) if mark else ()
    tick = make_tick(at_s, tps=tps, events=events)
    tick = replace(
        tick, load=replace(known(tick.load), service=Histogram.of([2000] * int(tps / 2)), duration_s=0.5)
    )
    return tick if state is None else replace(tick, protection=replace(tick.protection, state=state))


def test_of_a_recording_the_last_stretch_with_enough_load_in_one_state_is_taken() -> None:
    ticks = [
        *(loaded(10 + at / 2, 400) for at in range(30)),
        *(loaded(25 + at / 2, 100, mark="" if at else "rtt 0 -> 20 ms") for at in range(30)),
        *(
            loaded(40 + at / 2, 10, state=ProtectionState.BLOCKED, mark="" if at else "cut")
            for at in range(30)
        ),
        *(loaded(55 + at / 2, 300, mark="" if at else "healed") for at in range(6)),
    ]
    run, _ = recorded_run("one", ticks)
    assert (run.from_s - run.zero_s, run.tick and run.tick.at_s) == (15.0, 39.5)
    assert {one.service.count for one in run.intervals} == {50}
    assert len(run.intervals) == 29, "one began before the change"
    assert run.outages == []
    only, _ = recorded_run("one", ticks[60:])
    assert set(only.outages) == {ProtectionState.BLOCKED}
    none, _ = recorded_run("one", ticks[90:])
    assert none.intervals == []
    assert none.tick is None
