"""One node's disk: the delay asked and in force, and what an fsync takes.

Whether a fault still has its effect: what was broken on purpose may have been repaired by hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

from replexplorer.core.fault import Fault
from replexplorer.core.json_keys import json_keys
from replexplorer.core.knobs import keys
from replexplorer.core.knobs.catalogue import ON_OFF, Value
from replexplorer.core.records import field, frozen
from replexplorer.core.server.node_view import NodeView
from replexplorer.core.wire import DiskState, SetDisk

DISK_KNOBS: Final[Mapping[str, str]] = {
    keys.FSYNC_DELAY: "delay_ms",
    keys.UNDO_JOURNAL: keys.UNDO_JOURNAL,  # the field has the same name
    keys.FSYNC_DELAY_REDO: "redo_delay_ms",
    keys.FSYNC_DELAY_BINLOG: "binlog_delay_ms",
    keys.FSYNC_JITTER: "jitter_ms",
}
"""Key of each disk knob to the field that carries it, in a SetDisk and in a DiskState."""


@frozen
class FsyncCounts:
    """Calls of fsync and fdatasync by class of file; None where it is not known."""

    redo: int | None = None
    binlog: int | None = None
    relay: int | None = None
    data: int | None = None
    other: int | None = None


@json_keys(
    hide="delay_asked_ms fsyncs undo_journal",
    show="fsync_counts",
    delay_ms="fsync_delay_ms",
    measured_ms="fsync_measured_ms",
    probe_p50_ms="disk_probe_ms",
    redo_delay_ms="fsync_delay_redo_ms",
    binlog_delay_ms="fsync_delay_binlog_ms",
    jitter_ms="fsync_jitter_ms",
    measured_by_kind_ms="fsync_measured_by_kind_ms",
    fsync_counts="fsyncs",
)
@frozen
class DiskView:
    """One node's disk: the delay asked and in force, and what an fsync takes."""

    node: str
    delay_asked_ms: float = 0.0
    delay_ms: float | None = None
    """In force; None when unknown."""
    measured_ms: float | None = None
    """What the server pays for an fsync of redo or binlog, the delay included; None when none ran."""
    probe_p50_ms: float | None = None
    """Synchronous writes of 512 bytes, the server and the delay not involved; None when not probed."""
    fsyncs: Mapping[str, int] | None = None
    """Calls by class of file: redo, binlog, relay, data, other."""
    fault: str | None = None
    """Why nothing can be set, in words."""
    undo_journal: bool | None = None
    """What a power cut would lose is kept; None when unknown."""
    redo_delay_ms: float | Literal["auto"] | None = None
    """In force for the redo log; `auto`: as for all kinds of files; None when unknown."""
    binlog_delay_ms: float | Literal["auto"] | None = None
    jitter_ms: float | None = None
    """Standard deviation of the delays, in force; None when unknown."""
    measured_by_kind_ms: Mapping[str, float] = field(default_factory=dict)
    """`measured_ms` of redo and binlog apart, each where it had any."""

    @property
    def fsync_counts(self) -> FsyncCounts:
        """`fsyncs`, every class by name."""
        return FsyncCounts(**(self.fsyncs or {}))

    @property
    def values(self) -> Mapping[str, Value]:
        """What is in force, by the key of each disk knob; without what is unknown."""
        return disk_values(self)


def disk_values(disk: DiskView | DiskState) -> Mapping[str, Value]:
    """What is in force, by the key of each disk knob; what crosses as a truth is a switch."""
    found = {key: getattr(disk, name) for key, name in DISK_KNOBS.items()}
    return {
        key: ON_OFF[value] if isinstance(value, bool) else value
        for key, value in found.items()
        if value is not None
    }


def asked_of_disk(key: str, value: Value) -> SetDisk:
    """The request that puts a disk knob's value in force."""
    carried: Any = value
    if value in ON_OFF:
        carried = value == "on"
    elif not isinstance(value, str):
        carried = float(value)
    return SetDisk(**{DISK_KNOBS[key]: carried})


SHOWS_WITHIN_S: Final = 5.0
"""How long a fault may be recorded before its node shows it."""


def is_over(fault: Fault, node: NodeView, uptime_s: float | None, now_s: float) -> bool:
    """Whether a node was seen to have nothing left of it, whoever ended it: its server runs again, its thread
    does. `uptime_s`: for how long its server has run; `now_s`: seconds since 1970 at that look.

    False for what a node does not show: cut links, a slow or full disk."""
    age_s = now_s - fault.since_wall_s
    if not node.reachable or age_s < SHOWS_WITHIN_S:
        return False
    match fault.kind:
        case "kill" | "stop":
            return uptime_s is not None and uptime_s < age_s
        case "pause":
            return True
        case "applier_stop":
            return node.sql_thread == "on" or node.is_source
        case "receiver_stop":
            return node.io_thread == "on" or node.is_source
    return False
