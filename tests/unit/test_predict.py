"""The verb predict without a stack, and what a sweep teaches the model."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from replexplorer.cli import main, wiring
from replexplorer.cli.sweep import taught
from replexplorer.core.errors import MissingPiece
from replexplorer.core.experiment.sweep_result import SweptRun
from replexplorer.core.model.fitted import OperatingPoint
from replexplorer.core.server.truth import Lag
from replexplorer.formats import paths
from replexplorer.formats.calibration import load_calibration, shipped_calibration


@pytest.fixture(autouse=True)
def _no_stack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No stack was made here, and nothing was calibrated."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> Any:
    assert main(["predict", *words, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_settings_alone_are_enough(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "rtt=85ms", "clients=4", "semi_sync=on")
    assert document["others_from"] == "defaults"
    assert 85 < document["latency_ms"] < 95
    assert document["tps"] == pytest.approx(4000 / document["latency_ms"], rel=1e-3)
    assert document["tps"] <= document["ceiling_tps"]

    assert sum(term["share"] for term in document["terms"]) == pytest.approx(1, abs=0.001)
    assert document["limit"].startswith("network wait: 9")
    assert document["settings"]["rtt@db2"] == 85.0
    assert document["calibration"]["origin"] == "shipped"
    assert document["warnings"] == []


def test_without_semi_sync_the_link_counts_for_what_is_on_its_way_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    near, far = answer(capsys), answer(capsys, "rtt=85ms")
    assert near["tps"] == far["tps"]
    assert far["ceiling_tps"] is None
    assert "rtt@db2" not in near["settings"]
    lost = far["exposure"]["source_lost"]
    assert lost["commits"] == pytest.approx(far["tps"] * 0.0425, abs=1)
    assert near["exposure"]["source_lost"]["commits"] <= 1
    on_its_way = answer(capsys, "rtt=85ms", "delay_to_replica=5ms")["exposure"]["source_lost"]
    assert on_its_way["commits"] == pytest.approx(far["tps"] * 0.005, abs=1)


def test_docker_is_asked_of_a_stack_that_was_made_here_and_may_have_stopped(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    @asynccontextmanager
    async def attached(*_: Any) -> Any:
        asked.append(1)
        raise MissingPiece("Docker does not answer", "start it")
        yield

    monkeypatch.setattr(wiring, "attached", attached)
    for times in range(2):
        assert answer(capsys, "rtt=85ms")["others_from"] == "defaults"
        assert len(asked) == times
        paths.stack_directory("default").mkdir(parents=True, exist_ok=True)


def test_where_nobody_acknowledges_no_tps_is_predicted(capsys: pytest.CaptureFixture[str]) -> None:
    for words, limit in (
        (["semi_sync_replicas=2"], "the source waits for 2 and there are 1"),
        (["partition=both"], "the source waits for 1 and 0 of 1 can"),
        (["partition=ack", "semi_sync_timeout=2s"], "after semi_sync_timeout (2 s) it continues"),
    ):
        document = answer(capsys, "rtt=85ms", "semi_sync=on", *words)
        assert (document["tps"], document["latency_ms"], document["terms"]) == (None, None, [])
        assert document["ceiling_tps"] is None
        assert not [warning for warning in document["warnings"] if "not in the model" in warning]
        knobs = {word.partition("=")[0] for word in words}
        assert knobs <= {name.partition("@")[0] for name in document["settings"]}
        assert limit in document["limit"]
        assert main(["predict", "semi_sync=on", *words]) == 0
        assert capsys.readouterr().out.startswith("no commit is acknowledged: ")
        assert answer(capsys, *words)["tps"] > 0, "nobody waits without semi-sync"
        assert answer(capsys, "semi_sync=on", "workload=point_select", *words)["tps"] > 0


def test_slow_appliers_fall_behind_and_more_workers_less(capsys: pytest.CaptureFixture[str]) -> None:
    slow = ["fsync_delay@db2=20ms", "clients=8"]
    behind = []
    for workers in (1, 4, 16):
        document = answer(capsys, *slow, f"replica_parallel_workers={workers}")
        [lag] = document["replicas"]
        assert lag["lag_s"] == pytest.approx(60 * (1 - lag["applied_tps"] / document["tps"]), abs=0.01)
        assert lag["least_s"] <= lag["lag_s"] <= lag["most_s"]
        assert lag["drain_s"] > lag["lag_s"], "it applies less a second than the load makes"
        behind.append(lag["lag_s"])
    assert behind == sorted(behind, reverse=True)
    assert answer(capsys, "rtt=85ms", "semi_sync=on", "clients=1")["replicas"][0]["lag_s"] == 0
    assert answer(capsys, "workload=insert")["replicas"] == [], "of it no run had a late replica"
    for refused in ("replica_preserve_commit_order=off", "binlog_row_image=minimal"):
        assert main(["predict", refused]) == 2
        assert f"the model does not know {refused.partition('=')[0]}" in capsys.readouterr().err


def test_for_people(capsys: pytest.CaptureFixture[str], snapshot: object) -> None:
    assert main(["predict", "rtt=85ms", "semi_sync=on"]) == 0
    assert capsys.readouterr() == (snapshot, "")


def test_without_a_client_nothing_is_predicted(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "clients=0"]) == 2
    assert capsys.readouterr().err.startswith("replexplorer: clients=0 commits nothing")


def test_what_was_not_calibrated_and_what_does_not_go_together_is_warned_of(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = "clients=1000 rtt=10ms semi_sync=on sync_binlog=0 semi_sync_replicas=2"
    document = answer(capsys, *words.split())
    for part in ("clients 1000 is beyond", "can be ahead", "more than the 1"):
        assert [warning for warning in document["warnings"] if part in warning], part
    assert not document["calibrated"]
    assert answer(capsys, "rtt=10ms", "semi_sync=on")["calibrated"]


SECONDS_AT_RISK: list[tuple[list[str], float, float]] = [
    ([], 0, 0),
    (["semi_sync=on", "rtt=10"], 0, 0),
    (["innodb_flush_log_at_trx_commit=2"], 0, 0.5),
    (["innodb_flush_log_at_trx_commit=0"], 0.5, 0.5),
    (["innodb_flush_log_at_trx_commit=0", "innodb_flush_log_at_timeout=10"], 5, 5),
]
"""By knobs: of commits that are lost when the process dies, and in a power cut."""


def test_what_settings_risk_follows_from_the_tps(capsys: pytest.CaptureFixture[str]) -> None:
    for knobs, process_dies, power_cut in SECONDS_AT_RISK:
        document = answer(capsys, *knobs)
        found, tps = document["exposure"], document["tps"]
        for kind, seconds in (("process_dies", process_dies), ("power_cut", power_cut)):
            assert found[kind]["commits"] == pytest.approx(tps * seconds, abs=1)
            assert found[kind]["high"] == pytest.approx(2 * tps * seconds, abs=1)
        if "semi_sync=on" in knobs:
            assert found["source_lost"] == {"commits": 0, "low": 0, "high": 0, "age_ms": None}


def test_lists_are_predicted_as_a_sweep_would_measure_them(
    capsys: pytest.CaptureFixture[str], snapshot: object
) -> None:
    words = ["semi_sync=on", "rtt=10,85", "clients=1,8"]
    first, _, third, _ = answer(capsys, *words)
    ratio = third.pop("to_first")
    assert {**third, "to_first": None} == answer(capsys, "semi_sync=on", "rtt=85", "clients=1")
    assert first["to_first"] is None
    assert ratio["value"] == pytest.approx(third["tps"] / first["tps"], rel=0.01)
    assert 1 < ratio["high"] / ratio["value"] < 1.5, "an error that both have alike is in none"
    beyond = answer(capsys, "semi_sync=on", "clients=8,1000")[1]["to_first"]
    assert (beyond["value"] > 1, beyond["low"], beyond["high"]) == (True, None, None)
    arriving = answer(capsys, "clients=8,16", "load_mode=open", "rate=100")[1]["to_first"]
    assert arriving == {"value": 1, "low": None, "high": None}
    assert main(["predict", *words]) == 0
    assert capsys.readouterr().out == snapshot
    assert main(["predict", "rtt=10,,85"]) == 2


def test_a_broken_calibration_is_warned_of(capsys: pytest.CaptureFixture[str]) -> None:
    paths.state_directory().mkdir()
    paths.calibration_file().write_text("{}", encoding="utf-8")
    document = answer(capsys)
    assert document["calibration"]["origin"] == "shipped"
    assert "the shipped calibration is used" in document["warnings"][0]


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


def test_a_sweep_calibrates_this_machine(capsys: pytest.CaptureFixture[str]) -> None:
    told = taught(swept(), SERVER, NOW_S).told
    assert told.startswith("this machine's model: median error ")
    assert " cells, cross-validated; " in told
    own = load_calibration(paths.calibration_file()).calibration
    assert (own.day, own.server, own.is_shipped) == ("2027-01-15", SERVER, False)
    assert own.local == shipped_calibration().calibration.local
    document = answer(capsys, "rtt=85ms")
    assert (document["calibration"]["origin"], document["calibration"]["day"]) == ("own", "2027-01-15")

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
    [lag] = answer(capsys, "fsync_delay@db2=5ms", "replica_parallel_workers=4")["replicas"]
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
