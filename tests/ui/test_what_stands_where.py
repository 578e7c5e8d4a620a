"""What each part of the dashboard draws of a tick at each size, with its inks, as pictures.

That nothing is cut, moves or cannot be read is what `test_every_screen.py` looks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import pytest
from _pytest.mark import ParameterSet
from syrupy.assertion import SnapshotAssertion

from replexplorer.core.fault import Fault
from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.load.interval import SERVER, LoadView
from replexplorer.core.load.pacing import HIDES
from replexplorer.core.server.anatomy import Anatomy, Part
from replexplorer.core.server.exposure import silent
from replexplorer.core.server.node_view import Membership
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.server.truth import ReplicaTruth
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.system import GALERA, GROUP
from replexplorer.core.tick import Tick
from replexplorer.core.topology import SOURCE, Belonging, Role
from replexplorer.ui.widgets.topology import group_line
from tests.fakes.facade import WALL_S, altered, down, explained, make_tick
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
PROTECTED, OFF, BLOCKED = ProtectionState.PROTECTED, ProtectionState.OFF, ProtectionState.BLOCKED

Values = dict[KnobName, Value]
SYNC, FLUSH = (KnobName(key, SOURCE) for key in ("sync_binlog", "innodb_flush_log_at_trx_commit"))
DELAY, MODE = KnobName("fsync_delay", SOURCE), KnobName("load_mode", "load")
RTT, CUT, CUT_3 = KnobName("rtt", "db2"), KnobName("partition", "db2"), KnobName("partition", "db3")
SYNC_0: Values = {SYNC: 0}
LAX: Values = {SYNC: 0, FLUSH: 2}
SLOW_DISK: Values = {DELAY: 2.0}
ACK_LOST: Values = {CUT: "ack"}

TICK, THREE, EXPLAINED = make_tick(1.0), make_tick(1.0, replicas=2), explained(make_tick(1.0))
BUSY: dict[str, Any] = {
    "mode": "open",
    "rate_asked_tps": 500.0,
    "dropped": 60,
    "backlog": 2240,
    "deadlocks": 3,
}
BUSY |= {"limited": "all 8 clients busy, 1,234 arrivals wait"}
FULL_CORE: dict[str, Any] = {"limited": "generator at 97 % of a core"}
FULL_CORE |= {"qps": 3000.0, "processes": 1}
NO_SHIM = {"fault": "no shim", "delay_ms": None}
NOT_AS_ASKED = {"fault": "asked 85 ms, measured 0.2 ms"}
WAITING: dict[str, Any] = {"oldest_wait_s": 6.4, "waiting": 32}


def slow_disk(fsync_ms: float | None, **values: Value) -> Tick:
    """An fsync of the primary that is to take 2 ms more."""
    named = {KnobName(key, SOURCE): value for key, value in values.items()}
    return make_tick(1.0, values={**SLOW_DISK, **named}, fsync_ms=fsync_ms)


def loaded(at_s: float = 1.0, **load: Any) -> Tick:
    return altered(make_tick(at_s), load=load)


def of_window(at_s: float, count: int, ms: float, **load: object) -> Tick:
    """Half a second with so many commits of so many ms."""
    service = Histogram.of([round(1000 * ms)] * count)
    return loaded(at_s, tps=2.0 * count, n=count, service=service, **load)


def waited(state: ProtectionState = BLOCKED, **protection: Any) -> Tick:
    return altered(make_tick(1.0, state=state), protection={"replicas_acking": 1, **protection})


def parts(**parts_ms: float) -> Tick:
    """A commit that consists of these."""
    found = {Part[name]: ms for name, ms in parts_ms.items()}
    return replace(EXPLAINED, anatomy=Anatomy(5.0, 900, sum(parts_ms.values()), found))


def under(tick: Tick, *faults: tuple[str, str]) -> Tick:
    """The tick with these faults, as (kind, node), in force."""
    found = (Fault(at, kind, None, node, WALL_S, None, "me", {}) for at, (kind, node) in enumerate(faults, 1))
    return replace(tick, faults=tuple(found))


def pointed(**nodes: Mapping[str, Any]) -> Tick:
    """Three nodes of which db2 is the primary."""
    roles: dict[str, Mapping[str, Any]] = {
        "db1": {"is_source": False, "role": Role.DETACHED}, "db2": {"is_source": True, "role": Role.PRIMARY},
    }  # fmt: skip
    return altered(
        THREE, **{name: {**roles.get(name, {}), **nodes.get(name, {})} for name in (*roles, "db3")}
    )


def grouped(*members: Membership, **of_last: object) -> Tick:
    """Nodes that say this of their group; the first takes writes."""
    roles = {Belonging.MEMBER: Role.SECONDARY, Belonging.JOINING: Role.JOINING}
    said = {
        node.name: {
            "role": Role.PRIMARY if node.is_source else roles.get(member.belongs, Role.DETACHED),
            "state": member.state, "member": member, "io_thread": None, "sql_thread": None, "lag_s": None,
        }
        for node, member in zip(THREE.nodes, members, strict=True)
    }  # fmt: skip
    return altered(altered(replace(THREE, system="group"), **said), db3=of_last)


ONLINE = Membership(Belonging.MEMBER, "ONLINE", size=3, answering=3, queued=0, to_apply=0, conflicts=0)
JOINING = replace(ONLINE, belongs=Belonging.JOINING, state="RECOVERING")
OUTSIDE = replace(ONLINE, belongs=Belonging.OUTSIDE, state="ERROR")


def attached(at_s: float = 1.0, mean_ms: float | None = 3.4) -> Tick:
    """What is known of other people's servers and load."""
    load = LoadView(0, 0, "", 340.0, n=170, duration_s=0.5, mean_ms=mean_ms, state=SERVER)
    known = {Part.REDO: 1.2, Part.BINLOG: 1.5, Part.OTHER: 0.7}
    anatomy = None if mean_ms is None else Anatomy(10.0, 3400, mean_ms, known, 0.0, (Part.QUEUE, Part.ENGINE))
    return replace(make_tick(at_s), load=load, links=(), disks=(), ceiling=None, anatomy=anatomy)


def lagging(*replicas: ReplicaTruth) -> Tick:
    assert EXPLAINED.truth is not None
    return replace(explained(THREE), truth=replace(EXPLAINED.truth, replicas=replicas))


def limited(limit: str) -> Tick:
    assert EXPLAINED.predicted is not None
    return replace(EXPLAINED, predicted=replace(EXPLAINED.predicted, limit=limit))


LIMIT = "redo and binlog fsync: 48 % of a commit"
ADVICE = f"{LIMIT}; twice the clients would give 1.4 times the TPS"
NINE_PARTS = parts(
    WIRE=11.2,
    EXECUTE=2.8,
    FSYNC_QUEUE=5.0,
    REDO=9.9,
    BINLOG=4.0,
    ACK_QUEUE=12.0,
    ACK=14.0,
    ENGINE=0.7,
    OTHER=0.1,
)
ASKED_IN_VAIN = altered(
    replace(TICK, knobs={**TICK.knobs, DELAY: replace(TICK.knobs[DELAY], effective=None, requested=2.0)}),
    disks={**NO_SHIM, "measured_ms": None, "delay_asked_ms": 2.0},
)
TWO_BROKEN = altered(THREE, db2={"sql_thread": "off"}, db3={"io_thread": "off"})
TWO_LATE = altered(TWO_BROKEN, db2={"lag_s": 625.0}, db3={"lag_s": 714.0})


def in_force(effective: Value | None, **asked: Any) -> Tick:
    """With this value of sync_binlog, as far as it is known."""
    return replace(TICK, knobs={**TICK.knobs, SYNC: replace(TICK.knobs[SYNC], effective=effective, **asked)})


HEADERS = {
    "all is well": TICK,
    **{
        f"{state}, with another's load and failures": altered(
            make_tick(1.0, state=state, viewer=True),
            load={"errors": 12, "unknown": 3, "reconnects": 4, "driver": "load (pid 123)"},
        )
        for state in ProtectionState
    },
    "another drives": altered(
        make_tick(1.0, viewer=True), load={"state": "viewer", "driver": "lab tour (pid 7)"}
    ),
    # What must not be overlooked
    "its only link is cut": make_tick(1.0, state=BLOCKED, values=ACK_LOST),
    "one link of two is cut": make_tick(1.0, replicas=2, values={CUT_3: "dump"}),
    "both links are cut alike": make_tick(1.0, replicas=2, values={CUT_3: "both", CUT: "both"}),
    "and unlike": make_tick(1.0, replicas=2, values={CUT_3: "dump", CUT: "both"}),
    "healed": make_tick(1.0, healing=True),
    "not durable": make_tick(1.0, values=LAX),
    "not durable by hand": in_force(0),
    "so asked for, and not known yet": in_force(None, requested=0),
    "a replica is down": down(TICK, "db2"),
    "a thread has an error": altered(TICK, db2={"sql_thread": "error"}),
    "a replica is down by a fault": under(down(make_tick(1.0, values=SYNC_0), "db2"), ("kill", "db2")),
    "one fault of two nodes": under(THREE, ("applier_stop", "db2"), ("applier_stop", "db3")),
    "two faults, and what they bring": under(
        make_tick(1.0, values={**SYNC_0, CUT: "both"}), ("isolate", "db1"), ("disk_stall", "db1")
    ),
    # Who waits, and who acknowledges
    "many commits wait": waited(**WAITING),
    "how many is not known": waited(oldest_wait_s=6.4),
    "one commit waits": waited(oldest_wait_s=6.4, waiting=1),
    "registered, and blocked": waited(),
    "registered, and no acknowledgement can come": waited(PROTECTED, no_ack_can_come=True),
    "after a heal the old dump thread counts beside the new one": waited(PROTECTED, replicas_counted=2),
    "of a file from before its own count": waited(PROTECTED, replicas_acking=2),
    "a whole group": grouped(ONLINE, ONLINE, ONLINE),
    "a member of three": grouped(ONLINE, JOINING, OUTSIDE),
    # Round trip and fsync: asked, measured, and what contradicts
    "a round trip that is not as asked": make_tick(1.0, rtt=(85.0, 95.0)),
    "no round trip": make_tick(1.0, rtt=(85.0, None)),
    "a link that is not as asked": altered(make_tick(1.0, rtt=(85.0, 0.2)), links=NOT_AS_ASKED),
    "a link of which nothing is known": altered(TICK, links={"fault": "no answer"}),
    "an fsync as slow as asked": slow_disk(2.2),
    "one that is not": slow_disk(1.2),
    "one that is not measured": slow_disk(None),
    "no shim, and none is asked for": altered(TICK, disks=NO_SHIM),
    "no shim": altered(slow_disk(2.2), disks=NO_SHIM),
    "no shim, for a long reason": altered(slow_disk(2.2), disks={"fault": "no LD_PRELOAD is possible here"}),
    # What the load counts, drops and is limited by
    "a busy load": loaded(**BUSY),
    "lock timeouts": loaded(lock_timeouts=1),
    "a drained load": loaded(state="drained"),
    "a load that is prepared": loaded(state="preparing", prepared=0.4),
    "a generator without room": loaded(**FULL_CORE),
    "an open loop": of_window(1.0, 200, 512.0, mode="open", rate_asked_tps=500.0, response_p50_ms=512.0),
    **{
        f"{tps} TPS, {ms} ms": make_tick(rtt=(85.0, ms), tps=tps, fsync_ms=ms)
        for ms, tps in ((9.9, 99.9), (158.3, 15_700.0))
    },
}
"""What the first row is of."""


STREAMS = {
    "a source and its replica": TICK,
    "acknowledgements are cut": make_tick(1.0, values=ACK_LOST),
    "healing": make_tick(1.0, healing=True),
    "a replica is down": down(TICK, "db2"),
    "after a failover the old source is down": pointed(
        db1={"role": Role.DOWN, "reachable": False}, db3={"follows": "db2"}
    ),
    "it is back, and follows no source until it rejoins": pointed(db3={"follows": "db2"}),
    "a replica follows the old source still": pointed(db3={"follows": "db1", "io_thread": "connecting"}),
    "a chain": altered(THREE, db2={"follows": "db3"}, db3={"follows": "db1"}),
    "lag": lagging(ReplicaTruth("db3", 4300.0, 985, 1.0), ReplicaTruth("db2", 3100.0, 59_850, 1.0)),
    "a lag of milliseconds": EXPLAINED,
    "a group that counts conflicts": grouped(ONLINE, ONLINE, replace(ONLINE, conflicts=3)),
    "a group of which one joins and one is outside": grouped(ONLINE, JOINING, OUTSIDE),
}
TROUBLES = {
    "stopped threads": TWO_BROKEN,
    "late ones": TWO_LATE,
    "one that is late alone": altered(THREE, db3={"lag_s": 12.0}),
    "acknowledgements that are lost": make_tick(1.0, state=BLOCKED, values=ACK_LOST),
}
COMMITS = {
    "taken apart": EXPLAINED,
    "nine parts": NINE_PARTS,
    "few, one of them nothing and one long": parts(EXECUTE=2.8, BINLOG=0.0, ENGINE=0.7, OTHER=1240.0),
    "a limit": limited(LIMIT),
    "a limit with its advice": limited(ADVICE),
    "a check that failed": explained(TICK, failed=True),
    "parts that exceed the mean": explained(TICK, excess_ms=12.0),
    "by little": explained(TICK, excess_ms=8.0),
    "nothing measured yet": TICK,
    "another drives": make_tick(1.0, viewer=True),
    "no load": replace(TICK, load=None),
    "a load that waits": loaded(state="waiting"),
    "after_commit": altered(EXPLAINED, protection={"wait_point": "after_commit"}),
    "asynchronous": explained(make_tick(1.0, state=OFF)),
    "counters alone": replace(EXPLAINED, anatomy=None),
}
RISKS = {"known": TICK, "not told": make_tick(1.0, exposure=None)}
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
        for number, (name, tick) in enumerate(PARTS[where][0].items(), 1):
            await app.play(replace(tick, at_s=10.0 * number))
            rows = drawn(app, where)
            others = [row for row, known in zip_longest(rows, first) if row != known]
            pages += [f"-- {name}", *(row or "(a row less)" for row in others)]
            first = first or rows
    assert page(pages) == snapshot


def row(
    where: str,
    sizes: str,
    name: str,
    *ticks: Tick,
    knob: KnobName | None = None,
    keys: str = "",
    **settings: object,
) -> list[ParameterSet]:
    """A part of the dashboard at each of these sizes, and what to look for in it: after the ticks, and after
    that of a knob that is chosen and keys that are pressed."""
    given = (ticks or (TICK,), knob, keys.split(), settings)
    return [pytest.param(where, SIZES[size], *given, id=f"{where}-{size}-{name}") for size in sizes]


# fmt: off
ROWS = (
    row("tiny", "T", "528 TPS, not durable: sync_binlog 0, needs 80 x 24, this terminal is 60 x 16",
        make_tick(1.0, values=SYNC_0)),
    # Round trip and fsync, beside the header's
    row("knobs", "N", "rtt ◂ 85 ms ▸ 85 ms none", make_tick(1.0, rtt=(85.0, None))),
    row("value-strip", "S", "in 0.5 s ×8, fsync +2 → 2.2 sync_binlog 0", slow_disk(2.2, sync_binlog=0)),
    row("value-strip", "S", "in 0.5 s ×8, sync_binlog 0 innodb_flush 2", make_tick(1.0, values=LAX)),
    # What the load counts, hides, drops and is limited by
    row("header", "L", "n 11 in 1.0 s", of_window(1.0, 4, 90.0), of_window(1.5, 7, 90.0)),
    row("header", "W", "dropped 14.0/s", loaded(mode="open"), loaded(2.0, mode="open", dropped=7)),
    row("tps-chart", "N", "10.6k QPS", loaded(qps=10_560.0)),
    row("tps-chart", "WN", "generator at 97 % of a core; set workload.processes = 2", loaded(**FULL_CORE)),
    row("tps-chart", "N", "predicted 89.0/s · ceiling 8 ÷ (85.4 + 3.0 ms) = 90.5/s, 89.0 pred", EXPLAINED),
    *(
        row("latency-chart", "XWN", f"what a {mode} loop hides", loaded(mode=mode))
        for mode in HIDES
    ),
    row("latency-chart", "N", "backlog 280 · dropped 12.0/s, dropped",
        *(loaded(1 + at / 2, mode="open", backlog=40 * at, dropped=6 if at > 3 else 0) for at in range(8))),
    *(
        row(where, size, "what a closed loop hides", knob=MODE)
        for where, size in (("statement", "N"), ("knob-line", "S"))
    ),
    row("big-strip", "W", "predicted, ceiling, 90.5", EXPLAINED),
    row("big-strip", "WM", "four digits of each", loaded(tps=9999.0, p50_ms=5_000.3, p99_ms=8_888.0)),
    row("big-strip", "W", "seconds", loaded(p50_ms=30_278.0, p99_ms=44_284.0)),
    # Panel and statement
    row("knobs", "N", "loss 1 % 1 % 1 %, DISK bare disk 0.08 measured, fsync delay 2 ms 2 ms 2.2",
        make_tick(1.0, values={**SLOW_DISK, KnobName("loss", "db2"): 1.0}, fsync_ms=2.2)),
    row("knobs", "N", "no bare disk that was not measured", altered(TICK, disks={"probe_p50_ms": None})),
    row("knobs", "N", "a delay that was asked for in vain", ASKED_IN_VAIN),
    row("knob-line", "S", "in effect 85 ms measured 85.4"),
    row("knob-line", "S", "in effect 2 ms measured 2.2", slow_disk(2.2), knob=DELAY),
    row("knob-line", "S", "of a partition nothing is measured", knob=CUT),
    row("statement", "N", "SET GLOBAL rpl_semi_sync_source_wait_for _replica_count = 1",
        knob=KnobName("semi_sync_replicas", SOURCE)),
    row("statement", "N", "SET GLOBAL sync_binlog = 1", knob=SYNC),
    row("statement", "N",
        "SET GLOBAL sync_binlog = 0, ▲ not 1: a power cut takes commits, 0 1 10 100 1000",
        knob=SYNC, keys="left"),
    row("knobs", "N", "no knob matches `zzz`", keys="slash z z z"),
    row("footer", "N", "f repair of a thread", altered(TICK, db2={"sql_thread": "off"})),
    row("footer", "N", "nothing to repair"),
    # What a failure would lose now
    row("exposure-chart", "N", "Exposure commits that a failure would lose, log, 312 power, 0┤, 0 dies",
        *(make_tick(at / 2) for at in range(2, 12)), keys="e"),
    row("exposure-chart", "N", "not known yet", make_tick(1.0, exposure=silent("not reached")), keys="e"),
    # Somebody else's servers
    row("header", "LNS", "server, 340", attached(), attached(1.5),
        visits=True),
    row("tps-chart", "L", "by the server's counters, all clients", attached(), attached(1.5), visits=True),
    row("latency-chart", "L", "Commit, no client's clock, no percentiles", attached(), attached(1.5),
        visits=True),
    row("anatomy", "L", "the server's mean of 3400 commits", attached(), attached(1.5), visits=True),
    row("anatomy", "N", "the server has timed no commit", attached(mean_ms=None), visits=True),
    row("latency-chart", "N", "the server has timed no commit", attached(mean_ms=None), visits=True),
)
# fmt: on


@pytest.mark.usefixtures("utc")
@pytest.mark.parametrize(
    ("where", "size", "ticks", "knob", "keys", "settings"), [case for cases in ROWS for case in cases]
)
async def test_what_a_part_draws(
    where: str,
    size: tuple[int, int],
    ticks: tuple[Tick, ...],
    knob: KnobName | None,
    keys: list[str],
    settings: dict[str, object],
    snapshot: SnapshotAssertion,
) -> None:
    async with bench(*ticks, size=size, **settings) as app:  # type: ignore[arg-type]
        if knob is not None:
            app.dashboard.select_knob(knob)
        await app.press(*keys)
        await app.until(lambda: bool(app.rows(f"#{where}")))
        assert page(drawn(app, where)) == snapshot


def test_of_members_that_count_their_own_the_conflicts_are_added() -> None:
    nodes = grouped(*(replace(ONLINE, conflicts=number, gave_way=2) for number in (1, 2, 3))).nodes
    text = "".join(part for part, _ in group_line(GALERA, nodes, 120))
    assert text == " conflicts 6  queued db1 0 db2 0 db3 0  gave way 6"
    assert "".join(part for part, _ in group_line(GROUP, nodes, 120)).startswith(" conflicts 3  queued")
