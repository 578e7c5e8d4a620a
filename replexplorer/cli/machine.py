"""Verbs that need no stack: doctor, config, workload list; and which type each verb prints as JSON.

A verb whose result is a value of the core or the engine prints that; what `core.json_keys` says of its class
is how it is written.
"""

from __future__ import annotations

from contextlib import suppress
from functools import reduce
from importlib import import_module
from operator import or_
from types import GenericAlias
from typing import TYPE_CHECKING, Any

from replexplorer.cli.arguments import PRINTED
from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.records import printed
from replexplorer.core.text import closest, table
from replexplorer.formats import paths

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call
    from replexplorer.core.load.workload import Workload
    from replexplorer.core.wire import LinkState


@printed
class ConfigValue:
    """One configuration key with its origin."""

    value: Any
    origin: str


@printed
class ConfigDocument:
    """`config --json`."""

    file: str
    file_found: bool
    values: dict[str, ConfigValue]
    paths: dict[str, str]
    unknown_variables: list[str]


def config(call: Call) -> int:
    """The effective configuration with each value's origin, and the paths."""
    loaded = call.configuration
    document = ConfigDocument(
        file=str(loaded.file),
        file_found=loaded.file_found,
        values={
            key: ConfigValue(value=value, origin=loaded.origins[key]) for key, value in loaded.flat().items()
        },
        paths={
            "themes": str(paths.themes_directory()),
            "keys": str(paths.keys_file()),
            "scenes": str(paths.scenes_directory()),
            "state": str(paths.state_directory()),
            "cache": str(paths.cache_directory()),
        },
        unknown_variables=list(loaded.unknown_variables),
    )

    def text() -> str:
        rows = [
            (key, "-" if entry.value is None else str(entry.value), entry.origin)
            for key, entry in document.values.items()
        ]
        file = f"{document.file}{'' if loaded.file_found else ' (not there)'}"
        where = table([("file", file), *document.paths.items()])
        return f"{table(rows, ('KEY', 'VALUE', 'FROM'))}\n\n{where}"

    return call.console.deliver(document, text)


def themes(call: Call) -> int:
    """Built-in and own themes; a broken one is named with file and key."""
    from replexplorer.formats.themes import load_themes

    found = load_themes(paths.themes_directory())
    rows = [
        (theme.name, "dark" if theme.dark else "light", theme.origin, theme.description)
        for theme in found
        if theme.error is None
    ]
    call.console.deliver(found, lambda: table(rows, ("NAME", "GROUND", "ORIGIN", "DESCRIPTION")))
    for theme in () if call.console.json else found:
        if theme.error is not None:
            call.console.warn(f"{theme.error}: this theme is not used")
    return 0


@printed
class KeyBinding:
    """A binding in `keys --json`."""

    id: str
    keys: list[str]
    default_keys: list[str]
    help: str


def keys(call: Call) -> int:
    """Every binding with the keys that it has now, and what is wrong with keys.toml."""
    from replexplorer.formats.keymap import load_keymap
    from replexplorer.ui.actions import ACTIONS, DEFAULT_KEYS, key_label, keys_of

    keymap = load_keymap(paths.keys_file(), DEFAULT_KEYS)
    bindings = [
        KeyBinding(
            id=action.id,
            keys=list(keys_of(action.id, keymap.keys)),
            default_keys=list(keys_of(action.id, {})),
            help=action.title,
        )
        for action in ACTIONS
    ]
    rows = [
        (
            binding.id,
            " ".join(map(key_label, binding.keys)),
            binding.help + ("" if binding.keys == binding.default_keys else " (yours)"),
        )
        for binding in bindings
    ]
    call.console.deliver(bindings, lambda: table(rows, ("ID", "KEYS", "DOES")))
    for problem in keymap.problems:
        call.console.warn(problem)
    return 0


async def doctor(call: Call) -> int:
    """What is here and what is missing, each with its remedy; exit 3 when `up` would not work."""
    from replexplorer.adapters.doctor import examine
    from replexplorer.core.errors import MissingPiece

    console, values = call.console, call.values
    console.progress("asking Docker")
    link = await _link(call)
    report = examine(values, paths.state_directory(), link=link, progress=console.progress)

    def text() -> str:
        signs = {"ok": "ok", "warning": "note", "missing": "MISSING", "unknown": "?"}
        found = table([(signs[check.state], check.name, check.detail) for check in report.checks])
        remedies = (f"  {check.name}: {check.remedy}" for check in report.checks if check.remedy)
        return "\n".join([found, *remedies])

    console.deliver(report, text)
    return 0 if report.ready else MissingPiece.exit_code


async def _link(call: Call) -> LinkState | None:
    """The source's side of the running stack's first link; None when there is none to ask."""
    from replexplorer.cli.wiring import agents_of

    with suppress(ReplexplorerError):
        async with agents_of(call.values) as agents:
            if len(agents) > 1:
                (_, one), (other, _), *_ = agents
                return await one.link(other.name)
    return None


# -- workloads


@printed
class WorkloadEntry:
    """A workload in `workload list` and `workload show`."""

    name: str
    title: str
    statements: list[str]
    """Of a transaction, in order, a `?` for each value; of a file with several those of each."""


def _entry(name: str, workload: Workload) -> WorkloadEntry:
    texts = [each.text for each in workload.statements for _ in range(each.times)]
    return WorkloadEntry(name=name, title=workload.title, statements=texts)


def list_workloads(call: Call) -> int:
    """Those that are built in."""
    from replexplorer.core.load.workload import WORKLOADS

    found = [_entry(*item) for item in WORKLOADS.items()]
    rows = [(each.name, str(len(each.statements)), each.title) for each in found]
    return call.console.deliver(found, lambda: table(rows, ("NAME", "STATEMENTS", "TITLE"), right=(1,)))


def show_workload(call: Call) -> int:
    """The statements of one that is built in, or of a file, which is checked."""
    from replexplorer.core.load.script import read_script
    from replexplorer.core.load.workload import WORKLOADS
    from replexplorer.formats.files import workload_file

    name: str = call.args.name
    workload = WORKLOADS.get(name)
    if workload is None:
        if "/" not in name:
            hint = (
                closest(name, WORKLOADS)
                or f"`replexplorer workload list` shows them; of a file write ./{name}"
            )
            raise UsageError(f"unknown workload {name!r}", hint)
        name, text = workload_file(name)
        workload = read_script(text, name).workload
    found = _entry(name, workload)
    lines = "".join(f"\n  {each};" for each in found.statements)
    return call.console.deliver(found, lambda: f"{found.name}: {found.title}{lines}")


# -- what verbs print with --json


def documents(wanted: str = "") -> dict[str, Any]:
    """What is typed to the type of what its --json prints, of one verb or of all; imports what has them."""
    return {
        name: reduce(or_, map(_type, [kinds] if isinstance(kinds, str) else kinds))
        for name, kinds in sorted(PRINTED.items())
        if wanted in ("", name)
    }


def _type(declared: str) -> Any:
    """The type that `verbs.toml` names."""
    module, _, name = declared.partition(":")
    found: Any = getattr(import_module(f"replexplorer.{module}"), name.rstrip("[]{}"))
    if name.endswith("{}"):
        return GenericAlias(dict, (str, found))
    return GenericAlias(list, (found,)) if name.endswith("[]") else found


JsonSchema = dict[str, Any]
"""What `config schema` prints, with --json or without."""


def schema(call: Call) -> int:
    """JSON Schema of every --json document, or of one."""
    from replexplorer.formats.documents import schema as schema_of

    wanted = " ".join(call.args.document)
    if wanted and wanted not in PRINTED:
        near = closest(wanted, list(PRINTED)) or f"known: {', '.join(sorted(PRINTED))}"
        raise UsageError(f"no document {wanted!r}", near)
    whole = schema_of(documents(wanted))
    if wanted:
        own = {"$schema": whole["$schema"], "title": f"replexplorer {wanted} --json"}
        whole = {**own, **whole["properties"][wanted], "$defs": whole["$defs"]}
    call.console.document(whole)
    return 0
