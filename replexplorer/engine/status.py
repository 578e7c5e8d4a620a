"""The whole stack at one moment, for `status` and `get`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from replexplorer.core.knobs import KnobName, Value
from replexplorer.core.tick import DiskView, KnobView, LinkView, NodeView, Protection
from replexplorer.engine.picture import state_word
from replexplorer.engine.sight import Sight
from replexplorer.ports import Lease


@dataclass(frozen=True, slots=True)
class Status:
    """The whole stack at one moment; what is not known is None."""

    stack: str
    state: str
    nodes: tuple[NodeView, ...]
    protection: Protection
    links: tuple[LinkView, ...]
    disks: tuple[DiskView, ...]
    driver: Lease | None
    load: Mapping[str, Value] | None
    """Knobs of the load that runs, by key; empty when none does, None when that is not known."""
    footprint_bytes: int | None
    knobs: Mapping[KnobName, KnobView]


async def take_status(sight: Sight) -> Status:
    """Look at everything now; raises StackUnavailable when there is no stack."""
    await sight.refresh(with_gtids=True, probe=True)
    await sight.look_twice_if_waiting()
    nobody: Mapping[str, Value] | None = {} if sight.driver_is_known else None
    nodes = sight.node_views()
    stack = sight.fleet.outside.stack
    return Status(
        stack=stack.name,
        state=state_word(nodes),
        nodes=nodes,
        protection=sight.protection(),
        links=tuple(sight.links.values()),
        disks=tuple(sight.disks.values()),
        driver=sight.driver,
        load=sight.driver.load if sight.driver is not None else nobody,
        footprint_bytes=await stack.footprint_bytes(),
        knobs=sight.views(),
    )
