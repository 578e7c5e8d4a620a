"""The calibration's file: written and read back, and the shipped one where it cannot be used."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import pytest

from replexplorer.cli import sweep
from replexplorer.cli.dashboard import learn
from replexplorer.cli.sweep import Learned
from replexplorer.engine.observe.predictor import Predictor
from replexplorer.engine.session import Session
from replexplorer.formats.calibration import (
    SHIPPED_FILE,
    load_calibration,
    read_calibration,
    save_calibration,
    shipped_calibration,
)
from tests.known import refused


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    shipped, file = shipped_calibration(), tmp_path / "new" / "calibration.json"
    own = replace(shipped.calibration, is_shipped=False, day="2026-01-31")
    save_calibration(own, shipped.runs, file)
    read = load_calibration(file)
    assert read.calibration == own
    assert read.runs == shipped.runs
    assert read.file == file
    assert read.problem is None
    assert [path.name for path in file.parent.iterdir()] == ["calibration.json"]


def test_without_one_the_shipped_calibration_is_used(tmp_path: Path) -> None:
    read = load_calibration(tmp_path / "none.json")
    assert read.problem is None
    assert read.file == SHIPPED_FILE
    assert read.calibration.is_shipped


def test_the_dashboard_predicts_from_what_its_sweep_taught_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = shipped_calibration().calibration
    own = replace(shipped, is_shipped=False, day="2026-01-31")
    for taught, used in ((None, shipped), (own, own)):
        monkeypatch.setattr(sweep, "learned", Mock(return_value=Learned("in words", taught)))
        predictor = Predictor(cast("Any", None), shipped)
        session = cast("Session", SimpleNamespace(predictor=predictor))
        assert learn(session, cast("Any", None)) == "in words"
        assert predictor.calibration == used


def broken(**changed: Any) -> str:
    whole = json.loads(SHIPPED_FILE.read_text(encoding="utf-8"))
    calibration = whole["calibration"]
    return json.dumps({**whole, **changed.pop("top", {}), "calibration": {**calibration, **changed}})


def test_a_broken_file_is_one_line_and_the_shipped_one_is_used(tmp_path: Path) -> None:
    file = tmp_path / "calibration.json"
    for text, word in (
        ("", "calibration of version 3"),
        ("{not json", "calibration of version 3"),
        (broken(top={"version": 2}), "version must be 3, not 2"),
        (broken(fsync_ms="NaN"), "fsync_ms"),
    ):
        file.write_text(text, encoding="utf-8")
        told = refused(read_calibration, file)
        assert "is not a calibration of version 3" in told
        assert word in told
        read = load_calibration(file)
        assert (read.problem or "").endswith("; the shipped calibration is used")
        assert read.calibration == shipped_calibration().calibration


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "cannot write" in refused(
        save_calibration, shipped_calibration().calibration, (), tmp_path / "file" / "below.json"
    )
