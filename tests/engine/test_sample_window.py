"""The last seconds side by side: which are taken, and what ends a stretch."""

from __future__ import annotations

from dataclasses import replace

import pytest

from replexplorer.core.knobs.names import Value
from replexplorer.core.load.interval import Interval
from replexplorer.core.server.anatomy import Anatomy, Part
from replexplorer.core.server.counters import CommitSample, Sent, ServerStatus, Source, Total
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.server.truth import ApplierSample, Behind, CrossCheck, ServerTruth
from replexplorer.core.stats.histogram import Histogram
from replexplorer.engine.observe.samples import NodeSample
from replexplorer.engine.observe.window import SampleWindow
from tests.fakes.load import interval_of

TPS = 100
VALUES: dict[str, Value] = {"wait_point": "after_sync", "innodb_flush_log_at_trx_commit": 1}
BOOTED_S = -1000


def sample(at_s: float, *, tps: float = TPS, uuid: str = "u", booted_s: float = BOOTED_S) -> NodeSample:
    """A primary that has committed at this pace since it booted, 10 ms each, 8 of them fsyncs."""
    commits = round((at_s - booted_s) * tps)
    totals = {
        Source.REDO_FSYNC: Total(commits, 3.0 * commits),
        Source.BINLOG_WRITE: Total(commits, 0.0),
        Source.BINLOG_FSYNC: Total(commits, 5.0 * commits),
        Source.COMMIT_STAGE: Total(commits, 9.0 * commits),
        Source.FLUSH_LOCK: Total(commits, 0.0),
        Source.STATEMENT: Total(commits, 9.5 * commits),
        Source.IDLE: Total(commits, 0.4 * commits),
    }
    status = ServerStatus(uptime_s=int(at_s - booted_s), binlog_cache_use=commits)
    view = NodeView("db1", "primary", reachable=True, is_source=True, server_uuid=uuid)
    return NodeSample(at_s, view, status, VALUES, commits=CommitSample(at_s + 0.01, totals))


def interval(start_s: float, seconds: float = 0.5, *, tps: float = TPS) -> Interval:
    commits = round(tps * seconds)
    return interval_of(start_s, [10_000] * commits, seconds, writes=commits)


def lookback(seconds: float, *, tps: float = TPS) -> SampleWindow:
    """So many seconds of both, cut at different moments."""
    seen = SampleWindow()
    halves = int(2 * seconds)
    seen.add_intervals(interval(0.2 + at / 2, tps=tps) for at in range(halves))
    for at in range(halves + 1):
        seen.add_sample(sample(at / 2, tps=tps))
    return seen


def anatomy(seen: SampleWindow, since_s: float) -> Anatomy | None:
    found = seen.stretch(since_s)
    return found.anatomy() if found else None


def checks(truth: ServerTruth | None) -> dict[str, CrossCheck]:
    assert truth is not None
    return {check.name: check for check in truth.checks}


def test_five_seconds_are_merged() -> None:
    found = anatomy(lookback(20), 0.0)
    assert found is not None
    assert found.duration_s == pytest.approx(5.0)
    assert found.mean_ms == pytest.approx(10.0)
    assert found.parts == pytest.approx(
        {
            Part.WIRE: 0.4, Part.EXECUTE: 0.5, Part.FSYNC_QUEUE: 0.0, Part.REDO: 3.0, Part.BINLOG: 5.0,
            Part.ENGINE: 1.0, Part.OTHER: 0.1,
        }
    )  # fmt: skip
    assert lookback(20).commit_ms == pytest.approx(9.0)


def test_for_want_of_commits_it_reaches_further_back_but_not_without_end() -> None:
    assert _seconds(lookback(20, tps=2)) == pytest.approx(10.0)
    assert _seconds(lookback(20, tps=6)) == pytest.approx(5.0)


def _seconds(seen: SampleWindow, since_s: float = 0.0) -> float:
    found = anatomy(seen, since_s)
    assert found is not None
    return found.duration_s


def test_it_does_not_reach_across_a_change() -> None:
    seen = lookback(20)
    assert _seconds(seen, since_s=17.3) == pytest.approx(2.0)
    assert anatomy(seen, 19.4) is None
    assert anatomy(seen, float("inf")) is None
    truth = seen.truth(17.3)
    assert truth is not None
    assert (truth.duration_s, truth.commits, truth.checks) == (2.0, 200, ())


def test_what_began_before_a_change_is_of_before_though_it_ended_after() -> None:
    """A client that leaves finishes a commit of 3 s."""
    seen = lookback(20)
    long = Histogram.of([3_000_000, 10_000])
    seen.add_intervals(
        [replace(interval(20.2), service=long), interval(20.7), interval(21.2), interval(21.7)]
    )
    for at in range(41, 45):
        seen.add_sample(sample(at / 2))
    assert _seconds(seen, since_s=20.0) == pytest.approx(1.0)
    found = anatomy(seen, 20.0)
    assert found is not None
    assert found.mean_ms == pytest.approx(10.0)


def test_preparing_the_table_is_no_commits_time() -> None:
    """Its statements are the same account's."""
    seen = SampleWindow()
    seen.add_intervals(
        replace(interval(at / 2), state="preparing" if at < 34 else "running") for at in range(40)
    )
    for at in range(41):
        seen.add_sample(sample(at / 2))
    assert _seconds(seen) == pytest.approx(2.49)


def test_a_load_that_stopped_right_after_a_change_leaves_the_truth() -> None:
    seen = lookback(20)
    seen.add_sample(sample(20.5))
    assert seen.truth(20.1) is None
    for at in range(42, 46):
        seen.add_sample(sample(at / 2))
    truth = seen.truth(20.1)
    assert truth is not None
    assert truth.duration_s == 2.0
    assert anatomy(seen, 20.1) is None


AWAY = NodeSample(20.5, NodeView("db1", "primary", reachable=False, is_source=True))


@pytest.mark.parametrize(
    "anew", [(sample(20.5, uuid="v"),), (sample(20.5, booted_s=20.0),), (AWAY, sample(21.0))]
)
def test_a_server_that_restarted_or_was_away_begins_anew(anew: tuple[NodeSample, ...]) -> None:
    seen = lookback(20)
    for each in anew:
        seen.add_sample(each)
    assert anatomy(seen, 0.0) is None
    assert seen.truth(0.0) is None


def test_without_a_load_there_is_truth_and_no_anatomy() -> None:
    seen = SampleWindow()
    for at in range(10):
        seen.add_sample(sample(at / 2))
    assert anatomy(seen, 0.0) is None
    truth = seen.truth(0.0)
    assert truth is not None
    assert (truth.commits, truth.group_size, truth.binlog_fsyncs) == (450, 1.0, 1.0)


def test_a_server_that_does_not_count_waits_still_tells_its_commits() -> None:
    seen = SampleWindow()
    seen.add_intervals(interval(at / 2) for at in range(40))
    for at in range(41):
        seen.add_sample(replace(sample(at / 2), commits=None))
    assert anatomy(seen, 0.0) is None
    truth = seen.truth(0.0)
    assert truth is not None
    assert (truth.commits, truth.group_size) == (500, None)


def test_littles_law_is_checked_over_ten_seconds() -> None:
    assert checks(lookback(10).truth(0.0)) == {}
    found = checks(lookback(15).truth(0.0))
    assert found["Little's law"].holds
    assert (
        found["Little's law"].evidence
        == "1 client; 100.0 TPS x 10.00 ms mean latency keeps 1.00 of them busy"
    )


def test_replicas_and_what_is_sent_to_them() -> None:
    seen = lookback(10)
    for at in range(10):
        seen.add_applied("db2", ApplierSample(float(at), Behind("", ""), Sent("", 1, 1000 * at)))
    seen.add_applied("db3", None)
    truth = seen.truth(0.0)
    assert truth is not None
    first, second = truth.replicas
    assert (first.name, first.lag_ms, first.queued, first.shipped_bytes_per_s) == ("db2", 0.0, 0, 1000)
    assert (second.name, second.lag_ms, second.queued) == ("db3", None, None)
