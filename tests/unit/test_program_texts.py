"""What may stand where in the program: SQL, roles, keys of knobs, addresses; and what an import may cost."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import replexplorer
from tests.program_texts import texts_in
from tests.typed import table_of

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


def test_where_servers_are_is_the_providers_business() -> None:
    """No room above the provider names Docker or an address of this machine."""
    program = Path(replexplorer.__file__).parent
    rooms = ("engine", "ui", "reports", "core/server")
    files = [program / "ports.py", *(file for room in rooms for file in (program / room).rglob("*.py"))]
    said = re.compile(r".*(?:docker|127\.0\.0\.1|localhost).*", re.I)
    assert {file.name: lines for file in files if (lines := said.findall(file.read_text()))} == {}


# -- what `--version`, `--help` and a look at a stack may cost


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
LIBRARIES = """textual rich asyncmy docker plotext asyncio jinja2 pydantic pydantic_settings sqlglot
sqlite3 yaml"""
MAKING = {f"replexplorer.adapters.docker.{module}" for module in ("build", "images", "load")}
"""What only making a stack needs."""
_STACK = "replexplorer.adapters.docker.provider, replexplorer.engine.session"
WITH_A_STACK = {
    "status": f"import replexplorer.cli.stack, {_STACK}",
    "get and set": f"import replexplorer.cli.knobs, {_STACK}",
}
"""What such a verb imports on its way to a stack; the others run where no stack was made."""
MAY_IMPORT = """\
--version                | cli core                               |                       | 7
--help                   | cli core                               |                       | 7
statsu                   | cli core                               |                       | 7
keys                     | cli core formats ui                    |                       | 16
lab list                 | cli core formats                       | pydantic              | 37
predict rtt=10ms         | cli core formats                       | pydantic              | 53
export tour --format csv | adapters cli core formats              | pydantic sqlite3      | 52
export tour --format md  | adapters cli core formats reports ui   | pydantic rich sqlite3 | 70
status                   | adapters cli core engine formats ports | asyncio pydantic      | 121
get and set              | adapters cli core engine formats ports | asyncio pydantic      | 121
"""
"""Rooms, libraries and the number of our modules that a verb may import."""


def test_a_verb_imports_what_it_needs(tmp_path: Path) -> None:
    rows = table_of(MAY_IMPORT)
    typed = {verb: f"from replexplorer.cli import main; main({verb.split()!r})" for verb, *_ in rows}
    nobody = {**os.environ, "XDG_CONFIG_HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path)}
    words = [sys.executable, "-c", PROGRAM, repr({"nothing": "pass", **typed, **WITH_A_STACK})]
    run = subprocess.run(words, capture_output=True, text=True, timeout=60, env=nobody)
    assert run.returncode == 0, run.stderr
    loaded = {name: set(modules) for name, *modules in table_of(run.stdout, "\t")}
    for verb, rooms, libraries, most in rows:
        found = loaded[verb] - loaded["nothing"]
        ours = {name for name in found if name.startswith("replexplorer.")}
        assert {name.split(".")[1] for name in ours} == set(rooms.split()), verb
        assert found.intersection(LIBRARIES.split()) == set(libraries.split()), verb
        assert not found & MAKING, verb
        assert len(ours) <= int(most), sorted(ours)
        assert len(found) < 80 or int(most) > 7, sorted(found)
