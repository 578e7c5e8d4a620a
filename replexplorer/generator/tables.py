"""The load's tables, those of the built-in workloads and those of a user's file: reused when they fit, else
made again in a few large transactions.

A commit may cost a round trip of the semi-synchronous link, so rows go in by thousands and over a
few connections at once, and the index comes after them, which costs both servers a third less; a table
that fits costs no write at all.

Law: a table's comment marks from which text it was made, and is written last: what was never finished has
another mark. It fits while it has that mark and about the rows that it started with. Outside of our own
database a table is dropped only if it carries a mark of this program.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Final

from replexplorer.adapters.mysql import Address, ControlConnection
from replexplorer.core.dialect.question import Row
from replexplorer.core.dialect.schema import described, description
from replexplorer.core.errors import ServerRefused, UsageError
from replexplorer.core.load.workload import DATABASE, PAYLOAD_COLUMN, Table, Workload, fill_source
from replexplorer.core.records import dataclass, replace
from replexplorer.core.tables import FilledShape, domains_of, fill_statement
from replexplorer.ports import LoadTarget, Reporter

_ROWS_A_STATEMENT: Final = 5000
_STATEMENT_BYTES: Final = 1 << 20
"""Below every default of max_allowed_packet since 5.6 (4 MiB)."""
_MARK: Final = "replexplorer "
_FITS: Final = 0.1
"""So far the number of rows may be off, as a share of what it was."""
_CONNECTIONS: Final = 4
_DEADLINE_S: Final = 86_400.0
"""A statement may wait for an acknowledgement for as long as the semi-sync timeout says."""
_LOCK: Final = "replexplorer.prepare"


class _Session(ControlConnection):
    """A connection to the source, whose statements may take long."""

    def __init__(self, target: LoadTarget) -> None:
        async def locate() -> Address:
            return Address(target.host, target.port, target.path)

        super().__init__("the source", locate, target.user, target.password)

    async def ask(self, statement: str, *args: object) -> Sequence[Row]:
        """The rows of a statement with these arguments."""
        return await self.query(statement, args, deadline_s=_DEADLINE_S)


def mark_of(table: Table) -> str:
    """What says that a table was made from this text."""
    text = f"{table.body}\0{table.rows}\0{table.row_bytes}\0{table.index}"
    return f"{_MARK}{hashlib.sha256(text.encode()).hexdigest()[:16]}"


async def _mark(session: _Session, table: Table) -> str:
    """The mark of the table that is there; empty without one. Raises UsageError where no workload made it."""
    found = await session.ask(
        "SELECT table_comment AS mark FROM information_schema.tables"
        " WHERE table_schema = %s AND table_name = %s",
        *(table.database, table.name),
    )
    mark = str(found[0]["mark"]) if found else ""
    if found and table.database != DATABASE and not mark.startswith(_MARK):
        raise UsageError(
            f"{table.place}: {table.database}.{table.name} is there, and no workload made it",
            r"name another database with \database, or rename that table",
        )
    return mark


async def _missing(session: _Session, tables: Sequence[Table]) -> list[Table]:
    """The tables that are to be made; raises UsageError where one would take another's place."""
    return [
        each
        for each in tables
        if await _mark(session, each) != mark_of(each) or not await _has_its_rows(session, each)
    ]


async def _has_its_rows(session: _Session, table: Table) -> bool:
    """Whether a table that is there has about the rows that it starts with; one that grows has any number."""
    if table.grows or table.rows is None:
        return True
    [row] = await session.ask(f"SELECT COUNT(*) AS n FROM {table.quoted}")
    return abs(int(row["n"]) - table.rows) <= _FITS * table.rows


@contextmanager
def _refusals_of(table: Table) -> Iterator[None]:
    """What the server says of a user's table names its place in the file."""
    try:
        yield
    except ServerRefused as refused:
        if not table.place:
            raise
        raise UsageError(f"{table.place}: {refused.message}", "the server refuses this table") from None


@dataclass(eq=False)
class Tables:
    """Looks after the tables over connections of its own."""

    _target: LoadTarget
    _random: Random
    _report: Reporter

    def move(self, target: LoadTarget) -> None:
        """Look after the tables there from now on."""
        self._target = target

    async def prepare(
        self, workload: Workload, table_size: int, before_making: Callable[[], Awaitable[None]]
    ) -> int:
        """Make a workload's tables fit; answers how many rows the one that grows has. Raises
        ReplexplorerError, and UsageError where a table that no workload made has the name of a user's.

        Whoever works on the tables is asked to stop `before_making` one again. Two loads that prepare at
        once wait for each other.
        """
        sized = {each: table_size if each.rows is None else each.rows for each in workload.tables}
        tables = [replace(each, rows=rows) for each, rows in sized.items()]
        session = _Session(self._target)
        try:
            await self._make_databases(session, {workload.database, *(each.database for each in tables)})
            if await _missing(session, tables):
                await session.ask("SELECT GET_LOCK(%s, %s)", _LOCK, _DEADLINE_S)
                missing = [
                    each for each in await _missing(session, tables) if not await self._widened(session, each)
                ]
                if missing:
                    await before_making()
                    await self._make(session, missing, workload)
            if (grown := workload.grown) is None:
                return 0
            [row] = await session.ask(f"SELECT COALESCE({grown.size}, 0) AS n FROM {grown.quoted}")
            return int(row["n"])
        finally:
            await session.close()

    async def _make_databases(self, session: _Session, names: set[str]) -> None:
        """Make those that are missing."""
        for name in sorted(names):
            [found] = await session.ask(
                "SELECT COUNT(*) AS n FROM information_schema.schemata WHERE schema_name = %s", name
            )
            if not found["n"]:
                await session.ask(f"CREATE DATABASE IF NOT EXISTS `{name}`")

    async def _widened(self, session: _Session, table: Table) -> bool:
        """Whether all that a table lacked was the payload's column and the server added it in no time.

        The load goes on meanwhile. A server without instant DDL, or one that had its fill of it on this
        table, refuses. The way back is no such: the rows would keep what was written into the column.
        """
        plain = table.without_payload()
        if plain == table or await _missing(session, [plain]):
            return False
        try:
            await session.ask(f"ALTER TABLE {table.quoted} ADD COLUMN {PAYLOAD_COLUMN}, ALGORITHM=INSTANT")
        except ServerRefused:
            return False
        await self._finish(session, table)
        return True

    async def _finish(self, session: _Session, table: Table) -> None:
        """Mark a table as whole."""
        await session.ask(f"ALTER TABLE {table.quoted} COMMENT = '{mark_of(table)}'")

    async def _make(self, session: _Session, tables: Sequence[Table], workload: Workload) -> None:
        """Make tables, all of them before the first one's rows, which may name rows of another; raises
        UsageError where the server refuses a user's table or a row."""
        for table in tables:
            await session.ask(table.drop)
            with _refusals_of(table):
                await session.ask(
                    f"CREATE TABLE {table.quoted} {table.body.rstrip()} COMMENT = '{_MARK}unfinished'"
                )
        made_up = await self._made_up(session, [each for each in workload.tables if each.place])
        for table in tables:
            report = partial(self._report, f"preparing table {table.name}")
            report(0.0)
            with _refusals_of(table):
                if table.rows:
                    made = made_up.get(_key(table.database, table.name))
                    fill = made or fill_source(table, table.rows, self._random)
                    await self._fill(fill, table.rows, report)
                if table.index:
                    name, _, columns = table.index.partition(" ")
                    await session.ask(f"CREATE INDEX {name} ON {table.quoted} {columns}")
                if table.rows:
                    # The server counts by itself only 10 s later, and scans a table that it takes for empty.
                    await session.ask(f"ANALYZE TABLE {table.quoted}")
                await self._finish(session, table)
            report(1.0)

    async def _made_up(
        self, session: _Session, tables: Sequence[Table]
    ) -> dict[tuple[str, str], Callable[[int, int], str]]:
        """What makes the rows of a user's tables, by the columns that the server says they have."""
        if not tables:
            return {}
        databases = sorted({each.database for each in tables})
        tables_there, columns, indexes = [
            each.read(await session.ask(each.statement, *databases)) for each in description(databases)[:3]
        ]
        found = described(tables_there, columns, indexes, ())
        wanted = {_key(each.database, each.name): each for each in tables}
        shapes = [
            FilledShape(shape, each.rows or 0, each.row_bytes)
            for shape in found
            if (each := wanted.get(_key(*shape.name))) is not None
        ]
        domains = domains_of(shapes)
        return {
            _key(*each.shape.name): partial(
                fill_statement, each, domains[each.shape.name], random=self._random
            )
            for each in shapes
        }

    async def _fill(
        self, fill: Callable[[int, int], str], rows: int, report: Callable[[float], None]
    ) -> None:
        """Insert rows 1 to `rows` over a few connections; `fill` makes a statement of the first and last."""
        step = max(1, min(_ROWS_A_STATEMENT, _STATEMENT_BYTES // len(fill(1, 1))))
        firsts = iter(range(1, rows + 1, step))
        done, statements = itertools.count(1), -(-rows // step)

        async def work() -> None:
            session = _Session(self._target)
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

    async def truncate(self, table: Table) -> None:
        """Empty the table; clients wait meanwhile."""
        session = _Session(self._target)
        try:
            await session.ask(f"TRUNCATE TABLE {table.quoted}")
        finally:
            await session.close()


def _key(database: str, table: str) -> tuple[str, str]:
    """Some servers keep names in lower case."""
    return database.lower(), table.lower()
