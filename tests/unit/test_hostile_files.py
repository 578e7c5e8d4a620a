"""Whatever lies where a file of a user's or of ours is expected ends in one error, soon and in little memory.

Recordings are in test_hostile_sessions.py.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from unittest.mock import Mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replexplorer.adapters.client_logs import FileClientLogs
from replexplorer.adapters.journal import MOST_BYTES, FileJournal
from replexplorer.core.errors import MissingPiece, UsageError
from replexplorer.core.loss.client_log import HEAD
from replexplorer.core.loss.ledger import count_losses
from replexplorer.formats.calibration import read_calibration
from replexplorer.formats.configuration import load_configuration
from replexplorer.formats.experiment_file import read_drill, read_lab, read_lesson
from replexplorer.formats.files import MOST_TOML_BYTES, read_workload
from replexplorer.formats.keymap import load_keymap
from replexplorer.formats.scenes import read_scene
from replexplorer.formats.server_url import read_option_files
from replexplorer.formats.themes import read_theme
from replexplorer.ui.actions import DEFAULT_KEYS
from tests.affordable import affordable
from tests.amount import examples

FUZZ = settings(
    max_examples=examples(0.3),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def read_keys(file: Path) -> None:
    """Raises what is told of a file that is TOML and not usable."""
    for problem in load_keymap(file, DEFAULT_KEYS).problems:
        raise UsageError(problem)


def read_client_log(file: Path) -> None:
    """As the end of a drill does it."""
    log = FileClientLogs(file.parent)._read(file.parent)
    count_losses(log, {"db1": {}, "db2": {}}, "db1", executed={"db1": "", "db2": ""}, failed_at_us=5)


def read_journal(file: Path) -> None:
    """As a sweep that goes on does it."""
    asyncio.run(FileJournal("sweep", file).read())


TOML: dict[str, Callable[[Path], object]] = {
    "config": partial(load_configuration, named_by_user=True),
    "keys": read_keys,
    "theme": read_theme,
    "scene": read_scene,
    "lab": read_lab,
    "drill": read_drill,
    "lesson": partial(read_lesson, named=Mock()),
    "calibration": read_calibration,
    "workload": read_workload,
}
TEXTS = TOML | {"option file": lambda file: read_option_files([file])}
READERS = TEXTS | {"client log": read_client_log, "journal": read_journal}
EACH = pytest.mark.parametrize("read", READERS.values(), ids=READERS)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A client log's name, which any other file may have as well."""
    return tmp_path / "0.log"


def answered(read: Callable[[Path], object], file: Path) -> str:
    """What a reader says: nothing, or the one error that it may raise."""
    with affordable():
        try:
            read(file)
        except (UsageError, MissingPiece) as error:
            return str(error)
    return ""


def endless(file: Path) -> None:
    file.touch()
    os.truncate(file, 2 << 30)


NO_FILES: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "directory": os.mkdir,
    "device": partial(os.symlink, "/dev/zero"),
    "link to itself": lambda file: os.symlink(file, file),
    "gigabytes": endless,
}


@EACH
@pytest.mark.parametrize("make", NO_FILES.values(), ids=NO_FILES)
def test_what_is_no_file_is_named_and_neither_waited_for_nor_read(
    read: Callable[[Path], object], make: Callable[[Path], object], file: Path
) -> None:
    make(file)
    assert str(file.parent) in answered(read, file)


@pytest.mark.parametrize("read", TEXTS.values(), ids=TEXTS)
def test_what_is_no_text_is_told(read: Callable[[Path], object], file: Path) -> None:
    file.write_bytes(b"\xff\xfe")
    assert answered(read, file) == f"{file}: is not UTF-8 text"


FULL = MOST_TOML_BYTES - 100
TREES = {
    "lists": "a = " + "[" * (FULL // 2) + "]" * (FULL // 2),
    "dotted key": "a" + ".a" * (FULL // 2) + " = 1",
    "header": "[a" + ".a" * (FULL // 2) + "]\nb = 1",
    "digits": f"a = {'9' * FULL}",
    "float": f"a = {'9' * FULL}.5",
    "quotes": "a = " + '"\\"' * (FULL // 3),
    "blanks": "a." + " " * FULL + ".b",
    "word": "a" * FULL,
    "not closed": "a = [" + "1," * (FULL // 2),
}


@pytest.mark.parametrize("read", TOML.values(), ids=TOML)
@pytest.mark.parametrize("text", TREES.values(), ids=TREES)
def test_a_document_as_bad_as_it_can_be_is_one_error(
    read: Callable[[Path], object], text: str, file: Path
) -> None:
    file.write_text(text)
    assert answered(read, file) or read is read_workload  # any words may be SQL


@EACH
@FUZZ
@given(content=st.binary(max_size=300))
def test_bytes(read: Callable[[Path], object], content: bytes, file: Path) -> None:
    file.write_bytes(content)
    answered(read, file)


BOMBS = {
    "an endless line": ("client log", f"{HEAD}7\nt 1\n" + "i" * 5_000_000),
    "numbers of many digits": ("client log", f"{HEAD}7\nt 1\ni {'9' * 120} 1\ns db1 1 1 {'9' * 60}\n"),
    "spans turned round": ("client log", f"{HEAD}7\ns db1 1 9 1\n"),
    "all rows at once": ("client log", f"{HEAD}7\ns db1 1 0 {1 << 62}\n"),
    "lists in lists": ("journal", "[" * 100_000 + "]" * 100_000 + "\n"),
    "a long number": ("journal", '{"a": ' + "9" * 100_000 + "}\n"),
}  # fmt: skip


def test_a_log_as_bad_as_it_can_be_is_one_error(file: Path) -> None:
    for case, (kind, text) in BOMBS.items():
        file.write_text(text)
        assert answered(READERS[kind], file) or str(1 << 62) in text, case


def test_a_journal_as_large_as_it_may_be_is_read_within_the_limit(file: Path) -> None:
    line = json.dumps({"run": 1, "settings": {"rtt": 85.0}, "tps": [1.0] * 100}) + "\n"
    file.write_text(line * (MOST_BYTES // len(line)))
    assert answered(read_journal, file) == ""
