"""What `status`, `get` and `set` print for people: the same values that their JSON is made of, as tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from replexplorer.cli.lines import Line, exposure_lines, labelled
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.names import BY_KEY, KnobView, Value, describe_range, format_value, same_value
from replexplorer.core.server.gtid import gtid_count
from replexplorer.core.server.protection import meaning_of, word_of
from replexplorer.core.system import system_of
from replexplorer.core.text import command, number, table

if TYPE_CHECKING:
    from replexplorer.core.link import LinkView
    from replexplorer.core.server.disk import DiskView
    from replexplorer.core.server.node_view import NodeView
    from replexplorer.engine.outcome import Changed, DrivenLoad, SetResult, Status
    from replexplorer.ports import HostView

_NAMED_UNCHANGED: Final = 3
_HANGS_AFTER_S: Final = 5.0
"""A commit that is under way for longer has met something else than load."""
_NO_LOAD: Final = "no load runs"
"""The note of a knob that waits for a load."""
_NODES: Final = ("NODE", "ROLE", "SERVER", "ADDRESS", "PATH", "STATE", "IO", "SQL", "LAG")


def render_status(status: Status, columns: int | None = None) -> str:
    """Nodes, protection, links and the knobs that are not at rest; lines of this many columns. Of a stack of
    ours what is wrong is said with the verb that mends it."""
    parts = [
        f"stack {status.stack}: {status.state}",
        "",
        table([_node_row(node) for node in status.nodes], _NODES),
        *_problems(status),
        *labelled([_host_line(host) for host in status.hosts], columns),
        "",
        *labelled(_lines(status), columns),
        *_knobs(status),
    ]
    return "\n".join(parts)


def _lines(status: Status) -> Iterator[Line]:
    """Protection, exposure, links, disks, faults, the load."""
    protection, stack = status.protection, status.stack
    is_group = system_of(status.system).is_group
    state = f"{word_of(protection.state)}: {meaning_of(protection, is_group=is_group)}"
    yield "protection", state
    if is_group:
        yield from _group_lines(status)
    elif protection.replicas_required is not None:
        acking, counted = protection.replicas_acking, protection.replicas_counted
        more = ""
        if acking is not None and counted is not None and counted > acking:
            more = f" (the source counts {counted}: not all of them are connected)"
        fell = f"fell back to async {_shown(protection.fallbacks)} times"
        yield (
            "",
            f"replicas {_shown(acking)}{more} of {protection.replicas_required} required, wait point "
            f"{_shown(protection.wait_point)}, timeout {_shown(protection.timeout_ms)} ms, {fell}",
        )
    oldest_s = status.oldest_commit_s or 0.0
    if oldest_s > _HANGS_AFTER_S and protection.state != "blocked":
        yield "", f"COMMITS HANG: the oldest under way waits {oldest_s:.0f} s"
    yield from exposure_lines(status.exposure)
    for node in status.nodes:
        if node.applier is not None and node.applier.applied_tps is not None:
            yield "applier", f"{node.name} {node.applier.pace}"
    for link in status.links:
        yield "link", _link_words(link)
    for disk in status.disks:
        yield "disk", _disk_words(disk)
    for fault in status.faults:
        value = f"={fault.value}" if fault.value else ""
        until = f" until {fault.until}" if fault.until else ""
        clear = command("fault", stack, "clear", f"{fault.kind}@{fault.node}")
        what = f"{fault.kind}{value}@{fault.node} since {fault.since}{until}, by {fault.by}"
        yield "fault", f"{what}: {clear} undoes it"
    if status.interrupted is not None:
        back = f"{command('up', stack)} restores what it changed"
        yield "interrupted", f"{status.interrupted}: its settings are still requested; {back}"
    yield "load", _load_words(status.load)
    if status.footprint_bytes is not None:
        yield "footprint", f"{status.footprint_bytes / 1024**2:,.0f} MB"


def _knobs(status: Status) -> Iterator[str]:
    """The knobs that are not at the default of these servers, asked or in effect; of servers of which nothing
    is asked, those that they have."""
    if not status.is_ours:
        rows = [
            (str(name), "-", _value(knob, knob.effective))
            for name, knob in status.knobs.items()
            if knob.effective is not None
        ]
    else:
        rows = [
            (str(name), _value(knob, knob.requested), _in_effect(knob))
            for name, knob in status.knobs.items()
            if knob.requested != knob.default or _differs(knob, knob.default)
        ]
    if rows:
        yield ""
        yield table(rows, ("KNOB", "REQUESTED", "IN EFFECT"))
    apart = [str(name) for name, knob in status.knobs.items() if _differs(knob, knob.requested)]
    if apart and status.is_ours:
        them = "it" if len(apart) == 1 else "them"
        yield f"not in force: {', '.join(apart)}; {command('up', status.stack)} sets {them} again"


def _host_line(host: HostView) -> Line:
    """`host        unix:///a/sock (db1): clock +0.1 ms (within 0.4), manages the swarm`."""
    words = [
        f"away: {host.fault}" if host.fault is not None else "",
        ""
        if host.clock_ms is None
        else f"clock {host.clock_ms:+.1f} ms (within {number(host.clock_within_ms)})",
        "manages the swarm" if host.manages else "",
        "keeps what is requested" if host.keeps else "",
    ]
    return "host", f"{host.name} ({', '.join(host.nodes)}): {', '.join(filter(None, words)) or 'answers'}"


def _group_lines(status: Status) -> Iterator[Line]:
    """What the members say of the group."""
    members = [(node, node.member) for node in status.nodes if node.member is not None]
    ready = sum(member.is_ready for _, member in members)
    yield "", f"{system_of(status.system).title}: {ready} of {len(status.nodes)} take part"
    for node, member in members:
        if not member.size:
            continue
        gave_way = "" if member.gave_way is None else f", gave way {member.gave_way:,}"
        heard = "in a view of " if member.answering is None else f"hears {member.answering} of "
        held = "" if not member.held_ms else f", flow control held {number(member.held_ms)} ms"
        yield (
            "member",
            f"{node.name}: {node.state}, {heard}{member.size} (view {_shown(member.view)}),"
            f" to certify {_shown(member.queued)}, to apply {_shown(member.to_apply)},"
            f" certified {_shown(member.certified)}, conflicts {_shown(member.conflicts)}{gave_way}{held}",
        )


def _load_words(load: DrivenLoad) -> str:
    """The load that runs and who drives it."""
    if load.driver is None or load.workload is None:
        return "none runs" if load.driver is None else f"{load.driver} is to drive it"
    clients = "1 client" if load.clients == 1 else f"{load.clients} clients"
    rate = "" if load.rate_tps is None else f" at {load.rate_tps:g} TPS"
    return f"{clients}, {load.mode}{rate}, {load.workload}, driven by {load.driver}"


def _problems(status: Status) -> Iterator[str]:
    """What is wrong with a node's data, why no login reaches it, and why its threads do not run, as
    `db2 SQL thread, error 1062: Duplicate entry ...`."""
    up = command("up", status.stack)
    for node in status.nodes:
        copied = f"{command('role rejoin', status.stack, node.name, '--copy')} makes it a copy"
        found = []
        if node.errant_gtids and not node.diverged:
            count = gtid_count(node.errant_gtids)
            has = f"{node.name} has {count:,} transaction{'' if count == 1 else 's'} that the primary lacks"
            found.append((f"{has}: {node.errant_gtids}", f"{copied} of the primary"))
        if node.diverged:
            found.append((f"{node.name} DIVERGED: {node.diverged}", ""))
        if node.why_down:
            found.append((node.why_down, f"{up} starts what is away"))
        threads = (("IO", node.io_thread, node.io_error), ("SQL", node.sql_thread, node.sql_error))
        for name, state, error in threads:
            if error is not None and state in ("connecting", "error"):
                again = f"{up} starts it again, and {copied} where that does not help"
                said = f"{node.name} {name} thread, error {error.number}: {error.text}"
                found.append((said, again if state == "error" else ""))
        yield from (f"{what}; {remedy}" if status.is_ours and remedy else what for what, remedy in found)


def _node_row(node: NodeView) -> tuple[str, ...]:
    return (
        node.name,
        node.role,
        " ".join(part for part in (node.flavor, node.version) if part) or "-",
        f"{node.host}:{node.port}" if node.host else "-",
        node.path or "-",
        (node.state or "up") if node.reachable else "DOWN",
        node.io_thread or "-",
        node.sql_thread or "-",
        "-" if node.lag_s is None else f"{node.lag_s:.1f} s",
    )


def _link_words(link: LinkView) -> str:
    flap = link.flap_now
    bandwidth = link.bandwidth_bps
    wrong = "NOT AS ASKED" if link.fault == link.contradiction else f"FAULT: {link.fault}"
    parts = [
        f"{link.a} <-> {link.b}: asked {_ms(link.rtt_asked_ms)}, "
        f"{_measured(link.rtt_measured_ms, 1)} (bare path {_ms(link.rtt_base_ms, 2)})",
        f"PARTITION {link.partition}" if link.is_cut and not link.flap else "",
        ""
        if flap is None
        else f"FLAPS {flap.down_s:g} s down, {flap.up_s:g} s up, {'down' if flap.is_down else 'up'} now",
        "healed, TCP retries" if link.healing else "",
        f"jitter {number(link.jitter_ms)} ms" if link.jitter_ms else "",
        f"loss {number(link.loss_percent)} %, of probes {number(link.probes_lost_percent)} %, TCP reno"
        if link.loss_percent
        else "",
        format_value(BY_KEY[keys.BANDWIDTH], bandwidth) if bandwidth else "",
        link.backend or "backend unknown",
        f"dropped {_shown(link.dropped)}",
        wrong if link.fault else "",
    ]
    return ", ".join(filter(None, parts))


def _disk_words(disk: DiskView) -> str:
    counted = ", ".join(f"{name} {count}" for name, count in (disk.fsyncs or {}).items() if count)
    told = counted or ("unknown" if disk.delay_ms is None else "none")
    own = "".join(
        f" ({kind} {_ms(own_ms)}, {_measured(disk.measured_by_kind_ms.get(kind), 2)})"
        for kind, own_ms in (("redo", disk.redo_delay_ms), ("binlog", disk.binlog_delay_ms))
        if isinstance(own_ms, float)
    )
    jitter = f" +- {_ms(disk.jitter_ms)}" if disk.jitter_ms else ""
    return (
        f"{disk.node}: fsync delay asked {_ms(disk.delay_ms)}{jitter}{own}, "
        f"{_measured(disk.measured_ms, 2)}, bare disk {_ms(disk.probe_p50_ms, 2)}, fsyncs {told}"
    ) + (f", {disk.fault}" if disk.fault else "")


# -- knobs


def render_knobs(knobs: Mapping[str, KnobView], columns: int | None = None) -> str:
    """One line a knob; columns that do not fit into this many characters are left out from the right."""
    heads = ("knob", "requested", "in effect", "default", "variable", "range", "node", "scope", "does")
    rows = []
    for key, knob in knobs.items():
        row, here = knob.name.knob, knob.knob
        # The catalogue's note is of its own range, not of a server's narrower one.
        note = row.range_note if here.maximum == row.maximum else ""
        own = knob.server_default
        server = "" if own in (None, knob.default) else f" (server: {_value(knob, own)})"
        rows.append(
            (
                key,
                _value(knob, knob.requested),
                _value(knob, knob.effective) + (f" ({knob.note})" if knob.note else ""),
                _value(knob, knob.default) + server,
                knob.variable if knob.variable not in (None, row.key) else "",
                describe_range(replace(here, range_note=note)),
                knob.node,
                here.backing.value,
                here.help,
            )
        )
    from replexplorer.reports.report import ReportColumn, ReportTable, block_text

    shown = [ReportColumn(head, rank=max(0, at - 2)) for at, head in enumerate(heads)]
    return block_text(ReportTable(shown, rows), columns)


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
    before, asked, effective = (
        _value(change, value) for value in (change.before, change.requested, change.effective)
    )
    if dry_run:
        return f"{change.name}: {before} -> {asked}, not run"
    if change.effective is None and change.note:
        later = f" from the next load on ({change.note})" if change.note == _NO_LOAD else f", {change.note}"
        return f"{change.name}: {asked}{later}"
    note = f" ({change.note})" if change.note else ""
    measured = "" if change.measured_ms is None else f", measured {number(change.measured_ms, 2)} ms"
    took = f"{change.took_ms:.0f} ms"
    return f"{change.name}: {before} -> {asked}, in effect {effective}{measured}, {took}{note}"


def _in_effect(knob: KnobView) -> str:
    """The value in effect, with a word where it is another than was requested."""
    value = _value(knob, knob.effective)
    return f"{value}, not as requested" if _differs(knob, knob.requested) else value


def _differs(knob: KnobView, other: Value) -> bool:
    """Whether what is in effect is known and another value."""
    return knob.effective is not None and not same_value(knob.name.knob, knob.effective, other)


def _value(of: KnobView | Changed, value: Value | None) -> str:
    return "-" if value is None else format_value(of.name.knob, value)


def _ms(value: float | None, digits: int = 1) -> str:
    return "unknown" if value is None else f"{number(value, digits)} ms"


def _measured(value: float | None, digits: int) -> str:
    """`measured 85.4 ms`, or that there is no measurement."""
    return "not measured" if value is None else f"measured {_ms(value, digits)}"


def _shown(value: object) -> str:
    return "-" if value is None else str(value)
