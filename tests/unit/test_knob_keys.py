"""Who knows a knob by its name: the catalogue's law, read from the tree."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import replexplorer
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.catalogue import BY_KEY

ROOT = Path(replexplorer.__file__).parent
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
        for path in ROOT.rglob("*.py")
        if (name := path.relative_to(ROOT).as_posix()) not in SPELLED_HERE and "_shipped" not in name
    )


def test_a_knobs_key_is_spelled_in_the_catalogues_room_alone() -> None:
    texts = {name: (ROOT / name).read_text() for name in modules()}
    likely = {name: text for name, text in texts.items() if any(f'"{key}"' in text for key in BY_KEY)}
    found = {name: list(spelled(ast.parse(text))) for name, text in likely.items()}
    assert {name for name, spots in found.items() if spots} == set(OTHER_NAMES)


def test_the_list_has_the_keys_that_a_rule_is_about_and_no_other() -> None:
    named = {name: value for name, value in vars(keys).items() if name.isupper()}
    assert {name.lower() for name in named} == set(named.values()) <= set(BY_KEY)
    everything = "".join((ROOT / name).read_text() for name in modules())
    assert [name for name in named if not re.search(rf"\b{name}\b", everything)] == []
