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


def modules_after(statement: str) -> set[str]:
    """What a fresh interpreter has imported after the statement."""
    program = f"import sys\n{statement}\nprint('modules:', *sys.modules, file=sys.stderr)"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    return set(run.stderr.rpartition("modules:")[2].split())


def everything_in(package: str) -> list[str]:
    """The package and every module below it."""
    root = import_module(package)
    return [package, *(found.name for found in pkgutil.walk_packages(root.__path__, f"{package}."))]


@pytest.mark.parametrize("package", ["core", "engine", "formats", "reports", "ports"])
def test_the_inner_layers_load_without_terminal_mysql_or_docker(package: str) -> None:
    name = f"replexplorer.{package}"
    names = everything_in(name) if package != "ports" else [name]
    loaded = modules_after("\n".join(f"import {name}" for name in names))
    assert name in loaded
    assert not loaded & {*HEAVY, "replexplorer.ui", "replexplorer.adapters", "replexplorer.cli"}


def test_core_is_pure() -> None:
    loaded = modules_after("\n".join(f"import {name}" for name in everything_in("replexplorer.core")))
    assert not loaded & {"asyncio", "pydantic", "socket", "replexplorer.formats", "replexplorer.ports"}


def test_the_screen_loads_without_mysql_or_docker() -> None:
    loaded = modules_after("\n".join(f"import {name}" for name in everything_in("replexplorer.ui")))
    assert not loaded & {"asyncmy", "docker", "replexplorer.adapters"}


def test_adapters_load_without_engine_or_screen() -> None:
    loaded = modules_after("\n".join(f"import {name}" for name in everything_in("replexplorer.adapters")))
    assert not loaded & {"textual", "replexplorer.ui", "replexplorer.engine"}


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


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["statsu"]])
def test_version_and_help_import_almost_nothing(words: list[str]) -> None:
    bare = modules_after("pass")
    loaded = modules_after(f"from replexplorer.cli import main; main({words!r})") - bare
    ours = {name for name in loaded if name.partition(".")[0] == "replexplorer"}
    assert ours == {
        "replexplorer",
        "replexplorer.cli",
        "replexplorer.cli.entry",
        "replexplorer.cli.arguments",
        "replexplorer.cli.verbs",
        "replexplorer.cli.output",
        "replexplorer.core",
        "replexplorer.core.errors",
        "replexplorer.core.hints",
        "replexplorer.core.printable",
        "replexplorer.core.text",
    }
    assert not loaded & {*HEAVY, "pydantic", "pydantic_settings", "asyncio", "ssl", "platformdirs", "yaml"}
    assert len(loaded) < 80, sorted(loaded)


def test_looking_at_a_stack_imports_nothing_that_only_making_one_needs() -> None:
    loaded = modules_after("import replexplorer.cli.stack, replexplorer.adapters.docker.provider")
    making = {f"replexplorer.adapters.docker.{module}" for module in ("build", "images", "base_image")}
    assert not loaded & {*making, "yaml", "textual", "plotext", "asyncmy"}


def test_the_package_itself_imports_nothing() -> None:
    assert replexplorer.__version__
    loaded = modules_after("import replexplorer") - modules_after("pass")
    assert loaded == {"replexplorer"}
