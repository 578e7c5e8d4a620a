"""Tables with everything that check-schema looks for, on a real server; and what mends them."""

from __future__ import annotations

from typing import Any, Final

from replexplorer.core.tables.check import Flaw, Mended, TablesReport, Weight
from replexplorer.engine.session import Session
from tests.integration.conftest import LiveStack

DATABASE: Final = "poor"
MADE: Final = (
    f"CREATE DATABASE {DATABASE}",
    "CREATE TABLE poor.customers (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, email VARCHAR(50)"
    " CHARACTER SET latin1 COLLATE latin1_bin DEFAULT 'it''s' COMMENT 'a \\\\ b', UNIQUE KEY (email),"
    " seen TIMESTAMP(3) NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3)) ENGINE=InnoDB",
    "CREATE TABLE poor.orders (id INT NOT NULL PRIMARY KEY, customer_id INT UNSIGNED, city_id INT, total INT,"
    " KEY by_customer (customer_id), KEY by_both (customer_id, total), KEY again (customer_id, total),"
    " FOREIGN KEY (customer_id) REFERENCES poor.customers (id))"
    " ENGINE=InnoDB",
    "CREATE TABLE poor.cities (id INT NOT NULL PRIMARY KEY) ENGINE=InnoDB",
    "CREATE TABLE poor.log (text VARCHAR(20) NOT NULL) ENGINE=InnoDB",
    "CREATE TABLE poor.unkeyed (code INT NOT NULL, UNIQUE KEY by_code (code)) ENGINE=InnoDB",
    "CREATE TABLE poor.counted (n INT NOT NULL AUTO_INCREMENT, KEY (n)) ENGINE=InnoDB",
    "CREATE TABLE poor.flat (id INT NOT NULL PRIMARY KEY) ENGINE=MyISAM",
    "INSERT INTO poor.customers (id, email) VALUES (1, 'a'), (2, 'b'), (3, 'c')",
    "INSERT INTO poor.orders (id, customer_id, city_id) VALUES (1, 1, 1), (2, NULL, 1)",
    "INSERT INTO poor.log VALUES ('a'), ('a')",
)
FOUND: Final = {
    ("problem", "no-primary-key", "log", ()),
    ("problem", "no-primary-key", "counted", ()),
    ("problem", "engine", "flat", ()),
    ("problem", "nullable-key", "orders", ("customer_id",)),
    ("note", "nullable-key", "customers", ("email",)),
    ("note", "redundant-index", "orders", ("customer_id",)),
    ("note", "duplicate-index", "orders", ("customer_id", "total")),
    ("note", "no-primary-key", "unkeyed", ("code",)),
}
NOT_IN: Final = "DELETE FROM poor.customers WHERE id NOT IN (SELECT customer_id FROM poor.orders)"


async def checked_and_mended(live: LiveStack, session: Session) -> None:
    """All is found, the job that was stopped by a NULL runs as it is rewritten, and each statement mends what
    it is of and nothing else."""
    source = session.roster.source
    try:
        await _run(live, source, *MADE)
        report = await session.check_tables(source, [DATABASE])
        assert report.tables == 7
        found = {_said(each) for each in report.found}
        assert found == FOUND, found ^ FOUND
        customers = "SELECT COUNT(*) FROM poor.customers"
        await _run(live, source, NOT_IN)
        assert await live.value(source, customers) == 3, "a NULL makes NOT IN never true"
        [job] = [each.statement for each in report.found if _said(each)[:2] == ("problem", "nullable-key")]
        await _run(live, source, job)
        assert await live.value(source, customers) == 1
        defined = await _definition(live, source)
        await _run(live, source, *(each.statement for each in report.found if each.statement != job))
        assert await _definition(live, source) == defined.replace(
            "DEFAULT 'it''s'", "NOT NULL DEFAULT 'it''s'"
        )
        await _run(live, source, "INSERT INTO poor.log VALUES ('as before')")
        mended = await session.check_tables(source, [DATABASE])
        left = {_said(each) for each in mended.found}
        assert left == {("problem", "nullable-key", "orders", ("customer_id",))}, left
        assert mended.count(Weight.PROBLEM) == 1
        await _run(live, source, "DELETE FROM poor.orders WHERE customer_id IS NULL")
        last = await session.check_tables(source, [DATABASE])
        assert [each.finding.severity for each in last.found] == [Weight.NOTE]
        assert _without_rows(last) == []
    finally:
        await _run(live, source, f"DROP DATABASE IF EXISTS {DATABASE}")


def _said(each: Mended) -> tuple[str, str, str, tuple[str, ...]]:
    finding = each.finding
    return finding.severity.value, finding.kind.value, finding.table.table, finding.columns


def _without_rows(report: TablesReport) -> list[Mended]:
    """Findings that are not about columns that may be NULL."""
    return [each for each in report.found if each.finding.kind is not Flaw.NULLABLE_KEY]


async def _run(live: LiveStack, node: str, *statements: str) -> None:
    async with live.session(node) as cursor:
        for statement in statements:
            await cursor.execute(statement)


async def _definition(live: LiveStack, node: str) -> Any:
    """Of the column that is made NOT NULL, and of the one beside it."""
    async with live.session(node) as cursor:
        await cursor.execute("SHOW CREATE TABLE poor.customers")
        _, text = await cursor.fetchone()
    return text
