"""A role is observed and no name says it: no line of the program compares or looks up the words."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORDS = {"primary", "replica", "replica2"}
ROLES_ARE_SPELT_IN = {"replexplorer/core/topology.py", "replexplorer/formats/json/status.py"}
"""Where the words stand: the roles with the aliases, and the JSON that names the roles."""
OTHER_MEANINGS = {
    ("replexplorer/core/knobs/knob.py", 'REPLICA = "replica"'),
    ("replexplorer/core/dialect/mysql.py", '.replace("slave", "replica")'),
    ("replexplorer/core/dialect/galera.py", '_PRIMARY: Final = "primary"'),
}
"""The panel's group of a replica's knobs; a server's own column names; the part of a Galera cluster that has
the majority."""


def spelt(tree: ast.AST) -> Iterator[int]:
    """Lines of string literals that are a role's word and nothing else; docstrings are longer."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in WORDS:
            yield node.lineno


def sources() -> list[Path]:
    return [file for room in ("replexplorer", "compose") for file in sorted((ROOT / room).rglob("*.py"))]


def test_only_the_topology_spells_roles() -> None:
    found = []
    for file in sources():
        name = str(file.relative_to(ROOT))
        if name in ROLES_ARE_SPELT_IN:
            continue
        lines = file.read_text().splitlines()
        for number in spelt(ast.parse("\n".join(lines))):
            line = lines[number - 1]
            if not any(name == where and text in line for where, text in OTHER_MEANINGS):
                found.append(f"{name}:{number}: {line.strip()}")
    assert found == []


@pytest.mark.parametrize(
    "line", ['node.name == "primary"', 'nodes["replica"]', 'name in ("db1", "replica2")']
)
def test_a_line_that_takes_a_name_for_a_role_is_found(line: str) -> None:
    assert list(spelt(ast.parse(line))) == [1]
