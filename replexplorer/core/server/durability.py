"""Whether a commit that was confirmed to a client survives a crash of the primary's machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from replexplorer.core.knobs import keys
from replexplorer.core.knobs.knob_view import KnobView
from replexplorer.core.knobs.names import SOURCE, KnobName, Value

_AT_ONE: Final = (keys.SYNC_BINLOG, keys.INNODB_FLUSH_LOG_AT_TRX_COMMIT)
"""At 1 each commit waits for the fsync; at any other value it does not."""


def lax_knobs(knobs: Mapping[KnobName, KnobView]) -> tuple[tuple[KnobName, Value], ...]:
    """The primary's knobs that let a crash lose commits, with the value in force (the requested one
    while that is unknown); none: commits are durable."""
    found = []
    for key in _AT_ONE:
        name = KnobName(key, SOURCE)
        view = knobs.get(name)
        value = None if view is None else view.requested if view.effective is None else view.effective
        if value not in (None, 1):
            found.append((name, value))
    return tuple((name, value) for name, value in found if value is not None)
