"""The loss ledger: what clients were told, compared with the rows on each node."""

from __future__ import annotations

from typing import Any, Final, Self

from pydantic import Field

from replexplorer.core.loss.ledger import LossLedger
from replexplorer.formats.json.model import JsonObject


class NodeRowsJson(JsonObject):
    """One node's rows."""

    rows: int = Field(description="of this run")
    missing: int = Field(description="acknowledged and not here")
    extra: int = Field(description="here and not on the survivor")
    errant_gtids: str = Field(description="executed here and not on the survivor")


class LossLedgerJson(JsonObject):
    """What became of every row that the clients attempted."""

    attempted: int
    acknowledged: int = Field(description="the client has the OK")
    failed: int = Field(description="the server said no")
    unknown: int = Field(description="the line went away in between: never counted as lost")
    survivor: str
    lost: int = Field(description="acknowledged and on no row of the survivor")
    lost_sample: list[tuple[int, int]] = Field(description="[client, seq] of the newest, at most 20")
    newest_lost_age_ms: float | None = Field(description="from its OK to the failure")
    oldest_lost_age_ms: float | None = Field(description="the same of the oldest: the time that was lost")
    unknown_present: int = Field(description="unknown and on the survivor")
    unknown_absent: int
    phantom_reads: int = Field(description="seen by another session, then on no row of the survivor")
    clients: int
    clients_with_loss: int
    most_lost_of_one_client: int
    nodes: dict[str, NodeRowsJson]

    @classmethod
    def of(cls, ledger: LossLedger) -> Self:
        """From the engine's figures."""
        return cls.model_validate(ledger, from_attributes=True)


DOCUMENTS: Final[dict[str, Any]] = {"ledger": LossLedgerJson}
