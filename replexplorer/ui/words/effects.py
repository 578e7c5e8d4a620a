"""What is in force for a knob and what is measured of it, in the words of the panel and the header.

Law: what somebody asked, what is in force and what is measured are three figures; amber is said only
where the later one contradicts an earlier one, and an unknown figure contradicts nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from replexplorer.core.knobs import keys
from replexplorer.core.knobs.knob_view import KnobView
from replexplorer.core.knobs.names import Backing, KnobName, format_value
from replexplorer.core.link import contradiction
from replexplorer.core.link_view import LinkView
from replexplorer.core.server.disk_view import DiskView
from replexplorer.core.server.protection import Protection, ProtectionState
from replexplorer.core.tick import Tick
from replexplorer.core.topology import SOURCE
from replexplorer.ui.words import figures

_TIMER_SHARE: Final = 0.02
"""By how much the server's timer may differ from the clock that a delay is slept by."""
_WIDEST: Final = 3
"""Standard deviations that a mean may be off, whatever number it is of."""
_KINDS: Final = {keys.FSYNC_DELAY_REDO: "redo", keys.FSYNC_DELAY_BINLOG: "binlog"}
"""Knob to the kind of file whose fsyncs it delays."""


class InForce(NamedTuple):
    """What is in force, in words, and whether it is what was asked for."""

    text: str
    as_asked: bool


class Measured(NamedTuple):
    """What is measured of a knob's effect, in words."""

    text: str = ""
    apart: bool = False
    """It contradicts what was asked for."""


def effect_of(view: KnobView, tick: Tick | None) -> InForce:
    """What is in force for a knob."""
    name = view.name
    if tick is not None and (told := _semi_sync_effect(name, tick.protection)):
        return told
    if view.effective is not None:
        return InForce(format_value(name.knob, view.effective), view.effective == view.requested)
    disk = _disk(name, tick)
    if disk is not None and disk.fault:
        return InForce("not possible", not disk.delay_asked_ms)
    return InForce(view.note or "unknown", view.note is not None)


def measured_of(name: KnobName, tick: Tick | None) -> Measured:
    """What is measured of a knob: a round trip, lost probes, an fsync; empty for other knobs."""
    link, disk = _link(name, tick), _disk(name, tick)
    if disk is not None and name.key == keys.FSYNC_DELAY and disk.measured_ms is not None:
        return Measured(figures.millis(disk.measured_ms), fsync_too_short(disk))
    kind = _KINDS.get(name.key)
    if disk is not None and kind is not None and kind in disk.measured_by_kind_ms:
        return Measured(figures.millis(disk.measured_by_kind_ms[kind]))
    if link is not None and name.key == keys.LOSS and link.probes_lost_percent is not None:
        return Measured(f"{link.probes_lost_percent:.3g} %")
    if link is not None and name.key == keys.RTT:
        if link.rtt_measured_ms is None:
            return Measured("none", apart=True)
        return Measured(figures.round_trip(link.rtt_measured_ms), rtt_is_apart(link))
    return Measured()


def rtt_is_apart(link: LinkView) -> bool:
    """The measured round trip contradicts the one that was asked for, or there is none."""
    return link.rtt_measured_ms is None or contradiction_of(link) is not None


def contradiction_of(link: LinkView) -> str | None:
    """What the measured round trip says against the one that was asked for, in words."""
    return contradiction(link.settings, link.rtt_measured_ms, link.rtt_base_ms)


def fsync_too_short(disk: DiskView) -> bool:
    """An fsync is measured to take less than the delay that was asked for it."""
    all_ms = disk.delay_asked_ms
    own = (disk.redo_delay_ms, disk.binlog_delay_ms)
    least_ms = min(each if isinstance(each, float) else all_ms for each in own)
    least_ms -= _WIDEST * (disk.jitter_ms or 0.0)
    return disk.measured_ms is not None and disk.measured_ms < least_ms * (1 - _TIMER_SHARE)


def _link(name: KnobName, tick: Tick | None) -> LinkView | None:
    """The link that a knob is about."""
    of_link = tick is not None and name.knob.backing is Backing.LINK
    links = (*tick.links, *tick.pairs) if tick is not None and of_link else ()
    return next((link for link in links if link.replica == name.node), None)


def _disk(name: KnobName, tick: Tick | None) -> DiskView | None:
    """The disk that a knob is about."""
    if tick is None or name.knob.backing is not Backing.DISK:
        return None
    if name.node == SOURCE:
        return tick.source_disk
    return next((disk for disk in tick.disks if disk.node == name.node), None)


def _semi_sync_effect(name: KnobName, protection: Protection) -> InForce | None:
    """Semi-sync's effect is the protection state, not the variable; acks are counted."""
    state = protection.state
    if state in (ProtectionState.DOWN, ProtectionState.OFF) or name.node != SOURCE:
        return None
    if name.key == keys.SEMI_SYNC_REPLICAS and protection.replicas_acking is not None:
        required = protection.replicas_required or 0
        return InForce(f"{protection.replicas_acking} of {required}", protection.replicas_acking >= required)
    told = {
        ProtectionState.ARMED: "armed",
        ProtectionState.BLOCKED: "waiting",
        ProtectionState.DEGRADED: "fell back",
    }
    return InForce(told[state], False) if name.key == keys.SEMI_SYNC and state in told else None
