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
from tests.unit.conftest import Run


@pytest.fixture(autouse=True)
def _no_stack(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No stack was made here, and nothing was calibrated."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def answer(run: Run, words: str = "", code: int = 0) -> Any:
    printed = run(f"predict {words} --json")
    assert printed.code == code
    return json.loads(printed.out)


SETTINGS = """\

rtt=85ms
rtt=85ms delay_to_replica=5ms
rtt=85ms semi_sync=on
rtt=85ms semi_sync=on semi_sync_replicas=2
rtt=85ms semi_sync=on partition=both
rtt=85ms semi_sync=on partition=ack semi_sync_timeout=2s
rtt=85ms partition=both
semi_sync=on workload=point_select partition=both
fsync_delay@db2=20ms clients=8 replica_parallel_workers=1
fsync_delay@db2=20ms clients=8 replica_parallel_workers=4
fsync_delay@db2=20ms clients=8 replica_parallel_workers=16
workload=insert
clients=1000 rtt=10ms semi_sync=on sync_binlog=0 semi_sync_replicas=2
innodb_flush_log_at_trx_commit=2
innodb_flush_log_at_trx_commit=0
innodb_flush_log_at_trx_commit=0 innodb_flush_log_at_timeout=10
semi_sync=on rtt=10,85 clients=1,8
semi_sync=on clients=8,1000
clients=8,16 load_mode=open rate=100
"""
"""Without semi-sync the link counts for what is on its way alone; where no replica acknowledges, nothing
is predicted; more workers fall behind less, and of `insert` no run had a late replica; what a second loses
without its fsync follows from the TPS; lists are predicted as a sweep would measure them."""


def test_settings_alone_are_enough(run: Run, snapshot: object) -> None:
    assert {words: run(f"predict {words}")[1:] for words in SETTINGS.splitlines()} == snapshot


def test_the_document_has_every_figure(run: Run, snapshot: object) -> None:
    one = answer(run, "rtt=85ms clients=4 semi_sync=on")
    [*_, of_list] = answer(run, "rtt=85ms clients=1,4 semi_sync=on")
    assert one["tps"] == pytest.approx(4000 / one["latency_ms"], rel=1e-3)
    assert {**of_list, "to_first": None} == one
    file = one["calibration"].pop("file")  # wherever the program is installed
    assert file.endswith("formats/shipped_calibration.json")
    assert [one, of_list["to_first"]] == snapshot


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


def test_a_broken_calibration_is_warned_of(run: Run) -> None:
    paths.state_directory().mkdir()
    paths.calibration_file().write_text("{}", encoding="utf-8")
    document = answer(run)
    assert document["calibration"]["origin"] == "shipped"
    assert "the shipped calibration is used" in document["warnings"][0]


# -- which settings meet a goal


GOALS = """\
'rpo = 0' rtt=10 clients=8
rpo=0,power_cut=0 rtt=10ms clients=8
rpo=0 semi_sync=on rtt=10ms clients=8 wait_point=after_sync
rpo=0 rtt=10ms wait_point=after_commit
'mean < 5ms, rpo = 0' rtt=85ms
p99<500ms,rpo=0,lag<1s rtt=10 clients=8 workload=insert
"""


def test_goals_are_answered_with_commands_that_can_be_typed(run: Run, snapshot: object) -> None:
    """Five are shown, the least given up first; where none meets the goals it is exit 1 with the closest.
    Advice that rests on what was never calibrated says so. `advise` is the old name of it."""
    told = {words: run(f"predict --goal {words}") for words in GOALS.splitlines()}
    assert told == snapshot
    assert run("advise --goal 'rpo = 0' rtt=10 clients=8") == told["'rpo = 0' rtt=10 clients=8"]
    document = answer(run, "--goal rpo=0,power_cut=0 rtt=10ms clients=8")
    first = document["found"][0]["set"].removeprefix("replexplorer ")
    assert run(f"{first} --dry-run").code != 2
    assert answer(run, "--goal mean<5ms,rpo=0 rtt=85ms", code=1)["closest"] == snapshot


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
