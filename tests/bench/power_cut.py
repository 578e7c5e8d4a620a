"""What a power cut and a kill lose in each durability mode: rows that clients were told of and that are gone.

A cut: eight clients of the `ledger` load write for some seconds, the source is cut or killed under them and
started again, and its rows are compared with what its clients were told. A few cuts by default; WHOLE=1 makes
ten of each and all modes, which takes an hour.
"""

from __future__ import annotations

import asyncio
import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.fault import parse_fault
from replexplorer.core.loss.ledger import LossLedger, reckon
from replexplorer.engine.asking import ask
from replexplorer.engine.console import Clear, Inject, Reset
from replexplorer.engine.session import Session
from tests.bench.figure import Figure
from tests.turning import turn

CLIENTS: Final = 8
WRITES_S: Final = 4.0
STARTS_WITHIN_S: Final = 120.0
FEW: Final = 100
"""Rows that a binlog flushed and not synced may hold back of the clients' last commits."""

POWER, KILL = "power_cut", "kill"


@dataclass(frozen=True)
class Mode:
    """One durability mode, how its source fails, and what is expected of the rows lost in each cut."""

    sync_binlog: int
    flush: int
    fault: str
    target: str
    holds: Callable[[Sequence[int]], bool]
    is_quick: bool = False

    @property
    def title(self) -> str:
        """`sync_binlog 1, flush 2: rows lost in a power cut`."""
        how = "a power cut" if self.fault == POWER else "a kill"
        return f"sync_binlog {self.sync_binlog}, flush {self.flush}: acknowledged rows lost in {how}"


def none(lost: Sequence[int]) -> bool:
    """No cut lost a row."""
    return not any(lost)


def few(lost: Sequence[int]) -> bool:
    """The last commits at most."""
    return max(lost) <= FEW


def many(lost: Sequence[int]) -> bool:
    """Most cuts lost what up to a second makes."""
    return statistics.median(lost) > 0


MODES: Final = (
    Mode(1, 1, POWER, "0", none, is_quick=True),
    Mode(1, 1, KILL, "0", none),
    Mode(1, 2, POWER, "> 0", many, is_quick=True),
    Mode(1, 2, KILL, "0", none),
    Mode(0, 1, POWER, f"<= {FEW} a cut", few, is_quick=True),
    Mode(0, 1, KILL, "0", none),
    Mode(0, 2, POWER, "> 0", many),
    Mode(0, 2, KILL, "0", none),
    Mode(0, 0, POWER, "> 0", many, is_quick=True),
    Mode(0, 0, KILL, "> 0", many),
    Mode(1000, 1, POWER, f"<= {FEW} a cut", few),
)


async def cut(session: Session, mode: Mode) -> LossLedger:
    """One failure under load, and the source's rows after its start."""
    rig, source = session.rig, session.fleet.source_name
    await rig.look()
    await turn(
        session,
        f"undo_journal={'on' if mode.fault == POWER else 'off'}",
        f"sync_binlog={mode.sync_binlog}",
        f"innodb_flush_log_at_trx_commit={mode.flush}",
    )
    await rig.load.keep_ledger(clients=CLIENTS)
    await asyncio.sleep(WRITES_S)
    await session.console.do(Inject(parse_fault(f"{mode.fault}@{source}", session.fleet.roster)))
    failed_at_s = session.outside.clock.monotonic()
    await rig.load.stop()
    log = await rig.load.client_log()
    await session.console.do(Clear())
    await _answers(session)
    member = session.fleet.member(source)
    executed = await ask(member.control, member.dialect.executed())
    rows = await ask(member.control, member.dialect.ledger_rows(log.run), deadline_s=STARTS_WITHIN_S)
    return reckon(
        log, {source: rows}, source, executed={source: executed}, failed_at_us=int(failed_at_s * 1e6)
    )


async def _answers(session: Session) -> None:
    """Wait until the source has recovered."""
    async with asyncio.timeout(STARTS_WITHIN_S):
        while True:
            try:
                if (await session.status()).state == "up":
                    return
            except ReplexplorerError:
                pass
            await asyncio.sleep(0.2)


async def figures(session: Session, *, quick: bool) -> list[Figure]:
    """The table of modes; the session's knobs are reset afterwards."""
    is_whole = bool(os.environ.get("WHOLE"))
    cuts = 10 if is_whole else 1 if quick else 3
    found: list[Figure] = []
    await turn(session, "semi_sync=off")
    try:
        for mode in MODES:
            if mode.is_quick or is_whole:
                found.append(figure_of(mode, [await cut(session, mode) for _ in range(cuts)]))
    finally:
        await session.driving.stop()
        await session.console.do(Clear())
        await session.console.do(Reset())
    return found


def figure_of(mode: Mode, ledgers: Sequence[LossLedger]) -> Figure:
    """One mode's line."""
    lost = [each.lost for each in ledgers]
    acknowledged = sum(each.acknowledged for each in ledgers)
    told = f"{sum(lost):,} of {acknowledged:,} in {len(lost)} ({min(lost):,} to {max(lost):,})"
    samples = {
        "lost": lost,
        "acknowledged": [each.acknowledged for each in ledgers],
        "unknown": [each.unknown for each in ledgers],
        "oldest_lost_age_ms": [each.oldest_lost_age_ms for each in ledgers],
    }
    return Figure("5", mode.title, mode.target, told, mode.holds(lost), samples)
