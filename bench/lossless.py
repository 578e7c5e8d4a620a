"""The promise of AFTER_SYNC with nothing relaxed: what clients were told survives every failure.

Failure after failure under eight clients of the `ledger` load while the state is PROTECTED: the source is
killed or loses its power, and its rows are compared on the replica as it is then and on the source after its
start; or it is cut off and killed for good, the replica takes over, and the old source joins it again. Twelve
failures, 3 with QUICK=1, 102 with WHOLE=1; a part (`lossless:failover`) are those of one kind.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from typing import Any, Final

from bench.figure import Figure, Wanted, tell
from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.fault import parse_fault
from replexplorer.core.loss.ledger import LossLedger
from replexplorer.core.server.protection import ProtectionState
from replexplorer.engine.session import Session
from tests.turning import turn
from tests.waiting import until

CLIENTS: Final = 8
WRITES_S: Final = 1.5
READY_WITHIN_S: Final = 180.0
SETTINGS: Final = (
    "semi_sync=on",
    "wait_point=after_sync",
    "semi_sync_timeout=600s",
    "sync_binlog=1",
    "innodb_flush_log_at_trx_commit=1",
    "undo_journal=on",
)
KILL, POWER_CUT, FAILOVER = "kill", "power_cut", "failover"
FAILURES: Final = (KILL, POWER_CUT, FAILOVER)


@dataclass(frozen=True)
class Failure:
    """One of them, and what it took."""

    kind: str
    replica: LossLedger
    """By the rows of the replica as the failure left it."""
    source: LossLedger
    """By those of the source when it was back; after a failover, when it follows the new one."""
    rejoined_by: str | None = None
    """How the old source joined the new one: `following` or `copy`."""

    def __str__(self) -> str:
        """In one line."""
        joined = "" if self.rejoined_by is None else f"; rejoined by {self.rejoined_by}"
        return (
            f"{self.kind}: lost {self.replica.lost} and {self.source.lost} of"
            f" {self.replica.acknowledged:,}, {self.replica.unknown} unknown{joined}"
        )


async def fail(session: Session, kind: str) -> Failure:
    """One failure under load."""
    rig, source = session.rig, session.fleet.source_name
    replica = session.fleet.replica_names[0]
    await rig.look()
    await turn(session, *SETTINGS)
    await rig.load.keep_ledger(clients=CLIENTS)
    await _until_protected(session)
    await asyncio.sleep(WRITES_S)
    await _until_protected(session)
    if kind == FAILOVER:
        return await _fail_over(session, source, replica)
    await session.console.inject(parse_fault(kind, session.fleet.roster))
    ours = await rig.count_losses(replica, failed_at_s=session.outside.clock.monotonic())
    await session.console.clear()
    await until(session.status, holds=lambda status: status.state == "up", within_s=READY_WITHIN_S)
    return Failure(kind, ours, await rig.count_losses(source))


async def _fail_over(session: Session, source: str, replica: str) -> Failure:
    """The replica takes over with clients at work, and the old source joins it again."""
    rig = session.rig
    for fault in ("partition=both", "kill"):
        await session.console.inject(parse_fault(fault, session.fleet.roster))
    failed_at_s = session.outside.clock.monotonic()
    change = await rig.roles.failover(since_s=failed_at_s, anyway=True)
    assert (change.source_before, change.source) == (source, replica)
    await asyncio.sleep(WRITES_S)
    ours = await rig.count_losses(replica, failed_at_s=failed_at_s)
    await session.console.clear()
    joined = await rig.rejoin(source)
    await until(session.status, holds=lambda status: status.state == "up", within_s=READY_WITHIN_S)
    how = "copy" if any(step.name.startswith("copy ") for step in joined.steps) else "following"
    return Failure(FAILOVER, ours, await rig.count_losses(source), how)


async def _until_protected(session: Session) -> None:
    """Wait until a replica has acknowledged."""
    await until(
        session.rig.look,
        holds=lambda seen: seen.protection.state is ProtectionState.PROTECTED,
        within_s=READY_WITHIN_S,
    )


async def figures(session: Session, wanted: Wanted) -> list[Figure]:
    """How many rows all failures lost together; the session's knobs are reset afterwards."""
    kinds = [kind for kind in FAILURES if wanted.takes(kind)]
    rounds = 34 if os.environ.get("WHOLE") else 1 if wanted.quick else 4
    found: list[Failure] = []
    what = f"AFTER_SYNC, 1/1, protected: acknowledged rows lost by {', '.join(kinds)}"
    try:
        for kind in kinds * rounds:
            found.append(await fail(session, kind))
            tell(str(found[-1]))
    except (ReplexplorerError, AssertionError) as error:
        told = f"ended after {len(found)} of {len(kinds) * rounds}: {error or type(error).__name__}"
        return [Figure("5", what, "0", told, False, _samples(found))]
    finally:
        await session.driving.stop()
        await session.console.clear()
        await session.console.reset()
    lost = sum(ledger.lost for each in found for ledger in (each.replica, each.source))
    acknowledged = sum(each.replica.acknowledged for each in found)
    told = f"{lost} of {acknowledged:,} in {len(found)} failures"
    return [Figure("5", what, "0", told, lost == 0, _samples(found))]


def _samples(found: list[Failure]) -> dict[str, list[Any]]:
    return {
        "failure": [each.kind for each in found],
        "acknowledged": [each.replica.acknowledged for each in found],
        "unknown": [each.replica.unknown for each in found],
        "lost_on_replica": [each.replica.lost for each in found],
        "lost_on_source": [each.source.lost for each in found],
        "unknown_present_on_replica": [each.replica.unknown_present for each in found],
        "phantom_reads": [each.replica.phantom_reads for each in found],
        "rejoined_by": [each.rejoined_by for each in found],
    }
