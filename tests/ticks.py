"""A plausible tick of a running stack, and ticks as lines of words, for tables and stories of what is shown.

`2 state=blocked rtt=85,99 partition@db2=ack load.dropped=60 db2.lag_s=12.0`: the moment, what `make_tick`
takes, knobs as they are typed, and fields of a part, a node or a knob. `fault=kill@db2,pause@db1` are in
force since `since=0`, `down=db2` is a node that does not answer, `window=4x90` half a second with four
commits of 90 ms, `explained` a commit that is taken apart and predicted.
"""

from __future__ import annotations

from ast import literal_eval
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from inspect import signature
from typing import Any, cast

from replexplorer.core.epochs.epochs import Epoch
from replexplorer.core.event import Event, Severity
from replexplorer.core.fault import Fault
from replexplorer.core.knobs.names import CATALOGUE, KnobName, KnobView, Value, defaults, expand, parse_name
from replexplorer.core.link import LinkSettings, LinkView
from replexplorer.core.load.interval import LoadView
from replexplorer.core.model.ceiling import Ceiling
from replexplorer.core.model.fitted import Prediction
from replexplorer.core.server.anatomy import Anatomy, Part
from replexplorer.core.server.disk import DiskView
from replexplorer.core.server.exposure import Exposure, Loss
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.server.truth import CrossCheck, ReplicaTruth, ServerTruth
from replexplorer.core.stats.histogram import Histogram
from replexplorer.core.system import ASYNC
from replexplorer.core.tick import Tick
from replexplorer.core.topology import SOURCE, Role, node_names
from tests.typed import WORD, fields, typed

EXPOSED = Exposure(Loss(0, 0, 0), Loss(312, 300, 340, 413.0), Loss(8, 8, 8, 12.0))
"""What a stack with `innodb_flush_log_at_trx_commit=2` over a slow link may have at risk."""
WALL_S = 1_760_000_000.0
"""The fake's wall clock at its zero: a fixed moment."""


def knob_views(values: Mapping[KnobName, Value] | None = None, replicas: int = 1) -> dict[KnobName, KnobView]:
    """Every knob of a source and its replicas at its default, changed by `values`, in effect as asked."""
    nodes = replica_names(replicas)
    held = {**defaults(nodes), **(values or {})}
    names = (name for name in expand(CATALOGUE, nodes) if ASYNC.has(name.knob))
    return {name: KnobView(name, held[name], held[name]) for name in names}


def replica_names(count: int) -> list[str]:
    """`db2`, `db3`, ..."""
    return node_names(count)[1:]


_SERVER = fields("reachable=True flavor='mysql' version='9.7.4-2'")
_LOCAL_MS = fields("mean_ms=4 p50_ms=3.6 p95_ms=7.6 p99_ms=12.6 max_ms=26.6")
"""What commits take besides a round trip."""


def make_tick(
    at_s: float = 0.0,
    *,
    state: ProtectionState = ProtectionState.PROTECTED,
    tps: float | None = 528.0,
    rtt: tuple[float, float | None] = (85.0, 85.4),
    replicas: int = 1,
    values: Mapping[KnobName, Value] | None = None,
    events: tuple[Event, ...] = (),
    epochs: tuple[Epoch, ...] = (),
    viewer: bool = False,
    healing: bool = False,
    fsync_ms: float | None = 0.2,
    exposure: Exposure | None = EXPOSED,
) -> Tick:
    """A plausible tick of a running stack: links and disks do what their knobs in `values` ask.

    `fsync_ms` is what an fsync of the primary is measured to take; `healing` is every link's.
    """
    nodes = replica_names(replicas)
    views = knob_views({**{KnobName("rtt", node): rtt[0] for node in nodes}, **(values or {})}, replicas)
    clients = cast(int, views[KnobName("clients", "load")].requested)
    scale = rtt[1] or 1.0
    is_protected = state is ProtectionState.PROTECTED
    return Tick(
        at_s=at_s,
        wall_s=WALL_S + at_s,
        stack="default",
        state="up",
        nodes=(
            NodeView("db1", Role.PRIMARY, published_port=33061, is_source=True, **_SERVER),
            *(NodeView(node, Role.REPLICA, io_thread="on", sql_thread="on", **_SERVER) for node in nodes),
        ),
        protection=Protection(
            state,
            requested=state is not ProtectionState.OFF,
            operational=is_protected,
            replicas_acking=replicas if is_protected else 0,
            replicas_required=1,
            wait_point="after_sync",
            timeout_ms=10000,
            fallbacks=0,
        ),
        links=tuple(_link(node, views, rtt[1], healing=healing) for node in nodes),
        disks=tuple(_disk(node, views, fsync_ms) for node in ("db1", *nodes)),
        load=LoadView(
            clients=clients,
            connected=clients,
            workload="update_index",
            tps=tps,
            n=264,
            duration_s=0.5,
            **{name: scale + local_ms for name, local_ms in _LOCAL_MS.items()},
        ),
        knobs=views,
        ceiling=Ceiling(clients * 1000 / (scale + 3.0), clients, scale, 3.0)
        if state is not ProtectionState.OFF
        else None,
        epochs=epochs,
        events=events,
        viewer=viewer,
        exposure=exposure,
    )


def explained(tick: Tick, *, failed: bool = False, excess_ms: float = 0.0) -> Tick:
    """The same tick with its commit taken apart, predicted and checked; one check has `failed`."""
    load = tick.load
    mean_ms = load.mean_ms if load is not None and load.mean_ms is not None else 10.0
    known_ms = fields("WIRE=0.12 EXECUTE=0.7 QUEUE=0.4 REDO=1.9 BINLOG=0.05")
    rest_ms = max(0.0, mean_ms - sum(known_ms.values()) - 0.5)
    parts = {
        Part[name]: ms for name, ms in (known_ms | {"ACK": rest_ms, "ENGINE": 0.3, "OTHER": 0.2}).items()
    }
    checks = (
        CrossCheck("Little's law", not failed, "8 clients, TPS x mean = 6.1"),
        CrossCheck("commits", True, "5300 ours, 5300 counted"),
    )
    return replace(
        tick,
        anatomy=Anatomy(5.0, 2650, mean_ms, parts, excess_ms),
        predicted=Prediction(
            tps=89.0,
            latency_ms=mean_ms,
            limit="network wait: 97 % of a commit; twice the clients would nearly double TPS",
            calibrated="2025-10-08, 192 runs",
        ),
        truth=ServerTruth(
            10.0, 5300, 6.2, 6.4, 0.31, 0.16, 850, rest_ms, 0,
            (ReplicaTruth("db2", 12.0, 3, 148_000.0),), checks,
        ),
    )  # fmt: skip


def _link(
    node: str, views: Mapping[KnobName, KnobView], measured_ms: float | None, *, healing: bool
) -> LinkView:
    asked = LinkSettings.of({name.key: view.requested for name, view in views.items() if name.node == node})
    return LinkView(
        node,
        "nfqueue",
        asked,
        asked.values(),
        as_asked=True,
        rtt_measured_ms=None if asked.is_silent else measured_ms,
        rtt_base_ms=0.1,
        probes_lost_percent=100.0 if asked.is_silent else asked.loss_percent,
        dropped=0,
        healing=healing,
    )


def _disk(node: str, views: Mapping[KnobName, KnobView], fsync_ms: float | None) -> DiskView:
    view: Any = views[KnobName("fsync_delay", SOURCE if node == "db1" else node)]
    return DiskView(node, view.requested, view.effective, fsync_ms, 0.08)


def altered(tick: Tick, **parts: Mapping[str, Any]) -> Tick:
    """The same tick with some fields of its parts otherwise: of `load` or `protection`, of each of its
    `links` or `disks`, of the node `db2`."""
    changed: dict[str, Any] = {
        "nodes": tuple(replace(node, **parts.pop(node.name, {})) for node in tick.nodes)
    }
    for name, values in parts.items():
        part = getattr(tick, name)
        is_one = name in ("load", "protection")
        changed[name] = replace(part, **values) if is_one else tuple(replace(one, **values) for one in part)
    return replace(tick, **changed)


def down(tick: Tick, node: str) -> Tick:
    """The same tick with one node that nobody can log in to."""
    return replace(altered(tick, **{node: {"role": Role.DOWN, "reachable": False}}), state="partial")


def change_event(at_s: float, number: int, text: str) -> Event:
    """A change with a mark."""
    return Event(at_s, WALL_S + at_s, Severity.MARK, text, number)


_ARGUMENTS = signature(make_tick).parameters
_KNOBS = {knob.key for knob in CATALOGUE}


def tick_of(text: str, base: Tick | None = None, **given: Any) -> Tick:
    """What the words say, of this tick or of a plausible one of a running stack, with what else is given."""
    knobs, parts = list[str](), defaultdict[str, dict[str, Any]](dict)
    others: dict[str, Any] = {"since": 0.0}
    for name, written in WORD.findall(text):
        head, _, field = name.partition(".")
        if name[0].isdigit():
            given["at_s"] = float(name)
        elif name == "state":
            given[name] = ProtectionState(written)
        elif name in _ARGUMENTS:
            given[name] = _value(written)
        elif field:
            parts[head][field] = _value(written)
        elif name.partition("@")[0] in _KNOBS:
            knobs.append(f"{name}={written}")
        else:
            others[name] = _value(written)
    made = make_tick(**{"at_s": 1.0, "values": typed(" ".join(knobs)), **given})
    tick = replace(base, at_s=made.at_s) if base else made
    since_s = others.pop("since")
    for name, value in others.items():
        match name:
            case "explained":
                tick = explained(tick)
            case "down":
                tick = down(tick, value)
            case "fault":
                found = (fault_of(each, number, since_s) for number, each in enumerate(value.split(","), 1))
                tick = replace(tick, faults=tuple(found))
            case "window":
                count, _, ms = value.partition("x")
                service = Histogram.of([round(1000 * float(ms))] * int(count))
                parts["load"] |= {"tps": 2.0 * service.count, "n": service.count, "service": service}
            case _:
                tick = replace(tick, **{name: value})
    for head in [each for each in parts if each.partition("@")[0] in _KNOBS]:
        knob = parse_name(head)
        tick = replace(tick, knobs={**tick.knobs, knob: replace(tick.knobs[knob], **parts.pop(head))})
    return altered(tick, **parts)


def ticks_of(text: str, bases: Mapping[str, Tick] = {}) -> list[Tick]:
    """Those of a cell, each after a semicolon; one may begin with a base's name."""
    found = []
    for words in text.split(";"):
        first, _, more = words.strip().partition(" ")
        found.append(tick_of(more, bases[first]) if first in bases else tick_of(words))
    return found


def fault_of(text: str, number: int = 1, since_s: float = 0.0) -> Fault:
    """One in force, as it is typed; of the source where no node is named."""
    what, _, node = text.partition("@")
    kind, _, value = what.partition("=")
    return Fault(number, kind, value or None, node or "db1", WALL_S + since_s, None, "fault (pid 12)", {})


def _value(written: str) -> Any:
    """As Python writes it, or the word itself; of a word alone that it is so."""
    try:
        return literal_eval(written or "True")
    except (SyntaxError, ValueError):
        return written
