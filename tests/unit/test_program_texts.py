"""What may stand where in the program: SQL, roles, keys of knobs, addresses; and what an import may cost."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import replexplorer
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.catalogue import BY_KEY
from tests.program_texts import ROOT, Text, texts_in

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


WORDS = {"primary", "replica", "replica2"}
ROLES_ARE_SPELT_IN = {"replexplorer/core/topology.py"}
"""Where the words stand: the roles with the aliases."""
OTHER_MEANINGS = {
    ("replexplorer/core/knobs/catalogue.py", 'REPLICA = "replica"'),
    ("replexplorer/core/dialect/mysql.py", '.replace("slave", "replica")'),
    ("replexplorer/core/dialect/mariadb.py", '_PRIMARY: Final = "primary"'),
    ("replexplorer/core/link.py", 'behind_source="replica",'),
    ("replexplorer/adapters/attached/provider.py", 'other = "other member"'),
}
"""The panel's group of a replica's knobs; a server's own column names; the part of a Galera cluster that has
the majority; the key of a link's other end."""


def spelt(texts: Iterable[Text]) -> Iterator[int]:
    """Lines of string literals that are a role's word and nothing else."""
    return (text.line for text in texts if text.value in WORDS)


def test_only_the_topology_spells_roles() -> None:
    found = []
    for room in ("replexplorer", "compose"):
        for module, texts in texts_in(room).items():
            name = f"{room}/{module}"
            if name in ROLES_ARE_SPELT_IN or not (numbers := list(spelt(texts))):
                continue
            lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
            for number in numbers:
                line = lines[number - 1]
                if not any(name == where and text in line for where, text in OTHER_MEANINGS):
                    found.append(f"{name}:{number}: {line.strip()}")
    assert found == []


# -- who knows a knob by its name


PACKAGE = Path(replexplorer.__file__).parent
SPELLED_HERE = {"core/knobs/keys.py", "core/knobs/catalogue.py", "core/wire.py"}
"""What an agent has too can import nothing; its keys are compared with the catalogue's elsewhere."""
OTHER_NAMES = {
    "core/dialect/mysql.py": "the server's own variables, some of which have a knob of their name",
    "engine/load.py": "the load settings' own fields",
    "ui/widgets/header.py": "the header's cells",
}
"""Modules where a whole text that is some knob's key is something else."""
COMMON_WORDS = {"clients", "rate", "workload", "payload", "partition", "loss", "jitter", "bandwidth"}
"""Keys that are words of other things as well: only where a knob is asked for do they count."""


def spelled(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and key of each text that names a knob."""
    sure = {id(found) for node in ast.walk(tree) for found in asked_for(node)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or node.value not in BY_KEY:
            continue
        if node.value not in COMMON_WORDS or id(node) in sure:
            yield node.lineno, str(node.value)


def asked_for(node: ast.AST) -> list[ast.AST]:
    """The texts that can only be keys: KnobName("x", ...), BY_KEY["x"], name.key == "x"."""
    match node:
        case ast.Call(func=ast.Name(id="KnobName"), args=[key, *_]):
            return [key]
        case ast.Subscript(value=ast.Name(id="BY_KEY"), slice=key):
            return [key]
        case ast.Compare(left=ast.Attribute(attr="key"), comparators=others):
            return [found for other in others for found in ast.walk(other)]
    return []


def modules() -> list[str]:
    return sorted(
        name
        for path in PACKAGE.rglob("*.py")
        if (name := path.relative_to(PACKAGE).as_posix()) not in SPELLED_HERE and "_shipped" not in name
    )


def test_a_knobs_key_is_spelled_in_the_catalogues_room_alone() -> None:
    texts = {name: (PACKAGE / name).read_text() for name in modules()}
    likely = {name: text for name, text in texts.items() if any(f'"{key}"' in text for key in BY_KEY)}
    found = {name: list(spelled(ast.parse(text))) for name, text in likely.items()}
    assert {name for name, spots in found.items() if spots} == set(OTHER_NAMES)


def test_the_list_has_the_keys_that_a_rule_is_about_and_no_other() -> None:
    named = {name: value for name, value in vars(keys).items() if name.isupper()}
    assert {name.lower() for name in named} == set(named.values()) <= set(BY_KEY)
    everything = "".join((PACKAGE / name).read_text() for name in modules())
    assert [name for name in named if not re.search(rf"\b{name}\b", everything)] == []


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
    "lab list": ("cli core formats", "pydantic", 36),
    "predict rtt=10ms": ("cli core formats", "pydantic", 51),
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
        "package": "import replexplorer",
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


@pytest.mark.parametrize("words", TYPED, ids=str)
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


@pytest.mark.parametrize("verb", MAY_IMPORT)
def test_a_verb_without_a_stack_imports_what_it_needs(verb: str, loaded: dict[str, set[str]]) -> None:
    rooms, libraries, most = MAY_IMPORT[verb]
    found = loaded[verb] - loaded["nothing"]
    ours = {name for name in found if name.startswith("replexplorer.")}
    assert {name.split(".")[1] for name in ours} == set(rooms.split())
    assert found & LIBRARIES == set(libraries.split())
    assert len(ours) <= most, sorted(ours)


@pytest.mark.parametrize("verb", WITH_A_STACK)
def test_looking_at_a_stack_imports_nothing_that_only_making_one_needs(
    verb: str, loaded: dict[str, set[str]]
) -> None:
    making = {f"replexplorer.adapters.docker.{module}" for module in ("build", "images", "load")}
    ours = {name for name in loaded[verb] if name.startswith("replexplorer.")}
    assert "replexplorer.adapters.docker.provider" in ours
    assert not loaded[verb] & {*making, "yaml"}
    assert loaded[verb] & LIBRARIES == {"asyncio", "pydantic"}
    assert {name.split(".")[1] for name in ours} == {"adapters", "cli", "core", "engine", "formats", "ports"}
    assert len(ours) <= 118, sorted(ours)


def test_the_package_itself_imports_nothing(loaded: dict[str, set[str]]) -> None:
    assert replexplorer.__version__
    assert loaded["package"] - loaded["nothing"] == {"replexplorer"}
