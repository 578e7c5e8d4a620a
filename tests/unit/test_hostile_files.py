"""Whatever lies where a text or a TOML file is expected ends in one UsageError, soon and in little memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replexplorer.core.errors import UsageError
from replexplorer.formats.calibration import read_calibration
from replexplorer.formats.configuration import load_configuration
from replexplorer.formats.experiment_file import read_drill, read_lab
from replexplorer.formats.files import MOST_TOML_BYTES, read_workload
from replexplorer.formats.keymap import load_keymap
from replexplorer.formats.scenes import read_scene
from replexplorer.formats.themes import read_theme
from replexplorer.ui.actions import DEFAULT_KEYS
from tests.affordable import affordable
from tests.amount import examples

FUZZ = settings(
    max_examples=examples(0.25),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def read_keys(file: Path) -> None:
    """Raises what is told of a file that is TOML and not usable."""
    for problem in load_keymap(file, DEFAULT_KEYS).problems:
        raise UsageError(problem)


READERS: dict[str, Callable[[Path], object]] = {
    "config": lambda file: load_configuration(file, named_by_user=True),
    "keys": read_keys,
    "theme": read_theme,
    "scene": read_scene,
    "lab": lambda file: read_lab(file),
    "drill": read_drill,
    "calibration": read_calibration,
    "workload": read_workload,
}
EACH = pytest.mark.parametrize("read", READERS.values(), ids=READERS)


def answered(read: Callable[[Path], object], file: Path) -> str:
    """What a reader says: nothing, or the one error that it may raise."""
    with affordable():
        try:
            read(file)
        except UsageError as error:
            return str(error)
    return ""


def test_what_a_reader_takes_is_seen_whatever_was_taken_before() -> None:
    taken = b"x" * (60 << 20)
    assert taken
    del taken
    with pytest.raises(AssertionError), affordable(most_mb=20):
        assert b"x" * (40 << 20)
    with affordable(most_mb=20):
        assert b"x" * (1 << 20)


NO_FILES: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "directory": os.mkdir,
    "device": lambda file: os.symlink("/dev/zero", file),
    "link to itself": lambda file: os.symlink(file, file),
}


@EACH
@pytest.mark.parametrize("make", NO_FILES.values(), ids=NO_FILES)
def test_what_is_no_file_is_told_and_not_waited_for(
    read: Callable[[Path], object], make: Callable[[Path], object], tmp_path: Path
) -> None:
    file = tmp_path / "a.toml"
    make(file)
    assert str(file) in answered(read, file)


@EACH
def test_gigabytes_are_not_read(read: Callable[[Path], object], tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.touch()
    os.truncate(file, 2 << 30)
    assert "is larger than" in answered(read, file)


FULL = MOST_TOML_BYTES - 100
TREES = {
    "lists": "a = " + "[" * (FULL // 2) + "]" * (FULL // 2),
    "tables": "a = " + "{a=" * (FULL // 5) + "1" + "}" * (FULL // 5),
    "dotted key": "a" + ".a" * (FULL // 2) + " = 1",
    "spaced key": "a" + " . a" * (FULL // 4) + " = 1",
    "quoted key": '"a"' + '."a"' * (FULL // 4) + " = 1",
    "header": "[a" + ".a" * (FULL // 2) + "]\nb = 1",
    "digits": f"a = {'9' * FULL}",
    "hexadecimal": f"a = 0x{'f' * FULL}",
    "float": f"a = {'9' * FULL}.5",
    "quotes": "a = " + '"\\"' * (FULL // 3),
    "blanks": "a." + " " * FULL + ".b",
    "word": "a" * FULL,
    "not closed": "a = [" + "1," * (FULL // 2),
}


@EACH
@pytest.mark.parametrize("text", TREES.values(), ids=TREES)
def test_a_document_as_bad_as_it_can_be_is_one_error(
    read: Callable[[Path], object], text: str, tmp_path: Path
) -> None:
    file = tmp_path / "a.toml"
    file.write_text(text)
    told = answered(read, file)
    assert told or read is READERS["workload"]  # any words may be SQL


@EACH
@FUZZ
@given(content=st.binary(max_size=200))
def test_bytes(read: Callable[[Path], object], content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_bytes(content)
    answered(read, file)
