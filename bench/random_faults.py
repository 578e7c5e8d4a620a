"""Failures drawn at random, with failover and rejoin: all nodes end alike, and each loss was said.

Three nodes, eight clients of the `ledger` load. Each round draws durability, semi-sync, a failure of the
source, and perhaps a receiver that is stopped or writes by hand on a replica before it. A replica takes over,
a loss is accepted only where the failover is refused without, the fault is cleared, and every node rejoins.
Then rows and table checksums of all nodes are compared with each other and with what was said. Fifty rounds,
ten with QUICK=1; `faults:12` are twelve, `faults:3@20261122-17` three from that seed's round 17 on.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from bench.figure import Figure, Wanted, tell
from bench.lossless import CLIENTS
from replexplorer.core.errors import ReplexplorerError, StackUnavailable
from replexplorer.core.fault import parse_fault
from replexplorer.core.loss.ledger import LossLedger
from replexplorer.core.role_change import RoleChange
from replexplorer.core.server.gtid import gtid_count
from replexplorer.core.topology import link_between
from replexplorer.engine.session import Session
from replexplorer.ports import execute
from tests.turning import turn
from tests.waiting import until

SEED: Final = 20261122
WRITES_S: Final = (0.5, 3.0)
"""The shortest and the longest time that clients write before a failure, and before something beside it."""
GOES_ON_S: Final = 1.0
READY_WITHIN_S: Final = 180.0
FAILURES: Final = (
    "kill",
    "stop",
    "pause",
    "isolate",
    "power_cut=strict",
    "power_cut=aged",
    "power_cut=torn",
    "power_cut=strict",
    "power_cut=torn",
)
AHEAD, AHEAD_AND_CUT = "the other follows no source", "the other follows no source and is cut off"
BESIDE: Final = ("", "", "receiver_stop", "applier_stop", "stray writes", AHEAD, AHEAD_AND_CUT)
STRAYS: Final = 25
TABLE: Final = "sandbox.ledger"
_ACCEPTS: Final = re.compile(r"failover --to (\w+) --accept-loss")


@dataclass(frozen=True)
class Drawn:
    """What one round does."""

    settings: tuple[str, ...]
    failure: str
    beside: str
    at: int
    """Which of the two replicas something is done to."""
    writes_s: tuple[float, float]

    @classmethod
    def of(cls, seed: int, number: int) -> Drawn:
        """Always the same of a seed and a round."""
        random = Random(f"{seed}-{number}")
        semi_sync = random.choice(("off", "on", "on"))
        return cls(
            (
                f"sync_binlog={random.choice((0, 1, 1, 1000))}",
                f"innodb_flush_log_at_trx_commit={random.choice((0, 1, 1, 2))}",
                f"wait_point={random.choice(('after_sync', 'after_commit'))}",
                f"semi_sync={semi_sync}",
            ),
            random.choice(FAILURES),
            random.choice(BESIDE),
            random.randrange(2),
            (random.uniform(*WRITES_S), random.uniform(*WRITES_S)),
        )

    def __str__(self) -> str:
        """`power_cut=torn after stray writes (sync_binlog=0 ...)`."""
        beside = f" after {self.beside}" if self.beside else ""
        return f"{self.failure}{beside} ({' '.join(self.settings)})"


@dataclass
class Campaign:
    """What became of the rounds."""

    kinds: Counter[str] = field(default_factory=Counter)
    rounds: list[dict[str, Any]] = field(default_factory=list)
    """Seed, what was drawn, said and counted, of each round that is over."""
    wrong: list[str] = field(default_factory=list)
    """Rounds after which rows differed, or more or less was lost than was said."""


async def _round(session: Session, drawn: Drawn) -> tuple[RoleChange, int, LossLedger, list[str]]:
    """One failure: the failover, the transactions that rejoins said are lost, the ledger of all nodes, and in
    what the nodes differ."""
    rig, console = session.rig, session.console
    await rig.look()
    await turn(session, *drawn.settings, *(f"undo_journal@{name}=on" for name in session.fleet.members))
    await rig.load.keep_ledger(clients=CLIENTS)
    await asyncio.sleep(drawn.writes_s[0])
    replica = session.fleet.replica_names[drawn.at]
    if drawn.beside == "stray writes":
        await _stray(session, replica)
    elif drawn.beside:
        kind = "receiver_stop" if drawn.beside in (AHEAD, AHEAD_AND_CUT) else drawn.beside
        await console.inject(parse_fault(f"{kind}@{replica}", session.fleet.roster))
    await asyncio.sleep(drawn.writes_s[1])
    between = f"partition@{link_between(*session.fleet.replica_names)}"
    if drawn.beside in (AHEAD, AHEAD_AND_CUT):
        other = session.fleet.member(session.fleet.replica_names[1 - drawn.at])
        await execute(other.control, (other.dialect.stop_threads, *other.dialect.follow_nobody))
    if drawn.beside == AHEAD_AND_CUT:
        await turn(session, f"{between}=both")
    await console.inject(parse_fault(drawn.failure, session.fleet.roster))
    failed_at_s = session.outside.clock.monotonic()
    if drawn.failure == "isolate":  # a source that answers its operator is refused until it is ended
        await session.fleet.server_process(session.fleet.source_name).kill()
    try:
        change = await console.failover(since_s=failed_at_s)
    except StackUnavailable as refused:
        named = _ACCEPTS.search(str(refused))
        if named is None:
            raise
        tell(f"  refused: {refused}")
        change = await console.failover(named[1], failed_at_s, accept_loss=True)
    await asyncio.sleep(GOES_ON_S)
    await session.driving.stop()
    await console.clear()
    if drawn.beside == AHEAD_AND_CUT:
        await session.state.refresh()
        await turn(
            session,
            *(
                f"{name}=none"
                for name in map(str, session.state.requested.values)
                if name.startswith("partition@")
            ),
        )
    given_up = 0
    for name in session.fleet.replica_names:
        given_up += (await console.rejoin(name)).rpo.commits or 0
    await _until_whole(session)
    ledger = await rig.count_losses(session.fleet.source_name, failed_at_s=failed_at_s)
    return change, given_up, ledger, await _differences(session)


async def _stray(session: Session, node: str) -> None:
    """As somebody does who takes a replica for the source."""
    member = session.fleet.member(node)
    inserts = ("INSERT INTO stray.t () VALUES ()",) * STRAYS
    makes = ("CREATE DATABASE IF NOT EXISTS stray", "CREATE TABLE IF NOT EXISTS stray.t (id SERIAL)")
    await execute(member.control, (*member.dialect.open_for_writes, *makes, *inserts), deadline_s=30)
    await execute(member.control, member.dialect.refuse_writes)


async def _until_whole(session: Session) -> None:
    """Wait until every node answers, replicates, and has nothing that sets it apart."""
    await until(
        session.status,
        holds=lambda status: (
            status.state == "up"
            and not status.faults
            and all(node.io_thread == node.sql_thread == "on" for node in status.nodes if not node.is_source)
            and not any(node.errant_gtids or node.diverged for node in status.nodes)
        ),
        within_s=READY_WITHIN_S,
    )


async def _differences(session: Session) -> list[str]:
    """GTID sets, tables and checksums that are not those of the source, once all is applied."""
    source = session.fleet.source
    executed = (await source.control.query("SELECT @@GLOBAL.gtid_executed AS e"))[0]["e"]
    found: dict[str, dict[str, object]] = {}
    for name, member in session.fleet.members.items():
        waited = f"SELECT WAIT_FOR_EXECUTED_GTID_SET('{executed}', 60) AS late".replace("\n", "")
        late = (await member.control.query(waited, deadline_s=70))[0]["late"]
        tables = await member.control.query(
            "SELECT CONCAT(table_schema, '.', table_name) AS t FROM information_schema.tables WHERE"
            " table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')"
        )
        names = ", ".join(sorted(str(row["t"]) for row in tables))
        sums = await member.control.query(f"CHECKSUM TABLE {names}", deadline_s=60)
        found[name] = {"late": late, **{str(row["Table"]): row["Checksum"] for row in sums}}
    ours = found[source.name]
    return [
        f"{name}.{key}: {there.get(key)}, {source.name} has {ours.get(key)}"
        for name, there in found.items()
        for key in sorted(ours.keys() | there.keys())
        if there.get(key) != ours.get(key)
    ]


async def campaign(session: Session, seed: int, first: int, number: int) -> Campaign:
    """So many rounds; a round that ends early ends it, and is among the wrong ones."""
    found = Campaign()
    await session.console.scale(2)
    for at in range(first, first + number):
        drawn = Drawn.of(seed, at)
        title = f"{seed}-{at}: {drawn}"
        tell(title)
        try:
            change, given_up, ledger, differ = await _round(session, drawn)
        except (ReplexplorerError, AssertionError) as error:
            found.wrong.append(f"{title}: ended early: {error or type(error).__name__}")
            tell(f"  {found.wrong[-1]}")
            break
        said = change.rpo.commits
        nodes = {name: (node.missing, node.extra) for name, node in ledger.nodes.items()}
        accepted = gtid_count(change.rpo.accepted)
        tell(
            f"  {change.source_before} -> {change.source}: said {said}, lost {ledger.lost} of"
            f" {ledger.acknowledged:,}; accepted {accepted}, given up by rejoins {given_up}; {nodes}"
        )
        differ += [
            f"{name}: {missing} missing, {extra} extra"
            for name, (missing, extra) in nodes.items()
            if missing != ledger.lost or extra
        ]
        if differ or said != ledger.lost or len(nodes) != len(session.fleet.members):
            found.wrong.append(f"{title}: said {said}, lost {ledger.lost}; {'; '.join(differ)}")
            tell(f"  WRONG {found.wrong[-1]}")
        found.kinds[drawn.failure] += 1
        found.rounds.append(
            {"seed": f"{seed}-{at}", "drawn": str(drawn), "said": said, "lost": ledger.lost}
            | {"acknowledged": ledger.acknowledged, "accepted": accepted, "given_up": given_up}
        )
    return found


async def figures(session: Session, wanted: Wanted) -> list[Figure]:
    """One line; the session's knobs are reset afterwards. A part is a number of rounds, and from which on."""
    number, _, begins = wanted.part.partition("@")
    seed, _, first = begins.partition("-")
    rounds = int(number or (10 if wanted.quick else 50))
    what = (
        "random failures with failover and rejoin: rounds after which nodes differ, or the loss was not said"
    )
    try:
        found = await campaign(session, int(seed or SEED), int(first or 0), rounds)
    finally:
        await session.driving.stop()
        await session.console.clear()
        await session.console.reset()
    lost, said = (sum(each[key] or 0 for each in found.rounds) for key in ("lost", "said"))
    kinds = ", ".join(f"{kind} {times}" for kind, times in sorted(found.kinds.items()))
    told = (
        f"{len(found.wrong)} of {len(found.rounds)} ({kinds}); {said} said to be lost, {lost} lost of"
        f" {sum(each['acknowledged'] for each in found.rounds):,}"
    )
    holds = not found.wrong and len(found.rounds) == rounds
    return [Figure("5", what, "0", told, holds, {"rounds": found.rounds, "wrong": found.wrong})]
