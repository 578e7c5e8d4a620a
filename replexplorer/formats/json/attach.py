"""`attach` and `revert`: servers that somebody else made."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from replexplorer.formats.json.error import ErrorDocument
from replexplorer.formats.json.model import JsonObject
from replexplorer.formats.json.set import SetReport
from replexplorer.formats.json.status import Status


class UndoneVariable(JsonObject):
    """A variable whose change was to be undone."""

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


class AttachChanges(JsonObject):
    """`attach --allow-changes --json`: what was set, and what became of it at the end."""

    source: str
    set: SetReport
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
