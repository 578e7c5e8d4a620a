"""What an experiment under way has changed, kept by the stack: after a kill the next one restores it.

Law: only what is still as the experiment left it is turned back; what somebody has asked since stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.link import unkept_all
from replexplorer.core.topology import Roster


@dataclass(frozen=True, slots=True)
class Owed:
    """What to restore when its experiment does not. Knobs are named as in the requested document."""

    kind: str
    """`lab`, `sweep`, `drill`."""
    name: str
    source: str
    """The node that was the source before."""
    before: Mapping[str, Value] = field(default_factory=dict)
    """What was requested before of each knob that it turned."""
    turned: Mapping[str, Value] = field(default_factory=dict)
    """What it asked last of the same knobs."""
    differing: tuple[str, ...] = ()
    """Nodes whose rows may not be the source's, and never will be: they get a copy of its data."""
    writer: str = ""
    """Whose experiment it is, as faults and requests are signed: `drill kill-primary (pid 12)`."""

    def still(self, requested: Callable[[KnobName], Value], roster: Roster) -> dict[KnobName, Value]:
        """What to turn back, given what is requested now."""
        turned = unkept_all(self.turned, roster)
        return {
            name: value
            for name, value in unkept_all(self.before, roster).items()
            if requested(name) == turned.get(name) != value
        }
