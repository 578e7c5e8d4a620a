"""A role is observed and no name says it: no line of the program compares or looks up the words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tests.program_texts import ROOT, Text, texts_in

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
