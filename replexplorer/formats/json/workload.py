"""`workload capture`: what was captured of a server, and what the workload's file leaves out."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

from replexplorer.formats.json.model import JsonObject


class CapturedTransaction(JsonObject):
    """One kind of transaction."""

    tps: float = Field(description="of it on the captured server")
    share: float = Field(description="of all transactions, 0 to 1")
    boundaries: str = Field(description="`seen` or `guessed`")
    statements: list[str] = Field(description="digests, in order")


class CapturedTable(JsonObject):
    """One table of the file."""

    database: str
    table: str
    rows_there: int = Field(description="as the server estimates them")
    rows: int = Field(description="in the file")


class CapturedLeftOut(JsonObject):
    """Statements that are not in the file, for one reason."""

    reason: str
    times: int
    server_ms: float
    examples: list[str] = Field(description="digests, the most frequent first")


class WorkloadCaptured(JsonObject):
    """`workload capture`."""

    address: str
    server: str
    duration_s: float
    file: str | None
    workload: str | None = Field(description="the file's text where no file was named")
    statements: int = Field(description="counted, BEGIN, COMMIT and ROLLBACK aside")
    imitated: int = Field(description="of these the ones that the file has")
    transactions_there: int | None = Field(description="as the server counted them, autocommit ones as well")
    transactions: list[CapturedTransaction]
    tables: list[CapturedTable]
    left_out: list[CapturedLeftOut]
    notes: list[str] = Field(description="what is not as it was")


DOCUMENTS: Final[dict[str, Any]] = {"workload capture": WorkloadCaptured}
"""Every JSON shape that a verb prints, one module a verb; `schema` collects them."""
