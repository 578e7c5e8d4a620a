"""Every verb on real servers, one after the other: it ends with its exit code, and its --json is what
`config schema` says of it, with all keys and no other. The schema itself is held still by a snapshot."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from replexplorer.cli.machine import documents
from replexplorer.formats.documents import schema
from tests.integration.conftest import LiveStack
from tests.integration.shell import Shell
from tests.typed import table_of

LAB: Final = """
title = "Golden"
[[phase]]
name = "async"
set = { semi_sync = "off", clients = 2 }
seconds = 2
published = { value = 57, unit = "tps" }
[[phase]]
name = "semi-sync"
set = { semi_sync = "on", rtt = "40ms" }
seconds = 2
[[relation]]
name = "semi-sync stays below async"
left = "semi-sync.tps"
is = "<="
right = "async.tps"
"""

DRILL: Final = """
title = "Golden"
teaches = "The source is killed."
[set]
semi_sync = "off"
[[step]]
wait = 2
[[step]]
inject = "kill"
[[step]]
wait = 1
[[step]]
clear = "kill"
[[step]]
until = "writing"
[[step]]
wait = 1
[[expect]]
name = "the outage is seen"
passes = "down"
[[expect]]
name = "clients write again"
left = "tps_after"
is = ">"
right = 0
"""

SCHEMA: Final = schema(documents())

RUNS: Final = """\
0 | doctor
0 | doctor --json
0 | config
0 | config --json
0 | themes
0 | themes --json
0 | keys
0 | keys --json
0 | lab list
0 | lab list --json
0 | drill list
0 | drill list --json
0 | fault list --json
2 | nosuch --json
4 | status --stack nosuch --json
2 | --config /nosuch.toml status --json
2 | set nosuch=1 --json
2 | set sync_binlog=0 rtt=6000 --json
2 | set rtt@db9=1 --json
2 | get nosuch --json
2 | dsn db9 --json
2 | scene apply nosuch --json
2 | load --clients 0 --json
2 | load --workload nosuch --json
2 | lab run nosuch --json
2 | drill run nosuch --json
2 | fault inject nosuch --json
4 | failover --json
2 | rejoin db1 --json
2 | predict rtt=nosuch --json
2 | sweep nosuch=1,2 --json
2 | export nosuch.rxs --format csv
2 | export last --format nosuch
0 | up --json
0 | status
0 | status --json
0 | dsn --json
0 | dsn replica --published --json
0 | check-schema --json
0 | reset
0 | get
0 | get --json
0 | get rtt sync_binlog --json
0 | set semi_sync=on --dry-run
0 | set semi_sync=on --dry-run --json
0 | set semi_sync=on rtt=3ms sync_binlog=0 clients=2 --json
0 | set semi_sync=on --json
0 | scene save golden --json
0 | scene list
0 | scene list --json
0 | scene apply both --json
0 | scene apply golden
0 | predict rtt=10ms clients=8
0 | predict rtt=10ms clients=8 --json
0 | advise --goal 'p99 < 50ms, rpo = 0' --json
0 | reset --json
0 | load --clients 2 --duration 2
0 | load --clients 2 --duration 1 --workload write_only --json
0 | load --clients 2 --duration 1 --rate 50 --json
0 | load --clients 1 --duration 1 --workload ledger --json
0 | sweep clients=1,2 --duration 1 --force --report {home}/sweep --json
0 | lab run {home}/golden-lab.toml --quick --report {home}/lab --json
0 | drill run {home}/golden-drill.toml --quick --report {home}/drill --json
0 | export last --format csv
0 | export last --format jsonl
0 | export last --format md
0 | export last --format html
0 | export last --format hlog
0 | export last --format cast --size 80x24
0 | switchover --to db2 --json
0 | switchover --to db1
0 | fault inject applier_stop@db2 --for 1 --json
0 | fault inject kill@db1 --json
4 | status --json
0 | failover --json
0 | fault clear --json
0 | rejoin db1 --yes --json
0 | switchover --to db1 --json
0 | fault clear"""
"""Exit code and words, in their order on one stack that the last of them leaves as it was."""

OWN_PROCESS: Final = ("load", "sweep", "lab run", "drill run")
"""What starts processes of its own, which need real streams."""


@pytest.fixture(scope="module")
def shell(
    live_stack: LiveStack, state_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shell]:
    """The program on the shared stack, which it gives back as it was."""
    home = tmp_path_factory.mktemp("golden")
    (home / "golden-lab.toml").write_text(LAB)
    (home / "golden-drill.toml").write_text(DRILL)
    shell = Shell(home, live_stack.stack.name, state_home)
    shell.environment |= {"HOME": str(home)}
    try:
        yield shell
    finally:
        for words in ("fault clear", "reset"):
            shell.answer(*words.split())
        if [node.name for node in shell.status().nodes if node.is_source] != ["db1"]:
            for words in ("up", "rejoin db1 --yes", "switchover --to db1"):
                shell.answer(*words.split())


@pytest.mark.docker
def test_every_verb_ends_with_its_code_and_prints_its_document(shell: Shell) -> None:
    home = shell.environment["HOME"]
    wrong = []
    for code, words in table_of(RUNS):
        typed = shlex.split(words.format(home=home))
        if words.startswith(OWN_PROCESS):
            done = shell.run(*typed, code=None)
            ended, out, said = done.returncode, done.stdout, done.stderr
        else:
            ended, out, said = shell.answer(*typed)
        if ended != int(code) or not (prints_its_document(words, out) if "--json" in typed else out or ended):
            wrong.append(f"{words}: {ended}\n{out}\n{said}")
    assert wrong == []
    for kind in ("sweep", "lab", "drill"):
        assert {"report.html", "report.md", "result.json"} <= {
            file.name for file in Path(home, kind).iterdir()
        }


def prints_its_document(words: str, out: str) -> bool:
    """Whether it is the one of the verb, or that of an error."""
    found = json.loads(out)
    verbs = [name for name in SCHEMA["properties"] if f"{words} ".startswith(f"{name} ")]
    name = max(verbs, key=len) if verbs and list(found) != ["error"] else "error"
    return fits(found, SCHEMA["properties"][name])


TYPES: Final[dict[str, tuple[type, ...]]] = {
    "string": (str,), "number": (int, float), "integer": (int,), "boolean": (bool,), "null": (type(None),),
    "array": (list,), "object": (dict,),
}  # fmt: skip


def fits(value: Any, node: Any) -> bool:
    """Whether a value is what this part of the schema says."""
    match node:
        case {"$ref": name}:
            return fits(value, SCHEMA["$defs"][name.removeprefix("#/$defs/")])
        case {"anyOf": kinds}:
            return any(fits(value, kind) for kind in kinds)
        case {"enum": values}:
            return value in values
        case {"properties": keys, "required": required}:
            has = value.keys() if isinstance(value, dict) else set()
            return set(required) <= has <= keys.keys() and all(fits(value[key], keys[key]) for key in has)
        case {"additionalProperties": inner}:
            return isinstance(value, dict) and all(fits(each, inner) for each in value.values())
        case {"items": inner}:
            return isinstance(value, list) and all(fits(each, inner) for each in value)
        case {"type": kind}:
            return isinstance(value, TYPES[kind])
    return True


def test_no_document_loses_a_key_or_changes_a_type(snapshot: object) -> None:
    shapes = {
        f"{name}.{key}": json.dumps(undescribed(inner))
        for name, shape in SCHEMA["$defs"].items()
        for key, inner in shape.get("properties", {"": shape}).items()
    }
    printed = {name: json.dumps(undescribed(shape)) for name, shape in SCHEMA["properties"].items()}
    assert "\n".join(f"{name}: {shape}" for name, shape in (printed | shapes).items()) == snapshot


def undescribed(node: Any) -> Any:
    """A part of the schema without what is only for readers."""
    if isinstance(node, dict):
        return {key: undescribed(inner) for key, inner in node.items() if key != "description"}
    return [undescribed(inner) for inner in node] if isinstance(node, list) else node
