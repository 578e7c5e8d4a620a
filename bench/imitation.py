"""A captured workload beside what it was captured of: sysbench's oltp_read_write and its imitation, in turns.

sysbench runs while its server is captured; then both run on that server, each on tables of its own. Their
anatomies come from the same counters of the server, over the middle of each run; a closed loop's mean is its
clients over its TPS. sysbench counts what it commits: of the imitation that is without what ends with
ROLLBACK. On MariaDB, whose prepared statements have no text, sysbench sends plain ones.

Two things beside the imitation part it from sysbench, and each has a run of its own: the generator (our
`read_write` sends sysbench's statements and keys) and the keys (sysbench's, all of them equally likely, as a
capture must take them).
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from bench.figure import Figure, spread, tell
from bench.given_stack import print_figures
from bench.load_parity import DURABILITY, TABLE_SIZE, Run, median, our_run, sysbench_of
from replexplorer.adapters.mysql import Address, ControlConnection
from replexplorer.core.dialect.dialect import MARIADB_TIMED, MYSQL_TIMED, Timed
from replexplorer.core.server.anatomy import Anatomy, CommitPath, Served, dissect
from replexplorer.core.server.counters import CommitSample, Source, growth
from replexplorer.engine.session import Session
from replexplorer.engine.workload_capture.watch import capture
from replexplorer.engine.workload_capture.workload_file import write_workload
from replexplorer.ports import LoadSettings, LoadTarget
from tests.turning import turn

CLIENTS = 8
STATEMENTS = 20
"""Of a transaction of oltp_read_write, BEGIN and COMMIT among them."""
WITHIN = 0.15
_EDGE_S = 1.0
"""Of a run that its anatomy leaves out, on both sides."""


def connection_to(target: LoadTarget) -> ControlConnection:
    """A connection of its own, as `workload capture` has one."""

    async def locate() -> Address:
        return Address(target.host, target.port, "direct")

    return ControlConnection("db1", locate, target.user, target.password)


OURS, THEIRS = "imitation", "sysbench"
BUILT_IN, UNIFORM = "our read_write", "sysbench, uniform keys"


@dataclass
class Arm:
    """One of the loads that take turns."""

    run: Callable[[], Awaitable[Run]]
    runs: list[Run] = field(default_factory=list)
    anatomies: list[Anatomy] = field(default_factory=list)


async def figures(session: Session, *, quick: bool) -> list[Figure]:
    """TPS of the imitation by sysbench's, and how far the parts of a commit are apart."""
    target = await session.driving.target()
    await turn(session, *DURABILITY["durable"])
    length_s, rounds = (6.0, 3) if quick else (8.0, 6)
    settings = LoadSettings(CLIENTS, "read_write", TABLE_SIZE)
    account = session.fleet.credentials
    assert account is not None
    # Not by the load's account: an idle session of it would hide the wire.
    sql = connection_to(replace(target, user=account.control_user, password=account.control_password))
    try:
        is_maria = session.fleet.source.dialect.capabilities.flavor == "mariadb"
        timed = MARIADB_TIMED if is_maria else MYSQL_TIMED
        async with sysbench_of(target, prepares=not is_maria) as sysbench:
            running = asyncio.create_task(sysbench.run(settings, 2 * length_s))
            await asyncio.sleep(_EDGE_S)
            captured = await capture(
                sql, address="db1", seconds=2 * length_s - 3 * _EDGE_S, databases=["sandbox"]
            )
            await running
            imitation = write_workload(captured)
            script = imitation.workload or ""
            tell(script)
            imitated = LoadSettings(CLIENTS, "captured.sql", TABLE_SIZE, script=script)
            uniform = replace(sysbench, keys="uniform")
            arms = {
                THEIRS: Arm(lambda: sysbench.run(settings, length_s)),
                OURS: Arm(lambda: our_run(target, imitated, length_s)),
                BUILT_IN: Arm(lambda: our_run(target, settings, length_s)),
                UNIFORM: Arm(lambda: uniform.run(settings, length_s)),
            }
            for each in (imitated, settings):
                await our_run(target, each, 1.0)  # its tables are made
            for at in range(rounds):
                for arm in list(arms.values())[:: -1 if at % 2 else 1]:
                    seen, anatomy = await _watched(arm.run(), sql, timed, target.user, length_s)
                    arm.runs.append(seen)
                    arm.anatomies += [anatomy] if anatomy is not None else []
    finally:
        await sql.close()
    kept = sum(each.share for each in imitation.transactions if not each.rolled_back)
    ours = [replace(each, tps=each.tps * kept) for each in arms[OURS].runs]
    return [
        _tps(ours, arms[THEIRS].runs),
        _apart("I2", arms, OURS, THEIRS, script),
        _apart("I3", arms, OURS, BUILT_IN),
        _apart("I3", arms, BUILT_IN, THEIRS),
        _apart("I3", arms, UNIFORM, THEIRS),
    ]


async def _watched(
    run: Awaitable[Run], sql: ControlConnection, timed: Timed, user: str, length_s: float
) -> tuple[Run, Anatomy | None]:
    """A run, and its anatomy by the server's counters over its middle."""
    running = asyncio.ensure_future(run)
    await _under_way(running, sql, timed, user)
    await asyncio.sleep(_EDGE_S)
    before = await _sample(sql, timed, user)
    await asyncio.sleep(length_s - 2.5 * _EDGE_S)
    after = await _sample(sql, timed, user)
    seen = await running
    grown = growth(before, after)
    if grown is None:
        return seen, None
    queries = grown.total(Source.STATEMENT).times
    commits = max(1, queries // STATEMENTS)
    mean_ms = 1000 * CLIENTS * grown.duration_s / commits
    served = Served(grown.duration_s, commits, queries, mean_ms, CLIENTS, is_closed=True)
    return seen, dissect(grown, served, CommitPath())


async def _under_way(running: asyncio.Future[Run], sql: ControlConnection, timed: Timed, user: str) -> None:
    """Until its statements come: a process that starts and logs in is no part of a commit."""
    before = await _sample(sql, timed, user)
    while not running.done():
        await asyncio.sleep(0.1)
        now = await _sample(sql, timed, user)
        grown = growth(before, now)
        if grown is not None and grown.total(Source.STATEMENT).times > CLIENTS * STATEMENTS:
            return
        before = now


async def _sample(sql: ControlConnection, timed: Timed, user: str) -> CommitSample:
    question = timed.question(user)
    rows = await sql.query(question.statement, question.arguments)
    return CommitSample(asyncio.get_running_loop().time(), question.read(rows))


def _tps(ours: list[Run], theirs: list[Run]) -> Figure:
    ratio = median(ours, "tps") / median(theirs, "tps")
    return Figure(
        "I1",
        f"imitation of oltp_read_write, {CLIENTS} clients: TPS by sysbench's",
        f"{1 - WITHIN:g} to {1 + WITHIN:g}",
        f"{ratio:.3f}: {spread([run.tps for run in ours])} to {spread([run.tps for run in theirs])}, "
        f"p95 {median(ours, 'p95_ms'):.2f} to {median(theirs, 'p95_ms'):.2f} ms, "
        f"machine {max(median(ours, 'busy_percent'), median(theirs, 'busy_percent')):.0f} %",
        abs(ratio - 1) <= WITHIN,
        {"ours": [asdict(run) for run in ours], "sysbench": [asdict(run) for run in theirs]},
    )


def _apart(number: str, arms: Mapping[str, Arm], one: str, other: str, text: str = "") -> Figure:
    """Each part's mean over the runs; apart by a share of the mean commit of the `other`."""
    samples: dict[str, Any] = {
        who: [{part.value: ms for part, ms in each.parts.items()} for each in arms[who].anatomies]
        for who in (one, other)
    }
    what = f"oltp_read_write, parts of a commit, {one} to {other}: apart by the mean commit"
    wanted = f"<= {WITHIN:g}" if number == "I2" else "said"
    if not all(samples.values()):
        return Figure(number, what, wanted, "no anatomy was counted", None, samples)
    means = {who: _mean(arms[who].anatomies) for who in (one, other)}
    whole_ms = sum(means[other].values())
    names = [name for name in means[other] if name in means[one]]
    worst = max(abs(means[one][name] - means[other][name]) / whole_ms for name in names)
    told = ", ".join(f"{name} {means[one][name]:.2f} to {means[other][name]:.2f} ms" for name in names)
    tps = median(arms[one].runs, "tps") / median(arms[other].runs, "tps")
    samples["workload"] = text
    measured = f"{worst:.3f}: {told}; TPS {tps:.3f}"
    return Figure(number, what, wanted, measured, number != "I2" or worst <= WITHIN, samples)


def _mean(found: list[Anatomy]) -> dict[str, float]:
    """A part that one run lacks counts as none there."""
    names = {part for each in found for part in each.parts}
    return {
        part.value: sum(each.parts.get(part, 0.0) for each in found) / len(found) for part in sorted(names)
    }


def main() -> None:
    """Measure on a stack that runs already: `python -m bench.imitation STACK`."""
    print_figures(sys.argv[1], lambda session: figures(session, quick=bool(os.environ.get("QUICK"))))


if __name__ == "__main__":
    main()
