"""Two stacks on one axis: what is compared is what both did since the last change on either."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from replexplorer.core.epochs.epoch import Epoch
from replexplorer.core.event import Event, Severity
from replexplorer.core.history.pair import StackSide, changes, compared, differences, footing
from replexplorer.core.knobs.names import KnobName
from replexplorer.core.load.interval import Interval
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.stats.histogram import Histogram
from tests.fakes.facade import knob_views, make_tick


def second(start_s: float, tps: int, latency_ms: float = 2.0) -> Interval:
    """One second of a load."""
    service = Histogram()
    for _ in range(tps):
        service.record(int(latency_ms * 1000))
    return Interval(
        start_s=start_s, end_s=start_s + 1.0, service=service, errors=0, unknown=0, reconnects=0, clients=8,
        connected=8, workload="update_index", cpu_percent=1.0, lateness_p99_ms=0.1,
    )  # fmt: skip


def side(name: str, tps: int, *, from_s: float = 0.0, seconds: int = 40, seed: int = 1) -> StackSide:
    found, chance = StackSide(name), random.Random(seed)
    found.intervals.extend(second(from_s + at, tps + chance.randint(-5, 5)) for at in range(seconds))
    return found


@pytest.mark.parametrize(
    ("a_tps", "b_tps", "verdict"),
    [(100, 200, "faster"), (200, 100, "slower"), (150, 150, "no difference shown")],
)
def test_b_against_a_is_judged_as_an_epoch_against_the_one_before(
    a_tps: int, b_tps: int, verdict: str
) -> None:
    found = compared(side("a", a_tps, seed=1), side("b", b_tps, seed=2))
    assert found.verdict == verdict
    assert found.ratio == pytest.approx(b_tps / a_tps, rel=0.05)
    low, high = found.bounds
    assert low is not None
    assert high is not None
    assert low <= b_tps / a_tps <= high
    assert found.a.tps.value == pytest.approx(a_tps, rel=0.03)
    assert found.b.tps.value == pytest.approx(b_tps, rel=0.03)


def test_swapping_the_sides_inverts_the_ratio() -> None:
    a, b = side("a", 100), side("b", 300, seed=2)
    there, back = compared(a, b), compared(b, a)
    assert there.ratio is not None
    assert back.ratio is not None
    assert there.ratio * back.ratio == pytest.approx(1.0, rel=0.02)


def test_what_one_did_before_the_other_was_changed_is_left_out() -> None:
    a, b = side("a", 100, seconds=80), side("b", 100, seconds=40)
    b.intervals.extend(second(40.0 + at, 200) for at in range(40))
    b.changed_s = 40.0
    found = compared(a, b)
    assert found.seconds == pytest.approx(40.0)
    assert found.ratio == pytest.approx(2.0, rel=0.05)
    assert found.a.n < 41 * 106


def test_an_outage_on_either_side_leaves_nothing_to_compare() -> None:
    a, b = side("a", 100), side("b", 200)
    b.outages.append((20.0, ProtectionState.BLOCKED))
    found = compared(a, b)
    assert found.ratio is None
    assert found.verdict == "not compared: B was blocked"
    b.outages.clear()
    b.outages.append((-5.0, ProtectionState.BLOCKED))  # before it all began
    assert compared(a, b).ratio is not None


def test_turns_with_rests_between_them_are_one_stretch_of_each() -> None:
    a, b = side("a", 100, seconds=15), side("b", 200, from_s=20.0, seconds=15)
    b.intervals.extend(second(40.0 + at, 200) for at in range(15))
    a.intervals.extend(second(60.0 + at, 100) for at in range(15))
    found = compared(a, b, since_s=float("-inf"))
    assert found.ratio == pytest.approx(2.0, rel=0.05)
    assert found.a.length_s == pytest.approx(29, abs=1.1)


def test_few_seconds_are_still_measured_on_the_screen_and_too_short_once_over() -> None:
    a, b = side("a", 100, seconds=12), side("b", 105, seconds=6)
    assert compared(a, b).verdict == "measuring"
    assert compared(side("a", 100, seconds=5), side("b", 105, seconds=5)).verdict == "measuring"
    assert compared(a, b, since_s=0.0).verdict == "too short"


def test_nothing_measured_is_no_ratio() -> None:
    found = compared(StackSide("a"), StackSide("b"))
    assert found.ratio is None
    assert found.words()


def test_a_change_on_a_side_moves_where_the_stretch_begins() -> None:
    one = StackSide("a")
    one.feed(make_tick(1.0), 100.0)
    assert one.changed_s == float("-inf")
    mark = Event(5.0, 0.0, Severity.INFO, "rtt 20 -> 85 ms", mark=1)
    one.feed(make_tick(5.0, events=(mark,)), 100.0)
    assert one.changed_s == 105.0


def test_an_interval_is_dated_by_its_own_end_and_not_by_the_look_that_brought_it() -> None:
    one, tick = StackSide("a"), make_tick(5.4)
    assert tick.load is not None
    load = replace(tick.load, service=second(0.0, 100).service, duration_s=0.5)
    one.feed(replace(tick, load=load, load_ended_s=5.0), 100.0)
    assert [(each.start_s, each.end_s) for each in one.intervals] == [(104.5, 105.0)]
    # A change between that end and the look took nothing from it, nor is it of what came after.
    one.changed_s = 104.8
    assert compared(one, StackSide("b")).a.n == 0
    recorded = replace(load, service=second(0.0, 90).service)
    one.feed(replace(make_tick(6.0), load=recorded), 100.0)
    assert one.intervals[-1].end_s == 106.0


def test_differences_name_what_a_side_lacks() -> None:
    rtt, semi = KnobName("rtt", "db2"), KnobName("semi_sync", "primary")
    a, b = dict(knob_views({rtt: 20.0})), dict(knob_views({rtt: 85.0}))
    del b[semi]
    found = {one.name: (one.a, one.b) for one in differences(a, b)}
    assert found == {rtt: (20.0, 85.0), semi: (a[semi].requested, None)}
    assert differences(a, a) == ()


def test_one_change_made_on_both_is_one_row() -> None:
    def with_epochs(name: str, offset_s: float, *epochs: Epoch) -> StackSide:
        found = StackSide(name)
        found.feed(replace(make_tick(50.0), epochs=epochs), offset_s)
        return found

    a = with_epochs("a", 0.0, Epoch(0, 0.0, "start", None, 1.0), Epoch(1, 20.0, "rtt 0 -> 20 ms", 1.0, 1.0))
    b = with_epochs(
        "b", 10.0, Epoch(1, 11.0, "rtt 0 -> 20 ms", 1.0, 1.0), Epoch(2, 30.0, "sync_binlog 1 -> 0", 1.0, 1.0)
    )
    rows = changes(a, b)
    assert [(row.title, row.a is not None, row.b is not None) for row in rows] == [
        ("rtt 0 -> 20 ms", True, True),
        ("sync_binlog 1 -> 0", False, True),
    ]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"at_once": True, "cores": 2, "percent": 97.0}, "each other; A's source has 2 cores, 97 % busy"),
        ({"at_once": True}, "both loads at once: where they share a machine they take CPU from each other"),
        ({"at_once": False, "turns": 2}, "in turns, 2 times each"),
        ({"at_once": False}, "two recordings"),
    ],
)
def test_the_footing_says_who_had_the_machine(given: dict[str, object], words: str) -> None:
    assert words in footing(**given)  # type: ignore[arg-type]
