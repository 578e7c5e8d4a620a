"""Tables of every kind of column that are compared between real servers, and rows that differ there."""

from __future__ import annotations

from typing import Final

from replexplorer.core.rows import RowRun, RowsChecked
from replexplorer.engine.session import Session
from replexplorer.ports import execute

NAME: Final = "rows`s"
_MADE: Final = (
    "DROP DATABASE IF EXISTS `rows``s`",
    "CREATE DATABASE `rows``s`",
    "CREATE TABLE `rows``s`.kinds (id INT UNSIGNED NOT NULL, name VARCHAR(20) NOT NULL, d DECIMAL(9,3),"
    " f FLOAT, r DOUBLE, j JSON, ts TIMESTAMP(3) NULL, dt DATETIME(6), tm TIME(2), y YEAR, b BIT(9),"
    " e ENUM('a','b'), s SET('x','y'), bin VARBINARY(9), big LONGTEXT, lat VARCHAR(9) CHARACTER SET latin1,"
    " p POINT, twice INT AS (id * 2) STORED, PRIMARY KEY (name, id))",
    "CREATE TABLE `rows``s`.ids (id BINARY(16) NOT NULL PRIMARY KEY, at DATE)",
    "CREATE TABLE `rows``s`.unkeyed (n INT, text VARCHAR(9))",
    "INSERT INTO `rows``s`.kinds (id, name, d, f, r, j, ts, dt, tm, y, b, e, s, bin, big, lat, p) VALUES"
    " (1, 'it''s', 1.5, 0.1, 0.1, '{\"a\": [1, null]}', NOW(3), NOW(6), '-10:00:01', 2026, 257, 'b', 'x,y',"
    " x'00ff23', REPEAT('x', 70000), 'é', ST_GeomFromText('POINT(1 2)')),"
    " (2, 'none', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),"
    " (3, '', 0, 1e30, 1e-300, '1', '2026-01-01', '2026-01-01', '0', 2000, 0, 'a', '', '', '', '', NULL)",
    "INSERT INTO `rows``s`.ids VALUES (x'00112233445566778899aabbccddeeff', '2026-01-01'),"
    " (x'ff112233445566778899aabbccddee00', NULL)",
    "INSERT INTO `rows``s`.unkeyed VALUES (1, NULL), (1, NULL), (2, ''), (2, '')",
)
_CHANGED: Final = (
    "SET SESSION sql_log_bin = 0",
    "UPDATE `rows``s`.kinds SET f = f + 1e-8 WHERE id = 1",  # the same six digits
    "UPDATE `rows``s`.kinds SET lat = NULL WHERE id = 3",
    "DELETE FROM `rows``s`.ids WHERE at IS NULL",
    "INSERT INTO `rows``s`.ids VALUES (x'01112233445566778899aabbccddeeff', NULL)",
    "UPDATE `rows``s`.unkeyed SET text = '' WHERE n = 1",
    "CREATE TABLE `rows``s`.errant (id INT PRIMARY KEY)",
    "SET SESSION sql_log_bin = 1",
)


async def differing_rows_are_found(session: Session) -> None:
    """All are alike, and after changes on the replica alone just these differ."""
    source, replica = session.fleet.source, session.fleet.replicas[0]
    try:
        await execute(source.control, _MADE)
        found = await _compared(session)
        assert found.verdict == "alike", found
        await execute(replica.control, (*replica.dialect.open_for_writes, *_CHANGED))
        found = await _compared(session)
        tables = {name: each.rows for name, each in found.nodes[replica.name].items()}
        assert tables == {
            f"{NAME}.errant": {"extra": None},
            f"{NAME}.ids": {"missing": 1, "extra": 1},
            f"{NAME}.kinds": {"changed": 2},
            f"{NAME}.unkeyed": {"changed": None},
        }, found
        assert found.nodes[replica.name][f"{NAME}.kinds"].runs == [RowRun("changed", ", 3", "it's, 1", 2)]
    finally:
        await execute(
            replica.control,
            ("SET SESSION sql_log_bin = 0", f"DROP TABLE IF EXISTS `{NAME.replace('`', '``')}`.errant"),
        )
        await execute(replica.control, ("SET SESSION sql_log_bin = 1", *replica.dialect.refuse_writes))
        await execute(source.control, _MADE[:1])


async def _compared(session: Session) -> RowsChecked:
    return await session.check_rows([NAME], lambda *_: None)
