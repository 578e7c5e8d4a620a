"""What is written to a file is there whole or not at all."""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from replexplorer.core.errors import UsageError
from replexplorer.formats import paths
from replexplorer.formats.files import whole_file
from tests.unit.conftest import Run


def test_a_file_appears_when_its_writer_ends_well_and_before_that_under_a_name_that_no_one_can_guess(
    tmp_path: Path,
) -> None:
    """And is its owner's alone."""
    file, names = tmp_path / "new" / "a.txt", set()
    for _ in range(2):
        with whole_file(file, parents=True) as stream:
            stream.write("one\n")
            assert not file.exists()
            [part] = file.parent.iterdir()
            assert str(os.getpid()) not in part.name
            assert part.stat().st_mode & 0o777 == 0o600
            names.add(part)
        assert file.read_text() == "one\n"
        assert os.listdir(file.parent) == ["a.txt"]
        file.unlink()
    assert len(names) == 2


def test_a_file_stays_as_it_was_when_its_writer_fails_and_keeps_its_mode(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("kept")
    file.chmod(0o600)
    with pytest.raises(LookupError), whole_file(file) as stream:  # noqa: PT012
        stream.write("half")
        raise LookupError
    assert file.read_text() == "kept"
    assert os.listdir(tmp_path) == ["a.txt"]
    with whole_file(file) as stream:
        stream.write("more")
    assert file.stat().st_mode & 0o777 == 0o600


def test_what_a_link_points_to_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a.txt")
    with whole_file(tmp_path / "link") as stream:
        stream.write("there")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "a.txt").read_text() == "there"


def test_a_pipe_is_written_to_as_it_stands(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    seen: list[str] = []
    reader = threading.Thread(target=lambda: seen.append(pipe.read_text()))
    reader.start()
    with whole_file(pipe) as stream:
        stream.write("through")
    reader.join(10)
    assert seen == ["through"]
    assert os.listdir(tmp_path) == ["pipe"]


def test_where_nothing_can_be_written_the_file_is_named(tmp_path: Path) -> None:
    with (
        pytest.raises(UsageError, match=r"cannot write .*none/a\.txt: no such file"),
        whole_file(tmp_path / "none" / "a.txt"),
    ):
        pass


def test_of_a_damaged_session_nothing_is_exported(tmp_path: Path, run: Run) -> None:
    session, output = tmp_path / "own.rxs", tmp_path / "own.csv"
    shutil.copyfile(paths.SHIPPED_TOUR, session)
    with closing(sqlite3.connect(session, isolation_level=None)) as base:
        base.execute("UPDATE tick SET wall_s = 1e20 WHERE at_s = (SELECT MAX(at_s) FROM tick)")
    said = run(f"export {session} --format csv --output {output}")
    assert said.code == 2
    assert "own.rxs is damaged: a tick is of no day" in said.err
    assert not output.exists()
