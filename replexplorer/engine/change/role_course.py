"""One change of roles as it goes: its steps, recorded before they are done and timed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from replexplorer.core.knobs.names import Desired
from replexplorer.core.role_change import RecoveryTime, RoleStep, UnderWay


@dataclass(slots=True)
class RoleCourse:
    """One change of roles as it goes."""

    under_way: UnderWay
    record: Callable[[UnderWay], Awaitable[None]]
    now_s: Callable[[], float]
    report: Callable[[str], None]
    asked: Desired
    """What was requested when it began, as it reads while the source of before is the source."""
    steps: list[RoleStep] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    history: str | None = None
    """GTID set of the new source when it was about to be opened for writes; None before that."""

    @asynccontextmanager
    async def step(self, name: str, node: str) -> AsyncIterator[list[str]]:
        """One step: recorded, then done and timed; what runs on the node's server is to be put into the
        list."""
        self.under_way = replace(self.under_way, step=name)
        await self.record(self.under_way)
        self.report(f"{node}: {name}")
        said: list[str] = []
        began_s = self.now_s()
        yield said
        self.steps.append(RoleStep(name, node, tuple(said), (self.now_s() - began_s) * 1000))


def recovery(since_s: float, detected_s: float, opened_s: float, written_s: float | None) -> RecoveryTime:
    """The parts of the time without a source."""
    return RecoveryTime(
        detect_ms=(detected_s - since_s) * 1000,
        promote_ms=(opened_s - detected_s) * 1000,
        first_write_ms=None if written_s is None else (written_s - opened_s) * 1000,
        total_ms=None if written_s is None else (written_s - since_s) * 1000,
    )
