"""What may stand where in the program: SQL, roles, keys of knobs, addresses; and what an import may cost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import replexplorer
from tests.program_texts import texts_in

DIALECTS = "core/dialect/"
OWN_BASE = ("recording.py",)
"""Session files are SQLite."""
OWN_TABLES = (
    "core/load/",
    "engine/workload_capture/",
    "generator/",
    "formats/experiment_file.py",
    "engine/experiment/",
)
"""Tables of the load and of labs: any SQL on them, and nothing that asks the server of itself."""

STATEMENT = re.compile(
    r"\s*(SELECT|SHOW|SET (GLOBAL|SESSION|PERSIST|GTID_NEXT|@)|STOP|START|CHANGE|RESET|FLUSH|PURGE|GRANT"
    r"|REVOKE|CREATE (TABLE|DATABASE|USER|INDEX)|ALTER (TABLE|USER)|DROP (TABLE|DATABASE|USER)|INSERT INTO"
    r"|REPLACE INTO|DELETE FROM|UPDATE \w+ SET|KILL|CALL|ANALYZE|OPTIMIZE TABLE|INSTALL|UNINSTALL|LOCK|UNLOCK"
    r"|EXPLAIN|BEGIN|COMMIT|ROLLBACK)(\s|$)"
)
"""How a statement begins; keywords are in capitals, as all SQL here is."""
OF_SERVER = re.compile(
    r"@@|performance_schema\.|information_schema\.|\b(GTID_SUBTRACT|WAIT_FOR_EXECUTED_GTID_SET)\("
    r"|\b(IO_THREAD|SQL_THREAD|BINARY LOGS|REPLICA STATUS|SLAVE STATUS)\b"
    r"|\s*(SHOW|SET GLOBAL|STOP|START|CHANGE|RESET|FLUSH|PURGE|GRANT)(\s|$)"
)
"""What asks a server of itself or changes how it replicates, anywhere in a text."""


def is_forbidden(path: str, text: str) -> bool:
    """Whether a module, by its path in the program, may not hold this text."""
    if path.startswith(DIALECTS) or (path.startswith("adapters/") and path.endswith(OWN_BASE)):
        return False
    if path.startswith("generator/"):
        return re.match(r"\s*(STOP|START|CHANGE|RESET|PURGE)\s", text) is not None
    if path.startswith(OWN_TABLES):
        return OF_SERVER.search(text) is not None
    return STATEMENT.match(text) is not None or OF_SERVER.search(text) is not None


def test_no_sql_stands_elsewhere() -> None:
    found = [
        f"{path}:{text.line}: {text.value[:60]!r}"
        for path, texts in texts_in("replexplorer").items()
        for text in texts
        if not text.is_prose and is_forbidden(path, text.value)
    ]
    assert not found, "\n".join(found)


# -- what `--version`, `--help` and a look at a stack may cost, and that no room names Docker


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

TYPED = (["--version"], ["--help"], ["statsu"])


LIBRARIES = {*HEAVY, "asyncio", "jinja2", "pydantic", "sqlglot", "sqlite3"}
MAY_IMPORT = {
    "keys": ("cli core formats ui", "", 16),
    "lab list": ("cli core formats", "pydantic", 37),
    "predict rtt=10ms": ("cli core formats", "pydantic", 53),
    "export tour --format csv": ("adapters cli core formats", "pydantic sqlite3", 52),
    "export tour --format md": ("adapters cli core formats reports ui", "pydantic rich sqlite3", 70),
}
"""Rooms, libraries and the number of our modules that a verb may import, run where no stack was made."""
_STACK = "replexplorer.adapters.docker.provider, replexplorer.engine.session"
WITH_A_STACK = {
    "status": f"replexplorer.cli.stack, {_STACK}",
    "get and set": f"replexplorer.cli.knobs, {_STACK}",
}
"""What such a verb imports on its way to a stack."""


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """What a fresh interpreter has imported after a statement, by the statement's name."""
    tmp_path = tmp_path_factory.mktemp("nobody")
    statements = {
        "nothing": "pass",
        **{str(words): f"from replexplorer.cli import main; main({words!r})" for words in TYPED},
        **{verb: f"from replexplorer.cli import main; main({verb.split()!r})" for verb in MAY_IMPORT},
        **{name: f"import {modules}" for name, modules in WITH_A_STACK.items()},
    }
    words = [sys.executable, "-c", PROGRAM, repr(statements)]
    nobody = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    run = subprocess.run(words, capture_output=True, text=True, timeout=60, env=nobody)
    assert run.returncode == 0, run.stderr
    lines = (line.split("\t") for line in run.stdout.splitlines())
    return {name: set(modules) for name, *modules in lines}


def test_where_servers_are_is_the_providers_business() -> None:
    """No room above the provider names Docker or an address of this machine."""
    said = re.compile(r"docker|127\.0\.0\.1|localhost", re.I)
    for room in ("engine", "ui", "reports", "ports.py", "core/server"):
        place = Path(replexplorer.__file__).parent / room
        files = [place] if place.is_file() else [*place.rglob("*.py")]
        lines = [(file.name, line) for file in files for line in file.read_text().splitlines()]
        assert lines
        assert [each for each in lines if said.search(each[1])] == []


def test_version_and_help_import_almost_nothing(loaded: dict[str, set[str]]) -> None:
    beside = "cli cli.entry cli.arguments cli.output core core.errors core.text"
    for words in map(str, TYPED):
        found = loaded[words] - loaded["nothing"]
        ours = {name for name in found if name.partition(".")[0] == "replexplorer"}
        assert ours == {"replexplorer", *(f"replexplorer.{module}" for module in beside.split())}, words
        assert not found & {*HEAVY, "pydantic", "pydantic_settings", "asyncio", "ssl", "platformdirs", "yaml"}
        assert len(found) < 80, sorted(found)


def test_a_verb_without_a_stack_imports_what_it_needs(loaded: dict[str, set[str]]) -> None:
    for verb, (rooms, libraries, most) in MAY_IMPORT.items():
        found = loaded[verb] - loaded["nothing"]
        ours = {name for name in found if name.startswith("replexplorer.")}
        assert {name.split(".")[1] for name in ours} == set(rooms.split()), verb
        assert found & LIBRARIES == set(libraries.split()), verb
        assert len(ours) <= most, sorted(ours)


def test_looking_at_a_stack_imports_nothing_that_only_making_one_needs(loaded: dict[str, set[str]]) -> None:
    making = {f"replexplorer.adapters.docker.{module}" for module in ("build", "images", "load")}
    rooms = "adapters cli core engine formats ports"
    for verb in WITH_A_STACK:
        ours = {name for name in loaded[verb] if name.startswith("replexplorer.")}
        assert "replexplorer.adapters.docker.provider" in ours
        assert not loaded[verb] & {*making, "yaml"}, verb
        assert loaded[verb] & LIBRARIES == {"asyncio", "pydantic"}, verb
        assert {name.split(".")[1] for name in ours} == set(rooms.split()), verb
        assert len(ours) <= 121, sorted(ours)
