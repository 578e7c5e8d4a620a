"""One knob on one node: requested and effective."""

from __future__ import annotations

from dataclasses import dataclass, field

from replexplorer.core.knobs.catalogue import Knob, Value
from replexplorer.core.knobs.names import KnobName


@dataclass(frozen=True, slots=True)
class KnobView:
    """One knob on one node: requested and effective."""

    name: KnobName
    requested: Value
    effective: Value | None
    """What the server, the agents or the load really have; None when unknown."""
    note: str | None = None
    flavor: str | None = field(default=None, compare=False)
    """Of the stack's servers; None when unknown."""
    here: Knob | None = field(default=None, compare=False)
    """The catalogue's row as the node's server takes it; None where no server says."""

    @property
    def knob(self) -> Knob:
        """What can be asked of it: the catalogue's row, narrowed to the server's own range."""
        return self.here or self.name.knob

    @property
    def default(self) -> Value:
        """What a reset makes of it here."""
        return self.name.knob.default_of(self.flavor)

    @property
    def server_default(self) -> Value | None:
        """What the server comes with, without the stack's option file; None where that is not known."""
        return self.name.knob.server_default_of(self.flavor)
