"""The verb predict without a stack, of settings and of goals, and what a sweep teaches the model."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from replexplorer.cli import wiring
from replexplorer.cli.sweep import taught
from replexplorer.core.errors import MissingPiece
from replexplorer.core.experiment.sweep_result import SweptRun
from replexplorer.core.model.fitted import OperatingPoint
from replexplorer.core.server.truth import Lag
from replexplorer.formats import paths
from replexplorer.formats.calibration import load_calibration, shipped_calibration
from tests.typed import table_of
from tests.unit.conftest import Run


@pytest.fixture(autouse=True)
def _no_stack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No stack was made here, and nothing was calibrated."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def answer(run: Run, words: str = "", code: int = 0) -> Any:
    printed = run(f"predict {words} --json")
    assert printed.code == code
    return json.loads(printed.out)


def test_settings_alone_are_enough(run: Run) -> None:
    document = answer(run, "rtt=85ms clients=4 semi_sync=on")
    assert document["others_from"] == "defaults"
    assert 85 < document["latency_ms"] < 95
    assert document["tps"] == pytest.approx(4000 / document["latency_ms"], rel=1e-3)
    assert document["tps"] <= document["ceiling_tps"]

    assert sum(term["share"] for term in document["terms"]) == pytest.approx(1, abs=0.001)
    assert document["limit"].startswith("network wait: 9")
    assert document["settings"]["rtt@db2"] == 85.0
    assert document["calibration"]["origin"] == "shipped"
    assert document["warnings"] == []


def test_without_semi_sync_the_link_counts_for_what_is_on_its_way_alone(run: Run) -> None:
    near, far = answer(run), answer(run, "rtt=85ms")
    assert near["tps"] == far["tps"]
    assert far["ceiling_tps"] is None
    assert "rtt@db2" not in near["settings"]
    lost = far["exposure"]["source_lost"]
    assert lost["commits"] == pytest.approx(far["tps"] * 0.0425, abs=1)
    assert near["exposure"]["source_lost"]["commits"] <= 1
    on_its_way = answer(run, "rtt=85ms delay_to_replica=5ms")["exposure"]["source_lost"]
    assert on_its_way["commits"] == pytest.approx(far["tps"] * 0.005, abs=1)


def test_docker_is_asked_of_a_stack_that_was_made_here_and_may_have_stopped(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    @asynccontextmanager
    async def attached(*_: Any) -> Any:
        asked.append(1)
        raise MissingPiece("Docker does not answer", "start it")
        yield

    monkeypatch.setattr(wiring, "attached", attached)
    for times in range(2):
        assert answer(run, "rtt=85ms")["others_from"] == "defaults"
        assert len(asked) == times
        paths.stack_directory("default").mkdir(parents=True, exist_ok=True)


UNACKNOWLEDGED = """\
semi_sync_replicas=2
partition=both
partition=ack semi_sync_timeout=2s
"""


def test_where_nobody_acknowledges_no_tps_is_predicted(run: Run, snapshot: object) -> None:
    told = {}
    for words in UNACKNOWLEDGED.splitlines():
        document = answer(run, f"rtt=85ms semi_sync=on {words}")
        names = "tps latency_ms terms ceiling_tps limit settings warnings"
        told[words] = {name: document[name] for name in names.split()}
        assert run(f"predict semi_sync=on {words}").out.startswith("no commit is acknowledged: ")
        assert answer(run, words)["tps"] > 0, "nobody waits without semi-sync"
        assert answer(run, f"semi_sync=on workload=point_select {words}")["tps"] > 0
    assert told == snapshot


def test_slow_appliers_fall_behind_and_more_workers_less(run: Run) -> None:
    slow = "fsync_delay@db2=20ms clients=8"
    behind = []
    for workers in (1, 4, 16):
        document = answer(run, f"{slow} replica_parallel_workers={workers}")
        [lag] = document["replicas"]
        assert lag["lag_s"] == pytest.approx(60 * (1 - lag["applied_tps"] / document["tps"]), abs=0.01)
        assert lag["least_s"] <= lag["lag_s"] <= lag["most_s"]
        assert lag["drain_s"] > lag["lag_s"], "it applies less a second than the load makes"
        behind.append(lag["lag_s"])
    assert behind == sorted(behind, reverse=True)
    assert answer(run, "rtt=85ms semi_sync=on clients=1")["replicas"][0]["lag_s"] == 0
    assert answer(run, "workload=insert")["replicas"] == [], "of it no run had a late replica"


def test_for_people(run: Run, snapshot: object) -> None:
    assert run("predict rtt=85ms semi_sync=on") == (0, snapshot, "")


def test_what_was_not_calibrated_and_what_does_not_go_together_is_warned_of(run: Run) -> None:
    words = "clients=1000 rtt=10ms semi_sync=on sync_binlog=0 semi_sync_replicas=2"
    document = answer(run, words)
    for part in ("clients 1000 is beyond", "can be ahead", "more than the 1"):
        assert [warning for warning in document["warnings"] if part in warning], part
    assert not document["calibrated"]
    assert answer(run, "rtt=10ms semi_sync=on")["calibrated"]


SECONDS_AT_RISK = """\
                                                                  | 0 0
semi_sync=on rtt=10                                               | 0 0
innodb_flush_log_at_trx_commit=2                                  | 0 0.5
innodb_flush_log_at_trx_commit=0                                  | 0.5 0.5
innodb_flush_log_at_trx_commit=0 innodb_flush_log_at_timeout=10   | 5 5
"""
"""By knobs: of commits that are lost when the process dies, and in a power cut."""


def test_what_settings_risk_follows_from_the_tps(run: Run) -> None:
    for knobs, risks in table_of(SECONDS_AT_RISK):
        document = answer(run, knobs)
        found, tps = document["exposure"], document["tps"]
        for kind, seconds in zip(("process_dies", "power_cut"), map(float, risks.split()), strict=True):
            assert found[kind]["commits"] == pytest.approx(tps * seconds, abs=1)
            assert found[kind]["high"] == pytest.approx(2 * tps * seconds, abs=1)
        if "semi_sync=on" in knobs:
            assert found["source_lost"] == {"commits": 0, "low": 0, "high": 0, "age_ms": None}


def test_lists_are_predicted_as_a_sweep_would_measure_them(run: Run, snapshot: object) -> None:
    words = "semi_sync=on rtt=10,85 clients=1,8"
    first, _, third, _ = answer(run, words)
    ratio = third.pop("to_first")
    assert {**third, "to_first": None} == answer(run, "semi_sync=on rtt=85 clients=1")
    assert first["to_first"] is None
    assert ratio["value"] == pytest.approx(third["tps"] / first["tps"], rel=0.01)
    assert 1 < ratio["high"] / ratio["value"] < 1.5, "an error that both have alike is in none"
    beyond = answer(run, "semi_sync=on clients=8,1000")[1]["to_first"]
    assert beyond["value"] > 1
    assert beyond["low"] is None
    assert beyond["high"] is None
    arriving = answer(run, "clients=8,16 load_mode=open rate=100")[1]["to_first"]
    assert arriving == {"value": 1, "low": None, "high": None}
    assert run(f"predict {words}").out == snapshot


def test_a_broken_calibration_is_warned_of(run: Run) -> None:
    paths.state_directory().mkdir()
    paths.calibration_file().write_text("{}", encoding="utf-8")
    document = answer(run)
    assert document["calibration"]["origin"] == "shipped"
    assert "the shipped calibration is used" in document["warnings"][0]


# -- which settings meet a goal


def test_the_answer_is_commands_that_can_be_typed(run: Run) -> None:
    document = answer(run, "--goal rpo=0,power_cut=0 rtt=10ms clients=8")
    first = document["found"][0]
    assert first["verdict"] == "meets"
    assert first["set"].startswith("replexplorer set semi_sync=on sync_binlog=1 ")
    assert [goal["text"] for goal in document["goals"]] == [
        "rpo (source lost) = 0 commits",
        "power_cut = 0 commits",
    ]
    assert document["conditions"]["rtt@db2"] == 10.0
    assert document["closest"] is None
    assert run(f"{first['set'].removeprefix('replexplorer ')} --dry-run").code != 2


def test_advice_that_rests_on_what_was_never_calibrated_says_so(run: Run) -> None:
    for wait_point, is_told in (("after_sync", False), ("after_commit", True)):
        document = answer(run, f"--goal rpo=0 semi_sync=on rtt=10ms clients=8 wait_point={wait_point}")
        assert {each["settings"]["wait_point"] for each in document["found"]} == {wait_point}
        assert any("after_commit was not calibrated" in each for each in document["warnings"]) == is_told
    # Semi-sync is off as things stand: what is advised has it on.
    document = answer(run, "--goal rpo=0 rtt=10ms wait_point=after_commit")
    assert any("after_commit was not calibrated" in each for each in document["warnings"])


def test_no_choice_that_meets_the_goals_is_exit_1_with_the_closest(run: Run) -> None:
    document = answer(run, "--goal mean<5ms,rpo=0 rtt=85ms", code=1)
    assert document["found"] == []
    assert document["closest"]["verdict"] == "misses"
    printed = run("advise --goal 'mean < 5ms, rpo = 0' rtt=85ms")
    assert printed.code == 1
    assert "none of 18 choices of settings meets that; the closest:" in printed.out


def test_all_choices_have_one_origin(run: Run) -> None:
    document = answer(run, "--goal p99<500ms,rpo=0,lag<1s rtt=10 clients=8 workload=insert")
    origins = {figure["origin"] for each in document["found"] for figure in each["figures"].values()}
    assert origins == {"model"}


def test_goals_for_people(run: Run, snapshot: object) -> None:
    """Five are shown, the least given up first; `advise` is the old name of it."""
    shown = run("predict --goal 'rpo = 0' rtt=10 clients=8")
    assert shown.code == 0
    assert shown.out == snapshot
    assert run("advise --goal 'rpo = 0' rtt=10 clients=8") == shown


# -- what a sweep teaches


SERVER, NOW_S = "mysql 9.7.4", 1_800_000_000.0
UNCHANGED = "the model's calibration is unchanged"


def swept(**changed: Any) -> list[SweptRun]:
    return [
        replace(SweptRun(index, 0, 1, 0.0, 5.0, tps=run.tps, setting=asdict(run.setting)), **changed)
        for index, run in enumerate(shipped_calibration().runs)
    ]


def few(**changed: Any) -> list[SweptRun]:
    """Of every workload and number of clients some, that are fitted in a fraction of the time."""
    return swept(**changed)[::3]


def test_a_sweep_calibrates_this_machine(run: Run) -> None:
    told = taught(swept(), SERVER, NOW_S).told
    assert told.startswith("this machine's model: median error ")
    assert " cells, cross-validated; " in told
    own = load_calibration(paths.calibration_file()).calibration
    assert own.day == "2027-01-15"
    assert own.server == SERVER
    assert own.is_shipped is False
    assert own.local == shipped_calibration().calibration.local
    document = answer(run, "rtt=85ms")
    assert document["calibration"]["origin"] == "own"
    assert document["calibration"]["day"] == "2027-01-15"

    assert document["replicas"] == [], "none was late"
    late = [
        replace(
            swept()[0],
            applier=asdict(OperatingPoint(workers, "update_index", fsync_delay_ms=5.0)),
            lag=Lag(9.0, 9.0, "growing", "db2", applied_tps),
        )
        for workers, applied_tps in ((1, 81.0), (4, 235.0), (16, 735.0))
    ]
    assert taught(late, SERVER, NOW_S).told.startswith(
        "this machine's model: replicas as these runs have them"
    )
    [lag] = answer(run, "fsync_delay@db2=5ms replica_parallel_workers=4")["replicas"]
    assert lag["applied_tps"] == pytest.approx(235, rel=0.2)


def test_a_sweep_that_cannot_tell_changes_nothing() -> None:
    for useless in ({"why": "the stack is degraded"}, {"setting": None}, {"tps": None}):
        told = taught(swept(**useless), SERVER, NOW_S).told
        assert told.startswith(f"{UNCHANGED}: fitting it takes at least 16 runs")
        assert not paths.calibration_file().exists()


@pytest.mark.costly("it fits the model")
def test_a_sweep_whose_calibration_cannot_be_written_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(paths, "calibration_file", lambda: Path("/proc/nowhere/calibration.json"))
    told, calibration = taught(few(), SERVER, NOW_S)
    assert told.startswith(f"{UNCHANGED}: cannot write /proc/nowhere/calibration.json")
    assert calibration is None


@pytest.mark.costly("it fits the model eleven times")
def test_a_sweep_on_a_busy_machine_changes_nothing() -> None:
    disturbed = [
        replace(run, tps=(run.tps or 0) * (0.1, 1.0, 8.0)[index % 3]) for index, run in enumerate(few())
    ]
    told = taught(disturbed, SERVER, NOW_S).told
    assert told.startswith(f"{UNCHANGED}: median error ")
    assert not paths.calibration_file().exists()
