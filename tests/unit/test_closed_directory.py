"""A configuration directory that is closed to this user is said with its remedy, never taken for empty."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.unit.conftest import Run


@pytest.fixture
def closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`$XDG_CONFIG_HOME/replexplorer` as a user sees it who has no right to it; root may read all."""
    directory = tmp_path / "replexplorer"
    directory.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))

    def guarded(call: Any) -> Any:
        def looked(path: Any, *more: Any, **named: Any) -> Any:
            if directory in Path(path).parents or (call is listdir and Path(path) == directory):
                raise PermissionError(13, "Permission denied", str(path))
            return call(path, *more, **named)

        return looked

    listdir, lstat, access = os.listdir, Path.lstat, os.access
    monkeypatch.setattr(os, "listdir", guarded(listdir))
    monkeypatch.setattr(Path, "lstat", guarded(lstat))
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != directory and access(path, mode))
    return directory


@pytest.mark.parametrize("words", ["config", "keys", "themes", "scene list", "lab list"])
def test_the_error_names_the_directory_to_open_and_how(closed: Path, words: str, run: Run) -> None:
    said = run(*words.split())
    assert (said.code, said.out) == (3, "")
    assert said.err.startswith(f"replexplorer: {closed}")
    assert "Permission denied: give this user access to it" in said.err
