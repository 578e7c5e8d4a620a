"""SQL stands in the dialects, in the load's own workloads, and in what labs do to tables of their own."""

from __future__ import annotations

import re

from tests.program_texts import texts_in

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
