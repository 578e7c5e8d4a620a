"""What `status`, `get` and `set` print for people: the same values that their JSON is made of, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from replexplorer.core.fault import Fault
from replexplorer.core.knobs.names import (
    BY_KEY,
    Knob,
    KnobView,
    Value,
    describe_range,
    format_value,
    same_value,
)
from replexplorer.core.link import FlapNow, LinkView
from replexplorer.core.server.disk import DiskView
from replexplorer.core.server.exposure import Exposure, Loss, Unknown
from replexplorer.core.server.gtid import gtid_count
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.server.protection import Protection, meaning_of, word_of
from replexplorer.core.system import system_of
from replexplorer.core.text import command, folded, number, table
from replexplorer.engine.outcome import Changed, DrivenLoad, KnobValues, SetResult, Status
from replexplorer.ports import HostView
from replexplorer.reports.report import ReportColumn, ReportTable, block_text

_NAMED_UNCHANGED = 3
_HANGS_AFTER_S = 5.0
"""A commit that is under way for longer has met something else than load."""
_NO_LOAD = "no load runs"
"""The note of a knob that waits for a load."""
_LABEL = " " * 12
"""What stands before the words of a line of `status`."""


def render_status(status: Status, columns: int | None = None, *, mends: bool = True) -> str:
    """Nodes, protection, links and the knobs that are not at rest; lines of this many columns. With `mends`
    what is wrong is said with the verb that mends it."""
    protection, is_group = status.protection, system_of(status.system).is_group
    parts = [
        f"stack {status.stack}: {status.state}",
        "",
        table([_node_row(node) for node in status.nodes], _NODE_HEADINGS),
        *(line for node in status.nodes for line in _wrong_lines(node, status.stack, mends=mends)),
        *(line for node in status.nodes for line in _thread_lines(node, status.stack, mends=mends)),
        *(_host_line(host) for host in status.hosts),
        "",
        f"protection  {word_of(protection.state)}: {meaning_of(protection, is_group=is_group)}",
    ]
    if is_group:
        parts += _group_lines(status)
    elif protection.replicas_required is not None:
        parts.append(
            f"            replicas {_acking(protection)} of "
            f"{protection.replicas_required} required, wait point {_shown(protection.wait_point)}, "
            f"timeout {_shown(protection.timeout_ms)} ms, {_fallbacks(protection.fallbacks)}"
        )
    oldest_s = status.oldest_commit_s or 0.0
    if oldest_s > _HANGS_AFTER_S and protection.state != "blocked":
        parts.append(f"{_LABEL}COMMITS HANG: the oldest under way waits {oldest_s:.0f} s")
    parts += exposure_lines(status.exposure)
    parts += [_link_line(link) for link in status.links]
    parts += [_disk_line(disk) for disk in status.disks]
    parts += [_fault_line(fault, status.stack) for fault in status.faults]
    if status.interrupted is not None:
        back = f"{command('up', status.stack)} gives back what it changed"
        parts.append(f"interrupted {status.interrupted}: its settings are still requested; {back}")
    parts.append(f"load        {_load_words(status.load)}")
    if status.footprint_bytes is not None:
        parts.append(f"footprint   {status.footprint_bytes / 1024**2:,.0f} MB")
    flavor = next((node.flavor for node in status.nodes if node.flavor), None)
    knobs = status.knob_values
    changed = {key: knob for key, knob in knobs.items() if _is_worth_telling(key, knob, flavor)}
    if changed:
        rows = [(key, _value(key, knob.requested), _in_effect(key, knob)) for key, knob in changed.items()]
        parts += ["", table(rows, ("KNOB", "REQUESTED", "IN EFFECT"))]
    apart = [key for key, knob in knobs.items() if _differs(key, knob.effective, knob.requested)]
    if apart and mends:
        them = "it" if len(apart) == 1 else "them"
        parts.append(f"not in force: {', '.join(apart)}; {command('up', status.stack)} sets {them} again")
    return "\n".join(_folded(line, columns) for part in parts for line in part.split("\n"))


def _host_line(host: HostView) -> str:
    """`host        unix:///a/sock (db1): clock +0.1 ms (within 0.4), manages the swarm`."""
    words = [f"away: {host.fault}"] if host.fault is not None else []
    if host.clock_ms is not None:
        words.append(f"clock {host.clock_ms:+.1f} ms (within {number(host.clock_within_ms, 1)})")
    words += ["manages the swarm"] if host.manages else []
    words += ["keeps what is requested"] if host.keeps else []
    return f"host        {host.name} ({', '.join(host.nodes)}): {', '.join(words) or 'answers'}"


def _group_lines(status: Status) -> list[str]:
    """What the members say of the group."""
    told = [node for node in status.nodes if node.member is not None]
    ready = sum(node.member.is_ready for node in told if node.member)
    lines = [f"{_LABEL}{system_of(status.system).title}: {ready} of {len(status.nodes)} take part"]
    for node in status.nodes:
        if node.transfer is not None:
            lines.append(f"joins       {node.name} {node.transfer.words}")
    for node in told:
        member = node.member
        if member is None or not member.size:
            continue
        gave_way = "" if member.gave_way is None else f", gave way {member.gave_way:,}"
        heard = "in a view of " if member.answering is None else f"hears {member.answering} of "
        held = "" if not member.held_ms else f", flow control held {number(member.held_ms)} ms"
        lines.append(
            f"member      {node.name}: {node.state}, {heard}{member.size}"
            f" (view {_shown(member.view)}), to certify {_shown(member.queued)},"
            f" to apply {_shown(member.to_apply)}, certified {_shown(member.certified)},"
            f" conflicts {_shown(member.conflicts)}{gave_way}{held}"
        )
    return lines


_FAILURES = (
    ("process_dies", "mysqld dies"),
    ("power_cut", "power cut"),
    ("source_lost", "source lost"),
)


LOSSES = ("DIES", "CUT", "LOST")
"""Headings of what is lost when mysqld dies, at a power cut, and when the source is lost."""


def losses_shortly(exposure: Exposure) -> tuple[str, ...]:
    """Commits by kind of failure, in the order of `LOSSES`; `?` where it is not known."""
    found = [getattr(exposure, name) for name, _ in _FAILURES]
    return tuple(
        f"{loss.commits:,}" if isinstance(loss, Loss) else f">={loss.low:,}" if loss.low else "?"
        for loss in found
    )


_AFTER_CUT: Final = {
    "broken 1236": "that lack what the binlog loses stop with error 1236 and have to be copied",
    "diverged": "may differ from the source and have to be copied",
}


def exposure_lines(exposure: Exposure) -> list[str]:
    """What each kind of failure would lose now, a line each."""
    words = [f"{title}: {_loss_words(getattr(exposure, name))}" for name, title in _FAILURES]
    if exposure.replication_after not in (None, "whole"):
        words[1] += f"; replicas {_AFTER_CUT[exposure.replication_after]}"
    return ["would lose  " + words[0], *(_LABEL + each for each in words[1:])]


def _loss_words(loss: Loss | Unknown) -> str:
    """`455 commits (443 to 470), the oldest 413 ms old`; `nothing`; `not known: why`."""
    if isinstance(loss, Unknown):
        least = f"at least {loss.low:,} commits; " if loss.low else ""
        return f"{least or 'not known: '}{loss.why}"
    if not loss.high:
        return "nothing"
    commits = "1 commit" if loss.commits == 1 else f"{loss.commits:,} commits"
    age = "" if loss.age_ms is None else f", the oldest {_ms(loss.age_ms, 0)} old"
    return f"{commits} ({loss.low:,} to {loss.high:,}){age}"


def _folded(line: str, columns: int | None) -> str:
    """A line of a label and words, the rest under the words; a row of a table stays as it is."""
    label, text = line[: len(_LABEL)], line[len(_LABEL) :]
    if not label.endswith("  ") or (label == _LABEL and "  " in text):
        return line
    first, *more = folded(text, None if columns is None else columns - len(_LABEL), "").split("\n")
    return "\n".join([label + first, *(_LABEL + each for each in more)])


def _load_words(load: DrivenLoad) -> str:
    """The load that runs and who drives it."""
    if load.clients is None:
        return f"driven by {load.driver}, which does not say more" if load.driver else "not known"
    if load.driver is None:
        return "none runs"
    if load.workload is None:
        return f"none runs; {load.driver} is to drive it"
    clients = "1 client" if load.clients == 1 else f"{load.clients} clients"
    rate = "" if load.rate_tps is None else f" at {load.rate_tps:g} TPS"
    return f"{clients}, {load.mode}{rate}, {load.workload}, driven by {load.driver}"


def _acking(protection: Protection) -> str:
    """How many acknowledge, and what the source counts where that is more."""
    acking, counted = protection.replicas_acking, protection.replicas_counted
    if acking is None or counted is None or counted <= acking:
        return _shown(acking)
    return f"{acking} (the source counts {counted}: not all of them are connected)"


def _wrong_lines(node: NodeView, stack: str, *, mends: bool) -> list[str]:
    """What is wrong with a node's data, and why no login reaches it: one whose sidecar alone is away goes on
    replicating."""
    found = []
    copied = f"{command('rejoin', stack, node.name, '--copy')} makes it a copy of the primary"
    if node.errant_gtids:
        count = gtid_count(node.errant_gtids)
        has = f"{node.name} has {count:,} transaction{'' if count == 1 else 's'} that the primary lacks"
        found.append((f"{has}: {node.errant_gtids}", copied))
    if node.diverged:
        found.append((f"{node.name} DIVERGED: it {node.diverged}", copied))
    if node.why_down:
        found.append((node.why_down, f"{command('up', stack)} starts what is away"))
    return [f"{what}; {remedy}" if mends else what for what, remedy in found]


def _thread_lines(node: NodeView, stack: str, *, mends: bool) -> list[str]:
    """Why a thread does not run: `db2 SQL thread, error 1062: Duplicate entry ...`."""
    found = (
        ("IO", node.io_thread, node.last_io_errno, node.last_io_error),
        ("SQL", node.sql_thread, node.last_sql_errno, node.last_sql_error),
    )
    lines = [
        f"{node.name} {name} thread, error {number}: {text}"
        for name, state, number, text in found
        if text and state in ("connecting", "error")
    ]
    if mends and lines and "error" in (node.io_thread, node.sql_thread):
        again, copied = command("up", stack), command("rejoin", stack, node.name, "--copy")
        lines[-1] += f"; {again} starts it again, and {copied} makes it a copy where that does not help"
    return lines


def render_knobs(knobs: Mapping[str, KnobView], columns: int | None = None) -> str:
    """One line a knob; columns that do not fit into this many characters are left out from the right."""
    heads = ("knob", "requested", "in effect", "default", "range", "node", "scope", "does")
    shown = [ReportColumn(head, rank=max(0, at - 2)) for at, head in enumerate(heads)]
    rows = [
        (
            key,
            _value(key, knob.requested),
            _value(key, knob.effective) + (f" ({knob.note})" if knob.note else ""),
            _default(key, knob),
            describe_range(_in_range(key, knob)),
            knob.node,
            knob.scope,
            knob.help,
        )
        for key, knob in knobs.items()
    ]
    return block_text(ReportTable(shown, rows), columns)


def _default(key: str, knob: KnobView) -> str:
    """`96 MiB (server: 100 MiB)`: what the stack begins with, and the server where that is another value."""
    own = knob.server_default
    server = "" if own in (None, knob.default) else f" (server: {_value(key, own)})"
    return _value(key, knob.default) + server


def _in_range(key: str, shown: KnobView) -> Knob:
    """The catalogue's row in the range of the server that was asked."""
    note = _knob(key).range_note if shown.knob.maximum == _knob(key).maximum else ""
    return replace(shown.knob, range_note=note)


def render_set(report: SetResult) -> str:
    """One line a knob with the statements that ran, or would run, below it."""
    lines = []
    for index, change in enumerate(report.changed):
        lines.append(_change_line(change, dry_run=report.dry_run))
        following = report.changed[index + 1 :]
        if not following or following[0].statements != change.statements:
            lines += [f"    {statement};" for statement in change.statements]
    unchanged = report.unchanged
    if len(unchanged) <= _NAMED_UNCHANGED:
        lines += [f"{key}: unchanged" for key in unchanged]
    else:
        lines.append(f"{len(unchanged)} {'others' if lines else 'knobs'}: unchanged")
    return "\n".join(lines)


def _change_line(change: Changed, *, dry_run: bool) -> str:
    key = str(change.name)
    before, asked = _value(key, change.before), _value(key, change.requested)
    if dry_run:
        return f"{key}: {before} -> {asked}, not run"
    if change.effective is None and change.note:
        later = f" from the next load on ({change.note})" if change.note == _NO_LOAD else f", {change.note}"
        return f"{key}: {asked}{later}"
    note = f" ({change.note})" if change.note else ""
    effective = _value(key, change.effective)
    measured = "" if change.measured_ms is None else f", measured {number(change.measured_ms, 2)} ms"
    return f"{key}: {before} -> {asked}, in effect {effective}{measured}, {change.took_ms:.0f} ms{note}"


_NODE_HEADINGS = ("NODE", "ROLE", "SERVER", "ADDRESS", "PATH", "STATE", "IO", "SQL", "LAG")


def _node_row(node: NodeView) -> tuple[str, ...]:
    server = " ".join(part for part in (node.flavor, node.version) if part) or "-"
    address = f"{node.host}:{node.port}" if node.host else "-"
    lag = "-" if node.lag_s is None else f"{node.lag_s:.1f} s"
    state = (node.state or "up") if node.reachable else "DOWN"
    return (
        node.name,
        node.role,
        server,
        address,
        node.path or "-",
        state,
        node.io_thread or "-",
        node.sql_thread or "-",
        lag,
    )


def _link_line(link: LinkView) -> str:
    parts = [
        (
            f"link        {link.a} <-> {link.b}: asked {_ms(link.rtt_asked_ms)}, "
            f"{_measured(link.rtt_measured_ms, 1)} (bare path {_ms(link.rtt_base_ms, 2)})",
            True,
        ),
        (f"PARTITION {link.partition}", link.is_cut and not link.flap),
        (_flap_words(link.flap_now), link.flap),
        ("healed, TCP retries", link.healing),
        (f"jitter {number(link.jitter_ms)} ms", link.jitter_ms),
        (
            f"loss {number(link.loss_percent)} %, of probes {number(link.probes_lost_percent)} %",
            link.loss_percent,
        ),
        (f"TCP {link.congestion or 'congestion control unknown'}", link.loss_percent),
        (_value("bandwidth", link.bandwidth_bps), link.bandwidth_bps),
        (link.backend or "backend unknown", True),
        (f"dropped {_shown(link.dropped)}", True),
        (f"FAULT: {link.fault}", link.fault),
    ]
    return ", ".join(text for text, applies in parts if applies)


def _flap_words(flap: FlapNow | None) -> str:
    """`FLAPS 2 s down, 2 s up, down now`."""
    if flap is None:
        return ""
    now = "down" if flap.is_down else "up"
    return f"FLAPS {flap.down_s:g} s down, {flap.up_s:g} s up, {now} now"


def _fallbacks(count: int | None) -> str:
    """How often semi-sync fell back to async by timeout since the server's start."""
    if count is None:
        return "falls back to async unknown"
    return {0: "never fell back", 1: "fell back once"}.get(count, f"fell back {count:,} times")


def _fault_line(fault: Fault, stack: str) -> str:
    value = f"={fault.value}" if fault.value else ""
    until = f" until {fault.until}" if fault.until else ""
    clear = f"{command('fault', stack, 'clear', f'{fault.kind}@{fault.node}')} undoes it"
    return f"fault       {fault.kind}{value}@{fault.node} since {fault.since}{until}, by {fault.by}: {clear}"


def _disk_line(disk: DiskView) -> str:
    counted = ", ".join(f"{name} {count}" for name, count in (disk.fsyncs or {}).items() if count)
    told = counted or ("unknown" if disk.delay_ms is None else "none")
    own = "".join(
        f" ({kind} {_ms(own_ms)}, {_measured(disk.measured_by_kind_ms.get(kind), 2)})"
        for kind, own_ms in (("redo", disk.redo_delay_ms), ("binlog", disk.binlog_delay_ms))
        if isinstance(own_ms, float)
    )
    jitter = f" +- {_ms(disk.jitter_ms)}" if disk.jitter_ms else ""
    line = (
        f"disk        {disk.node}: fsync delay asked {_ms(disk.delay_ms)}{jitter}{own}, "
        f"{_measured(disk.measured_ms, 2)}, bare disk {_ms(disk.probe_p50_ms, 2)}, fsyncs {told}"
    )
    return f"{line}, {disk.fault}" if disk.fault else line


def _ms(value: float | None, digits: int = 1) -> str:
    return "unknown" if value is None else f"{number(value, digits)} ms"


def _measured(value: float | None, digits: int) -> str:
    """`measured 85.4 ms`, or that there is no measurement."""
    return "not measured" if value is None else f"measured {_ms(value, digits)}"


def _knob(key: str) -> Knob:
    return BY_KEY[key.partition("@")[0]]


def _is_worth_telling(key: str, knob: KnobValues, flavor: str | None) -> bool:
    """It is not at the default of these servers, asked or in effect; on servers of which nothing is asked,
    each that they have."""
    if knob.requested is None:
        return knob.effective is not None
    default = _knob(key).default_of(flavor)
    return knob.requested != default or _differs(key, knob.effective, default)


def _in_effect(key: str, knob: KnobValues) -> str:
    """The value in effect, with a word where it is another than was requested."""
    value = _value(key, knob.effective)
    return f"{value}, not as requested" if _differs(key, knob.effective, knob.requested) else value


def _differs(key: str, effective: Value | None, other: Value | None) -> bool:
    """Whether what is in effect is known and another value."""
    return effective is not None and other is not None and not same_value(_knob(key), effective, other)


def _value(key: str, value: Value | None) -> str:
    return "-" if value is None else format_value(_knob(key), value)


def _shown(value: object) -> str:
    return "-" if value is None else str(value)
