"""`failover`, `switchover`, `rejoin`: what was done to the roles, and what it cost."""

from __future__ import annotations

from typing import Any, Final

from pydantic import ConfigDict, Field

from replexplorer.formats.json.model import JsonObject


class RoleStepJson(JsonObject):
    """One step, as it was done; some are done at once."""

    name: str
    node: str
    statements: list[str] = Field(description="what ran on the node's server; empty for what is no statement")
    took_ms: float


class RecoveryPointJson(JsonObject):
    """What clients were told is committed and the source lacks."""

    commits: int | None = Field(
        default=None,
        description="of a failover: rows that clients of the `ledger` load have the OK of and the new source"
        " lacks, null under any other load; of a rejoin: transactions that only the node had",
    )
    ms: float | None = Field(default=None, description="how old the oldest was when the source was lost")
    unknown: str | None = Field(default=None, description="why nobody can say how many")
    accepted_transactions: int = Field(
        default=0, description="that other nodes had and the new source has not: `failover --accept-loss`"
    )
    accepted_gtids: str = Field(default="", description="their GTID set")


class RecoveryTimeJson(JsonObject):
    """How long there was no source, in its parts; null where a part was not measured."""

    detect_ms: float | None = Field(default=None, description="until it was certain that the source is gone")
    promote_ms: float | None = Field(
        default=None, description="from then until the new one was open for writes"
    )
    first_write_ms: float | None = Field(
        default=None, description="from then until a commit there was answered"
    )
    total_ms: float | None = None


class RoleChangeJson(JsonObject):
    """`failover`, `switchover` and `rejoin` with --json."""

    model_config = ConfigDict(validate_by_name=True, serialize_by_alias=True)

    from_: str = Field(
        alias="from", description="the node that was the source; of a rejoin the node that came back"
    )
    to: str = Field(description="the node that is the source now")
    steps: list[RoleStepJson]
    rpo: RecoveryPointJson
    rto: RecoveryTimeJson
    errant_gtids: dict[str, str] = Field(
        description="by node: what it had executed and the source has not; nodes without any are left out"
    )
    fenced: bool = Field(description="the old source takes no writes, also when its server starts again")
    warnings: list[str] = Field(default_factory=list)


DOCUMENTS: Final[dict[str, Any]] = dict.fromkeys(("failover", "switchover", "rejoin"), RoleChangeJson)
