"""`compare` on recordings, and what it refuses before it touches a server."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from replexplorer.cli.compare import naming
from replexplorer.core.errors import LoadTaken, ServerUnreachable
from replexplorer.formats import paths
from tests.documents import document
from tests.unit.conftest import Run


def test_a_recording_against_itself_shows_no_difference(tmp_path: Path, run: Run, snapshot: object) -> None:
    """The shipped tour under two names."""
    first, second = (
        shutil.copy(paths.SHIPPED_TOUR, tmp_path / f"{name}.rxs") for name in ("first", "second")
    )
    assert run(f"compare {first} {second}") == (0, snapshot, "")
    found = document(run(f"compare {first} {second} --json").out)
    assert found.a.figures.n == found.b.figures.n > 0
    assert found.changes
    assert all(change.a == change.b for change in found.changes)


def test_a_failure_names_its_stack_and_keeps_its_remedy(snapshot: object) -> None:
    told = []
    for error in (
        LoadTaken("tui drives the load of this stack", "end it, or add a load with --share-load"),
        ServerUnreachable("the source is down", "run `replexplorer up` to bring it back"),
    ):
        with pytest.raises(type(error)) as caught, naming("mine"):
            raise error
        told.append(str(caught.value))
    assert told == snapshot
