"""A look at a server's tables: what of them hurts replication. It reads, and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from replexplorer.core.dialect.dialect import Dialect
from replexplorer.core.errors import ServerRefused, ServerUnreachable, UsageError
from replexplorer.core.imitation.imitation import SUFFIX as IMITATION
from replexplorer.core.tables.check import Mended, TablesReport, check, members_of
from replexplorer.core.tables.table import TableName, TableShape
from replexplorer.engine.asking import ask
from replexplorer.engine.fleet import Member
from replexplorer.ports import Sql

OWN_DATABASE: Final = "replexplorer"
"""The program's own tables; they are looked at where somebody names them."""
_DESCRIBED_WITHIN_S: Final = 60.0
"""Thousands of tables may have to be opened for it."""
_NULLS_WITHIN_S: Final = 10.0
"""A column without an index is searched for a NULL no longer."""


async def tables_report(member: Member, databases: Sequence[str] = ()) -> TablesReport:
    """What is found in these databases, all of the user's without any; raises UsageError for one that is
    not there, ServerUnreachable."""
    dialect, sql = member.dialect, member.control
    there = await ask(sql, dialect.databases())
    unknown = [name for name in databases if name not in there]
    if unknown:
        known = ", ".join(there) or "none"
        raise UsageError(f"no database {unknown[0]!r} on {member.name}", f"it has {known}")
    own = [name for name in there if name == OWN_DATABASE or name.endswith(IMITATION)]
    looked = tuple(dict.fromkeys(databases)) or tuple(name for name in there if name not in own)
    tables = await described(sql, dialect, looked) if looked else ()
    nulls = {
        (table, column): await _holds_null(sql, dialect, table, column)
        for table, column in members_of(tables)
    }
    found = tuple(
        Mended(finding, dialect.mend(finding.table, finding.remedy)) for finding in check(tables, nulls)
    )
    return TablesReport(member.name, dialect.capabilities.title, looked, len(tables), found)


async def described(sql: Sql, dialect: Dialect, databases: Sequence[str]) -> tuple[TableShape, ...]:
    """The tables of these databases with all that is said of them; raises as `ask`."""
    asked = dialect.describe(databases)
    tables = await ask(sql, asked.tables, deadline_s=_DESCRIBED_WITHIN_S)
    columns = await ask(sql, asked.columns, deadline_s=_DESCRIBED_WITHIN_S)
    indexes = await ask(sql, asked.indexes, deadline_s=_DESCRIBED_WITHIN_S)
    foreign_keys = await ask(sql, asked.foreign_keys, deadline_s=_DESCRIBED_WITHIN_S)
    return tuple(
        replace(
            table,
            columns=columns.get(table.name, ()),
            indexes=indexes.get(table.name, ()),
            foreign_keys=foreign_keys.get(table.name, ()),
        )
        for table in tables
    )


async def _holds_null(sql: Sql, dialect: Dialect, table: TableName, column: str) -> bool | None:
    """None where the server refuses to say, or takes too long."""
    try:
        return await ask(sql, dialect.holds_null(table, column), deadline_s=_NULLS_WITHIN_S)
    except (ServerRefused, ServerUnreachable):
        return None
