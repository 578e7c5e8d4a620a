"""The verb revert without servers: whose changes it undoes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from replexplorer.adapters.attached.changes import ChangeJournal, file_of
from replexplorer.core.change.journalled import before_set
from replexplorer.formats import paths
from tests.unit.conftest import Run


@pytest.fixture(autouse=True)
def directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Where the journals are."""
    monkeypatch.setattr(paths, "attached_directory", lambda: tmp_path)
    monkeypatch.setenv("MYSQL_PWD", "not asked for")
    return tmp_path


def journal_of(directory: Path, port: int) -> ChangeJournal:
    """One with a change on a server of this port, where nothing listens."""
    place = f"127.0.0.1:{port}"
    journal = ChangeJournal.open(file_of(directory, place))
    node = {"name": "source", "host": "127.0.0.1", "port": port, "user": "u"}
    journal.append({"kind": "attach", "pid": 4711, "source": place, "nodes": [node]})
    journal.append(before_set("source", "sync_binlog", "1", "0"))
    return journal


def test_a_journal_that_an_attach_holds_is_the_error_and_keeps_no_other_from_being_undone(
    directory: Path, run: Run
) -> None:
    told = "replexplorer: another `attach --allow-changes` (pid 4711) is changing these servers: stop it"
    with closing(journal_of(directory, 1)) as held:
        for words in ("revert", "revert mysql://u@127.0.0.1:1"):
            said = run(words)
            assert (said.code, told in said.err) == (4, True)
        journal_of(directory, 2).close()
        said = run("revert")
    assert (said.code, told in said.err) == (4, True)
    assert "undoing what is left at 127.0.0.1:2" in said.err
    assert "sync_binlog" in said.out
    assert held.file.exists()
