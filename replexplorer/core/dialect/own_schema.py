"""The schema that a load is given on servers that somebody else made: how it is made, known again, dropped.

Law: it is dropped only where it carries the mark that its maker noted, or has no table at all; a schema of
the same name that somebody else made stays.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from replexplorer.core.dialect.question import Question, Row

SCHEMA: Final = "replexplorer_load"
"""Its name on every server."""
_MARK_TABLE: Final = "made_by_replexplorer"
"""A table without rows whose comment is the mark: a schema has no comment in MySQL."""
_MARK: Final = re.compile(r"[\w .:@-]{8,200}", re.ASCII)


@dataclass(frozen=True, slots=True)
class SchemaFound:
    """What stands at its name."""

    is_there: bool
    tables: int
    mark: str | None
    """Who made it; None where nothing says."""

    def was_made_as(self, mark: str) -> bool:
        """Whether it is the one that was made with this mark; one whose making was cut short has no table."""
        return self.is_there and (self.mark == mark or not self.tables)


LOOK: Final[Question[SchemaFound]] = Question(
    f"SELECT (SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '{SCHEMA}') AS there,"
    f" (SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = '{SCHEMA}') AS held,"
    f" (SELECT MAX(table_comment) FROM information_schema.tables WHERE table_schema = '{SCHEMA}'"
    f" AND table_name = '{_MARK_TABLE}') AS mark",
    lambda rows: _read(rows),
)
"""What stands at its name, as far as the account may see it."""

DROP: Final = f"DROP DATABASE {SCHEMA}"

NO_LONG_WAIT: Final = "SET SESSION lock_wait_timeout = 1"
"""Before it is dropped: a commit that waits for a replica holds the locks of its table as long. In seconds,
and the least that MySQL takes."""
LOCKED: Final = 1205
"""What the server then answers."""


def make(mark: str) -> tuple[str, str]:
    """The statements that make it, marked; raises ValueError for what is no mark."""
    if not _MARK.fullmatch(mark):
        raise ValueError(f"{mark!r} is no mark")
    table = f"CREATE TABLE {SCHEMA}.{_MARK_TABLE} (id INT PRIMARY KEY) COMMENT = '{mark}'"
    return (f"CREATE DATABASE {SCHEMA}", table)


def _read(rows: Sequence[Row]) -> SchemaFound:
    row = rows[0]
    mark = row["mark"]
    return SchemaFound(bool(row["there"]), int(row["held"]), None if mark is None else str(mark))
