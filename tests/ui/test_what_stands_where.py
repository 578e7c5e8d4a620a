"""What each part of the dashboard says of a tick, and at which size: a row is a rule.

That nothing is cut, moves or cannot be read is what `test_every_screen.py` looks for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from replexplorer.core.epochs.epochs import Epoch
from replexplorer.core.fault import Fault
from replexplorer.core.knobs.names import KnobName, Value
from replexplorer.core.load.interval import SERVER, LoadView
from replexplorer.core.load.pacing import HIDES
from replexplorer.core.server.anatomy import Anatomy, Part
from replexplorer.core.server.exposure import silent
from replexplorer.core.server.node_view import Membership, Transfer, TransferKind
from replexplorer.core.server.protection import ProtectionState
from replexplorer.core.server.truth import ReplicaTruth
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.system import GALERA, GROUP
from replexplorer.core.tick import Tick
from replexplorer.core.topology import SOURCE, Belonging, Role
from replexplorer.ui.widgets.topology import group_line
from tests.fakes.facade import WALL_S, altered, change_event, down, explained, make_tick
from tests.ui.driving import bench

GAP = " .. "
"""Anything may stand there."""
SIZES = {"X": (300, 45), "L": (200, 45), "W": (160, 45), "N": (120, 36), "S": (80, 24), "T": (60, 16)}
PROTECTED, OFF = ProtectionState.PROTECTED, ProtectionState.OFF
BLOCKED, DEGRADED = ProtectionState.BLOCKED, ProtectionState.DEGRADED
CHIP = "onstate on partitioned b"

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
HALF_DONE = Transfer(TransferKind.IST, 0.0, 3.0, donor="db1", done=617, total=1234)


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
BASELINE = Epoch(0, 0.0, "baseline", None, 619.0, n=28_500, p50_ms=25, p95_ms=29, p99_ms=35)
SLOWER = Epoch(
    1, 5.0, "rtt 20 → 85 ms", 619.0, 173.0, -72.1, "slower", 90, 94, 99, 7433,
    low_percent=-72.2, high_percent=-72.0,
)  # fmt: skip
SAME = Epoch(
    2, 9.0, "sync_binlog 1 → 0", 173.0, 174.0, 0.4, "no difference shown", 89, 93, 98, 3339,
    low_percent=-0.2, high_percent=1.0,
)  # fmt: skip
EPOCHS = (BASELINE, SLOWER, SAME, Epoch(3, 12.0, "clients 16 → 48", 174.0, None))
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
NO_DELAY = altered(
    replace(TICK, knobs={**TICK.knobs, DELAY: replace(TICK.knobs[DELAY], effective=None)}),
    disks={**NO_SHIM, "measured_ms": None},
)
ASKED_IN_VAIN = altered(
    replace(TICK, knobs={**TICK.knobs, DELAY: replace(TICK.knobs[DELAY], effective=None, requested=2.0)}),
    disks={**NO_SHIM, "measured_ms": None, "delay_asked_ms": 2.0},
)
TRIED = tuple(
    make_tick(1.5 + at / 2, events=(change_event(1.5 + at / 2, at + 1, f"change {at + 1}"),))
    for at in range(9)
)
TWO_BROKEN = altered(THREE, db2={"sql_thread": "off"}, db3={"io_thread": "off"})
TWO_LATE = altered(TWO_BROKEN, db2={"lag_s": 625.0}, db3={"lag_s": 714.0})


def row(
    where: str,
    sizes: str,
    told: str,
    *ticks: Tick,
    untold: str = "",
    inks: Mapping[str, str] | None = None,
    knob: KnobName | None = None,
    keys: str = "",
    **settings: object,
) -> list[ParameterSet]:
    """At each of these sizes a part of the dashboard says some words in their order, however many blanks are
    between them, others not, and has texts of these inks; after the ticks, and after that of a knob that is
    chosen and keys that are pressed."""
    given = (ticks or (TICK,), told, untold, inks or {}, knob, keys.split(), settings)
    return [pytest.param(where, SIZES[size], *given, id=f"{where}-{size}-{told or untold}") for size in sizes]


# fmt: off
ROWS = (
    # The first row: the state, and what must not be overlooked
    row("header", "N", "● PROTECTED .. 1/1 ack .. RTT 85.4"),
    *(
        row(
            "header", "WNS", f"{word} .. VIEWER .. TPS",
            altered(
                make_tick(1.0, state=ProtectionState(state), viewer=True),
                load={"errors": 12, "unknown": 3, "reconnects": 4, "driver": "load (pid 123)"},
            ),
        )
        for state, word in (
            ("protected", "● PROTECTED"), ("armed", "◐ ARMED"), ("off", "○ ASYNC"),
            ("blocked", "◼ BLOCKED"), ("degraded", "▲ DEGRADED"), ("down", "✖ DOWN"),
        )
    ),
    row("header", "W", "VIEWER: lab tour (pid 7) drives the load",
        altered(make_tick(1.0, viewer=True), load={"state": "viewer", "driver": "lab tour (pid 7)"})),
    row("header", "WNS", "", untold="PARTITION .. healed .. of 10 s .. NOT DURABLE .. ✖"),
    *(
        row("header", "WNS", f"{state.value.upper()} .. PARTITION ack .. TPS",
            make_tick(1.0, state=state, values=ACK_LOST), inks={" PARTITION ack ": CHIP})
        for state in (PROTECTED, BLOCKED, DEGRADED)
    ),
    *(
        row("header", "W", f"PARTITION {told}", make_tick(1.0, replicas=2, values=values))
        for values, told in (
            ({CUT_3: "dump"}, "db3 dump"), ({CUT_3: "both", CUT: "both"}, "both"),
            ({CUT_3: "dump", CUT: "both"}, "db2 both, db3 dump"),
        )
    ),
    row("header", "WN", "healed, TCP retries", make_tick(1.0, healing=True), untold="PARTITION"),
    row("header", "S", "healed", make_tick(1.0, healing=True), untold="PARTITION"),
    *(
        row("header", "WNS", "▲ NOT DURABLE .. TPS", make_tick(1.0, values=values))
        for values in (SYNC_0, LAX, {FLUSH: 2})
    ),
    row("header", "WS", "✖ db2", down(TICK, "db2")),
    row("header", "WS", "✖ db2 .. SQL thread", altered(TICK, db2={"sql_thread": "error"})),
    row("header", "WNS", "kill@db2 .. NOT DURABLE",
        under(down(make_tick(1.0, values=SYNC_0), "db2"), ("kill", "db2")), untold="✖ db2"),
    row("header", "W", "applier_stop@db2,db3", under(THREE, ("applier_stop", "db2"), ("applier_stop",
        "db3"))),
    *(
        row("header", "WNS", "PROTECTED .. both .. isolate@db1 .. TPS 528",
            under(make_tick(1.0, values={**SYNC_0, CUT: "both"}), ("isolate", "db1"), ("disk_stall", "db1")),
            untold="…", keys=keys)
        for keys in ("", "space space")
    ),
    row("tiny", "T", "528 TPS .. not durable: sync_binlog 0 .. needs 80 x 24 .. this terminal is 60 x 16",
        make_tick(1.0, values=SYNC_0)),
    # Who waits, and who acknowledges
    row("header", "WN", "6 of 10 s, 32 commits wait", waited(**WAITING)),
    row("header", "S", "BLOCKED .. 6 of 10 s", waited(**WAITING)),
    row("header", "W", "6 of 10 s", waited(oldest_wait_s=6.4), untold="wait"),
    row("header", "W", "1 commit waits", waited(oldest_wait_s=6.4, waiting=1)),
    row("header", "L", "1/1 ack", waited(PROTECTED), inks={"1/1 ack": "good b"}),
    *(
        row("header", "L", "1/1 registered", tick, inks={"1/1 registered": "warn b"})
        for tick in (waited(), waited(DEGRADED), waited(PROTECTED, no_ack_can_come=True))
    ),
    # For some seconds after a heal the source counts the old dump thread beside the new one; the last is of
    # a file from before its own count.
    row("header", "L", "1/1 ack +1 stale", waited(PROTECTED, replicas_counted=2),
        inks={" +1 stale": "warn b"}),
    row("header", "L", "1/1 ack +1 stale", waited(PROTECTED, replicas_acking=2)),
    row("header", "L", "2/1 ack", altered(THREE, protection={"replicas_counted": 2}), untold="stale"),
    row("header", "W", "members 3/3", grouped(ONLINE, ONLINE, ONLINE)),
    row("header", "W", "members 1/3", grouped(ONLINE, JOINING, OUTSIDE)),
    # Round trip and fsync: asked, measured, and what contradicts
    row("header", "N", "RTT 95.0", make_tick(1.0, rtt=(85.0, 95.0)), inks={"95.0": "warn b"}),
    *(
        row("header", "N", "RTT 99.0", make_tick(1.0, rtt=(85.0, 99.0), values=values),
        inks={"99.0": "text b"})
        for values in ({KnobName("jitter", "db2"): 10.0}, {KnobName("bandwidth", "db2"): 1_000_000})
    ),
    row("header", "N", "RTT none", make_tick(1.0, rtt=(85.0, None))),
    row("knobs", "N", "rtt ◂ 85 ms ▸ 85 ms none", make_tick(1.0, rtt=(85.0, None))),
    row("header", "W", "link ▲", altered(make_tick(1.0, rtt=(85.0, 0.2)), links=NOT_AS_ASKED),
        untold="asked 85 ms", inks={"0.2": "warn b"}),
    row("header", "W", "link: no answer", altered(TICK, links={"fault": "no answer"})),
    row("header", "L", "fsync +2 → 2.2", slow_disk(2.2), inks={"2.2": "text b"}),
    row("header", "L", "fsync +2 → 1.2", slow_disk(1.2), inks={"1.2": "warn b"}),
    row("header", "L", "fsync +2 → -", slow_disk(None)),
    row("header", "L", "fsync 0.21", make_tick(1.0, fsync_ms=0.21)),
    row("header", "NS", "", make_tick(1.0, fsync_ms=0.21), untold="fsync"),
    row("header", "S", "p99", slow_disk(2.2), untold="fsync"),
    row("header", "W", "", altered(TICK, disks=NO_SHIM), untold="disk"),
    row("header", "W", "disk: no shim", altered(slow_disk(2.2), disks=NO_SHIM)),
    row("header", "S", "disk ▲", altered(slow_disk(2.2), disks={"fault": "no LD_PRELOAD is possible here"})),
    row("value-strip", "S", "fsync +2 → 2.2", slow_disk(2.2)),
    row("value-strip", "S", "in 0.5 s ×8 .. fsync +2 → 2.2 sync_binlog 0", slow_disk(2.2, sync_binlog=0)),
    row("value-strip", "S", "in 0.5 s ×8 .. sync_binlog 0 innodb_flush 2", make_tick(1.0, values=LAX),
        untold="…"),
    row("value-strip", "S", "in 0.5 s closed ×8"),
    # What the load counts, hides, drops and is limited by
    row("header", "WNS", "▲ dropped .. busy .. deadl .. TPS", loaded(**BUSY)),
    *(
        row("header", "W", told, loaded(**changes))
        for changes, told in (
            ({"errors": 4}, "8.0 err/s"), ({"reconnects": 1}, "2.0 reconn/s"),
            ({"deadlocks": 2}, "4.0 deadlocks/s"), ({"lock_timeouts": 1}, "2.0 lock timeouts/s"),
            ({"unknown": 3}, "6.0 unknown/s"), ({"state": "drained"}, "load drained"),
            ({"state": "preparing", "prepared": 0.4}, "load preparing 40%"), (FULL_CORE, "▲ generator"),
        )
    ),
    row("header", "L", "n 11 in 1.0 s", of_window(1.0, 4, 90.0), of_window(1.5, 7, 90.0),
        inks={"  90": "p50 b, faint"}),
    row("header", "W", "open 500/s × .. 512",
        of_window(1.0, 200, 512.0, mode="open", rate_asked_tps=500.0, response_p50_ms=512.0)),
    row("header", "W", "dropped 14.0/s", loaded(mode="open"), loaded(2.0, mode="open", dropped=7)),
    row("tps-chart", "N", "10.6k QPS", loaded(qps=10_560.0)),
    row("tps-chart", "N", "", loaded(qps=528.0), untold="QPS"),
    row("tps-chart", "W", "generator at 97 % of a core; set workload.processes = 2", loaded(**FULL_CORE)),
    row("tps-chart", "N", "3000 QPS .. ▲ the load is the limit: generator at 97 % of a core",
        loaded(**FULL_CORE), inks={"▲ the load is the limit": "warn"}),
    row("tps-chart", "N", "predicted 89.0/s · ceiling 8 ÷ (85.4 + 3.0 ms) = 90.5/s .. 89.0 pred", EXPLAINED),
    *(
        row("latency-chart", sizes, words, loaded(mode=mode))
        for sizes, mode, words in (
            ("WN", "closed", "a stall shows as 8 slow commits"), ("X", "closed", HIDES["closed"]),
            ("WN", "open", "open: watch the backlog"), ("X", "open", HIDES["open"]),
        )
    ),
    row("latency-chart", "N", "backlog 280 · dropped 12.0/s .. dropped",
        *(loaded(1 + at / 2, mode="open", backlog=40 * at, dropped=6 if at > 3 else 0) for at in range(8))),
    *(
        row(where, size, HIDES["closed"].partition(";")[0], knob=MODE)
        for where, size in (("statement", "N"), ("knob-line", "S"))
    ),
    row("big-strip", "W", "predicted .. ceiling .. 90.5", EXPLAINED),
    row("big-strip", "W", "seconds", loaded(p50_ms=30_278.0, p99_ms=44_284.0), untold="…"),
    # Panel and statement
    row("knobs", "N", "loss 1 % 1 % 1 % .. DISK bare disk 0.08 measured .. fsync delay 2 ms 2 ms 2.2",
        make_tick(1.0, values={**SLOW_DISK, KnobName("loss", "db2"): 1.0}, fsync_ms=2.2)),
    row("knobs", "N", "1.1", slow_disk(1.1), inks={"1.1": "warn b"}),
    row("knobs", "N", "", altered(TICK, disks={"probe_p50_ms": None}), untold="bare disk"),
    row("knobs", "N", "", NO_DELAY, inks={"not possible": "faint"}),
    row("knobs", "N", "", ASKED_IN_VAIN, inks={"not possible": "warn b"}),
    row("knobs", "N", "jitter 1.5 ms", make_tick(1.0, values={KnobName("jitter", "db2"): 1.5}),
        untold="loss"),
    row("knob-line", "S", "in effect 85 ms measured 85.4"),
    row("knob-line", "S", "in effect 2 ms measured 2.2", slow_disk(2.2), knob=DELAY),
    row("knob-line", "S", "", untold="measured", knob=CUT),
    row("statement", "N", "SET GLOBAL rpl_semi_sync_source_wait_for _replica_count = 1",
        knob=KnobName("semi_sync_replicas", SOURCE)),
    row("statement", "N", "SET GLOBAL sync_binlog = 1", knob=SYNC, untold="▲"),
    row("statement", "N",
        "SET GLOBAL sync_binlog = 0 .. ▲ not 1: a power cut takes commits .. 0 1 10 100 1000",
        knob=SYNC, keys="left"),
    row("knobs", "N", "no knob matches `zzz`", keys="slash z z z"),
    # Streams between nodes
    row("topology", "N", "db1 primary 9.7.4 :33061 ──▸ db2 replica"),
    row("topology", "N", "╌✖╌", make_tick(1.0, values=ACK_LOST)),
    row("topology", "N", "╌╌▸", make_tick(1.0, healing=True)),
    row("topology", "N", "db2 ✖ down", down(TICK, "db2")),
    # After a failover the old source is down; it comes back, and follows nobody until it rejoins; a replica
    # that could not be pointed at the new source follows the old one; and a chain.
    row("topology", "W", "db2 primary 9.7.4 .. ╌✖╌ db1 ✖ down .. ──▸ db3 replica",
        pointed(db1={"role": Role.DOWN, "reachable": False}, db3={"follows": "db2"})),
    row("topology", "W", "db2 primary 9.7.4 .. db1 detached ──▸ db3 replica", pointed(db3={"follows": "db2"}),
        untold="▸ db1"),
    row("topology", "W", "db2 primary 9.7.4 .. db1 detached db1 ╌╌▸ db3 replica",
        pointed(db3={"follows": "db1", "io_thread": "connecting"})),
    row("topology", "W", "db3 ──▸ db2 replica ──▸ db3 replica",
        altered(THREE, db2={"follows": "db3"}, db3={"follows": "db1"})),
    row("topology", "NW", "db2 lag 3.1 s db3 lag 4.3 s",
        lagging(ReplicaTruth("db3", 4300.0, 985, 1.0), ReplicaTruth("db2", 3100.0, 59_850, 1.0))),
    row("topology", "NW", "db2 lag 12 ms, 3 queued", EXPLAINED),
    row("topology", "W",
        "db1 primary 9.7.4 :33061 ◂─▸ db2 secondary ◂─▸ db3 secondary conflicts 3 queued db1 0 db2 0 db3 0",
        grouped(ONLINE, ONLINE, replace(ONLINE, conflicts=3))),
    row("topology", "W", "db1 primary 9.7.4 :33061 ╌╌▸ db2 RECOVERING db3 ERROR", grouped(ONLINE, JOINING,
        OUTSIDE)),
    row("topology", "W", "╌╌▸ db3 IST 50 %", grouped(ONLINE, ONLINE, JOINING, reachable=False,
        transfer=HALF_DONE)),
    row("replica-strip", "WNS", "▲ db2: SQL thread stopped ▲ db3: IO thread stopped .. f repair N nodes",
        TWO_BROKEN),
    row("replica-strip", "WNS", "db2: SQL .. db3: IO", TWO_LATE, untold="…"),
    row("replica-strip", "WNS", "▲ db3: 12 s behind", altered(THREE, db3={"lag_s": 12.0}), untold="repair"),
    row("replica-strip", "WNS", "▲ db2: acknowledgements lost: a waiting commit is here already",
        make_tick(1.0, state=BLOCKED, values=ACK_LOST)),
    row("footer", "N", "f repair", down(TICK, "db2")),
    row("footer", "N", "f repair", altered(TICK, db2={"sql_thread": "off"})),
    row("footer", "N", "", untold="repair"),
    # A commit taken apart
    row("anatomy", "NW",
        "AFTER_SYNC: acknowledged before the engine commits .. commit 89.4 ms in 5 s .. ACK wait 85.7 ms .. "
        "network wait: 97 % of a commit; twice the clients would nearly double TPS .. group 6.2 .. "
        "✓ 2 checks",
        EXPLAINED),
    row("anatomy", "W", "■ redo 1.9 .. binlog 0.05 .. predicted 89.0/s at 89.4 ms", EXPLAINED),
    row("anatomy", "N",
        "wire 11.2 .. exec 2.8 .. fsyncQ 5.0 .. redo 9.9 .. binlog 4.0 .. engine 0.70 .. "
        "ACK 26.0 ■ (queued 12.0) .. other 0.10",
        NINE_PARTS),
    row("anatomy", "W", "fsyncQ 5.0 .. ACK 26.0 ■ (queued 12.0) .. ACK wait 26.0 ms", NINE_PARTS),
    row("anatomy", "N", LIMIT, limited(ADVICE), untold=";"),
    row("anatomy", "W", ADVICE, limited(ADVICE)),
    row("anatomy", "S", "commit 89.4 ms in 5 s .. ACK wait 85.7 ms", EXPLAINED),
    row("anatomy", "S", "▲ Little's law: 8 clients, TPS x mean = 6.1", explained(TICK, failed=True)),
    row("anatomy", "N", "▲ Little's law: 8 clients, TPS x mean = 6.1 .. ✓ 1 check", explained(TICK,
        failed=True),
        inks={"▲ Little's law: ": "warn b"}),
    row("anatomy", "NW", "▲ parts exceed the mean by 12.0 ms", explained(TICK, excess_ms=12.0)),
    row("anatomy", "NW", "", explained(TICK, excess_ms=8.0), untold="exceed"),
    *(
        row("anatomy", "NS", why, tick, untold="0.0 .. checks")
        for tick, why in (
            (TICK, "measuring…"), (make_tick(1.0, viewer=True), "another app drives the load"),
            (replace(TICK, load=None), "no load runs"),
            (loaded(state="waiting"), "the load waits for a server that takes writes"),
        )
    ),
    row("anatomy", "N", "AFTER_COMMIT: visible before it is acknowledged",
        altered(EXPLAINED, protection={"wait_point": "after_commit"})),
    row("anatomy", "N", "asynchronous: no replica is waited for", explained(make_tick(1.0, state=OFF))),
    row("anatomy", "N", "counters in 10 s", replace(EXPLAINED, anatomy=None)),
    # What a failure would lose now
    row("exposure", "SW", "at risk now: mysqld dies 0 · power cut 300..340 (0.4 s) · source lost 8 (12 ms)"),
    row("exposure", "N", "at risk now: dies 0 · power 300..340 (0.4 s) · source 8 (12 ms)"),
    row("exposure", "SNW", "", make_tick(1.0, exposure=None), untold="risk"),
    row("exposure-chart", "N", "Exposure commits that a failure would lose, log .. 312 power .. 0┤ .. 0 dies",
        *(make_tick(at / 2) for at in range(2, 12)), keys="e"),
    row("exposure-chart", "N", "not known yet", make_tick(1.0, exposure=silent("not reached")), keys="e"),
    # What happened: events and epochs
    row("events", "N", "⑨ change 9", *TRIED),
    row("epochs", "N", "measuring… .. 173 → 174 ≈ x1.004 .. ▾ x0.279 .. 28.5k", make_tick(20.0,
        epochs=EPOCHS),
        inks={"▾ x0.279": "bad b", "≈ x1.004": "muted"}),
    # Somebody else's servers
    row("header", "LNS", "server .. 340", attached(), attached(1.5), untold="VIEWER .. p99 .. RTT",
        visits=True),
    row("tps-chart", "L", "by the server's counters, all clients", attached(), attached(1.5), visits=True),
    row("latency-chart", "L", "Commit .. no client's clock, no percentiles", attached(), attached(1.5),
        visits=True),
    row("anatomy", "L", "the server's mean of 3400 commits", attached(), attached(1.5), visits=True),
    row("anatomy", "N", "the server has timed no commit", attached(mean_ms=None), visits=True),
    row("latency-chart", "N", "the server has timed no commit", attached(mean_ms=None), visits=True),
)
# fmt: on


@pytest.mark.parametrize(
    ("where", "size", "ticks", "told", "untold", "inks", "knob", "keys", "settings"),
    [case for cases in ROWS for case in cases],
)
async def test_it_says(
    where: str,
    size: tuple[int, int],
    ticks: tuple[Tick, ...],
    told: str,
    untold: str,
    inks: Mapping[str, str],
    knob: KnobName | None,
    keys: list[str],
    settings: dict[str, object],
) -> None:
    async with bench(*ticks, size=size, **settings) as app:  # type: ignore[arg-type]
        if knob is not None:
            app.dashboard.select_knob(knob)
        for key in keys:
            await app.press(key)
        await app.until(lambda: bool(app.rows(f"#{where}")) or not told)
        drawn = " ".join(app.text(f"#{where}").split())
        at = 0
        for words in told.split(GAP):
            assert words in drawn[at:], drawn
            at = drawn.index(words, at) + len(words)
        assert [words for words in untold.split(GAP) if words and words in drawn] == [], drawn
        runs = [run for line in app.painted(f"#{where}") for run in line]
        for text, found in inks.items():
            for ink in found.split(", "):
                assert any(text in drawn and words == ink for drawn, words in runs), (text, runs)


def test_of_members_that_count_their_own_the_conflicts_are_added() -> None:
    nodes = grouped(*(replace(ONLINE, conflicts=number, gave_way=2) for number in (1, 2, 3))).nodes
    text = "".join(part for part, _ in group_line(GALERA, nodes, 120))
    assert text == " conflicts 6  queued db1 0 db2 0 db3 0  gave way 6"
    assert "".join(part for part, _ in group_line(GROUP, nodes, 120)).startswith(" conflicts 3  queued")
