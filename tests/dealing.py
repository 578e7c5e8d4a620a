"""Who runs what of a whole run: one process, which gives way to the others, what needs no server.

Tests on real servers wait for most of their time, for servers, timers and disks. The thousands of small tests
use what processor time that leaves: their process takes none that the servers want, and when it has done all,
or the others have, whoever is free takes what is left of either kind that it may run.
"""

from __future__ import annotations

import os
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


class BesideServers(LoadGroupScheduling):  # type: ignore[misc]
    """Deals a file at a time: those on real servers, which are groups, to all processes but the last, and the
    others to the last one first."""

    def _split_scope(self, nodeid: str) -> str:
        scope: str = super()._split_scope(nodeid)
        return scope if scope != nodeid else nodeid.partition("::")[0]

    def _next_scope(self, node: Any) -> str | None:
        """What this process is to run next; None where nothing is left that it may."""
        small = next((scope for scope in self.workqueue if scope.endswith(".py")), None)
        if len(self.nodes) > 1 and gives_way(node.gateway.id, self.numnodes):
            return small
        return next((scope for scope in self.workqueue if not scope.endswith(".py")), small)

    def _assign_work_unit(self, node: Any) -> None:
        if (scope := self._next_scope(node)) is not None:
            self.workqueue.move_to_end(scope, last=False)
            super()._assign_work_unit(node)

    def _reschedule(self, node: Any) -> None:
        if not node.shutting_down and self._next_scope(node) is None:
            node.shutdown()
        else:
            super()._reschedule(node)
