"""The windows of injected faults: each from its record until it is cleared or its effect has ended.

Law: a fault has one window, which begins where it was first drawn; its mark, which comes when all is done,
stands there as well. A cut link of a fault that cuts links is in it; a `partition` is the link's.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Final

from replexplorer.core.fault import CUTTING, PARTITION_FAULT, Fault
from replexplorer.core.link import NO_PARTITION
from replexplorer.core.server.fault_effect import has_effect
from replexplorer.core.tick import Tick
from replexplorer.ui.charts.chart_model import FaultWindow, WindowKind

_CAPACITY: Final = 500


@dataclass(slots=True)
class _Open:
    """A fault that a window is open for."""

    fault: Fault
    window: FaultWindow
    has_shown: bool = False
    """Its effect was seen."""
    is_over: bool = False
    """Its effect has ended, though nobody has cleared it."""


@dataclass(slots=True)
class FaultWindows:
    """Follows the faults in force from tick to tick."""

    _ended: deque[FaultWindow] = field(default_factory=lambda: deque(maxlen=_CAPACITY))
    _open: dict[tuple[str, str, float], _Open] = field(default_factory=dict)

    def copied(self) -> FaultWindows:
        """The same windows apart, so that they stand while these change."""
        return FaultWindows(self._ended.copy(), {key: replace(one) for key, one in self._open.items()})

    @property
    def windows(self) -> list[FaultWindow]:
        """All, those that last without an end."""
        return [*self._ended, *(one.window for one in self._open.values() if not one.is_over)]

    @property
    def cuts_links(self) -> bool:
        """A cut link is the doing of one of them, and in its window."""
        return any(one.fault.kind in CUTTING and not one.is_over for one in self._open.values())

    def began_s(self, text: str) -> float | None:
        """Where the window begins that the mark with this text is of; None for a mark of something else."""
        for one in self._open.values():
            if text == f"fault {one.fault}" or text.startswith(f"fault {one.fault}:"):
                return one.window.start_s
        return None

    def fold(self, tick: Tick) -> None:
        """Open and close."""
        held = {fault.id: fault for fault in tick.faults if fault.kind != PARTITION_FAULT}
        for key, fault in held.items():
            if key not in self._open:
                ago_s = max(0.0, tick.wall_s - fault.since_wall_s)
                since_s = round(tick.at_s - ago_s, 3)
                window = FaultWindow(since_s, None, str(fault), WindowKind.FAULT, fault.kind)
                self._open[key] = _Open(fault, window)
        for key, one in list(self._open.items()):
            effect = has_effect(one.fault, tick.nodes, tick.disks)
            one.has_shown = one.has_shown or effect is True
            if key in held:
                ends = one.has_shown and effect is False and not _cuts(one.fault, tick)
            else:
                ends = one.fault.kind not in CUTTING or not any(link.healing for link in tick.links)
            if ends and not one.is_over:
                self._ended.append(replace(one.window, end_s=max(tick.at_s, one.window.start_s)))
                one.is_over = True
            if one.is_over and key not in held:
                del self._open[key]


def _cuts(fault: Fault, tick: Tick) -> bool:
    """Whether links are cut yet, though its server may run again."""
    return fault.kind in CUTTING and any(
        link.healing or link.partition not in (None, NO_PARTITION) for link in tick.links
    )
