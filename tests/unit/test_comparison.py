"""Two runs of a load, one against the other."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from replexplorer.core.epochs.epochs import Epoch
from replexplorer.core.server.protection import ProtectionState
from replexplorer.reports.recordings import ComparedRun, KnobDifference, changes, compared, differences
from tests.fakes.load import interval_of
from tests.known import known
from tests.typed import typed


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
            assert (found.before_tps, found.after_tps) == pytest.approx((a_tps, b_tps), rel=0.03)
            assert known(found.after).length_s == pytest.approx(39, abs=1.1)
        b.outages.append(ProtectionState.BLOCKED)
        outage = compared(a, b)
        assert (outage.ratio, outage.low_ratio, outage.high_ratio) == (None, None, None)
        assert outage.verdict == "not compared: B was blocked"


def test_differences_name_what_a_side_lacks() -> None:
    a, b = (
        ComparedRun("a", knobs=typed("rtt@db2=20 semi_sync=on")),
        ComparedRun("b", knobs=typed("rtt@db2=85")),
    )
    rtt, semi_sync = a.knobs
    assert differences(a, b) == (KnobDifference(rtt, 20.0, 85.0), KnobDifference(semi_sync, "on", None))


def test_one_change_made_on_both_is_one_row() -> None:
    start, turned = Epoch(0, 0.0, "baseline", None, 1.0), Epoch(1, 20.0, "rtt 0 -> 20 ms", 1.0, 1.0)
    there, other = replace(turned, at_s=11.0), Epoch(2, 30.0, "sync_binlog 1 -> 0", 1.0, 1.0)
    both, alone = changes((start, turned), (there, other))
    assert (both.title, known(both.a).epoch, known(both.b).epoch) == ("rtt 0 -> 20 ms", turned, there)
    assert (alone.title, alone.a, known(alone.b).epoch) == ("sync_binlog 1 -> 0", None, other)
