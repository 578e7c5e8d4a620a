"""What each part of the dashboard draws of a tick at each size, with its inks, as pictures.

That nothing is cut, moves or cannot be read is what `test_every_screen.py` looks for.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import zip_longest

import pytest
from _pytest.mark import ParameterSet
from syrupy.assertion import SnapshotAssertion

from replexplorer.core.knobs.names import parse_name
from replexplorer.core.load.interval import SERVER, LoadView
from replexplorer.core.server.anatomy import Anatomy, Part
from replexplorer.core.server.exposure import silent
from replexplorer.core.server.node_view import Membership
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.server.truth import ReplicaTruth
from replexplorer.core.tick import Tick
from replexplorer.core.topology import Belonging, Role
from tests.known import known
from tests.ticks import altered, explained, make_tick, tick_of, ticks_of
from tests.typed import table_of
from tests.ui.driving import Bench, bench, page

SIZES = {
    "X": (300, 45),
    "L": (200, 45),
    "W": (160, 45),
    "M": (150, 45),
    "N": (120, 36),
    "S": (80, 24),
    "T": (60, 16),
}
EXPLAINED = tick_of("explained")
ONLINE = Membership(Belonging.MEMBER, "ONLINE", size=3, answering=3, queued=0, to_apply=0, conflicts=0)
UNQUEUED = replace(ONLINE, queued=None, to_apply=None, gave_way=2)
JOINING = replace(ONLINE, belongs=Belonging.JOINING, state="RECOVERING")
OUTSIDE = replace(ONLINE, belongs=Belonging.OUTSIDE, state="ERROR")


def grouped(*members: Membership) -> Tick:
    """Nodes that say this of their group; the first takes writes."""
    roles = {Belonging.MEMBER: Role.SECONDARY, Belonging.JOINING: Role.JOINING}
    tick = tick_of("replicas=2 system=group")
    for node, member in zip(tick.nodes, members, strict=True):
        role = Role.PRIMARY if node.is_source else roles.get(member.belongs, Role.DETACHED)
        threads = dict.fromkeys(("io_thread", "sql_thread", "lag_s"))
        tick = altered(
            tick, **{node.name: {"role": role, "state": member.state, "member": member, **threads}}
        )
    return tick


def attached(mean_ms: float | None = 3.4) -> Tick:
    """What is known of other people's servers and load."""
    load = LoadView(0, 0, "", 340.0, n=170, duration_s=0.5, mean_ms=mean_ms, state=SERVER)
    parts = {Part.REDO: 1.2, Part.BINLOG: 1.5, Part.OTHER: 0.7}
    untimed = Part.QUEUE, Part.ENGINE
    anatomy = None if mean_ms is None else Anatomy(10.0, 3400, mean_ms, parts, 0.0, untimed)
    return replace(make_tick(1.0), load=load, links=(), disks=(), ceiling=None, anatomy=anatomy)


def parts(**parts_ms: float) -> Tick:
    """A commit that consists of these."""
    found = {Part(name): ms for name, ms in parts_ms.items()}
    return replace(EXPLAINED, anatomy=Anatomy(5.0, 900, sum(parts_ms.values()), found))


def limited(limit: str) -> Tick:
    return replace(EXPLAINED, predicted=replace(known(EXPLAINED.predicted), limit=limit))


LIMIT = "redo and binlog fsync: 48 % of a commit"
LATE = (ReplicaTruth("db3", 4300.0, 985, 1.0), ReplicaTruth("db2", 3100.0, 59_850, 1.0))
BASES = {
    "WHOLE-GROUP": grouped(ONLINE, ONLINE, ONLINE),
    "COUNTING": grouped(*(replace(UNQUEUED, conflicts=number) for number in (1, 2, 3))),
    "ONE-JOINS": grouped(ONLINE, JOINING, OUTSIDE),
    "LATE": replace(
        explained(make_tick(replicas=2)), truth=replace(known(EXPLAINED.truth), replicas=LATE)
    ),
    "ATTACHED": attached(),
    "UNTIMED": attached(None),
    "LIMIT": limited(LIMIT),
    "ADVICE": limited(f"{LIMIT}; twice the clients would give 1.4 times the TPS"),
    "FAILED": explained(make_tick(), failed=True),
    "EXCESS": explained(make_tick(), excess_ms=12.0),
    "BY-LITTLE": explained(make_tick(), excess_ms=8.0),
    "NINE-PARTS": parts(
        wire=11.2, execute=2.8, fsync_queue=5.0, redo=9.9, binlog=4.0, ack_queue=12.0, ack=14.0, engine=0.7,
        other=0.1,
    ),
    "FEW-PARTS": parts(execute=2.8, binlog=0.0, engine=0.7, other=1240.0),
    "SILENT": make_tick(exposure=silent("not reached")),
}  # fmt: skip
"""What a line of words has no words for."""


LAX = "sync_binlog=0 innodb_flush_log_at_trx_commit=2"
FULL_CORE = "load.limited='generator at 97 % of a core' load.qps=3000.0 load.processes=1"
FAILURES = "load.errors=12 load.unknown=3 load.reconnects=4 load.driver='load (pid 123)'"
WAITED = "protection.replicas_acking=1"
FAILED_OVER = "replicas=2 db1.is_source=False db1.role=detached db2.is_source=True db2.role=primary"
BUSY = "load.mode=open load.rate_asked_tps=500.0"
DROPS = "; ".join(
    f"{1 + at / 2} load.mode=open load.backlog={40 * at} load.dropped={6 * (at > 3)}" for at in range(8)
)
STATES = "\n".join(
    f"{state}, with another's load and failures | state={state} viewer {FAILURES}"
    for state in ProtectionState
)

HEADERS = f"""\
all is well                      |
{STATES}
another drives                   | viewer load.state=viewer load.driver='lab tour (pid 7)'
its only link is cut             | state=blocked partition@db2=ack
one link of two is cut           | replicas=2 partition@db3=dump
both links are cut alike         | replicas=2 partition@db3=both partition@db2=both
and unlike                       | replicas=2 partition@db3=dump partition@db2=both
healed                           | healing
not durable                      | {LAX}
not durable by hand              | sync_binlog.effective=0
so asked for, and not known yet  | sync_binlog.effective=None sync_binlog.requested=0
a replica is down                | down=db2
a thread has an error            | db2.sql_thread=error
a replica is down by a fault     | sync_binlog=0 down=db2 fault=kill@db2
one fault of two nodes           | replicas=2 fault=applier_stop@db2,applier_stop@db3
two faults, and what they bring  | sync_binlog=0 partition@db2=both fault=isolate@db1,disk_stall@db1
many commits wait                | state=blocked {WAITED} protection.oldest_wait_s=6.4 protection.waiting=32
how many is not known            | state=blocked {WAITED} protection.oldest_wait_s=6.4
one commit waits                 | state=blocked {WAITED} protection.oldest_wait_s=6.4 protection.waiting=1
registered, and blocked          | state=blocked {WAITED}
registered, and no acknowledgement can come | {WAITED} protection.no_ack_can_come=True
after a heal the old dump thread counts beside the new one | {WAITED} protection.replicas_counted=2
of a file from before its own count | protection.replicas_acking=2
a whole group                    | WHOLE-GROUP
a member of three                | ONE-JOINS
a round trip that is not as asked | rtt=85.0,95.0
no round trip                    | rtt=85.0,None
a link that is not as asked      | rtt=85.0,0.2 links.fault='asked 85 ms, measured 0.2 ms'
a link of which nothing is known | links.fault='no answer'
an fsync as slow as asked        | fsync_delay=2 fsync_ms=2.2
one that is not                  | fsync_delay=2 fsync_ms=1.2
one that is not measured         | fsync_delay=2 fsync_ms=None
no shim, and none is asked for   | disks.fault='no shim' disks.delay_ms=None
no shim                          | fsync_delay=2 fsync_ms=2.2 disks.fault='no shim' disks.delay_ms=None
no shim, for a long reason       | fsync_delay=2 fsync_ms=2.2 disks.fault='no LD_PRELOAD is possible here'
a busy load  | {BUSY} load.dropped=60 load.backlog=2240 load.deadlocks=3 \
load.limited='all 8 clients busy, 1,234 arrivals wait'
lock timeouts                    | load.lock_timeouts=1
a drained load                   | load.state=drained
a load that is prepared          | load.state=preparing load.prepared=0.4
a generator without room         | {FULL_CORE}
an open loop                     | window=200x512 {BUSY} load.response_p50_ms=512.0
99.9 TPS, 9.9 ms                 | rtt=85.0,9.9 tps=99.9 fsync_ms=9.9
15700.0 TPS, 158.3 ms            | rtt=85.0,158.3 tps=15700.0 fsync_ms=158.3
"""
"""What the first row is of: the state and what must not be overlooked, who waits and who acknowledges, round
trip and fsync and what contradicts them, what the load counts, drops and is limited by."""

STREAMS = f"""\
a source and its replica         |
acknowledgements are cut         | partition@db2=ack
healing                          | healing
a replica is down                | down=db2
after a failover the old source is down | {FAILED_OVER} db1.role=down db1.reachable=False db3.follows=db2
it is back, and follows no source until it rejoins | {FAILED_OVER} db3.follows=db2
a replica follows the old source still | {FAILED_OVER} db3.follows=db1 db3.io_thread=connecting
a chain                          | replicas=2 db2.follows=db3 db3.follows=db1
lag                              | LATE
a lag of milliseconds            | explained
a group that counts conflicts    | COUNTING
a Galera cluster of which each member counts its own | COUNTING system=galera
a group of which one joins and one is outside | ONE-JOINS
"""
STOPPED = "replicas=2 db2.sql_thread=off db3.io_thread=off"
TROUBLES = f"""\
stopped threads                  | {STOPPED}
late ones                        | {STOPPED} db2.lag_s=625.0 db3.lag_s=714.0
one that is late alone           | replicas=2 db3.lag_s=12.0
acknowledgements that are lost   | state=blocked partition@db2=ack
"""
COMMITS = """\
taken apart                      | explained
nine parts                       | NINE-PARTS
few, one of them nothing and one long | FEW-PARTS
a limit                          | LIMIT
a limit with its advice          | ADVICE
a check that failed              | FAILED
parts that exceed the mean       | EXCESS
by little                        | BY-LITTLE
nothing measured yet             |
another drives                   | viewer
no load                          | load=None
a load that waits                | load.state=waiting
after_commit                     | explained protection.wait_point=after_commit
asynchronous                     | state=off explained
counters alone                   | explained anatomy=None
"""
RISKS = """\
known                            |
not told                         | exposure=None
"""
PARTS = {
    "header": (HEADERS, "LWNS"), "topology": (STREAMS, "NW"), "replica-strip": (TROUBLES, "WNS"),
    "anatomy": (COMMITS, "WNS"), "exposure": (RISKS, "WNS"),
}  # fmt: skip


def drawn(app: Bench, where: str) -> list[str]:
    """Each row of a part of the dashboard, and below it its texts with their inks."""
    rows = []
    for text, runs in zip(app.rows(f"#{where}"), app.painted(f"#{where}"), strict=True):
        inks = " | ".join(f"{ink}: {part.strip()}" for part, ink in runs if part.strip())
        rows.append(f"{text.rstrip()}\n   {inks}")
    return rows


@pytest.mark.parametrize(
    ("where", "size"), [(name, size) for name, (_, sizes) in PARTS.items() for size in sizes]
)
async def test_a_part_of_the_dashboard(where: str, size: str, snapshot: SnapshotAssertion) -> None:
    """What it draws of the first of these ticks, with its inks, and of each other the rows that differ."""
    pages, first = list[str](), list[str]()
    async with bench(make_tick(0.0), size=SIZES[size]) as app:
        for number, (name, words) in enumerate(table_of(PARTS[where][0]), 1):
            [tick] = ticks_of(words, BASES)
            await app.play(replace(tick, at_s=10.0 * number))
            rows = drawn(app, where)
            others = [row for row, known in zip_longest(rows, first) if row != known]
            pages += [f"-- {name}", *(row or "(a row less)" for row in others)]
            first = first or rows
    assert page(pages) == snapshot


ROWS = f"""\
tiny           | T   | 528 TPS, not durable: sync_binlog 0, needs 80 x 24, this terminal is 60 x 16 | \
sync_binlog=0
knobs          | N   | rtt ◂ 85 ms ▸ 85 ms none                   | rtt=85.0,None
value-strip    | S   | in 0.5 s ×8, fsync +2 → 2.2 sync_binlog 0  | fsync_delay=2 sync_binlog=0 fsync_ms=2.2
value-strip    | S   | in 0.5 s ×8, sync_binlog 0 innodb_flush 2  | {LAX}
header         | L   | n 11 in 1.0 s                              | window=4x90; 1.5 window=7x90
header         | W   | dropped 14.0/s | load.mode=open; 2 load.mode=open load.dropped=7
tps-chart      | N   | 10.6k QPS                                  | load.qps=10560.0
tps-chart      | WN  | generator at 97 % of a core; set workload.processes = 2 | {FULL_CORE}
tps-chart      | N   | predicted 89.0/s · ceiling 8 ÷ (85.4 + 3.0 ms) = 90.5/s, 89.0 pred | explained
latency-chart  | XWN | what a closed loop hides                   | load.mode=closed
latency-chart  | XWN | what a open loop hides                     | load.mode=open
latency-chart  | N   | backlog 280 · dropped 12.0/s, dropped      | {DROPS}
statement      | N   | what a closed loop hides                   |   | load_mode
knob-line      | S   | what a closed loop hides                   |   | load_mode
big-strip      | W   | predicted, ceiling, 90.5                   | explained
big-strip      | WM  | four digits of each                        | \
load.tps=9999.0 load.p50_ms=5000.3 load.p99_ms=8888.0
big-strip      | W   | seconds                                    | load.p50_ms=30278.0 load.p99_ms=44284.0
knobs          | N   | loss 1 % 1 % 1 %, DISK bare disk 0.08 measured, fsync delay 2 ms 2 ms 2.2 | \
fsync_delay=2 loss@db2=1 fsync_ms=2.2
knobs          | N   | no bare disk that was not measured         | disks.probe_p50_ms=None
knobs          | N   | a delay that was asked for in vain         | \
disks.fault='no shim' disks.delay_ms=None disks.measured_ms=None disks.delay_asked_ms=2.0 \
fsync_delay.effective=None fsync_delay.requested=2.0
knob-line      | S   | in effect 85 ms measured 85.4              |
knob-line      | S   | in effect 2 ms measured 2.2                | fsync_delay=2 fsync_ms=2.2 | fsync_delay
knob-line      | S   | of a partition nothing is measured         |   | partition@db2
statement      | N   | SET GLOBAL rpl_semi_sync_source_wait_for _replica_count = 1 | | semi_sync_replicas
statement      | N   | SET GLOBAL sync_binlog = 1                 |   | sync_binlog
statement      | N   | SET GLOBAL sync_binlog = 0, ▲ not 1: a power cut takes commits, 0 1 10 100 1000 | \
| sync_binlog | left
knobs          | N   | no knob matches `zzz`                      |   |   | /zzz
footer         | N   | f repair of a thread                       | db2.sql_thread=off
footer         | N   | nothing to repair                          |
exposure-chart | N   | Exposure commits that a failure would lose, log, 312 power, 0┤, 0 dies | \
1; 1.5; 2; 2.5; 3; 3.5; 4; 4.5; 5; 5.5 | | e
exposure-chart | N   | not known yet                              | SILENT |  | e
header         | LNS | server, 340                                | ATTACHED; ATTACHED 1.5
tps-chart      | L   | by the server's counters, all clients      | ATTACHED; ATTACHED 1.5
latency-chart  | L   | Commit, no client's clock, no percentiles  | ATTACHED; ATTACHED 1.5
anatomy        | L   | the server's mean of 3400 commits          | ATTACHED; ATTACHED 1.5
anatomy        | N   | the server has timed no commit             | UNTIMED
latency-chart  | N   | the server has timed no commit             | UNTIMED
"""
"""A part of the dashboard, at which sizes, and what to look for in it: after these ticks, and after that of a
knob that is chosen and keys that are pressed."""


def rows() -> Iterator[ParameterSet]:
    """Each at each of its sizes."""
    for where, sizes, name, *asked in table_of(ROWS):
        for size in sizes:
            yield pytest.param(where, size, asked, id=f"{where}-{size}-{name}")


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize(("where", "size", "asked"), rows())
async def test_what_a_part_draws(
    where: str, size: str, asked: list[str], snapshot: SnapshotAssertion
) -> None:
    ticks, knob, keys = [*asked, "", ""][:3]
    given = ticks_of(ticks, BASES)
    async with bench(*given, size=SIZES[size], visits=given[0].links == ()) as app:
        if knob:
            app.dashboard.select_knob(parse_name(knob))
        await app.press(keys)
        await app.until(lambda: bool(app.rows(f"#{where}")))
        assert page(drawn(app, where)) == snapshot
