"""What `--version`, `--help` and a look at a stack may cost, and that no room names Docker."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import replexplorer

HEAVY = ("textual", "rich", "asyncmy", "docker", "plotext")


PROGRAM = """
import os, sys

for name, statement in eval(sys.argv[1]).items():
    if not os.fork():
        sys.stdout = open(os.devnull, "w")
        exec(statement, {})
        print(name, *sys.modules, sep="\t", file=sys.__stdout__, flush=True)
        os._exit(0)
    if os.wait()[1]:
        os._exit(1)
"""
"""One interpreter, and a fork of it for each statement."""

WORDS = (["--version"], ["--help"], ["statsu"])


@pytest.fixture(scope="module")
def loaded() -> dict[str, set[str]]:
    """What a fresh interpreter has imported after a statement, by the statement's name."""
    statements = {
        "nothing": "pass",
        "package": "import replexplorer",
        **{str(words): f"from replexplorer.cli import main; main({words!r})" for words in WORDS},
        "looking": "import replexplorer.cli.stack, replexplorer.adapters.docker.provider",
    }
    words = [sys.executable, "-c", PROGRAM, repr(statements)]
    run = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    lines = (line.split("\t") for line in run.stdout.splitlines())
    return {name: set(modules) for name, *modules in lines}


@pytest.mark.parametrize("room", ["engine", "ui", "reports", "ports.py", "core/server"])
def test_where_servers_are_is_the_providers_business(room: str) -> None:
    """No room above the provider names Docker or an address of this machine."""
    place = Path(replexplorer.__file__).parent / room
    files = [place] if place.is_file() else [*place.rglob("*.py")]
    assert files
    said = re.compile(r"docker|127\.0\.0\.1|localhost", re.I)
    found = [
        f"{file.name}: {line.strip()}"
        for file in files
        for line in file.read_text().splitlines()
        if said.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("words", WORDS, ids=str)
def test_version_and_help_import_almost_nothing(words: list[str], loaded: dict[str, set[str]]) -> None:
    found = loaded[str(words)] - loaded["nothing"]
    ours = {name for name in found if name.partition(".")[0] == "replexplorer"}
    assert ours == {
        "replexplorer",
        "replexplorer.cli",
        "replexplorer.cli.entry",
        "replexplorer.cli.arguments",
        "replexplorer.cli.output",
        "replexplorer.core",
        "replexplorer.core.errors",
        "replexplorer.core.text",
    }
    assert not found & {*HEAVY, "pydantic", "pydantic_settings", "asyncio", "ssl", "platformdirs", "yaml"}
    assert len(found) < 80, sorted(found)


def test_looking_at_a_stack_imports_nothing_that_only_making_one_needs(loaded: dict[str, set[str]]) -> None:
    making = {f"replexplorer.adapters.docker.{module}" for module in ("build", "images", "load")}
    assert "replexplorer.adapters.docker.provider" in loaded["looking"]
    assert not loaded["looking"] & {*making, "yaml", "textual", "plotext", "asyncmy"}


def test_the_package_itself_imports_nothing(loaded: dict[str, set[str]]) -> None:
    assert replexplorer.__version__
    assert loaded["package"] - loaded["nothing"] == {"replexplorer"}
