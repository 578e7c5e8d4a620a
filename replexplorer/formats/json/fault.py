"""`fault`: what can be done to a node on purpose, what was, and what was taken back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, Self

from pydantic import Field

from replexplorer.core.server.comeback import Comeback
from replexplorer.core.server.gtid import gtid_count
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


class LostJson(JsonObject):
    """What a server had numbered and lacked at its start."""

    transactions: int
    is_all: bool = Field(description="false: it committed until it ended, and its last moment is not counted")
    gtids: str
    acknowledged: int | None = Field(
        description="how many of them clients of the load were answered; null: no load kept account"
    )
    only_on: dict[str, int] = Field(description="by node: how many of them it has")


class BinlogLostJson(JsonObject):
    """What a power cut took of a binlog."""

    transactions: int | None = Field(description="that InnoDB has kept; null: not known")
    bytes: int


class ComebackJson(JsonObject):
    """A server that runs again."""

    node: str
    lost: LostJson
    rows_lost: tuple[int, int] | None = Field(
        description="at least, at most: commits with their GTIDs there and no rows; null: not known"
    )
    binlog_lost: BinlogLostJson
    replication_after: dict[str, Literal["whole", "broken 1236", "diverged"]] = Field(
        description="by replica; empty where the server is not the source"
    )
    diverged: dict[str, str] = Field(description="by node that has to be copied: why")

    @classmethod
    def of(cls, found: Comeback) -> Self:
        """From the engine's comparison."""
        only_on = {node: gtid_count(gtids) for node, gtids in found.only_on.items()}
        binlog = None if found.binlog_lost is None else gtid_count(found.binlog_lost)
        return cls(
            node=found.node,
            lost=LostJson(
                transactions=gtid_count(found.lost),
                is_all=not found.wrote_to_the_end,
                gtids=found.lost,
                acknowledged=None if found.acknowledged is None else gtid_count(found.acknowledged),
                only_on=only_on,
            ),
            rows_lost=found.rows,
            binlog_lost=BinlogLostJson(transactions=binlog, bytes=found.binlog_bytes),
            replication_after={node: each.value for node, each in found.replication.items()},
            diverged=dict(found.differs),
        )


class _CameBack(JsonObject):
    ahead: dict[str, str] = Field(default_factory=dict, description=_AHEAD)
    came_back: list[ComebackJson] = Field(default_factory=list, description="servers that run again")

    def add(self, found: Iterable[Comeback]) -> None:
        """With what these came back without."""
        for each in found:
            self.came_back.append(ComebackJson.of(each))
            self.ahead |= each.ahead


class FaultsInjected(_CameBack):
    """`fault inject`; what comes back, with `--for`."""

    injected: list[FaultJson]
    lost_files: dict[str, list[str]] = Field(
        default_factory=dict, description="of a power cut, by node: the files that lost anything"
    )
    cleared: list[FaultJson] = Field(default_factory=list, description="with --for: what ended with it")


class FaultsCleared(_CameBack):
    """`fault clear`."""

    cleared: list[FaultJson]


DOCUMENTS: Final[dict[str, Any]] = {
    "fault list": list[FaultKindJson],
    "fault inject": FaultsInjected,
    "fault clear": FaultsCleared,
}
