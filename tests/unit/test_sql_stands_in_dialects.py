"""SQL stands in the dialects, in the load's own workloads, and in what labs do to tables of their own."""

from __future__ import annotations

import re

import pytest

from tests.program_texts import texts_in, texts_of

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


@pytest.mark.parametrize(
    ("path", "code", "forbidden"),
    [
        ("engine/observe/x.py", 'sql.query("SHOW REPLICA STATUS")', True),
        ("engine/observe/x.py", 'sql.query(f"STOP {word} IO_THREAD")', True),
        ("engine/observe/x.py", 'x = f"{verb} REPLICA IO_THREAD"', True),
        ("engine/observe/x.py", 'x = "select one"', False),
        ("core/server/x.py", 'x = "SELECT 1"', True),
        ("core/server/x.py", '"""SELECT says this."""\nx = 1', False),
        ("core/dialect/x.py", 'x = "SELECT 1"', False),
        ("core/load/x.py", 'x = "INSERT INTO foo VALUES (?)"', False),
        ("core/load/x.py", 'x = "SHOW BINARY LOGS"', True),
        ("engine/experiment/x.py", 'x = f"DROP TABLE IF EXISTS {name}"', False),
        ("engine/experiment/x.py", 'x = "SELECT @@GLOBAL.gtid_executed AS gtids"', True),
        (
            "engine/experiment/x.py",
            'x = "SELECT file_size FROM information_schema.innodb_tablespaces"',
            True,
        ),
        ("generator/x.py", 'x = "SELECT COUNT(*) FROM information_schema.columns"', False),
        ("generator/x.py", 'x = "STOP REPLICA"', True),
        ("adapters/recording.py", 'x = "INSERT OR REPLACE INTO meta VALUES (?, ?)"', False),
        ("adapters/mysql.py", 'x = "FLUSH STATUS"', True),
        ("cli/x.py", 'x = "CHANGE the value"', True),
        ("cli/x.py", 'x = "a replica of the source"', False),
    ],
)
def test_the_rule_finds_what_it_is_for(path: str, code: str, forbidden: bool) -> None:
    found = [text.value for text in texts_of(code) if not text.is_prose]
    assert any(is_forbidden(path, text) for text in found) is forbidden
