"""The load's tables: reused when they fit, else recreated in a few large transactions.

A commit may cost a round trip of the semi-synchronous link, so rows go in by thousands and over a
few connections at once, and the index comes after them, which costs both servers a third less; a table
that fits costs no write at all. The index is the last thing made: what lacks it was never finished.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Final, NamedTuple

from replexplorer.adapters.mysql import Address, ControlConnection, tls_of
from replexplorer.core.dialect.question import Row
from replexplorer.core.errors import ServerRefused
from replexplorer.core.load.workload import DATABASE, PAYLOAD, PAYLOAD_COLUMN, Table, Workload, fill_source
from replexplorer.generator.filled import Query, make_databases, make_table, missing_tables
from replexplorer.ports import LoadTarget

ROWS_A_STATEMENT: Final = 5000
"""About 1 MB: below every default of max_allowed_packet since 5.6 (4 MiB)."""
_CONNECTIONS: Final = 4
_DEADLINE_S: Final = 86_400.0
"""A statement may wait for an acknowledgement for as long as the semi-sync timeout says."""
_NO_SUCH: Final = frozenset({1049, 1146})
"""Unknown database, unknown table."""
_LOCK: Final = "replexplorer.prepare"

Report = Callable[[str, float | None], None]


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

    @property
    def _database(self) -> str:
        """The schema that the tables are in."""
        return self._target.database or DATABASE

    def _connection(self) -> ControlConnection:
        """A connection to the primary."""
        target = self._target

        async def locate() -> Address:
            return Address(target.host, target.port, target.path)

        return ControlConnection(
            "the source", locate, target.user, target.password, tls=tls_of(target.ssl_mode, target.ssl_ca)
        )

    async def prepare(
        self, table: Table, table_size: int, before_making: Callable[[], Awaitable[None]] | None = None
    ) -> int:
        """Make a table fit; answers how many rows it has. Raises ReplexplorerError.

        Whoever works on the table is asked to stop `before_making` it again. Two loads that prepare at
        once wait for each other.
        """
        connection = self._connection()
        try:
            rows = await self._rows(connection, table, table_size)
            if rows is not None:
                return rows
            await _query(connection, "SELECT GET_LOCK(%s, %s)", _LOCK, _DEADLINE_S)
            rows = await self._rows(connection, table, table_size)
            if rows is None and not await self._widened(connection, table, table_size):
                if before_making is not None:
                    await before_making()
                await self._make(connection, table, table_size)
            return await self._rows(connection, table, table_size) or 0
        finally:
            await connection.close()

    async def prepare_file(
        self, workload: Workload, before_making: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        """Make the tables of a user's file that are missing or do not fit; raises ReplexplorerError, and
        UsageError where a table that no workload made has the name of one."""
        if not workload.filled and not workload.makes_database:
            return
        connection = self._connection()

        async def query(statement: str, *args: object) -> Sequence[Row]:
            return await _query(connection, statement, *args)

        try:
            await query("SELECT GET_LOCK(%s, %s)", _LOCK, _DEADLINE_S)
            await make_databases(query, workload)
            missing = await missing_tables(query, workload)
            if missing and before_making is not None:
                await before_making()
            for table in missing:
                await make_table(query, table, workload, self._filler, self._random, self._report)
        finally:
            await connection.close()

    def _filler(self) -> tuple[Query, Callable[[], Awaitable[None]]]:
        """One more connection that rows go in by, and what closes it."""
        connection = self._connection()

        async def query(statement: str, *args: object) -> Sequence[Row]:
            return await _query(connection, statement, *args)

        return query, connection.close

    async def _rows(self, connection: ControlConnection, table: Table, table_size: int) -> int | None:
        """How many rows the table has; None when it does not fit."""
        shape = await self._shape(connection, table)
        if shape != _Shape(PAYLOAD in table.ddl, bool(table.index)):
            return None
        return await self._counted(connection, table, table_size)

    async def _counted(self, connection: ControlConnection, table: Table, table_size: int) -> int | None:
        """How many rows the table has; None when they are not the ones that it starts with."""
        name = f"{self._database}.{table.name}"
        if table.grows:
            statement = f"SELECT COALESCE({table.size}, 0) AS n FROM {name}"
        else:
            statement = f"SELECT COUNT(*) AS n, MIN(id) AS low, MAX(id) AS high FROM {name}"
        try:
            [row] = await _query(connection, statement)
        except ServerRefused as refused:
            if refused.number in _NO_SUCH:
                return None
            raise
        if table.grows:
            return int(row["n"])
        return table_size if (row["n"], row["low"], row["high"]) == (table_size, 1, table_size) else None

    async def _shape(self, connection: ControlConnection, table: Table) -> _Shape:
        """What the table there has; nothing when there is none."""
        of_table = "table_schema = %s AND table_name = %s"
        [found] = await _query(
            connection,
            f"SELECT (SELECT COUNT(*) FROM information_schema.columns WHERE {of_table} "
            f"AND column_name = %s) AS payload, (SELECT COUNT(*) FROM information_schema.statistics "
            f"WHERE {of_table} AND index_name = %s) AS indexed",
            *(self._database, table.name, PAYLOAD),
            *(self._database, table.name, table.index.partition(" ")[0]),
        )
        return _Shape(bool(found["payload"]), bool(found["indexed"]))

    async def _widened(self, connection: ControlConnection, table: Table, table_size: int) -> bool:
        """Whether all that a table lacked was the payload's column and the server added it in no time.

        The load goes on meanwhile. A server without instant DDL, or one that had its fill of it on this
        table, refuses. The way back is no such: the rows would keep what was written into the column.
        """
        if PAYLOAD not in table.ddl or await self._shape(connection, table) != (False, bool(table.index)):
            return False
        if await self._counted(connection, table, table_size) is None:
            return False
        add = f"ALTER TABLE {self._database}.{table.name} ADD COLUMN {PAYLOAD_COLUMN}, ALGORITHM=INSTANT"
        try:
            await _query(connection, add)
        except ServerRefused:
            return False
        return True

    async def _make(self, connection: ControlConnection, table: Table, table_size: int) -> None:
        """Create the table again and fill it."""
        what = f"preparing table {table.name}"
        self._report(what, 0.0)
        [found] = await _query(
            connection,
            "SELECT COUNT(*) AS n FROM information_schema.schemata WHERE schema_name = %s",
            self._database,
        )
        if not found["n"] and self._target.database is None:
            await _query(connection, f"CREATE DATABASE {self._database}")
        await _query(connection, f"DROP TABLE IF EXISTS {self._database}.{table.name}")
        await _query(connection, table.ddl.replace("CREATE TABLE ", f"CREATE TABLE {self._database}.", 1))
        if not table.grows:
            await self._fill(table, table_size, what)
        if table.index:
            name, _, columns = table.index.partition(" ")
            await _query(connection, f"CREATE INDEX {name} ON {self._database}.{table.name} {columns}")
        self._report(what, 1.0)

    async def _fill(self, table: Table, table_size: int, what: str) -> None:
        """Insert rows 1..table_size over a few connections."""
        firsts = iter(range(1, table_size + 1, ROWS_A_STATEMENT))
        done = itertools.count(1)
        statements = -(-table_size // ROWS_A_STATEMENT)
        fill = fill_source(f"{self._database}.{table.name}", table_size, self._random)

        async def work() -> None:
            connection = self._connection()
            try:
                for first in firsts:
                    last = min(first + ROWS_A_STATEMENT - 1, table_size)
                    await _query(connection, fill(first, last))
                    # The index is one more step.
                    self._report(what, next(done) / (statements + 1))
            finally:
                await connection.close()

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(_CONNECTIONS, statements)):
                    group.create_task(work())
        except ExceptionGroup as several:
            raise several.exceptions[0] from None

    async def truncate(self, table: Table) -> None:
        """Empty the table; clients wait meanwhile."""
        connection = self._connection()
        try:
            await _query(connection, f"TRUNCATE TABLE {self._database}.{table.name}")
        finally:
            await connection.close()


async def _query(connection: ControlConnection, statement: str, *args: object) -> Sequence[Row]:
    """Rows of a statement that may take long."""
    return await connection.query(statement, args, deadline_s=_DEADLINE_S)
