"""Tables with everything that check-schema looks for, on a real server; and what repairs them."""

from __future__ import annotations

from typing import Final

from replexplorer.core.dialect.schema import SchemaFinding
from replexplorer.engine.session import Session
from tests.integration.conftest import LiveStack

DATABASE: Final = "poor`s"
MADE: Final = (
    "CREATE DATABASE `poor``s`",
    "USE `poor``s`",
    "CREATE TABLE sound (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, email VARCHAR(50) UNIQUE)",
    "CREATE TABLE log (text VARCHAR(20) NOT NULL)",
    "CREATE TABLE unkeyed (code INT NOT NULL, more INT NOT NULL, UNIQUE KEY by_code (code),"
    " UNIQUE KEY by_more (more, code))",
    "CREATE TABLE `some``times` (code INT, UNIQUE KEY by_code (code))",
    "CREATE TABLE counted (n INT NOT NULL AUTO_INCREMENT, KEY (n))",
    "CREATE TABLE flat (id INT NOT NULL PRIMARY KEY) ENGINE=MyISAM",
    "INSERT INTO log VALUES ('a'), ('a')",
)
FOUND: Final = [
    ("problem", "engine", "flat", None),
    ("problem", "no-primary-key", "counted", None),
    ("problem", "no-primary-key", "log", None),
    ("problem", "no-primary-key", "some`times", None),
    ("note", "no-primary-key", "unkeyed", "by_code"),
]


async def checked_and_repaired(live: LiveStack, session: Session) -> None:
    """All is found, and after the statements nothing."""
    source = session.roster.source
    try:
        await _run(live, source, *MADE)
        found = await session.check_schema(source, [DATABASE])
        said = [_said(each) for each in found]
        assert said == FOUND, said
        await _run(live, source, *(each.statement for each in found))
        await _run(live, source, "INSERT INTO `poor``s`.log VALUES ('as before')")
        assert await session.check_schema(source, [DATABASE]) == ()
    finally:
        await _run(live, source, "DROP DATABASE IF EXISTS `poor``s`")


def _said(each: SchemaFinding) -> tuple[str, str, str, str | None]:
    return each.severity, each.kind, each.table, each.index


async def _run(live: LiveStack, node: str, *statements: str) -> None:
    async with live.session(node) as cursor:
        for statement in statements:
            await cursor.execute(statement)
