"""What every verb prints, held still: the keys and value types of its JSON, the headings, labels and columns
of its text, and its exit code, from runs on real servers (golden.json).

A key may come, none may go and none may change its type; the same for a heading, a label or a column.
Figures and wordings are of no concern here. After a change that is meant, and only then:

    GOLDEN=write pytest tests/integration/test_golden.py   # writes what this run prints
    GOLDEN=merge pytest tests/integration/test_golden.py   # adds what differs from run to run: a null, no row
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from replexplorer.cli.machine import documents
from replexplorer.formats.documents import schema
from tests.integration.conftest import LiveStack
from tests.integration.shell import Shell

GOLDEN: Final = Path(__file__).with_name("golden.json")
UPDATE: Final = os.environ.get("GOLDEN", "")

Paths = dict[str, list[str]]
"""Path to the types that were seen there."""
Shape = dict[str, Any]
"""What is compared of one run: `exit`, and of its output either `json` (path to the types seen there) or
`text` (headings, labels and columns)."""

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

WHOLE: Final = schema(documents())
"""The schema as it is now."""

STEPS: Final = {
    "machine": (
        "doctor",
        "doctor --json",
        "config",
        "config --json",
        "themes",
        "themes --json",
        "keys",
        "keys --json",
        "lab list",
        "lab list --json",
        "drill list",
        "drill list --json",
        "fault list --json",
    ),
    "errors": (
        "nosuch --json",
        "status --stack nosuch --json",
        "--config /nosuch.toml status --json",
        "set nosuch=1 --json",
        "set sync_binlog=0 rtt=6000 --json",
        "set rtt@db9=1 --json",
        "get nosuch --json",
        "dsn db9 --json",
        "scene apply nosuch --json",
        "load --clients 0 --json",
        "load --workload nosuch --json",
        "lab run nosuch --json",
        "drill run nosuch --json",
        "fault inject nosuch --json",
        "failover --json",
        "rejoin db1 --json",
        "predict rtt=nosuch --json",
        "sweep nosuch=1,2 --json",
        "export nosuch.rxs --format csv",
        "export last --format nosuch",
    ),
    "stack": (
        "up --json",
        "status",
        "status --json",
        "dsn --json",
        "dsn replica --published --json",
        "check-schema --json",
    ),
    "settings": (
        "reset",
        "get",
        "get --json",
        "get rtt sync_binlog --json",
        "set semi_sync=on --dry-run",
        "set semi_sync=on --dry-run --json",
        "set semi_sync=on rtt=3ms sync_binlog=0 clients=2 --json",
        "set semi_sync=on --json",
        "scene save golden --json",
        "scene list",
        "scene list --json",
        "scene apply both --json",
        "scene apply golden",
        "predict rtt=10ms clients=8",
        "predict rtt=10ms clients=8 --json",
        "advise --goal 'p99 < 50ms, rpo = 0' --json",
        "reset --json",
    ),
    "load": (
        "load --clients 2 --duration 2",
        "load --clients 2 --duration 1 --workload write_only --json",
        "load --clients 2 --duration 1 --rate 50 --json",
        "load --clients 1 --duration 1 --workload ledger --json",
    ),
    "experiments": (
        "sweep clients=1,2 --duration 1 --force --report {report}/sweep --json",
        "lab run {home}/golden-lab.toml --quick --report {report}/lab --json",
        "drill run {home}/golden-drill.toml --quick --report {report}/drill --json",
    ),
    "recording": (
        "export last --format csv",
        "export last --format jsonl",
        "export last --format md",
        "export last --format html",
        "export last --format hlog",
        "export last --format cast --size 80x24",
    ),
    "roles": (
        "switchover --to db2 --json",
        "switchover --to db1",
        "fault inject applier_stop@db2 --for 1 --json",
        "fault inject kill@db1 --json",
        "status --json",
        "failover --json",
        "fault clear --json",
        "rejoin db1 --yes --json",
        "switchover --to db1 --json",
        "fault clear",
    ),
}
"""Each run in its order, on one stack that the last of them leaves as it was."""

OWN_PROCESS: Final = ("load", "experiments")
"""Groups whose runs start processes of their own, which need real streams."""

ONLY_COLUMNS: Final = ("config", "doctor", "keys", "themes")
"""Verbs whose rows are those of a machine, or a matter of taste."""

OTHERS_DOCUMENTS: Final = ("classroom", "compare", "workload")
"""Documents of the schema that INTERFACE.md does not describe."""

_KEYED: Final = frozenset(
    {
        "knobs", "settings", "parts_ms", "protection_s", "errors_by_number", "cpu_us", "sent_bytes",
        "figures", "before", "replication_after", "tps", "workload_files", "fsync_measured_by_kind_ms",
        "labels", "errant_gtids", "values", "effective",
    }
)  # fmt: skip
"""Objects whose keys are names of knobs, nodes and states: one path stands for all of them."""


def paths_of(document: Any) -> Paths:
    """Every key of a document as a path, with the types of the values that stand there."""
    found: dict[str, set[str]] = {}

    def walk(value: Any, path: str, name: str) -> None:
        kind = _kind(value)
        found.setdefault(path, set()).add(kind)
        if kind == "object":
            is_keyed = name in _KEYED or (name == "nodes") or _is_knobs(value)
            for key, inner in value.items():
                walk(inner, f"{path}.{'*' if is_keyed else key}".lstrip("."), "" if is_keyed else key)
        elif kind == "list":
            for inner in value:
                walk(inner, f"{path}[]", "")

    walk(document, "", "")
    return {path: sorted(kinds) for path, kinds in sorted(found.items())}


def _is_knobs(value: dict[str, Any]) -> bool:
    """`get --json`: an object by key@node."""
    return bool(value) and all(isinstance(each, dict) and "requested" in each for each in value.values())


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    word = "list" if isinstance(value, list) else "object"
    return word if value else f"empty {word}"


def labels_of(text: str, *, rows: bool) -> list[str]:
    """Headings, the names of columns and the labels of `rows`; digits do not count."""
    found: dict[str, None] = {}
    for line in text.splitlines():
        heading = re.match(r"#+ .*|<(?:h\d|title)[^>]*>.*?<", line)
        row = re.match(r"\|(.+)\|$", line)
        columns = re.split(r"\s{2,}", line.strip())
        if heading:
            names = [re.sub(r"<[^>]*>?", "", heading[0])]
        elif row:
            names = [row[1].split("|")[0].strip().strip("`*")]
        elif re.fullmatch(r"[A-Z][A-Z @%]+", columns[0]) and line == line.upper():
            names = columns
        elif rows and len(columns) > 1 and len(columns[0]) <= 40:
            names = columns[:1]
        else:
            names = []
        for name in names:
            found.setdefault(re.sub(r"[\d.,]+", "#", name))
    return [name for name in found if name.strip("#- ")]


def shape_of(words: str, code: int, out: str) -> Shape:
    """What of a run is compared."""
    shape: Shape = {"exit": code}
    if "--json" in words:
        return shape | {"json": paths_of(json.loads(out))}
    if "--format csv" in words and out:
        return shape | {"text": out.splitlines()[0].split(",")}
    if "--format cast" in words and out:
        return shape | {"json": paths_of(json.loads(out.splitlines()[0]))}
    if "--format jsonl" in words and out:
        return shape | {"json": paths_of([json.loads(line) for line in out.splitlines()])}
    return shape | {"text": labels_of(out, rows=not words.startswith(ONLY_COLUMNS))}


def schema_paths(name: str) -> Paths:
    """Every key that a document of the schema may have, as a path with its types."""
    definitions = WHOLE["$defs"]
    found: dict[str, set[str]] = {}

    def walk(node: Any, path: str) -> None:
        if "$ref" in node:
            walk(definitions[node["$ref"].rpartition("/")[2]], path)
        for inner in (each for kind in ("anyOf", "oneOf", "allOf") for each in node.get(kind, ())):
            walk(inner, path)
        if kind := {"integer": "number"}.get(node.get("type"), node.get("type")):
            found.setdefault(path, set()).add(kind)
        for key, inner in node.get("properties", {}).items():
            walk(inner, f"{path}.{key}".lstrip("."))
        for inner in (node.get("additionalProperties"), node.get("items"), *node.get("prefixItems", ())):
            if isinstance(inner, dict):
                walk(
                    inner,
                    f"{path}.*".lstrip(".") if inner is node.get("additionalProperties") else f"{path}[]",
                )

    walk(WHOLE["properties"][name], "")
    return {path: sorted(kinds) for path, kinds in sorted(found.items())}


# -- what was and what is


def lost(before: Shape, now: Shape, schema: Shape | None = None) -> list[str]:
    """What a run no longer has, in words; nothing where it still has all that it had. A type that the
    `schema` of before has of a path may come and go: what is measured is not known each time."""
    found = []
    if before["exit"] != now["exit"]:
        found.append(f"exit code {now['exit']}, was {before['exit']}")
    if "text" in before:
        found += [f"'{name}' is gone" for name in before["text"] if name not in now.get("text", ())]
    if "json" in before:
        found += lost_paths(before["json"], now.get("json", {}), (schema or {}).get("json", {}))
    return found


def lost_paths(before: Paths, now: Paths, schema: Paths) -> list[str]:
    """Paths that are gone though what they are in is there, and types that they could not have. A figure may
    be unknown (null) in one run and known in another, by what the machine does meanwhile."""
    found = []
    for path, kinds in before.items():
        if path in now:
            could = schema.get(path, schema.get(f"{_parent(path)}.*", []))
            new = set() if kinds == ["null"] else {kind.removeprefix("empty ") for kind in now[path]}
            new -= (
                {"null"}
                | {kind.removeprefix("empty ") for kind in kinds}
                | {_KINDS.get(kind, kind) for kind in could}
            )
            found += [f"{path}: {' or '.join(sorted(new))}, was {' or '.join(kinds)}"] if new else []
        elif _is_there(_parent(path), now):
            found.append(f"{path} is gone")
    return found


_KINDS: Final = {"array": "list"}
"""Types of JSON Schema that are called otherwise here."""


def _parent(path: str) -> str:
    return path.removesuffix("[]") if path.endswith("[]") else path.rpartition(".")[0]


def _is_there(path: str, now: Paths) -> bool:
    """Whether it holds anything: inside a null or an empty list nothing can be missed, and that it may be one
    is in its own types."""
    return any(kind in ("object", "list") for kind in now.get(path, ()))


def merged(before: Shape, now: Shape) -> Shape:
    """What two runs have alike: all paths with the types of both, labels that both have."""
    result: Shape = {"exit": now["exit"]}
    if "text" in now:
        result["text"] = [name for name in before["text"] if name in now["text"]]
    if "json" in now:
        paths = before["json"].keys() | now["json"].keys()
        result["json"] = {
            path: sorted({*before["json"].get(path, ()), *now["json"].get(path, ())})
            for path in sorted(paths)
        }
    return result


class Book:
    """The golden shapes, which a run is held against or which it writes."""

    def __init__(self) -> None:
        self._before: dict[str, dict[str, Shape]] = (
            json.loads(GOLDEN.read_text()) if GOLDEN.exists() else {"runs": {}, "schema": {}}
        )

    def _schema_of(self, name: str, now: Shape) -> Shape | None:
        """What the schema said of this run's document; None for none."""
        typed = name.partition(": ")[2]
        if "error" in now.get("json", {}):
            return self._before["schema"]["error"]
        known = [each for each in self._before["schema"] if f"{typed} ".startswith(f"{each} ")]
        return self._before["schema"][max(known, key=len)] if known else None

    def hold(self, room: str, name: str, now: Shape) -> list[str]:
        """What this shape lost; with GOLDEN set, nothing: it is written."""
        before = self._before[room].get(name)
        if not UPDATE:
            if before is None:
                return [f"{name}: not in {GOLDEN.name}"]
            return [f"{name}: {each}" for each in lost(before, now, self._schema_of(name, now))]
        self._before[room][name] = now if before is None or UPDATE == "write" else merged(before, now)
        rooms = {room: dict(sorted(shapes.items())) for room, shapes in self._before.items()}
        GOLDEN.write_text(_written(rooms) + "\n")
        return []


def _written(value: Any, indent: int = 0) -> str:
    """JSON with a line for each path, and its types on that line."""
    if not isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    blanks = " " * indent
    rows = (
        f"{blanks} {json.dumps(key, ensure_ascii=False)}: {_written(each, indent + 1)}"
        for key, each in value.items()
    )
    return "{\n" + ",\n".join(rows) + f"\n{blanks}}}"


@pytest.fixture(scope="module")
def book() -> Book:
    """The golden shapes."""
    return Book()


@pytest.fixture(scope="module")
def shell(
    live_stack: LiveStack, state_home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Shell]:
    """The program on the shared stack, which it gives back as it was."""
    home = tmp_path_factory.mktemp("golden")
    (home / "golden-lab.toml").write_text(LAB)
    (home / "golden-drill.toml").write_text(DRILL)
    shell = Shell(home, live_stack.stack.name)
    shell.environment |= {"XDG_STATE_HOME": str(state_home), "HOME": str(home)}
    try:
        yield shell
    finally:
        for words in ("fault clear", "reset"):
            shell.answer(*words.split())
        nodes = json.loads(shell.answer("status", "--json")[1])["nodes"]
        if [node["name"] for node in nodes if node["is_source"]] != ["db1"]:
            for words in ("up", "rejoin db1 --yes", "switchover --to db1"):
                shell.answer(*words.split())


@pytest.mark.docker
@pytest.mark.parametrize("group", STEPS)
def test_no_verb_loses_what_it_printed(group: str, shell: Shell, book: Book) -> None:
    home = shell.environment["HOME"]
    missed = []
    for words in STEPS[group]:
        typed = shlex.split(words.format(home=home, report=home))
        if group in OWN_PROCESS:
            done = shell.run(*typed, code=None)
            code, out = done.returncode, done.stdout
        else:
            code, out, _ = shell.answer(*typed)
        missed += book.hold("runs", f"{group}: {words}", shape_of(words, code, out))
    if group == "experiments":
        for kind in ("sweep", "lab", "drill"):
            names = sorted(file.name for file in (Path(home) / kind).iterdir())
            missed += book.hold("runs", f"{group}: {kind} --report", {"exit": 0, "text": names})
    assert missed == []


DOCUMENTS: Final = tuple(name for name in WHOLE["properties"] if not name.startswith(OTHERS_DOCUMENTS))


@pytest.mark.parametrize("name", DOCUMENTS)
def test_no_document_of_the_schema_loses_a_key(name: str, book: Book) -> None:
    assert book.hold("schema", name, {"exit": 0, "json": schema_paths(name)}) == []
