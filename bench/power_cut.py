"""What a power cut and a kill lose in each durability mode: rows that clients were told of and that are gone.

A cut: eight clients of the `ledger` load write for some seconds, the source is cut or killed under them and
started again, and its rows are compared with what its clients were told, and with what its binlog and
gtid_executed say. A few cuts by default; WHOLE=1 makes ten of each and all modes, which takes half an hour.
"""

from __future__ import annotations

import asyncio
import os
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from bench.figure import Figure, Wanted, tell
from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.fault import parse_fault
from replexplorer.core.loss.client_log import CLIENTS_A_RUN
from replexplorer.core.loss.ledger import LossLedger, count_losses
from replexplorer.core.server.gtid import Spans, gtid_count, subtract_gtids
from replexplorer.engine.fleet import Member
from replexplorer.engine.session import Session
from replexplorer.ports import ask
from tests.turning import turn

CLIENTS: Final = 8
WRITES_S: Final = 4.0
STARTS_WITHIN_S: Final = 120.0
FEW: Final = 100
"""Rows that a binlog flushed and not synced may hold back of the clients' last commits."""

_ROW: Final = re.compile(r"INTO ledger \(client, seq\) VALUES \((\d+), (\d+)\)")

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
    def name(self) -> str:
        """`1/2 power_cut`."""
        return f"{self.sync_binlog}/{self.flush} {self.fault}"

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


@dataclass(frozen=True)
class Outcome:
    """What became of one run's rows on the source."""

    ledger: LossLedger
    executed: int
    """Lost rows whose GTIDs are in gtid_executed all the same, and in the binlog."""
    unlogged: int
    """Rows that are there and in no binlog any more."""

    def __str__(self) -> str:
        """In one line."""
        return (
            f"lost {self.ledger.lost:,} of {self.ledger.acknowledged:,}, {self.executed:,} of them executed"
            f" by GTID; {self.unlogged:,} rows in no binlog"
        )


async def cut(session: Session, mode: Mode) -> Outcome:
    """One failure under load, and the source's rows, GTIDs and binlogs after its start."""
    rig, source = session.rig, session.fleet.source_name
    await rig.look()
    await turn(
        session,
        f"undo_journal={'on' if mode.fault == POWER else 'off'}",
        f"sync_binlog={mode.sync_binlog}",
        f"innodb_flush_log_at_trx_commit={mode.flush}",
    )
    member = session.fleet.member(source)
    # A row's statement stands in the binlog beside it: sessions that begin from now on write it there.
    await member.control.query("SET GLOBAL binlog_rows_query_log_events = ON")
    await member.control.query("FLUSH BINARY LOGS")
    begins = (await ask(member.control, member.dialect.binlogs))[-1][0]
    await rig.load.keep_ledger(clients=CLIENTS)
    await asyncio.sleep(WRITES_S)
    await session.console.inject(parse_fault(f"{mode.fault}@{source}", session.fleet.roster))
    failed_at_s = session.outside.clock.monotonic()
    await rig.load.stop()
    log = await rig.load.client_log()
    await session.console.clear()
    await _answers(session)
    executed = await ask(member.control, member.dialect.executed)
    rows = await ask(member.control, member.dialect.ledger_rows(log.run), deadline_s=STARTS_WITHIN_S)
    ledger = count_losses(
        log, {source: rows}, source, executed={source: executed}, failed_at_us=int(failed_at_s * 1e6)
    )
    logged = await _logged_rows(member, log.run, begins)
    there = {(client, seq) for client, spans in rows.items() for seq in _each(spans)}
    told = {(client, seq) for client, each in log.clients.items() for seq in _each(each.acknowledged)}
    lost = [gtid for row, gtid in logged.items() if row in told and row not in there]
    gone = gtid_count(subtract_gtids(", ".join(lost), executed)) if lost else 0
    return Outcome(ledger, len(lost) - gone, len(there - logged.keys()))


def _each(spans: Spans) -> Iterator[int]:
    for first, last in spans:
        yield from range(first, last + 1)


async def _logged_rows(member: Member, run: int, begins: str) -> dict[tuple[int, int], str]:
    """Each row of the run that a binlog has from one on, with its GTID; raises StackUnavailable for none of
    them where there are such binlogs."""
    found: dict[tuple[int, int], str] = {}
    for name, _ in await ask(member.control, member.dialect.binlogs):
        if name < begins:
            continue
        gtid = ""
        for event in await member.control.query(
            f"SHOW BINLOG EVENTS IN '{name}'", deadline_s=STARTS_WITHIN_S
        ):
            info = str(event["Info"])
            if event["Event_type"] == "Gtid":
                gtid = info.split("'")[1]
            elif event["Event_type"] == "Rows_query" and (row := _ROW.search(info)):
                client, seq = int(row[1]) - run * CLIENTS_A_RUN, int(row[2])
                found[client, seq] = gtid
    return found


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


async def figures(session: Session, wanted: Wanted) -> list[Figure]:
    """The table of modes; the session's knobs are reset afterwards. A part are modes (`Mode.name`)."""
    is_whole = bool(os.environ.get("WHOLE"))
    cuts = 10 if is_whole else 1 if wanted.quick else 3
    found: list[Figure] = []
    # What a relaxed source has lost its replica may have: it is of no use here.
    await session.rig.attach(0)
    await turn(session, "semi_sync=off")
    try:
        for mode in MODES:
            if wanted.takes(mode.name) and (mode.is_quick or is_whole or wanted.part):
                outcomes: list[Outcome] = []
                while len(outcomes) < cuts:
                    outcomes.append(await cut(session, mode))
                    tell(f"{mode.name}: {outcomes[-1]}")
                found.append(figure_of(mode, outcomes))
    finally:
        await session.driving.stop()
        await session.console.clear()
        await session.console.reset()
    return found


def figure_of(mode: Mode, outcomes: Sequence[Outcome]) -> Figure:
    """One mode's line."""
    ledgers = [each.ledger for each in outcomes]
    lost = [each.lost for each in ledgers]
    acknowledged = sum(each.acknowledged for each in ledgers)
    executed, unlogged = (
        sum(each.executed for each in outcomes),
        sum(each.unlogged for each in outcomes),
    )
    told = (
        f"{sum(lost):,} of {acknowledged:,} in {len(lost)} ({min(lost):,} to {max(lost):,}); {executed:,} of"
        f" them executed by GTID; {unlogged:,} others there and in no binlog"
    )
    samples = {
        "lost": lost,
        "acknowledged": [each.acknowledged for each in ledgers],
        "unknown": [each.unknown for each in ledgers],
        "oldest_lost_age_ms": [each.oldest_lost_age_ms for each in ledgers],
        "lost_and_executed": [each.executed for each in outcomes],
        "there_and_unlogged": [each.unlogged for each in outcomes],
    }
    return Figure("5", mode.title, mode.target, told, mode.holds(lost), samples)
