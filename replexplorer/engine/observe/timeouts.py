"""How often semi-sync fell back by a timeout, by a server's log where no table says so.

`no_times` counts each time that semi-sync was switched off, also by somebody's SET. MariaDB has no status
variable of its timeouts and no table of its error log, but writes a warning for each (seen on 11.8).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Final

from replexplorer.core.errors import ReplexplorerError
from replexplorer.engine.fleet import Fleet
from replexplorer.engine.observe.server_sample import NodeSample
from replexplorer.ports import Ability

_TIMED_OUT: Final = "Timeout waiting for reply of binlog"
_COMES_WITHIN_S: Final = 3.0
"""The counter may be seen before its line has come through the log."""


def timeouts_in(lines: Iterable[tuple[float, str]]) -> int:
    """Timeouts among the lines of a server's log, each with its moment."""
    return sum(_TIMED_OUT in line for _, line in lines)


class TimeoutLook:
    """Reads the log of a server when its counter has moved, and for a moment after it."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._moved_s: dict[str, float] = {}

    async def look(self, node: str, now: NodeSample, before: NodeSample | None) -> int | None:
        """Timeouts since the server's start, from two samples of it; None where nobody can say."""
        switched = now.status.no_times
        if not switched:
            return now.logged_timeouts if switched is None or now.logged_timeouts is not None else 0
        known = None if before is None else before.logged_timeouts
        was = None if before is None else before.status.no_times
        if was != switched:
            if now.logged_timeouts is not None:
                return now.logged_timeouts  # the server has a table of them
            self._moved_s[node] = now.at_s
        if node not in self._moved_s or now.at_s - self._moved_s[node] > _COMES_WITHIN_S:
            return now.logged_timeouts
        found = await self._logged(node)
        goes_on = known is not None and was is not None and was <= switched
        return found if found is None or known is None or not goes_on else max(known, found)

    async def _logged(self, node: str) -> int | None:
        if not self._fleet.can(Ability.STOP_SERVERS):
            return None  # of these servers nobody here has the log
        with contextlib.suppress(ReplexplorerError):
            return timeouts_in(await self._fleet.server_process(node).log())
        return None
