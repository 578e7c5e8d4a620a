"""The promise of AFTER_SYNC with nothing relaxed: what clients were told survives every failure.

Failure after failure under eight clients of the `ledger` load while the state is PROTECTED: the source is
killed, loses its power, or is cut off and killed for good. Rows are compared on the replica as it is then,
and on the source after its start. Twelve failures, 3 with QUICK=1, 102 with WHOLE=1.
"""

from __future__ import annotations

import asyncio
import os
from itertools import cycle, islice
from typing import Final

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.fault import parse_fault
from replexplorer.core.loss.ledger import LossLedger
from replexplorer.core.server.protection import ProtectionState
from replexplorer.engine.console import Clear, Inject, Reset
from replexplorer.engine.session import Session
from tests.bench.figure import Figure
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
FAILURES: Final = (("kill",), ("power_cut",), ("partition=both", "kill"))


async def fail(session: Session, faults: tuple[str, ...]) -> tuple[LossLedger, LossLedger]:
    """One failure under load: the ledgers of the replica, and of the source when it is back."""
    rig, source = session.rig, session.fleet.source_name
    replica = session.fleet.replica_names[0]
    await rig.look()
    await turn(session, *SETTINGS)
    await rig.load.keep_ledger(clients=CLIENTS)
    await _until_protected(session)
    await asyncio.sleep(WRITES_S)
    await _until_protected(session)
    for fault in faults:
        await session.console.do(Inject(parse_fault(fault, session.fleet.roster)))
    ours = await rig.reckon(replica, failed_at_s=session.outside.clock.monotonic())
    await session.console.do(Clear())
    await until(session.status, holds=lambda status: status.state == "up", within_s=READY_WITHIN_S)
    return ours, await rig.reckon(source)


async def _until_protected(session: Session) -> None:
    """Wait until a replica has acknowledged."""
    await until(
        session.rig.look,
        holds=lambda seen: seen.protection.state is ProtectionState.PROTECTED,
        within_s=READY_WITHIN_S,
    )


async def figures(session: Session, *, quick: bool) -> list[Figure]:
    """How many rows all failures lost together; the session's knobs are reset afterwards."""
    failures = 102 if os.environ.get("WHOLE") else len(FAILURES) if quick else 12
    found: list[tuple[LossLedger, LossLedger]] = []
    try:
        for faults in islice(cycle(FAILURES), failures):
            found.append(await fail(session, faults))
    except (ReplexplorerError, AssertionError) as error:
        told = f"ended after {len(found)} of {failures} failures: {error or type(error).__name__}"
        return [Figure("5", "AFTER_SYNC, 1/1, protected", "0", told, False, _samples(found))]
    finally:
        await session.driving.stop()
        await session.console.do(Clear())
        await session.console.do(Reset())
    lost = sum(ledger.lost for both in found for ledger in both)
    acknowledged = sum(replica.acknowledged for replica, _ in found)
    return [
        Figure(
            "5",
            f"AFTER_SYNC, 1/1, protected: acknowledged rows lost in {failures} failures",
            "0",
            f"{lost} of {acknowledged:,}",
            lost == 0,
            _samples(found),
        )
    ]


def _samples(found: list[tuple[LossLedger, LossLedger]]) -> dict[str, list[int]]:
    return {
        "acknowledged": [replica.acknowledged for replica, _ in found],
        "unknown": [replica.unknown for replica, _ in found],
        "lost_on_replica": [replica.lost for replica, _ in found],
        "lost_on_source": [source.lost for _, source in found],
        "unknown_present_on_replica": [replica.unknown_present for replica, _ in found],
        "phantom_reads": [replica.phantom_reads for replica, _ in found],
    }
