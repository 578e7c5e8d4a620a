"""Client logs, journals of sweeps and the stack's file: whatever lies there ends in one error, soon and in
little memory. Files that users write are in test_hostile_files.py, recordings in test_hostile_sessions.py."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replexplorer.adapters.client_logs import FileClientLogs
from replexplorer.adapters.journal import MOST_BYTES, FileJournal
from replexplorer.core.errors import MissingPiece, UsageError
from replexplorer.core.loss.client_log import HEAD
from replexplorer.core.loss.ledger import reckon
from tests.affordable import affordable
from tests.amount import examples
from tests.unit.test_hostile_files import NO_FILES

FUZZ = settings(
    max_examples=examples(0.4),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def read_client_log(file: Path) -> None:
    """As the end of a drill does it."""
    log = FileClientLogs(file.parent)._read(file.parent)
    reckon(log, {"db1": {}, "db2": {}}, "db1", executed={"db1": "", "db2": ""}, failed_at_us=5)


def read_journal(file: Path) -> None:
    """As a sweep that goes on does it."""
    asyncio.run(FileJournal("sweep", file).read())


READERS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "client log": ("0.log", read_client_log),
    "journal": ("a.jsonl", read_journal),
}
EACH = pytest.mark.parametrize(("name", "read"), READERS.values(), ids=READERS)


def answered(read: Callable[[Path], object], file: Path) -> str:
    """What a reader says: nothing, or its one error."""
    with affordable():
        try:
            read(file)
        except (UsageError, MissingPiece) as error:
            return str(error)
    return ""


@EACH
@pytest.mark.parametrize("make", NO_FILES.values(), ids=NO_FILES)
def test_what_is_no_file_is_told_and_not_waited_for(
    name: str, read: Callable[[Path], object], make: Callable[[Path], object], tmp_path: Path
) -> None:
    make(tmp_path / name)
    assert str(tmp_path) in answered(read, tmp_path / name)


@EACH
def test_gigabytes_of_nothing_are_not_read(name: str, read: Callable[[Path], object], tmp_path: Path) -> None:
    file = tmp_path / name
    file.touch()
    os.truncate(file, 2 << 30)
    assert str(file) in answered(read, file)


BOMBS = {
    "an endless line": ("0.log", f"{HEAD}7\nt 1\n" + "i" * 5_000_000),
    "a run of many digits": ("0.log", f"{HEAD}{'9' * 100}\n"),
    "numbers of many digits": ("0.log", f"{HEAD}7\nt 1\ni {'9' * 120} 1\ns db1 1 1 {'9' * 60}\n"),
    "spans turned round": ("0.log", f"{HEAD}7\ns db1 1 9 1\n"),
    "all rows at once": ("0.log", f"{HEAD}7\ns db1 1 0 {1 << 62}\n"),
    "lists in lists": ("a.jsonl", "[" * 100_000 + "]" * 100_000 + "\n"),
    "a long number": ("a.jsonl", '{"a": ' + "9" * 100_000 + "}\n"),
    "no number": ("a.jsonl", '{"a": NaN}\n'),
}  # fmt: skip


@pytest.mark.parametrize(("name", "text"), BOMBS.values(), ids=BOMBS)
def test_a_file_as_bad_as_it_can_be_is_one_error(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    read = dict(READERS.values())[name]
    told = answered(read, tmp_path / name)
    assert told or str(1 << 62) in text


def test_a_journal_as_large_as_it_may_be_is_read_within_the_limit(tmp_path: Path) -> None:
    line = json.dumps({"run": 1, "settings": {"rtt": 85.0}, "tps": [1.0] * 100}) + "\n"
    file = tmp_path / "a.jsonl"
    file.write_text(line * (MOST_BYTES // len(line)))
    assert answered(read_journal, file) == ""


@EACH
@FUZZ
@given(content=st.binary(max_size=300))
def test_bytes(name: str, read: Callable[[Path], object], content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    answered(read, tmp_path / name)
