"""Whether a commit that was confirmed to a client survives a power cut of the source's machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from replexplorer.core.knobs import keys
from replexplorer.core.knobs.knob_view import KnobView
from replexplorer.core.knobs.names import SOURCE, KnobName, Value

_REDO_FSYNCS: Final = {1: 1, 3: 2}
"""Value of innodb_flush_log_at_trx_commit to the fsyncs that a commit waits for: MariaDB's 3 also waits for
one after it was committed (MariaDB knowledge base, "innodb_flush_log_at_trx_commit")."""


def redo_fsyncs(flush: object) -> int:
    """Fsyncs of the redo log that each commit waits for, by innodb_flush_log_at_trx_commit; 0: none."""
    return _REDO_FSYNCS.get(flush, 0) if isinstance(flush, int) else 0


def waits_for_both(sync_binlog: object, flush: object) -> bool:
    """Whether each commit waits until redo log and binlog are on the disk."""
    return sync_binlog == 1 and redo_fsyncs(flush) > 0


_WAITS: Final[Mapping[str, Callable[[object], bool]]] = {
    keys.SYNC_BINLOG: lambda value: value == 1,
    keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT: lambda value: redo_fsyncs(value) > 0,
}
"""Knob to whether each commit waits for its fsync."""


def lax_knobs(knobs: Mapping[KnobName, KnobView]) -> tuple[tuple[KnobName, Value], ...]:
    """The primary's knobs that let a power cut lose commits, with the value in force (the requested one
    while that is unknown); none: commits are durable."""
    found = []
    for key, waits in _WAITS.items():
        name = KnobName(key, SOURCE)
        view = knobs.get(name)
        value = None if view is None else view.requested if view.effective is None else view.effective
        if value is not None and not waits(value):
            found.append((name, value))
    return tuple((name, value) for name, value in found if value is not None)
