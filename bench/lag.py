"""P22: the lag that the dashboard shows next to a row's own age on the replica, while it grows and drains.

A row of its own gets the source's time twenty times a second, so the one on the replica is as old as the
replica is behind. The applier is slowed by its disk under a load of eight clients; then the disk is quick
again and the load ends. The servers share this machine's clock.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass

from bench.figure import Figure, tell
from bench.given_stack import meanwhile, new_stack
from replexplorer.core.server.node_view import lag_s_of
from replexplorer.core.tick import Tick
from replexplorer.engine.session import Session
from replexplorer.ports import LoadSettings, Sql, UpOptions, execute
from tests.turning import turn

LOOKS = 10
"""While lag grows, and as many while it drains."""
EVERY_S = 1.5
BEAT_S = 0.05
SLOW_DISK_MS = 20
WITHIN_S, WITHIN_SHARE = 1.0, 0.1
SYSTEMS = {"MySQL": None, "MariaDB": UpOptions(flavor="mariadb"), "a group": UpOptions(system="group")}
_TABLE = "sandbox.row_age"


@dataclass(frozen=True)
class Look:
    """One tick's lag of a replica, and the age of the row there as the tick came."""

    phase: str
    shown_s: float | None
    row_s: float

    @property
    def holds(self) -> bool:
        """Whether they are alike."""
        return self.shown_s is not None and abs(self.shown_s - self.row_s) <= max(
            WITHIN_S, WITHIN_SHARE * self.row_s
        )


async def figures(session: Session, *, quick: bool) -> list[Figure]:
    """On an attached MySQL stack whose load is not running; the other systems get stacks of their own."""
    found = []
    for system, up in SYSTEMS.items():
        if up is None:
            found.append(_figure(system, await looks_at(session)))
        elif not quick:
            async with new_stack(up) as another:
                found.append(_figure(system, await looks_at(another)))
    return found


def _figure(system: str, looks: list[Look]) -> Figure:
    within = sum(look.holds for look in looks)
    off_s = max((abs(look.shown_s - look.row_s) for look in looks if look.shown_s is not None), default=0.0)
    most_s = max(look.row_s for look in looks)
    return Figure(
        "P22",
        f"lag shown next to a row's age, {system}",
        f"{len(looks)} within 1 s or 10 %",
        f"{within} of {len(looks)}; {off_s:.2f} s apart at most, behind by {most_s:.1f} s at most",
        within == len(looks),
        {"looks": [asdict(look) for look in looks]},
    )


async def looks_at(session: Session) -> list[Look]:
    """Looks at the first replica: while its lag grows, then while it drains."""
    replica = session.fleet.replicas[0]
    ticks: asyncio.Queue[Tick] = asyncio.Queue()
    found: list[Look] = []

    async def look(phase: str) -> None:
        for _ in range(LOOKS):
            await asyncio.sleep(EVERY_S)
            while not ticks.empty():
                ticks.get_nowait()
            tick = await ticks.get()
            [row] = await replica.control.query(
                f"SELECT TIMESTAMPDIFF(MICROSECOND, at, UTC_TIMESTAMP(6)) AS age_us FROM {_TABLE}"
            )
            [node] = [each for each in tick.replicas if each.name == replica.name]
            found.append(Look(phase, lag_s_of(tick.truth, node), int(row["age_us"]) / 1e6))
            tell(f"{phase}: {found[-1]}")

    async with beats(session.fleet.source.control), session.observed(see=ticks.put_nowait):
        await turn(session, f"fsync_delay@{replica.name}={SLOW_DISK_MS}")
        await session.drive(LoadSettings(8, "update_index", 10_000))
        try:
            await look("grows")
            await turn(session, f"fsync_delay@{replica.name}=0")
        finally:
            await session.driving.stop()
        await look("drains")
    return found


@contextlib.asynccontextmanager
async def beats(source: Sql) -> AsyncIterator[None]:
    """The row gets the source's time meanwhile."""
    await execute(source, (f"CREATE TABLE {_TABLE} (id INT PRIMARY KEY, at DATETIME(6))",))

    async def beat() -> None:
        while True:
            await execute(source, (f"REPLACE INTO {_TABLE} VALUES (1, UTC_TIMESTAMP(6))",))
            await asyncio.sleep(BEAT_S)

    try:
        async with meanwhile(beat()):
            yield
    finally:
        await execute(source, (f"DROP TABLE {_TABLE}",))
