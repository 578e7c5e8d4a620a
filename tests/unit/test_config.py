"""The configuration: precedence, origins, and errors that name the source and the key."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from replexplorer.formats.configuration import load_configuration
from tests.known import refused


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("REPLEXPLORER_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.toml"


def test_flag_beats_environment_beats_file_beats_default(
    file: Path, monkeypatch: pytest.MonkeyPatch, snapshot: object
) -> None:
    """Without a file everything is default."""
    bare = load_configuration(file)
    assert not bare.file_found
    assert set(bare.origins.values()) == {"default"}
    file.write_text('theme = "light"\nreapply = "ask"\nstack = "of-file"\n[workload]\ntable_size = 7\n')
    monkeypatch.setenv("REPLEXPLORER_REAPPLY", "off")
    monkeypatch.setenv("REPLEXPLORER_STACK", "of-environment")
    loaded = load_configuration(file, flags={"stack": "of-flag", "image": None})
    origins = {key: origin.replace(str(file), "FILE") for key, origin in loaded.origins.items()}
    told = {key: (loaded.flat()[key], origin) for key, origin in origins.items() if origin != "default"}
    assert (bare.flat(), told) == snapshot


def test_variables_may_be_of_a_nested_key_empty_or_unknown(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("WORKLOAD_TABLE_SIZE", "250000"), ("IMAGE", ""), ("THEEM", "light"), ("DEBUG", "1")):
        monkeypatch.setenv(f"REPLEXPLORER_{name}", value)
    loaded = load_configuration(file)
    assert loaded.values.workload.table_size == 250_000
    assert loaded.values.image is None
    assert loaded.origins["workload.table_size"] == "environment: REPLEXPLORER_WORKLOAD_TABLE_SIZE"
    assert loaded.unknown_variables == ("REPLEXPLORER_THEEM",)


WRONG_FILES = """\
theem = "light"
reapply = "sometimes"
replicas = 0
subnet = "10.0.0.0/30"
subnet = "nonsense"
stack = "No Such"
workload.table_size = 0
workload = 5
theme =
[stack]
stack = 5
stack = 2026-01-01
[replicas]
[workload.table_size]
[nothing]
replicas = nan"""
WRONG_VARIABLES = """\
GLYPHS hieroglyphs
REPLICAS many
WORKLOAD_PROCESSES -1
ATTACH_ALLOWED [
HOSTS {"dbx": "unix:///x"}"""


def test_a_mistake_is_one_line_with_its_file_or_variable_and_its_key(
    file: Path, monkeypatch: pytest.MonkeyPatch, snapshot: object
) -> None:
    told = {}
    for text in (*WRONG_FILES.splitlines(), "[workload]\nsize = 5"):
        file.write_text(text)
        told[text] = refused(load_configuration, file).replace(str(file), "FILE")
    file.write_text("")
    for line in WRONG_VARIABLES.splitlines():
        name, value = line.split(maxsplit=1)
        with monkeypatch.context() as patched:
            patched.setenv(f"REPLEXPLORER_{name}", value)
            told[name] = refused(load_configuration, file)
    assert told == snapshot
