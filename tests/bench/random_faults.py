"""Fault after fault on one stack: each is cleared, and in the end all nodes have the same rows.

Kinds, values and nodes are drawn at random, always the same ones in one version of this file, while eight
clients of the `ledger` load write under AFTER_SYNC with nothing relaxed. What `fault clear` alone does not
bring back - a server that ended itself on a full disk - `up` does, which is counted. Fifty faults, ten with
QUICK=1.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Final

from replexplorer.core.errors import ReplexplorerError, UsageError
from replexplorer.core.fault import KINDS, FaultKind, parse_fault
from replexplorer.core.loss.ledger import LossLedger
from replexplorer.core.topology import Roster
from replexplorer.engine.console import Clear, Inject, Repair, Reset
from replexplorer.engine.session import Session
from tests.bench.figure import Figure
from tests.bench.lossless import CLIENTS, SETTINGS
from tests.turning import turn
from tests.waiting import until

SEED: Final = 20261122
HOLDS_S: Final = (0.5, 4.0)
"""The shortest and the longest time that a fault is left."""
CLEARED_WITHIN_S: Final = 20.0
REPAIRED_WITHIN_S: Final = 180.0


@dataclass
class Faulted:
    """What became of the faults."""

    done: Counter[str] = field(default_factory=Counter)
    """By kind."""
    repaired: list[str] = field(default_factory=list)
    """Those after which the stack was well only after a repair."""
    ledger: LossLedger | None = None
    """All rows of all clients, at the end."""


def drawn(random: Random, roster: Roster) -> str:
    """A fault as it would be typed."""
    kind = random.choice(KINDS)
    value = _value(random, kind)
    node = random.choice(roster.others if kind.on_replicas else roster.names)
    return f"{kind.key}{'' if value is None else f'={value}'}@{node}"


def _value(random: Random, kind: FaultKind) -> str | None:
    if kind.values:
        return random.choice(kind.values)
    if kind.unit == "ms":
        return str(random.randint(20, 500))
    return None


async def one_after_the_other(session: Session, number: int) -> Faulted:
    """Inject, wait and clear this many faults under load, then compare the rows of all nodes."""
    random, found = Random(SEED), Faulted()
    rig = session.rig
    await rig.look()
    await turn(session, *SETTINGS, *(f"undo_journal@{name}=on" for name in session.fleet.replica_names))
    await rig.load.keep_ledger(clients=CLIENTS)
    for _ in range(number):
        text = drawn(random, session.fleet.roster)
        await session.console.do(Inject(parse_fault(text, session.fleet.roster)))
        await asyncio.sleep(random.uniform(*HOLDS_S))
        try:
            await session.console.do(Clear())
            await _until_well(session, CLEARED_WITHIN_S)
        except (ReplexplorerError, AssertionError):
            await session.console.do(Repair())
            await _until_well(session, REPAIRED_WITHIN_S)
            found.repaired.append(text)
        found.done[text.partition("@")[0].partition("=")[0]] += 1
    found.ledger = await rig.reckon(session.fleet.source_name)
    return found


async def _until_well(session: Session, within_s: float) -> None:
    """Wait until every node answers, every replica replicates, and no fault is in force."""
    await until(
        session.status,
        holds=lambda status: (
            status.state == "up"
            and not status.faults
            and all(node.io_thread == node.sql_thread == "on" for node in status.nodes if not node.is_source)
        ),
        within_s=within_s,
    )


async def figures(session: Session, *, quick: bool) -> list[Figure]:
    """One line; the session's knobs are reset afterwards."""
    number = 10 if quick else 50
    what = f"{number} random faults in a row, each cleared: rows missing or extra on any node; lost"
    try:
        found = await one_after_the_other(session, number)
    except (ReplexplorerError, UsageError, AssertionError) as error:
        return [Figure("5", what, "0; 0", f"ended early: {error or type(error).__name__}", False)]
    finally:
        await session.driving.stop()
        await session.console.do(Clear())
        await session.console.do(Reset())
    ledger = found.ledger
    assert ledger is not None
    differing = sum(node.missing + node.extra for node in ledger.nodes.values())
    kinds = ", ".join(f"{kind} {times}" for kind, times in sorted(found.done.items()))
    told = (
        f"{differing}; {ledger.lost} of {ledger.acknowledged:,}, {ledger.unknown} unknown ({kinds};"
        f" repaired after {len(found.repaired)})"
    )
    holds = differing == ledger.lost == 0 and len(ledger.nodes) == len(session.fleet.members)
    return [
        Figure("5", what, "0; 0", told, holds, {"repaired_after": found.repaired, "kinds": dict(found.done)})
    ]
