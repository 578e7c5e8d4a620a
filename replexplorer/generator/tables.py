"""The load's tables: reused when they fit, else recreated in a few large transactions.

A commit may cost a round trip of the semi-synchronous link, so rows go in by thousands and over a
few connections at once, and the index comes after them, which costs both servers a third less; a table
that fits costs no write at all. The index is the last thing made: what lacks it was never finished.

The tables of a user's file: made and filled where they are missing, and never another's table instead.

Law: a table is dropped only if it carries the mark of this program, which its making left in its comment.
It is reused while it was made from the same text and has about the rows that it started with.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Final, NamedTuple

from replexplorer.adapters.mysql import Address, ControlConnection
from replexplorer.core.dialect.question import Row
from replexplorer.core.dialect.schema import described, description
from replexplorer.core.errors import ServerRefused, UsageError
from replexplorer.core.load.workload import (
    DATABASE,
    PAYLOAD,
    PAYLOAD_COLUMN,
    FilledTable,
    Table,
    Workload,
    fill_source,
)
from replexplorer.core.tables import FilledShape, domains_of, fill_statement
from replexplorer.ports import LoadTarget

MADE_ROWS_A_STATEMENT: Final = 2000
_STATEMENT_BYTES: Final = 1 << 20
"""Below every default of max_allowed_packet since 5.6 (4 MiB)."""
_MARK: Final = "replexplorer "
_FITS: Final = 0.1
"""So far the number of rows may be off, as a share of what it was."""
_CONNECTIONS: Final = 4
ROWS_A_STATEMENT: Final = 5000
"""About 1 MB: below every default of max_allowed_packet since 5.6 (4 MiB)."""
_DEADLINE_S: Final = 86_400.0
"""A statement may wait for an acknowledgement for as long as the semi-sync timeout says."""
_NO_SUCH: Final = frozenset({1049, 1146})
"""Unknown database, unknown table."""
_LOCK: Final = "replexplorer.prepare"

Report = Callable[[str, float | None], None]


class _Session(ControlConnection):
    """A connection to the source, whose statements may take long."""

    def __init__(self, target: LoadTarget) -> None:
        async def locate() -> Address:
            return Address(target.host, target.port, target.path)

        super().__init__("the source", locate, target.user, target.password)

    async def ask(self, statement: str, *args: object) -> Sequence[Row]:
        """The rows of a statement with these arguments."""
        return await self.query(statement, args, deadline_s=_DEADLINE_S)

    async def make_database(self, name: str) -> None:
        """Make a database, unless it is there."""
        [found] = await self.ask(
            "SELECT COUNT(*) AS n FROM information_schema.schemata WHERE schema_name = %s", name
        )
        if not found["n"]:
            await self.ask(f"CREATE DATABASE `{name}`")


def mark_of(table: FilledTable) -> str:
    """What says that a table was made from this text."""
    text = f"{table.body}\0{table.rows}\0{table.row_bytes}"
    return f"{_MARK}{hashlib.sha256(text.encode()).hexdigest()[:16]}"


async def _missing(session: _Session, workload: Workload) -> list[FilledTable]:
    """The tables that are to be made; raises UsageError where one would take another's place."""
    missing = []
    for table in workload.filled:
        found = await session.ask(
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
        if mark != mark_of(table) or not await _fits(session, table):
            missing.append(table)
    return missing


async def _fits(session: _Session, table: FilledTable) -> bool:
    [row] = await session.ask(f"SELECT COUNT(*) AS n FROM {table.quoted}")
    return abs(int(row["n"]) - table.rows) <= _FITS * table.rows


async def _make_filled(
    session: _Session,
    tables: Sequence[FilledTable],
    workload: Workload,
    target: LoadTarget,
    random: Random,
    report: Report,
) -> None:
    """Make tables, all of them before the first one's rows, which may name rows of another; raises UsageError
    where the server refuses one's text or a row."""
    if not tables:
        return
    for table in tables:
        await session.ask(f"DROP TABLE IF EXISTS {table.quoted}")
        with _refusals_of(table):
            # The mark comes when the rows are there: what was never finished has another one.
            await session.ask(
                f"CREATE TABLE {table.quoted} {table.body.rstrip()} COMMENT = '{_MARK}unfinished'"
            )
    shapes = await _shapes(session, workload)
    domains = domains_of(list(shapes.values()))
    for table in tables:
        what = f"preparing table {table.database}.{table.name}"
        report(what, 0.0)
        shape = shapes.get(_key(table.database, table.name))
        if shape is None:
            raise UsageError(f"{table.place}: {table.name} is not there", "the table was dropped meanwhile")
        with _refusals_of(table):
            fill = partial(fill_statement, shape, domains[shape.shape.name], random=random)
            step = max(1, min(MADE_ROWS_A_STATEMENT, _STATEMENT_BYTES // len(fill(1, 1))))
            await _fill(target, fill, shape.rows, step, partial(report, what))
            # By itself the server counts the rows 10 s later, and scans a table that it takes for empty.
            await session.ask(f"ANALYZE TABLE {table.quoted}")
            await session.ask(f"ALTER TABLE {table.quoted} COMMENT = '{mark_of(table)}'")
        report(what, 1.0)


@contextmanager
def _refusals_of(table: FilledTable) -> Iterator[None]:
    try:
        yield
    except ServerRefused as refused:
        raise UsageError(f"{table.place}: {refused.message}", "the server refuses this table") from None


def _key(database: str, table: str) -> tuple[str, str]:
    """Some servers keep names in lower case."""
    return database.lower(), table.lower()


async def _shapes(session: _Session, workload: Workload) -> dict[tuple[str, str], FilledShape]:
    """The file's tables that are there, as the server describes them, with the rows that each is to have."""
    databases = sorted({each.database for each in workload.filled})
    tables, columns, indexes = [
        each.read(await session.ask(each.statement, *databases)) for each in description(databases)[:3]
    ]
    found = described(tables, columns, indexes, ())
    wanted = {_key(each.database, each.name): each for each in workload.filled}
    return {
        key: FilledShape(shape, wanted[key].rows, wanted[key].row_bytes)
        for shape in found
        if (key := _key(*shape.name)) in wanted
    }


async def _fill(
    target: LoadTarget, fill: Callable[[int, int], str], rows: int, step: int, report: Callable[[float], None]
) -> None:
    """Insert rows 1 to `rows` over a few connections; `fill` makes a statement of a first and a last row."""
    firsts = iter(range(1, rows + 1, step))
    done, statements = itertools.count(1), -(-rows // step)

    async def work() -> None:
        session = _Session(target)
        try:
            for first in firsts:
                await session.ask(fill(first, min(first + step - 1, rows)))
                report(next(done) / (statements + 1))  # the index is one more step
        finally:
            await session.close()

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(min(_CONNECTIONS, statements)):
                group.create_task(work())
    except ExceptionGroup as several:
        raise several.exceptions[0] from None


class _Shape(NamedTuple):
    """What a table has beside its rows."""

    payload: bool
    indexed: bool


class Tables:
    """Looks after the tables over connections of its own."""

    def __init__(self, target: LoadTarget, random: Random, report: Report) -> None:
        self._target = target
        self._random = random
        self._report = report

    def move(self, target: LoadTarget) -> None:
        """Look after the tables there from now on."""
        self._target = target

    async def prepare(
        self, table: Table, table_size: int, before_making: Callable[[], Awaitable[None]] | None = None
    ) -> int:
        """Make a table fit; answers how many rows it has. Raises ReplexplorerError.

        Whoever works on the table is asked to stop `before_making` it again. Two loads that prepare at
        once wait for each other.
        """
        session = _Session(self._target)
        try:
            rows = await self._rows(session, table, table_size)
            if rows is not None:
                return rows
            await session.ask("SELECT GET_LOCK(%s, %s)", _LOCK, _DEADLINE_S)
            rows = await self._rows(session, table, table_size)
            if rows is None and not await self._widened(session, table, table_size):
                if before_making is not None:
                    await before_making()
                await self._make(session, table, table_size)
            return await self._rows(session, table, table_size) or 0
        finally:
            await session.close()

    async def prepare_file(
        self, workload: Workload, before_making: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Make the tables of a user's file that are missing or do not fit; raises ReplexplorerError, and
        UsageError where a table that no workload made has the name of one."""
        if not workload.filled and not workload.makes_database:
            return
        session = _Session(self._target)
        try:
            await session.ask("SELECT GET_LOCK(%s, %s)", _LOCK, _DEADLINE_S)
            names = {table.database for table in workload.filled}
            for name in sorted(names | ({workload.database} if workload.makes_database else set())):
                await session.make_database(name)
            missing = await _missing(session, workload)
            if missing and before_making is not None:
                await before_making()
            await _make_filled(session, missing, workload, self._target, self._random, self._report)
        finally:
            await session.close()

    async def _rows(self, session: _Session, table: Table, table_size: int) -> int | None:
        """How many rows the table has; None when it does not fit."""
        shape = await self._shape(session, table)
        if shape != _Shape(PAYLOAD in table.ddl, bool(table.index)):
            return None
        return await self._counted(session, table, table_size)

    async def _counted(self, session: _Session, table: Table, table_size: int) -> int | None:
        """How many rows the table has; None when they are not the ones that it starts with."""
        name = f"{DATABASE}.{table.name}"
        if table.grows:
            statement = f"SELECT COALESCE({table.size}, 0) AS n FROM {name}"
        else:
            statement = f"SELECT COUNT(*) AS n, MIN(id) AS low, MAX(id) AS high FROM {name}"
        try:
            [row] = await session.ask(statement)
        except ServerRefused as refused:
            if refused.number in _NO_SUCH:
                return None
            raise
        if table.grows:
            return int(row["n"])
        return table_size if (row["n"], row["low"], row["high"]) == (table_size, 1, table_size) else None

    async def _shape(self, session: _Session, table: Table) -> _Shape:
        """What the table there has; nothing when there is none."""
        of_table = "table_schema = %s AND table_name = %s"
        [found] = await session.ask(
            f"SELECT (SELECT COUNT(*) FROM information_schema.columns WHERE {of_table} "
            f"AND column_name = %s) AS payload, (SELECT COUNT(*) FROM information_schema.statistics "
            f"WHERE {of_table} AND index_name = %s) AS indexed",
            *(DATABASE, table.name, PAYLOAD),
            *(DATABASE, table.name, table.index.partition(" ")[0]),
        )
        return _Shape(bool(found["payload"]), bool(found["indexed"]))

    async def _widened(self, session: _Session, table: Table, table_size: int) -> bool:
        """Whether all that a table lacked was the payload's column and the server added it in no time.

        The load goes on meanwhile. A server without instant DDL, or one that had its fill of it on this
        table, refuses. The way back is no such: the rows would keep what was written into the column.
        """
        if PAYLOAD not in table.ddl or await self._shape(session, table) != (False, bool(table.index)):
            return False
        if await self._counted(session, table, table_size) is None:
            return False
        add = f"ALTER TABLE {DATABASE}.{table.name} ADD COLUMN {PAYLOAD_COLUMN}, ALGORITHM=INSTANT"
        try:
            await session.ask(add)
        except ServerRefused:
            return False
        return True

    async def _make(self, session: _Session, table: Table, table_size: int) -> None:
        """Create the table again and fill it."""
        what = f"preparing table {table.name}"
        self._report(what, 0.0)
        await session.make_database(DATABASE)
        await session.ask(f"DROP TABLE IF EXISTS {DATABASE}.{table.name}")
        await session.ask(table.ddl.replace("CREATE TABLE ", f"CREATE TABLE {DATABASE}.", 1))
        if not table.grows:
            fill = fill_source(f"{DATABASE}.{table.name}", table_size, self._random)
            await _fill(self._target, fill, table_size, ROWS_A_STATEMENT, partial(self._report, what))
        if table.index:
            name, _, columns = table.index.partition(" ")
            await session.ask(f"CREATE INDEX {name} ON {DATABASE}.{table.name} {columns}")
        self._report(what, 1.0)

    async def truncate(self, table: Table) -> None:
        """Empty the table; clients wait meanwhile."""
        session = _Session(self._target)
        try:
            await session.ask(f"TRUNCATE TABLE {DATABASE}.{table.name}")
        finally:
            await session.close()
