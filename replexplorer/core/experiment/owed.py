"""What an experiment under way owes the stack: kept by the stack, so that whoever comes after a kill pays it.

Law: only what is still as the experiment left it is turned back; what somebody has asked since stays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from replexplorer.core.kept import kept_all, unkept_all
from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.topology import Roster


@dataclass(frozen=True, slots=True)
class Owed:
    """What to give back when its experiment does not."""

    kind: str
    """`lab`, `sweep`, `drill`."""
    name: str
    source: str
    """The node that was the source before."""
    before: Mapping[KnobName, Value] = field(default_factory=dict)
    """What was requested before of each knob that it turned."""
    turned: Mapping[KnobName, Value] = field(default_factory=dict)
    """What it asked last of the same knobs."""
    differing: tuple[str, ...] = ()
    """Nodes whose rows may not be the source's, and never will be: they get a copy of its data."""
    writer: str = ""
    """Whose experiment it is, as faults and requests are signed: `drill kill-primary (pid 12)`."""

    def still(self, requested: Mapping[KnobName, Value]) -> dict[KnobName, Value]:
        """What to turn back, given what is requested now."""
        return {
            name: value
            for name, value in self.before.items()
            if name in requested and requested[name] == self.turned.get(name) != value
        }


def owed_to_record(owed: Owed | None, roster: Roster) -> dict[str, Any] | None:
    """As the requested document of a stack with these nodes keeps it."""
    if owed is None:
        return None
    return {
        "kind": owed.kind,
        "name": owed.name,
        "writer": owed.writer,
        "source": owed.source,
        "before": kept_all(owed.before, roster),
        "turned": kept_all(owed.turned, roster),
        "differing": list(owed.differing),
    }


def owed_from_record(content: object, roster: Roster) -> Owed | None:
    """The inverse of `owed_to_record`; None for what cannot be read."""
    if not isinstance(content, dict):
        return None
    try:
        kind, name, writer, source = (str(content[key]) for key in ("kind", "name", "writer", "source"))
        before, turned = (unkept_all(content[key], roster) for key in ("before", "turned"))
        differing = tuple(map(str, content.get("differing", ())))
        return Owed(kind, name, source, before, turned, differing, writer)
    except (KeyError, TypeError, AttributeError):
        return None
