"""`check-schema`: tables that hurt replication, each finding with the statement that mends it."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from replexplorer.formats.json.model import JsonObject


class TableFinding(JsonObject):
    """One thing that was found of one table."""

    kind: Literal["no-primary-key", "engine", "nullable-key", "duplicate-index", "redundant-index"]
    severity: Literal["problem", "note"]
    database: str
    table: str
    columns: list[str] = Field(description="those that it is about; empty where it is about the table")
    index: str | None = Field(description="the index that it is about")
    why: str
    statement: str = Field(
        description="mends it; for a `nullable-key` that holds NULLs, how the job or its subquery is written"
    )


class TablesChecked(JsonObject):
    """`check-schema`."""

    node: str
    server: str
    databases: list[str]
    tables: int = Field(description="how many were looked at")
    problems: int
    notes: int
    findings: list[TableFinding] = Field(description="problems first")


DOCUMENTS: Final[dict[str, Any]] = {"check-schema": TablesChecked}
