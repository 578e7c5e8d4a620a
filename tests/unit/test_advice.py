"""Goals as they are typed, and which settings meet them: tables and laws on the shipped calibration."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st

from replexplorer.core.knobs.names import KnobName, Value, defaults, parse_name
from replexplorer.core.model.advice import Advised, GoalFigure, Verdict, advise, read_goals
from replexplorer.formats.calibration import shipped_calibration
from tests.amount import examples
from tests.known import known, refused
from tests.typed import typed

SHIPPED = shipped_calibration()
ONE = ("db2",)


def advised(
    goals: str, texts: str = "", *, pinned: str = "", replicas: tuple[str, ...] = ONE, lacking: str = ""
) -> Advised:
    values = {**defaults(replicas), **typed(texts)}
    fixed, missing = (tuple(map(parse_name, names.split())) for names in (pinned, lacking))
    return advise(read_goals(goals), values, fixed, replicas, SHIPPED.calibration, lacking=missing)


def settings_of(found: Mapping[KnobName, Value]) -> dict[str, Value]:
    return {str(name): value for name, value in found.items()}


GOALS = """\
p99 < 20ms
p99 < 20ms, rpo = 0
MEAN <= 0.5s
p50<250us
tps >= 500
power-cut<=1s
rpo <= 100 commits
tps>10 and rpo==0"""


def test_goals_are_read(snapshot: object) -> None:
    assert {text: read_goals(text) for text in GOALS.splitlines()} == snapshot


MISTAKES = """\

 ,
fast
p98 < 1
p99 < -1
p99 < 20 commits
tps >= 5ms
rpo < 5mb
tps < 500
p99 > 20ms
rpo >= 1
p99 < 20ms, p99 < 30ms"""


def test_what_is_no_goal_is_refused_in_one_line(snapshot: object) -> None:
    assert {each: refused(read_goals, each) for each in MISTAKES.splitlines()} == snapshot


def test_a_goal_for_lag_is_judged_by_the_replica_that_falls_back_farthest() -> None:
    verdicts = {
        texts: {each.verdict for each in advised("lag_s < 1s", texts, replicas=("db2", "db3")).found}
        for texts in ("", "fsync_delay@db3=20", "workload=insert")
    }
    assert Verdict.MEETS in verdicts[""]
    assert verdicts["fsync_delay@db3=20"] == set()
    assert verdicts["workload=insert"] == {Verdict.MAY}, "its lag is not known"


def test_no_loss_with_the_source_takes_semi_sync_and_a_power_cut_takes_fsyncs() -> None:
    found = advised("rpo = 0", "rtt@db2=10").found
    assert found
    assert all(each.settings[parse_name("semi_sync")] == "on" for each in found)
    assert all(each.verdict is Verdict.MEETS for each in found)
    both = advised("rpo = 0, power_cut = 0", "rtt@db2=10").found
    for each in both:
        chosen = settings_of(each.settings)
        assert chosen["sync_binlog"] == 1
        assert chosen["innodb_flush_log_at_trx_commit"] == 1
    local = advised("power_cut = 0", "rtt@db2=10").found
    assert {each.settings[parse_name("semi_sync")] for each in local} == {"off", "on"}


def test_what_a_server_lacks_is_neither_chosen_nor_advised() -> None:
    lacking = "semi_sync_replicas wait_point"
    found = advised("rpo = 0", "rtt@db2=10 rtt@db3=10", replicas=("db2", "db3"), lacking=lacking)
    assert found.found
    assert all(set(lacking.split()).isdisjoint(settings_of(each.settings)) for each in found.found)
    assert found.looked_at < advised("rpo = 0", "rtt@db2=10", replicas=("db2", "db3")).looked_at


def test_the_cheapest_gives_up_least_and_says_what(snapshot: object) -> None:
    first, *_ = advised("rpo = 0", "rtt@db2=10").found
    assert (settings_of(first.settings), first.gives_up) == snapshot
    two = advised("rpo = 0", "rtt@db2=10 rtt@db3=10", replicas=("db2", "db3")).found
    assert two[0].settings[parse_name("semi_sync_replicas")] == 2


def test_without_a_replica_whose_link_is_whole_semi_sync_is_no_choice() -> None:
    answer = advised("tps >= 1", "partition@db2=both")
    assert {each.settings[parse_name("semi_sync")] for each in answer.found} == {"off"}
    assert advised("rpo = 0", "partition@db2=both").found[0].verdict is Verdict.MAY


def test_the_model_s_error_decides_what_meets() -> None:
    """32 clients across 85 ms: the model says 98 to 112 ms by wait point, and is off by up to a third."""
    pinned = "semi_sync sync_binlog innodb_flush_log_at_trx_commit"
    for bound_ms, verdict in ((60, Verdict.MISSES), (110, Verdict.MAY), (1000, Verdict.MEETS)):
        answer = advised(f"mean < {bound_ms}ms", "rtt@db2=85 clients=32 semi_sync=on", pinned=pinned)
        advice = known(answer.found[0] if answer.found else answer.closest)
        mean = advice.figures[GoalFigure.MEAN]
        assert mean.low < mean.value < mean.high
        assert advice.verdict is verdict


@settings(max_examples=examples(0.1))
@given(bound=st.floats(0.5, 500), rtt=st.sampled_from([0, 2, 10, 85]), clients=st.sampled_from([1, 8, 64]))
def test_a_looser_goal_is_met_by_all_that_met_the_stricter_one(bound: float, rtt: int, clients: int) -> None:
    texts = f"rtt@db2={rtt} clients={clients}"

    def met(goal: str) -> list[dict[str, Value]]:
        return [settings_of(a.settings) for a in advised(goal, texts).found if a.verdict is Verdict.MEETS]

    strict, loose = met(f"mean < {bound:.3f}ms"), met(f"mean < {2 * bound:.3f}ms")
    assert all(each in loose for each in strict)
    prices = [a.price for a in advised("tps > 0", texts).found if a.verdict is Verdict.MEETS]
    assert prices == sorted(prices)
