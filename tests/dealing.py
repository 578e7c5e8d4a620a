"""Who runs what of a whole run: one process, which gives way to the others, what needs no server.

Tests on real servers wait for most of their time, for servers, timers and disks. The thousands of small tests
use what processor time that leaves: their process takes none that the servers want. Whoever has done all of
one kind takes what is left of the other.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any, Final

import pytest
from xdist.scheduler import LoadGroupScheduling

NICE: Final = 5
"""How far the process of the small tests gives way: a third of a share, so that none of them starves."""


def gives_way(worker: str, workers: int) -> bool:
    """Whether this is the process of the small tests, by xdist's name of it: the last one of several."""
    return workers > 1 and worker == f"gw{workers - 1}"


def give_way(config: pytest.Config) -> None:
    """Let the process of the small tests have less of the processor than the others."""
    told: dict[str, Any] = getattr(config, "workerinput", {})
    if told and gives_way(told["workerid"], told["workercount"]):
        os.nice(NICE)


def catch_up() -> None:
    """Run as the other processes do, where this user may: the small tests are done, and servers are next."""
    with suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)


class BesideServers(LoadGroupScheduling):  # type: ignore[misc]
    """Deals a file at a time: those on real servers, which are groups, to all processes but the last first,
    and the others to the last one first."""

    def _split_scope(self, nodeid: str) -> str:
        scope: str = super()._split_scope(nodeid)
        return scope if scope != nodeid else nodeid.partition("::")[0]

    def _next_scope(self, node: Any) -> str | None:
        """What this process is to run next; None where nothing is left."""
        is_small = gives_way(node.gateway.id, self.numnodes)
        wanted = (scope for scope in self.workqueue if scope.endswith(".py") is is_small)
        return next(wanted, next(iter(self.workqueue), None))

    def _assign_work_unit(self, node: Any) -> None:
        if (scope := self._next_scope(node)) is not None:
            self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        if not node.shutting_down and self._next_scope(node) is None:
            node.shutdown()
        else:
            super()._reschedule(node)
