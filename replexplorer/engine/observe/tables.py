"""A look at a server's tables: what of them hurts replication. It reads, and changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from replexplorer.core.dialect.schema import SchemaFinding, described, description, schema_questions
from replexplorer.core.errors import UsageError
from replexplorer.core.tables import TableShape
from replexplorer.engine.fleet import Member
from replexplorer.ports import Sql, ask

OWN_DATABASE: Final = "replexplorer"
"""The program's own tables; they are looked at if named."""
IMITATION: Final = "_imitation"
"""Ends the names of databases that captured workloads run in."""
_DESCRIBED_WITHIN_S: Final = 60.0
"""Thousands of tables may have to be opened for it."""


async def schema_findings(member: Member, databases: Sequence[str]) -> tuple[SchemaFinding, ...]:
    """What is found in these databases, problems first; without any in all but the program's own and those
    that its captured workloads made. Raises UsageError for one that is not there, ServerUnreachable."""
    dialect, sql = member.dialect, member.control
    there = await ask(sql, dialect.databases)
    unknown = [name for name in databases if name not in there]
    if unknown:
        known = ", ".join(there) or "none"
        raise UsageError(f"no database {unknown[0]!r} on {member.name}", f"it has {known}")
    looked = databases or [name for name in there if name != OWN_DATABASE and not name.endswith(IMITATION)]
    found: dict[tuple[str, ...], SchemaFinding] = {}
    for question in schema_questions(looked) if looked else ():
        for each in await ask(sql, question, deadline_s=_DESCRIBED_WITHIN_S):
            found.setdefault((each.database, each.table, each.kind), each)
    return tuple(sorted(found.values(), key=lambda each: each.severity == "note"))


async def shapes_of(sql: Sql, databases: Sequence[str]) -> tuple[TableShape, ...]:
    """The tables of these databases with all that is said of them; raises as `ask`."""
    answers = [await ask(sql, each, deadline_s=_DESCRIBED_WITHIN_S) for each in description(databases)]
    return described(*answers)
