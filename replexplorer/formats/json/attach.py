"""`attach` and `revert`: servers that somebody else made."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from replexplorer.formats.json.error import ErrorDocument
from replexplorer.formats.json.model import JsonObject
from replexplorer.formats.json.set import SetReport
from replexplorer.formats.json.status import Status


class UndoneVariable(JsonObject):
    """A variable whose change was to be undone; or a load's schema, as `schema NAME`, to be dropped."""

    node: str
    variable: str
    before: str = Field(description="as it was found, and is again where fate says so")
    asked: str = Field(description="as it was last set")
    found: str | None = Field(
        description="what it was when it was looked at; null: its server did not answer"
    )
    fate: Literal["restored", "as before", "left", "unreached"] = Field(
        description="as before: it was so already; left: somebody else set it since; unreached: still to do"
    )
    why: str | None = None


class Reverted(JsonObject):
    """What was undone at one source and its replicas."""

    source: str
    variables: list[UndoneVariable]


class AttachLoad(JsonObject):
    """What a load of `attach --load` did, by its clients' clock, beside what the source counted meanwhile."""

    database: str = Field(description="the schema that it was given; dropped at the end")
    replicates_to: list[str]
    workload: str
    clients: int
    table_size: int
    rate_asked_tps: float = Field(description="and never more than that")
    seconds: float
    commits: int
    tps: float | None = Field(
        description="transactions a second of this load alone; null: nothing was measured"
    )
    server_tps: float | None = Field(
        description="commits a second of all clients, by the source's own counters; null: not known"
    )
    response_p50_ms: float | None
    response_p95_ms: float | None
    response_p99_ms: float | None
    response_max_ms: float | None
    errors: int
    unknown: int
    dropped: int = Field(description="arrivals that found no free client, and were given up")
    ended: str | None = Field(default=None, description="why it ended by itself")


class AttachChanges(JsonObject):
    """`attach --allow-changes --json`: what was set or run, and what became of it at the end."""

    source: str
    set: SetReport | None = Field(description="null: no setting was to be changed")
    load: AttachLoad | None = None
    undone: list[UndoneVariable]


class GrantNeed(JsonObject):
    """Privileges for one purpose."""

    purpose: str
    privileges: list[str]
    statement: str
    lacking: list[str]


class AttachGrants(JsonObject):
    """`attach --grants --json`."""

    source: str
    account: str
    server: str
    needs: list[GrantNeed]


class RevertReport(JsonObject):
    """`revert --json`."""

    reverted: list[Reverted]


DOCUMENTS: Final[dict[str, Any]] = {
    "attach": Status | AttachChanges | AttachGrants | ErrorDocument,
    "revert": RevertReport | ErrorDocument,
}
