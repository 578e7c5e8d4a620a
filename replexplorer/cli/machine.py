"""Verbs that need no stack: doctor, config, themes, keys, schema."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replexplorer.cli.wiring import load_configuration_of, sidecar_facts
from replexplorer.core.errors import UsageError
from replexplorer.core.text import table
from replexplorer.formats import paths

if TYPE_CHECKING:
    from replexplorer.cli.entry import Call


def config(call: Call) -> int:
    """The effective configuration with each value's origin, and the paths."""
    from replexplorer.cli.documents import ConfigDocument, ConfigValue

    loaded = load_configuration_of(call)
    document = ConfigDocument(
        file=str(loaded.file),
        file_found=loaded.file_found,
        values={
            key: ConfigValue(value=value, origin=loaded.origins[key]) for key, value in loaded.flat().items()
        },
        paths={name: str(path) for name, path in _paths().items()},
        unknown_variables=list(loaded.unknown_variables),
    )
    if call.console.json:
        call.console.document(document)
        return 0
    rows = [(key, _shown(entry.value), entry.origin) for key, entry in document.values.items()]
    call.console.print(table(rows, ("KEY", "VALUE", "FROM")))
    call.console.print()
    found = "" if loaded.file_found else " (not there)"
    call.console.print(table([("file", f"{document.file}{found}"), *document.paths.items()]))
    return 0


def themes(call: Call) -> int:
    """Built-in and own themes; a broken one is named with file and key."""
    from replexplorer.formats.themes import load_themes

    found = load_themes(paths.themes_directory())
    if call.console.json:
        call.console.document(found)
        return 0
    rows = [
        (theme.name, "dark" if theme.dark else "light", theme.origin, theme.description)
        for theme in found
        if theme.error is None
    ]
    call.console.print(table(rows, ("NAME", "GROUND", "ORIGIN", "DESCRIPTION")))
    for theme in found:
        if theme.error is not None:
            call.console.warn(f"{theme.error}: this theme is not used")
    return 0


def keys(call: Call) -> int:
    """Every binding with the keys that it has now, and what is wrong with keys.toml."""
    from replexplorer.cli.documents import KeyBinding
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
    if call.console.json:
        call.console.document([*bindings])
    else:
        rows = [
            (
                binding.id,
                " ".join(map(key_label, binding.keys)),
                binding.help + ("" if binding.keys == binding.default_keys else " (yours)"),
            )
            for binding in bindings
        ]
        call.console.print(table(rows, ("ID", "KEYS", "DOES")))
    for problem in keymap.problems:
        call.console.warn(problem)
    return 0


def schema(call: Call) -> int:
    """JSON Schema of every --json document, or of one."""
    from replexplorer.cli.documents import documents
    from replexplorer.formats.documents import schema as schema_of
    from replexplorer.formats.files import closest

    known, wanted = documents(), " ".join(call.args.document)
    if wanted and wanted not in known:
        near = closest(wanted, list(known)) or f"known: {', '.join(known)}"
        raise UsageError(f"no document {wanted!r}", near)
    whole = schema_of({wanted: known[wanted]} if wanted else known)
    if wanted:
        own = {"$schema": whole["$schema"], "title": f"replexplorer {wanted} --json"}
        whole = {**own, **whole["properties"][wanted], "$defs": whole["$defs"]}
    call.console.document(whole)
    return 0


def doctor(call: Call) -> int:
    """What is here and what is missing, each with its remedy; exit 3 when `up` would not work."""
    from replexplorer.adapters.doctor import examine
    from replexplorer.core.errors import MissingPiece

    values = load_configuration_of(call).values
    call.console.progress("asking Docker")
    facts = asyncio.run(sidecar_facts(values))
    report = examine(values, paths.state_directory(), sidecar=facts, progress=call.console.progress)
    if call.console.json:
        call.console.document(report)
    else:
        signs = {"ok": "ok", "warning": "note", "missing": "MISSING", "unknown": "?"}
        call.console.print(table([(signs[check.state], check.name, check.detail) for check in report.checks]))
        for check in report.checks:
            if check.remedy:
                call.console.print(f"  {check.name}: {check.remedy}")
    return 0 if report.ready else MissingPiece.exit_code


def _paths() -> dict[str, Path]:
    return {
        "themes": paths.themes_directory(),
        "keys": paths.keys_file(),
        "scenes": paths.scenes_directory(),
        "state": paths.state_directory(),
        "cache": paths.cache_directory(),
    }


def _shown(value: Any) -> str:
    return "-" if value is None else str(value)
