"""One knob on one node: requested and effective."""

from __future__ import annotations

from dataclasses import dataclass

from replexplorer.core.knobs.catalogue import Value
from replexplorer.core.knobs.names import KnobName


@dataclass(frozen=True, slots=True)
class KnobView:
    """One knob on one node: requested and effective."""

    name: KnobName
    requested: Value
    effective: Value | None
    """What the server, the agents or the load really have; None when unknown."""
    note: str | None = None
