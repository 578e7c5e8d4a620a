"""What the header says of the servers: waits, links, acknowledgements, round trip, fsync, what is broken."""

from __future__ import annotations

from typing import Final

from replexplorer.core.fault import PARTITION_FAULT, takes_down, written
from replexplorer.core.link_view import LinkView, partition_words
from replexplorer.core.server.disk_view import DiskView
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.system import system_of
from replexplorer.core.tick import Tick
from replexplorer.ui.words import figures
from replexplorer.ui.words.effects import contradiction_of, fsync_too_short, rtt_is_apart
from replexplorer.ui.words.runs import Line, Run, Segment

_SILENT: Final = (ProtectionState.BLOCKED, ProtectionState.DEGRADED)
"""No acknowledgement comes."""
_MS_CELLS: Final = 4
_RTT_CELLS: Final = 5


def link(tick: Tick) -> Segment:
    """The partition in force, beside the state and never instead of it; healed, until events flow."""
    runs: list[Run] = []
    short: list[Run] = []
    least: list[Run] = []
    if words := partition_words((*tick.links, *tick.pairs)):
        runs.append((f" PARTITION {', '.join(words)} ", "onstate on partitioned b"))
        first, *more = words
        first += f" +{len(more)}" if more else ""
        short.append((f" PARTITION {first} ", "onstate on partitioned b"))
        least.append((f" cut {first} ", "onstate on partitioned b"))
    if any(link.healing for link in tick.links):
        runs += [*([(" ", "text")] if runs else []), ("healed, TCP retries", "warn b")]
        short += [*([(" ", "text")] if short else []), ("healed", "warn b")]
        least = least or [("healed", "warn b")]
    return (runs, short, least)


def injected(tick: Tick) -> list[Run]:
    """The faults in force, ` kill@db1 `; a partition is the link's own chip."""
    nodes: dict[str, list[str]] = {}
    for fault in tick.faults:
        if fault.kind != PARTITION_FAULT:
            nodes.setdefault(written(fault.kind, fault.value), []).append(fault.node)
    return [(f" {what}@{','.join(where)} ", "onstate on partitioned b") for what, where in nodes.items()]


def troubles(tick: Tick) -> list[tuple[Run, Run]]:
    """A foreign driver, a replica that is down or fails, a link or disk that cannot: in words and
    shorter."""
    found: list[tuple[Run, Run]] = []
    if tick.viewer:
        driver = tick.load.driver if tick.load and tick.load.driver else "another app"
        chip = "onstate on async b"
        found.append(((f" VIEWER: {driver} drives the load ", chip), (" VIEWER ", chip)))
    found += [((spelled, "bad b"), (brief, "bad b")) for spelled, brief in _replica_faults(tick)]
    if faulty := next((link for link in (*tick.links, *tick.pairs) if link.fault), None):
        # The pair of the RTT has the figures already.
        told = faulty is tick.rtt and faulty.fault == contradiction_of(faulty)
        found.append((("link ▲" if told else f"link: {faulty.fault}", "warn b"), ("link ▲", "warn b")))
    if fault := next((disk.fault for disk in tick.disks if disk.fault and disk.delay_asked_ms), None):
        found.append(((f"disk: {fault}", "warn b"), ("disk ▲", "warn b")))
    return found


def _replica_faults(tick: Tick) -> list[tuple[str, str]]:
    """Replicas that are down or whose threads failed, in words and shorter."""
    found = []
    taken_down = {fault.node for fault in tick.faults if takes_down(fault)}
    for node in tick.nodes:
        if node.is_source or tick.state == "starting":
            continue
        threads = (("IO thread", node.io_thread), ("SQL thread", node.sql_thread))
        if not node.reachable and node.name in taken_down:
            continue
        if not node.reachable:
            found.append((f"✖ {node.name} down", f"✖ {node.name}"))
        elif broken := [word for word, state in threads if state == "error"]:
            found.append((f"✖ {node.name}: {' and '.join(broken)} error", f"✖ {node.name} {broken[0]}"))
    return found


def wait(protection: Protection) -> Segment:
    """`6 of 10 s, 32 commits wait`: how long the oldest commit has waited, of the time after which the
    source gives up; empty unless blocked."""
    if protection.state is not ProtectionState.BLOCKED or protection.oldest_wait_s is None:
        return ([],)
    timeout = "" if protection.timeout_ms is None else f" of {protection.timeout_ms / 1000:g}"
    clock: Run = (f"{int(protection.oldest_wait_s)}{timeout} s", "blocked b")
    if not protection.waiting:
        return ([clock],)
    count, plural = protection.waiting, "" if protection.waiting == 1 else "s"
    verb = "waits" if count == 1 else "wait"
    return (
        [clock, (f", {count} commit{plural} {verb}", "blocked b")],
        [clock, (f", {count} {verb}", "blocked b")],
        [clock],
    )


def acks(tick: Tick) -> Segment:
    """`1/1 ack`: replicas that acknowledge, of those that are required; `1/1 registered` while none can
    or does, and what the source counts beyond them: connections that it has not missed yet."""
    protection = tick.protection
    required = protection.replicas_required
    if required is None:
        return ([],)
    if system_of(tick.system).is_group:
        return _members(tick)
    acking, counted = protection.replicas_acking, protection.replicas_counted
    if acking is not None and tick.nodes:
        acking = min(acking, len(tick.replicas))
    stale = max(0, (counted or protection.replicas_acking or 0) - (acking or 0))
    is_silent = protection.no_ack_can_come or protection.state in _SILENT
    enough = (acking or 0) >= required and not is_silent
    ink = "muted" if protection.state is ProtectionState.OFF else "good b" if enough else "warn b"
    word, brief = ("registered", "reg") if is_silent else ("ack", "ack")
    more: Line = [(f" +{stale} stale", "warn b")] if stale else []
    pair = f"{figures.UNKNOWN if acking is None else acking}/{required}"
    return (
        [("semi-sync ", "muted"), (f"{pair} {word}", ink), *more],
        [(f"{pair} {brief}", ink), *more],
        [(pair, ink)],
        [],
    )


def _members(tick: Tick) -> Segment:
    """`members 3/3`: those that take part and that the others hear, of all nodes."""
    part = sum(node.member is not None and node.member.is_ready for node in tick.nodes)
    count = f"{part}/{len(tick.nodes)}"
    ink = "good b" if part == len(tick.nodes) else "warn b" if part else "bad b"
    return ([("members ", "muted"), (count, ink)], [(count, ink)], [])


def rtt(link: LinkView | None) -> Segment:
    """`RTT 85 → 85.4`: asked and measured, or measured alone; amber when they are not the same."""
    if link is None:
        return ([],)
    asked = f"{link.rtt_asked_ms:g}"
    measured = "none" if link.rtt_measured_ms is None else figures.round_trip(link.rtt_measured_ms)
    figure: Line = [(measured, "warn b" if rtt_is_apart(link) else "text b"), _rest(measured, _RTT_CELLS)]
    word: Run = ("RTT ", "muted")
    return ([word, (f"{asked} → ", "text b"), *figure], [word, *figure], [])


def _rest(text: str, cells: int) -> Run:
    """Blanks behind a figure up to this many cells."""
    return (" " * max(0, cells - len(text)), "text")


def fsync(disk: DiskView | None) -> Segment:
    """`fsync +2 → 2.2`: the delay asked and what an fsync takes; amber when it takes less.

    The measured figure alone, where nothing is asked, is the first to go.
    """
    if disk is None:
        return ([],)
    word: Run = ("fsync ", "muted")
    measured = figures.millis(disk.measured_ms)
    rest = _rest(measured, _MS_CELLS)
    if not disk.delay_asked_ms:
        return ([word, (measured, "text b"), rest], [])
    pair: Line = [
        word,
        (f"+{disk.delay_asked_ms:g} → ", "text b"),
        (measured, "warn b" if fsync_too_short(disk) else "text b"),
        rest,
    ]
    return (pair, pair, [])
