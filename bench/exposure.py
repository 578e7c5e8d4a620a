"""P13: what the exposure meter says just before a failure, beside what the failure took; and its cost.

Each cut: the `ledger` load of 8 clients, the meter looking all the time, then the power cut of the source, or
its isolation and kill; then the client log against the rows of the survivor: the source after its restart,
or the replica after its relay log was applied. What counts as "said just before" is the last look before the
server died, which a fault makes for itself (`ExposureWatch.last_whole`). Between it and the end some
milliseconds pass, and commits are told in them: they are known one by one from the client log, so the bounds
that are judged are `low` and `high` plus those. `low` is judged as it stands: where an fsync of the redo log
or a packet saved commits in that time, it is a miss; `fsyncs` says whether one can have been.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import statistics
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from bench import paired
from bench.anatomy_cost import ServerCpu
from bench.anatomy_cost import turn as turn_of_load
from bench.figure import Figure, Wanted, ratio_figure, tell
from bench.given_stack import meanwhile
from bench.paired import LIMIT_S, QUICK_LIMIT_S
from replexplorer.core.errors import ReplexplorerError
from replexplorer.core.server.exposure import Exposure, Loss, Unknown
from replexplorer.engine.observe.exposure_watch import EVERY_S
from replexplorer.engine.session import Session
from tests.turning import turn
from tests.waiting import until

CLIENTS = 8
RTTS_MS = (0, 10, 85)
CUT_MODES = ((1, 2), (0, 1), (0, 2), (0, 0), (1000, 1))
"""sync_binlog and innodb_flush_log_at_trx_commit with which a power cut loses something."""
LOST_MODES = ((1, 1), (1, 2), (0, 1))
"""Those with which a killed source comes back whole: it lives on after the cut."""
LEAST_S, MOST_S = 1.5, 2.6
"""How long the load runs before the cut: a flush comes once a second, and the cut at any part of it."""
WANTED, WITHIN = 40, 38
MOST_COST = 0.01
SETTLED_WITHIN_S = 60.0
LOOKS, LOOK_ROUNDS = 200, 7


@dataclass(frozen=True)
class Cut:
    """One failure: what was said of it and what it took."""

    kind: str
    """`power_cut` or `source_lost`."""
    sync_binlog: int
    flush: int
    rtt_ms: int
    said: Loss
    told_since: int
    """Commits that clients were told of after that look."""
    since_look_ms: float
    """From that look to the last commit that a client was told of."""
    acknowledged: int
    lost: int
    fsyncs: int | None = None
    """Of the source's redo log while the failure was carried out, the last look included."""

    @property
    def holds(self) -> bool:
        """What was lost lies within the bounds."""
        return self.said.low <= self.lost <= self.said.high + self.told_since

    @property
    def holds_as_said(self) -> bool:
        """So even without the commits since."""
        return self.said.low <= self.lost <= self.said.high

    def __str__(self) -> str:
        """In one line."""
        return (
            f"{self.kind} {self.sync_binlog}/{self.flush} {self.rtt_ms} ms: said {self.said.commits:,} "
            f"({self.said.low:,} to {self.said.high:,}), told since {self.told_since} in "
            f"{self.since_look_ms:.0f} ms, lost {self.lost:,} of {self.acknowledged:,}"
            f"{'' if self.holds else f': MISSED, with {self.fsyncs} redo fsyncs meanwhile'}"
        )


@dataclass(frozen=True)
class Cuts:
    """All cuts, and why others were not measured."""

    found: Sequence[Cut]
    failed: Sequence[str]


@contextlib.asynccontextmanager
async def looking(session: Session) -> AsyncIterator[None]:
    """The meter looks meanwhile, as often as the dashboard lets it."""
    exposures = session.state.exposures

    async def look() -> None:
        while True:
            await exposures.look()
            await asyncio.sleep(EVERY_S)

    async with meanwhile(look()):
        yield


async def settled(session: Session) -> None:
    """Wait until both servers answer and the replica has all that the source has."""
    ends_s = time.monotonic() + SETTLED_WITHIN_S
    while time.monotonic() < ends_s:
        await session.state.refresh()
        await session.state.exposures.look()
        seen = session.state.exposures.exposure()
        if seen is not None and isinstance(seen.source_lost, Loss) and not seen.source_lost.high:
            return
        await asyncio.sleep(0.2)
    raise RuntimeError("the replica did not catch up")


def _said(seen: Exposure, kind: str) -> Loss | Unknown:
    return seen.power_cut if kind == "power_cut" else seen.source_lost


async def _is_known(session: Session, kind: str) -> bool:
    """Whether the meter says a loss: of a redo log that no commit flushes it has to see a flush first, once a
    second."""
    last = session.rig.at_risk()
    return last is not None and isinstance(_said(last[1], kind), Loss)


async def cut(session: Session, kind: str, mode: tuple[int, int], rtt_ms: int, length_s: float) -> Cut:
    """One failure from a sound stack to a sound stack, but for what a power cut took of the binlog."""
    rig, sync_binlog, flush = session.rig, *mode
    source, replica = session.fleet.source_name, session.fleet.replica_names[0]
    knobs = (f"sync_binlog={sync_binlog}", f"innodb_flush_log_at_trx_commit={flush}", f"rtt={rtt_ms}")
    await turn(session, *knobs, *(("undo_journal=on",) if kind == "power_cut" else ()))
    await rig.load.keep_ledger(clients=CLIENTS)
    try:
        async with looking(session):
            await asyncio.sleep(length_s)
            await until(lambda: _is_known(session, kind), "the meter says what would be lost")
            before = await redo_fsyncs(session, source)
            if kind == "power_cut":
                await rig.inject("power_cut")
            else:
                await rig.inject("isolate")
                await rig.inject("kill")
            last = rig.at_risk()
            after = await redo_fsyncs(session, source)
        if last is None:
            raise RuntimeError("no look before the cut")
        at_s, seen = last
        await rig.load.stop()
        survivor = replica
        if kind == "power_cut":
            survivor = source
            await rig.clear("power_cut")
        ledger = await rig.count_losses(survivor)
        told_s = sorted(
            us / 1e6 for each in (await rig.load.client_log()).clients.values() for us in each.acknowledged_us
        )
    finally:
        await rig.load.stop()
        await rig.clear()
    said = _said(seen, kind)
    if not isinstance(said, Loss):
        raise RuntimeError(f"{kind} {mode} {rtt_ms} ms: the meter said: {said.why}")
    since = [each for each in told_s if each > at_s]
    return Cut(
        kind, sync_binlog, flush, rtt_ms, said,
        told_since=len(since),
        since_look_ms=1000 * (since[-1] - at_s) if since else 0.0,
        acknowledged=ledger.acknowledged,
        lost=ledger.lost,
        fsyncs=after - before,
    )  # fmt: skip


async def redo_fsyncs(session: Session, node: str) -> int:
    """How often a server has fsynced its redo log, as the shim in front of it counts, dead or alive."""
    return (await session.fleet.member(node).agent.disk()).fsyncs["redo"]


def cells(quick: bool) -> Iterator[tuple[str, tuple[int, int], int]]:
    """Kind, mode and round trip of each cut: first those after which source and replica are one again."""
    if quick:
        yield from (("source_lost", (1, 1), 10), ("source_lost", (1, 2), 85))
        yield from (("power_cut", (1, 2), 0), ("power_cut", (0, 1), 10), ("power_cut", (0, 0), 85))
        return
    for rtt_ms in RTTS_MS:
        for mode in LOST_MODES:
            yield from [("source_lost", mode, rtt_ms)] * 2
    for rtt_ms in RTTS_MS:
        for mode in CUT_MODES:
            yield from [("power_cut", mode, rtt_ms)] * 2


async def cuts(session: Session, wanted: Iterable[tuple[str, tuple[int, int], int]]) -> Cuts:
    """All of them, in order; what one lacks is kept beside the others."""
    found, failed = list[Cut](), list[str]()
    moments = random.Random(13)
    for kind, mode, rtt_ms in wanted:
        try:
            if kind == "source_lost":
                await settled(session)
            done = await cut(session, kind, mode, rtt_ms, moments.uniform(LEAST_S, MOST_S))
        except (ReplexplorerError, RuntimeError) as error:
            failed.append(f"{kind} {mode} {rtt_ms} ms: {error}")
            tell(failed[-1])
            continue
        found.append(done)
        tell(str(done))
    return Cuts(found, failed)


def title_of(kind: str, mode: tuple[int, int], rtt_ms: int) -> str:
    """`power_cut 0/1 85`: the failure, sync_binlog/innodb_flush_log_at_trx_commit, the round trip in ms."""
    return f"{kind} {mode[0]}/{mode[1]} {rtt_ms}"


def judged_cuts(done: Cuts) -> list[Figure]:
    """How many lie within the bounds, of those that had anything to lose."""
    exposed = [each for each in done.found if each.said.commits or each.lost]
    within = sum(each.holds for each in exposed)
    as_said = sum(each.holds_as_said for each in exposed)
    target = f">= {WITHIN} of {WANTED}"
    holds = within >= WITHIN / WANTED * len(exposed) if exposed else None
    words = f"{within} of {len(exposed)}; {as_said} without the commits told after the last look"
    samples = {"cuts": [asdict(each) for each in done.found], "not_measured": done.failed}
    return [Figure("P13", "cuts whose loss lies within what the meter said", target, words, holds, samples)]


async def cost(session: Session, limit_s: float) -> list[Figure]:
    """TPS and server CPU a commit, with the meter looking as the dashboard lets it and without, in turns."""
    await turn(session, "semi_sync=off", "sync_binlog=0", "innodb_flush_log_at_trx_commit=0", "rtt=0")
    await session.drive(replace(session.driving.settings(), clients=CLIENTS, workload="update_index"))
    cpu = ServerCpu(session.outside.provider.name)
    try:
        await one_turn(session, cpu, on=True)
        found = await paired.compare(lambda on: one_turn(session, cpu, on=on), "tps", limit_s)
    finally:
        cpu.close()
        await session.driving.stop()
    what = f"the meter looking against not, nothing durable, {CLIENTS} clients"
    return [
        ratio_figure("P13", f"TPS, {what}", found["tps"], least=1 - MOST_COST),
        ratio_figure("P13", f"server CPU a commit, {what}", found["cpu_us"], most=1 + MOST_COST),
    ]


async def cpu_of_looks(session: Session) -> Figure:
    """What the looks of a busy second take of the machine's CPU, in the source's server and in this app; one
    replica's server takes less than the source's, and is not counted."""
    cpu, exposures, shares = ServerCpu(session.outside.provider.name), session.state.exposures, list[float]()
    try:
        for _ in range(LOOK_ROUNDS):
            await exposures.look()
            server_s, own_s, began_s = cpu.seconds(), time.process_time(), time.monotonic()
            for _ in range(LOOKS):
                await exposures.look()
            took_s = time.monotonic() - began_s
            used_s = cpu.seconds() - server_s + time.process_time() - own_s
            idle_server_s, idle_own_s = cpu.seconds(), time.process_time()
            await asyncio.sleep(took_s)
            idle_s = cpu.seconds() - idle_server_s + time.process_time() - idle_own_s
            shares.append((used_s - idle_s) / LOOKS / EVERY_S / (os.cpu_count() or 1))
    finally:
        cpu.close()
    share = statistics.median(shares)
    return Figure(
        "P13",
        f"the machine's CPU that {1 / EVERY_S:.0f} looks a second take",
        f"<= {MOST_COST:.0%}",
        f"{share:.2%} ({min(shares):.2%} to {max(shares):.2%})",
        share <= MOST_COST,
        {"shares": shares},
    )


async def one_turn(session: Session, cpu: ServerCpu, *, on: bool) -> dict[str, float]:
    """Some seconds of the load, with the looks of the dashboard or without."""
    async with looking(session) if on else contextlib.nullcontext():
        return await turn_of_load(session, cpu, on=True)


async def figures(session: Session, wanted: Wanted) -> list[Figure]:
    """On an attached session whose load is not running; the knobs are left at their defaults, and after the
    power cuts the replica may lack what the source has: the stack is of no more use. The cuts come before
    the commits of the other turns, which a replica on few cores would have to apply first. A part are cuts
    (`title_of`) or `cost`."""
    try:
        found = [await cpu_of_looks(session)] if wanted.takes("cost") else []
        asked = [cell for cell in cells(wanted.quick) if wanted.takes(title_of(*cell))]
        if asked:
            found += judged_cuts(await cuts(session, asked))
        await session.console.reset()
        if wanted.takes("cost"):
            found += await cost(session, QUICK_LIMIT_S if wanted.quick else LIMIT_S)
        return found
    finally:
        await session.console.reset()
