"""The tables of a user's file: made and filled where they are missing, and never another's table instead.

Law: a table is dropped only if it carries the mark of this program, which its making left in its comment.
It is reused while it was made from the same text and has about the rows that it started with.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

from replexplorer.core.dialect.table_questions import bare_default, description
from replexplorer.core.errors import ServerRefused, UsageError
from replexplorer.core.imitation.columns import FilledShape, domains_of, fill_statement
from replexplorer.core.load.workload import FilledTable, Workload
from replexplorer.core.tables.table import TableShape

ROWS_A_STATEMENT: Final = 2000
_STATEMENT_BYTES: Final = 1 << 20
"""Below every default of max_allowed_packet since 5.6 (4 MiB)."""
_MARK: Final = "replexplorer "
_FITS: Final = 0.1
"""So far the number of rows may be off, as a share of what it was."""
_CONNECTIONS: Final = 4

Query = Callable[..., Awaitable[Sequence[Any]]]
"""Sends a statement with its arguments and answers the rows."""
Report = Callable[[str, float | None], None]


def mark_of(table: FilledTable) -> str:
    """What says that a table was made from this text."""
    text = f"{table.body}\0{table.rows}\0{table.row_bytes}"
    return f"{_MARK}{hashlib.sha256(text.encode()).hexdigest()[:16]}"


async def missing_tables(query: Query, workload: Workload) -> list[FilledTable]:
    """The tables that are to be made; raises UsageError where one would take another's place."""
    missing = []
    for table in workload.filled:
        found = await query(
            "SELECT table_comment AS mark FROM information_schema.tables"
            " WHERE table_schema = %s AND table_name = %s",
            *(table.database, table.name),
        )
        if not found:
            missing.append(table)
            continue
        mark = str(found[0]["mark"])
        if not mark.startswith(_MARK):
            raise UsageError(
                f"{table.place}: {table.database}.{table.name} is there, and no workload made it",
                r"name another database with \database, or rename that table",
            )
        if mark != mark_of(table) or not await _fits(query, table):
            missing.append(table)
    return missing


async def _fits(query: Query, table: FilledTable) -> bool:
    [row] = await query(f"SELECT COUNT(*) AS n FROM {table.quoted}")
    return abs(int(row["n"]) - table.rows) <= _FITS * table.rows


async def make_databases(query: Query, workload: Workload) -> None:
    """Make the databases that a file names and that are missing."""
    names = {table.database for table in workload.filled}
    if workload.makes_database:
        names.add(workload.database)
    for name in sorted(names):
        [found] = await query(
            "SELECT COUNT(*) AS n FROM information_schema.schemata WHERE schema_name = %s", name
        )
        if not found["n"]:
            await query(f"CREATE DATABASE `{name}`")


async def make_table(
    query: Query,
    table: FilledTable,
    workload: Workload,
    connect: Callable[[], Any],
    random: Random,
    report: Report,
) -> None:
    """Make one table and its rows; raises UsageError where the server refuses its text or a row."""
    what = f"preparing table {table.database}.{table.name}"
    report(what, 0.0)
    await query(f"DROP TABLE IF EXISTS {table.quoted}")
    try:
        # The mark comes when the rows are there: what was never finished has another one.
        await query(f"CREATE TABLE {table.quoted} {_commented(table.body, f'{_MARK}unfinished')}")
        shape = await _shape(query, table)
        others = [await _known_shape(query, each) for each in workload.filled if each is not table]
        await _fill(
            table, shape, [each for each in others if each is not None], connect, random, report, what
        )
        # By itself the server counts the rows 10 s later, and scans a table that it takes for empty.
        await query(f"ANALYZE TABLE {table.quoted}")
        await query(f"ALTER TABLE {table.quoted} COMMENT = '{mark_of(table)}'")
    except ServerRefused as refused:
        raise UsageError(f"{table.place}: {refused.message}", "the server refuses this table") from None
    report(what, 1.0)


def _commented(body: str, mark: str) -> str:
    return f"{body.rstrip()} COMMENT = '{mark}'"


async def _shape(query: Query, table: FilledTable) -> TableShape:
    found = await _known_shape(query, table)
    if found is None:
        raise UsageError(f"{table.place}: {table.name} is not there", "the table was dropped meanwhile")
    return found


async def _known_shape(query: Query, table: FilledTable) -> TableShape | None:
    """The table as the server describes it, with the rows that it is to have; None where it is missing."""
    asked = description([table.database], bare_default)
    tables = asked.tables.read(await query(asked.tables.statement, table.database))
    columns = asked.columns.read(await query(asked.columns.statement, table.database))
    indexes = asked.indexes.read(await query(asked.indexes.statement, table.database))
    for shape in tables:
        if shape.name.table.lower() == table.name.lower():
            return replace(
                shape,
                rows=table.rows,
                columns=columns.get(shape.name, ()),
                indexes=indexes.get(shape.name, ()),
            )
    return None


async def _fill(
    table: FilledTable,
    shape: TableShape,
    others: Sequence[TableShape],
    connect: Callable[[], Any],
    random: Random,
    report: Report,
    what: str,
) -> None:
    """Insert rows over a few connections."""
    filled = FilledShape(shape, table.rows, table.row_bytes)
    domains = domains_of([filled, *(FilledShape(each, each.rows or 0) for each in others)])[shape.name]
    one = len(fill_statement(filled, domains, 1, 1, random))
    step = max(1, min(ROWS_A_STATEMENT, _STATEMENT_BYTES // one))
    firsts = iter(range(1, table.rows + 1, step))
    done = 0

    async def work() -> None:
        nonlocal done
        query, close = connect()
        try:
            for first in firsts:
                last = min(first + step - 1, table.rows)
                await query(fill_statement(filled, domains, first, last, random))
                done = max(done, last)
                report(what, done / (table.rows + 1))
        finally:
            await close()

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(_CONNECTIONS, -(-table.rows // step))):
                group.create_task(work())
    except ExceptionGroup as several:
        raise several.exceptions[0] from None
