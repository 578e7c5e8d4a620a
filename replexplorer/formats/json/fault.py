"""`fault`: what can be done to a node on purpose, what was, and what was taken back."""

from __future__ import annotations

from typing import Any, Final

from pydantic import Field

from replexplorer.formats.json.model import JsonObject, Scalar

_AHEAD: Final = "by replica: GTIDs that it has executed and its source, which is back, has lost"


class FaultJson(JsonObject):
    """A fault in force."""

    number: int = Field(description="grows by one from fault to fault on this stack")
    kind: str
    value: str | None = Field(default=None, description="what stood behind `=`")
    node: str
    since: str = Field(description="UTC")
    until: str | None = Field(default=None, description="when whoever injected it ends it, UTC")
    by: str = Field(description="`fault (pid N)`")
    before: dict[str, Scalar] = Field(
        default_factory=dict, description="knobs that it turned, with the values that clearing gives back"
    )
    links: list[str] = Field(
        default_factory=list, description="that it makes flap, each by both its nodes: `db1:db2`"
    )


class FaultKindJson(JsonObject):
    """One kind in `fault list`."""

    kind: str
    form: str = Field(description="how it is typed, without @NODE")
    does: str
    undone: str = Field(description="what `fault clear` does")
    without_node: str = Field(description="whom it hits where no node is named")


class FaultsInjected(JsonObject):
    """`fault inject`."""

    injected: list[FaultJson]
    lost_files: dict[str, list[str]] = Field(
        default_factory=dict, description="of a power cut, by node: the files that lost anything"
    )
    cleared: list[FaultJson] = Field(default_factory=list, description="with --for: what ended with it")
    ahead: dict[str, str] = Field(default_factory=dict, description=f"with --for: {_AHEAD}")


class FaultsCleared(JsonObject):
    """`fault clear`."""

    cleared: list[FaultJson]
    ahead: dict[str, str] = Field(default_factory=dict, description=_AHEAD)


DOCUMENTS: Final[dict[str, Any]] = {
    "fault list": list[FaultKindJson],
    "fault inject": FaultsInjected,
    "fault clear": FaultsCleared,
}
