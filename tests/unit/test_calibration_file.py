"""The calibration's file: written and read back, and the shipped one where it cannot be used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest

from replexplorer.cli import sweep
from replexplorer.cli.dashboard import learn
from replexplorer.cli.sweep import Learned
from replexplorer.engine.observe.predictor import Predictor
from replexplorer.formats.calibration import (
    SHIPPED_FILE,
    load_calibration,
    read_calibration,
    save_calibration,
    shipped_calibration,
)
from tests.known import refused
from tests.typed import table_of


def test_what_is_written_is_read_back_and_without_one_the_shipped_calibration_is_used(tmp_path: Path) -> None:
    file = tmp_path / "new" / "calibration.json"
    shipped = load_calibration(file)
    assert (shipped.problem, shipped.file, shipped.calibration.is_shipped) == (None, SHIPPED_FILE, True)
    own = replace(shipped.calibration, is_shipped=False, day="2026-01-31")
    save_calibration(own, shipped.runs, file)
    read = load_calibration(file)
    assert (read.problem, read.file, read.calibration, read.runs) == (None, file, own, shipped.runs)
    assert [*file.parent.iterdir()] == [file]
    assert "cannot write" in refused(save_calibration, own, (), file / "below.json")


def test_the_dashboard_predicts_from_what_its_sweep_taught_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = shipped_calibration().calibration
    own = replace(shipped, is_shipped=False, day="2026-01-31")
    for taught, used in ((None, shipped), (own, own)):
        monkeypatch.setattr(sweep, "learned", Mock(return_value=Learned("in words", taught)))
        session = Mock(predictor=Predictor(cast("Any", None), shipped))
        assert learn(session, Mock()) == "in words"
        assert session.predictor.calibration == used


BROKEN = """\
                             | calibration of version 3
{not json                    | calibration of version 3
"version": 3 -> "version": 2 | version must be 3, not 2
"fsync_ms": -> "fsync_m":    | fsync_ms
"""
"""The text, or what of the shipped one is replaced; and what is said."""


def test_a_broken_file_is_one_line_and_the_shipped_one_is_used(tmp_path: Path) -> None:
    file, shipped = tmp_path / "calibration.json", SHIPPED_FILE.read_text(encoding="utf-8")
    for text, word in table_of(BROKEN):
        old, arrow, new = text.partition(" -> ")
        assert not arrow or old in shipped
        file.write_text(shipped.replace(old, new) if arrow else text, encoding="utf-8")
        told = refused(read_calibration, file)
        assert "is not a calibration of version 3" in told
        assert word in told
        read = load_calibration(file)
        assert (read.problem or "").endswith("; the shipped calibration is used")
        assert read.calibration == shipped_calibration().calibration
