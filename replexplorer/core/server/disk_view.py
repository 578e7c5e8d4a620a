"""One node's disk: the delay asked and in force, and what an fsync takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from replexplorer.core.knobs.catalogue import ON_OFF, Value
from replexplorer.core.wire import DISK_KNOBS, DiskState, SetDisk


@dataclass(frozen=True, slots=True)
class DiskView:
    """One node's disk: the delay asked and in force, and what an fsync takes."""

    node: str
    delay_asked_ms: float = 0.0
    delay_ms: float | None = None
    """In force; None when unknown."""
    measured_ms: float | None = None
    """What the server pays for an fsync of redo or binlog, the delay included; None when none ran."""
    measured_n: int = 0
    probe_p50_ms: float | None = None
    """Synchronous writes of 512 bytes, the server and the delay not involved; None when not probed."""
    probe_p95_ms: float | None = None
    probe_p99_ms: float | None = None
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
    full: bool = False
    """No file of the server's can grow, as on a full disk."""
    stall_ms: float | None = None
    """What a fault adds to each fsync beside the delay; None when unknown."""

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
