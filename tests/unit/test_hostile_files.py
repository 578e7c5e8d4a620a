"""Whatever lies where a text or a TOML file is expected ends in one UsageError, soon and in little memory."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from replexplorer.cli.own_labs import own_lab
from replexplorer.core.errors import UsageError
from replexplorer.core.load.script import LARGEST_BYTES
from replexplorer.formats.calibration import read_calibration
from replexplorer.formats.configuration import load_configuration
from replexplorer.formats.drill_files import read_drill
from replexplorer.formats.keymap import load_keymap
from replexplorer.formats.lab_files import read_lab
from replexplorer.formats.scenes import read_scene
from replexplorer.formats.small_file import MOST_DEPTH, MOST_TOML_BYTES, WrongToml, parse_toml, read_bytes
from replexplorer.formats.themes import read_theme
from replexplorer.formats.workload_file import read_workload
from replexplorer.ui.keys.actions import DEFAULT_KEYS
from tests.affordable import affordable

FUZZ = settings(
    derandomize=True,
    max_examples=25,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)

READERS: dict[str, Callable[[Path], object]] = {
    "config": lambda file: load_configuration(file, named_by_user=True),
    "keys": lambda file: load_keymap(file, DEFAULT_KEYS),
    "theme": read_theme,
    "scene": read_scene,
    "lab": lambda file: own_lab(read_lab(file)),
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


def test_the_limit_is_as_it_is_told(tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_bytes(b"#" * MOST_TOML_BYTES)
    assert len(read_bytes(file, MOST_TOML_BYTES)) == MOST_TOML_BYTES
    file.write_bytes(b"#" * (MOST_TOML_BYTES + 1))
    assert "is larger than 64 KB" in answered(READERS["config"], file)
    file.write_bytes(b"-- x\n" * (LARGEST_BYTES // 5 + 1))
    assert "is larger than 1 MB" in answered(read_workload, file)


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


def test_the_depth_is_as_it_is_told() -> None:
    names = ["a"] * MOST_DEPTH
    assert parse_toml(".".join(names) + " = 1")
    assert parse_toml('list = [1.5, 2.5, "1.1.1.1", "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r"] # a.b.c')
    for text in (".".join([*names, "a"]) + " = 1", "a = " + "[" * MOST_DEPTH + "1" + "]" * MOST_DEPTH):
        with pytest.raises(WrongToml, match="nested more than 16 deep"):
            parse_toml(text)


QUOTES = {
    "quote": "'" + "\n\nx" * 24_000,
    "comment": "/*\n\n" * 24_000,
    "lines": "\n" * 1_000_000,
    "statements": "x;" * 500_000,
    "comments in quotes": "SELECT '" + "/* " * 300_000 + "';",
}


@pytest.mark.parametrize("text", QUOTES.values(), ids=QUOTES)
def test_an_open_quote_costs_no_square_of_its_lines(text: str, tmp_path: Path) -> None:
    file = tmp_path / "a.sql"
    file.write_text(text)
    answered(read_workload, file)


@EACH
@FUZZ
@given(content=st.binary(max_size=200))
def test_bytes(read: Callable[[Path], object], content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_bytes(content)
    answered(read, file)


KNOWN = st.sampled_from(
    ["stack", "theme", "replicas", "workload", "table_size", "keys", "chart.heat", "knobs", "rtt",
     "rtt@db2",
     "semi_sync", "title", "phase", "relation", "name", "set", "seconds", "left", "right", "is", "times",
     "published", "value", "unit", "dark", "screen", "bg", "series", "p50"]
)  # fmt: skip
SCALARS = st.one_of(
    st.integers(-(2**70), 2**70), st.floats(), st.booleans(), st.text(max_size=8), st.dates(),
    st.sampled_from(["a.tps", "on", "off", "85ms", "<", ">=", "#ffffff", "\x1b[31m", "x" * 300, 10]),
)  # fmt: skip
KEYS = st.one_of(KNOWN, KNOWN, st.text(max_size=6))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=6)


def toml_of(value: object) -> str:
    """The value as TOML writes it in one line."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            return '"' + "".join(_character(each) for each in value) + '"'
        case list():
            return f"[{', '.join(map(toml_of, value))}]"
        case dict():
            pairs = (f"{toml_of(str(key))} = {toml_of(inner)}" for key, inner in value.items())
            return f"{{{', '.join(pairs)}}}"
    return str(value)


def _character(each: str) -> str:
    plain = each.isprintable() and each not in '"\\'
    return each if plain else f"\\U{0xFFFD if 0xD800 <= ord(each) < 0xE000 else ord(each):08x}"


@EACH
@FUZZ
@given(document=DOCUMENTS)
def test_trees(read: Callable[[Path], object], document: dict[str, object], tmp_path: Path) -> None:
    file = tmp_path / "a.toml"
    file.write_text("".join(f"{toml_of(key)} = {toml_of(value)}\n" for key, value in document.items()))
    answered(read, file)
