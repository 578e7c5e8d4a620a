"""`dsn`: the address of a server."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import Field

from replexplorer.formats.json.model import JsonObject


class Dsn(JsonObject):
    """`dsn --json`."""

    node: str
    dsn: str
    path: Literal["direct", "published"]
    account: Literal["sandbox", "admin"] = Field(
        default="sandbox", description="whose: the load's account, or with --admin the app's own"
    )
    defaults_file: str | None = None
    """The option file, where one was asked for."""


DOCUMENTS: Final[dict[str, Any]] = {"dsn": Dsn}
