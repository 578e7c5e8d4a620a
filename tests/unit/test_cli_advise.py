"""The verb advise without a stack."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from replexplorer.cli import main, predict
from replexplorer.core.errors import MissingPiece
from replexplorer.core.experiment.sweep_runs import SweptRun
from replexplorer.core.knobs.names import defaults, parse_name
from replexplorer.core.model.operating_point import operating_point_of
from replexplorer.core.stats.histogram import Histogram
from replexplorer.formats import paths


@pytest.fixture(autouse=True)
def sweeps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Docker is stopped, nothing was calibrated here, and this is where sweeps' journals are."""

    @asynccontextmanager
    async def attached(*_: Any, **__: Any) -> Any:
        raise MissingPiece("Docker does not answer", "start it")
        yield

    monkeypatch.setattr(predict, "attached", attached)
    monkeypatch.setattr(paths, "calibration_file", lambda: tmp_path / "calibration.json")
    monkeypatch.setattr(paths, "sweeps_directory", lambda: tmp_path / "sweeps")
    (tmp_path / "sweeps").mkdir()
    return tmp_path / "sweeps"


def answer(capsys: pytest.CaptureFixture[str], goal: str, *words: str, code: int = 0) -> Any:
    assert main(["advise", "--goal", goal, *words, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def a_run(**more: Any) -> SweptRun:
    """Of 8 clients across 10 ms under semi-sync: 11 ms a commit."""
    values = {**defaults(["db2"]), parse_name("rtt@db2"): 10.0, parse_name("semi_sync"): "on"}
    service = Histogram()
    service.record_all([11_000] * 500)
    setting = asdict(operating_point_of(values, ["db2"]))
    return SweptRun(0, 0, 1, 0.0, 5.0, tps=720.0, service=service, setting=setting, **more)


def test_the_answer_is_commands_that_can_be_typed(capsys: pytest.CaptureFixture[str]) -> None:
    document = answer(capsys, "rpo = 0, power_cut = 0", "rtt=10ms", "clients=8")
    first = document["found"][0]
    assert first["verdict"] == "meets"
    assert first["set"].startswith("replexplorer set semi_sync=on sync_binlog=1 ")
    assert [goal["text"] for goal in document["goals"]] == [
        "rpo (source lost) = 0 commits",
        "power_cut = 0 commits",
    ]
    assert document["conditions"]["rtt@db2"] == 10.0
    assert document["closest"] is None
    assert main(["set", *first["set"].split()[2:], "--dry-run"]) != 2


def test_advice_that_rests_on_what_was_never_calibrated_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("semi_sync=on", "rtt=10ms", "clients=8")
    for wait_point, is_told in (("after_sync", False), ("after_commit", True)):
        document = answer(capsys, "rpo = 0", *words, f"wait_point={wait_point}")
        assert {each["settings"]["wait_point"] for each in document["found"]} == {wait_point}
        assert any("after_commit was not calibrated" in each for each in document["warnings"]) == is_told
    # Semi-sync is off as things stand: what is advised has it on.
    document = answer(capsys, "rpo = 0", "rtt=10ms", "wait_point=after_commit")
    assert any("after_commit was not calibrated" in each for each in document["warnings"])


def test_no_choice_that_meets_the_goals_is_exit_1_with_the_closest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    document = answer(capsys, "mean < 5ms, rpo = 0", "rtt=85ms", code=1)
    assert document["found"] == []
    assert document["closest"]["verdict"] == "misses"
    assert main(["advise", "--goal", "mean < 5ms, rpo = 0", "rtt=85ms"]) == 1
    assert "none of 18 choices of settings meets that; the closest:" in capsys.readouterr().out


def test_runs_of_sweeps_are_used_and_those_that_do_not_count_are_not(
    capsys: pytest.CaptureFixture[str], sweeps: Path
) -> None:
    lines = [{"sweep": "rtt=10", "seed": 1}, {"run": a_run().to_wire()}, {"run": a_run(why="x").to_wire()}]
    (sweeps / "default-1.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (sweeps / "default-2.jsonl").write_text("no journal\n")
    document = answer(capsys, "p99 < 500ms, rpo = 0", "rtt=10", "clients=8")
    assert (document["measured_runs"], document["slowness"]) == (1, 0.3)
    [first, *_] = document["found"]
    assert first["goals"][0]["figure"]["origin"] == "scaled"
    assert main(["advise", "--goal", "rpo = 0", "rtt=10", "clients=8"]) == 0
    shown = capsys.readouterr().out
    assert "least given up first:" in shown
    assert shown.count("predicted by the model at this machine's pace") == shown.count("gives up: ") == 5
    assert [warning for warning in document["warnings"] if "default-2.jsonl" in warning]


def test_a_report_has_a_row_for_each_choice(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    directory = tmp_path / "report"
    assert main(["advise", "--goal", "rpo = 0", "rtt=10", "--report", str(directory)]) == 0
    page = (directory / "report.md").read_text()
    found = json.loads((directory / "result.json").read_text())["found"]
    assert page.count("`replexplorer set ") == len(found) > 3
    assert "7 more, in --json" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--goal", "p98 < 1"], "did you mean p99?"),
        (["--goal", "tps > 1", "clients=0"], "advise takes 1 or more"),
        (["--goal", "tps > 1", "workload=point_select"], "commits nothing"),
        (["--goal", "tps > 1", "replica_parallel_workers=16"], "the model does not know"),
        (["--goal", "tps > 1", "sync_binlg=1"], "did you mean sync_binlog"),
        (["rtt=10"], "--goal"),
    ],
)
def test_what_cannot_be_advised_is_one_line(
    capsys: pytest.CaptureFixture[str], words: list[str], what: str
) -> None:
    assert main(["advise", *words]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert what in line
