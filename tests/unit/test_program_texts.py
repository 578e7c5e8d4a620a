"""Where SQL and the names of roles may stand in the program: in the dialects, and in the topology."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

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
