"""`compare` on recordings, and what it refuses before it touches a server."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from replexplorer.cli.compare import naming
from replexplorer.core.errors import LoadTaken, ReplexplorerError, ServerUnreachable
from replexplorer.formats import paths
from tests.documents import document
from tests.unit.conftest import Run


@pytest.fixture
def twice(tmp_path: Path) -> str:
    """The shipped tour under two names."""
    files = tmp_path / "first.rxs", tmp_path / "second.rxs"
    for file in files:
        shutil.copy(paths.SHIPPED_TOUR, file)
    return " ".join(map(str, files))


def test_a_recording_against_itself_shows_no_difference(twice: str, run: Run, snapshot: object) -> None:
    assert run(f"compare {twice}") == (0, snapshot, "")
    found = document(run(f"compare {twice} --json").out)
    assert (found.a.name, found.b.name, found.turns, found.differences) == ("first", "second", 0, [])
    assert found.a.figures.n == found.b.figures.n > 0
    assert found.changes
    assert all(change.a == change.b for change in found.changes)
    assert found.verdict == "no difference shown"


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (
            LoadTaken("tui drives the load of this stack", "end it, or add a load with --share-load"),
            "stack mine: tui drives the load of this stack: end what drives it, then compare again",
        ),
        (
            ServerUnreachable("the source is down", "run `replexplorer up` to bring it back"),
            "stack mine: the source is down: run `replexplorer up` to bring it back",
        ),
    ],
)
def test_a_failure_names_its_stack_and_keeps_its_remedy(error: ReplexplorerError, says: str) -> None:
    with pytest.raises(type(error)) as caught, naming("mine"):
        raise error
    assert str(caught.value) == says
