"""The dependency rules at run time, and what `--version` may cost."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import replexplorer

HEAVY = ("textual", "rich", "asyncmy", "docker", "plotext")


PROGRAM = """
import os, sys

def visit(tree):
    for name, statement, below in tree:
        if not (child := os.fork()):
            exec(statement, {})
            with open(sys.argv[1], "a") as told:
                print(name, *sys.modules, sep="\t", file=told)
            visit(below)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            os._exit(1)

visit(eval(sys.argv[2]))
"""
"""One interpreter, and a fork of it for what is imported next: each has all that those before it have."""

Tree = list[tuple[str, str, "Tree"]]
WORDS = (["--version"], ["--help"], ["statsu"])


def everything_in(*packages: str) -> str:
    """A statement that imports the packages and every module below them."""
    names = []
    for package in packages:
        root = import_module(f"replexplorer.{package}")
        below = getattr(root, "__path__", ())
        names += [root.__name__, *(found.name for found in pkgutil.walk_packages(below, f"{root.__name__}."))]
    return "\n".join(f"import {name}" for name in names)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """What a fresh interpreter has imported after a statement, by the statement's name."""
    screen: Tree = [("screen", everything_in("ui"), [])]
    inner: Tree = [("inner layers", everything_in("ports", "formats", "engine", "reports"), screen)]
    tree: Tree = [
        ("nothing", "pass", []),
        ("package", "import replexplorer", []),
        *((str(words), f"from replexplorer.cli import main; main({words!r})", Tree()) for words in WORDS),
        ("looking", "import replexplorer.cli.stack, replexplorer.adapters.docker.provider", []),
        ("core", everything_in("core"), [*inner, ("adapters", everything_in("adapters"), [])]),
    ]
    told = tmp_path_factory.mktemp("imports") / "told"
    words = [sys.executable, "-c", PROGRAM, str(told), repr(tree)]
    run = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    lines = (line.split("\t") for line in told.read_text().splitlines())
    return {name: set(modules) for name, *modules in lines}


def test_the_inner_layers_load_without_terminal_mysql_or_docker(loaded: dict[str, set[str]]) -> None:
    found = loaded["inner layers"]
    assert {f"replexplorer.{room}" for room in ("core", "ports", "formats", "engine", "reports")} <= found
    assert not found & {*HEAVY, "replexplorer.ui", "replexplorer.adapters", "replexplorer.cli"}


def test_core_is_pure(loaded: dict[str, set[str]]) -> None:
    found = loaded["core"]
    assert not found & {"asyncio", "pydantic", "socket", "replexplorer.formats", "replexplorer.ports"}


def test_the_screen_loads_without_mysql_or_docker(loaded: dict[str, set[str]]) -> None:
    assert "replexplorer.ui.app" in loaded["screen"]
    assert not loaded["screen"] & {"asyncmy", "docker", "replexplorer.adapters"}


def test_adapters_load_without_engine_or_screen(loaded: dict[str, set[str]]) -> None:
    assert "replexplorer.adapters.mysql" in loaded["adapters"]
    assert not loaded["adapters"] & {"textual", "replexplorer.ui", "replexplorer.engine"}


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
